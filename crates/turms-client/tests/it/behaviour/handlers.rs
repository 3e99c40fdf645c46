//! The handlers of a client: their context, and methods that the protocol does not define.

use serde_json::{Value, json};
use tokio::sync::mpsc;
use turms_client::{Client, RequestContext};
use turms_proto::types::{CreateMessageResult, ElicitResult};
use turms_proto::{ErrorObject, Object, ProtocolVersion};
use turms_testkit::within;

use crate::behaviour::peer::{Peer, said};

fn sample() -> Value {
    json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "?" } }], "maxTokens": 5 })
}

fn describe(cx: &RequestContext) -> String {
    let meta = cx.meta().map(|meta| Object::from(meta.clone())).and_then(|meta| meta.get("example.com/x"));
    let version = cx.server_info().map(|info| info.version.as_str()).unwrap_or_default();
    format!("{} {version} {:?} {}", cx.server_name(), meta.map(|meta| meta.to_string()), cx.progress().is_some())
}

#[tokio::test]
async fn a_handler_knows_the_server_and_the_metadata_of_the_request() {
    for version in ProtocolVersion::with_handshake() {
        let builder = Client::builder("suite", "1").on_sampling(|_, cx| async move {
            cx.progress().unwrap().report(1.0, 2.0).await;
            Ok(CreateMessageResult::assistant(describe(&cx), "test-model"))
        });
        let (_client, mut peer) = Peer::connected(version, builder).await;
        let mut params = sample();
        params["_meta"] = json!({ "example.com/x": 7, "progressToken": "p" });
        peer.request(1, "sampling/createMessage", params).await;
        let progress = peer.expect("notifications/progress").await;
        assert_eq!(progress["params"], json!({ "progressToken": "p", "progress": 1.0, "total": 2.0 }), "{version}");
        let response = peer.expect_answer(1).await;
        assert_eq!(response["result"]["content"]["text"], "by-hand 1 Some(\"7\") true", "{version}");
    }
}

#[tokio::test]
async fn a_handler_knows_the_server_of_an_input_round() {
    let builder = Client::builder("suite", "1").on_form(|_, cx| async move {
        assert!(!cx.cancellation().is_cancelled());
        Ok(ElicitResult::accept(json!({ "server": describe(&cx) }))?)
    });
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, builder).await;
    let calling = tokio::spawn(client.call_tool("t", ()).into_future());
    let call = peer.expect("tools/call").await;
    let schema = json!({ "type": "object", "properties": { "server": { "type": "string" } } });
    let form = json!({ "mode": "form", "message": "?", "requestedSchema": schema });
    let requests = json!({ "a": { "method": "elicitation/create", "params": form } });
    peer.answer(&call, json!({ "resultType": "input_required", "inputRequests": requests })).await;
    let call = peer.expect("tools/call").await;
    assert_eq!(call["params"]["inputResponses"]["a"]["content"], json!({ "server": "by-hand 1 None false" }));
    peer.answer(&call, said("done")).await;
    assert!(calling.await.unwrap().is_ok());
}

#[tokio::test]
async fn an_error_of_a_handler_is_the_error_response() {
    let builder = Client::builder("suite", "1")
        .on_sampling(|_, _| async { Err("x".parse::<u32>().unwrap_err().into()) })
        .on_form(|_, _| async { Err(ErrorObject::invalid_params("no such form").into()) });
    let (_client, mut peer) = Peer::connected(ProtocolVersion::V2025_11_25, builder).await;
    peer.request(1, "sampling/createMessage", sample()).await;
    let error = &peer.expect_answer(1).await["error"];
    assert_eq!(*error, json!({ "code": -32603, "message": "invalid digit found in string" }));
    let form = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    peer.request(2, "elicitation/create", form).await;
    assert_eq!(peer.expect_answer(2).await["error"], json!({ "code": -32602, "message": "no such form" }));
}

#[tokio::test]
async fn methods_of_an_application_have_handlers() {
    let double = |params: Object, cx: RequestContext| async move {
        let number: u32 = params.get("number").ok_or_else(|| ErrorObject::invalid_params("no number"))?.decode()?;
        Ok(json!({ "number": 2 * number, "server": cx.server_name() }))
    };
    for version in ProtocolVersion::with_handshake() {
        let builder = Client::builder("suite", "1").on_request("example.com/double", double);
        let (_client, mut peer) = Peer::connected(version, builder).await;
        peer.request(1, "example.com/double", json!({ "number": 4 })).await;
        assert_eq!(peer.expect_answer(1).await["result"], json!({ "number": 8, "server": "by-hand" }), "{version}");
        peer.request(2, "example.com/double", json!({})).await;
        assert_eq!(peer.expect_answer(2).await["error"]["code"], -32602, "{version}");
        peer.request(3, "example.com/other", json!({})).await;
        assert_eq!(peer.expect_answer(3).await["error"]["code"], -32601, "{version}");
    }
}

#[tokio::test]
async fn notifications_of_an_application_are_handled_in_order() {
    for version in ProtocolVersion::ALL {
        let (sender, mut handled) = mpsc::unbounded_channel();
        let handler = move |params: Object, cx: RequestContext| {
            let sender = sender.clone();
            async move {
                tokio::task::yield_now().await;
                let number: u32 = params.get("number").ok_or("no number")?.decode()?;
                Ok(sender.send((number, describe(&cx)))?)
            }
        };
        let builder = Client::builder("suite", "1").on_notification("example.com/changed", handler);
        let (client, mut peer) = Peer::connected(version, builder).await;
        peer.notify("example.com/changed", json!({})).await;
        for number in 0..3 {
            let params = json!({ "number": number, "_meta": { "example.com/x": 7 } });
            peer.notify("example.com/changed", params).await;
            peer.notify("example.com/other", json!({})).await;
        }
        for number in 0..3 {
            let expected = (number, "by-hand 1 Some(\"7\") false".to_owned());
            assert_eq!(within("a notification", handled.recv()).await, Some(expected), "{version}");
        }
        within("the end", client.close()).await;
    }
}
