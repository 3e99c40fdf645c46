//! Raw requests over HTTP/1.1, each sent to the HTTP/1.1 implementation of this crate and to hyper, with the same service. Where
//! the two differ, the table has the reason.
//!
//! Each request is a call that adds 1 and 1, changed in one respect, and is followed by a call that adds 40 and 1 on the same
//! connection. An outcome of "2 41" means that client and server agree where the first request ends. A call that adds 100 and 1 is
//! hidden in the body of some requests; its result, 101, never appears.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use turms_http::{Listener, ServeHttp as _};
use turms_testkit::within;

use crate::dialog::modern_body;
use crate::fixture::{Fixture, Traces, server};
use crate::wire::{Connection, Response};

struct Row {
    name: &'static str,
    bytes: Vec<u8>,
    /// The results of successful calls and the statuses of other responses. Those after `|` are sent after the client has shut
    /// down its writing side. Without `|` and without a result of the second call, the server closes the connection by itself.
    ours: &'static str,
    hypers: &'static str,
    /// The reason for the difference; empty if there is none.
    why: &'static str,
    /// `true` if no second call follows.
    is_alone: bool,
}

fn row(
    name: &'static str,
    bytes: impl Into<Vec<u8>>,
    ours: &'static str,
    hypers: &'static str,
    why: &'static str,
) -> Row {
    Row { name, bytes: bytes.into(), ours, hypers, why, is_alone: false }
}

/// A row in which both implementations do the same.
fn same(name: &'static str, bytes: impl Into<Vec<u8>>, both: &'static str) -> Row {
    row(name, bytes, both, both, "")
}

const LINE: &str = "POST /mcp HTTP/1.1";
const HOST: &str = "Host: localhost\r\n";
const OTHERS: &str = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
    MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: add\r\n";

/// A call that adds a number and 1.
fn body(a: i64) -> String {
    modern_body(1, "tools/call", json!({ "name": "add", "arguments": { "a": a, "b": 1 } })).to_string()
}

fn length() -> usize {
    body(1).len()
}

fn call(a: i64) -> String {
    let body = body(a);
    format!("{LINE}\r\n{HOST}{OTHERS}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// The call with another request line.
fn line(line: &str) -> String {
    call(1).replacen(LINE, line, 1)
}

/// The call to another target.
fn target(target: &str) -> String {
    line(&format!("POST {target} HTTP/1.1"))
}

/// The call with other `Host` lines.
fn host(lines: &str) -> String {
    call(1).replacen(HOST, lines, 1)
}

/// The call with more header lines.
fn more(lines: &str) -> String {
    host(&format!("{HOST}{lines}"))
}

/// The call with other framing, and what follows the head.
fn framed(lines: &str, rest: &str) -> String {
    format!("{LINE}\r\n{HOST}{OTHERS}{lines}\r\n{rest}")
}

/// The call with other framing lines; `N` stands for the length of the body.
fn sized(lines: &str) -> String {
    framed(&lines.replace('N', &length().to_string()), &body(1))
}

/// The call with a chunked body; `N` stands for the length of the body, `B` for the body.
fn chunked(chunks: &str) -> String {
    let chunks = chunks.replace('N', &format!("{:x}", length())).replace('B', &body(1));
    framed("Transfer-Encoding: chunked\r\n", &chunks)
}

/// The call with another coding of a body that is chunked.
fn coded(lines: &str) -> String {
    framed(lines, &format!("{:x}\r\n{}\r\n0\r\n\r\n", length(), body(1)))
}

// Reasons that several rows share.
const CODING: &str = "a coding that cannot be decoded is 501 (RFC 9112, 6.1); hyper has 400 for it";
const CODINGS: &str =
    "a list of codings that is not \"chunked\" alone may be read in two ways; hyper looks at the last one only";
const LINE_FEED: &str =
    "a line feed alone ends no line here, so that no other reader can see another end; hyper takes it for one";
const CONTROL: &str =
    "an extension is of visible characters, spaces and tabs (RFC 9112, 7.1.1); hyper skips whatever is there";
const INVALID_HOST: &str =
    "an invalid or repeated host is 400 (RFC 9112, 3.2); hyper does not check it, so the service refuses the host";
const LENGTH_AND_CODING: &str =
    "both together are how requests are smuggled (RFC 9112, 11.2); hyper ignores the length and closes";

fn rows() -> Vec<Row> {
    [lengths(), codings(), chunks(), trailers(), heads(), targets(), hosts(), connections(), broken()]
        .into_iter()
        .flatten()
        .collect()
}

fn lengths() -> Vec<Row> {
    vec![
        same("a length", sized("Content-Length: N\r\n"), "2 41"),
        same("no body", framed("", ""), "400 41"),
        same("a length with zeros before it", sized("Content-Length: 000N\r\n"), "2 41"),
        same("a length with whitespace around it", sized("Content-Length: \t N \t\r\n"), "2 41"),
        row(
            "the same length twice",
            sized("Content-Length: N\r\nContent-Length: N\r\n"),
            "400",
            "2 41",
            "one length is enough, and a sender that repeats it may do so by mistake; hyper takes those that agree",
        ),
        same("two lengths", sized("Content-Length: N\r\nContent-Length: 1\r\n"), "400"),
        same("a list of the same length", sized("Content-Length: N, N\r\n"), "400"),
        same("a list of two lengths", sized("Content-Length: N, 1\r\n"), "400"),
        same("a length with a plus", sized("Content-Length: +N\r\n"), "400"),
        same("a negative length", sized("Content-Length: -N\r\n"), "400"),
        same("a length in hexadecimal", sized("Content-Length: 0x10\r\n"), "400"),
        same("an empty length", sized("Content-Length:\r\n"), "400"),
        same("a length with a fraction", sized("Content-Length: N.0\r\n"), "400"),
        same("a length and a word", sized("Content-Length: N x\r\n"), "400"),
        same("a length in quotes", sized("Content-Length: \"N\"\r\n"), "400"),
        same("a length of other digits", sized("Content-Length: \u{661}\r\n"), "400"),
        same("a length beyond 64 bits", sized("Content-Length: 99999999999999999999\r\n"), "400"),
        row(
            "the longest length of 64 bits",
            sized("Content-Length: 18446744073709551615\r\n"),
            "413",
            "431",
            "the body is longer than the limit; hyper cannot count so far",
        ),
        same("a body beyond the limit", sized("Content-Length: 4194305\r\n"), "413"),
        same("a space before the colon of a length", sized("Content-Length : N\r\n"), "400"),
        same("a length under another name", sized("Content_Length: N\r\n"), "400 400"),
        same(
            "a length that hides a call",
            framed(&format!("Content-Length: {}\r\n", call(100).len()), &call(100)),
            "400 41",
        ),
    ]
}

fn codings() -> Vec<Row> {
    vec![
        same("chunked", coded("Transfer-Encoding: chunked\r\n"), "2 41"),
        same("chunked in other letters", coded("TRANSFER-ENCODING: ChunkeD\r\n"), "2 41"),
        same("chunked after a tab", coded("Transfer-Encoding:\tchunked\r\n"), "2 41"),
        same("chunked after a vertical tab", coded("Transfer-Encoding: \x0bchunked\r\n"), "400"),
        same("chunked on a line of its own", coded("Transfer-Encoding:\r\n chunked\r\n"), "400"),
        row("chunked and a comma", coded("Transfer-Encoding: chunked,\r\n"), "501", "400", CODING),
        row("chunked with a parameter", coded("Transfer-Encoding: chunked;q=1\r\n"), "501", "400", CODING),
        row("chunked twice in one line", coded("Transfer-Encoding: chunked, chunked\r\n"), "501", "2 41", CODINGS),
        row(
            "chunked in two lines",
            coded("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
            "501",
            "2 41",
            CODINGS,
        ),
        row("chunked and then another", coded("Transfer-Encoding: chunked, gzip\r\n"), "501", "400", CODING),
        row("another and then chunked", coded("Transfer-Encoding: gzip, chunked\r\n"), "501", "2 41", CODINGS),
        row("another coding", coded("Transfer-Encoding: gzip\r\n"), "501", "400", CODING),
        row("an unknown coding", coded("Transfer-Encoding: xchunked\r\n"), "501", "400", CODING),
        row("the identity coding", coded("Transfer-Encoding: identity\r\n"), "501", "400", CODING),
        row("an empty coding", coded("Transfer-Encoding:\r\n"), "501", "400", CODING),
        same("a space before the colon of a coding", coded("Transfer-Encoding : chunked\r\n"), "400"),
        same("a coding under another name", coded("Transfer_Encoding: chunked\r\n"), "400 400"),
        same(
            "a coding in HTTP/1.0",
            coded("Transfer-Encoding: chunked\r\n").replacen("HTTP/1.1", "HTTP/1.0", 1),
            "400",
        ),
        row(
            "a length and a coding",
            coded("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
            "400",
            "2",
            LENGTH_AND_CODING,
        ),
        row(
            "a coding and a length",
            coded("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
            "400",
            "2",
            LENGTH_AND_CODING,
        ),
        same(
            "a coding that hides a call from a length",
            framed(
                &format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", call(100).len() + 5),
                &format!("0\r\n\r\n{}", call(100)),
            ),
            "400",
        ),
        same(
            "a call hidden behind an unknown coding",
            framed("Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n", &format!("0\r\n\r\n{}", call(100))),
            "400",
        ),
    ]
}

fn chunks() -> Vec<Row> {
    vec![
        same(
            "two chunks",
            {
                let body = body(1);
                let (first, second) = body.split_at(7);
                chunked(&format!("7\r\n{first}\r\n{:x}\r\n{second}\r\n0\r\n\r\n", second.len()))
            },
            "2 41",
        ),
        same(
            "a size in capitals",
            chunked("N\r\nB\r\n0\r\n\r\n").replace(&format!("{:x}\r\n", length()), &format!("{:X}\r\n", length())),
            "2 41",
        ),
        same("a size with zeros before it", chunked("000N\r\nB\r\n0\r\n\r\n"), "2 41"),
        row(
            "a size of many zeros",
            chunked("00000000000000000000N\r\nB\r\n0\r\n\r\n"),
            "400",
            "2 41",
            "a size has at most 16 digits, so that every reader can count it; hyper skips zeros",
        ),
        same("a last chunk of many zeros", chunked("N\r\nB\r\n000\r\n\r\n"), "2 41"),
        same("an extension", chunked("N;a=b\r\nB\r\n0\r\n\r\n"), "2 41"),
        same("an extension in quotes", chunked("N;a=\"b;c\"\r\nB\r\n0\r\n\r\n"), "2 41"),
        same("an extension without a value", chunked("N;a\r\nB\r\n0;a\r\n\r\n"), "2 41"),
        same("spaces before an extension", chunked("N \t;a\r\nB\r\n0\r\n\r\n"), "2 41"),
        row(
            "a long extension",
            chunked(&format!("N;{}\r\nB\r\n0\r\n\r\n", "a".repeat(300))),
            "400",
            "2 41",
            "a line before a chunk has at most 256 bytes; hyper limits all extensions together",
        ),
        same("a line break in an extension", chunked("N;a\nb\r\nB\r\n0\r\n\r\n"), "400"),
        same("a carriage return in an extension", chunked("N;a\rb\r\nB\r\n0\r\n\r\n"), "400"),
        row("a null in an extension", chunked("N;a\0b\r\nB\r\n0\r\n\r\n"), "400", "2 41", CONTROL),
        row("an escape in an extension", chunked("N;a=\"\x1b[2J\"\r\nB\r\n0\r\n\r\n"), "400", "2 41", CONTROL),
        row("a null in the last extension", chunked("N\r\nB\r\n0;\0\r\n\r\n"), "400", "2 41", CONTROL),
        same("a tab in an extension", chunked("N;a=\"b\tc\"\r\nB\r\n0\r\n\r\n"), "2 41"),
        same("letters beyond ASCII in an extension", chunked("N;a=\"\u{e9}\"\r\nB\r\n0\r\n\r\n"), "2 41"),
        same("a form feed before an extension", chunked("N\x0c;a\r\nB\r\n0\r\n\r\n"), "400"),
        row(
            "a space after a size",
            chunked("N \r\nB\r\n0\r\n\r\n"),
            "400",
            "2 41",
            "the grammar has no space there (RFC 9112, 7.1); hyper skips it",
        ),
        same("a space before a size", chunked(" N\r\nB\r\n0\r\n\r\n"), "400"),
        same("a size with a prefix", chunked("0xN\r\nB\r\n0\r\n\r\n"), "400"),
        same("a size with a plus", chunked("+N\r\nB\r\n0\r\n\r\n"), "400"),
        same("a negative size", chunked("-N\r\nB\r\n0\r\n\r\n"), "400"),
        same("no size", chunked("\r\nB\r\n0\r\n\r\n"), "400"),
        same("an invalid size", chunked("x\r\nB\r\n0\r\n\r\n"), "400"),
        same("a size beyond 64 bits", chunked("1000000000000000N\r\nB\r\n0\r\n\r\n"), "400"),
        same("a line feed after a size", chunked("N\nB\r\n0\r\n\r\n"), "400"),
        same("a line feed after a chunk", chunked("N\r\nB\n0\r\n\r\n"), "400"),
        same("nothing after a chunk", chunked("N\r\nB0\r\n\r\n"), "400"),
        same("a chunk that is too short", chunked("N\r\nBx\r\n0\r\n\r\n"), "400"),
    ]
}

fn trailers() -> Vec<Row> {
    vec![
        same("a trailer", chunked("N\r\nB\r\n0\r\nX-A: b\r\n\r\n"), "2 41"),
        same("a length as a trailer", chunked("N\r\nB\r\n0\r\nContent-Length: 5\r\n\r\n"), "2 41"),
        same("an invalid trailer", chunked("N\r\nB\r\n0\r\nnonsense\r\n\r\n"), "400"),
        same("a trailer without a name", chunked("N\r\nB\r\n0\r\n: b\r\n\r\n"), "400"),
        same("a space before the colon of a trailer", chunked("N\r\nB\r\n0\r\nX-A : b\r\n\r\n"), "400"),
        same("a folded trailer", chunked("N\r\nB\r\n0\r\nX-A: b\r\n c\r\n\r\n"), "400"),
        row("a line feed after a trailer", chunked("N\r\nB\r\n0\r\nX-A: b\n\r\n"), "400", "2 400", LINE_FEED),
        same("a null in a trailer", chunked("N\r\nB\r\n0\r\nX-A: b\0c\r\n\r\n"), "400"),
        same("no empty line after the last chunk", chunked("N\r\nB\r\n0\r\n"), "400"),
        row("a line feed after the last chunk", chunked("N\r\nB\r\n0\r\n\n"), "400", "2 400", LINE_FEED),
        same("many trailers", chunked(&format!("N\r\nB\r\n0\r\n{}\r\n", "A: b\r\n".repeat(101))), "400"),
        same("a long trailer", chunked(&format!("N\r\nB\r\n0\r\nX-A: {}\r\n\r\n", "a".repeat(17_000))), "400"),
    ]
}

fn heads() -> Vec<Row> {
    let long = "a".repeat(66_000);
    let many = |count: usize| {
        (0..count).fold(String::new(), |mut lines, n| {
            let _ = write!(lines, "X-{n}: a\r\n");
            lines
        })
    };
    vec![
        same("empty lines before a request", format!("\r\n\r\n{}", call(1)), "2 41"),
        row("a line feed before a request", format!("\n{}", call(1)), "400", "2 41", LINE_FEED),
        same("a space before a request", format!(" {}", call(1)), "400"),
        row("line feeds alone", call(1).replace("\r\n", "\n"), "400", "2 41", LINE_FEED),
        row("one line feed alone", more("X-A: b\nX-B: c\r\n"), "400", "2 41", LINE_FEED),
        same("a carriage return in a value", more("X-A: b\rc\r\n"), "400"),
        same("a null in a value", more("X-A: b\0c\r\n"), "400"),
        same("a delete character in a value", more("X-A: b\x7fc\r\n"), "400"),
        same("a tab in a value", more("X-A: b\tc\r\n"), "2 41"),
        same("letters beyond ASCII in a value", more("X-A: \u{e9}\r\n"), "2 41"),
        same("an empty value", more("X-A:\r\n"), "2 41"),
        same("a folded value", more("X-A: b\r\n c\r\n"), "400"),
        same("a space before the first header", host(&format!(" {HOST}")), "400"),
        same("a header without a colon", more("nonsense\r\n"), "400"),
        same("a header without a name", more(": b\r\n"), "400"),
        same("a space in a name", more("X A: b\r\n"), "400"),
        same("a space before a colon", more("X-A : b\r\n"), "400"),
        same("letters beyond ASCII in a name", more("X-\u{e9}: b\r\n"), "400"),
        same("two spaces in the request line", line("POST  /mcp HTTP/1.1"), "400"),
        same("a tab in the request line", line("POST\t/mcp\tHTTP/1.1"), "400"),
        same("a space after the request line", line("POST /mcp HTTP/1.1 "), "400"),
        same("no version", line("POST /mcp"), "400"),
        same("a minor version beyond 1", line("POST /mcp HTTP/1.2"), "400"),
        same("a major version beyond 1", line("POST /mcp HTTP/2.0"), "400"),
        same("the version in small letters", line("POST /mcp http/1.1"), "400"),
        same("the method in small letters", line("post /mcp HTTP/1.1"), "405 41"),
        same("an unknown method", line("FETCH /mcp HTTP/1.1"), "405 41"),
        same("an invalid method", line("P@ST /mcp HTTP/1.1"), "400"),
        same("as many headers as are allowed", more(&many(93)), "2 41"),
        same("one header too many", more(&many(94)), "431"),
        same("a long value", more(&format!("X-A: {long}\r\n")), "431"),
        same("a long name", more(&format!("{long}: a\r\n")), "431"),
    ]
}

fn targets() -> Vec<Row> {
    let long = format!("/{}", "a".repeat(66_000));
    vec![
        same("a target in absolute form", target("http://localhost/mcp"), "2 41"),
        same("another scheme", target("https://localhost/mcp"), "2 41"),
        row(
            "a scheme that is not of HTTP",
            target("ftp://localhost/mcp"),
            "400",
            "2 41",
            "this server has no resources of another scheme (RFC 9110, 7.4); hyper leaves that to the service",
        ),
        same("the scheme in capitals", target("HTTP://localhost/mcp"), "2 41"),
        same("another host in the target", target("http://evil.example/mcp"), "403 41"),
        same("a target without a path", target("http://localhost"), "2 41"),
        same("a target without a host", target("http:///mcp"), "400"),
        same("a user in the target", target("http://user@localhost/mcp"), "403 41"),
        row(
            "a host as the target",
            target("localhost:80"),
            "400",
            "2 41",
            "only CONNECT has such a target (RFC 9112, 3.2.3); hyper leaves that to the service",
        ),
        same("a host as the target of CONNECT", line("CONNECT localhost:80 HTTP/1.1"), "405 41"),
        row(
            "the server as the target",
            target("*"),
            "400",
            "2 41",
            "only OPTIONS has such a target (RFC 9112, 3.2.4); hyper leaves that to the service",
        ),
        same("the server as the target of OPTIONS", line("OPTIONS * HTTP/1.1"), "405 41"),
        same("a target that begins with two slashes", target("//evil.example/mcp"), "2 41"),
        row(
            "a target without a slash",
            target("mcp"),
            "400",
            "403 41",
            "a host is the target of CONNECT only; hyper takes it for a host, which is not served",
        ),
        same("no target", target(""), "400"),
        same("a target with a space", target("/m cp"), "400"),
        same("a target with a null", target("/m\0cp"), "400"),
        same("a target with letters beyond ASCII", target("/m\u{e9}cp"), "2 41"),
        same("a target with escapes", target("/%6Dcp?a=%20"), "2 41"),
        same("a target with an invalid escape", target("/%zz"), "2 41"),
        same("a target with a fragment", target("/mcp#a"), "2 41"),
        same("a target with a backslash", target("/a\\b"), "2 41"),
        same("a target with braces", target("/{a}|b"), "2 41"),
        same("a target with dots", target("/a/../mcp"), "2 41"),
        same("a long target", target(&long), "431"),
    ]
}

fn hosts() -> Vec<Row> {
    vec![
        same("a port", host("Host: localhost:8080\r\n"), "2 41"),
        same("an address in brackets", host("Host: [::1]:8080\r\n"), "2 41"),
        same("another host", host("Host: evil.example\r\n"), "403 41"),
        row(
            "no host",
            host(""),
            "400",
            "2 41",
            "HTTP/1.1 needs a host (RFC 9112, 3.2); hyper leaves that to the service",
        ),
        row("an empty host", host("Host:\r\n"), "400", "403 41", INVALID_HOST),
        row("the same host twice", host("Host: localhost\r\nHost: localhost\r\n"), "400", "403 41", INVALID_HOST),
        row("two hosts", host("Host: localhost\r\nHost: evil.example\r\n"), "400", "403 41", INVALID_HOST),
        row("a list of hosts", host("Host: localhost, evil.example\r\n"), "400", "403 41", INVALID_HOST),
        row("a user before the host", host("Host: user@localhost\r\n"), "400", "403 41", INVALID_HOST),
        row("an invalid port", host("Host: localhost:http\r\n"), "400", "403 41", INVALID_HOST),
        row("a path after the host", host("Host: localhost/mcp\r\n"), "400", "403 41", INVALID_HOST),
        same("a space before the colon of the host", host("Host : localhost\r\n"), "400"),
        same("no host in HTTP/1.0", host("").replacen("HTTP/1.1", "HTTP/1.0", 1), "2"),
    ]
}

fn connections() -> Vec<Row> {
    vec![
        same("two calls at once", [call(1), call(1)].concat(), "2 2 41"),
        same("HTTP/1.0", line("POST /mcp HTTP/1.0"), "2"),
        same("HTTP/1.0 that goes on", more("Connection: keep-alive\r\n").replacen("HTTP/1.1", "HTTP/1.0", 1), "2 41"),
        same("the last request", more("Connection: close\r\n"), "2"),
        same("the last request, by a list of options", more("Connection: keep-alive, Close\r\n"), "2"),
        same("an upgrade that is not offered", more("Connection: upgrade\r\nUpgrade: websocket\r\n"), "2 41"),
        same(
            "an upgrade to HTTP/2",
            more("Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
            "2 41",
        ),
        same("a framing header that belongs to the connection", more("Connection: content-length\r\n"), "2 41"),
        row(
            "a client that does not wait for 100 Continue",
            more("Expect: 100-continue\r\n"),
            "2 41",
            "100 2 41",
            "the body has arrived already, so the client does not wait; hyper sends 100 anyway",
        ),
        same("another expectation", more("Expect: cake\r\n"), "2 41"),
        same("a body of a request that needs none", line("DELETE /mcp HTTP/1.1"), "405 41"),
        same("a body of GET", line("GET /mcp HTTP/1.1"), "405 41"),
        same(
            "a call hidden in the body of GET",
            format!("GET /mcp HTTP/1.1\r\n{HOST}Content-Length: {}\r\n\r\n{}", call(100).len(), call(100)),
            "406 41",
        ),
        row(
            "a body of OPTIONS in chunks",
            coded("Transfer-Encoding: chunked\r\n").replacen("POST", "OPTIONS", 1),
            "405",
            "405 41",
            "a body that is not wanted is skipped only if its length is known; hyper reads it",
        ),
    ]
}

/// Unfinished requests, and requests that are refused before their end.
fn broken() -> Vec<Row> {
    let mut rows = vec![
        row(
            "a size beyond the limit",
            chunked("400001\r\nB\r\n0\r\n\r\n"),
            "413",
            "| 400",
            "the size alone shows that the body is too long; hyper's body is counted as it arrives",
        ),
        same("nothing", "", "|"),
        same("half a request line", "POST /mcp", "|"),
        same("half a head", &framed("", "")[..80], "|"),
        same("half a body", &call(1)[..call(1).len() - 1], "| 400"),
        same(
            "half a chunk",
            chunked("N\r\nB\r\n0\r\n\r\n").split_at(framed("Transfer-Encoding: chunked\r\n", "").len() + 20).0,
            "| 400",
        ),
        same("no last chunk", chunked("N\r\nB\r\n"), "| 400"),
        same("half a last chunk", chunked("N\r\nB\r\n0\r\n"), "| 400"),
        same(
            "a client that waits for 100 Continue",
            framed("Content-Length: 500\r\nExpect: 100-continue\r\n", ""),
            "100 | 400",
        ),
    ];
    rows.iter_mut().for_each(|row| row.is_alone = true);
    rows
}

/// Checks the outcome of a row at an address.
async fn check(who: &str, address: SocketAddr, row: &Row, expected: &str) {
    let mut connection = Connection::open(address).await;
    let next = if row.is_alone { String::new() } else { call(40) };
    // A server may close the connection of a refused request before it has read everything.
    let _ = connection.socket.write_all(&[&row.bytes[..], next.as_bytes()].concat()).await;
    let (before, after) = expected.split_once('|').unwrap_or((expected, ""));
    for expected in before.split_whitespace() {
        let response = within(row.name, connection.try_response()).await;
        let found = response.as_ref().map(one_outcome);
        assert_eq!(found.as_deref(), Some(expected), "{who}: {}: {response:?}", row.name);
    }
    // A connection that stays open does so until the client shuts down its writing side.
    if expected.contains('|') || expected.ends_with("41") {
        let _ = connection.socket.shutdown().await;
    }
    let mut rest = Vec::new();
    while let Some(response) = within(row.name, connection.try_response()).await {
        rest.push(one_outcome(&response));
    }
    assert_eq!(rest.join(" "), after.trim(), "{who}: {}: after the shutdown", row.name);
}

fn one_outcome(response: &Response) -> String {
    if response.status() == 200 { response.text() } else { response.status().to_string() }
}

/// Starts hyper with the same service.
async fn by_hyper() -> SocketAddr {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = server(&Arc::<Traces>::default()).into_http_service().unwrap();
    tokio::spawn(async move { listener.serve_tower(service).await.unwrap() });
    address
}

#[tokio::test]
async fn responses_to_raw_requests_differ_from_those_of_hyper_only_for_a_reason() {
    let fixture = Fixture::start().await;
    let hyper = by_hyper().await;
    let rows = rows();
    assert!(rows.len() > 100);
    for row in &rows {
        assert_eq!(row.ours != row.hypers, !row.why.is_empty(), "{}: a difference has a reason", row.name);
        check("ours", fixture.address, row, row.ours).await;
        check("hyper", hyper, row, row.hypers).await;
    }
}
