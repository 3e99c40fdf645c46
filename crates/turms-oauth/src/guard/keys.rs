//! The keys of an issuer, fetched and cached.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, HeaderMap};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::clock::GuardClock;
use super::issuer::{fitting, is_signed};
use crate::fetch::{FetchError, FetchErrorKind, FetchStep, Fetcher};
use crate::jws::{Algorithm, Jwk, JwkSet, Jws};
use crate::metadata::AuthorizationServerMetadata;

/// Maximum number of keys of an issuer. Further keys are ignored.
const MAX_KEYS: usize = 100;

/// Lifetime of keys if the response does not name one, in seconds.
const DEFAULT_LIFETIME: f64 = 3600.0;

/// Time after a failed request before the next one, in seconds.
const RETRY_INTERVAL: f64 = 5.0;

/// Times of the cache, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyTimes {
    pub(crate) min_lifetime: f64,
    pub(crate) max_lifetime: f64,
    /// Time that keys are used after their lifetime if new ones cannot be fetched.
    pub(crate) grace: f64,
    /// Minimum time between two requests because of an unknown key.
    pub(crate) unknown_interval: f64,
}

/// The keys of one issuer.
pub(crate) struct RemoteKeys {
    issuer: String,
    /// URL of the keys. `None` for that of the issuer's metadata.
    url: Option<String>,
    fetcher: Fetcher,
    times: KeyTimes,
    clock: GuardClock,
    state: Mutex<KeyState>,
}

#[derive(Default)]
struct KeyState {
    keys: Option<Arc<FetchedKeys>>,
    /// URL of the keys in the metadata of the issuer.
    discovered: Option<String>,
    attempted_at: Option<f64>,
    unknown_at: Option<f64>,
    /// Set if the last request has failed.
    is_failing: bool,
    /// The request in progress: closed when it ends.
    fetch: Option<watch::Receiver<()>>,
}

struct FetchedKeys {
    keys: Arc<[Jwk]>,
    from: f64,
    fresh_until: f64,
}

/// The keys cannot be fetched at the moment.
#[derive(Debug, PartialEq)]
pub(crate) struct KeysUnavailable {
    pub(crate) retry_after: Duration,
}

enum KeyPlan {
    Use(Arc<[Jwk]>),
    Wait(watch::Receiver<()>),
    Fail,
}

impl RemoteKeys {
    pub(crate) fn new(
        issuer: String,
        url: Option<String>,
        fetcher: Fetcher,
        times: KeyTimes,
        clock: GuardClock,
    ) -> Arc<Self> {
        Arc::new(Self { issuer, url, fetcher, times, clock, state: Mutex::default() })
    }

    /// Returns the keys for a token. They may not include its key. `has_key` returns `true` for keys that may.
    pub(crate) async fn find(
        self: &Arc<Self>,
        has_key: impl Fn(&[Jwk]) -> bool,
    ) -> Result<Arc<[Jwk]>, KeysUnavailable> {
        let plan = self.plan(&has_key);
        let fetch = match plan {
            KeyPlan::Use(keys) => return Ok(keys),
            KeyPlan::Wait(fetch) => Some(fetch),
            KeyPlan::Fail => None,
        };
        let has_waited = fetch.is_some();
        if let Some(mut fetch) = fetch {
            // Fails when the request has ended.
            while fetch.changed().await.is_ok() {}
        }
        let (keys, is_known) = self.look_up(&has_key);
        let mut state = self.state.lock();
        match keys {
            Some(keys) if is_known => {
                if has_waited {
                    // The issuer has a new key. Only requests in vain are limited, so the next one is found at once, too.
                    state.unknown_at = None;
                }
                Ok(keys.keys.clone())
            }
            Some(keys) if !state.is_failing => Ok(keys.keys.clone()),
            _ => {
                let waited = state.attempted_at.map_or(0.0, |at| self.clock.now() - at);
                let left = (RETRY_INTERVAL - waited).clamp(1.0, RETRY_INTERVAL);
                Err(KeysUnavailable { retry_after: Duration::from_secs_f64(left) })
            }
        }
    }

    /// Returns the keys that can be used, and `true` if that of a token may be among them. Does not hold the lock meanwhile: `has_key`
    /// may check signatures.
    fn look_up(&self, has_key: &impl Fn(&[Jwk]) -> bool) -> (Option<Arc<FetchedKeys>>, bool) {
        let keys = self.usable(&self.state.lock(), self.clock.now());
        let is_known = keys.as_ref().is_some_and(|keys| has_key(&keys.keys));
        (keys, is_known)
    }

    fn plan(self: &Arc<Self>, has_key: &impl Fn(&[Jwk]) -> bool) -> KeyPlan {
        let (mut state, keys, is_known) = loop {
            let (keys, is_known) = self.look_up(has_key);
            let state = self.state.lock();
            let current = self.usable(&state, self.clock.now());
            if keys.as_ref().map(Arc::as_ptr) == current.as_ref().map(Arc::as_ptr) {
                break (state, keys, is_known);
            }
        };
        let state = &mut *state;
        let now = self.clock.now();
        let is_due = |at: Option<f64>, interval: f64| at.is_none_or(|at| !(at..at + interval).contains(&now));
        let may_retry = !state.is_failing || is_due(state.attempted_at, RETRY_INTERVAL);
        let Some(keys) = keys else {
            if !may_retry {
                return self.join_or_fail(state);
            }
            // Other tokens with unknown keys need no second request.
            state.unknown_at = Some(now);
            return KeyPlan::Wait(self.fetch(state, now));
        };
        if now >= keys.fresh_until {
            return match (state.is_failing, is_known) {
                (false, _) => KeyPlan::Wait(self.fetch(state, now)),
                // The issuer is down: old keys serve while the next request is made in the background.
                (true, true) => {
                    if may_retry {
                        self.fetch(state, now);
                    }
                    KeyPlan::Use(keys.keys.clone())
                }
                (true, false) if may_retry => KeyPlan::Wait(self.fetch(state, now)),
                (true, false) => self.join_or_fail(state),
            };
        }
        if is_known {
            return KeyPlan::Use(keys.keys.clone());
        }
        // A request that has failed says nothing about the key.
        if is_due(state.unknown_at, self.times.unknown_interval) || (state.is_failing && may_retry) {
            state.unknown_at = Some(now);
            return KeyPlan::Wait(self.fetch(state, now));
        }
        self.join_or_fail(state)
    }

    fn usable(&self, state: &KeyState, now: f64) -> Option<Arc<FetchedKeys>> {
        let is_usable = |keys: &&Arc<FetchedKeys>| (keys.from..keys.fresh_until + self.times.grace).contains(&now);
        state.keys.as_ref().filter(is_usable).cloned()
    }

    fn join_or_fail(&self, state: &KeyState) -> KeyPlan {
        running(state).map_or(KeyPlan::Fail, KeyPlan::Wait)
    }

    /// Starts a request unless one is in progress. It is a task of its own, because a caller may be dropped while others wait.
    fn fetch(self: &Arc<Self>, state: &mut KeyState, now: f64) -> watch::Receiver<()> {
        if let Some(running) = running(state) {
            return running;
        }
        let (end, fetch) = watch::channel(());
        state.fetch = Some(fetch.clone());
        state.attempted_at = Some(now);
        let keys = self.clone();
        tokio::spawn(async move {
            let fetched = keys.request().await;
            keys.store(fetched);
            drop(end);
        });
        fetch
    }

    fn store(&self, fetched: Result<(Vec<Jwk>, f64), FetchError>) {
        let mut state = self.state.lock();
        let now = self.clock.now();
        match fetched {
            Ok((keys, lifetime)) => {
                let lifetime = lifetime.clamp(self.times.min_lifetime, self.times.max_lifetime);
                let keys = FetchedKeys { keys: keys.into(), from: now, fresh_until: now + lifetime };
                state.keys = Some(Arc::new(keys));
                state.is_failing = false;
            }
            Err(error) => {
                let error = turms_core::__internal::error_chain(&error);
                tracing::warn!(issuer = self.issuer, error, "the keys of an issuer cannot be fetched");
                state.is_failing = true;
                // The URL may have changed.
                state.discovered = None;
            }
        }
    }

    /// Fetches the keys. Returns them with their lifetime.
    async fn request(&self) -> Result<(Vec<Jwk>, f64), FetchError> {
        let known = self.url.clone().or_else(|| self.state.lock().discovered.clone());
        let url = match known {
            Some(url) => url,
            None => {
                let url = discover_keys(&self.fetcher, &self.issuer).await?;
                self.state.lock().discovered = Some(url.clone());
                url
            }
        };
        let response = self.fetcher.get(FetchStep::Keys, &url).await?;
        let JwkSet { keys } = response.json()?;
        let is_usable =
            |key: &Jwk| !key.is_private() && Algorithm::ALL.iter().any(|algorithm| key.supports(*algorithm));
        let keys: Vec<Jwk> = keys.into_iter().filter(is_usable).take(MAX_KEYS).collect();
        if keys.is_empty() {
            return Err(response.error(FetchErrorKind::Invalid("it has no key for signatures".to_owned())));
        }
        Ok((keys, lifetime(&response.headers)))
    }
}

/// Returns the request in progress. One with a task that has ended without a result does not count.
fn running(state: &KeyState) -> Option<watch::Receiver<()>> {
    state.fetch.as_ref().filter(|fetch| fetch.has_changed().is_ok()).cloned()
}

/// Returns the lifetime of a response by its `Cache-Control`, in seconds.
fn lifetime(headers: &HeaderMap) -> f64 {
    let mut lifetime = DEFAULT_LIFETIME;
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    for directive in values.flat_map(|value| value.split(',')) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        match &*name.trim().to_ascii_lowercase() {
            "no-store" | "no-cache" => return 0.0,
            "max-age" => lifetime = value.trim().trim_matches('"').parse::<u32>().map_or(0.0, f64::from),
            _ => {}
        }
    }
    lifetime
}

/// Returns the URL of the keys in the metadata of an issuer.
async fn discover_keys(fetcher: &Fetcher, issuer: &str) -> Result<String, FetchError> {
    let step = FetchStep::ServerMetadata;
    let failed = |kind| FetchError::new(step, issuer, kind);
    for url in metadata_urls(issuer).ok_or_else(|| failed(FetchErrorKind::Url))? {
        let response = fetcher.get(step, &url).await?;
        if response.status.is_client_error() {
            continue;
        }
        let metadata: AuthorizationServerMetadata = response.json()?;
        if metadata.issuer != issuer {
            return Err(failed(FetchErrorKind::Invalid("it is the metadata of another issuer".to_owned())));
        }
        let missing = || failed(FetchErrorKind::Invalid("it has no jwks_uri".to_owned()));
        return metadata.jwks_uri.ok_or_else(missing);
    }
    Err(failed(FetchErrorKind::Status(http::StatusCode::NOT_FOUND)))
}

/// Returns the URLs that the metadata of an issuer may be at (RFC 8414 and OpenID Connect Discovery).
fn metadata_urls(issuer: &str) -> Option<Vec<String>> {
    let authority = issuer.find("://")? + 3;
    let path = issuer[authority..].find('/').map_or(issuer.len(), |at| authority + at);
    let (origin, path) = (&issuer[..path], issuer[path..].trim_end_matches('/'));
    let mut urls = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        urls.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    Some(urls)
}

/// Returns `true` if the key of a token may be among the keys: there is one with its key id, or it has none and one verifies it.
pub(crate) fn may_have_key(jws: &Jws<'_>, keys: &[Jwk]) -> bool {
    match jws.header("kid") {
        Some(kid) => fitting(keys, Some(kid), jws.algorithm()).next().is_some(),
        None => is_signed(jws, keys),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_lifetime_of_keys_is_that_of_the_response() {
        let of = |value: &str| {
            let headers = [(CACHE_CONTROL, HeaderValue::from_str(value).unwrap())].into_iter().collect();
            lifetime(&headers)
        };
        let table = [
            ("max-age=600", 600.0),
            ("public, Max-Age=\"86400\", must-revalidate", 86400.0),
            ("no-store, max-age=600", 0.0),
            ("max-age=600, no-cache", 0.0),
            ("max-age=x", 0.0),
            ("public", DEFAULT_LIFETIME),
        ];
        for (value, seconds) in table {
            assert!((of(value) - seconds).abs() < 0.001, "{value}");
        }
    }

    #[test]
    fn metadata_is_looked_for_at_the_paths_of_the_specification() {
        let two = [
            "https://h/.well-known/oauth-authorization-server".to_owned(),
            "https://h/.well-known/openid-configuration".to_owned(),
        ];
        assert_eq!(metadata_urls("https://h").unwrap(), two);
        assert_eq!(metadata_urls("https://h/").unwrap(), two);
        let three = [
            "https://h:1/.well-known/oauth-authorization-server/t1/x".to_owned(),
            "https://h:1/.well-known/openid-configuration/t1/x".to_owned(),
            "https://h:1/t1/x/.well-known/openid-configuration".to_owned(),
        ];
        assert_eq!(metadata_urls("https://h:1/t1/x").unwrap(), three);
        assert_eq!(metadata_urls("h"), None);
    }
}
