//! Calls to a server in the same process, which complete in their first poll if they can.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use turms_client::{CallErrorKind, Client};
use turms_server::{Server, Tool};

async fn client_of(tool: Tool) -> Client {
    let server = Server::new("local", "1").tool(tool).build().unwrap();
    Client::builder("app", "1").connect_service(server).await.unwrap()
}

#[tokio::test]
async fn a_call_starts_when_it_is_first_polled() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let tool = Tool::builder("count").handler_sync(move || counted.fetch_add(1, Ordering::Relaxed).to_string());
    let client = client_of(tool).await;
    let call = client.call_tool("count", ()).into_future();
    drop(client.call_tool("count", ()).into_future());
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(call.await.unwrap().text(), "0");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_call_is_pending_after_its_first_poll() {
    let client = Arc::new(OnceLock::<Client>::new());
    let seen = client.clone();
    let tool = Tool::builder("look").handler_sync(move || {
        let pending = seen.get().unwrap().pending_calls();
        pending.iter().map(|call| call.target.clone()).collect::<Vec<_>>().join(", ")
    });
    client.set(client_of(tool).await).unwrap();
    let client = client.get().unwrap();
    assert_eq!(client.call_tool("look", ()).await.unwrap().text(), "tools/call \"look\"");
    assert_eq!(client.pending_calls(), []);
}

#[tokio::test]
async fn a_call_can_be_cancelled_after_its_first_poll() {
    let client = Arc::new(OnceLock::<Client>::new());
    let caller = client.clone();
    let tool = Tool::builder("regret").handler(move || {
        assert_eq!(caller.get().unwrap().cancel_all(), 1);
        std::future::pending::<String>()
    });
    client.set(client_of(tool).await).unwrap();
    let client = client.get().unwrap();
    let error = client.call_tool("regret", ()).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Cancelled), "{error}");
    assert!(error.may_have_run() && error.to_string().starts_with("tools/call \"regret\""), "{error}");
    assert_eq!(client.pending_calls(), []);
}

#[tokio::test]
async fn a_dropped_call_is_not_pending() {
    let client = client_of(Tool::builder("wait").handler(async || std::future::pending::<String>().await)).await;
    let mut call = Box::pin(client.call_tool("wait", ()).into_future());
    let begun = std::future::poll_fn(|task| std::task::Poll::Ready(call.as_mut().poll(task))).await;
    assert!(begun.is_pending());
    assert_eq!(client.pending_calls().len(), 1);
    drop(call);
    assert_eq!(client.pending_calls(), []);
}
