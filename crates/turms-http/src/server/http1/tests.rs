//! Tests that requests are parsed independently of how their bytes are split, and that no input causes a panic.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Response;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use turms_core::BoxFuture;
use turms_server::{Args, Server, Tool};

#[cfg(feature = "server-http2")]
use super::connection::PREFACE;
use super::connection::{HttpConnection, HttpVersion};
use super::head::{HeadError, HeadParser, HeaderSpan, ParsedHead, RawHead};
use crate::framing::{ChunkDecoder, ChunkError};
use crate::server::ServeHttp as _;
use crate::server::handler::{BodyLimit, HttpHandler};
use crate::server::options::ConnectionLimits;
use crate::server::request::RequestHead;
use crate::server::request::body::BodyError;
use crate::server::response::HttpBody;

/// Parses the first head of input that arrives in pieces of these lengths.
fn first_head(input: &[u8], pieces: &[usize]) -> Result<Option<ParsedHead>, HeadError> {
    let mut parser = HeadParser::default();
    let mut read = 0;
    let mut pieces = pieces.iter().copied().cycle();
    loop {
        match parser.parse(&input[..read]) {
            Ok(None) if read < input.len() => read = (read + pieces.next().unwrap_or(1)).min(input.len()),
            parsed => return parsed,
        }
    }
}

/// Decodes a chunked body that arrives in pieces of these lengths. Also returns the bytes after it.
fn unchunked(input: &[u8], pieces: &[usize]) -> (Result<bool, ChunkError>, BytesMut, Vec<u8>) {
    let (mut chunks, mut body, mut come) = (ChunkDecoder::default(), BytesMut::new(), BytesMut::new());
    let mut rest = input;
    let mut pieces = pieces.iter().copied().cycle();
    loop {
        let taken = chunks.take(&mut come, &mut body, 1_000);
        if taken != Ok(false) || rest.is_empty() {
            return (taken, body, [&come, rest].concat());
        }
        let (piece, others) = rest.split_at(pieces.next().unwrap_or(1).min(rest.len()));
        come.extend_from_slice(piece);
        rest = others;
    }
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..40, 1..20)
}

/// Generates nearly valid input: concatenations of words.
fn nearly(alphabet: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(alphabet), 0..most).prop_map(|words| words.concat().into_bytes())
}

const HEAD_WORDS: &[&str] = &[
    "GET",
    "POST",
    " ",
    "/",
    "/mcp",
    "*",
    "http://a",
    "HTTP/1.1",
    "HTTP/1.0",
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "Host",
    ": ",
    ":",
    "localhost",
    "Content-Length",
    "0",
    "12",
    "Transfer-Encoding",
    "chunked",
    ",",
    "Connection",
    "close",
    "Accept",
    "Mcp-Name",
    "\t",
    "\0",
    "\u{e9}",
    "{",
    "?",
];
const CHUNK_WORDS: &[&str] =
    &["0", "1", "5", "a", "F", ";x=y", ";", "\r\n", "\r\n\r\n", "\r", "\n", "hello", "h", " ", "A: b", "3e8", "3e9"];

proptest! {
    #[test]
    fn heads_do_not_depend_on_how_they_are_cut(
        noise in any::<Vec<u8>>(),
        words in nearly(HEAD_WORDS, 60),
        lengths in lengths(),
    ) {
        let valid = [&b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Name: a b\r\n"[..], &words, b"\r\n\r\n"].concat();
        for input in [noise, words, valid] {
            let whole = first_head(&input, &[usize::MAX / 2]);
            let cut = first_head(&input, &lengths);
            prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
            if let Ok(Some(parsed)) = whole {
                let head = RawHead::new(Bytes::copy_from_slice(&input[..parsed.length]), parsed.target);
                let headers = head.header_map();
                prop_assert_eq!(parsed.headers.len(), headers.len());
                for HeaderSpan { name, value } in parsed.headers {
                    let name = head.get(name).unwrap();
                    let mut values = headers.get_all(name).iter().map(|value| value.to_str().ok());
                    prop_assert!(values.any(|sent| sent == head.get(value)), "{}", name);
                }
                let _ = (head.uri(), head.target());
            }
        }
    }

    #[test]
    fn chunks_do_not_depend_on_how_they_are_cut(
        noise in any::<Vec<u8>>(),
        words in nearly(CHUNK_WORDS, 60),
        lengths in lengths(),
    ) {
        for input in [noise, words] {
            prop_assert_eq!(unchunked(&input, &[usize::MAX / 2]), unchunked(&input, &lengths));
        }
    }

    #[test]
    fn an_encoded_chunked_body_is_decoded_again(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..100), 0..8),
        follows in any::<Vec<u8>>(),
        lengths in lengths(),
    ) {
        let mut input = Vec::new();
        for piece in &pieces {
            input.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            input.extend_from_slice(piece);
            input.extend_from_slice(b"\r\n");
        }
        input.extend_from_slice(b"0\r\n\r\n");
        input.extend_from_slice(&follows);
        let (taken, body, rest) = unchunked(&input, &lengths);
        prop_assert_eq!((taken, &body[..], rest), (Ok(true), &pieces.concat()[..], follows));
    }
}

async fn serve<H: HttpHandler>(io: DuplexStream, handler: &H) {
    serve_with(io, handler, ConnectionLimits::default()).await;
}

async fn serve_with<H: HttpHandler>(io: DuplexStream, handler: &H, limits: ConnectionLimits) {
    let mut connection = HttpConnection::new(io, None, limits, Arc::default());
    assert_eq!(connection.serve(handler).await, HttpVersion::Http1);
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// Returns the whole output for this input, over a stream with a buffer of this size.
async fn said_to(input: &[u8], room: usize) -> String {
    let add = Tool::builder("add").handler_sync(|Args(Add { a, b }): Args<Add>| (a + b).to_string());
    let service = Server::new("test", "1").tool(add).into_http_service().unwrap();
    let (ours, theirs) = tokio::io::duplex(room);
    let (mut reader, mut writer) = tokio::io::split(ours);
    let sending = async move {
        // The server may close the connection before it has read a rejected request.
        let _ = writer.write_all(input).await;
        writer
    };
    let hearing = async move {
        let mut said = String::new();
        reader.read_to_string(&mut said).await.unwrap();
        said
    };
    let (_, said, ()) = tokio::join!(sending, hearing, serve(theirs, &service));
    said.lines().filter(|line| !line.starts_with("date: ")).map(|line| format!("{line}\n")).collect()
}

fn post(version: &str, headers: &str, body: &str) -> String {
    format!(
        "POST /mcp {version}\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
         mcp-name: add\r\n{headers}\r\n{body}"
    )
}

/// Sends all kinds of requests over one connection, in pieces of every length.
#[tokio::test]
async fn a_conversation_does_not_depend_on_how_it_is_cut() {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let length = format!("content-length: {}\r\n", body.len());
    let (first, second) = body.split_at(100);
    let chunks = format!("64;a=b\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\nx: y\r\n\r\n", second.len());
    let conversation = [
        post("HTTP/1.1", &length, body),
        "\r\nDELETE /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello".to_owned(),
        post("HTTP/1.1", "transfer-encoding: chunked\r\n", &chunks),
        post("HTTP/1.0", &format!("connection: keep-alive\r\n{length}"), body),
        "HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(),
        post("HTTP/1.1", &format!("connection: close\r\n{length}"), body),
    ]
    .concat();
    let whole = said_to(conversation.as_bytes(), 64 * 1024).await;
    assert_eq!(whole.matches(r#""text":"3""#).count(), 4, "{whole}");
    assert_eq!(whole.matches("HTTP/1.1 ").count(), 6, "{whole}");
    // An unread body closes the connection unless it arrives with its head, so that one is left out here.
    let cut = conversation.replace("Content-Length: 5\r\n\r\nhello", "\r\n");
    let whole = said_to(cut.as_bytes(), 64 * 1024).await;
    for room in 1..300 {
        assert_eq!(said_to(cut.as_bytes(), room).await, whole, "in pieces of {room}");
    }
}

/// A handler with a short body timeout and slow responses.
struct Hasty;

const SECOND: Duration = Duration::from_secs(1);

impl HttpHandler for Hasty {
    async fn check(&self, _: &mut RequestHead) -> Result<BodyLimit, Box<Response<HttpBody>>> {
        Ok(BodyLimit::new(1_000, SECOND))
    }

    async fn handle(&self, _: RequestHead, _: Result<Bytes, BodyError>) -> Response<HttpBody> {
        tokio::time::sleep(SECOND).await;
        Response::new(HttpBody::empty())
    }

    fn shutdown_requested(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn begin_shutdown(&self) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// After a body timeout, bytes that arrive later are parsed neither as the body nor as a request.
#[tokio::test(start_paused = true)]
async fn bytes_after_a_body_timeout_are_not_read() {
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let asking = async move {
        ours.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab").await.unwrap();
        tokio::time::sleep(SECOND * 3 / 2).await;
        ours.write_all(b"cdefGET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut said = String::new();
        ours.read_to_string(&mut said).await.unwrap();
        said
    };
    let (said, ()) = tokio::join!(asking, serve(theirs, &Hasty));
    assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{said}");
    assert!(said.contains("connection: close"), "{said}");
}

/// Only a limited part of the input that arrives during a request is buffered. Further requests are not handled, and
/// the connection closes.
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_too_much_ahead_gets_one_response_and_is_disconnected() {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let last = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for (requests, answers) in [(1_000, 1_001), (10_000, 1)] {
        let hour = SECOND * 3_600;
        let limits = ConnectionLimits { header_timeout: hour, write_timeout: hour };
        // The stream has a small buffer, so that written bytes have been read.
        let (mut ours, theirs) = tokio::io::duplex(request.len());
        let asking = async move {
            ours.write_all(&[&request.repeat(requests), &last[..]].concat()).await.unwrap();
            let mut said = String::new();
            ours.read_to_string(&mut said).await.unwrap();
            said
        };
        let (said, ()) = tokio::join!(asking, serve_with(theirs, &Hasty, limits));
        assert_eq!(said.matches("HTTP/1.1 ").count(), answers);
        assert!(said.ends_with("connection: close\r\n\r\n"), "{said}");
    }
}

#[cfg(feature = "server-http2")]
#[tokio::test]
async fn the_http2_preface_is_returned_to_the_stream() {
    let (mut ours, theirs) = tokio::io::duplex(3);
    let service = Server::new("test", "1").into_http_service().unwrap();
    let preface = [PREFACE, b"and more"].concat();
    let sending = async {
        ours.write_all(&preface).await.unwrap();
        ours.shutdown().await.unwrap();
    };
    let receiving = async {
        let mut connection = HttpConnection::new(theirs, None, ConnectionLimits::default(), Arc::default());
        assert_eq!(connection.serve(&service).await, HttpVersion::Http2);
        let mut all = Vec::new();
        connection.io.rewind().read_to_end(&mut all).await.unwrap();
        all
    };
    let ((), all) = tokio::join!(sending, receiving);
    assert_eq!(all, preface);
}
