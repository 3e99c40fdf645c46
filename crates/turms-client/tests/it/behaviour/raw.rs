//! Raw requests and notifications.

use serde_json::json;
use turms_client::{CallErrorKind, Delivery, UnsupportedCause};
use turms_proto::types::{EmptyParams, RootsListChangedNotification};
use turms_proto::{Ability, ErrorCode, ProtocolVersion, RawJson};

use crate::behaviour::reach::everywhere;

#[tokio::test]
async fn any_method_can_be_called() {
    everywhere(async |client| {
        let twice = client.request_raw("fixture/twice", json!({ "n": 21 })).await.unwrap();
        assert_eq!(twice.member("n").unwrap().as_str(), "42");
        let error = client.request_raw("fixture/twice", ()).await.unwrap_err();
        assert_eq!(error.error_response().unwrap().code, ErrorCode::INVALID_PARAMS);
        let error = client.request_raw("fixture/unheard", ()).await.unwrap_err();
        assert_eq!(error.error_response().unwrap().code, ErrorCode::METHOD_NOT_FOUND);
        assert_eq!(error.target(), "fixture/unheard");
        let error = client.request_raw("fixture/twice", [1]).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::NotSent);
    })
    .await;
}

#[tokio::test]
async fn a_known_method_can_be_called_by_name() {
    everywhere(async |client| {
        let params = json!({ "name": "add", "arguments": { "a": 1, "b": 2 } });
        let result = client.request_raw("tools/call", params).await.unwrap();
        assert_eq!(result.member("content").unwrap().as_str(), r#"[{"type":"text","text":"3"}]"#);
        assert_eq!(result.member("resultType").is_some(), client.version.has(Ability::ResultType));
    })
    .await;
}

#[tokio::test]
async fn input_requests_of_raw_calls_are_handled() {
    everywhere(async |client| {
        let result = client.request_raw("tools/call", json!({ "name": "think" })).await.unwrap();
        assert_eq!(result.member("content").unwrap().as_str(), r#"[{"type":"text","text":"Paris"}]"#);
    })
    .await;
}

#[tokio::test]
async fn a_method_that_the_revision_does_not_have_is_not_sent() {
    everywhere(async |client| {
        let foreign = if client.version.has(Ability::Stateless) { "ping" } else { "server/discover" };
        let error = client.request_raw(foreign, ()).await.unwrap_err();
        let CallErrorKind::Unsupported(UnsupportedCause::Revision { what, version }) = error.kind() else {
            panic!("{error}")
        };
        assert_eq!((what.as_str(), *version, error.delivery()), (foreign, client.version, Delivery::NotSent));
    })
    .await;
}

#[tokio::test]
async fn any_notification_can_be_sent() {
    everywhere(async |client| {
        client.notify_raw("fixture/ring", None).await.unwrap();
        client.reaches("rung", 1).await;
        client.notify_raw("fixture/ring", RawJson::parse(r#"{"loud":true}"#).unwrap()).await.unwrap();
        client.reaches("rung", 2).await;
        client.notify_raw("fixture/unheard", None).await.unwrap();
        if client.version <= ProtocolVersion::LATEST_WITH_HANDSHAKE {
            client.notify::<RootsListChangedNotification>(&EmptyParams::new()).await.unwrap();
            client.reaches("roots changed", 1).await;
        }
    })
    .await;
}
