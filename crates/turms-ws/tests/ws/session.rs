//! What clients and servers say to each other, in every revision.

use std::sync::{Arc, mpsc};

use http::header::{HeaderName, HeaderValue};
use serde_json::json;
use turms_client::{Client, Event};
use turms_proto::ProtocolVersion;
use turms_testkit::within;

use crate::fixture::{Badge, Served, builder, connect, server};

/// Runs a test in every revision, against a server of its own.
async fn everywhere(test: impl AsyncFn(&Served, Client)) {
    for version in ProtocolVersion::ALL {
        let served = Served::new().await;
        let client = connect(served.connector(), builder().only_version(version)).await;
        within(version.as_str(), test(&served, client)).await;
    }
}

#[tokio::test]
async fn tools_are_called() {
    everywhere(async |_, client| {
        let sum = client.call_tool("add", json!({ "a": 1, "b": 2 })).await.unwrap();
        assert_eq!(sum.text(), "3");
    })
    .await;
}

#[tokio::test]
async fn progress_is_reported_before_the_answer() {
    everywhere(async |_, client| {
        let (write, heard) = mpsc::channel();
        let report = move |report: &turms_proto::types::ProgressParams| {
            let _ = write.send(report.progress.as_f64());
        };
        assert_eq!(client.call_tool("steps", ()).on_progress(report).await.unwrap().text(), "done");
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    })
    .await;
}

#[tokio::test]
async fn the_client_is_asked() {
    // Revisions before 2025-06-18 have no such questions.
    for version in ProtocolVersion::ALL.into_iter().filter(|version| *version >= ProtocolVersion::V2025_06_18) {
        let served = Served::new().await;
        let client = connect(served.connector(), builder().only_version(version)).await;
        let greeting = within("a greeting", client.call_tool("greet", ()).into_future()).await.unwrap();
        assert_eq!(greeting.text(), "Hello, Ann! (1)", "{version}");
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_stops() {
    everywhere(async |served, client| {
        let call = tokio::spawn(client.call_tool("slow", ()).into_future());
        served.reaches("started", 1).await;
        call.abort();
        served.reaches("stopped", 1).await;
        assert_eq!(client.call_tool("add", json!({ "a": 1, "b": 1 })).await.unwrap().text(), "2");
    })
    .await;
}

#[tokio::test]
async fn changes_are_heard_of() {
    everywhere(async |_, client| {
        let mut events = client.events();
        client.subscribe("config://app").await.unwrap();
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
    everywhere(async |_, client| {
        let text = "a\u{e4}\u{1f980}".repeat(100_000);
        let echo = client.call_tool("echo", json!({ "text": text })).await.unwrap();
        assert!(echo.text() == text);
    })
    .await;
}

#[tokio::test]
async fn handlers_know_of_the_request_that_the_connection_began_with() {
    let served = Served::new().await;
    let header = (HeaderName::from_static("x-test"), HeaderValue::from_static("here"));
    let client = connect(served.connector().header(header.0, header.1), builder()).await;
    assert_eq!(client.call_tool("header", ()).await.unwrap().text(), "here");
    assert_eq!(client.call_tool("uri", ()).await.unwrap().text(), "/some/where?x=1");
}

#[tokio::test]
async fn a_fleet_reaches_the_addresses_of_its_configuration() {
    let served = Served::new().await;
    let file = std::env::temp_dir().join(format!("turms-ws-{}.json", std::process::id()));
    let entry =
        json!({ "url": format!("ws://{}/some/where", served.address), "headers": { "x-test": "from the file" } });
    std::fs::write(&file, json!({ "mcpServers": { "far": entry } }).to_string()).unwrap();
    let config = turms_client::Config::read(&file);
    std::fs::remove_file(&file).unwrap();
    let group =
        turms_client::ClientGroup::builder(builder()).config(&config.unwrap()).transport(turms_ws::WsTransport::new());
    let group = group.connect().await;
    assert!(group.failures().is_empty(), "{:?}", group.failures());
    assert_eq!(group.as_client().call_tool("far_header", ()).await.unwrap().text(), "from the file");
}

#[tokio::test]
async fn headers_may_be_text_and_what_cannot_be_one_is_said() {
    let served = Served::new().await;
    let client = connect(served.connector().header("x-test", "abc"), builder()).await;
    assert_eq!(client.call_tool("header", ()).await.unwrap().text(), "abc");
    let error = builder().connect_to(served.connector().header("x-key", "s3cret\n")).await.unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(why, "the value of the header \"x-key\" holds what a header cannot");
}

/// As an application on hyper mounts it, with middleware in front.
#[tokio::test]
async fn what_middleware_found_out_reaches_handlers() {
    use hyper_util::rt::TokioIo;
    use tower_service::Service as _;
    use turms_ws::ServeWs as _;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = server(&Arc::default()).ws();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let answer = hyper::service::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
            request.extensions_mut().insert(Badge("trusted"));
            service.clone().call(request)
        });
        let server = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
        server.serve_connection_with_upgrades(TokioIo::new(stream), answer).await.unwrap();
    });
    let connector = turms_ws::WsConnector::new(format!("ws://{address}/ws")).unwrap();
    let client = connect(connector, builder()).await;
    assert_eq!(client.call_tool("badge", ()).await.unwrap().text(), "trusted");
}

/// Without anything that upgrades it there is no connection to be had, and nothing hangs.
#[tokio::test]
async fn a_connection_that_cannot_be_upgraded_is_refused() {
    use tower_service::Service as _;
    use turms_ws::ServeWs as _;

    let headers = turms_testkit::raw_ws::HEADERS.iter().map(|header| header.split_once(": ").unwrap());
    let request = headers.fold(http::Request::get("/"), |request, (name, value)| request.header(name, value));
    let response = server(&Arc::default()).ws().call(request.body(()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 500);
}

#[test]
#[should_panic(expected = "the server cannot be served over WebSocket")]
fn a_server_that_cannot_be_built_says_so() {
    use turms_server::{Server, Tool};
    use turms_ws::ServeWs as _;

    let twice = || Tool::builder("").handler_sync(|| "");
    let _ = Server::new("broken", "1.0.0").tool(twice()).tool(twice()).ws();
}
