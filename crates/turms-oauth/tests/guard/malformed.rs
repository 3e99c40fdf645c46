//! Requests without a token, or with one in the wrong place or form.

use serde_json::json;
use turms_testkit::messages::{modern, modern_call};
use turms_testkit::raw_http::Request;

use crate::fixture::{GuardedServer, Mount, assert_refused, bearer, challenge, guard_for};
use crate::issuer::TestIssuer;

fn with_query(request: Request, query: &str) -> Request {
    let separator = if request.path.contains('?') { '&' } else { '?' };
    let path = format!("{}{separator}{query}", request.path);
    request.path(path)
}

#[tokio::test]
async fn a_request_without_a_token_is_challenged_without_an_error() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let good = issuer.token(mount.resource(), json!({}));
        let (session, pair) = (server.session(&good).await, server.pair(&good).await);
        let reached = server.reached();
        for entry in server.entries(&session, &pair) {
            for (what, header) in [("none", None), ("another scheme", Some("Basic YTpi")), ("empty", Some(""))] {
                let response = entry
                    .send(|request| match header {
                        Some(value) => request.header("Authorization", value),
                        None => request,
                    })
                    .await;
                assert_eq!(response.status(), 401, "{what}, {}: {response}", entry.name);
                let expected = format!(
                    "Bearer scope=\"notes:read\", resource_metadata=\"http://localhost/.well-known/oauth-protected-resource{}\"",
                    server.base
                );
                assert_eq!(challenge(&response), expected, "{what}, {}", entry.name);
            }
        }
        assert_eq!(server.reached(), reached);
    }
}

#[tokio::test]
async fn a_token_in_a_wrong_place_or_form_is_a_bad_request() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let good = issuer.token(mount.resource(), json!({}));
        let (session, pair) = (server.session(&good).await, server.pair(&good).await);
        let reached = server.reached();
        let long = "a".repeat(9 * 1024);
        type Change<'a> = Box<dyn Fn(Request) -> Request + 'a>;
        let both = |value: &'static str| -> Change<'_> {
            let good = &good;
            Box::new(move |request| bearer(request, good).also("Authorization", value))
        };
        let table: Vec<(&str, Change<'_>)> = vec![
            ("a token in the query", Box::new(|request| with_query(request, &format!("access_token={good}")))),
            (
                "also in the query",
                Box::new(|request| with_query(bearer(request, &good), &format!("access_token={good}"))),
            ),
            ("in the query, encoded", Box::new(|request| with_query(bearer(request, &good), "%61ccess_token=x"))),
            ("two tokens", both("Bearer x")),
            ("a token and a password", both("Basic YTpi")),
            ("a token and an empty header", both("")),
            ("a token of 9 KiB", Box::new(|request| bearer(request, &long))),
            ("two tokens in one header", Box::new(|request| bearer(request, &format!("{good}, Bearer x")))),
            ("a token with a space", Box::new(|request| bearer(request, "a b"))),
            ("a scheme without a token", Box::new(|request| request.header("Authorization", "Bearer"))),
        ];
        for (what, change) in &table {
            for entry in server.entries(&session, &pair) {
                let response = entry.send(change).await;
                assert_refused(&response, 400, "invalid_request", &format!("{what}, {} ({mount:?})", entry.name));
            }
        }
        assert_eq!(server.reached(), reached, "nothing has run");
    }
}

#[tokio::test]
async fn a_token_is_not_looked_for_in_the_body() {
    let issuer = TestIssuer::start().await;
    let server = GuardedServer::start(Mount::Listener, guard_for(&issuer, Mount::Listener).build().unwrap()).await;
    let good = issuer.token(Mount::Listener.resource(), json!({}));
    let form = Request::new("POST")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("access_token={good}"));
    assert_eq!(server.send(form).await.status(), 401);
    let request = modern(1, "tools/call", json!({ "name": "whoami", "access_token": good }));
    assert_eq!(server.send(request).await.status(), 401);
}

#[tokio::test]
async fn the_body_of_a_refused_request_is_not_read() {
    let issuer = TestIssuer::start().await;
    let server = GuardedServer::start(Mount::Listener, guard_for(&issuer, Mount::Listener).build().unwrap()).await;
    let mut request = modern_call(1, "whoami", json!({})).header("Content-Length", "1000000");
    request.body = None;
    assert_eq!(server.send(request).await.status(), 401, "though its body never comes");
}

#[tokio::test]
async fn the_host_and_the_origin_are_checked_before_the_token() {
    let issuer = TestIssuer::start().await;
    let server = GuardedServer::start(Mount::Listener, guard_for(&issuer, Mount::Listener).build().unwrap()).await;
    let good = issuer.token(Mount::Listener.resource(), json!({}));
    for (name, value) in [("Host", "evil.example.com"), ("Origin", "https://evil.example.com")] {
        let request = bearer(modern_call(1, "whoami", json!({})), &good).header(name, value);
        let response = server.send(request).await;
        assert_eq!((response.status(), response.header("www-authenticate")), (403, None), "{name}: {response}");
    }
}
