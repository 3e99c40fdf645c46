//! Servers that send invalid messages, or messages that the client does not know.

use serde_json::{Value, json};
use turms_client::{CallError, CallErrorKind, Client, DecodeCause, Delivery, Event, TaskCause};
use turms_proto::types::{CallToolResult, Content};
use turms_proto::{Ability, ErrorCode, ProtocolVersion};

use crate::behaviour::peer::{Peer, said, tools};
use crate::behaviour::reach::nobody;

type Answer = Result<CallToolResult, CallError>;

async fn newest() -> (Client, Peer) {
    Peer::connected(ProtocolVersion::LATEST, nobody()).await
}

/// Calls a tool, and answers with `result`.
async fn call(client: &Client, peer: &mut Peer, result: Value) -> Answer {
    let call = tokio::spawn(client.call_tool("t", ()).into_future());
    let request = peer.expect("tools/call").await;
    peer.answer(&request, result).await;
    call.await.unwrap()
}

/// Lists one tool, and returns the names that the client keeps.
async fn list(client: &Client, peer: &mut Peer, tool: Value) -> Vec<String> {
    let listing = tokio::spawn(client.list_tools().into_future());
    let request = peer.expect("tools/list").await;
    peer.answer(&request, tools(&json!([tool]))).await;
    listing.await.unwrap().unwrap().into_iter().map(|tool| tool.name).collect()
}

fn sums() -> Value {
    let output = json!({ "type": "object", "properties": { "sum": { "type": "number" } }, "required": ["sum"] });
    json!({ "name": "t", "inputSchema": { "type": "object" }, "outputSchema": output })
}

fn structured(content: &Value) -> Value {
    json!({ "resultType": "complete", "content": [], "structuredContent": content })
}

fn violations(answer: Answer) -> Vec<String> {
    let error = answer.unwrap_err();
    assert_eq!((error.delivery(), error.target()), (Delivery::Answered, "tools/call \"t\""));
    match error.kind() {
        CallErrorKind::Decode(DecodeCause::Output(violations)) => violations.clone(),
        _ => panic!("{error}"),
    }
}

#[tokio::test]
async fn output_that_breaks_its_schema_is_an_error() {
    for version in ProtocolVersion::ALL.into_iter().filter(|version| version.has(Ability::StructuredOutput)) {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        list(&client, &mut peer, sums()).await;
        assert!(call(&client, &mut peer, structured(&json!({ "sum": 3 }))).await.is_ok());
        let broken = violations(call(&client, &mut peer, structured(&json!({ "sum": "3" }))).await);
        assert_eq!(broken, ["structuredContent.sum: \"3\" is not of type \"number\""]);
        assert_eq!(violations(call(&client, &mut peer, said("3")).await), ["there is none"]);
        let failed = json!({ "resultType": "complete", "content": [], "isError": true });
        assert!(call(&client, &mut peer, failed).await.unwrap().is_error(), "a tool error needs no output");
    }
}

#[tokio::test]
async fn the_schema_of_a_tool_that_was_never_listed_is_looked_up() {
    let (client, mut peer) = newest().await;
    let calling = tokio::spawn(client.call_tool("t", ()).into_future());
    let request = peer.expect("tools/call").await;
    peer.answer(&request, structured(&json!({}))).await;
    let listing = peer.expect("tools/list").await;
    peer.answer(&listing, tools(&json!([sums()]))).await;
    assert_eq!(violations(calling.await.unwrap()), ["structuredContent: \"sum\" is a required property"]);
    // The schema is cached.
    assert!(call(&client, &mut peer, structured(&json!({ "sum": 1 }))).await.is_ok());
}

#[tokio::test]
async fn a_call_succeeds_when_the_schema_cannot_be_looked_up() {
    let (client, mut peer) = newest().await;
    let calling = tokio::spawn(client.call_tool("t", ()).into_future());
    let request = peer.expect("tools/call").await;
    peer.answer(&request, structured(&json!({}))).await;
    let listing = peer.expect("tools/list").await;
    peer.refuse(&listing, json!({ "code": -32603, "message": "no" })).await;
    assert!(calling.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_block_of_an_unknown_kind_is_unchanged() {
    for version in ProtocolVersion::ALL {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        let block = json!({ "type": "hologram", "depth": 3 });
        let result = json!({ "content": [block, { "type": "text", "text": "and text" }], "future": true });
        let result = call(&client, &mut peer, result).await.unwrap();
        let Content::Unknown(kept) = &result.content[0] else { panic!("{result:?}") };
        assert_eq!(kept.decode::<Value>().unwrap(), block);
        assert_eq!(result.text(), "and text");
        assert_eq!(result.extra.get("future").unwrap().as_str(), "true");
    }
}

#[tokio::test]
async fn a_result_without_a_type_is_complete() {
    let (client, mut peer) = newest().await;
    let result = json!({ "content": [{ "type": "text", "text": "fine" }] });
    assert_eq!(call(&client, &mut peer, result).await.unwrap().text(), "fine");
}

#[tokio::test]
async fn a_result_of_an_unknown_type_is_refused() {
    let (client, mut peer) = newest().await;
    let strange = |body: Value| {
        let mut body = body;
        body["resultType"] = "poem".into();
        body
    };
    let error = call(&client, &mut peer, strange(json!({ "content": [] }))).await.unwrap_err();
    assert_eq!(error.to_string(), "tools/call \"t\": invalid response: unknown resultType \"poem\"");
    let reading = tokio::spawn(client.read_resource("a://b").into_future());
    let request = peer.expect("resources/read").await;
    peer.answer(&request, strange(json!({ "contents": [] }))).await;
    assert!(matches!(reading.await.unwrap().unwrap_err().kind(), CallErrorKind::Decode(DecodeCause::Invalid(_))));
    let getting = tokio::spawn(client.get_prompt("p", ()).into_future());
    let request = peer.expect("prompts/get").await;
    peer.answer(&request, strange(json!({ "messages": [] }))).await;
    assert!(matches!(getting.await.unwrap().unwrap_err().kind(), CallErrorKind::Decode(DecodeCause::Invalid(_))));
    let listing = tokio::spawn(client.list_tools().into_future());
    let request = peer.expect("tools/list").await;
    peer.answer(&request, strange(json!({ "tools": [] }))).await;
    assert!(matches!(listing.await.unwrap().unwrap_err().kind(), CallErrorKind::Decode(DecodeCause::Invalid(_))));
}

#[tokio::test]
async fn an_unrequested_task_is_refused() {
    for (version, result) in [
        (
            ProtocolVersion::LATEST,
            json!({ "resultType": "task", "taskId": "1", "status": "working", "createdAt": "", "lastUpdatedAt": "",
                    "ttlMs": null }),
        ),
        (
            ProtocolVersion::V2025_11_25,
            json!({ "task": { "taskId": "1", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": null } }),
        ),
    ] {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        let error = call(&client, &mut peer, result).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Task(TaskCause::Unexpected)), "{error}");
    }
}

#[tokio::test]
async fn an_invalid_response_is_an_error_of_the_server() {
    for version in ProtocolVersion::ALL {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        for result in [json!(null), json!([]), json!("text"), json!({}), json!({ "content": "text" })] {
            let error = call(&client, &mut peer, result.clone()).await.unwrap_err();
            assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Invalid(_))), "{result}: {error}");
            assert_eq!(error.delivery(), Delivery::Answered);
        }
        let calling = tokio::spawn(client.call_tool("t", ()).into_future());
        let request = peer.expect("tools/call").await;
        peer.send(&json!({ "jsonrpc": "2.0", "id": request["id"] })).await;
        let error = calling.await.unwrap().unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Invalid(_))), "{error}");
        assert!(call(&client, &mut peer, said("better")).await.is_ok());
    }
}

#[tokio::test]
async fn a_tool_with_invalid_header_annotations_is_left_out() {
    let wants = |header: &str| {
        let region = json!({ "type": "string", "x-mcp-header": header });
        json!({ "name": "t", "inputSchema": { "type": "object", "properties": { "region": region } } })
    };
    for version in ProtocolVersion::ALL {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        assert_eq!(list(&client, &mut peer, wants("Region")).await, ["t"]);
        let listed = list(&client, &mut peer, wants("not a token")).await;
        assert_eq!(listed.is_empty(), version.has(Ability::HeaderMirroring));
    }
}

#[tokio::test]
async fn a_repeated_cursor_ends_the_list_with_an_error() {
    let (client, mut peer) = newest().await;
    let listing = tokio::spawn(client.list_tools().into_future());
    let mut page = tools(&json!([]));
    page["nextCursor"] = "round".into();
    let circling = tokio::spawn(async move {
        while let Some(line) = peer.line().await {
            let request: Value = serde_json::from_str(&line).unwrap();
            peer.answer(&request, page.clone()).await;
        }
    });
    let error = listing.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::EndlessList(_))), "{error}");
    circling.abort();
}

#[tokio::test]
async fn invalid_lines_and_unknown_response_ids_are_ignored() {
    for version in ProtocolVersion::ALL {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        let calling = tokio::spawn(client.call_tool("t", ()).into_future());
        let request = peer.expect("tools/call").await;
        peer.answer(&json!({ "id": 4711 }), said("to nobody")).await;
        peer.answer(&json!({ "id": request["id"].to_string() }), said("to another")).await;
        peer.answer(&request, said("to you")).await;
        peer.answer(&request, said("to you again")).await;
        assert_eq!(calling.await.unwrap().unwrap().text(), "to you");
        assert!(call(&client, &mut peer, said("still here")).await.is_ok());
        assert_eq!(client.stats().connection.ignored, 3);
    }
}

#[tokio::test]
async fn an_unknown_notification_is_an_event() {
    for version in ProtocolVersion::ALL {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        let mut events = client.events();
        peer.notify("example/tick", json!({ "n": 1 })).await;
        peer.notify("notifications/resources/updated", json!({ "uri": 7 })).await;
        for method in ["example/tick", "notifications/resources/updated"] {
            let told = events.find(|event| match event {
                Event::Notification(notification) => Some(notification.method.to_string()),
                _ => None,
            });
            assert_eq!(told.await.unwrap(), method);
        }
        let token = json!({ "progressToken": "own", "progress": 0.5 });
        peer.notify("notifications/progress", token).await;
        let progress = events.find(|event| match event {
            Event::Progress(report) => Some(report.progress.as_f64()),
            _ => None,
        });
        assert_eq!(progress.await, Some(0.5), "a progress token of the caller");
    }
}

#[tokio::test]
async fn a_ping_is_answered_and_an_unknown_request_is_refused() {
    for version in ProtocolVersion::with_handshake() {
        let (_client, mut peer) = Peer::connected(version, nobody()).await;
        peer.request("a", "ping", json!({})).await;
        assert_eq!(peer.expect_answer("a").await["result"], json!({}));
        peer.request(2, "example/secret", json!({})).await;
        assert_eq!(peer.expect_answer(2).await["error"]["code"], ErrorCode::METHOD_NOT_FOUND.0);
    }
}

#[tokio::test]
async fn requests_of_a_server_of_the_newest_revision_are_ignored() {
    let (client, mut peer) = newest().await;
    peer.request(1, "ping", json!({})).await;
    peer.request(2, "roots/list", json!({})).await;
    // The next message of the client is a request, not a response.
    assert!(call(&client, &mut peer, said("well")).await.is_ok());
}
