//! Frames that a client may send, and those that it may not.

use serde_json::{Value, json};
use turms_core::Limits;

use crate::fixture::Served;
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

/// The id of the next answer and its text.
async fn answer(hand: &mut WsConnection) -> (i64, String) {
    let message: Value = serde_json::from_str(&hand.message().await.0).unwrap();
    let text = message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{message}"));
    (message["id"].as_i64().unwrap(), text.to_owned())
}

async fn limited(limit: usize) -> WsConnection {
    let mut options = Limits::default();
    options.max_message_bytes = limit;
    WsConnection::open(Served::limited(options).await.address).await
}

#[tokio::test]
async fn a_ping_is_answered_with_what_it_holds() {
    let mut hand = WsConnection::open(Served::new().await.address).await;
    hand.send(PING, b"are you there?").await;
    assert_eq!(hand.frame().await, Frame { last: true, kind: PONG, payload: b"are you there?".to_vec() });
    hand.send(PONG, b"nobody asked").await;
    hand.text(&add(1).to_string()).await;
    assert_eq!(answer(&mut hand).await, (1, "2".to_owned()));
}

#[tokio::test]
async fn a_message_in_several_frames_is_one() {
    let mut hand = WsConnection::open(Served::new().await.address).await;
    let text = call(1, "echo", &json!({ "text": "\u{1f980}" })).to_string().into_bytes();
    let middle = text.iter().position(|byte| *byte == 0xf0).unwrap() + 2;
    hand.write(&frame(false, TEXT, &text[..middle])).await;
    hand.send(PING, b"between").await;
    assert_eq!(hand.frame().await.payload, b"between");
    hand.write(&frame(false, CONTINUE, b"")).await;
    hand.write(&frame(true, CONTINUE, &text[middle..])).await;
    assert_eq!(answer(&mut hand).await, (1, "\u{1f980}".to_owned()));
}

#[tokio::test]
async fn a_message_may_be_written_over_several_lines() {
    let mut hand = WsConnection::open(Served::new().await.address).await;
    let pretty = serde_json::to_string_pretty(&add(1)).unwrap();
    hand.text(&format!("\r\n{pretty}\n\n")).await;
    hand.text(&pretty.replace('\n', "\r\n")).await;
    assert_eq!(answer(&mut hand).await, (1, "2".to_owned()));
    assert_eq!(answer(&mut hand).await, (1, "2".to_owned()));
}

#[tokio::test]
async fn two_messages_in_one_frame_are_no_message() {
    let mut hand = WsConnection::open(Served::new().await.address).await;
    hand.text(&format!("{}\n{}", add(1), add(2))).await;
    let refusal: Value = serde_json::from_str(&hand.message().await.0).unwrap();
    assert_eq!(refusal["error"]["code"], -32700, "{refusal}");
}

#[tokio::test]
async fn what_is_not_json_is_said_to_be_so_and_does_no_harm() {
    let mut hand = WsConnection::open(Served::new().await.address).await;
    hand.text("").await;
    hand.text("{").await;
    let refusal: Value = serde_json::from_str(&hand.message().await.0).unwrap();
    assert_eq!(refusal["error"]["code"], -32700);
    hand.text(&add(1).to_string()).await;
    assert_eq!(answer(&mut hand).await, (1, "2".to_owned()));
}

#[tokio::test]
async fn a_long_answer_comes_in_several_frames() {
    let mut hand = WsConnection::open(Served::new().await.address).await;
    hand.text(&call(1, "repeat", &json!({ "tens": 50_000 })).to_string()).await;
    let (message, frames) = hand.message().await;
    assert!(frames > 5, "{frames}");
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!(message["result"]["content"][0]["text"].as_str().unwrap().len(), 500_000);
}

#[tokio::test]
async fn a_binary_message_ends_the_connection() {
    let mut hand = WsConnection::open(Served::new().await.address).await;
    hand.send(BINARY, b"{}").await;
    assert_eq!(hand.goodbye().await, (1003, "a message must be text, not binary".to_owned()));
    hand.end().await;
}

#[tokio::test]
async fn a_message_that_is_too_long_ends_the_connection() {
    let reason = || (1009, "a message is longer than the limit of 1000 bytes".to_owned());
    // As its first frame promises, before any of it has come.
    let mut hand = limited(1000).await;
    hand.write(&header(true, TEXT, 1001)).await;
    assert_eq!(hand.goodbye().await, reason());
    hand.end().await;
    // As its frames add up.
    let mut hand = limited(1000).await;
    hand.write(&frame(false, TEXT, &[b' '; 600])).await;
    hand.write(&frame(true, CONTINUE, &[b' '; 401])).await;
    assert_eq!(hand.goodbye().await, reason());
    hand.end().await;
    // A length that no memory could hold.
    let mut hand = limited(1000).await;
    hand.write(&header(true, TEXT, u64::MAX >> 1)).await;
    assert_eq!(hand.goodbye().await, reason());
    // What is still on its way does not keep the reason from arriving.
    let mut hand = limited(1000).await;
    hand.write(&frame(true, TEXT, &vec![b' '; 300_000])).await;
    assert_eq!(hand.goodbye().await, reason());
    hand.end().await;
}

#[tokio::test]
async fn a_message_may_be_as_long_as_the_limit() {
    let mut hand = limited(1000).await;
    let mut text = add(1).to_string();
    text.extend(std::iter::repeat_n(' ', 1000 - text.len()));
    hand.text(&text).await;
    assert_eq!(answer(&mut hand).await, (1, "2".to_owned()));
}

#[tokio::test]
async fn text_that_is_not_utf_8_ends_the_connection() {
    for frames in
        [frame(true, TEXT, b"\"\xff\""), [frame(false, TEXT, b"\xf0\x9f"), frame(true, CONTINUE, b"x")].concat()]
    {
        let mut hand = WsConnection::open(Served::new().await.address).await;
        hand.write(&frames).await;
        assert_eq!(hand.goodbye().await, (1007, "a message is not UTF-8".to_owned()));
        hand.end().await;
    }
}

#[tokio::test]
async fn what_breaks_the_rules_of_websocket_ends_the_connection() {
    let unmasked = vec![0x81, 2, b'{', b'}'];
    let reserved_bit = frame(true, TEXT | 0x40, b"{}");
    let reserved_kind = frame(true, 3, b"{}");
    let nothing_to_continue = frame(true, CONTINUE, b"{}");
    let ping_in_pieces = frame(false, PING, b"");
    let long_ping = frame(true, PING, &[0; 126]);
    for frames in [unmasked, reserved_bit, reserved_kind, nothing_to_continue, ping_in_pieces, long_ping] {
        let mut hand = WsConnection::open(Served::new().await.address).await;
        hand.write(&frames).await;
        let (code, reason) = hand.goodbye().await;
        assert_eq!(code, 1002, "{reason}");
        hand.end().await;
    }
}
