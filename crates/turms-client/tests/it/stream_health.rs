//! Notification streams, with servers that do not acknowledge and across reconnects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use turms_proto::Notification;

use tokio::task::AbortHandle;
use turms_client::{Backoff, Client, ConnectionStatus, Event, Events, VersionCache};
use turms_core::transport::{MemoryEnd, StreamConnector, memory};
use turms_core::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
use turms_proto::RawJson;
use turms_server::{Server, Tool};
use turms_testkit::within;

/// A server that never acknowledges a listen request.
struct Mute;

impl Service for Mute {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        let discovered = r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}"#;
        match &*request.method {
            "server/discover" => Box::pin(std::future::ready(Ok(Payload::json(RawJson::parse(discovered).unwrap())))),
            _ => Box::pin(std::future::pending()),
        }
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

async fn ended(events: &mut Events) -> bool {
    let ended = async { while events.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(600), ended).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_acknowledges_does_not_keep_a_dropped_client_alive() {
    let client = Client::builder("app", "1").connect_service(Mute).await.unwrap();
    let mut events = client.events();
    tokio::time::sleep(Duration::from_millis(10)).await;
    drop(client);
    assert!(ended(&mut events).await);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_without_an_acknowledgement_times_out() {
    let client = Client::builder("app", "1").connect_service(Mute).await.unwrap();
    assert!(client.subscribe("a://b").await.unwrap_err().is_timeout());
}

#[tokio::test(start_paused = true)]
async fn events_of_a_closed_client_end_at_once() {
    let client = Client::builder("app", "1").connect_service(Mute).await.unwrap();
    client.close().await;
    assert!(ended(&mut client.events()).await);
}

#[tokio::test]
async fn an_event_stream_without_a_connection_gets_events_after_connecting() {
    let router = Server::new("s", "1").tool(Tool::builder("a").handler_sync(|| "")).build().unwrap();
    let down = Arc::new(AtomicBool::new(false));
    let serving: Arc<Mutex<Vec<AbortHandle>>> = Arc::default();
    let connector = StreamConnector::from_fn("a server that comes back", {
        let (router, down, serving) = (router.clone(), down.clone(), serving.clone());
        move || {
            let (near, far): (MemoryEnd, MemoryEnd) = memory();
            let refused = down.load(Ordering::SeqCst);
            if !refused {
                let router = router.clone();
                let task = tokio::spawn(async move { drop(router.serve(far.0, far.1).await) });
                serving.lock().unwrap().push(task.abort_handle());
            }
            async move { if refused { Err(std::io::ErrorKind::ConnectionRefused.into()) } else { Ok(near) } }
        }
    });
    let client = Client::builder("app", "1")
        .version_cache(VersionCache::new())
        .reconnect(Backoff::new().initial_delay(Duration::from_millis(2)))
        .connect(connector)
        .await
        .unwrap();
    down.store(true, Ordering::SeqCst);
    serving.lock().unwrap().drain(..).for_each(|task| task.abort());
    while client.status() != ConnectionStatus::Disconnected {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut events = client.events();
    down.store(false, Ordering::SeqCst);
    // A change before the listen request may be missed.
    let changing = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            router.handle().replace_tool(Tool::builder("b").handler_sync(|| "")).unwrap();
        }
    });
    let changed = events.find(|event| matches!(event, Event::ToolsChanged).then_some(()));
    within("a change", changed).await.unwrap();
    changing.abort();
}

/// A service may not implement `server/discover`, and its error response keeps the connection.
#[tokio::test]
async fn a_service_with_one_method_works_after_an_error() {
    struct Own;
    impl Service for Own {
        fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
            Box::pin(std::future::ready(match &*request.method {
                "tools/call" => Ok(Payload::new(turms_proto::types::CallToolResult::from_text("ran"))),
                method => Err(turms_proto::ErrorObject::method_not_found(method).into()),
            }))
        }

        fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
            Box::pin(async {})
        }
    }
    let client = Client::builder("c", "1").connect_service(Own).await.unwrap();
    assert!(client.list_prompts().await.unwrap_err().error_response().is_some());
    assert_eq!(client.call_tool("x", ()).await.unwrap().text(), "ran");
}
