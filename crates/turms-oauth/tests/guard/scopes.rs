//! Missing scopes: 403 with the challenge of a step-up, in both eras; and lists.

use serde_json::{Value, json};
use turms_testkit::messages::{CAPABILITIES, call, initialize, modern, modern_call, request};
use turms_testkit::raw_http::{Request, Response, Stream};
use turms_testkit::within;

use crate::fixture::{GuardedServer, Mount, bearer, challenge, guard_for};
use crate::issuer::TestIssuer;

/// Asserts that a call was refused because it needs more scopes.
#[track_caller]
fn assert_step_up(response: &Response, mount: Mount, scopes: &str, what: &str) {
    assert_eq!(response.status(), 403, "{what}: {response}");
    let path = if mount == Mount::Axum { "/app/mcp" } else { "/mcp" };
    let expected = format!(
        "Bearer error=\"insufficient_scope\", scope=\"{scopes}\", resource_metadata=\"http://localhost/.well-known/oauth-protected-resource{path}\""
    );
    assert_eq!(challenge(response), expected, "{what}");
    let error = &response.json()["error"];
    let needed = scopes.strip_prefix("notes:read ").unwrap_or(scopes);
    assert_eq!((&error["code"], &error["data"]["scope"]), (&json!(-32600), &json!(needed)), "{what}");
}

/// Uses of the items that need `notes:write`.
fn uses() -> [(&'static str, Value); 4] {
    [
        ("tools/call", json!({ "name": "write", "arguments": {} })),
        ("prompts/get", json!({ "name": "draft" })),
        ("resources/read", json!({ "uri": "memo://secret" })),
        (
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": ["memo://secret"] }, "_meta": { CAPABILITIES: {} } }),
        ),
    ]
}

#[tokio::test]
async fn a_use_without_its_scope_is_forbidden_in_both_eras() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let token = issuer.token(mount.resource(), json!({}));
        let session = server.session(&token).await;
        for (method, params) in uses() {
            let refused = server.send(bearer(modern(1, method, params.clone()), &token)).await;
            assert_step_up(&refused, mount, "notes:read notes:write", method);
            if method == "subscriptions/listen" {
                continue;
            }
            let refused = server.send(bearer(session.post(request(2, method, params)), &token)).await;
            assert_step_up(&refused, mount, "notes:read notes:write", method);
        }
        // A subscription of an older revision.
        let subscribe = request(3, "resources/subscribe", json!({ "uri": "memo://secret" }));
        let refused = server.send(bearer(session.post(subscribe), &token)).await;
        assert_step_up(&refused, mount, "notes:read notes:write", "resources/subscribe");
        // Another token of the same principal may use it, in the same session.
        let stepped_up = issuer.token(mount.resource(), json!({ "scope": "notes:write" }));
        for (method, params) in &uses()[..3] {
            let accepted = server.send(bearer(modern(1, method, params.clone()), &stepped_up)).await;
            assert!(accepted.result().is_object(), "{method}: {accepted}");
            let accepted = server.send(bearer(session.post(request(2, method, params.clone())), &stepped_up)).await;
            assert!(accepted.result().is_object(), "{method}: {accepted}");
        }
    }
}

/// Updates two resources, and returns the URIs of the updates that a stream is told up to the second one.
async fn told(server: &GuardedServer, stream: &mut Stream) -> Vec<Value> {
    for uri in ["memo://secret", "memo://hello"] {
        server.handle.notify_resource_updated(uri);
    }
    let mut told = Vec::new();
    while told.last().is_none_or(|uri| uri != "memo://hello") {
        let message = within("an update", stream.message()).await;
        if message["method"] == "notifications/resources/updated" {
            told.push(message["params"]["uri"].clone());
        }
    }
    told
}

/// Returns a token for reading, and one for writing.
fn tokens(issuer: &TestIssuer, mount: Mount) -> (String, String) {
    let of = |claims: Value| issuer.token(mount.resource(), claims);
    (of(json!({})), of(json!({ "scope": "notes:write" })))
}

fn subscriptions() -> [Value; 2] {
    ["memo://secret", "memo://hello"].map(|uri| request(3, "resources/subscribe", json!({ "uri": uri })))
}

#[tokio::test]
async fn updates_are_sent_while_the_latest_token_of_a_session_has_the_scopes() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let (reading, writing) = tokens(&issuer, mount);
        let session = server.session(&writing).await;
        for subscribe in subscriptions() {
            let accepted = server.send(bearer(session.post(subscribe), &writing)).await;
            assert!(accepted.result().is_object(), "{accepted}");
        }
        let mut stream = server.stream(bearer(session.get(), &reading)).await;
        assert_eq!(told(&server, &mut stream).await, ["memo://hello"], "the token of the stream");
        for (token, expected) in [(&writing, &["memo://secret", "memo://hello"][..]), (&reading, &["memo://hello"])] {
            server.send(bearer(session.post(request(4, "ping", None)), token)).await.result();
            assert_eq!(told(&server, &mut stream).await, expected);
        }
    }
}

#[tokio::test]
async fn updates_are_sent_while_the_latest_token_of_a_pair_has_the_scopes() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let (reading, writing) = tokens(&issuer, mount);
        let mut pair = server.initialized_pair(&writing).await;
        for subscribe in subscriptions() {
            server.send(bearer(pair.post(subscribe), &writing)).await.assert_accepted();
            while within("a response", pair.stream.message()).await["id"] != 3 {}
        }
        for (token, expected) in [(&reading, &["memo://hello"][..]), (&writing, &["memo://secret", "memo://hello"])] {
            server.send(bearer(pair.post(request(4, "ping", None)), token)).await.assert_accepted();
            while within("a response", pair.stream.message()).await["id"] != 4 {}
            assert_eq!(told(&server, &mut pair.stream).await, expected);
        }
    }
}

#[tokio::test]
async fn a_handler_that_requires_a_scope_is_answered_like_a_declared_one() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
    let token = issuer.token(mount.resource(), json!({}));
    let session = server.session(&token).await;
    for request in [modern_call(1, "administer", json!({})), session.post(call(1, "administer", json!({})))] {
        let refused = server.send(bearer(request.clone(), &token)).await;
        assert_step_up(&refused, mount, "notes:read notes:admin", "administer");
        let admin = issuer.token(mount.resource(), json!({ "scope": "notes:read notes:admin" }));
        assert_eq!(server.send(bearer(request, &admin)).await.text(), "administered");
    }
}

#[tokio::test]
async fn a_token_without_the_scopes_of_every_request_is_forbidden_everywhere() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let good = issuer.token(mount.resource(), json!({}));
        let (session, pair) = (server.session(&good).await, server.pair(&good).await);
        let reached = server.reached();
        for scope in [json!(""), json!("notes"), json!("notes:readx"), json!("(absent)"), json!([])] {
            let poor = issuer.token(mount.resource(), json!({ "scope": scope }));
            for entry in server.entries(&session, &pair) {
                let refused = entry.send(|request| bearer(request, &poor)).await;
                assert_eq!(refused.status(), 403, "{scope}, {}: {refused}", entry.name);
                let challenge = challenge(&refused);
                assert!(challenge.starts_with("Bearer error=\"insufficient_scope\""), "{challenge}");
                assert!(challenge.contains("scope=\"notes:read\""), "{challenge}");
            }
        }
        assert_eq!(server.reached(), reached);
        for changes in [
            json!({ "scope": "notes:write" }),
            json!({ "scope": "(absent)", "scp": ["notes:read"] }),
            json!({ "scope": "a notes:read" }),
        ] {
            let token = issuer.token(mount.resource(), changes);
            server.entries(&session, &pair)[0].assert_accepted(&token).await;
        }
    }
}

#[tokio::test]
async fn the_forbidden_call_of_a_batch_or_a_pair_or_a_socket_is_an_error_in_its_body() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
    let token = issuer.token(mount.resource(), json!({}));
    let is_forbidden = |message: &Value| {
        message["error"]["code"] == -32600
            && message["error"]["data"] == json!({ "error": "insufficient_scope", "scope": "notes:write" })
    };
    // Batches are of 2025-03-26.
    let begun = server.send(bearer(Request::post(initialize("2025-03-26")), &token)).await;
    let id = begun.header("mcp-session-id").unwrap().to_owned();
    let batch = json!([call(5, "write", json!({})), call(6, "whoami", json!({}))]);
    let response = server.send(bearer(Request::post(batch).session(&id), &token)).await;
    assert_eq!(response.status(), 200, "{response}");
    let answers: Vec<Value> = response
        .messages()
        .into_iter()
        .flat_map(|message| match message {
            Value::Array(messages) => messages,
            message => vec![message],
        })
        .collect();
    assert!(answers.iter().any(|answer| answer["id"] == 5 && is_forbidden(answer)), "{response}");
    assert!(answers.iter().any(|answer| answer["id"] == 6 && answer["result"].is_object()), "{response}");
    let mut pair = server.initialized_pair(&token).await;
    server.send(bearer(pair.post(call(7, "write", json!({}))), &token)).await.assert_accepted();
    let answer = pair.stream.message().await;
    assert!(is_forbidden(&answer), "{answer}");
    let mut socket = server.socket(&token).await;
    socket.text(&call(8, "write", json!({})).to_string()).await;
    let answer: Value = serde_json::from_str(&socket.message().await.0).unwrap();
    assert!(is_forbidden(&answer), "{answer}");
}

/// Returns the names of a list.
async fn names(server: &GuardedServer, token: &str, kind: &str) -> (Vec<String>, String) {
    let member = if kind == "resources" { "uri" } else { "name" };
    let response = server.send(bearer(modern(1, &format!("{kind}/list"), json!({})), token)).await;
    let result = response.result();
    let names = result[kind].as_array().unwrap().iter().map(|item| item[member].as_str().unwrap().to_owned());
    (names.collect(), result["cacheScope"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn items_without_their_scope_are_listed_unless_they_are_hidden() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let guard = guard_for(&issuer, mount).build().unwrap();
    let listing = GuardedServer::start(mount, guard.clone()).await;
    let hiding = GuardedServer::with(mount, guard, turms_server::Server::hide_without_scope).await;
    let reader = issuer.token(mount.resource(), json!({}));
    let writer = issuer.token(mount.resource(), json!({ "scope": "notes:write" }));
    for (kind, item) in [("tools", "write"), ("prompts", "draft"), ("resources", "memo://secret")] {
        let item = item.to_owned();
        assert!(names(&listing, &reader, kind).await.0.contains(&item), "{kind}");
        let (hidden, cache) = names(&hiding, &reader, kind).await;
        assert!(!hidden.contains(&item) && cache == "private", "{kind}: {hidden:?}");
        assert!(names(&hiding, &writer, kind).await.0.contains(&item), "{kind}");
    }
    // What is hidden is unknown: the answer does not tell that it exists.
    let hidden = hiding.send(bearer(modern_call(1, "write", json!({})), &reader)).await;
    let unknown = hiding.send(bearer(modern_call(1, "nothing", json!({})), &reader)).await;
    assert_eq!(hidden.status(), unknown.status());
    let message = |response: &Response, name: &str| response.json()["error"].to_string().replace(name, "?");
    assert_eq!(message(&hidden, "write"), message(&unknown, "nothing"));
    assert_eq!(hiding.send(bearer(modern_call(1, "write", json!({})), &writer)).await.text(), "written");
}

#[tokio::test]
async fn a_challenge_for_a_bound_token_has_the_scheme_dpop() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
    let own = crate::tokens::key("own");
    let jkt = own.bare_jwk().thumbprint().unwrap();
    let token = issuer.token(mount.resource(), json!({ "cnf": { "jkt": jkt } }));
    let proof = crate::tokens::Proof { key: &own, method: "POST", url: mount.resource(), token: &token };
    let proof = proof.sign(json!({}), json!({}));
    let refused = server.send(crate::fixture::proven(modern_call(1, "write", json!({})), &token, &proof)).await;
    assert_eq!(refused.status(), 403);
    assert!(challenge(&refused).starts_with("DPoP error=\"insufficient_scope\""), "{refused}");
}
