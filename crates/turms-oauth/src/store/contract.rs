//! Tests that every implementation of [`TokenStore`] must pass.
//!
//! ```
//! use std::time::Duration;
//! use turms_oauth::MemoryStore;
//! use turms_oauth::store::contract;
//!
//! # async fn example() {
//! let store = MemoryStore::new();
//! contract::check(&store).await;
//! // Another handle of the same store, as another process has one.
//! contract::check_shared(&store, &store.clone()).await;
//! contract::check_lock_timeout(&store.lock_timeout(Duration::from_millis(50))).await;
//! # }
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example());
//! ```

use std::time::{Duration, UNIX_EPOCH};

use super::{LoginKey, LoginLock, StoreError, StoredClient, StoredLogin, TokenStore};

/// Timeout for what a store has to do at once.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which a store could do what it must not do.
const MOMENT: Duration = Duration::from_millis(30);

const SERVER: &str = "https://contract.invalid/mcp";
const ISSUER: &str = "https://contract-issuer.invalid";

/// Checks that a store keeps the contract of [`TokenStore`]. It must have no login at the host `contract.invalid` and no client at
/// `https://contract-issuer.invalid`.
///
/// # Panics
/// If the store violates the contract; the message says how.
pub async fn check(store: &dyn TokenStore) {
    an_unknown_login_is_not_found(store).await;
    a_saved_login_is_found_unchanged(store).await;
    logins_are_kept_apart(store).await;
    a_lock_excludes_only_its_login(store).await;
    clients_are_kept_by_issuer_and_profile(store).await;
}

/// Checks that two handles of one store, as two processes have them, see the same logins and share their locks.
///
/// # Panics
/// If they do not; the message says how.
pub async fn check_shared(one: &dyn TokenStore, other: &dyn TokenStore) {
    let key = key("");
    let mut lock = locked(one, &key).await;
    lock.save(&login("first")).await.expect("the store works");
    assert_eq!(load(other, &key).await, Some(login("first")), "the other handle does not see the login");
    assert!(tokio::time::timeout(MOMENT, other.lock(&key)).await.is_err(), "both handles have the lock");
    drop(lock);
    let mut lock = locked(other, &key).await;
    assert_eq!(lock.load().await.expect("the store works"), Some(login("first")), "the login is gone");
    lock.save(&login("second")).await.expect("the store works");
    drop(lock);
    assert_eq!(load(one, &key).await, Some(login("second")), "the first handle sees an old login");
    locked(one, &key).await.clear().await.expect("the store works");
    assert_eq!(load(other, &key).await, None, "a removed login is found by the other handle");
}

/// Checks that waiting for a lock ends with [`StoreError::Locked`]. The store must have a short timeout for it.
///
/// # Panics
/// If it does not; the message says how.
pub async fn check_lock_timeout(store: &dyn TokenStore) {
    let key = key("");
    let lock = locked(store, &key).await;
    let second = tokio::time::timeout(TIMEOUT, store.lock(&key)).await.expect("waiting for a lock does not end");
    match second {
        Err(StoreError::Locked(_)) => {}
        Err(error) => panic!("the error for a held lock is {error}"),
        Ok(_) => panic!("two tasks have the lock"),
    }
    drop(lock);
    drop(locked(store, &key).await);
}

async fn an_unknown_login_is_not_found(store: &dyn TokenStore) {
    assert_eq!(load(store, &key("")).await, None, "an unknown login is found");
    let before = keys(store).await;
    let mut lock = locked(store, &key("")).await;
    assert_eq!(lock.load().await.expect("the store works"), None, "an unknown login is found under its lock");
    lock.clear().await.expect("removing an unknown login is not an error");
    drop(lock);
    assert_eq!(keys(store).await, before, "a lock creates a login");
}

async fn a_saved_login_is_found_unchanged(store: &dyn TokenStore) {
    let key = key("");
    for saved in [complete_login(), login("t")] {
        let mut lock = locked(store, &key).await;
        lock.save(&saved).await.expect("the store works");
        assert_eq!(lock.load().await.expect("the store works").as_ref(), Some(&saved), "the saved login is changed");
        drop(lock);
        assert_eq!(load(store, &key).await.as_ref(), Some(&saved), "the saved login is changed");
    }
    assert!(keys(store).await.contains(&key), "a saved login is not listed");
    locked(store, &key).await.clear().await.expect("the store works");
    assert_eq!(load(store, &key).await, None, "a removed login is found");
    assert!(!keys(store).await.contains(&key), "a removed login is listed");
}

async fn logins_are_kept_apart(store: &dyn TokenStore) {
    // Keys that are the same when their parts are joined.
    let other = LoginKey::new(&"https://contract.invalid/mcp/work".parse().expect("a valid URL"), "");
    let all = [key(""), key("/work"), key("work"), key("ä:1"), other];
    for (number, key) in all.iter().enumerate() {
        locked(store, key).await.save(&login(&number.to_string())).await.expect("the store works");
    }
    for (number, key) in all.iter().enumerate() {
        assert_eq!(load(store, key).await, Some(login(&number.to_string())), "the login of {key:?} is another one");
    }
    let listed = keys(store).await;
    assert!(listed.is_sorted() && all.iter().all(|key| listed.contains(key)), "{listed:?} is not a sorted list of all");
    locked(store, &all[0]).await.clear().await.expect("the store works");
    assert!(load(store, &all[0]).await.is_none(), "a removed login is found");
    for key in &all[1..] {
        assert!(load(store, key).await.is_some(), "removing one login has removed that of {key:?}");
        locked(store, key).await.clear().await.expect("the store works");
    }
}

async fn a_lock_excludes_only_its_login(store: &dyn TokenStore) {
    let lock = locked(store, &key("")).await;
    assert!(tokio::time::timeout(MOMENT, store.lock(&key(""))).await.is_err(), "two tasks have the lock");
    drop(locked(store, &key("other")).await);
    assert_eq!(load(store, &key("")).await, None, "a login cannot be read while it is locked");
    let same = key("");
    let (waiting, ()) = tokio::join!(locked(store, &same), async move {
        tokio::task::yield_now().await;
        drop(lock);
    });
    drop(waiting);
}

async fn clients_are_kept_by_issuer_and_profile(store: &dyn TokenStore) {
    let find = async |issuer: &str, profile: &str| store.load_client(issuer, profile).await.expect("the store works");
    assert_eq!(find(ISSUER, "").await, None, "an unknown client is found");
    let (one, other) = (client("one"), complete_client("other"));
    store.save_client("", &complete_client("before")).await.expect("the store works");
    store.save_client("", &one).await.expect("the store works");
    store.save_client("work", &other).await.expect("the store works");
    assert_eq!(find(ISSUER, "").await.as_ref(), Some(&one), "the saved client is changed");
    assert_eq!(find(ISSUER, "work").await.as_ref(), Some(&other), "the saved client is changed");
    assert_eq!(find("https://contract-issuer.invalid/", "").await, None, "issuers are not compared as texts");
    store.remove_client(ISSUER, "").await.expect("the store works");
    store.remove_client(ISSUER, "").await.expect("removing an unknown client is not an error");
    assert_eq!(find(ISSUER, "").await, None, "a removed client is found");
    assert_eq!(find(ISSUER, "work").await, Some(other), "removing one client has removed another");
    store.remove_client(ISSUER, "work").await.expect("the store works");
}

async fn load(store: &dyn TokenStore, key: &LoginKey) -> Option<StoredLogin> {
    store.load(key).await.expect("the store works")
}

async fn keys(store: &dyn TokenStore) -> Vec<LoginKey> {
    store.list().await.expect("the store works")
}

async fn locked(store: &dyn TokenStore, key: &LoginKey) -> Box<dyn LoginLock> {
    let lock = tokio::time::timeout(TIMEOUT, store.lock(key)).await.expect("a free lock is not granted");
    lock.expect("a free lock is not granted")
}

fn key(profile: &str) -> LoginKey {
    LoginKey::new(&SERVER.parse().expect("a valid URL"), profile)
}

/// A login with nothing that is optional.
fn login(token: &str) -> StoredLogin {
    let time = UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    StoredLogin::new(token, time, "https://contract-issuer.invalid/token", client("agent"))
}

/// A login with everything that is optional.
fn complete_login() -> StoredLogin {
    let mut login = login("access \"token\" \u{e4}");
    login.token_type = "DPoP".to_owned();
    login.expires_at = Some(login.obtained_at + Duration::from_millis(3_600_001));
    login.refresh_token = Some("refresh token".into());
    login.scopes = vec!["notes:read".to_owned()];
    login.requested_scopes = vec!["notes:read".to_owned(), "notes:write".to_owned()];
    login.resource = Some("https://contract.invalid".to_owned());
    login.revocation_endpoint = Some("https://contract-issuer.invalid/revoke".to_owned());
    login.client = complete_client("agent");
    login.dpop_key = Some("key".into());
    login
}

fn client(id: &str) -> StoredClient {
    StoredClient::new(ISSUER, id)
}

fn complete_client(id: &str) -> StoredClient {
    let mut client = client(id);
    client.client_secret = Some("secret".into());
    client.method = Some("client_secret_post".to_owned());
    client.redirect_uri = Some("http://127.0.0.1:8085/callback".to_owned());
    client.scopes = vec!["notes:read".to_owned(), "notes:write".to_owned()];
    client.secret_expires_at = Some(UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    client.is_registered = true;
    client
}
