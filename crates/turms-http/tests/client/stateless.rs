//! Requests without a session.

use turms_proto::Notification;
use turms_proto::session::RequestOptions;

use super::*;

#[tokio::test]
async fn connections_are_reused_after_any_response() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/list" => Reply::events(&event(&result(request, &json!({ "tools": [] })))),
        "tools/call" => Reply::json(400, &failure(request, -32602, None)),
        _ => modern(request),
    })
    .await;
    let client = connect(&server).await;
    for _ in 0..5 {
        send_request(&client, "prompts/list", &json!({})).await.unwrap();
        send_request(&client, "tools/list", &json!({})).await.unwrap();
        send_request(&client, "tools/call", &json!({ "name": "x" })).await.unwrap_err();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn notifications_about_a_request_are_delivered_to_its_caller() {
    let server = FakeHttpServer::start(|request| {
        let id = &request.body["id"];
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": { "progressToken": request.body["params"]["_meta"]["progressToken"], "progress": 1 } });
        let tagged = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed",
            "params": { "_meta": { "io.modelcontextprotocol/subscriptionId": id } } });
        let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} });
        let foreign = json!({ "jsonrpc": "2.0", "id": 1, "method": "roots/list" });
        let response = event(&result(request, &json!({})));
        let notifications: String = [progress, tagged, log, foreign].iter().map(event).collect();
        Reply::events(&format!("{notifications}{response}"))
    })
    .await;
    let service = RecordingService::default();
    let known = options().known(Dialect::Stateless(ProtocolVersion::LATEST));
    let client = connector(&server).connect(ConnectContext::new(known, Arc::new(service.clone()))).await.unwrap();
    let (sender, updates) = std::sync::mpsc::channel();
    let request = outgoing("tools/call", &json!({})).options(RequestOptions::default().with_progress());
    let request = request.observer(Some(Arc::new(Recorder(sender)) as Arc<dyn CallObserver>));
    client.channel.call_in_time(request).await.unwrap();
    assert_eq!(updates.try_iter().collect::<Vec<_>>(), ["progress 1", "notifications/tools/list_changed"]);
    assert_eq!(service.received(), ["notifications/message"]);
    // The request of the server gets no response: revision 2026-07-28 has no requests from servers.
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_call_is_cancelled_by_closing_its_stream() {
    let server = FakeHttpServer::start(|_| Reply::open_events(": working\n\n")).await;
    let client = connect_stateless(&server).await;
    let channel = client.channel.clone();
    let call = tokio::spawn(async move { channel.call_in_time(outgoing("tools/call", &json!({}))).await.map(drop) });
    server.wait_for("tools/call", 1).await;
    call.abort();
    server.wait_until_left().await;
    assert_eq!(server.methods(), ["tools/call"]);
    assert_eq!(client.control.stats().cancelled, 1);
}

#[tokio::test]
async fn a_call_without_a_response_times_out() {
    let server = FakeHttpServer::start(|_| Reply::never()).await;
    let client = connect_stateless(&server).await;
    let soon = RequestOptions::default().timeout(Duration::from_millis(50));
    let error = client.channel.call_in_time(outgoing("tools/call", &json!({})).options(soon)).await.unwrap_err();
    assert!(matches!(error, PeerError::TimedOut(_)), "{error:?}");
    server.wait_until_left().await;
}

/// The service of a client that never completes a notification.
pub(crate) struct NeverDone;

impl Service for NeverDone {
    fn call(&self, _: Request, _: CallContext) -> ResponseFuture {
        Box::pin(std::future::ready(Err(turms_proto::ErrorObject::internal("unexpected request").into())))
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_notification_handler_does_not_block_the_timeout() {
    let notification =
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } });
    let server = FakeHttpServer::start(move |_| Reply::open_events(&event(&notification))).await;
    let known = options().known(Dialect::Stateless(ProtocolVersion::LATEST));
    let client = connector(&server).connect(ConnectContext::new(known, Arc::new(NeverDone))).await.unwrap();
    let soon = RequestOptions::default().timeout(Duration::from_millis(50));
    let call = client.channel.call_in_time(outgoing("tools/call", &json!({})).options(soon));
    let error = within("the timeout", call).await.unwrap_err();
    assert!(matches!(error, PeerError::TimedOut(_)), "{error:?}");
    server.wait_until_left().await;
}

#[tokio::test]
async fn a_broken_stream_fails_its_request_and_no_other() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => Reply::broken_events("id: 1\n: half\n\n"),
        _ => modern(request),
    })
    .await;
    let client = connect_stateless(&server).await;
    let error = send_request(&client, "tools/call", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerError::Unreachable { sent: true, .. }), "{error:?}");
    send_request(&client, "tools/list", &json!({})).await.unwrap();
    assert!(server.received().iter().all(|request| request.method == "POST"));
}

#[tokio::test]
async fn a_request_that_cannot_be_sent_has_not_run() {
    let server = FakeHttpServer::start(modern).await;
    let client = connect(&server).await;
    drop(server);
    // The pooled connection may fail only when it is used.
    let mut error = send_request(&client, "tools/list", &json!({})).await.unwrap_err();
    if matches!(error, PeerError::Unreachable { sent: true, .. }) {
        error = send_request(&client, "tools/list", &json!({})).await.unwrap_err();
    }
    assert!(matches!(error, PeerError::Unreachable { sent: false, .. }), "{error:?}");
}

#[tokio::test]
async fn closing_the_channel_cancels_its_requests() {
    let server = FakeHttpServer::start(|_| Reply::open_events(": listening\n\n")).await;
    let client = connect_stateless(&server).await;
    let channel = client.channel.clone();
    let listening =
        tokio::spawn(async move { channel.call_in_time(outgoing("subscriptions/listen", &json!({}))).await });
    server.wait_for("subscriptions/listen", 1).await;
    client.control.close().await;
    assert!(listening.await.unwrap().is_err());
    server.wait_until_left().await;
    assert!(matches!(send_request(&client, "tools/list", &json!({})).await, Err(PeerError::Closed)));
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_supported() {
    let directory = std::env::temp_dir().join(format!("turms-http-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("socket");
    let server = FakeHttpServer::start_on(&path, modern);
    let connector = HttpConnector::new(server.url()).unwrap().unix_socket(&path);
    let client =
        connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap();
    send_request(&client, "tools/list", &json!({})).await.unwrap();
    assert_eq!(server.methods(), ["server/discover", "tools/list"]);
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn requests_are_sent_through_a_proxy() {
    let proxy = FakeHttpServer::start(modern).await;
    let connector = HttpConnector::new("http://nowhere.invalid/mcp").unwrap();
    let connector = connector.proxy(&proxy.origin);
    connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap();
    assert_eq!(proxy.received()[0].path, "http://nowhere.invalid/mcp");
}
