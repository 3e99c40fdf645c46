//! Input requests on the wire: input rounds since 2026-07-28, requests of the server before.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::time::Instant;
use turms_client::{CallErrorKind, CancellationToken, Client, ClientBuilder, DecodeCause, HandlerError, InputCause};
use turms_proto::types::{ElicitResult, Meta};
use turms_proto::{Object, ProtocolVersion};
use turms_testkit::within;

use crate::behaviour::peer::{Peer, said};
use crate::behaviour::reach::{nobody, person};

fn asking() -> ClientBuilder {
    Client::builder("suite", "1.0.0")
}

fn form(message: &str) -> Value {
    json!({ "mode": "form", "message": message, "requestedSchema": { "type": "object", "properties": {} } })
}

fn required(questions: &Value, state: Option<&str>) -> Value {
    let mut result = json!({ "resultType": "input_required", "inputRequests": questions });
    if let Some(state) = state {
        result["requestState"] = state.into();
    }
    result
}

#[tokio::test]
async fn a_round_has_the_responses_and_the_unchanged_state() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, person()).await;
    let mine = Meta::from(Object::encode(&json!({ "example.com/mine": 1 })).unwrap());
    let calling = tokio::spawn(client.call_tool("t", json!({ "x": 1 })).meta(mine).into_future());
    let first = peer.expect("tools/call").await;
    assert_eq!(first["params"]["_meta"]["example.com/mine"], 1);
    let questions = json!({
        "who": { "method": "elicitation/create", "params": form("Who?") },
        "where": { "method": "roots/list" },
        "what": { "method": "sampling/createMessage", "params": {
            "messages": [{ "role": "user", "content": { "type": "text", "text": "?" } }], "maxTokens": 5
        } }
    });
    peer.answer(&first, required(&questions, Some("opaque \" state"))).await;
    let second = peer.expect("tools/call").await;
    assert_ne!(second["id"], first["id"]);
    assert_eq!(second["params"]["arguments"], json!({ "x": 1 }));
    assert_eq!(second["params"]["_meta"], first["params"]["_meta"]);
    assert_eq!(second["params"]["requestState"], "opaque \" state");
    let expected = json!({
        "who": { "action": "accept", "content": { "name": "Ann" } },
        "where": { "roots": [{ "uri": "file:///home" }] },
        "what": { "role": "assistant", "content": { "type": "text", "text": "Paris" }, "model": "test-model" }
    });
    assert_eq!(second["params"]["inputResponses"], expected);
    // The state belongs to one round, so a round without it clears it.
    peer.answer(&second, required(&json!({ "again": { "method": "roots/list" } }), None)).await;
    let third = peer.expect("tools/call").await;
    assert_eq!(third["params"].get("requestState"), None);
    assert_eq!(third["params"]["inputResponses"], json!({ "again": { "roots": [{ "uri": "file:///home" }] } }));
    peer.answer(&third, said("done")).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "done");
}

#[tokio::test]
async fn the_token_of_a_handler_is_cancelled_with_the_call() {
    for is_dropped in [false, true] {
        let (started, mut starting) = tokio::sync::mpsc::channel(1);
        let handlers = asking().on_form(move |_, cx| {
            let (started, token) = (started.clone(), cx.cancellation().clone());
            async move {
                let (ended, ending) = tokio::sync::oneshot::channel();
                tokio::spawn(async move {
                    token.cancelled().await;
                    let _ = ended.send(token.reason().map(ToOwned::to_owned));
                });
                let _ = started.send(ending).await;
                std::future::pending().await
            }
        });
        let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, handlers).await;
        let token = CancellationToken::new();
        let calling = tokio::spawn(client.call_tool("t", ()).cancellation_token(&token).into_future());
        let request = peer.expect("tools/call").await;
        let question = json!({ "q": { "method": "elicitation/create", "params": form("?") } });
        peer.answer(&request, required(&question, None)).await;
        let ending = within("the handler", starting.recv()).await.unwrap();
        if is_dropped {
            calling.abort();
            assert_eq!(within("the end of its work", ending).await.unwrap(), None);
        } else {
            token.cancel_with_reason("the user pressed Escape");
            assert_eq!(within("the end of its work", ending).await.unwrap().unwrap(), "the user pressed Escape");
            assert!(calling.await.unwrap().unwrap_err().is_cancelled());
        }
    }
}

#[tokio::test]
async fn the_input_requests_of_a_round_are_handled_concurrently() {
    let both = Arc::new(Barrier::new(2));
    let answers = asking().on_form(move |_, _| {
        let both = both.clone();
        async move {
            both.wait().await;
            Ok(ElicitResult::decline())
        }
    });
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, answers).await;
    let calling = tokio::spawn(client.call_tool("t", ()).into_future());
    let request = peer.expect("tools/call").await;
    let question = json!({ "method": "elicitation/create", "params": form("?") });
    peer.answer(&request, required(&json!({ "a": question, "b": question }), None)).await;
    let request = peer.expect("tools/call").await;
    let declined = json!({ "action": "decline" });
    assert_eq!(request["params"]["inputResponses"], json!({ "a": declined, "b": declined }));
    peer.answer(&request, said("done")).await;
    assert!(calling.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_round_without_input_requests_is_repeated_after_a_delay() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
    let calling = tokio::spawn(client.call_tool("t", ()).into_future());
    let request = peer.expect("tools/call").await;
    let answered = Instant::now();
    peer.answer(&request, json!({ "resultType": "input_required", "requestState": "later" })).await;
    let request = peer.expect("tools/call").await;
    assert!(answered.elapsed() >= Duration::from_millis(50));
    assert_eq!(request["params"]["requestState"], "later");
    peer.answer(&request, said("now")).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "now");
}

#[tokio::test]
async fn an_undeclared_input_request_fails_the_call() {
    for (method, params) in [
        ("roots/list", json!({})),
        ("elicitation/create", form("?")),
        ("elicitation/create", json!({ "mode": "url", "message": "?", "url": "https://a.example" })),
        ("sampling/createMessage", json!({ "messages": [], "maxTokens": 5 })),
    ] {
        let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
        let calling = tokio::spawn(client.call_tool("t", ()).into_future());
        let request = peer.expect("tools/call").await;
        peer.answer(&request, required(&json!({ "q": { "method": method, "params": params } }), Some("s"))).await;
        let error = calling.await.unwrap().unwrap_err();
        let CallErrorKind::Input(InputCause::Refused { method: asked, reason }) = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(asked, method);
        assert_eq!(reason, "this client did not declare the capability");
        client.close().await;
        assert_eq!(peer.line().await, None, "no request is sent");
    }
}

#[tokio::test]
async fn an_unknown_input_request_is_an_error_of_the_server() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, person()).await;
    let calling = tokio::spawn(client.call_tool("t", ()).into_future());
    let request = peer.expect("tools/call").await;
    peer.answer(&request, required(&json!({ "q": { "method": "example/guess" } }), None)).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Invalid(_))), "{error}");
}

#[tokio::test]
async fn undeclared_requests_of_older_servers_are_refused() {
    let url = || json!({ "mode": "url", "message": "?", "url": "https://a.example", "elicitationId": "1" });
    let sample = || json!({ "messages": [], "maxTokens": 5 });
    for version in ProtocolVersion::with_handshake() {
        let (_client, mut peer) = Peer::connected(version, nobody()).await;
        for (method, params) in
            [("roots/list", json!({})), ("sampling/createMessage", sample()), ("elicitation/create", form("?"))]
        {
            peer.request(method, method, params).await;
            assert_eq!(peer.expect_answer(method).await["error"]["code"], -32601, "{version} {method}");
        }
    }
    let answers = asking()
        .on_form(|_, _| async { Ok(ElicitResult::decline()) })
        .on_sampling(|_, _| async { Err(HandlerError::rejected("not today")) });
    let (_client, mut peer) = Peer::connected(ProtocolVersion::V2025_11_25, answers).await;
    peer.request(1, "elicitation/create", url()).await;
    assert_eq!(peer.expect_answer(1).await["error"]["code"], -32602);
    peer.request(2, "sampling/createMessage", sample()).await;
    let refused = peer.expect_answer(2).await;
    assert_eq!(refused["error"], json!({ "code": -1, "message": "not today" }));
    let mut with_tools = sample();
    with_tools["tools"] = json!([]);
    peer.request(3, "sampling/createMessage", with_tools).await;
    assert_eq!(peer.expect_answer(3).await["error"]["code"], -32602);
}

#[tokio::test]
async fn a_tool_use_without_a_result_is_refused() {
    let answers = asking().on_sampling_with_tools(|_, _| async { Err(HandlerError::new("never asked")) });
    let (_client, mut peer) = Peer::connected(ProtocolVersion::V2025_11_25, answers).await;
    let used = json!({ "role": "assistant", "content": { "type": "tool_use", "id": "1", "name": "t", "input": {} } });
    let text = json!({ "role": "user", "content": { "type": "text", "text": "well?" } });
    peer.request(1, "sampling/createMessage", json!({ "messages": [used, text], "maxTokens": 5 })).await;
    let error = peer.expect_answer(1).await["error"].clone();
    assert_eq!(error["code"], -32602);
    assert_eq!(error["message"], "invalid request: messages[1]: tool use \"1\" has no result");
}

#[tokio::test]
async fn the_defaults_of_a_form_of_an_older_server_are_sent() {
    let (_client, mut peer) = Peer::connected(ProtocolVersion::V2025_11_25, person()).await;
    let fields = json!({
        "name": { "type": "string" }, "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 }, "verified": { "type": "boolean", "default": true },
        "status": { "type": "string", "enum": ["active", "inactive"], "default": "active" },
        "colours": { "type": "array", "items": { "type": "string", "enum": ["red", "blue"] }, "default": ["red"] }
    });
    let schema = json!({ "type": "object", "properties": fields, "required": ["name"] });
    peer.request(1, "elicitation/create", json!({ "message": "?", "requestedSchema": schema })).await;
    let expected = json!({
        "name": "Ann", "age": 30, "score": 95.5, "verified": true, "status": "active", "colours": ["red"]
    });
    assert_eq!(peer.expect_answer(1).await["result"], json!({ "action": "accept", "content": expected }));
}

fn page_first() -> Value {
    let page = json!({ "mode": "url", "message": "Log in", "url": "https://login.example", "elicitationId": "p1" });
    json!({ "code": -32042, "message": "log in first", "data": { "elicitations": [page] } })
}

#[tokio::test]
async fn a_call_is_repeated_after_its_url_elicitation_completes() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::V2025_11_25, person()).await;
    let calling = tokio::spawn(client.call_tool("t", json!({ "x": 1 })).into_future());
    let first = peer.expect("tools/call").await;
    peer.refuse(&first, page_first()).await;
    peer.notify("notifications/elicitation/complete", json!({ "elicitationId": "another" })).await;
    peer.notify("notifications/elicitation/complete", json!({ "elicitationId": "p1" })).await;
    let second = peer.expect("tools/call").await;
    assert_eq!(second["params"], first["params"]);
    assert_ne!(second["id"], first["id"]);
    peer.answer(&second, said("welcome")).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "welcome");
}

#[tokio::test]
async fn a_declined_url_elicitation_keeps_the_error() {
    let declining = || asking().decline_elicitation();
    for builder in [declining(), nobody()] {
        let (client, mut peer) = Peer::connected(ProtocolVersion::V2025_11_25, builder).await;
        let calling = tokio::spawn(client.call_tool("t", ()).into_future());
        let request = peer.expect("tools/call").await;
        peer.refuse(&request, page_first()).await;
        assert_eq!(calling.await.unwrap().unwrap_err().error_response().unwrap().code.0, -32042);
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_url_elicitation_ends_at_the_timeout() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::V2025_11_25, person()).await;
    let calling = tokio::spawn(client.call_tool("t", ()).timeout(Duration::from_secs(5)).into_future());
    let request = peer.expect("tools/call").await;
    peer.refuse(&request, page_first()).await;
    assert_eq!(calling.await.unwrap().unwrap_err().error_response().unwrap().message, "log in first");
}
