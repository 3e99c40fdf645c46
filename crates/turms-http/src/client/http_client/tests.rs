use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::client::dial_options::{DialOptions, DialProtocol};

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// The responses of a fake server on one connection, which it then closes.
type Script = Vec<&'static [u8]>;

/// Starts a fake server that takes these connections and no others.
async fn fake_server(scripts: Vec<Script>) -> Uri {
    let (listener, uri) = listen().await;
    tokio::spawn(async move {
        for script in scripts {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            for response in script {
                let request = read_request(&mut stream).await;
                assert!(request.starts_with("POST /mcp?key=1 HTTP/1.1\r\n"), "{request}");
                stream.write_all(response).await.unwrap();
            }
        }
    });
    uri
}

async fn listen() -> (TcpListener, Uri) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/mcp?key=1", listener.local_addr().unwrap()).parse().unwrap();
    (listener, uri)
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        assert!(stream.read_buf(&mut read).await.unwrap() > 0, "the client closes the connection");
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return text.into_owned();
            }
        }
    }
}

fn client_for(uri: &Uri, connect_timeout: Duration, read_timeout: Option<Duration>) -> HttpClient {
    let mut options = DialOptions::new();
    options.set_no_proxy();
    options.set_connect_timeout(connect_timeout);
    HttpClient::new(options.build(uri, DialProtocol::Http).unwrap(), uri, read_timeout)
}

fn client(uri: &Uri) -> HttpClient {
    client_for(uri, Duration::from_secs(5), None)
}

async fn post(client: &HttpClient, uri: &Uri, body: impl Into<Bytes>) -> Result<(StatusCode, Vec<u8>), SendError> {
    let request = Request::builder().method(Method::POST).uri(uri).body(body.into()).unwrap();
    let response = client.send(request).await?;
    let (status, mut body) = (response.status(), response.into_body());
    let mut whole = Vec::new();
    while let Some(piece) = body.next().await? {
        whole.extend_from_slice(&piece);
    }
    Ok((status, whole))
}

async fn post_once(response: &'static [u8]) -> Result<(StatusCode, Vec<u8>), SendError> {
    let uri = fake_server(vec![vec![response]]).await;
    post(&client(&uri), &uri, "{}").await
}

#[tokio::test]
async fn a_connection_is_reused_once_its_response_was_read() {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let uri = fake_server(vec![vec![EMPTY, chunked, EMPTY]]).await;
    let client = client(&uri);
    for expected in ["", "abc", ""] {
        assert_eq!(post(&client, &uri, "{}").await.unwrap(), (StatusCode::OK, expected.into()));
    }
}

/// Nothing of the request was written, so it is sent again on another connection.
#[tokio::test]
async fn a_connection_that_the_server_closed_is_replaced() {
    for last in [
        EMPTY,
        b"HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    ] {
        let uri = fake_server(vec![vec![last], vec![EMPTY]]).await;
        let client = client(&uri);
        post(&client, &uri, "{}").await.unwrap();
        post(&client, &uri, "{}").await.unwrap();
    }
}

/// The server has read the request, so it may have run.
#[tokio::test]
async fn a_request_that_was_written_is_not_repeated() {
    let (listener, uri) = listen().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(EMPTY).await.unwrap();
        read_request(&mut stream).await;
        drop(stream);
        listener
    };
    let client = client(&uri);
    let call = async {
        post(&client, &uri, "{}").await.unwrap();
        tokio::time::timeout(Duration::from_secs(10), post(&client, &uri, "{}")).await
    };
    let (second, listener) = tokio::join!(call, serve);
    assert!(!second.expect("an error").unwrap_err().is_connect());
    let mut accepting = std::pin::pin!(listener.accept());
    assert!(poll_fn(|cx| std::task::Poll::Ready(accepting.as_mut().poll(cx).is_pending())).await);
}

#[tokio::test]
async fn a_response_that_is_cut_is_an_error() {
    for response in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let error = post_once(response).await.unwrap_err();
        assert!(!error.is_connect() && !error.is_not_http(), "{response:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_speak_http_is_recognized() {
    for response in [&b"\x15\x03\x01\x00\x02\x02\x46"[..], b"SSH-2.0-x\r\n", b"<html>\r\n\r\n"] {
        let error = post_once(response).await.unwrap_err();
        assert!(error.is_not_http() && !error.is_connect(), "{error:?}");
    }
    for response in [&b"HTTP/1.1 200 OK\r\nno header\r\n\r\n"[..], b"HTTP/1.1 2x0 OK\r\n\r\n"] {
        let error = post_once(response).await.unwrap_err();
        assert!(!error.is_not_http() && !error.is_connect(), "{error:?}");
    }
}

#[tokio::test]
async fn a_response_is_received_before_all_of_the_request_was_sent() {
    let (listener, uri) = listen().await;
    let refuse = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        stream
    };
    let client = client(&uri);
    let (response, _stream) = tokio::join!(post(&client, &uri, vec![b' '; 64 * 1024 * 1024]), refuse);
    assert_eq!(response.unwrap().0, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_request_is_sent_to_its_end_while_its_response_is_read() {
    let (listener, uri) = listen().await;
    let body = vec![b'!'; 16 * 1024 * 1024];
    let length = body.len();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let (mut read, mut received) = (vec![0; 64 * 1024], 0);
        while received < length {
            let count = stream.read(&mut read).await.unwrap();
            assert!(count > 0, "the request ends after {received} bytes");
            received += read[..count].iter().filter(|byte| **byte == b'!').count();
        }
        stream.write_all(b"2\r\nok\r\n0\r\n\r\n").await.unwrap();
        stream
    };
    let client = client_for(&uri, Duration::from_secs(5), Some(Duration::from_secs(5)));
    let (response, _stream) = tokio::join!(post(&client, &uri, body), serve);
    assert_eq!(response.unwrap().1, b"ok");
}

#[tokio::test]
async fn a_silent_server_is_given_up_after_the_read_timeout() {
    let (_listener, uri) = listen().await;
    let limit = Duration::from_millis(20);
    let silent = post(&client_for(&uri, Duration::from_secs(5), Some(limit)), &uri, "{}").await;
    assert!(matches!(silent, Err(SendError::ReadTimeout(after)) if after == limit));

    let (listener, uri) = listen().await;
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na").await.unwrap();
        stream
    };
    let client = client_for(&uri, Duration::from_secs(5), Some(limit));
    let (silent, _stream) = tokio::join!(post(&client, &uri, "{}"), serve);
    assert!(matches!(silent, Err(SendError::ReadTimeout(after)) if after == limit));
}

/// Resolving a name takes a thread of the runtime, and there may be no free one.
#[test]
fn name_resolution_is_within_the_connect_timeout() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        tokio::task::spawn_blocking(move || ended.recv());
        let uri: Uri = "http://localhost:9/".parse().unwrap();
        let client = client_for(&uri, Duration::from_millis(20), None);
        let response = tokio::time::timeout(Duration::from_secs(10), post(&client, &uri, "{}")).await;
        assert!(response.expect("a timeout").unwrap_err().is_connect());
    });
    drop(end);
}

#[tokio::test]
async fn a_refused_connection_has_sent_nothing() {
    let (listener, uri) = listen().await;
    drop(listener);
    let error = post(&client(&uri), &uri, "{}").await.unwrap_err();
    assert!(error.is_connect());
    assert!(error.source().is_some_and(|source| source.to_string().contains("tcp connect error")), "{error:?}");
}
