//! Guards of tokens that the provider has issued.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::task::JoinSet;
use turms_http::{BearerToken, HttpConnector};
use turms_oauth::__internal::GuardClock;
use turms_oauth::{ClientIdentity, MemoryStore, TokenKind, TokenStore as _, revoke};
use turms_proto::ProtocolVersion;
use turms_testkit::{eventually, within};
use turms_ws::WsConnector;

use super::guarded_server::{GuardedServer, READ};
use super::provider::{Provider, agent};
use super::{builder, call, chain, connect, try_connect};

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn keys_are_rotated_under_load_without_a_failed_call() {
    let provider = Provider::start().await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let clock = GuardClock::standing_at(now);
    let server = GuardedServer::with(provider.discovered(), |guard| guard.clock(clock.clone())).await;
    let auth = agent();
    let client = connect(&server.url(), auth.clone()).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut load = JoinSet::new();
    for _ in 0..10 {
        let (client, is_over) = (client.clone(), is_over.clone());
        load.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                call(&client, "read").await;
            }
        });
    }
    for rotation in 1..=3 {
        provider.control("rotate", &json!({})).await;
        // Unknown keys are fetched at most once a minute.
        clock.advance(Duration::from_secs(61));
        within("a renewal", auth.refresh_now(server.url())).await.unwrap();
        let calls = server.counters.count("read");
        eventually("more calls", async || server.counters.count("read") > calls + 20).await;
        assert_eq!(provider.requests("/jwks").await, 1 + rotation);
    }
    is_over.store(true, Ordering::Relaxed);
    load.join_all().await;
    let events = provider.events().await;
    assert_eq!(events.iter().filter(|event| *event == "grant refresh_token").count(), 3, "{events:?}");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_token_is_refused_when_its_key_has_been_replaced() {
    let provider = Provider::start().await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let clock = GuardClock::standing_at(now);
    let server = GuardedServer::with(provider.discovered(), |guard| guard.clock(clock.clone())).await;
    let auth = agent();
    let old = within("a token", auth.token(server.url())).await.unwrap();
    connect(&server.url(), BearerToken::new(old.expose()).unwrap()).await;

    provider.control("replace", &json!({})).await;
    clock.advance(Duration::from_secs(24 * 60 * 60));
    let error = try_connect(&server.url(), BearerToken::new(old.expose()).unwrap()).await.err().unwrap();
    assert!(chain(&error).contains("401"), "{}", chain(&error));
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn opaque_tokens_are_introspected_and_refused_once_revoked() {
    let provider = Provider::with(json!({ "format": "opaque" })).await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let clock = GuardClock::standing_at(now);
    let server = GuardedServer::with(provider.introspected(), |guard| guard.clock(clock.clone())).await;
    let store = MemoryStore::new();
    let client = connect(&server.url(), agent().store(store.clone())).await;
    for _ in 0..10 {
        assert_eq!(call(&client, "read").await, "read by ann");
    }
    assert_eq!(provider.requests("/token/introspection").await, 1);

    let key = store.list().await.unwrap().remove(0);
    let login = store.load(&key).await.unwrap().unwrap();
    let identity = ClientIdentity::public(&login.client.client_id);
    let (fetcher, metadata) = (provider.fetcher(), provider.metadata().await);
    let revoked = revoke(&fetcher, &metadata, &identity, &login.access_token, TokenKind::Access);
    within("a revocation", revoked).await.unwrap();
    // The guard asks again after 30 s.
    clock.advance(Duration::from_secs(31));
    let stolen = BearerToken::new(login.access_token.expose()).unwrap();
    let error = try_connect(&server.url(), stolen).await.err().unwrap();
    assert!(chain(&error).contains("401"), "{}", chain(&error));
    // The provider has revoked the refresh token, too, so that the person logs in again.
    assert_eq!(call(&client, "read").await, "read by ann");
    let events = provider.events().await;
    let [.., refused, last] = &events[..] else { panic!("{events:?}") };
    assert!(refused.starts_with("refused refresh_token: invalid_grant"), "{events:?}");
    assert_eq!(last, "grant authorization_code");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_token_of_another_server_is_refused() {
    let provider = Provider::start().await;
    let (server, other) =
        tokio::join!(GuardedServer::start(provider.discovered()), GuardedServer::start(provider.discovered()));
    let auth = agent();
    let token = within("a token", auth.token(other.url())).await.unwrap();
    let error = try_connect(&server.url(), BearerToken::new(token.expose()).unwrap()).await.err().unwrap();
    assert!(chain(&error).contains("401"), "{}", chain(&error));
    assert_eq!(server.counters.count("read"), 0);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_server_below_a_path_of_an_application_is_found_and_guarded() {
    let provider = Provider::start().await;
    let server = GuardedServer::in_application(provider.discovered()).await;
    let client = connect(&server.url(), agent()).await;
    assert_eq!(call(&client, "read").await, "read by ann");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_login_leads_to_a_websocket() {
    let provider = Provider::start().await;
    let server = GuardedServer::over_websocket(provider.discovered()).await;
    let url = server.url().replace("http:", "ws:");
    let connector = WsConnector::new(url).unwrap().authorizer(agent());
    let client = within("a connection", builder().connect(connector)).await.unwrap();
    assert_eq!(call(&client, "read").await, "read by ann");
    let error = within("an answer", client.call_tool("write", ()).into_future()).await.unwrap_err();
    assert!(chain(&error).contains("notes:write"), "{}", chain(&error));
}

/// Calls a tool that needs another scope. The client logs in again with it.
async fn step_up(version: ProtocolVersion) {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let auth = agent();
    let connector = HttpConnector::new(server.url()).unwrap().authorizer(auth.clone());
    let client = within("a connection", builder().protocol_version(version).connect(connector)).await.unwrap();
    assert_eq!(client.protocol_version(), Some(version));
    assert_eq!(call(&client, "read").await, "read by ann");
    let has_scope = async |scope: &str| {
        let status = auth.status(server.url()).await.unwrap().unwrap();
        status.scopes.iter().any(|other| other == scope)
    };
    assert!(has_scope(READ).await && !has_scope("notes:write").await);
    assert_eq!(call(&client, "write").await, "written by ann");
    assert!(has_scope(READ).await && has_scope("notes:write").await);
    assert_eq!(call(&client, "read").await, "read by ann");
    assert_eq!((server.counters.count("read"), server.counters.count("write")), (2, 1));
    assert_eq!(provider.events().await, ["registered", "grant authorization_code", "grant authorization_code"]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_missing_scope_leads_to_another_login_without_a_session() {
    step_up(ProtocolVersion::V2026_07_28).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_missing_scope_leads_to_another_login_in_a_session() {
    step_up(ProtocolVersion::V2025_11_25).await;
}
