//! Calling tools.

use std::collections::BTreeMap;

use serde_json::json;
use turms_client::{CallErrorKind, Delivery};
use turms_proto::types::{Content, Meta};
use turms_proto::{Ability, ErrorCode, Object};

use crate::behaviour::reach::everywhere;
use turms_testkit::behaviour_server::Sum;
use turms_testkit::tools::Add;

#[tokio::test]
async fn a_tool_takes_a_struct_or_json_or_a_map_or_nothing() {
    everywhere(async |client| {
        assert_eq!(client.text("add", Add { a: 1.5, b: 2.0 }).await, "3.5");
        assert_eq!(client.text("add", json!({ "a": 1, "b": 2 })).await, "3");
        assert_eq!(client.text("add", BTreeMap::from([("a", 1), ("b", 3)])).await, "4");
        assert_eq!(client.text("list", ()).await, "[1,2,3]");
        assert_eq!(client.text("list", None::<Add>).await, "[1,2,3]");
    })
    .await;
}

#[tokio::test]
async fn arguments_that_are_not_an_object_are_not_sent() {
    everywhere(async |client| {
        let error = client.call_tool("add", [1, 2]).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "tools/call \"add\": cannot be written as JSON: arguments must be an object, not a list"
        );
        assert_eq!((error.delivery(), error.may_have_run()), (Delivery::NotSent, false));
        let error = client.call_tool("add", BTreeMap::from([((1, 2), 3)])).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Encode(_)), "{error}");
        assert_eq!(client.count("tools/call").await, 1);
    })
    .await;
}

#[tokio::test]
async fn structured_content_is_read_into_a_type() {
    everywhere(async |client| {
        let result = client.call_tool("sum", Add { a: 1.0, b: 2.0 }).await.unwrap();
        assert_eq!(result.text(), r#"{"sum":3.0}"#);
        let sum = result.structured::<Sum>().ok();
        assert_eq!(sum, client.version.has(Ability::StructuredOutput).then_some(Sum { sum: 3.0 }));
        let result = client.call_tool("list", ()).await.unwrap();
        let list = result.structured::<Vec<i64>>().ok();
        assert_eq!(list, client.version.has(Ability::AnyStructuredOutput).then(|| vec![1, 2, 3]));
    })
    .await;
}

#[tokio::test]
async fn content_has_only_kinds_of_the_revision() {
    everywhere(async |client| {
        let result = client.call_tool("content", ()).await.unwrap();
        let kinds: Vec<_> = result.content.iter().map(|content| content.kind().unwrap()).collect();
        let audio = if client.version.has(Ability::Audio) { "audio" } else { "text" };
        let link = if client.version.has(Ability::ResourceLinks) { "resource_link" } else { "text" };
        assert_eq!(kinds, ["text", "image", audio, link]);
        let image = result.images().next().unwrap();
        assert_eq!((image.bytes().unwrap(), image.mime_type.as_str()), (vec![1, 2], "image/png"));
        if let Content::Audio(audio) = &result.content[2] {
            assert_eq!(audio.bytes().unwrap(), [3]);
        }
        if let Content::ResourceLink(link) = &result.content[3] {
            assert_eq!(client.read_resource(&link.uri).await.unwrap().contents.len(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn invalid_arguments_have_the_error_of_the_revision() {
    everywhere(async |client| {
        for (tool, arguments, complaint) in [
            ("add", json!({ "a": 1 }), "arguments: missing field \"b\""),
            ("add", json!({ "a": "x", "b": 1 }), "arguments.a: invalid type: string \"x\", expected f64"),
            ("rate", json!({ "stars": 9 }), "arguments.stars: 9 is greater than the maximum of 5"),
            ("list", json!({ "surprise": 1 }), "arguments: unexpected field \"surprise\", nothing is taken here"),
        ] {
            let answer = client.call_tool(tool, arguments).await;
            if client.version.has(Ability::ArgumentErrorsAsResults) {
                let result = answer.unwrap();
                assert!(result.is_error());
                assert_eq!(result.text(), complaint);
            } else {
                let error = answer.unwrap_err();
                let error = error.error_response().unwrap();
                assert_eq!((error.code, error.message.as_str()), (ErrorCode::INVALID_PARAMS, complaint));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_tool_that_failed_is_a_result() {
    everywhere(async |client| {
        let result = client.call_tool("fail", ()).await.unwrap();
        assert!(result.is_error());
        assert_eq!(result.text(), "it broke");
    })
    .await;
}

#[tokio::test]
async fn a_refused_call_is_an_error_response() {
    everywhere(async |client| {
        for (tool, code, message) in [
            ("refuse", ErrorCode::INVALID_PARAMS, "never"),
            ("panic", ErrorCode::INTERNAL_ERROR, "the handler panicked"),
            ("nothing", ErrorCode::INVALID_PARAMS, "unknown tool: \"nothing\""),
        ] {
            let error = client.call_tool(tool, ()).await.unwrap_err();
            let told = error.error_response().unwrap();
            assert_eq!((told.code, told.message.as_str()), (code, message));
            assert_eq!((error.delivery(), error.may_have_run()), (Delivery::Answered, false));
            assert_eq!(error.target(), format!("tools/call {tool:?}"));
        }
        assert_eq!(client.text("list", ()).await, "[1,2,3]", "other calls still work");
    })
    .await;
}

#[tokio::test]
async fn the_metadata_of_a_call_reaches_the_handler() {
    everywhere(async |client| {
        let mine = Meta::from(Object::encode(&json!({ "example.com/mine": [1, "two"] })).unwrap());
        let echoed = client.call_tool("meta", ()).meta(mine.clone()).await.unwrap();
        assert_eq!(echoed.text(), r#"[1,"two"] false"#);
        let echoed = client.call_tool("meta", ()).meta(mine).on_progress(|_| {}).await.unwrap();
        assert_eq!(echoed.text(), r#"[1,"two"] true"#);
        assert_eq!(client.text("meta", ()).await, "null false");
    })
    .await;
}

#[tokio::test]
async fn many_calls_run_concurrently() {
    everywhere(async |client| {
        let calls: Vec<_> = (0..50)
            .map(|number| {
                let call = client.call_tool("add", json!({ "a": number, "b": 1 }));
                tokio::spawn(call.into_future())
            })
            .collect();
        for (number, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().unwrap().text(), (number + 1).to_string());
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_keeps_state_between_calls() {
    everywhere(async |client| {
        if client.version.has(Ability::Handshake) {
            assert_eq!(client.text("counter", ()).await, "1");
            assert_eq!(client.text("counter", ()).await, "2");
        } else {
            let error = client.call_tool("counter", ()).await.unwrap_err();
            assert_eq!(error.error_response().unwrap().code, ErrorCode::INTERNAL_ERROR);
        }
    })
    .await;
}
