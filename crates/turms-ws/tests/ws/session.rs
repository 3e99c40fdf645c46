//! Calls, notifications and requests in every revision, and the mounting of a server.

use std::sync::{Arc, mpsc};

use http::header::{HeaderName, HeaderValue};
use serde_json::json;
use turms_client::{Client, ConnectError, Event};
use turms_proto::ProtocolVersion;
use turms_testkit::within;
use turms_ws::ConnectWs as _;

use crate::fixture::{TestServer, UserLabel, builder, connect, server};

/// Runs a test in every revision, each with a new server.
async fn in_every_revision(test: impl AsyncFn(&TestServer, Client)) {
    for version in ProtocolVersion::ALL {
        let server = TestServer::new().await;
        let client = connect(server.connector(), builder().protocol_version(version)).await;
        within(version.as_str(), test(&server, client)).await;
    }
}

#[tokio::test]
async fn tools_are_called() {
    in_every_revision(async |_, client| {
        let sum = client.call_tool("add", json!({ "a": 1, "b": 2 })).await.unwrap();
        assert_eq!(sum.text(), "3");
    })
    .await;
}

#[tokio::test]
async fn a_url_is_enough_to_connect() {
    for version in ProtocolVersion::ALL {
        let server = TestServer::new().await;
        let url = format!("ws://{}/", server.address);
        let client = within("a connection", builder().protocol_version(version).connect_ws(&url)).await.unwrap();
        assert_eq!(client.protocol_version(), Some(version));
    }
    let error = builder().connect_ws("http://127.0.0.1/").await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn progress_is_reported_before_the_response() {
    in_every_revision(async |_, client| {
        let (sender, reports) = mpsc::channel();
        let report = move |report: &turms_proto::types::ProgressParams| {
            let _ = sender.send(report.progress.as_f64());
        };
        assert_eq!(client.call_tool("steps", ()).on_progress(report).await.unwrap().text(), "done");
        assert_eq!(reports.try_iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    })
    .await;
}

#[tokio::test]
async fn the_server_can_elicit_input() {
    // Revisions before 2025-06-18 have no elicitation.
    for version in ProtocolVersion::ALL.into_iter().filter(|version| *version >= ProtocolVersion::V2025_06_18) {
        let server = TestServer::new().await;
        let client = connect(server.connector(), builder().protocol_version(version)).await;
        let greeting = within("a greeting", client.call_tool("greet", ()).into_future()).await.unwrap();
        assert_eq!(greeting.text(), "Hello, Ann! (1)", "{version}");
    }
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_server() {
    in_every_revision(async |server, client| {
        let call = tokio::spawn(client.call_tool("slow", ()).into_future());
        server.reaches("started", 1).await;
        call.abort();
        server.reaches("stopped", 1).await;
        assert_eq!(client.call_tool("add", json!({ "a": 1, "b": 1 })).await.unwrap().text(), "2");
    })
    .await;
}

#[tokio::test]
async fn subscribers_are_notified_of_changes() {
    in_every_revision(async |_, client| {
        let mut events = client.events();
        let _subscription = client.subscribe("config://app").await.unwrap();
        client.call_tool("touch", json!({ "uri": "config://app" })).await.unwrap();
        let uri = events.find(|event| match event {
            Event::ResourceUpdated { uri } => Some(uri),
            _ => None,
        });
        assert_eq!(uri.await.unwrap(), "config://app");
    })
    .await;
}

#[tokio::test]
async fn a_message_may_be_long_in_both_directions() {
    in_every_revision(async |_, client| {
        let text = "a\u{e4}\u{1f980}".repeat(100_000);
        let echo = client.call_tool("echo", json!({ "text": text })).await.unwrap();
        assert!(echo.text() == text);
    })
    .await;
}

#[tokio::test]
async fn handlers_see_the_headers_and_the_uri_of_the_upgrade_request() {
    let server = TestServer::new().await;
    let header = (HeaderName::from_static("x-test"), HeaderValue::from_static("value"));
    let client = connect(server.connector().header(header.0, header.1), builder()).await;
    assert_eq!(client.call_tool("header", ()).await.unwrap().text(), "value");
    assert_eq!(client.call_tool("uri", ()).await.unwrap().text(), "/some/where?x=1");
}

#[tokio::test]
async fn a_group_connects_to_the_urls_of_its_configuration() {
    let server = TestServer::new().await;
    let file = std::env::temp_dir().join(format!("turms-ws-{}.json", std::process::id()));
    let entry =
        json!({ "url": format!("ws://{}/some/where", server.address), "headers": { "x-test": "from the file" } });
    std::fs::write(&file, json!({ "mcpServers": { "remote": entry } }).to_string()).unwrap();
    let config = turms_client::McpConfig::read(&file);
    std::fs::remove_file(&file).unwrap();
    let group =
        turms_client::ClientGroup::builder(builder()).config(&config.unwrap()).transport(turms_ws::WsTransport::new());
    let group = group.connect().await;
    assert!(group.failures().is_empty(), "{:?}", group.failures());
    assert_eq!(group.as_client().call_tool("remote_header", ()).await.unwrap().text(), "from the file");
}

#[tokio::test]
async fn an_invalid_header_is_an_error_of_the_connection() {
    let server = TestServer::new().await;
    let client = connect(server.connector().header("x-test", "abc"), builder()).await;
    assert_eq!(client.call_tool("header", ()).await.unwrap().text(), "abc");
    let error = builder().connect(server.connector().header("x-key", "s3cret\n")).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "header \"x-key\": invalid value");
}

/// The service runs in a hyper server, behind middleware that adds an extension to the request.
#[tokio::test]
async fn extensions_of_middleware_reach_handlers() {
    use hyper_util::rt::TokioIo;
    use tower_service::Service as _;
    use turms_ws::ServeWs as _;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = server(&Arc::default()).into_ws_service().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let middleware = hyper::service::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(UserLabel("trusted"));
            service.clone().call(request)
        });
        let server = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
        server.serve_connection_with_upgrades(TokioIo::new(stream), middleware).await.unwrap();
    });
    let connector = turms_ws::WsConnector::new(format!("ws://{address}/ws")).unwrap();
    let client = connect(connector, builder()).await;
    assert_eq!(client.call_tool("label", ()).await.unwrap().text(), "trusted");
}

/// The request comes from an HTTP server without support for upgrades.
#[tokio::test]
async fn a_connection_that_cannot_be_upgraded_is_rejected() {
    use tower_service::Service as _;
    use turms_ws::ServeWs as _;

    let headers = turms_testkit::raw_ws::HEADERS.iter().map(|header| header.split_once(": ").unwrap());
    let request = headers.fold(http::Request::get("/"), |request, (name, value)| request.header(name, value));
    let response = server(&Arc::default()).into_ws_service().unwrap().call(request.body(()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 500);
}

#[test]
fn a_server_that_cannot_be_built_is_an_error() {
    use turms_server::{Server, Tool};
    use turms_ws::ServeWs as _;

    let tool = || Tool::builder("").handler_sync(|| "");
    let error = Server::new("broken", "1.0.0").tool(tool()).tool(tool()).into_ws_service().unwrap_err();
    assert!(error.to_string().contains("tool"), "{error}");
}
