//! The renewal of tokens, with a provider that revokes a whole login when a refresh token is used twice.

use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::task::JoinSet;
use turms_client::Client;
use turms_oauth::__internal::GuardClock;
use turms_oauth::{ClientIdentity, FileStore, Login, MemoryStore, OAuth, TokenParameters, TokenStore, refresh};
use turms_testkit::within;

use super::guarded_server::GuardedServer;
use super::provider::{Provider, agent};
use super::{call, chain, connect};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Calls a tool many times at once. Each call succeeds.
async fn call_at_once(client: &Client, count: usize) {
    let mut calls = JoinSet::new();
    for _ in 0..count {
        let client = client.clone();
        calls.spawn(async move { call(&client, "read").await });
    }
    assert!(calls.join_all().await.iter().all(|text| text == "read by ann"));
}

/// Makes the stored token one that has expired.
async fn expire(store: &impl TokenStore) {
    let key = store.list().await.unwrap().remove(0);
    let mut lock = store.lock(&key).await.unwrap();
    let mut login = lock.load().await.unwrap().unwrap();
    login.expires_at = Some(SystemTime::now() - HOUR);
    lock.save(&login).await.unwrap();
}

fn count(events: &[String], event: &str) -> usize {
    events.iter().filter(|other| *other == event).count()
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_hundred_calls_with_a_token_that_the_server_refuses_cause_one_refresh() {
    let provider = Provider::with(json!({ "lifetime": 600 })).await;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let clock = GuardClock::standing_at(now);
    let server = GuardedServer::with(provider.discovered(), |guard| guard.clock(clock.clone())).await;
    let client = connect(&server.url(), agent()).await;
    call(&client, "read").await;

    // The token has expired for the server, whose clock the client does not know.
    provider.control("settings", &json!({ "lifetime": 7200 })).await;
    clock.advance(HOUR);
    call_at_once(&client, 100).await;
    assert_eq!(provider.events().await, ["registered", "grant authorization_code", "grant refresh_token"]);

    // The login is intact: it can be renewed again.
    provider.control("settings", &json!({ "lifetime": 72_000 })).await;
    clock.advance(2 * HOUR);
    call_at_once(&client, 100).await;
    assert_eq!(count(&provider.events().await, "grant refresh_token"), 2);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_hundred_calls_of_several_programs_with_one_store_cause_one_refresh() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let directory = std::env::temp_dir().join(format!("turms-oauth-peers-{}", std::process::id()));
    let open = || FileStore::at(&directory).key([9; 32]);
    let auth = agent().store(open());
    within("a token", auth.token(server.url())).await.unwrap();
    expire(&open()).await;

    // Each has opened the store on its own, as programs do.
    let mut programs = JoinSet::new();
    for _ in 0..5 {
        let (url, auth) = (server.url(), OAuth::new("agent").login(Login::never()).store(open()));
        programs.spawn(async move { call_at_once(&connect(&url, auth).await, 20).await });
    }
    programs.join_all().await;
    std::fs::remove_dir_all(directory).unwrap();
    assert_eq!(provider.events().await, ["registered", "grant authorization_code", "grant refresh_token"]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_refresh_token_that_is_used_twice_ends_the_login_and_the_person_logs_in_again() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let store = MemoryStore::new();
    let auth = agent().store(store.clone());
    let client = connect(&server.url(), auth.clone()).await;
    let key = store.list().await.unwrap().remove(0);
    let stolen = store.load(&key).await.unwrap().unwrap();
    within("a renewal", auth.refresh_now(server.url())).await.unwrap();

    let thief = ClientIdentity::public(&stolen.client.client_id);
    let (fetcher, metadata, token) = (provider.fetcher(), provider.metadata().await, stolen.refresh_token.unwrap());
    let parameters = TokenParameters::new();
    let refreshed = refresh(&fetcher, &metadata, &thief, &token, &parameters);
    assert!(within("an answer", refreshed).await.unwrap_err().is_invalid_grant());
    assert_eq!(count(&provider.events().await, "family revoked"), 1);

    let error = within("an answer", auth.refresh_now(server.url())).await.unwrap_err();
    assert!(error.is_invalid_grant(), "{}", chain(&error));
    // The access token is signed and still valid.
    assert_eq!(call(&client, "read").await, "read by ann");
    within("a login", auth.login_now(server.url())).await.unwrap();
    within("a renewal", auth.refresh_now(server.url())).await.unwrap();
    assert_eq!(call(&client, "read").await, "read by ann");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn calls_that_wait_for_a_login_share_it() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let auth = agent();
    let mut clients = JoinSet::new();
    for _ in 0..20 {
        let (url, auth) = (server.url(), auth.clone());
        clients.spawn(async move {
            let client = connect(&url, auth).await;
            call(&client, "read").await
        });
    }
    assert!(clients.join_all().await.iter().all(|text| text == "read by ann"));
    assert_eq!(provider.events().await, ["registered", "grant authorization_code"]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_token_with_a_short_life_is_renewed_only_when_it_ends() {
    let provider = Provider::with(json!({ "lifetime": 120 })).await;
    let server = GuardedServer::start(provider.discovered()).await;
    let client = connect(&server.url(), agent()).await;
    for _ in 0..20 {
        call(&client, "read").await;
    }
    assert_eq!(provider.events().await, ["registered", "grant authorization_code"]);
}
