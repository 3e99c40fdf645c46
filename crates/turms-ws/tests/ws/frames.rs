//! Valid and invalid frames of a client.

use serde_json::{Value, json};
use turms_core::Limits;

use crate::fixture::TestServer;
use turms_testkit::raw_ws::{BINARY, CONTINUE, Frame, PING, PONG, TEXT, WsConnection, frame, header};

/// A call of the newest revision.
fn call(id: i64, tool: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": tool,
        "arguments": arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } })
}

fn add(id: i64) -> Value {
    call(id, "add", &json!({ "a": id, "b": 1 }))
}

/// Receives a response and returns its id and text.
async fn response(raw: &mut WsConnection) -> (i64, String) {
    let message: Value = serde_json::from_str(&raw.message().await.0).unwrap();
    let text = message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}"));
    (message["id"].as_i64().unwrap(), text.to_owned())
}

async fn limited(limit: usize) -> WsConnection {
    let mut options = Limits::default();
    options.max_message_bytes = limit;
    WsConnection::open(TestServer::limited(options).await.address).await
}

#[tokio::test]
async fn a_ping_has_a_pong_with_its_payload() {
    let mut raw = WsConnection::open(TestServer::new().await.address).await;
    raw.send(PING, b"are you there?").await;
    assert_eq!(raw.frame().await, Frame { last: true, kind: PONG, payload: b"are you there?".to_vec() });
    raw.send(PONG, b"unsolicited").await;
    raw.text(&add(1).to_string()).await;
    assert_eq!(response(&mut raw).await, (1, "2".to_owned()));
}

#[tokio::test]
async fn a_message_may_have_several_frames() {
    let mut raw = WsConnection::open(TestServer::new().await.address).await;
    let text = call(1, "echo", &json!({ "text": "\u{1f980}" })).to_string().into_bytes();
    let middle = text.iter().position(|byte| *byte == 0xf0).unwrap() + 2;
    raw.write(&frame(false, TEXT, &text[..middle])).await;
    raw.send(PING, b"between").await;
    assert_eq!(raw.frame().await.payload, b"between");
    raw.write(&frame(false, CONTINUE, b"")).await;
    raw.write(&frame(true, CONTINUE, &text[middle..])).await;
    assert_eq!(response(&mut raw).await, (1, "\u{1f980}".to_owned()));
}

#[tokio::test]
async fn a_message_may_have_several_lines() {
    let mut raw = WsConnection::open(TestServer::new().await.address).await;
    let pretty = serde_json::to_string_pretty(&add(1)).unwrap();
    raw.text(&format!("\r\n{pretty}\n\n")).await;
    raw.text(&pretty.replace('\n', "\r\n")).await;
    assert_eq!(response(&mut raw).await, (1, "2".to_owned()));
    assert_eq!(response(&mut raw).await, (1, "2".to_owned()));
}

#[tokio::test]
async fn two_messages_in_one_frame_are_invalid() {
    let mut raw = WsConnection::open(TestServer::new().await.address).await;
    raw.text(&format!("{}\n{}", add(1), add(2))).await;
    let error: Value = serde_json::from_str(&raw.message().await.0).unwrap();
    assert_eq!(error["error"]["code"], -32700, "{error}");
}

#[tokio::test]
async fn invalid_json_has_an_error_response_and_the_connection_continues() {
    let mut raw = WsConnection::open(TestServer::new().await.address).await;
    raw.text("").await;
    raw.text("{").await;
    let error: Value = serde_json::from_str(&raw.message().await.0).unwrap();
    assert_eq!(error["error"]["code"], -32700);
    raw.text(&add(1).to_string()).await;
    assert_eq!(response(&mut raw).await, (1, "2".to_owned()));
}

#[tokio::test]
async fn a_long_response_has_several_frames() {
    let mut raw = WsConnection::open(TestServer::new().await.address).await;
    raw.text(&call(1, "repeat", &json!({ "tens": 50_000 })).to_string()).await;
    let (message, frames) = raw.message().await;
    assert!(frames > 5, "{frames}");
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!(message["result"]["content"][0]["text"].as_str().unwrap().len(), 500_000);
}

#[tokio::test]
async fn a_binary_message_closes_the_connection() {
    let mut raw = WsConnection::open(TestServer::new().await.address).await;
    raw.send(BINARY, b"{}").await;
    assert_eq!(raw.close_frame().await, (1003, "a message must be text, not binary".to_owned()));
    raw.assert_closed().await;
}

#[tokio::test]
async fn a_message_over_the_limit_closes_the_connection() {
    let reason = || (1009, "a message is longer than the limit of 1000 bytes".to_owned());
    // By the header of its first frame, before the payload is received.
    let mut raw = limited(1000).await;
    raw.write(&header(true, TEXT, 1001)).await;
    assert_eq!(raw.close_frame().await, reason());
    raw.assert_closed().await;
    // By the sum of its frames.
    let mut raw = limited(1000).await;
    raw.write(&frame(false, TEXT, &[b' '; 600])).await;
    raw.write(&frame(true, CONTINUE, &[b' '; 401])).await;
    assert_eq!(raw.close_frame().await, reason());
    raw.assert_closed().await;
    // A length larger than any memory.
    let mut raw = limited(1000).await;
    raw.write(&header(true, TEXT, u64::MAX >> 1)).await;
    assert_eq!(raw.close_frame().await, reason());
    // The close frame arrives although the client is still sending.
    let mut raw = limited(1000).await;
    raw.write(&frame(true, TEXT, &vec![b' '; 300_000])).await;
    assert_eq!(raw.close_frame().await, reason());
    raw.assert_closed().await;
}

#[tokio::test]
async fn a_message_may_be_as_long_as_the_limit() {
    let mut raw = limited(1000).await;
    let mut text = add(1).to_string();
    text.extend(std::iter::repeat_n(' ', 1000 - text.len()));
    raw.text(&text).await;
    assert_eq!(response(&mut raw).await, (1, "2".to_owned()));
}

#[tokio::test]
async fn invalid_utf_8_closes_the_connection() {
    for frames in
        [frame(true, TEXT, b"\"\xff\""), [frame(false, TEXT, b"\xf0\x9f"), frame(true, CONTINUE, b"x")].concat()]
    {
        let mut raw = WsConnection::open(TestServer::new().await.address).await;
        raw.write(&frames).await;
        assert_eq!(raw.close_frame().await, (1007, "a message is not UTF-8".to_owned()));
        raw.assert_closed().await;
    }
}

#[tokio::test]
async fn invalid_frames_close_the_connection() {
    let unmasked = vec![0x81, 2, b'{', b'}'];
    let reserved_bit = frame(true, TEXT | 0x40, b"{}");
    let reserved_opcode = frame(true, 3, b"{}");
    let unexpected_continuation = frame(true, CONTINUE, b"{}");
    let fragmented_ping = frame(false, PING, b"");
    let long_ping = frame(true, PING, &[0; 126]);
    for frames in [unmasked, reserved_bit, reserved_opcode, unexpected_continuation, fragmented_ping, long_ping] {
        let mut raw = WsConnection::open(TestServer::new().await.address).await;
        raw.write(&frames).await;
        let (code, reason) = raw.close_frame().await;
        assert_eq!(code, 1002, "{reason}");
        raw.assert_closed().await;
    }
}
