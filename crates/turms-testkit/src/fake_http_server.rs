//! A fake HTTP server: it listens on a real socket, records requests, and responds as the test defines.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::within;

/// A received request.
#[derive(Debug, Clone)]
pub struct Received {
    /// The HTTP method.
    pub method: String,
    /// The request target.
    pub path: String,
    /// The headers, by name in lower case.
    pub headers: HashMap<String, String>,
    /// The body, `null` unless it is JSON.
    pub body: serde_json::Value,
    /// The time of its arrival.
    pub at: tokio::time::Instant,
}

impl Received {
    /// The value of a header, by name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the method of JSON-RPC, or of HTTP if there is none.
    pub fn what(&self) -> &str {
        self.body["method"].as_str().unwrap_or(&self.method)
    }
}

/// A response of the server.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    ending: ReplyEnding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyEnding {
    /// The body has a length, and the connection stays open.
    Whole,
    /// The body is chunked, with a last chunk.
    LastChunk,
    /// The body is chunked, and the last chunk is never sent.
    Open,
    /// The connection is closed before the last chunk.
    Disconnect,
    /// No response.
    Nothing,
}

impl Reply {
    fn new(status: u16, content_type: Option<&str>, body: impl Into<Vec<u8>>, ending: ReplyEnding) -> Self {
        let headers = content_type.map(|it| ("content-type".to_owned(), it.to_owned())).into_iter().collect();
        Self { status, headers, body: body.into(), ending }
    }

    /// A response without a body.
    pub fn status(status: u16) -> Self {
        Self::new(status, None, "", ReplyEnding::Whole)
    }

    /// A response with a body of this content type.
    pub fn text(status: u16, content_type: &str, body: &str) -> Self {
        Self::new(status, Some(content_type), body, ReplyEnding::Whole)
    }

    /// A response with a JSON body.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::text(status, "application/json; charset=utf-8", &body.to_string())
    }

    /// A complete event stream.
    pub fn events(text: &str) -> Self {
        Self::new(200, Some("text/event-stream"), text, ReplyEnding::LastChunk)
    }

    /// An event stream that stays open.
    pub fn open_events(text: &str) -> Self {
        Self::new(200, Some("text/event-stream"), text, ReplyEnding::Open)
    }

    /// An event stream that is cut off: the connection is closed before its end.
    pub fn broken_events(text: &str) -> Self {
        Self::new(200, Some("text/event-stream"), text, ReplyEnding::Disconnect)
    }

    /// Closes the connection after the response.
    pub fn breaking(mut self) -> Self {
        self.ending = ReplyEnding::Disconnect;
        self
    }

    /// No response at all.
    pub fn never() -> Self {
        Self::new(200, None, "", ReplyEnding::Nothing)
    }

    /// Adds a header.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A fake server. Dropping it closes its connections.
#[derive(Debug)]
pub struct FakeHttpServer {
    /// Scheme and authority of its URL.
    pub origin: String,
    shared: Arc<FakeServerState>,
}

/// The state that the tasks of a server share.
struct FakeServerState {
    respond: Box<dyn Fn(&Received) -> Reply + Send + Sync>,
    received: watch::Sender<Vec<Received>>,
    connections: AtomicUsize,
    /// Number of clients that have disconnected while they were waiting.
    left: watch::Sender<usize>,
    tasks: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl fmt::Debug for FakeServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeServerState").field("received", &self.received).finish_non_exhaustive()
    }
}

impl FakeHttpServer {
    /// Starts a server that responds to each request by `respond`.
    pub async fn start(respond: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at(TcpListener::bind("127.0.0.1:0").await.unwrap(), respond)
    }

    /// Stops the server, and starts it at the same address when `back` has finished.
    pub async fn restart(
        self,
        back: impl Future<Output = ()>,
        respond: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let address = self.origin.trim_start_matches("http://").to_owned();
        drop(self);
        back.await;
        // The tasks that hold the address may still be stopping.
        loop {
            match TcpListener::bind(&address).await {
                Ok(listener) => return Self::start_at(listener, respond),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    fn start_at(listener: TcpListener, respond: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let shared = FakeServerState::new(respond);
        let serving = shared.clone();
        shared.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                serving.clone().accept(stream);
            }
        });
        Self { origin, shared }
    }

    /// Starts a server on a Unix socket.
    #[cfg(unix)]
    pub fn start_on(path: &std::path::Path, respond: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = tokio::net::UnixListener::bind(path).unwrap();
        let shared = FakeServerState::new(respond);
        let serving = shared.clone();
        shared.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.clone().accept(stream);
            }
        });
        Self { origin: "http://localhost".to_owned(), shared }
    }

    /// The URL of its endpoint.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// The received requests.
    pub fn received(&self) -> Vec<Received> {
        self.shared.received.borrow().clone()
    }

    /// The methods of the received requests.
    pub fn methods(&self) -> Vec<String> {
        self.received().iter().map(|request| request.what().to_owned()).collect()
    }

    /// Waits until a method was received this many times, and returns the last of these requests.
    pub async fn wait_for(&self, what: &str, times: usize) -> Received {
        let mut received = self.shared.received.subscribe();
        let matching = |all: &Vec<Received>| all.iter().filter(|it| it.what() == what).cloned().collect::<Vec<_>>();
        let waiting = received.wait_for(|all| matching(all).len() >= times);
        let waited = within(&format!("{what}, {times} times"), waiting).await.unwrap();
        matching(&waited)[times - 1].clone()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Waits until a client has disconnected that was waiting for more of a response.
    pub async fn wait_until_left(&self) {
        let mut left = self.shared.left.subscribe();
        within("a client to disconnect", left.wait_for(|left| *left > 0)).await.unwrap();
    }
}

impl Drop for FakeHttpServer {
    fn drop(&mut self) {
        self.shared.tasks.lock().drain(..).for_each(|task| task.abort());
    }
}

impl FakeServerState {
    fn new(respond: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            respond: Box::new(respond),
            received: watch::Sender::default(),
            connections: AtomicUsize::new(0),
            left: watch::Sender::default(),
            tasks: Mutex::default(),
        })
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().push(tokio::spawn(work).abort_handle());
    }

    fn accept(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let shared = self.clone();
        self.spawn(async move {
            let _ = shared.serve(BufReader::new(stream)).await;
        });
    }

    async fn serve(&self, mut stream: BufReader<impl AsyncRead + AsyncWrite + Unpin>) -> Option<()> {
        loop {
            let request = read_request(&mut stream).await?;
            let reply = (self.respond)(&request);
            self.received.send_modify(|all| all.push(request));
            if reply.ending == ReplyEnding::Nothing {
                return self.wait(stream).await;
            }
            stream.write_all(&reply.head()).await.ok()?;
            let body = match reply.ending {
                ReplyEnding::Whole => reply.body.clone(),
                ReplyEnding::LastChunk => [&*chunk(&reply.body), b"0\r\n\r\n"].concat(),
                _ => chunk(&reply.body),
            };
            stream.write_all(&body).await.ok()?;
            stream.flush().await.ok()?;
            match reply.ending {
                ReplyEnding::Disconnect => return Some(()),
                ReplyEnding::Open => return self.wait(stream).await,
                _ => {}
            }
        }
    }

    /// Sends nothing more, and waits until the client disconnects.
    async fn wait(&self, mut stream: impl AsyncRead + Unpin) -> Option<()> {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        self.left.send_modify(|left| *left += 1);
        None
    }
}

impl Reply {
    fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Whatever\r\n", self.status);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        match self.ending {
            ReplyEnding::Whole => write!(head, "content-length: {}\r\n\r\n", self.body.len()).unwrap(),
            _ => head.push_str("transfer-encoding: chunked\r\n\r\n"),
        }
        head.into_bytes()
    }
}

fn chunk(body: &[u8]) -> Vec<u8> {
    if body.is_empty() {
        return Vec::new();
    }
    [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat()
}

async fn read_request(stream: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Received> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Received { method, path, headers, body, at: tokio::time::Instant::now() })
}
