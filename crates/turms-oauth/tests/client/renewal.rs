//! Renewal of tokens: after a rejection, when they have expired, and ahead of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use serde_json::json;
use tokio::sync::Semaphore;
use turms_client::Client;
use turms_oauth::{Login, LoginKey, MemoryStore, OAuth, StoreError, StoredClient, StoredLogin, TokenStore};
use turms_testkit::{eventually, within};

use crate::script::{Reply, Script, provider, tokens};
use crate::world::{Browser, World, call, chain, connect, dev};

/// A login whose access token has expired, at the script below.
async fn expired_login(server: &Script) -> MemoryStore {
    let store = MemoryStore::new();
    let client = StoredClient::new(server.url(""), "client-1");
    let mut login = StoredLogin::new("access-old", SystemTime::now(), server.url("/token"), client);
    login.expires_at = Some(SystemTime::now() - Duration::from_secs(1));
    login.refresh_token = Some("refresh-old".into());
    login.resource = Some(server.url("/mcp"));
    login.scopes = vec!["notes:read".to_owned()];
    login.requested_scopes = login.scopes.clone();
    save(&store, server, &login).await;
    store
}

fn key(server: &Script) -> LoginKey {
    LoginKey::new(&server.url("/mcp").parse().unwrap(), "")
}

async fn save(store: &MemoryStore, server: &Script, login: &StoredLogin) {
    store.lock(&key(server)).await.unwrap().save(login).await.unwrap();
}

async fn load(store: &MemoryStore, server: &Script) -> StoredLogin {
    store.load(&key(server)).await.unwrap().unwrap()
}

fn oauth(store: &MemoryStore) -> OAuth {
    OAuth::new("agent").store(store.clone()).login(Login::never())
}

#[tokio::test]
async fn a_hundred_calls_with_an_expired_token_cause_one_refresh() {
    let world = World::new().await;
    world.log_in_and_expire().await;
    let client = world.connect(&world.oauth()).await;
    assert_eq!(world.dev.grants("refresh_token"), 1);
    world.expire_at_server();
    let results = join_all((0..100).map(|_| call(&client, "whoami"))).await;
    assert!(results.iter().all(|result| result.as_ref().is_ok_and(|text| text == "alice")));
    assert_eq!((world.dev.grants("refresh_token"), world.browser.windows()), (2, 1));
}

#[tokio::test]
async fn a_hundred_requests_with_a_token_that_is_known_to_have_expired_cause_one_refresh() {
    let world = World::new().await;
    world.log_in_and_expire().await;
    let auth = world.oauth();
    let tokens = join_all((0..100).map(|_| auth.token(&world.server.url))).await;
    let first = tokens[0].as_ref().unwrap();
    assert!(tokens.iter().all(|token| token.as_ref().unwrap() == first));
    assert_eq!((world.dev.grants("refresh_token"), world.dev.requests("/token")), (1, 2));
}

#[tokio::test]
async fn clients_that_share_a_store_cause_one_refresh() {
    let world = World::new().await;
    world.log_in_and_expire().await;
    let clients: Vec<OAuth> = (0..5).map(|_| world.oauth()).collect();
    let calls = clients.iter().flat_map(|auth| (0..20).map(|_| auth.token(&world.server.url)));
    let tokens = join_all(calls).await;
    assert!(tokens.iter().all(|token| token.as_ref().unwrap() == tokens[0].as_ref().unwrap()));
    assert_eq!((world.dev.grants("refresh_token"), world.browser.windows()), (1, 1));
}

#[tokio::test]
async fn a_refresh_has_the_resource_and_no_scope_and_keeps_the_rotated_token() {
    let server = Script::start(|request| provider(&request)).await;
    let store = expired_login(&server).await;
    let token = oauth(&store).token(server.url("/mcp")).await.unwrap();
    // No discovery: everything is in the store.
    assert_eq!(server.paths(), ["/token"]);
    let request = &server.at("/token")[0];
    assert_eq!(request.field("refresh_token").as_deref(), Some("refresh-old"));
    assert_eq!(request.field("resource"), Some(server.url("/mcp")));
    assert_eq!(request.field("scope"), None);
    assert_eq!(request.field("client_id").as_deref(), Some("client-1"));
    let stored = load(&store, &server).await;
    assert_eq!(stored.access_token, token);
    assert!(stored.refresh_token.unwrap().expose().starts_with("refresh-") && stored.scopes == ["notes:read"]);
    let left = stored.expires_at.unwrap().duration_since(SystemTime::now()).unwrap();
    assert!(left > Duration::from_secs(3500) && left <= Duration::from_secs(3600), "{left:?}");
}

#[tokio::test]
async fn a_response_without_a_refresh_token_keeps_the_old_one() {
    let server =
        Script::start(|_| Reply::json(200, json!({ "access_token": "access-new", "token_type": "bearer" }))).await;
    let store = expired_login(&server).await;
    assert_eq!(oauth(&store).token(server.url("/mcp")).await.unwrap().expose(), "access-new");
    let stored = load(&store, &server).await;
    assert_eq!(stored.refresh_token.unwrap().expose(), "refresh-old");
    assert_eq!(stored.expires_at, None);
}

#[tokio::test]
async fn a_token_is_renewed_in_the_background_ahead_of_its_end() {
    let world = World::new().await;
    let first = world.oauth().token(&world.server.url).await.unwrap();
    world
        .change_stored(|login| {
            login.obtained_at = SystemTime::now() - Duration::from_secs(200);
            login.expires_at = Some(SystemTime::now() + Duration::from_secs(100));
        })
        .await;
    let client = world.connect(&world.oauth()).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    eventually("the refresh", async || world.stored().await.unwrap().access_token != first).await;
    // The new token lives for 5 min, which is the window, too. It is not due from the beginning.
    for _ in 0..10 {
        call(&client, "whoami").await.unwrap();
    }
    assert_eq!(world.dev.grants("refresh_token"), 1);
}

#[tokio::test]
async fn the_window_ahead_of_the_end_can_be_set() {
    let world = World::new().await;
    world.oauth().token(&world.server.url).await.unwrap();
    world.change_stored(|login| login.expires_at = Some(login.obtained_at + Duration::from_secs(120))).await;
    let stored = world.stored().await.unwrap();
    for ahead in [Duration::ZERO, Duration::from_secs(30)] {
        let auth = world.oauth().refresh_ahead(ahead);
        assert_eq!(auth.token(&world.server.url).await.unwrap(), stored.access_token);
    }
    assert_eq!(world.dev.grants("refresh_token"), 0);
}

#[tokio::test]
async fn a_valid_token_is_used_while_the_refresh_ahead_of_its_end_fails() {
    let server = Script::start(|request| match &*request.path {
        "/token" => Reply::error(400, "invalid_grant"),
        _ => provider(&request),
    })
    .await;
    let store = expired_login(&server).await;
    let mut login = load(&store, &server).await;
    login.obtained_at = SystemTime::now() - Duration::from_secs(200);
    login.expires_at = Some(SystemTime::now() + Duration::from_secs(100));
    save(&store, &server, &login).await;
    let auth = oauth(&store);
    assert_eq!(auth.token(server.url("/mcp")).await.unwrap().expose(), "access-old");
    eventually("the refresh", async || load(&store, &server).await.refresh_token.is_none()).await;
    for _ in 0..5 {
        assert_eq!(auth.token(server.url("/mcp")).await.unwrap().expose(), "access-old");
    }
    assert_eq!(server.at("/token").len(), 1, "a refresh token is used again");
}

#[tokio::test]
async fn a_failure_that_may_pass_keeps_the_login_and_is_shared_by_all_who_wait() {
    for failure in [Reply::status(503), Reply::error(429, "slow_down"), Reply::error(400, "temporarily_unavailable")] {
        let is_down = Arc::new(AtomicBool::new(true));
        let down = is_down.clone();
        let server = Script::start(move |request| match &*request.path {
            "/token" if down.load(Ordering::SeqCst) => failure.clone(),
            _ => provider(&request),
        })
        .await;
        let store = expired_login(&server).await;
        let auth = oauth(&store);
        let results = join_all((0..20).map(|_| auth.token(server.url("/mcp")))).await;
        assert!(results.iter().all(|result| result.as_ref().is_err_and(|error| error.is_transient())), "{results:?}");
        assert_eq!(server.at("/token").len(), 1, "each request asks again");
        assert_eq!(load(&store, &server).await.refresh_token.unwrap().expose(), "refresh-old");
        is_down.store(false, Ordering::SeqCst);
        // The user does not have to wait for the next attempt.
        auth.refresh_now(server.url("/mcp")).await.unwrap();
        auth.token(server.url("/mcp")).await.unwrap();
    }
}

#[tokio::test]
async fn an_authorization_server_that_is_down_is_a_transient_error_of_the_connection() {
    let world = World::new().await;
    world.log_in_and_expire().await;
    let auth = world.oauth();
    let World { dev, server, .. } = world;
    let address = dev.local_addr().unwrap();
    drop(dev);
    eventually("the end of the server", async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    let error = connect(&server.url, &auth, Client::builder("agent", "1.0.0")).await.unwrap_err();
    assert!(error.is_transient(), "{}", chain(&error));
    assert!(chain(&error).contains("token request from http://127.0.0.1"), "{}", chain(&error));
}

#[tokio::test]
async fn a_refresh_token_that_is_not_accepted_leads_to_a_login() {
    let world = World::new().await;
    world.log_in_and_expire().await;
    world.dev.revoke_all();
    let client = world.connect(&world.oauth()).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    assert_eq!((world.browser.windows(), world.dev.grants("refresh_token")), (2, 0));
}

#[tokio::test]
async fn a_refresh_is_finished_if_its_request_is_given_up() {
    let gate = Arc::new(Semaphore::new(0));
    let open = gate.clone();
    let server = Script::start_async(move |request| {
        let gate = open.clone();
        Box::pin(async move {
            if request.path == "/token" {
                gate.acquire().await.unwrap().forget();
            }
            provider(&request)
        })
    })
    .await;
    let store = expired_login(&server).await;
    let auth = oauth(&store);
    let request = tokio::spawn({
        let (auth, url) = (auth.clone(), server.url("/mcp"));
        async move { auth.token(url).await }
    });
    eventually("the token request", async || server.at("/token").len() == 1).await;
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    let token = within("the token", auth.token(server.url("/mcp"))).await.unwrap();
    assert_eq!(load(&store, &server).await.access_token, token);
    assert_eq!(server.at("/token").len(), 1, "the rotated refresh token is lost");
}

#[tokio::test]
async fn refresh_now_renews_a_valid_token() {
    let world = World::new().await;
    let auth = world.oauth();
    let first = auth.token(&world.server.url).await.unwrap();
    let second = auth.refresh_now(&world.server.url).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(auth.token(&world.server.url).await.unwrap(), second);
    assert_eq!(world.dev.grants("refresh_token"), 1);
}

#[tokio::test]
async fn refresh_now_without_a_refresh_token_says_that_a_login_is_required() {
    let world = World::with(dev().refresh_tokens(false)).await;
    let auth = world.oauth().login_advice("run `login`");
    assert!(auth.refresh_now(&world.server.url).await.unwrap_err().is_login_required());
    auth.token(&world.server.url).await.unwrap();
    let error = auth.refresh_now(&world.server.url).await.unwrap_err();
    assert!(error.is_login_required() && error.to_string().ends_with("run `login`"), "{error}");
    assert!(auth.token(&world.server.url).await.is_ok(), "a valid token is dropped");
}

/// A store that fails to save when the test says so.
#[derive(Clone)]
struct FullStore {
    inner: MemoryStore,
    is_full: Arc<AtomicBool>,
}

struct FullLock {
    inner: Box<dyn turms_oauth::LoginLock>,
    is_full: Arc<AtomicBool>,
}

impl turms_oauth::LoginLock for FullLock {
    fn load(&mut self) -> turms_core::BoxFuture<'_, Result<Option<StoredLogin>, StoreError>> {
        self.inner.load()
    }

    fn save<'a>(&'a mut self, login: &'a StoredLogin) -> turms_core::BoxFuture<'a, Result<(), StoreError>> {
        if self.is_full.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::other("no space left on device")) });
        }
        self.inner.save(login)
    }

    fn clear(&mut self) -> turms_core::BoxFuture<'_, Result<(), StoreError>> {
        self.inner.clear()
    }
}

impl TokenStore for FullStore {
    fn load<'a>(&'a self, key: &'a LoginKey) -> turms_core::BoxFuture<'a, Result<Option<StoredLogin>, StoreError>> {
        self.inner.load(key)
    }

    fn lock<'a>(
        &'a self,
        key: &'a LoginKey,
    ) -> turms_core::BoxFuture<'a, Result<Box<dyn turms_oauth::LoginLock>, StoreError>> {
        Box::pin(async move {
            let inner = self.inner.lock(key).await?;
            Ok(Box::new(FullLock { inner, is_full: self.is_full.clone() }) as _)
        })
    }

    fn list(&self) -> turms_core::BoxFuture<'_, Result<Vec<LoginKey>, StoreError>> {
        self.inner.list()
    }

    fn load_client<'a>(
        &'a self,
        issuer: &'a str,
        profile: &'a str,
    ) -> turms_core::BoxFuture<'a, Result<Option<StoredClient>, StoreError>> {
        self.inner.load_client(issuer, profile)
    }

    fn save_client<'a>(
        &'a self,
        profile: &'a str,
        client: &'a StoredClient,
    ) -> turms_core::BoxFuture<'a, Result<(), StoreError>> {
        self.inner.save_client(profile, client)
    }

    fn remove_client<'a>(
        &'a self,
        issuer: &'a str,
        profile: &'a str,
    ) -> turms_core::BoxFuture<'a, Result<(), StoreError>> {
        self.inner.remove_client(issuer, profile)
    }
}

#[tokio::test]
async fn a_rotated_token_that_cannot_be_saved_is_used_all_the_same() {
    let used = AtomicUsize::new(0);
    let server = Script::start(move |request| {
        // Each refresh token is accepted once, in order.
        let expected = used.load(Ordering::SeqCst);
        let sent = request.field("refresh_token").unwrap();
        if sent != if expected == 0 { "refresh-old".to_owned() } else { format!("rotated-{expected}") } {
            return Reply::error(400, "invalid_grant");
        }
        let number = used.fetch_add(1, Ordering::SeqCst) + 1;
        let mut tokens = tokens();
        tokens["refresh_token"] = json!(format!("rotated-{number}"));
        Reply::json(200, tokens)
    })
    .await;
    let inner = expired_login(&server).await;
    let is_full = Arc::new(AtomicBool::new(true));
    let auth =
        OAuth::new("a").store(FullStore { inner: inner.clone(), is_full: is_full.clone() }).login(Login::never());
    let first = auth.token(server.url("/mcp")).await.unwrap();
    assert_eq!(load(&inner, &server).await.refresh_token.unwrap().expose(), "refresh-old");
    is_full.store(false, Ordering::SeqCst);
    let second = auth.refresh_now(server.url("/mcp")).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(load(&inner, &server).await.refresh_token.unwrap().expose(), "rotated-2");
}

#[tokio::test]
async fn a_logout_revokes_a_token_that_could_not_be_saved() {
    let server = Script::start(|request| provider(&request)).await;
    let inner = expired_login(&server).await;
    let mut login = load(&inner, &server).await;
    login.revocation_endpoint = Some(server.url("/revoke"));
    save(&inner, &server, &login).await;
    let store = FullStore { inner, is_full: Arc::new(AtomicBool::new(true)) };
    let auth = OAuth::new("a").store(store).login(Login::never());
    let token = auth.token(server.url("/mcp")).await.unwrap();
    assert!(auth.logout(server.url("/mcp")).await.unwrap());
    let revoked: Vec<_> = server.at("/revoke").iter().filter_map(|request| request.field("token")).collect();
    assert!(revoked.contains(&token.expose().to_owned()), "{revoked:?}");
}

#[tokio::test]
async fn a_login_on_demand_that_cannot_be_saved_is_an_error() {
    let world = World::new().await;
    let store = FullStore { inner: world.store.clone(), is_full: Arc::new(AtomicBool::new(true)) };
    let error = world.oauth().store(store).login_now(&world.server.url).await.unwrap_err();
    assert!(
        chain(&error).contains("token store failed: the login store failed: no space left on device"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn a_token_of_another_process_is_taken_after_a_rejection() {
    let world = World::new().await;
    let client = world.connect(&world.oauth()).await;
    world.expire_at_server();
    // Another process is first.
    world.oauth().refresh_now(&world.server.url).await.unwrap();
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    assert_eq!((world.dev.grants("refresh_token"), world.browser.windows()), (1, 1));
}

#[tokio::test]
async fn a_server_that_rejects_a_new_token_is_not_asked_for_ever() {
    let server = Script::start(|request| match &*request.path {
        "/mcp" => {
            let challenge = "Bearer error=\"invalid_token\", error_description=\"wrong audience\"";
            Reply::status(401).with("www-authenticate", challenge)
        }
        _ => provider(&request),
    })
    .await;
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login());
    let error = connect(&server.url("/mcp"), &auth, Client::builder("agent", "1.0.0")).await.unwrap_err();
    let text = chain(&error);
    let expected = format!(
        "the server rejects the token that {} has just issued for {} with the scopes \"notes:read\": \
         \"invalid_token: wrong audience\"",
        server.url(""),
        server.url("/mcp"),
    );
    assert!(text.contains(&expected), "{text}");
    assert_eq!(browser.windows(), 1);
}

#[tokio::test]
async fn a_renewal_ahead_of_the_end_that_fails_is_not_repeated_by_each_request() {
    let server = Script::start(|request| match &*request.path {
        "/token" => Reply::error(400, "invalid_request"),
        _ => provider(&request),
    })
    .await;
    let store = expired_login(&server).await;
    let mut login = load(&store, &server).await;
    login.obtained_at = SystemTime::now() - Duration::from_secs(200);
    login.expires_at = Some(SystemTime::now() + Duration::from_secs(10));
    save(&store, &server, &login).await;
    let auth = oauth(&store);
    for _ in 0..20 {
        assert_eq!(auth.token(server.url("/mcp")).await.unwrap().expose(), "access-old");
        eventually("the renewal", async || !server.at("/token").is_empty()).await;
        // The renewal holds the lock until it has failed.
        drop(store.lock(&key(&server)).await.unwrap());
        tokio::task::yield_now().await;
    }
    // It comes after all renewals in the background.
    auth.refresh_now(server.url("/mcp")).await.unwrap_err();
    assert_eq!(server.at("/token").len(), 2);
}
