//! Load over HTTP, with a constant number of connections and one call in flight on each.

use std::rc::Rc;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::message::{Dialect, INITIALIZE, INITIALIZED, Payload, Requests};
use crate::tally::Tally;
use crate::{Failure, Plan, Result, Server};

/// Runs the load. `idle_sessions` is the number of sessions in addition to those that call.
pub(crate) async fn load(plan: &Plan, dialect: Dialect, idle_sessions: usize) -> Result<String> {
    let server = Rc::new(Server::start(&plan.program)?);
    let mut connections = Vec::new();
    for _ in 0..plan.width {
        let mut connection = Connection::open(&server).await?;
        let head = connection.prepare(dialect, plan.payload).await?;
        connections.push((connection, head));
    }
    if let Some((connection, _)) = connections.first_mut() {
        for _ in 0..idle_sessions {
            connection.prepare(dialect, plan.payload).await?;
        }
    }
    let tally = Rc::new(Tally::new(plan.time));
    let tasks = LocalSet::new();
    let mut callers = Vec::new();
    for (mut connection, head) in connections {
        let requests = Requests::new(plan.payload, dialect);
        let (server, tally) = (server.clone(), tally.clone());
        callers.push(tasks.spawn_local(async move {
            let mut body = String::new();
            for id in 1.. {
                if tally.is_over() {
                    break;
                }
                body.clear();
                requests.write(id, &mut body);
                let asked = Instant::now();
                connection.post(&head, &body).await?;
                if !requests.is_answered(id, connection.answer().await?) {
                    return Err(Failure::from(format!("no answer: {}", connection.beginning())));
                }
                tally.add(&server, asked);
            }
            Ok::<_, Failure>(())
        }));
    }
    tasks
        .run_until(async {
            for caller in callers {
                caller.await??;
            }
            Ok::<_, Failure>(())
        })
        .await?;
    drop(tasks);
    let tally = Rc::into_inner(tally).ok_or("a caller has not ended")?;
    let mut server = Rc::into_inner(server).ok_or("a caller has not ended")?;
    let line = tally.line(&server);
    server.end().await?;
    Ok(line)
}

/// Measures the memory of idle sessions, with an open stream each if `is_listening`.
pub(crate) async fn keep(plan: &Plan, is_listening: bool) -> Result<String> {
    let server = Server::start(&plan.program)?;
    let mut first = Connection::open(&server).await?;
    let mut streams = Vec::new();
    let mut before = 0;
    // The first 50 sessions are a warm-up: memory that is allocated once does not count.
    for count in 0..plan.width + 50 {
        if count == 50 {
            before = server.memory();
        }
        let head = first.prepare(Dialect::Session, plan.payload).await?;
        if is_listening {
            let mut stream = Connection::open(&server).await?;
            stream.listen(&head).await?;
            streams.push(stream);
        }
    }
    tokio::time::sleep(plan.time).await;
    let bytes = server.memory().saturating_sub(before) / plan.width as u64;
    drop(streams);
    Ok(format!("calls={} bytes={bytes}", plan.width))
}

/// Returns a POST request with additional headers.
fn request(head: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{head}content-length: {length}\r\n\r\n{body}"
    )
}

struct Connection {
    stream: BufReader<TcpStream>,
    head: String,
    body: Vec<u8>,
}

impl Connection {
    async fn open(server: &Server) -> Result<Self> {
        let stream = server.connect()?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let stream = BufReader::with_capacity(64 * 1024, TcpStream::from_std(stream)?);
        Ok(Self { stream, head: String::new(), body: Vec::new() })
    }

    /// Returns the headers of all further requests. In the session dialect, does the `initialize` handshake first.
    async fn prepare(&mut self, dialect: Dialect, payload: Payload) -> Result<String> {
        let credentials = std::env::var("BENCH_TOKEN").ok();
        let credentials = credentials.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        if dialect == Dialect::Stateless {
            return Ok(Requests::new(payload, dialect).stateless_head() + &credentials);
        }
        self.post(&credentials, INITIALIZE).await?;
        self.answer().await?;
        let id = self.header("mcp-session-id").ok_or("the server begins no session")?;
        let head = format!("mcp-protocol-version: 2025-11-25\r\nmcp-session-id: {id}\r\n{credentials}");
        self.post(&head, INITIALIZED).await?;
        self.answer().await?;
        Ok(head)
    }

    async fn post(&mut self, head: &str, body: &str) -> Result<()> {
        Ok(self.stream.get_mut().write_all(request(head, body).as_bytes()).await?)
    }

    /// Opens the GET event stream of a session, and waits for the response head.
    async fn listen(&mut self, head: &str) -> Result<()> {
        let request = format!("GET /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n{head}\r\n");
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        self.read_head().await
    }

    /// Reads the body of the next response, and decodes chunked encoding.
    async fn answer(&mut self) -> Result<&[u8]> {
        self.read_head().await?;
        self.body.clear();
        if self.header("transfer-encoding").is_some() {
            loop {
                let mut size = String::new();
                self.stream.read_line(&mut size).await?;
                let size = usize::from_str_radix(size.trim(), 16)?;
                let start = self.body.len();
                self.body.resize(start + size + 2, 0);
                self.stream.read_exact(&mut self.body[start..]).await?;
                self.body.truncate(start + size);
                if size == 0 {
                    break;
                }
            }
        } else {
            let length = self.header("content-length").map_or(Ok(0), str::parse)?;
            self.body.resize(length, 0);
            self.stream.read_exact(&mut self.body).await?;
        }
        Ok(&self.body)
    }

    async fn read_head(&mut self) -> Result<()> {
        self.head.clear();
        while !self.head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut self.head).await? == 0 {
                return Err("the server has closed the connection".into());
            }
        }
        let status = self.head.split(' ').nth(1).unwrap_or_default();
        if status.starts_with('2') { Ok(()) } else { Err(format!("refused: {}", self.head).into()) }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn beginning(&self) -> String {
        String::from_utf8_lossy(&self.body[..self.body.len().min(300)]).into_owned()
    }
}
