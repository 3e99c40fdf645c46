//! Client ID metadata documents at the development server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use turms_oauth::dev::DevServer;
use turms_oauth::{Algorithm, JwkSet, SigningKey};

use crate::agent::{Agent, Login, REDIRECT, decode};
use crate::site::{Forbidden, Site, serve};

async fn dev() -> DevServer {
    DevServer::builder().auto_approve("alice").bind("127.0.0.1:0").await.unwrap()
}

fn document(url: &str) -> Value {
    json!({"client_id": url, "client_name": "Documented", "redirect_uris": [REDIRECT]})
}

#[tokio::test]
async fn a_client_logs_in_with_a_document_which_is_cached() {
    let (server, site) = (dev().await, Site::new().await);
    let id = site.json("/client.json", &document(&site.url("/client.json")));
    let mut agent = Agent::new();
    for _ in 0..3 {
        let login = Login::new(&id);
        let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
        let tokens = agent.post(server.url("/token"), &login.exchange(&code)).await.ok();
        assert_eq!(decode(tokens["access_token"].as_str().unwrap()).1["client_id"], *id);
    }
    assert_eq!(site.requests(), 1);
    let other = Login::new(&id).with("redirect_uri", "https://evil.example/cb");
    let refused = agent.get(other.url(&server.url("/authorize"))).await;
    assert_eq!((refused.status.as_u16(), refused.header("location")), (400, ""));
}

#[tokio::test]
async fn a_document_that_is_not_one_is_refused() {
    let (server, site) = (dev().await, Site::new().await);
    let good = document(&site.url("/error")).to_string();
    site.json("/foreign.json", &document(&site.url("/other.json")));
    site.page("/text", StatusCode::OK, "text/plain", document(&site.url("/text")).to_string());
    site.page("/moved", StatusCode::FOUND, "", site.url("/other.json"));
    site.page("/error", StatusCode::INTERNAL_SERVER_ERROR, "application/json", good);
    site.json("/secret", &{
        let mut secret = document(&site.url("/secret"));
        secret["token_endpoint_auth_method"] = json!("client_secret_basic");
        secret
    });
    let mut large = document(&site.url("/large"));
    large["x"] = json!("x".repeat(20_000));
    site.page("/large", StatusCode::OK, "application/json", large.to_string());
    let before = site.requests();
    let mut agent = Agent::new();
    for path in ["/foreign.json", "/text", "/moved", "/error", "/secret", "/large", "/missing"] {
        let url = Login::new(&site.url(path)).url(&server.url("/authorize"));
        for _ in 0..2 {
            let answer = agent.get(&url).await;
            assert_eq!((answer.status.as_u16(), answer.header("location")), (400, ""), "{path}");
            assert_eq!(answer.text().contains("is not followed"), path == "/moved", "{path}");
        }
    }
    assert_eq!(site.requests() - before, 7, "a failure is remembered, and no redirect is followed");
    // The URL of a document has one form only.
    let before = site.requests();
    for path in ["/a/../client.json", "/./client.json", "/client.json#part"] {
        let id = site.url(path);
        site.json("/client.json", &document(&id));
        let answer = agent.get(Login::new(&id).url(&server.url("/authorize"))).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (400, ""), "{path}");
    }
    assert_eq!(site.requests(), before);
}

#[tokio::test]
async fn documents_at_private_addresses_are_not_requested() {
    let server = DevServer::builder().issuer("https://auth.example.com").auto_approve("alice").build().unwrap();
    let origin = serve(Router::new().fallback_service(server.service())).await;
    let forbidden = Forbidden::new();
    let port = forbidden.port();
    let mut agent = Agent::new();
    for id in [
        format!("http://127.0.0.1:{port}/c.json"),
        format!("https://127.0.0.1:{port}/c.json"),
        format!("https://localhost:{port}/c.json"),
        format!("https://[::ffff:127.0.0.1]:{port}/c.json"),
        format!("https://2130706433:{port}/c.json"),
        "https://169.254.169.254/latest/c.json".to_owned(),
        "https://10.0.0.1/c.json".to_owned(),
    ] {
        let answer = agent.get(Login::new(&id).url(&format!("{origin}/authorize"))).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (400, ""), "{id}");
        assert!(!answer.text().contains("the address "), "an address tells about the network: {}", answer.text());
        let form = [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", &id)];
        assert_eq!(agent.post(format!("{origin}/token"), &form).await.error().1, "invalid_client", "{id}");
    }
    assert!(!forbidden.was_connected());
}

#[tokio::test]
async fn a_documented_client_authenticates_with_its_published_key() {
    let (server, site) = (dev().await, Site::new().await);
    let key = SigningKey::generate(Algorithm::Es256).unwrap().key_id("k1");
    let keys = site.json("/keys.json", &json!(JwkSet::new([key.public_jwk()])));
    let mut client = document(&site.url("/client.json"));
    client["token_endpoint_auth_method"] = json!("private_key_jwt");
    client["jwks_uri"] = json!(keys);
    let id = site.json("/client.json", &client);
    let mut agent = Agent::new();
    let login = Login::new(&id);
    let mut code = async || agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    let (first, second) = (code().await, code().await);
    let public = agent.post(server.url("/token"), &login.exchange(&first)).await;
    assert_eq!(public.error(), (401, "invalid_client".to_owned()), "the key is required");

    let now = decode(&server.mint(json!({}))).1["iat"].as_u64().unwrap();
    let claims = json!({"iss": id, "sub": id, "aud": server.issuer(), "exp": now + 60, "jti": "1"});
    let assertion = key.sign(&[], &claims);
    let mut form = login.exchange(&second);
    form.push(("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"));
    form.push(("client_assertion", &assertion));
    agent.post(server.url("/token"), &form).await.ok();
}

#[tokio::test]
async fn documents_of_clients_are_requested_by_a_bounded_number_of_requests() {
    let server = dev().await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(Semaphore::new(0));
    let (count, maximum, wait) = (running.clone(), most.clone(), gate.clone());
    // A site that responds when the gate is open.
    let origin = serve(Router::new().fallback(move || {
        let (count, maximum, wait) = (count.clone(), maximum.clone(), wait.clone());
        async move {
            maximum.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            drop(wait.acquire().await);
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }))
    .await;
    let requests: Vec<_> = (0..40)
        .map(|number| {
            let url = Login::new(&format!("{origin}/{number}.json")).url(&server.url("/authorize"));
            tokio::spawn(async move { Agent::new().get(url).await.status })
        })
        .collect();
    let all_have_come = async || running.load(Ordering::SeqCst) >= 32 && server.requests("/authorize") == 40;
    turms_testkit::eventually("the requests", all_have_come).await;
    gate.add_permits(40);
    for request in requests {
        request.await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 32);
}
