//! `Origin`, `Host` and CORS (basic/transports, "Security Warning").

use serde_json::json;

use crate::dialog::{NEWEST_OLDER, Session, initialize, modern, notification, request};
use crate::fixture::Fixture;
use crate::wire::{Request, Response};

const PAGE: &str = "https://app.example.com";

#[tokio::test]
async fn every_request_from_another_origin_or_host_is_refused() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for request in [
        Request::post(initialize(NEWEST_OLDER)),
        Request::post("{"),
        session.post(request(2, "ping", None)),
        session.post(notification("notifications/initialized")),
        session.get(),
        session.delete(),
        modern(1, "tools/list", json!({})),
        Request::new("OPTIONS").header("Access-Control-Request-Method", "POST"),
    ] {
        for origin in ["http://evil.example", "null", "http://localhost.evil.example", "file://", ""] {
            let response = fixture.send(request.clone().header("Origin", origin)).await;
            assert_eq!(response.status(), 403, "{origin}: {request:?}: {response}");
            assert!(response.header("access-control-allow-origin").is_none(), "{response}");
        }
        let response = fixture.send(request.clone().header("Host", "evil.example")).await;
        assert!((400..500).contains(&response.status()), "{request:?}: {response}");
        let response =
            fixture.send(request.header("Host", "evil.example").header("Origin", "http://evil.example")).await;
        assert_eq!(response.status(), 403, "{response}");
    }
    assert_eq!(fixture.send(session.post(request(2, "ping", None))).await.result(), json!({}), "nothing changed");
}

#[tokio::test]
async fn local_origins_and_hosts_are_allowed() {
    let fixture = Fixture::start().await;
    let list = modern(1, "tools/list", json!({}));
    for origin in
        ["http://localhost", "http://localhost:5173", "http://127.0.0.1:8080", "http://[::1]:3000", "https://localhost"]
    {
        let response = fixture.send(list.clone().header("Origin", origin)).await;
        assert_eq!(response.status(), 200, "{origin}: {response}");
    }
    for host in ["localhost", "127.0.0.1", "[::1]", &format!("localhost:{}", fixture.address.port()), "LOCALHOST:1"] {
        let response = fixture.send(list.clone().header("Host", host)).await;
        assert_eq!(response.status(), 200, "{host}: {response}");
    }
}

#[tokio::test]
async fn any_host_and_any_origin_can_be_allowed() {
    let fixture = Fixture::with(|service| service.allow_any_host().allow_any_origin()).await;
    let list = modern(1, "tools/list", json!({})).header("Host", "mcp.example.com").header("Origin", PAGE);
    assert_eq!(fixture.send(list).await.status(), 200);
}

#[tokio::test]
async fn allowed_hosts_and_origins_can_be_set() {
    let fixture = Fixture::with(|service| service.allowed_hosts(["mcp.example.com"]).allowed_origins([PAGE])).await;
    let list = modern(1, "tools/list", json!({})).header("Host", "mcp.example.com");
    for (host, origin, status) in [
        ("mcp.example.com", None, 200),
        ("mcp.example.com:8443", None, 200),
        ("MCP.EXAMPLE.COM", None, 200),
        ("mcp.example.com", Some(PAGE), 200),
        ("mcp.example.com", Some("https://other.example.com"), 403),
        ("mcp.example.com", Some("http://app.example.com"), 403),
        ("mcp.example.com", Some("https://app.example.com:444"), 403),
        ("mcp.example.com", Some("http://localhost"), 403),
    ] {
        let mut request = list.clone().header("Host", host);
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        let response = fixture.send(request).await;
        assert_eq!(response.status(), status, "{host} {origin:?}: {response}");
    }
    let response = fixture.send(list.header("Host", "localhost")).await;
    assert!((400..500).contains(&response.status()), "{response}");
}

fn preflight(origin: &str, headers: &str) -> Request {
    Request::new("OPTIONS")
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", headers)
}

#[track_caller]
fn assert_names(response: &Response, header: &str, names: &[&str]) {
    let value = response.header(header).unwrap_or_default().to_ascii_lowercase();
    let own: Vec<_> = value.split(',').map(str::trim).collect();
    for name in names {
        assert!(own.contains(name), "{name} is not in {header}: {response}");
    }
}

async fn with_cors() -> Fixture {
    Fixture::with(|service| service.allowed_origins([PAGE]).cors()).await
}

#[tokio::test]
async fn a_preflight_names_the_allowed_methods_and_headers() {
    let fixture = with_cors().await;
    let response = fixture.send(preflight(PAGE, "content-type, mcp-param-region, mcp-param-x-y")).await;
    assert!((200..300).contains(&response.status()), "{response}");
    assert_eq!(response.header("access-control-allow-origin"), Some(PAGE));
    assert_names(&response, "access-control-allow-methods", &["post", "get", "delete"]);
    let always = [
        "content-type",
        "accept",
        "authorization",
        "mcp-protocol-version",
        "mcp-session-id",
        "last-event-id",
        "mcp-method",
        "mcp-name",
    ];
    assert_names(&response, "access-control-allow-headers", &always);
    assert_names(&response, "access-control-allow-headers", &["mcp-param-region", "mcp-param-x-y"]);
    assert_names(&response, "vary", &["origin"]);
    let response = fixture.send(preflight(PAGE, "x-evil")).await;
    let allowed = response.header("access-control-allow-headers").unwrap_or_default().to_ascii_lowercase();
    assert!(!allowed.contains("x-evil") && !allowed.contains('*'), "{response}");
}

#[tokio::test]
async fn an_allowed_page_may_read_responses() {
    let fixture = with_cors().await;
    let page = |request: Request| request.header("Origin", PAGE);
    for (request, status) in [
        (page(Request::post(initialize(NEWEST_OLDER))), 200),
        (page(modern(1, "tools/list", json!({}))), 200),
        (page(modern(1, "no/such/method", json!({}))), 404),
        (page(Request::post("{")), 400),
        (page(Request::get().session("unknown")), 404),
    ] {
        let response = fixture.send(request).await;
        assert_eq!(response.status(), status, "{response}");
        assert_eq!(response.header("access-control-allow-origin"), Some(PAGE), "{response}");
        assert_names(&response, "access-control-expose-headers", &["mcp-session-id", "www-authenticate"]);
        assert_names(&response, "vary", &["origin"]);
    }
    let stream = fixture.stream(page(crate::dialog::modern_stream(1, "wait", json!({})))).await;
    assert_eq!(stream.head.header("access-control-allow-origin"), Some(PAGE));
}

#[tokio::test]
async fn other_origins_get_no_cors_headers() {
    let fixture = with_cors().await;
    for origin in ["https://evil.example", "null", "https://app.example.com.evil.example"] {
        for request in [preflight(origin, "content-type"), modern(1, "tools/list", json!({})).header("Origin", origin)]
        {
            let response = fixture.send(request).await;
            assert_eq!(response.status(), 403, "{response}");
            assert!(response.header("access-control-allow-origin").is_none(), "{response}");
        }
    }
}

#[tokio::test]
async fn without_cors_no_page_is_allowed_to_read() {
    let fixture = Fixture::start().await;
    let response = fixture.send(modern(1, "tools/list", json!({})).header("Origin", "http://localhost:1")).await;
    assert_eq!(response.status(), 200);
    assert!(response.header("access-control-allow-origin").is_none(), "{response}");
    let response = fixture.send(preflight("http://localhost:1", "content-type")).await;
    assert!(response.header("access-control-allow-origin").is_none(), "{response}");
    assert_eq!(response.status(), 405, "{response}");
}
