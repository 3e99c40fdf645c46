//! A raw HTTP client: sends requests byte for byte, and parses responses without the tested code.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::within;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The HTTP method.
    pub method: &'static str,
    /// The request target.
    pub path: String,
    /// The headers, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
}

impl Request {
    /// Creates a POST with the headers of an MCP client.
    pub fn post(body: impl ToString) -> Self {
        Self::new("POST")
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .body(body.to_string())
    }

    /// Creates a GET for an event stream.
    pub fn get() -> Self {
        Self::new("GET").header("Accept", "text/event-stream")
    }

    /// Creates a DELETE.
    pub fn delete() -> Self {
        Self::new("DELETE")
    }

    /// Creates a request to `/mcp` with a `Host` header only.
    pub fn new(method: &'static str) -> Self {
        let headers = vec![("Host".to_owned(), b"localhost".to_vec())];
        Self { method, path: "/mcp".to_owned(), headers, body: None }
    }

    /// Sets the request target.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets a header, replacing all of that name.
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).also(name, value)
    }

    /// Adds a header, in addition to others of that name.
    pub fn also(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Removes all headers of that name.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(own, _)| !own.eq_ignore_ascii_case(name));
        self
    }

    /// Sets `MCP-Protocol-Version`.
    pub fn version(self, version: &str) -> Self {
        self.header("MCP-Protocol-Version", version)
    }

    /// Sets `Mcp-Session-Id`.
    pub fn session(self, id: &str) -> Self {
        self.header("Mcp-Session-Id", id)
    }

    /// Encodes the request.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        for (name, value) in &self.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(body) = &self.body {
            out.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.body.as_deref().unwrap_or_default());
        out
    }
}

/// The status and the headers of a response.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    /// Creates a head.
    pub fn new(status: u16, headers: Vec<(String, String)>) -> Self {
        Self { status, headers }
    }

    fn parse(text: &str) -> Self {
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap();
        let (version, rest) = status.split_once(' ').unwrap();
        // hyper responds with the version of the request.
        assert!(matches!(version, "HTTP/1.1" | "HTTP/1.0"), "{status}");
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Self { status: rest[..3].parse().unwrap(), headers: headers.collect() }
    }

    /// Returns the value of a header, which must not be repeated.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is repeated: {self:?}");
        value
    }

    /// Returns the media type, without its parameters.
    pub fn media_type(&self) -> Option<&str> {
        self.header("content-type").map(|value| value.split(';').next().unwrap().trim())
    }

    /// Returns `true` if the body is an event stream.
    pub fn is_stream(&self) -> bool {
        self.media_type() == Some("text/event-stream")
    }

    fn framing(&self) -> BodyFraming {
        if self.status == 204 || self.status == 304 || self.status < 200 {
            return BodyFraming::Length(0);
        }
        match (self.header("transfer-encoding"), self.header("content-length")) {
            (Some(coding), _) => {
                assert!(coding.eq_ignore_ascii_case("chunked"), "{coding}");
                BodyFraming::Chunked
            }
            (None, Some(length)) => BodyFraming::Length(length.parse().unwrap()),
            (None, None) => BodyFraming::Close,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum BodyFraming {
    Length(usize),
    Chunked,
    Close,
}

/// A whole response.
#[derive(Debug, Clone)]
pub struct Response {
    /// Status and headers.
    pub head: Head,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// Returns the value of a header, which must not be repeated.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// Parses the body as JSON.
    pub fn json(&self) -> Value {
        assert_eq!(self.head.media_type(), Some("application/json"), "{self}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Parses the body as an event stream.
    pub fn events(&self) -> Vec<Event> {
        assert!(self.head.is_stream(), "{self}");
        let mut parser = EventParser::default();
        parser.push(&self.body);
        std::iter::from_fn(|| parser.next()).collect()
    }

    /// Returns all messages of a JSON body or an event stream.
    pub fn messages(&self) -> Vec<Value> {
        if !self.head.is_stream() {
            return vec![self.json()];
        }
        self.events().iter().filter_map(Event::message).collect()
    }

    /// Returns the last message, which must be a JSON-RPC response.
    pub fn answer(&self) -> Value {
        assert_eq!(self.status(), 200, "{self}");
        let response = self.messages().pop().unwrap_or_else(|| panic!("there is no message: {self}"));
        assert!(response.get("result").or_else(|| response.get("error")).is_some(), "{response}");
        response
    }

    /// Returns the result of the last message.
    pub fn result(&self) -> Value {
        let response = self.answer();
        response.get("result").cloned().unwrap_or_else(|| panic!("{response}"))
    }

    /// Returns the text of a tool result.
    pub fn text(&self) -> String {
        self.result()["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Asserts that the request with this id was rejected with this status and error code.
    #[track_caller]
    pub fn assert_refused(&self, status: u16, code: i64, id: &Value) {
        assert_eq!(self.status(), status, "{self}");
        let error = self.json();
        assert_eq!(error["jsonrpc"], "2.0", "{self}");
        assert_eq!(error["error"]["code"], code, "{self}");
        assert!(error["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{self}");
        assert_eq!(error.get("id").unwrap_or(&Value::Null), id, "{self}");
    }

    /// Asserts that the status is 202 and the body is empty.
    #[track_caller]
    pub fn assert_accepted(&self) {
        assert_eq!(self.status(), 202, "{self}");
        assert!(self.body.is_empty(), "{self}");
    }
}

impl std::fmt::Display for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}\n{}", self.head.status, self.head.headers, String::from_utf8_lossy(&self.body))
    }
}

/// An event of a stream, or a comment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// The field `event`.
    pub kind: Option<String>,
    /// The field `id`.
    pub id: Option<String>,
    /// The fields `data`, joined.
    pub data: Option<String>,
    /// The field `retry`.
    pub retry: Option<u64>,
    /// `true` if the block has a comment.
    pub comment: bool,
}

impl Event {
    /// Parses the message of the event; `None` if it has no data.
    pub fn message(&self) -> Option<Value> {
        let data = self.data.as_deref().filter(|data| !data.is_empty())?;
        assert!(matches!(self.kind.as_deref(), None | Some("message")), "{self:?}");
        Some(serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")))
    }

    fn parse(block: &str) -> Self {
        let mut event = Self::default();
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" => event.comment = true,
                "event" => event.kind = Some(value.to_owned()),
                "id" => event.id = Some(value.to_owned()),
                "retry" => event.retry = Some(value.parse().unwrap()),
                "data" => match &mut event.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => event.data = Some(value.to_owned()),
                },
                _ => panic!("unknown field: {block:?}"),
            }
        }
        event
    }
}

/// Splits bytes into events.
#[derive(Debug, Default)]
struct EventParser {
    buffer: Vec<u8>,
    /// Number of bytes already searched for the end of an event.
    searched: usize,
}

impl EventParser {
    fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    fn next(&mut self) -> Option<Event> {
        let found = self.buffer[self.searched..].windows(2).position(|two| two == b"\n\n");
        let Some(end) = found.map(|found| self.searched + found) else {
            self.searched = self.buffer.len().saturating_sub(1);
            return None;
        };
        self.searched = 0;
        let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
        Some(Event::parse(std::str::from_utf8(&block[..end]).unwrap()))
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub socket: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to a server.
    pub async fn open(address: SocketAddr) -> Self {
        Self { socket: within("a connection", TcpStream::connect(address)).await.unwrap(), buffer: Vec::new() }
    }

    /// Sends a request. Write errors are ignored: a server that rejects a request may close the connection without
    /// reading all of it.
    pub async fn send(&mut self, request: &Request) {
        let _ = within("a write", self.socket.write_all(&request.bytes())).await;
    }

    /// Writes bytes. Panics if the server closes the connection before it has read them.
    pub async fn write(&mut self, bytes: &[u8]) {
        within("a write", self.socket.write_all(bytes)).await.unwrap();
    }

    /// Reads more into the buffer. Returns `false` at the end of the connection.
    async fn fill(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        // A server that rejects a request without reading it may reset the connection.
        let read = self.socket.read(&mut piece).await.unwrap_or(0);
        self.buffer.extend_from_slice(&piece[..read]);
        read > 0
    }

    /// Reads the head of the next response; `None` if the connection is closed.
    pub async fn try_head(&mut self) -> Option<Head> {
        let end = loop {
            match self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => break end,
                None if self.fill().await => {}
                None => return None,
            }
        };
        let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
        Some(Head::parse(std::str::from_utf8(&head[..end]).unwrap()))
    }

    /// Reads the head of the next response.
    pub async fn head(&mut self) -> Head {
        self.try_head().await.expect("a response before the end of the connection")
    }

    /// Reads the next response.
    pub async fn response(&mut self) -> Response {
        let head = self.head().await;
        self.body_of(head).await
    }

    /// Reads the next response; `None` if the connection is closed.
    pub async fn try_response(&mut self) -> Option<Response> {
        let head = self.try_head().await?;
        Some(self.body_of(head).await)
    }

    async fn body_of(&mut self, head: Head) -> Response {
        let mut body = Vec::new();
        let mut framing = head.framing();
        while let Some(piece) = self.piece(&mut framing).await {
            body.extend_from_slice(&piece);
        }
        Response { head, body }
    }

    /// Reads the next piece of a body; `None` at its end.
    async fn piece(&mut self, framing: &mut BodyFraming) -> Option<Vec<u8>> {
        match framing {
            BodyFraming::Length(0) => None,
            BodyFraming::Length(left) => {
                if self.buffer.is_empty() && !self.fill().await {
                    panic!("the connection was closed {left} bytes before the end of the body");
                }
                let taken = self.buffer.len().min(*left);
                *left -= taken;
                Some(self.buffer.drain(..taken).collect())
            }
            BodyFraming::Close => {
                if self.buffer.is_empty() && !self.fill().await {
                    return None;
                }
                Some(std::mem::take(&mut self.buffer))
            }
            BodyFraming::Chunked => self.chunk().await,
        }
    }

    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = loop {
            match self.buffer.windows(2).position(|two| two == b"\r\n") {
                Some(end) => break end,
                None if self.fill().await => {}
                None => return None,
            }
        };
        let size = std::str::from_utf8(&self.buffer[..line]).unwrap();
        let size = usize::from_str_radix(size.split(';').next().unwrap().trim(), 16).unwrap();
        self.buffer.drain(..line + 2);
        while self.buffer.len() < size + 2 {
            if !self.fill().await {
                return None;
            }
        }
        let chunk: Vec<u8> = self.buffer.drain(..size).collect();
        self.buffer.drain(..2);
        (size > 0).then_some(chunk)
    }

    /// Reads the head of a response that must be an event stream.
    pub async fn into_stream(mut self) -> Stream {
        let head = self.head().await;
        if !head.is_stream() || head.status != 200 {
            panic!("expected an event stream, not {}", self.body_of(head).await);
        }
        let framing = head.framing();
        Stream { head, connection: self, framing, events: EventParser::default() }
    }
}

/// A response that is an event stream. Dropping it closes the connection.
#[derive(Debug)]
pub struct Stream {
    /// Status and headers.
    pub head: Head,
    /// The connection.
    pub connection: Connection,
    framing: BodyFraming,
    events: EventParser,
}

impl Stream {
    /// Reads the next event or comment; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        within("an event or the end of the stream", async {
            loop {
                if let Some(event) = self.events.next() {
                    return Some(event);
                }
                self.events.push(&self.connection.piece(&mut self.framing).await?);
            }
        })
        .await
    }

    /// Reads the next message, skipping other events; `None` at the end of the stream.
    pub async fn try_message(&mut self) -> Option<Value> {
        loop {
            if let Some(message) = self.next().await?.message() {
                return Some(message);
            }
        }
    }

    /// Reads the next message.
    pub async fn message(&mut self) -> Value {
        self.try_message().await.expect("a message before the end of the stream")
    }

    /// Reads the next event, skipping comments.
    pub async fn event(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("an event before the end of the stream");
            if !event.comment {
                return event;
            }
        }
    }

    /// Reads all messages up to the end of the stream.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.try_message().await {
            messages.push(message);
        }
        messages
    }
}
