//! How the dialect is found out: each outcome of the first requests, and what is concluded from it.

use turms_core::UrlTransport;
use turms_proto::session::VersionChoice;

use super::*;
use crate::stateless::Slow;

const STATELESS: Dialect = Dialect::Stateless(ProtocolVersion::LATEST);
const HANDSHAKE: Dialect = Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE);

/// Refuses the probe so, and is otherwise a server with sessions.
async fn refusing(refusal: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> FakeHttpServer {
    FakeHttpServer::start(move |request| match request.what() {
        "server/discover" => refusal(request),
        _ => legacy(request),
    })
    .await
}

#[tokio::test]
async fn a_result_is_that_of_a_modern_server() {
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
async fn a_modern_server_may_answer_in_events() {
    let server = FakeHttpServer::start(|request| {
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} });
        Reply::events(&format!(": hi\n\n{}{}", event(&told), event(&result(request, &discovered(request)))))
    });
    assert_eq!(connect(&server.await).await.negotiated.dialect, STATELESS);
}

/// The service of a client may be slow with what it is told before the answer.
#[tokio::test]
async fn a_service_that_is_never_done_with_a_notification_does_not_stop_the_connection() {
    let server = FakeHttpServer::start(|request| {
        let told = event(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} }));
        Reply::events(&format!("{told}{told}{}", event(&result(request, &discovered(request)))))
    })
    .await;
    let mut impatient = options();
    impatient.handshake_timeout = Duration::from_millis(100);
    let connected = within("a connection", connector(&server).connect(impatient, Arc::new(Slow))).await;
    assert_eq!(connected.unwrap().negotiated.dialect, STATELESS);
}

#[tokio::test]
async fn modern_refusals_are_mended_and_asked_again() {
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
        assert_eq!(server.asked(), ["server/discover", "server/discover"]);
    }
}

#[tokio::test]
async fn modern_refusals_do_not_go_on_for_ever() {
    let server = FakeHttpServer::start(|request| Reply::json(400, &failure(request, -32020, None))).await;
    let error = open(&server, options()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused(_)), "{error:?}");
    assert!(server.asked().len() <= 4 && !server.asked().contains(&"initialize".to_owned()));
}

#[tokio::test]
async fn a_server_whose_only_common_revision_is_older_is_shaken_hands_with() {
    let server =
        refusing(|request| Reply::json(400, &failure(request, -32022, Some(json!({ "supported": ["2025-06-18"] })))));
    let client = connect(&server.await).await;
    assert_eq!(client.negotiated.dialect, Dialect::Handshake(ProtocolVersion::V2025_06_18));
}

#[tokio::test]
async fn whoever_does_not_know_the_probe_is_an_older_server() {
    type Refuse = Box<dyn Fn(&Received) -> Reply + Send + Sync>;
    let refusals: Vec<(&str, Refuse)> = vec![
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
    for (what, refusal) in refusals {
        let server = refusing(refusal).await;
        assert_eq!(connect(&server).await.negotiated.dialect, HANDSHAKE, "{what}");
        let shaken = server.wait_for("initialize", 1).await;
        assert_eq!((shaken.header("mcp-method"), shaken.header("mcp-protocol-version")), (None, None), "{what}");
    }
    for status in [400, 404, 405, 406, 415, 422] {
        let server = refusing(move |_| Reply::status(status)).await;
        assert_eq!(connect(&server).await.negotiated.dialect, HANDSHAKE, "{status}");
    }
}

#[tokio::test]
async fn nothing_is_concluded_from_faults_and_from_wanting_authorization() {
    for status in [401, 403, 408, 429, 500, 502, 503] {
        let server = refusing(move |_| Reply::status(status)).await;
        let error = open(&server, options()).await.unwrap_err();
        assert!(chain(&error).contains(&format!("status {status}")), "{}", chain(&error));
        assert_eq!(server.asked(), ["server/discover"], "{status}");
    }
}

#[tokio::test]
async fn nothing_is_concluded_from_silence() {
    let server = refusing(|_| Reply::never()).await;
    let mut impatient = options();
    impatient.handshake_timeout = Duration::from_millis(100);
    let error = open(&server, impatient).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(server.asked(), ["server/discover"]);
}

#[tokio::test]
async fn nobody_there_is_told_as_such() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp?key=secret", listener.local_addr().unwrap());
    drop(listener);
    let connector = HttpConnector::new(url).unwrap().no_proxy();
    let error = connector.connect(options(), Arc::new(Ear::default())).await.unwrap_err();
    let told = chain(&error);
    assert!(
        matches!(error, ConnectError::Unreachable { .. }) && told.contains("cannot connect to http://127.0.0.1:"),
        "{told}"
    );
    assert!(!told.contains("secret") && !format!("{connector:?}").contains("secret"));
}

#[tokio::test]
async fn whoever_does_not_know_the_handshake_either_may_speak_http_and_sse() {
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
        let (client, service) = (connector(&server), Arc::new(Ear::default()));
        let connecting = tokio::spawn(async move { client.connect(options(), service).await.map(drop) });
        // The handshake arrives where the stream says; nothing answers it here.
        let initialize = server.wait_for("initialize", 2).await;
        assert_eq!(initialize.path, "/messages?session=1");
        connecting.abort();
        assert_eq!(server.asked()[..4], ["server/discover", "initialize", "GET", "initialize"]);
    }
}

#[tokio::test]
async fn http_and_sse_carries_both_ways() {
    // The stream says what it has to say at once: the ids of a client begin with 1.
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": { "name": "played", "version": "1" } } });
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let server = FakeHttpServer::start(move |request| match request.method.as_str() {
        "GET" => Reply::open_events(&format!(
            "event: endpoint\ndata: messages\n\nevent: message\n{}{}",
            event(&answer),
            event(&told)
        )),
        _ => Reply::status(202),
    })
    .await;
    let ear = Ear::default();
    let connector = connector(&server).transport(UrlTransport::Sse);
    let client = connector.connect(options(), Arc::new(ear.clone())).await.unwrap();
    assert_eq!(client.negotiated.dialect, Dialect::Handshake(ProtocolVersion::V2024_11_05));
    assert_eq!(ear.wait(1).await, ["notifications/tools/list_changed"]);
    assert_eq!(server.wait_for("notifications/initialized", 1).await.path, "/messages");
    client.control.close().await;
    server.wait_until_left().await;
}

#[tokio::test]
async fn a_server_of_http_and_sse_is_known_the_next_time() {
    let answer = || {
        let server = json!({ "name": "played", "version": "1" });
        event(&json!({ "jsonrpc": "2.0", "id": 1, "result": {
            "protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": server } }))
    };
    let server = FakeHttpServer::start(move |request| match (request.method.as_str(), request.path.as_str()) {
        ("GET", _) => Reply::open_events(&format!("event: endpoint\ndata: /messages\n\n{}", answer())),
        (_, "/messages") => Reply::status(202),
        _ => Reply::status(405),
    })
    .await;
    let connector = connector(&server);
    for times in 1..=2 {
        let client = connector.connect(options(), Arc::new(Ear::default())).await.unwrap();
        server.wait_for("notifications/initialized", times).await;
        client.control.close().await;
    }
    let asked = ["server/discover", "initialize", "GET", "initialize", "notifications/initialized"];
    assert_eq!(server.asked(), [&asked[..], &asked[2..]].concat());
}

#[tokio::test]
async fn messages_of_http_and_sse_are_not_posted_to_another_origin() {
    let server =
        FakeHttpServer::start(|_| Reply::open_events("event: endpoint\ndata: http://example.com/messages\n\n")).await;
    let connector = connector(&server).transport(UrlTransport::Sse);
    let error = connector.connect(options(), Arc::new(Ear::default())).await.unwrap_err();
    assert!(chain(&error).contains("to http://example.com, another origin"), "{}", chain(&error));
}

#[tokio::test]
async fn if_nothing_is_understood_all_refusals_are_told() {
    let server = FakeHttpServer::start(|request| {
        Reply::text(if request.method == "GET" { 404 } else { 405 }, "text/plain", "?")
    })
    .await;
    let told = chain(&open(&server, options()).await.unwrap_err());
    for part in ["server/discover: status 405", "initialize: status 405", "HTTP+SSE: status 404"] {
        assert!(told.contains(part), "{told}");
    }
    let stated = connector(&server).transport(UrlTransport::StreamableHttp);
    assert!(stated.connect(options(), Arc::new(Ear::default())).await.is_err());
    assert_eq!(server.asked(), ["server/discover", "initialize", "GET", "server/discover", "initialize"]);
}

#[tokio::test]
async fn what_is_known_is_not_asked() {
    let server = FakeHttpServer::start(modern).await;
    let client = connect_stateless(&server).await;
    assert_eq!(server.asked(), Vec::<String>::new());
    assert_eq!(client.negotiated.dialect, STATELESS);
    let server = FakeHttpServer::start(legacy).await;
    let client = connect_in(&server, ProtocolVersion::V2025_03_26).await;
    assert_eq!(client.negotiated.dialect, Dialect::Handshake(ProtocolVersion::V2025_03_26));
    assert_eq!(server.asked()[..2], ["initialize", "notifications/initialized"]);
}

#[tokio::test]
async fn a_client_of_the_newest_revision_does_not_fall_back() {
    let server = FakeHttpServer::start(legacy).await;
    let error = open(&server, options().choice(VersionChoice::Stateless)).await.unwrap_err();
    assert!(error.to_string().contains("only older revisions"), "{error}");
    assert_eq!(server.asked(), ["server/discover"]);
}

#[tokio::test]
async fn a_modern_server_without_a_method_says_so() {
    let server = FakeHttpServer::start(|request| Reply::json(404, &failure(request, -32601, None))).await;
    let client = connect_stateless(&server).await;
    let error = ask(&client, "tools/list", &json!({})).await.unwrap_err();
    assert!(chain(&error).contains("-32601"), "{}", chain(&error));
}

/// Says this to whatever it hears. Where it does.
async fn answering(bytes: &'static [u8]) -> std::net::SocketAddr {
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
async fn an_address_of_the_wrong_scheme_is_suspected() {
    let told = |connector: HttpConnector| async move {
        chain(&connector.connect(options(), Arc::new(Ear::default())).await.unwrap_err())
    };
    let plain = answering(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    // A root, so that this does not depend on those of the machine.
    let root = include_bytes!("../server/tls/certificate.pem");
    let connector = HttpConnector::new(format!("https://{plain}/")).unwrap().no_proxy().root_certificates(root);
    let told_plain = told(connector).await;
    assert!(told_plain.contains("it does not speak TLS; is the address one of http://?"), "{told_plain}");

    // What a server that speaks TLS says to those who do not: an alert.
    let secure = answering(b"\x15\x03\x03\x00\x02\x02\x32").await;
    let told_secure = told(HttpConnector::new(format!("http://{secure}/")).unwrap().no_proxy()).await;
    assert!(told_secure.contains("it does not speak plain HTTP; is the address one of https://?"), "{told_secure}");
}

#[tokio::test]
async fn a_server_that_is_not_ready_in_time_is_named() {
    let server = FakeHttpServer::start(|_| Reply::never()).await;
    let mut impatient = options();
    impatient.handshake_timeout = Duration::from_millis(50);
    let error = open(&server, impatient).await.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.to_string(), format!("the server at {} was not ready within 50 ms", server.origin));
}
