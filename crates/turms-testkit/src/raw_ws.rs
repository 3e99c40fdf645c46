//! A raw WebSocket client, which can send invalid frames.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::within;

/// Opcode of a continuation frame.
pub const CONTINUE: u8 = 0;
/// Opcode of a text frame.
pub const TEXT: u8 = 1;
/// Opcode of a binary frame.
pub const BINARY: u8 = 2;
/// Opcode of a close frame.
pub const CLOSE: u8 = 8;
/// Opcode of a ping.
pub const PING: u8 = 9;
/// Opcode of a pong.
pub const PONG: u8 = 10;

/// The headers of a valid upgrade request.
pub const HEADERS: [&str; 6] = [
    "Host: localhost",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol: mcp",
];

/// A WebSocket connection after the upgrade. Frames are written and read without a WebSocket library.
#[derive(Debug)]
pub struct WsConnection {
    /// The socket.
    pub stream: TcpStream,
}

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// `true` if it is the last frame of its message.
    pub last: bool,
    /// The opcode.
    pub kind: u8,
    /// The payload, unmasked.
    pub payload: Vec<u8>,
}

impl WsConnection {
    /// Connects to a server and upgrades the connection.
    pub async fn open(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let response = send_request(&mut stream, &request("GET / HTTP/1.1", &HEADERS)).await;
        assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
        assert!(response.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{response}");
        assert!(response.contains("sec-websocket-protocol: mcp\r\n"), "{response}");
        Self { stream }
    }

    /// Sends a message in one frame.
    pub async fn send(&mut self, kind: u8, payload: &[u8]) {
        self.write(&frame(true, kind, payload)).await;
    }

    /// Sends a text message in one frame.
    pub async fn text(&mut self, text: &str) {
        self.send(TEXT, text.as_bytes()).await;
    }

    /// Writes bytes.
    pub async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Reads a frame.
    pub async fn frame(&mut self) -> Frame {
        within("a frame", async {
            let first = self.stream.read_u8().await.unwrap();
            let length = match self.stream.read_u8().await.unwrap() {
                126 => u64::from(self.stream.read_u16().await.unwrap()),
                127 => self.stream.read_u64().await.unwrap(),
                length => u64::from(length),
            };
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await.unwrap();
            Frame { last: first & 0x80 != 0, kind: first & 0x0f, payload }
        })
        .await
    }

    /// Reads a message and returns it with its number of frames.
    pub async fn message(&mut self) -> (String, usize) {
        let (mut whole, mut count) = (Vec::new(), 0);
        loop {
            let frame = self.frame().await;
            assert_eq!(frame.kind, if count == 0 { TEXT } else { CONTINUE });
            whole.extend_from_slice(&frame.payload);
            count += 1;
            if frame.last {
                return (String::from_utf8(whole).unwrap(), count);
            }
        }
    }

    /// Reads a close frame and returns its code and reason.
    pub async fn close_frame(&mut self) -> (u16, String) {
        let frame = self.frame().await;
        assert_eq!(frame.kind, CLOSE, "{frame:?}");
        let code = u16::from_be_bytes([frame.payload[0], frame.payload[1]]);
        (code, String::from_utf8(frame.payload[2..].to_vec()).unwrap())
    }

    /// Waits until the server has closed the connection. There must be no more input.
    pub async fn assert_closed(&mut self) {
        let mut rest = Vec::new();
        within("the end of the connection", self.stream.read_to_end(&mut rest)).await.unwrap();
        assert!(rest.is_empty(), "{rest:?}");
    }
}

/// Encodes a frame of a client, which is masked.
pub fn frame(last: bool, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = header(last, kind, payload.len() as u64);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The mask of all frames. Servers accept a fixed mask: clients need a random one only for security.
const MASK: [u8; 4] = [1, 2, 3, 4];

/// Encodes the header of a frame.
pub fn header(last: bool, kind: u8, length: u64) -> Vec<u8> {
    let mut header = vec![u8::from(last) << 7 | kind];
    match length {
        0..126 => header.push(0x80 | length as u8),
        126..0x1_0000 => {
            header.push(0x80 | 126);
            header.extend((length as u16).to_be_bytes());
        }
        _ => {
            header.push(0x80 | 127);
            header.extend(length.to_be_bytes());
        }
    }
    header.extend(MASK);
    header
}

/// Creates the head of a request from its request line and headers.
pub fn request(request_line: &str, headers: &[&str]) -> String {
    let mut request = format!("{request_line}\r\n");
    headers.iter().for_each(|header| request += &format!("{header}\r\n"));
    request + "\r\n"
}

/// Sends a request and returns the head of the response.
pub async fn send_request(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    within("a response", async {
        while !response.ends_with(b"\r\n\r\n") {
            response.push(stream.read_u8().await.unwrap());
        }
    })
    .await;
    String::from_utf8(response).unwrap()
}
