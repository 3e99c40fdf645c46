//! Several calls at once.

use std::time::Duration;

use serde_json::json;
use turms_client::{CallErrorKind, Delivery, UnsupportedCause};
use turms_proto::{Ability, ErrorCode, ProtocolVersion};

use crate::behaviour::peer::{Peer, said};
use crate::behaviour::reach::{Way, along, everywhere, nobody, person};

#[tokio::test]
async fn each_call_of_a_batch_has_an_outcome_of_its_own() {
    everywhere(async |client| {
        let mut batch = client.batch();
        assert!(batch.is_empty());
        let unwritable = batch.call_tool("add", [1]);
        let sum = batch.call_tool("add", json!({ "a": 1, "b": 2 }));
        let unknown = batch.call_tool("nothing", ());
        let failed = batch.call_tool("fail", ());
        let text = batch.read_resource("config://app");
        let missing = batch.read_resource("config://other");
        let prompt = batch.get_prompt("plain", ());
        let tools = batch.list_tools();
        let resources = batch.list_resources();
        let prompts = batch.list_prompts();
        let twice = batch.request_raw("fixture/twice", json!({ "n": 4 }));
        assert_eq!(batch.len(), 11);
        let mut outcomes = batch.send().await;
        assert_eq!(outcomes.take(twice).unwrap().member("n").unwrap().as_str(), "8");
        assert_eq!(outcomes.take(prompts).unwrap().prompts.len(), 3);
        assert_eq!(outcomes.take(resources).unwrap().resources.len(), 3);
        assert_eq!(outcomes.take(tools).unwrap().tools[0].name, "add");
        assert_eq!(outcomes.take(prompt).unwrap().messages.len(), 1);
        assert!(outcomes.take(missing).unwrap_err().error_response().unwrap().is_resource_not_found());
        assert_eq!(outcomes.take(text).unwrap().contents[0].text.as_deref(), Some("debug = true"));
        assert!(outcomes.take(failed).unwrap().is_error());
        let error = outcomes.take(unknown).unwrap_err();
        assert_eq!(error.error_response().unwrap().code, ErrorCode::INVALID_PARAMS);
        assert_eq!(error.target(), "tools/call \"nothing\"");
        assert_eq!(outcomes.take(sum).unwrap().text(), "3");
        assert_eq!(outcomes.take(unwritable).unwrap_err().delivery(), Delivery::NotSent);
    })
    .await;
}

#[tokio::test]
async fn the_server_can_request_input_during_a_batch() {
    everywhere(async |client| {
        let mut batch = client.batch();
        let (think, roots) = (batch.call_tool("think", ()), batch.call_tool("roots", ()));
        let mut outcomes = batch.send().await;
        assert_eq!(outcomes.take(think).unwrap().text(), "Paris");
        assert_eq!(outcomes.take(roots).unwrap().text(), "file:///home");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_one_call_of_a_batch_does_not_fail_the_others() {
    along(&Way::IN_PROCESS, &ProtocolVersion::ALL, person, async |client| {
        let mut batch = client.batch().timeout(Duration::from_secs(1));
        let (slow, list) = (batch.call_tool("slow", ()), batch.call_tool("list", ()));
        let mut outcomes = batch.send().await;
        let error = outcomes.take(slow).unwrap_err();
        assert!(error.is_timeout() && error.may_have_run(), "{error}");
        match outcomes.take(list) {
            Ok(list) => assert_eq!(list.text(), "[1,2,3]"),
            // The responses to a batch may arrive together, after the slowest call.
            Err(error) => assert!(error.is_timeout() && client.version.has(Ability::Batching), "{error}"),
        }
        client.reaches("stopped", 1).await;
    })
    .await;
}

#[tokio::test]
async fn dropping_a_batch_stops_all_of_it() {
    everywhere(async |client| {
        let mut batch = client.batch();
        let _slots = (batch.call_tool("slow", ()), batch.call_tool("slow", ()));
        let sending = tokio::spawn(batch.send());
        client.reaches("started", 2).await;
        sending.abort();
        client.reaches("stopped", 2).await;
    })
    .await;
}

#[tokio::test]
async fn an_empty_batch_is_nothing() {
    everywhere(async |client| {
        client.batch().send().await;
        assert_eq!(client.text("list", ()).await, "[1,2,3]");
    })
    .await;
}

#[tokio::test]
async fn a_method_that_the_revision_does_not_have_is_left_out_of_a_batch() {
    everywhere(async |client| {
        let foreign = if client.version.has(Ability::Stateless) { "ping" } else { "server/discover" };
        let mut batch = client.batch();
        let (missing, list) = (batch.request_raw(foreign, ()), batch.call_tool("list", ()));
        let mut outcomes = batch.send().await;
        assert_eq!(outcomes.take(list).unwrap().text(), "[1,2,3]");
        let error = outcomes.take(missing).unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Unsupported(UnsupportedCause::Revision { .. })), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_batch_is_one_line_where_the_revision_has_batches() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::V2025_03_26, nobody()).await;
    let mut batch = client.batch();
    let (one, two) = (batch.call_tool("one", ()), batch.call_tool("two", ()));
    let three = batch.call_tool("three", ());
    let sending = tokio::spawn(batch.send());
    // The client first tests whether the server supports batches: a batch of pings, then a single ping.
    let pings = peer.next().await;
    let pongs = pings.as_array().expect("an array").iter();
    let pongs: Vec<_> = pongs.map(|ping| json!({ "jsonrpc": "2.0", "id": ping["id"], "result": {} })).collect();
    peer.send(&json!(pongs)).await;
    let line = loop {
        let line = peer.next().await;
        if line.is_array() {
            break line;
        }
    };
    let requests = line.as_array().expect("an array");
    let names: Vec<_> = requests.iter().map(|request| request["params"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "two", "three"]);
    // The responses may arrive in one message or several, in any order.
    let answer =
        |index: usize, text: &str| json!({ "jsonrpc": "2.0", "id": requests[index]["id"], "result": said(text) });
    peer.send(&answer(2, "third")).await;
    let failed = json!({ "jsonrpc": "2.0", "id": requests[1]["id"], "error": { "code": 7, "message": "no" } });
    peer.send(&json!([failed, answer(0, "first")])).await;
    let mut outcomes = sending.await.unwrap();
    assert_eq!(outcomes.take(one).unwrap().text(), "first");
    assert_eq!(outcomes.take(two).unwrap_err().error_response().unwrap().code, ErrorCode(7));
    assert_eq!(outcomes.take(three).unwrap().text(), "third");
}

#[tokio::test]
async fn a_batch_is_a_line_for_each_call_in_all_other_revisions() {
    for version in ProtocolVersion::ALL.into_iter().filter(|version| !version.has(Ability::Batching)) {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        let mut batch = client.batch();
        let (one, two) = (batch.call_tool("one", ()), batch.call_tool("two", ()));
        let sending = tokio::spawn(batch.send());
        let (first, second) = (peer.expect("tools/call").await, peer.expect("tools/call").await);
        peer.answer(&second, said(second["params"]["name"].as_str().unwrap())).await;
        peer.answer(&first, said(first["params"]["name"].as_str().unwrap())).await;
        let mut outcomes = sending.await.unwrap();
        assert_eq!(outcomes.take(one).unwrap().text(), "one");
        assert_eq!(outcomes.take(two).unwrap().text(), "two");
    }
}

#[tokio::test]
async fn the_calls_of_a_batch_are_pending_and_can_be_cancelled() {
    everywhere(async |client| {
        let mut batch = client.batch();
        let (one, two) = (batch.call_tool("slow", ()), batch.call_tool("slow", ()));
        let sending = tokio::spawn(batch.send());
        client.reaches("started", 2).await;
        assert_eq!(client.pending_calls().len(), 2);
        assert_eq!(client.cancel_all(), 2);
        let mut outcomes = sending.await.unwrap();
        assert!(outcomes.take(one).unwrap_err().is_cancelled());
        assert!(outcomes.take(two).unwrap_err().is_cancelled());
        client.reaches("stopped", 2).await;
    })
    .await;
}
