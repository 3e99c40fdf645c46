//! HTTP as bytes: what a test writes is what goes over the socket, and what comes back is taken apart here, by the book and
//! without help of the code that is tested.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::within;

/// A request, as it is written.
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
    /// A POST as every client makes it.
    pub fn post(body: impl ToString) -> Self {
        Self::new("POST")
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .body(body.to_string())
    }

    /// A GET for a stream.
    pub fn get() -> Self {
        Self::new("GET").header("Accept", "text/event-stream")
    }

    /// A DELETE.
    pub fn delete() -> Self {
        Self::new("DELETE")
    }

    /// A request to `/mcp` with nothing but a `Host`.
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

    /// With a header, in the place of any of that name.
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).also(name, value)
    }

    /// With a header beside any of that name.
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

    /// The request as it goes over the wire.
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

/// The beginning of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    /// A head of these parts.
    pub fn new(status: u16, headers: Vec<(String, String)>) -> Self {
        Self { status, headers }
    }

    fn parse(text: &str) -> Self {
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap();
        let (version, rest) = status.split_once(' ').unwrap();
        // hyper answers in the version of the request.
        assert!(matches!(version, "HTTP/1.1" | "HTTP/1.0"), "{status}");
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Self { status: rest[..3].parse().unwrap(), headers: headers.collect() }
    }

    /// The value of a header that is there at most once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(own, _)| own.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "there is more than one {name}: {self:?}");
        value
    }

    /// Without its parameters.
    pub fn media_type(&self) -> Option<&str> {
        self.header("content-type").map(|value| value.split(';').next().unwrap().trim())
    }

    /// Returns `true` if the body is an event stream.
    pub fn is_stream(&self) -> bool {
        self.media_type() == Some("text/event-stream")
    }

    fn framing(&self) -> Framing {
        if self.status == 204 || self.status == 304 || self.status < 200 {
            return Framing::Length(0);
        }
        match (self.header("transfer-encoding"), self.header("content-length")) {
            (Some(coding), _) => {
                assert!(coding.eq_ignore_ascii_case("chunked"), "{coding}");
                Framing::Chunked
            }
            (None, Some(length)) => Framing::Length(length.parse().unwrap()),
            (None, None) => Framing::Close,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    Close,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// Status and headers.
    pub head: Head,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

impl Response {
    /// The status code.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// The value of a header that is there at most once.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The one message of an answer that is JSON.
    pub fn json(&self) -> Value {
        assert_eq!(self.head.media_type(), Some("application/json"), "{self}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The events of an answer that is a stream.
    pub fn events(&self) -> Vec<Event> {
        assert!(self.head.is_stream(), "{self}");
        let mut reader = Events::default();
        reader.push(&self.body);
        std::iter::from_fn(|| reader.next()).collect()
    }

    /// All messages, whatever they came in.
    pub fn messages(&self) -> Vec<Value> {
        if !self.head.is_stream() {
            return vec![self.json()];
        }
        self.events().iter().filter_map(Event::message).collect()
    }

    /// The last message, which must be an answer.
    pub fn answer(&self) -> Value {
        assert_eq!(self.status(), 200, "{self}");
        let answer = self.messages().pop().unwrap_or_else(|| panic!("there is no message: {self}"));
        assert!(answer.get("result").or_else(|| answer.get("error")).is_some(), "{answer}");
        answer
    }

    /// The result in the last message.
    pub fn result(&self) -> Value {
        let answer = self.answer();
        answer.get("result").cloned().unwrap_or_else(|| panic!("{answer}"))
    }

    /// The text of a tool's result.
    pub fn text(&self) -> String {
        self.result()["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Refused with this status and this error, for the request of this id.
    #[track_caller]
    pub fn assert_refused(&self, status: u16, code: i64, id: &Value) {
        assert_eq!(self.status(), status, "{self}");
        let error = self.json();
        assert_eq!(error["jsonrpc"], "2.0", "{self}");
        assert_eq!(error["error"]["code"], code, "{self}");
        assert!(error["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{self}");
        assert_eq!(error.get("id").unwrap_or(&Value::Null), id, "{self}");
    }

    /// Taken, and nothing said.
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

/// An event of a stream, or a comment in it.
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
    /// Whether it has a comment.
    pub comment: bool,
}

impl Event {
    /// The message in it, unless it only carries an id or is a comment.
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
                _ => panic!("an unknown field: {block:?}"),
            }
        }
        event
    }
}

/// Finds events in bytes.
#[derive(Debug, Default)]
struct Events {
    buffer: Vec<u8>,
    /// How much of it holds no end of an event.
    searched: usize,
}

impl Events {
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

/// A socket to the server.
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

    /// A server that refuses a request need not read it all.
    pub async fn send(&mut self, request: &Request) {
        let _ = within("room to write", self.socket.write_all(&request.bytes())).await;
    }

    /// Writes bytes, all of which the server has to take.
    pub async fn write(&mut self, bytes: &[u8]) {
        within("room to write", self.socket.write_all(bytes)).await.unwrap();
    }

    /// Reads some more; false at the end.
    async fn fill(&mut self) -> bool {
        let mut piece = [0; 16 * 1024];
        // A server that refuses a request may reset what it has not read.
        let read = self.socket.read(&mut piece).await.unwrap_or(0);
        self.buffer.extend_from_slice(&piece[..read]);
        read > 0
    }

    /// The head of the next answer; none if the connection ends before.
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

    /// The head of the next answer.
    pub async fn head(&mut self) -> Head {
        self.try_head().await.expect("an answer before the end of the connection")
    }

    /// The next answer as a whole.
    pub async fn response(&mut self) -> Response {
        let head = self.head().await;
        self.body_of(head).await
    }

    /// The next answer as a whole; none if the connection ends before.
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

    /// The next piece of a body; none at its end.
    async fn piece(&mut self, framing: &mut Framing) -> Option<Vec<u8>> {
        match framing {
            Framing::Length(0) => None,
            Framing::Length(left) => {
                if self.buffer.is_empty() && !self.fill().await {
                    panic!("the connection ends {left} bytes before the end of the body");
                }
                let taken = self.buffer.len().min(*left);
                *left -= taken;
                Some(self.buffer.drain(..taken).collect())
            }
            Framing::Close => {
                if self.buffer.is_empty() && !self.fill().await {
                    return None;
                }
                Some(std::mem::take(&mut self.buffer))
            }
            Framing::Chunked => self.chunk().await,
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

    /// Reads the head of an answer that is an event stream.
    pub async fn into_stream(mut self) -> Stream {
        let head = self.head().await;
        if !head.is_stream() || head.status != 200 {
            panic!("a stream was expected, not {}", self.body_of(head).await);
        }
        let framing = head.framing();
        Stream { head, connection: self, framing, events: Events::default() }
    }
}

/// An answer that is a stream of events. Dropping it breaks the connection.
#[derive(Debug)]
pub struct Stream {
    /// Status and headers.
    pub head: Head,
    /// The connection it comes over.
    pub connection: Connection,
    framing: Framing,
    events: Events,
}

impl Stream {
    /// The next event or comment; none at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        within("an event, or the end of a stream", async {
            loop {
                if let Some(event) = self.events.next() {
                    return Some(event);
                }
                self.events.push(&self.connection.piece(&mut self.framing).await?);
            }
        })
        .await
    }

    /// The next event with a message in it.
    pub async fn try_message(&mut self) -> Option<Value> {
        loop {
            if let Some(message) = self.next().await?.message() {
                return Some(message);
            }
        }
    }

    /// The next message.
    pub async fn message(&mut self) -> Value {
        self.try_message().await.expect("a message before the end of the stream")
    }

    /// The next event that is no comment.
    pub async fn event(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("an event before the end of the stream");
            if !event.comment {
                return event;
            }
        }
    }

    /// All messages up to the end.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.try_message().await {
            messages.push(message);
        }
        messages
    }
}
