//! Refresh tokens of the proxy.

use std::time::Duration;

use serde_json::json;

use crate::agent::Agent;
use crate::proxied::{Proxied, plain_provider};
use crate::site::Site;

#[tokio::test]
async fn a_refresh_renews_the_login_at_the_provider_and_replaces_the_token() {
    let proxied = Proxied::new().await;
    let mut agent = Agent::new();
    let (client, first) = proxied.tokens(&mut agent).await;
    let second = proxied.refresh(&mut agent, &client, &first["refresh_token"]).await.ok();
    assert_eq!(proxied.provider.grants("refresh_token"), 1);
    assert_ne!(second["refresh_token"], first["refresh_token"]);
    assert_eq!(second["scope"], "read write");
    let third = proxied.refresh(&mut agent, &client, &second["refresh_token"]).await.ok();
    assert_eq!(proxied.provider.grants("refresh_token"), 2, "the provider's token is replaced, too");
    let reused = proxied.refresh(&mut agent, &client, &first["refresh_token"]).await;
    assert_eq!(reused.error(), (400, "invalid_grant".to_owned()));
    let successor = proxied.refresh(&mut agent, &client, &third["refresh_token"]).await;
    assert_eq!(successor.error(), (400, "invalid_grant".to_owned()), "the whole login has ended");
    assert_eq!(proxied.provider.grants("refresh_token"), 2);
    proxied.assert_no_upstream_token(&agent);
}

#[tokio::test]
async fn of_two_refreshes_at_the_same_time_one_is_a_reuse() {
    let proxied = Proxied::new().await;
    let mut agent = Agent::new();
    let (client, tokens) = proxied.tokens(&mut agent).await;
    let (mut one, mut other) = (Agent::new(), Agent::new());
    let (one, other) = tokio::join!(
        proxied.refresh(&mut one, &client, &tokens["refresh_token"]),
        proxied.refresh(&mut other, &client, &tokens["refresh_token"]),
    );
    let (good, bad) = if one.status == 200 { (one, other) } else { (other, one) };
    assert_eq!(bad.error(), (400, "invalid_grant".to_owned()));
    let successor = proxied.refresh(&mut agent, &client, &good.ok()["refresh_token"]).await;
    assert_eq!(successor.error(), (400, "invalid_grant".to_owned()), "the whole login has ended");
    assert_eq!(proxied.provider.grants("refresh_token"), 1);
}

#[tokio::test]
async fn a_login_that_the_provider_has_ended_is_ended_here() {
    let proxied = Proxied::new().await;
    let mut agent = Agent::new();
    let (client, tokens) = proxied.tokens(&mut agent).await;
    proxied.provider.revoke_all();
    for _ in 0..2 {
        let answer = proxied.refresh(&mut agent, &client, &tokens["refresh_token"]).await;
        assert_eq!(answer.error(), (400, "invalid_grant".to_owned()));
    }
}

#[tokio::test]
async fn a_provider_that_is_down_does_not_cost_the_refresh_token() {
    let proxied = Proxied::new().await;
    let mut agent = Agent::new();
    let (client, tokens) = proxied.tokens(&mut agent).await;
    proxied.set_down(true);
    let answer = proxied.refresh(&mut agent, &client, &tokens["refresh_token"]).await;
    assert_eq!(answer.error(), (503, "temporarily_unavailable".to_owned()));
    proxied.set_down(false);
    proxied.refresh(&mut agent, &client, &tokens["refresh_token"]).await.ok();
}

#[tokio::test]
async fn a_refresh_token_works_for_its_client_only() {
    let proxied = Proxied::new().await;
    let mut agent = Agent::new();
    let (client, tokens) = proxied.tokens(&mut agent).await;
    let other = proxied.register(&mut agent, &["http://localhost/other"]).await;
    let answer = proxied.refresh(&mut agent, &other, &tokens["refresh_token"]).await;
    assert_eq!(answer.error(), (400, "invalid_grant".to_owned()));
    assert_eq!(proxied.provider.grants("refresh_token"), 0, "the provider is not asked");
    proxied.refresh(&mut agent, &client, &tokens["refresh_token"]).await.ok();
}

#[tokio::test]
async fn without_a_refresh_token_of_the_provider_the_login_ends_with_its_access_token() {
    let proxied = Proxied::with(|provider| provider.auto_approve("alice").refresh_tokens(false), |proxy| proxy).await;
    let mut agent = Agent::new();
    let (client, tokens) = proxied.tokens(&mut agent).await;
    let tokens = proxied.refresh(&mut agent, &client, &tokens["refresh_token"]).await.ok();
    assert_eq!(proxied.provider.requests("/userinfo"), 1);
    proxied.proxy.__advance(Duration::from_secs(300));
    let answer = proxied.refresh(&mut agent, &client, &tokens["refresh_token"]).await;
    assert_eq!(answer.error(), (400, "invalid_grant".to_owned()));
}

#[tokio::test]
async fn an_access_token_that_the_provider_rejects_ends_the_login() {
    let site = Site::new().await;
    let user_info = site.json("/user", &json!({"id": 1}));
    let proxied = Proxied::with_upstream(
        |provider| provider.auto_approve("alice").refresh_tokens(false),
        |proxy| proxy,
        |_, issuer| plain_provider(issuer, &user_info),
    )
    .await;
    let mut agent = Agent::new();
    let (client, tokens) = proxied.tokens(&mut agent).await;
    site.page("/user", http::StatusCode::UNAUTHORIZED, "application/json", "{}".to_owned());
    let answer = proxied.refresh(&mut agent, &client, &tokens["refresh_token"]).await;
    assert_eq!(answer.error(), (400, "invalid_grant".to_owned()));
    site.json("/user", &json!({"id": 1}));
    let answer = proxied.refresh(&mut agent, &client, &tokens["refresh_token"]).await;
    assert_eq!(answer.error(), (400, "invalid_grant".to_owned()), "it does not come back");
}
