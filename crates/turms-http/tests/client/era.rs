//! Detection of the era: each outcome of the first requests, and the era that follows from it.

use turms_core::TransportKind;
use turms_proto::session::VersionChoice;

use super::*;
use crate::stateless::NeverDone;

const STATELESS: Dialect = Dialect::Stateless(ProtocolVersion::LATEST);
const HANDSHAKE: Dialect = Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE);

/// Starts a server with sessions that handles the probe with `rejection`.
async fn rejecting_probe(rejection: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> FakeHttpServer {
    FakeHttpServer::start(move |request| match request.what() {
        "server/discover" => rejection(request),
        _ => legacy(request),
    })
    .await
}

#[tokio::test]
async fn a_result_means_a_modern_server() {
    let server = FakeHttpServer::start(modern).await;
    let client = connect(&server).await;
    assert_eq!(client.negotiated.dialect, STATELESS);
    assert!(client.negotiated.server.is_some());
    let [probe] = &*server.received() else { panic!() };
    assert_eq!((probe.method.as_str(), probe.path.as_str()), ("POST", "/mcp"));
    assert_eq!(probe.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(probe.header("mcp-method"), Some("server/discover"));
    assert_eq!(probe.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(probe.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_modern_server_may_respond_with_events() {
    let server = FakeHttpServer::start(|request| {
        let notification = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} });
        Reply::events(&format!(": hi\n\n{}{}", event(&notification), event(&result(request, &discovered(request)))))
    });
    assert_eq!(connect(&server.await).await.negotiated.dialect, STATELESS);
}

/// The service of a client may be slow with notifications before the response.
#[tokio::test]
async fn a_notification_handler_does_not_block_connecting() {
    let server = FakeHttpServer::start(|request| {
        let notification = event(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} }));
        Reply::events(&format!("{notification}{notification}{}", event(&result(request, &discovered(request)))))
    })
    .await;
    let mut options = options();
    options.handshake_timeout = Duration::from_millis(100);
    let connected =
        within("a connection", connector(&server).connect(ConnectContext::new(options, Arc::new(NeverDone)))).await;
    assert_eq!(connected.unwrap().negotiated.dialect, STATELESS);
}

#[tokio::test]
async fn modern_errors_are_retried() {
    for (code, data) in [(-32022, Some(json!({ "supported": ["2026-07-28"] }))), (-32020, None), (-32021, None)] {
        let first = std::sync::atomic::AtomicBool::new(true);
        let server = FakeHttpServer::start(move |request| {
            if first.swap(false, std::sync::atomic::Ordering::Relaxed) {
                return Reply::json(400, &failure(request, code, data.clone()));
            }
            modern(request)
        })
        .await;
        assert_eq!(connect(&server).await.negotiated.dialect, STATELESS, "{code}");
        assert_eq!(server.methods(), ["server/discover", "server/discover"]);
    }
}

#[tokio::test]
async fn the_number_of_retries_is_limited() {
    let server = FakeHttpServer::start(|request| Reply::json(400, &failure(request, -32020, None))).await;
    let error = open(&server, options()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Negotiation(_)), "{error:?}");
    assert!(server.methods().len() <= 4 && !server.methods().contains(&"initialize".to_owned()));
}

#[tokio::test]
async fn an_older_common_revision_uses_the_handshake() {
    let server = rejecting_probe(|request| {
        Reply::json(400, &failure(request, -32022, Some(json!({ "supported": ["2025-06-18"] }))))
    });
    let client = connect(&server.await).await;
    assert_eq!(client.negotiated.dialect, Dialect::Handshake(ProtocolVersion::V2025_06_18));
}

#[tokio::test]
async fn a_server_that_rejects_the_probe_is_older() {
    type Rejection = Box<dyn Fn(&Received) -> Reply + Send + Sync>;
    let rejections: Vec<(&str, Rejection)> = vec![
        ("404 and -32601", Box::new(|request| Reply::json(404, &failure(request, -32601, None)))),
        ("200 and -32601", Box::new(|request| Reply::json(200, &failure(request, -32601, None)))),
        ("200 and -32602 in events", Box::new(|request| Reply::events(&event(&failure(request, -32602, None))))),
        ("400 and -32600", Box::new(|request| Reply::json(400, &failure(request, -32600, None)))),
        (
            "400 without an id",
            Box::new(|_| Reply::json(400, &json!({ "jsonrpc": "2.0", "error": { "code": -32000, "message": "" } }))),
        ),
        (
            "400 and null",
            Box::new(|_| {
                Reply::json(400, &json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32000, "message": "" } }))
            }),
        ),
        ("a page", Box::new(|_| Reply::text(404, "text/html", "<html>not here</html>"))),
        ("a page with 200", Box::new(|_| Reply::text(200, "text/html", "<html>welcome</html>"))),
        ("202", Box::new(|_| Reply::status(202))),
        ("foreign JSON", Box::new(|_| Reply::json(400, &json!({ "detail": "missing session" })))),
    ];
    for (what, rejection) in rejections {
        let server = rejecting_probe(rejection).await;
        assert_eq!(connect(&server).await.negotiated.dialect, HANDSHAKE, "{what}");
        let initialize = server.wait_for("initialize", 1).await;
        assert_eq!(
            (initialize.header("mcp-method"), initialize.header("mcp-protocol-version")),
            (None, None),
            "{what}"
        );
    }
    for status in [400, 404, 405, 406, 415, 422] {
        let server = rejecting_probe(move |_| Reply::status(status)).await;
        assert_eq!(connect(&server).await.negotiated.dialect, HANDSHAKE, "{status}");
    }
}

#[tokio::test]
async fn failures_and_missing_authorization_say_nothing_about_the_era() {
    for status in [401, 403, 408, 429, 500, 502, 503] {
        let server = rejecting_probe(move |_| Reply::status(status)).await;
        let error = open(&server, options()).await.unwrap_err();
        assert!(chain(&error).contains(&format!("status {status}")), "{}", chain(&error));
        assert_eq!(server.methods(), ["server/discover"], "{status}");
    }
}

#[tokio::test]
async fn a_timeout_says_nothing_about_the_era() {
    let server = rejecting_probe(|_| Reply::never()).await;
    let mut options = options();
    options.handshake_timeout = Duration::from_millis(100);
    let error = open(&server, options).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(server.methods(), ["server/discover"]);
}

#[tokio::test]
async fn an_unreachable_server_is_reported() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp?key=secret", listener.local_addr().unwrap());
    drop(listener);
    let connector = HttpConnector::new(url).unwrap().no_proxy();
    let error =
        connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap_err();
    let message = chain(&error);
    assert!(
        matches!(error, ConnectError::Unreachable { .. }) && message.contains("cannot connect to http://127.0.0.1:"),
        "{message}"
    );
    assert!(!message.contains("secret") && !format!("{connector:?}").contains("secret"));
}

#[tokio::test]
async fn a_server_that_rejects_initialize_may_support_http_sse() {
    for status in [400, 404, 405] {
        let server = FakeHttpServer::start(move |request| match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/mcp") => {
                assert_eq!(request.header("accept"), Some("text/event-stream"));
                Reply::open_events("event: endpoint\ndata: /messages?session=1\n\n")
            }
            ("POST", "/messages?session=1") => Reply::text(202, "text/plain", "Accepted"),
            _ => Reply::status(status),
        })
        .await;
        let (client, service) = (connector(&server), Arc::new(RecordingService::default()));
        let connecting =
            tokio::spawn(async move { client.connect(ConnectContext::new(options(), service)).await.map(drop) });
        // The handshake is posted to the URL of the stream; it gets no response here.
        let initialize = server.wait_for("initialize", 2).await;
        assert_eq!(initialize.path, "/messages?session=1");
        connecting.abort();
        assert_eq!(server.methods()[..4], ["server/discover", "initialize", "GET", "initialize"]);
    }
}

#[tokio::test]
async fn http_sse_works_in_both_directions() {
    // The stream has all its events at once. The ids of a client start at 1.
    let response = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": { "name": "scripted", "version": "1" } } });
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let server = FakeHttpServer::start(move |request| match request.method.as_str() {
        "GET" => Reply::open_events(&format!(
            "event: endpoint\ndata: messages\n\nevent: message\n{}{}",
            event(&response),
            event(&notification)
        )),
        _ => Reply::status(202),
    })
    .await;
    let service = RecordingService::default();
    let connector = connector(&server).transport(TransportKind::HttpSse);
    let client = connector.connect(ConnectContext::new(options(), Arc::new(service.clone()))).await.unwrap();
    assert_eq!(client.negotiated.dialect, Dialect::Handshake(ProtocolVersion::V2024_11_05));
    assert_eq!(service.wait(1).await, ["notifications/tools/list_changed"]);
    assert_eq!(server.wait_for("notifications/initialized", 1).await.path, "/messages");
    client.control.close().await;
    server.wait_until_left().await;
}

#[tokio::test]
async fn http_sse_is_tried_first_the_next_time() {
    let response = || {
        let server = json!({ "name": "scripted", "version": "1" });
        event(&json!({ "jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": server } }))
    };
    let server = FakeHttpServer::start(move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", _) => Reply::open_events(&format!("event: endpoint\ndata: /messages\n\n{}", response())),
        (_, "/messages") => Reply::status(202),
        _ => Reply::status(405),
    })
    .await;
    let connector = connector(&server);
    for times in 1..=2 {
        let client =
            connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap();
        server.wait_for("notifications/initialized", times).await;
        client.control.close().await;
    }
    let expected = ["server/discover", "initialize", "GET", "initialize", "notifications/initialized"];
    assert_eq!(server.methods(), [&expected[..], &expected[2..]].concat());
}

#[tokio::test]
async fn http_sse_messages_are_not_posted_to_another_origin() {
    let server =
        FakeHttpServer::start(|_| Reply::open_events("event: endpoint\ndata: http://example.com/messages\n\n")).await;
    let connector = connector(&server).transport(TransportKind::HttpSse);
    let error =
        connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap_err();
    assert!(chain(&error).contains("to http://example.com, another origin"), "{}", chain(&error));
}

#[tokio::test]
async fn without_a_common_transport_all_errors_are_reported() {
    let server = FakeHttpServer::start(|request| {
        Reply::text(if request.method == "GET" { 404 } else { 405 }, "text/plain", "?")
    })
    .await;
    let message = chain(&open(&server, options()).await.unwrap_err());
    for part in ["server/discover: status 405", "initialize: status 405", "HTTP+SSE: status 404"] {
        assert!(message.contains(part), "{message}");
    }
    let fixed = connector(&server).transport(TransportKind::StreamableHttp);
    assert!(fixed.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.is_err());
    assert_eq!(server.methods(), ["server/discover", "initialize", "GET", "server/discover", "initialize"]);
}

#[tokio::test]
async fn a_known_era_is_not_probed() {
    let server = FakeHttpServer::start(modern).await;
    let client = connect_stateless(&server).await;
    assert_eq!(server.methods(), Vec::<String>::new());
    assert_eq!(client.negotiated.dialect, STATELESS);
    let server = FakeHttpServer::start(legacy).await;
    let client = connect_in(&server, ProtocolVersion::V2025_03_26).await;
    assert_eq!(client.negotiated.dialect, Dialect::Handshake(ProtocolVersion::V2025_03_26));
    assert_eq!(server.methods()[..2], ["initialize", "notifications/initialized"]);
}

#[tokio::test]
async fn a_client_of_the_newest_revision_does_not_fall_back() {
    let server = FakeHttpServer::start(legacy).await;
    let error = open(&server, options().choice(VersionChoice::Stateless)).await.unwrap_err();
    assert!(error.to_string().contains("only older revisions"), "{error}");
    assert_eq!(server.methods(), ["server/discover"]);
}

#[tokio::test]
async fn an_unknown_method_of_a_modern_server_is_an_error() {
    let server = FakeHttpServer::start(|request| Reply::json(404, &failure(request, -32601, None))).await;
    let client = connect_stateless(&server).await;
    let error = send_request(&client, "tools/list", &json!({})).await.unwrap_err();
    assert!(chain(&error).contains("-32601"), "{}", chain(&error));
}

/// Starts a TCP server that sends these bytes after the first read, and returns its address.
async fn responding_with(bytes: &'static [u8]) -> std::net::SocketAddr {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    address
}

#[tokio::test]
async fn a_url_with_the_wrong_scheme_is_detected() {
    let error_of = |connector: HttpConnector| async move {
        chain(
            &connector
                .connect(ConnectContext::new(options(), Arc::new(RecordingService::default())))
                .await
                .unwrap_err(),
        )
    };
    let plain = responding_with(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    // A root certificate, so that the test does not depend on those of the machine.
    let root = include_bytes!("../server/tls/certificate.pem");
    let connector = HttpConnector::new(format!("https://{plain}/")).unwrap().no_proxy().root_certificates(root);
    let plain_message = error_of(connector).await;
    assert!(plain_message.contains("the server does not use TLS; try http://"), "{plain_message}");

    // The TLS alert that a TLS server sends to a plain client.
    let secure = responding_with(b"\x15\x03\x03\x00\x02\x02\x32").await;
    let secure_message = error_of(HttpConnector::new(format!("http://{secure}/")).unwrap().no_proxy()).await;
    assert!(secure_message.contains("the server does not use plain HTTP; try https://"), "{secure_message}");
}

#[tokio::test]
async fn a_timeout_names_the_server() {
    let server = FakeHttpServer::start(|_| Reply::never()).await;
    let mut options = options();
    options.handshake_timeout = Duration::from_millis(50);
    let error = open(&server, options).await.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.to_string(), format!("{} was not ready within 50 ms", server.origin));
}
