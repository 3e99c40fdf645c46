//! The ways to obtain a token.

use serde_json::json;
use turms_oauth::{
    Algorithm, ClientCredentials, ClientIdentity, Dpop, DpopPolicy, MemoryStore, OAuth, Secret, SigningKey,
    TokenParameters, TokenStore as _, refresh,
};
use turms_testkit::within;

use super::guarded_server::{GuardedServer, READ};
use super::provider::{Provider, ROBOT, agent, person_with, person_with_code};
use super::{call, chain, connect, try_connect};

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_person_logs_in_with_a_code_at_a_registered_client() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let auth = agent();
    let client = connect(&server.url(), auth.clone()).await;
    assert_eq!(call(&client, "read").await, "read by ann");
    let status = auth.status(server.url()).await.unwrap().unwrap();
    assert_eq!((&*status.issuer, status.is_renewable, status.is_bound), (&*provider.issuer, true, false));
    assert!(status.scopes.iter().any(|scope| scope == READ), "{status:?}");
    assert_eq!(provider.events().await, ["registered", "grant authorization_code"]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn tokens_signed_with_rsa_are_accepted() {
    let provider = Provider::with(json!({ "algorithm": "RS256" })).await;
    let server = GuardedServer::start(provider.discovered()).await;
    let client = connect(&server.url(), agent()).await;
    assert_eq!(call(&client, "read").await, "read by ann");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_person_who_types_the_wrong_password_is_not_logged_in() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let auth = OAuth::new("agent").login(person_with(json!({ "password": "guessed" })));
    let error = try_connect(&server.url(), auth).await.err().unwrap();
    assert!(chain(&error).contains("access_denied"), "{}", chain(&error));
    assert_eq!(server.counters.count("read"), 0);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_program_logs_in_with_a_secret() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let auth = OAuth::new("robot").grant(ClientCredentials::secret(ROBOT.0, ROBOT.1));
    let client = connect(&server.url(), auth).await;
    assert_eq!(call(&client, "read").await, "read by robot");
    assert_eq!(provider.events().await, ["grant client_credentials"]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_program_logs_in_with_a_key() {
    let key = SigningKey::generate(Algorithm::Es256).unwrap().key_id("of the robot");
    let client = json!({
        "client_id": "keyed robot",
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks": { "keys": [key.public_jwk()] },
        "grant_types": ["client_credentials"],
        "redirect_uris": [],
        "response_types": [],
    });
    let provider = Provider::with(json!({ "clients": [client] })).await;
    let server = GuardedServer::start(provider.discovered()).await;
    let auth = OAuth::new("robot").grant(ClientCredentials::key("keyed robot", key));
    let client = connect(&server.url(), auth).await;
    assert_eq!(call(&client, "read").await, "read by keyed robot");
    assert_eq!(provider.events().await, ["grant client_credentials"]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_person_logs_in_with_a_device_code() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let client = connect(&server.url(), OAuth::new("agent").login(person_with_code())).await;
    assert_eq!(call(&client, "read").await, "read by ann");
    let mut events = provider.events().await;
    // The person may be slower than the interval.
    events.retain(|event| !event.contains("authorization_pending"));
    assert_eq!(events, ["registered", "grant urn:ietf:params:oauth:grant-type:device_code"]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_client_is_known_by_its_metadata_document() {
    let id = "https://agent.example.com/client.json";
    let document = json!({
        "client_id": id,
        "client_name": "agent",
        "application_type": "native",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    let provider = Provider::with(json!({ "documents": { id: document } })).await;
    let server = GuardedServer::start(provider.discovered()).await;
    let client = connect(&server.url(), agent().client_metadata(id)).await;
    assert_eq!(call(&client, "read").await, "read by ann");
    assert_eq!(provider.events().await, ["grant authorization_code"]);
}

/// Connects with tokens that are bound to a key, calls, renews the token and calls again.
async fn use_bound_tokens(provider: &Provider, server: &GuardedServer, auth: &OAuth) {
    let client = connect(&server.url(), auth.clone()).await;
    assert_eq!(call(&client, "read").await, "read by ann");
    assert!(auth.status(server.url()).await.unwrap().unwrap().is_bound);
    within("a renewal", auth.refresh_now(server.url())).await.unwrap();
    assert_eq!(call(&client, "read").await, "read by ann");
    let events = provider.events().await;
    assert!(events.ends_with(&["grant refresh_token".to_owned()]), "{events:?}");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn tokens_are_bound_to_a_key_if_the_server_requires_it() {
    let provider = Provider::start().await;
    let server = GuardedServer::with(provider.discovered(), |guard| guard.dpop(DpopPolicy::Required)).await;
    use_bound_tokens(&provider, &server, &agent()).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn proofs_have_the_nonces_that_both_servers_ask_for() {
    let provider = Provider::with(json!({ "nonce": true })).await;
    let nonces = |guard: turms_oauth::TokenGuardBuilder| guard.dpop(DpopPolicy::Required).dpop_nonces(&[7; 32]);
    let server = GuardedServer::with(provider.discovered(), nonces).await;
    use_bound_tokens(&provider, &server, &agent()).await;
    let events = provider.events().await;
    assert!(events.iter().any(|event| event.contains("use_dpop_nonce")), "{events:?}");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_token_that_is_bound_to_a_key_is_refused_without_a_proof() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let auth = agent().dpop(Dpop::Always);
    let token = within("a token", auth.token(server.url())).await.unwrap();
    let stolen = turms_http::BearerToken::new(token.expose()).unwrap();
    let error = try_connect(&server.url(), stolen).await.err().unwrap();
    assert!(chain(&error).contains("401"), "{}", chain(&error));
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_logout_revokes_the_refresh_token() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let store = MemoryStore::new();
    let auth = agent().store(store.clone());
    within("a token", auth.token(server.url())).await.unwrap();
    let key = store.list().await.unwrap().remove(0);
    let login = store.load(&key).await.unwrap().unwrap();
    assert!(within("a logout", auth.logout(server.url())).await.unwrap());
    assert!(store.list().await.unwrap().is_empty());

    let client = ClientIdentity::public(&login.client.client_id);
    let (fetcher, metadata, parameters) = (provider.fetcher(), provider.metadata().await, TokenParameters::new());
    let token: Secret = login.refresh_token.unwrap();
    let refreshed = refresh(&fetcher, &metadata, &client, &token, &parameters);
    let error = within("an answer", refreshed).await.unwrap_err();
    assert!(error.is_invalid_grant(), "{}", chain(&error));
}
