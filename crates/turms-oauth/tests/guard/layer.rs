//! The layer for routes of an application that are not MCP, and the check of a token without a request.

use axum::Router;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;
use turms_server::Principal;
use turms_testkit::raw_http::{Connection, Request, Response};
use turms_testkit::within;

use crate::fixture::{Mount, RESOURCE, assert_refused, bearer, guard_for, proven};
use crate::issuer::TestIssuer;
use crate::tokens::{Proof, key};

#[tokio::test]
async fn other_routes_of_an_application_are_guarded_by_the_layer() {
    let issuer = TestIssuer::start().await;
    let guard = guard_for(&issuer, Mount::Listener).build().unwrap();
    let subject = |axum::Extension(who): axum::Extension<Principal>| async move { who.subject().to_owned() };
    let router = Router::new().route("/export", get(subject)).layer(guard.layer());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let send = async |request: Request| -> Response {
        let mut connection = Connection::open(address).await;
        connection.send(&request).await;
        within("a response", connection.response()).await
    };
    let export = || Request::new("GET").path("/export");
    assert_eq!(send(export()).await.status(), 401);
    let forged = issuer.token("http://localhost/other", json!({}));
    assert_refused(&send(bearer(export(), &forged)).await, 401, "invalid_token", "another audience");
    let good = issuer.token(RESOURCE, json!({}));
    assert_eq!(send(bearer(export(), &good)).await.body, b"ann");
    // A proof is for the URL of the route, with the origin of the resource.
    let own = key("own");
    let token = issuer.token(RESOURCE, json!({ "cnf": { "jkt": own.bare_jwk().thumbprint().unwrap() } }));
    let prove = |url| Proof { key: &own, method: "GET", url, token: &token }.sign(json!({}), json!({}));
    let refused = send(proven(export(), &token, &prove(RESOURCE))).await;
    assert_refused(&refused, 401, "invalid_dpop_proof", "the URL of the MCP server");
    assert_eq!(send(proven(export(), &token, &prove("http://localhost/export"))).await.body, b"ann");
    serving.abort();
}

#[tokio::test]
async fn a_token_is_verified_without_a_request_unless_it_is_bound_to_a_key() {
    let issuer = TestIssuer::start().await;
    let guard = guard_for(&issuer, Mount::Listener).build().unwrap();
    let status = async |token: &str| guard.verify(token).await.map_err(|rejection| rejection.status.as_u16());
    let ann = status(&issuer.token(RESOURCE, json!({}))).await.unwrap();
    assert_eq!((ann.subject(), ann.issuer()), ("ann", Some(&*issuer.identifier)));
    assert_eq!(status(&issuer.token(RESOURCE, json!({ "cnf": { "jkt": "x" } }))).await, Err(401));
    assert_eq!(status(&issuer.token(RESOURCE, json!({ "scope": "other" }))).await, Err(403));
    assert_eq!(status(&"a".repeat(9 * 1024)).await, Err(400));
}
