//! JSON-RPC batches, which one revision has and not every server of that revision supports.

use std::sync::mpsc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use turms_client::Client;
use turms_core::transport::memory;
use turms_proto::ProtocolVersion;

/// The behaviour of a server that receives a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Batches {
    /// Responds, to the last request first.
    Taken,
    /// Ignores the batch.
    Dropped,
}

/// Returns the `text` argument of each call, and reports the methods of each transmission.
async fn serve(
    reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    batches: Batches,
    heard: mpsc::Sender<Vec<String>>,
) {
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let message: Value = serde_json::from_str(&line).unwrap();
        let all = message.as_array().map_or_else(|| std::slice::from_ref(&message), Vec::as_slice);
        heard.send(all.iter().map(|one| one["method"].as_str().unwrap().to_owned()).collect()).unwrap();
        let mut answers: Vec<_> = all.iter().rev().filter(|one| one.get("id").is_some()).map(answer).collect();
        let answer = match message.is_array() {
            true if batches == Batches::Taken => json!(answers),
            true => continue,
            false if answers.is_empty() => continue,
            false => answers.remove(0),
        };
        writer.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
    }
}

fn answer(request: &Value) -> Value {
    let result = match request["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-03-26",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "echo", "version": "1" },
        }),
        "ping" => json!({}),
        _ => json!({ "content": [{ "type": "text", "text": request["params"]["arguments"]["text"] }] }),
    };
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })
}

async fn connect(batches: Batches) -> (Client, mpsc::Receiver<Vec<String>>) {
    let (near, far) = memory();
    let (sender, heard) = mpsc::channel();
    tokio::spawn(serve(far.0, far.1, batches, sender));
    let builder = Client::builder("c", "1").protocol_version(ProtocolVersion::V2025_03_26);
    (builder.connect_stream(near.0, near.1).await.unwrap(), heard)
}

async fn say_two(client: &Client) {
    let mut batch = client.batch();
    let slots = ["one", "two"].map(|text| (text, batch.call_tool("echo", json!({ "text": text }))));
    let mut outcomes = batch.send().await;
    for (text, slot) in slots {
        assert_eq!(outcomes.take(slot).unwrap().text(), text);
    }
}

/// Returns the number of messages in each transmission with tool calls.
fn calls(heard: &mpsc::Receiver<Vec<String>>) -> Vec<usize> {
    heard.try_iter().filter(|methods| methods[0] == "tools/call").map(|methods| methods.len()).collect()
}

#[tokio::test]
async fn a_server_with_batches_is_sent_one() {
    let (client, heard) = connect(Batches::Taken).await;
    say_two(&client).await;
    assert_eq!(calls(&heard), [2]);
}

#[tokio::test]
async fn a_server_that_ignores_batches_is_sent_single_requests() {
    let (client, heard) = connect(Batches::Dropped).await;
    say_two(&client).await;
    assert_eq!(calls(&heard), [1, 1]);
}

#[tokio::test]
async fn batch_support_is_tested_once() {
    for batches in [Batches::Taken, Batches::Dropped] {
        let (client, heard) = connect(batches).await;
        say_two(&client).await;
        say_two(&client).await;
        assert_eq!(heard.try_iter().filter(|methods| *methods == ["ping", "ping"]).count(), 1);
    }
}
