//! Device codes of the development server.

use std::time::Duration;

use serde_json::Value;
use turms_oauth::dev::{DevClient, DevServer, DevServerBuilder, DevUser};

use crate::agent::{Agent, decode};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

fn builder() -> DevServerBuilder {
    DevServer::builder()
        .user(DevUser::new("alice").password("hunter2"))
        .client(DevClient::public("tv").name("The TV"))
        .client(DevClient::public("other"))
        .scopes(["read", "write"])
}

async fn start(agent: &mut Agent, server: &DevServer) -> Value {
    let form = [("client_id", "tv"), ("scope", "read"), ("resource", "https://notes.example.com/mcp")];
    agent.post(server.url("/device_authorization"), &form).await.ok()
}

fn poll<'a>(device: &'a Value, client: &'a str) -> [(&'a str, &'a str); 3] {
    [("grant_type", GRANT), ("device_code", device["device_code"].as_str().unwrap()), ("client_id", client)]
}

#[tokio::test]
async fn a_person_approves_a_device() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let (mut device, mut browser) = (Agent::new(), Agent::new());
    let codes = start(&mut device, &server).await;
    let pending = device.post(server.url("/token"), &poll(&codes, "tv")).await;
    assert_eq!(pending.error(), (400, "authorization_pending".to_owned()));

    assert!(browser.get(codes["verification_uri"].as_str().unwrap()).await.text().contains("user_code"));
    let typed = codes["user_code"].as_str().unwrap().to_ascii_lowercase().replace('-', " ");
    let by_hand = format!("{}?user_code={}", server.url("/device"), typed.replace(' ', "+"));
    assert!(browser.get(&by_hand).await.text().contains("The TV"));
    let url = codes["verification_uri_complete"].as_str().unwrap();
    let page = browser.get(url).await;
    assert!(page.text().contains("The TV") && page.text().contains("https://notes.example.com/mcp"));
    assert_eq!(page.header("x-frame-options"), "DENY");
    let csrf = page.csrf();
    let form = [("csrf", &*csrf), ("user", "alice"), ("password", "hunter2"), ("decision", "approve")];
    assert_eq!(Agent::new().post(url, &form).await.status, 403, "another browser");
    assert_eq!(browser.post(url, &form[1..]).await.status, 403, "no token");
    let wrong = [form[0], form[1], ("password", "x"), form[3]];
    assert_eq!(browser.post(url, &wrong).await.status, 403);
    assert_eq!(browser.post(url, &form).await.status, 200);
    assert_eq!(browser.post(url, &form).await.status, 404, "the code was used");

    let foreign = device.post(server.url("/token"), &poll(&codes, "other")).await;
    assert_eq!(foreign.error(), (400, "invalid_grant".to_owned()));
    let tokens = device.post(server.url("/token"), &poll(&codes, "tv")).await.ok();
    let claims = decode(tokens["access_token"].as_str().unwrap()).1;
    assert_eq!(
        (&claims["sub"], &claims["scope"], &claims["aud"]),
        (&"alice".into(), &"read".into(), &"https://notes.example.com/mcp".into())
    );
    assert!(tokens["refresh_token"].is_string());
    let again = device.post(server.url("/token"), &poll(&codes, "tv")).await;
    assert_eq!(again.error(), (400, "invalid_grant".to_owned()), "a device code is used once");
}

#[tokio::test]
async fn a_device_that_asks_too_often_has_to_slow_down() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut device = Agent::new();
    let codes = start(&mut device, &server).await;
    assert_eq!(codes["interval"], 5);
    let mut ask = async |after: u64| {
        server.advance(Duration::from_secs(after));
        device.post(server.url("/token"), &poll(&codes, "tv")).await.error().1
    };
    assert_eq!(ask(0).await, "authorization_pending");
    assert_eq!(ask(6).await, "authorization_pending");
    assert_eq!(ask(2).await, "slow_down");
    assert_eq!(ask(7).await, "slow_down", "the interval has grown by 5 s");
    assert_eq!(ask(16).await, "authorization_pending");
    assert_eq!(ask(600).await, "expired_token");
}

#[tokio::test]
async fn a_denied_device_is_told_so() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let (mut device, mut browser) = (Agent::new(), Agent::new());
    let codes = start(&mut device, &server).await;
    let url = codes["verification_uri_complete"].as_str().unwrap();
    let csrf = browser.get(url).await.csrf();
    assert_eq!(browser.post(url, &[("csrf", &csrf), ("decision", "deny")]).await.status, 200);
    let denied = device.post(server.url("/token"), &poll(&codes, "tv")).await;
    assert_eq!(denied.error(), (400, "access_denied".to_owned()));
}

#[tokio::test]
async fn an_unknown_user_code_is_not_reflected() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let answer = Agent::new().get(format!("{}?user_code=%3Cb%3EX%3C/b%3E", server.url("/device"))).await;
    assert_eq!(answer.status, 404);
    assert!(!answer.text().contains("<b>"));
}

#[tokio::test]
async fn a_device_is_approved_at_once_if_the_server_does_so() {
    let server = builder().auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    let mut device = Agent::new();
    let codes = start(&mut device, &server).await;
    device.post(server.url("/token"), &poll(&codes, "tv")).await.ok();
    assert_eq!(server.grants(GRANT), 1);
    let bad = [("client_id", "tv"), ("scope", "admin")];
    let refused = device.post(server.url("/device_authorization"), &bad).await;
    assert_eq!(refused.error(), (400, "invalid_scope".to_owned()));
}

#[tokio::test]
async fn the_number_of_devices_that_wait_for_a_person_is_bounded() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let first = start(&mut agent, &server).await;
    for _ in 1..1000 {
        start(&mut agent, &server).await;
    }
    let form = [("client_id", "tv")];
    let answer = agent.post(server.url("/device_authorization"), &form).await;
    assert_eq!(answer.error(), (503, "temporarily_unavailable".to_owned()));
    // No other one is forgotten for it.
    let pending = agent.post(server.url("/token"), &poll(&first, "tv")).await;
    assert_eq!(pending.error(), (400, "authorization_pending".to_owned()));
}
