//! The revision of a request and `MCP-Protocol-Version` (basic/lifecycle, "Version Negotiation"; basic/transports, "Protocol
//! Version Header").

use serde_json::{Value, json};
use turms_http::HttpService;

use crate::dialog::{
    NEWEST, NEWEST_OLDER, SESSIONS, Session, VERSION, call, initialize, meta, mirrored, modern_body, notification,
    request,
};
use crate::fixture::Fixture;
use crate::wire::Request;

#[tokio::test]
async fn a_handshake_negotiates_the_requested_revision_or_the_newest_that_has_handshakes() {
    let fixture = Fixture::start().await;
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        (NEWEST, NEWEST_OLDER),
        ("1999-01-01", NEWEST_OLDER),
        ("2099-01-01", NEWEST_OLDER),
        ("nonsense", NEWEST_OLDER),
    ] {
        let response = fixture.send(Request::post(initialize(asked))).await;
        assert_eq!(response.result()["protocolVersion"], agreed, "{asked}: {response}");
        assert!(response.header("mcp-session-id").is_some(), "{response}");
    }
}

/// The header is for the negotiated revision, but some clients already send one with `initialize`.
#[tokio::test]
async fn a_handshake_may_name_a_revision_in_its_header() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let response = fixture.send(Request::post(initialize(version)).version(version)).await;
        assert_eq!(response.result()["protocolVersion"], version);
    }
}

#[tokio::test]
async fn the_version_header_is_optional_in_a_session() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let ping = session.post(request(2, "ping", None)).without("MCP-Protocol-Version");
        assert_eq!(fixture.send(ping).await.result(), json!({}), "{version}");
    }
}

#[tokio::test]
async fn an_unknown_revision_is_refused_in_a_session() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for version in ["1999-01-01", "nonsense", ""] {
        let response = fixture.send(session.post(request(2, "ping", None)).version(version)).await;
        assert_eq!(response.status(), 400, "{version}: {response}");
        assert!(response.json()["error"]["code"].is_i64(), "{response}");
        let response = fixture.send(session.get().version(version)).await;
        assert_eq!(response.status(), 400, "{version}: {response}");
        let response = fixture.send(session.delete().version(version)).await;
        assert_eq!(response.status(), 400, "{version}: {response}");
    }
    assert_eq!(fixture.send(session.post(request(2, "ping", None))).await.result(), json!({}));
}

#[tokio::test]
async fn an_unknown_revision_is_refused_with_the_supported_ones() {
    let fixture = Fixture::start().await;
    let response = fixture.send(Request::post(request("q", "tools/list", None)).version("1999-01-01")).await;
    response.assert_refused(400, -32022, &json!("q"));
    let data = &response.json()["error"]["data"];
    assert_eq!(data["requested"], "1999-01-01");
    let supported: Vec<_> = data["supported"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(supported.contains(&NEWEST), "{response}");
}

#[tokio::test]
async fn a_request_of_the_newest_revision_needs_its_metadata() {
    let fixture = Fixture::start().await;
    let list = || Request::post(request("q", "tools/list", json!({})));
    for request in [
        list().version(NEWEST),
        list().version("2099-01-01"),
        list().header("Mcp-Method", "tools/list"),
        list().version(NEWEST).header("Mcp-Method", "tools/list"),
        Request::post(request("q", "server/discover", json!({}))),
        Request::post(request("q", "server/discover", None)),
        Request::post(request("q", "subscriptions/listen", json!({ "notifications": {} }))),
    ] {
        let response = fixture.send(request.clone()).await;
        response.assert_refused(400, -32602, &json!("q"));
        let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("_meta") || message.contains(VERSION), "{request:?}: {message}");
    }
}

/// mcp-remote sends `Mcp-Method` in older revisions, too.
#[tokio::test]
async fn a_session_or_an_older_revision_decides_whatever_other_headers_say() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let called = |name, arguments| {
            let call = session.post(call(3, name, arguments));
            call.header("Mcp-Method", "tools/call").header("Mcp-Name", name)
        };
        let add = json!({ "a": 1, "b": 2 });
        assert_eq!(fixture.send(called("add", add.clone())).await.text(), "3", "{version}");
        let unnamed = called("add", add.clone()).without("MCP-Protocol-Version");
        assert_eq!(fixture.send(unnamed).await.text(), "3", "{version}");
        let newest = called("add", add.clone()).version(NEWEST);
        assert_eq!(fixture.send(newest).await.text(), "3", "{version}");
        let unknown = called("add", add).version("2099-01-01");
        fixture.send(unknown).await.assert_refused(400, -32022, &json!(3));
        // Headers are not compared with the body in these revisions.
        let list = session.post(request(4, "tools/list", None)).header("Mcp-Method", "tools/call");
        assert!(fixture.send(list).await.result()["tools"].is_array(), "{version}");
        // Methods of the newest revision are unknown in a session.
        let discover = session.post(request("q", "server/discover", None)).header("Mcp-Method", "server/discover");
        let response = fixture.send(discover).await;
        assert_eq!(response.json()["error"]["code"], -32601, "{version}: {response}");
        let told = session.post(notification("notifications/roots/list_changed"));
        fixture.send(told.header("Mcp-Method", "notifications/roots/list_changed")).await.assert_accepted();
    }
    let other = Request::post(request("q", "tools/list", None)).header("Mcp-Method", "tools/list").session("x");
    assert_eq!(fixture.send(other).await.status(), 404);
}

#[tokio::test]
async fn an_older_revision_is_named_instead_of_a_session_where_there_are_none() {
    let fixture = Fixture::with(HttpService::without_sessions).await;
    for version in SESSIONS {
        let add = Request::post(call(3, "add", json!({ "a": 1, "b": 2 }))).version(version);
        let response = fixture.send(add.header("Mcp-Method", "tools/call")).await;
        assert_eq!(response.text(), "3", "{version}");
    }
}

#[tokio::test]
async fn a_request_of_an_older_revision_needs_a_session() {
    let fixture = Fixture::start().await;
    for version in [None, Some("2025-03-26"), Some("2025-06-18"), Some(NEWEST_OLDER)] {
        let mut list = Request::post(request("q", "tools/list", None));
        if let Some(version) = version {
            list = list.version(version);
        }
        let response = fixture.send(list).await;
        assert_eq!(response.status(), 400, "{version:?}: {response}");
        assert!(response.json()["error"]["code"].is_i64(), "{response}");
    }
}

#[tokio::test]
async fn methods_that_the_newest_revision_removed_are_unknown() {
    let fixture = Fixture::start().await;
    let removed = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
    for method in removed {
        let params = match method {
            "initialize" => initialize(NEWEST)["params"].clone(),
            "logging/setLevel" => json!({ "level": "info" }),
            "ping" => json!({}),
            _ => json!({ "uri": "memo://hello" }),
        };
        let response = fixture.send(mirrored(&modern_body("q", method, params))).await;
        response.assert_refused(404, -32601, &json!("q"));
        assert!(response.header("mcp-session-id").is_none(), "{response}");
    }
}

/// Requests of both eras alternate on one connection. Earlier requests do not affect later ones.
#[tokio::test]
async fn each_request_is_judged_for_itself() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut connection = fixture.connect().await;
    for _ in 0..3 {
        connection.send(&mirrored(&modern_body(1, "tools/list", json!({})))).await;
        assert_eq!(connection.response().await.result()["resultType"], "complete");
        connection.send(&session.post(request(2, "tools/list", None))).await;
        assert!(connection.response().await.result().get("resultType").is_none());
        connection.send(&Request::post(request(3, "tools/list", json!({}))).version(NEWEST)).await;
        connection.response().await.assert_refused(400, -32602, &json!(3));
    }
}

/// A stateless request with a session id is served as a stateless one. The session is unaffected.
#[tokio::test]
async fn a_session_id_does_not_affect_a_stateless_request() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let response = fixture.send(mirrored(&modern_body(1, "tools/list", json!({}))).session(&session.id)).await;
    assert_eq!(response.result()["resultType"], "complete");
    assert!(response.header("mcp-session-id").is_none(), "{response}");
    assert_eq!(fixture.send(session.post(request(2, "ping", None))).await.result(), json!({}));
}

#[tokio::test]
async fn a_server_of_the_newest_revision_only_refuses_handshakes_with_its_revision() {
    let fixture =
        Fixture::of(|server| server.protocol_versions([turms_proto::ProtocolVersion::V2026_07_28]), |service| service)
            .await;
    let response = fixture.send(Request::post(initialize(NEWEST_OLDER))).await;
    assert_eq!(response.status(), 400, "{response}");
    let error = &response.json()["error"];
    assert_eq!(error["data"]["supported"], json!([NEWEST]), "{response}");
    assert!(error["message"].as_str().unwrap().contains(NEWEST), "{response}");
    assert_eq!(response.json()["id"], 1);
    for request in [Request::get(), Request::delete(), Request::get().session("x"), Request::delete().session("x")] {
        let response = fixture.send(request.clone()).await;
        assert_eq!(response.status(), 405, "{request:?}: {response}");
        assert_eq!(response.header("allow").map(|allowed| allowed.contains("POST")), Some(true), "{response}");
    }
    let response = fixture.send(mirrored(&modern_body(1, "tools/list", json!({})))).await;
    assert_eq!(response.result()["resultType"], "complete");
}

#[tokio::test]
async fn a_server_of_older_revisions_only_refuses_the_newest_one() {
    let versions = [turms_proto::ProtocolVersion::V2025_11_25];
    let fixture = Fixture::of(|server| server.protocol_versions(versions), |service| service).await;
    let response = fixture.send(mirrored(&modern_body(1, "server/discover", json!({})))).await;
    assert!((400..500).contains(&response.status()), "{response}");
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let list = request(1, "tools/list", json!({ "_meta": meta() }));
    assert_eq!(fixture.send(session.post(&list)).await.status(), 200);
}
