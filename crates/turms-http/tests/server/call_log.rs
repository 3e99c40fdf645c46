//! The `tracing` events of calls that fail, over HTTP.

use serde_json::json;
use tracing::Level;
use turms_testkit::TraceEvents;

use crate::dialog::{NEWEST_OLDER, Session, call, modern_call};
use crate::fixture::Fixture;

#[tokio::test]
async fn failures_are_logged_with_and_without_a_session() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let (events, _guard) = TraceEvents::record("turms::server");
    for (tool, level, code) in [
        ("fail", Level::INFO, None),
        ("panic", Level::ERROR, Some("-32603")),
        ("unknown", Level::DEBUG, Some("-32602")),
    ] {
        for has_session in [true, false] {
            let request = match has_session {
                true => session.post(call("a", tool, json!({}))),
                false => modern_call("a", tool, json!({})),
            };
            fixture.send(request).await;
            let logged = events.take();
            let [event] = logged.as_slice() else { panic!("{tool}: {logged:?}") };
            assert_eq!((event.level, event.field("tool"), event.field("code")), (level, Some(tool), code), "{event:?}");
            assert_eq!((event.field("method"), event.field("id")), (Some("tools/call"), Some("a")), "{event:?}");
            assert_eq!(event.field("session").is_some(), has_session, "{event:?}");
            assert!(event.fields.values().all(|value| !value.contains("as asked")), "{event:?}");
        }
    }
}

#[tokio::test]
async fn requests_that_are_refused_before_a_handler_are_logged() {
    let fixture = Fixture::start().await;
    let (events, _guard) = TraceEvents::record("turms_http::server::response");
    let request = crate::wire::Request::post(call("early", "add", json!({})));
    assert_eq!(fixture.send(request).await.status(), 400);
    let logged = events.take();
    assert_eq!((logged[0].level, logged[0].field("code")), (Level::DEBUG, Some("-32600")), "{logged:?}");
    assert_eq!(logged[0].field("id"), Some("early"));
}
