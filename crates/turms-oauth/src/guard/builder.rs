//! The settings of a guard.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turms_http::GuardDocument;
use turms_proto::format_duration;

use super::cache::TokenCache;
use super::claims::ClaimRules;
use super::clock::GuardClock;
use super::document::Resource;
use super::dpop::{DpopPolicy, MemoryReplayStore, Nonces, ProofRules, ReplayStore};
#[cfg(feature = "remote")]
use super::introspection::Introspector;
use super::issuer::{Issuer, IssuerSource};
#[cfg(feature = "remote")]
use super::keys::{KeyTimes, RemoteKeys};
use super::rejection::{Challenges, published};
use super::{GuardState, IssuerKind, IssuerState, TokenGuard};
#[cfg(feature = "remote")]
use crate::fetch::{FetchError, FetchStep, Fetcher};
use crate::jws::{Algorithm, Jwk, MacKey, TokenDigest};
use crate::metadata::ProtectedResourceMetadata;
#[cfg(feature = "remote")]
use crate::network::NetworkPolicy;
use crate::network::is_loopback;

/// Builds a [`TokenGuard`]. Created by [`TokenGuard::builder`].
#[must_use]
pub struct TokenGuardBuilder {
    resource: String,
    name: Option<String>,
    documentation: Option<String>,
    issuers: Vec<Issuer>,
    scopes: Vec<String>,
    scope_prefix: String,
    implied: HashMap<String, Vec<String>>,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    leeway: Duration,
    max_token_bytes: usize,
    policy: DpopPolicy,
    proof_window: Duration,
    nonce_key: Option<MacKey>,
    nonce_lifetime: Duration,
    replays: Arc<dyn ReplayStore>,
    keeps_streams: bool,
    cache_size: usize,
    token_ttl: Duration,
    introspection_ttl: Duration,
    inactive_ttl: Duration,
    allows_private_network: bool,
    clock: GuardClock,
    #[cfg(feature = "remote")]
    remote: RemoteSettings,
}

#[cfg(feature = "remote")]
struct RemoteSettings {
    timeout: Duration,
    max_introspections: usize,
    min_lifetime: Duration,
    max_lifetime: Duration,
    grace: Duration,
    unknown_interval: Duration,
}

const MINUTE: Duration = Duration::from_secs(60);
const MINUTES_5: Duration = Duration::from_secs(5 * 60);

impl TokenGuardBuilder {
    pub(super) fn new(resource: String) -> Self {
        Self {
            resource,
            name: None,
            documentation: None,
            issuers: Vec::new(),
            scopes: Vec::new(),
            scope_prefix: String::new(),
            implied: HashMap::new(),
            audiences: Vec::new(),
            algorithms: Algorithm::ALL.to_vec(),
            leeway: MINUTE,
            max_token_bytes: 8 * 1024,
            policy: DpopPolicy::Optional,
            proof_window: MINUTES_5,
            nonce_key: None,
            nonce_lifetime: MINUTES_5,
            replays: Arc::new(MemoryReplayStore::default()),
            keeps_streams: false,
            cache_size: 10_000,
            token_ttl: MINUTES_5,
            introspection_ttl: Duration::from_secs(30),
            inactive_ttl: Duration::from_secs(5),
            allows_private_network: false,
            clock: GuardClock::default(),
            #[cfg(feature = "remote")]
            remote: RemoteSettings {
                timeout: Duration::from_secs(10),
                max_introspections: 64,
                min_lifetime: MINUTES_5,
                max_lifetime: 24 * 60 * MINUTE,
                grace: 60 * MINUTE,
                unknown_interval: MINUTE,
            },
        }
    }

    /// Adds an issuer. At least one is required.
    pub fn issuer(mut self, issuer: Issuer) -> Self {
        self.issuers.push(issuer);
        self
    }

    /// Adds scopes that every request needs. The metadata names them, so clients ask for them first. Default: none.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Declares that a scope includes others: a token with the scope has them, too. Default: none.
    pub fn implies<S: Into<String>>(mut self, scope: impl Into<String>, included: impl IntoIterator<Item = S>) -> Self {
        self.implied.entry(scope.into()).or_default().extend(included.into_iter().map(Into::into));
        self
    }

    /// Sets a prefix of scopes in challenges and in the metadata, which the scopes of tokens do not have: clients of Microsoft Entra
    /// ask for `api://APPLICATION/notes.read` and get `notes.read`. Default: none.
    pub fn scope_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.scope_prefix = prefix.into();
        self
    }

    /// Accepts tokens for another audience, besides the resource. Issuers that do not support resource indicators, such as
    /// Microsoft Entra, have audiences of their own form. Default: none.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Sets the algorithms that tokens may be signed with. Default: [`Algorithm::ALL`].
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Sets the tolerated difference of the clocks of the issuer and this server. Default: 1 min.
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// Sets the maximum length of a token, in bytes. Default: 8 KiB.
    pub fn max_token_bytes(mut self, bytes: usize) -> Self {
        self.max_token_bytes = bytes;
        self
    }

    /// Sets the acceptance of tokens without a proof of possession. Default: [`DpopPolicy::Optional`].
    pub fn dpop(mut self, policy: DpopPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the maximum difference of the time of a proof of possession and that of the server. Default: 5 min.
    pub fn dpop_window(mut self, window: Duration) -> Self {
        self.proof_window = window;
        self
    }

    /// Requires nonces in proofs of possession. They are made with a key, which replicas share. Default: no nonces.
    pub fn dpop_nonces(mut self, key: &[u8; 32]) -> Self {
        self.nonce_key = Some(MacKey::new(key));
        self
    }

    /// Sets the lifetime of nonces. Default: 5 min.
    pub fn dpop_nonce_lifetime(mut self, lifetime: Duration) -> Self {
        self.nonce_lifetime = lifetime;
        self
    }

    /// Sets the store of proofs of possession, instead of a [`MemoryReplayStore`].
    pub fn replay_store(mut self, store: impl ReplayStore) -> Self {
        self.replays = Arc::new(store);
        self
    }

    /// Lets streams continue when the token of their request expires. Default: they end.
    pub fn keep_streams_after_expiry(mut self) -> Self {
        self.keeps_streams = true;
        self
    }

    /// Sets the maximum number of cached tokens, separately for accepted and for refused ones. Default: 10 000.
    pub fn token_cache_size(mut self, tokens: usize) -> Self {
        self.cache_size = tokens;
        self
    }

    /// Sets the time that a verified signed token is cached, at most until its expiry. Default: 5 min.
    pub fn token_cache_ttl(mut self, ttl: Duration) -> Self {
        self.token_ttl = ttl;
        self
    }

    /// Sets the time that a verified opaque token is cached, at most until its expiry. Default: 30 s.
    pub fn introspection_cache_ttl(mut self, ttl: Duration) -> Self {
        self.introspection_ttl = ttl;
        self
    }

    /// Sets the time that a refused opaque token is cached. Default: 5 s.
    pub fn inactive_cache_ttl(mut self, ttl: Duration) -> Self {
        self.inactive_ttl = ttl;
        self
    }

    /// Allows URLs of issuers on private networks and on this machine, also with `http://`, and a resource with `http://`. Default:
    /// public addresses with `https://`; loopback addresses if the resource itself is on loopback.
    pub fn allow_private_network(mut self) -> Self {
        self.allows_private_network = true;
        self
    }

    /// Sets the name of the resource for people, in the metadata. Default: none.
    pub fn resource_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the URL of the documentation for developers, in the metadata. Default: none.
    pub fn resource_documentation(mut self, url: impl Into<String>) -> Self {
        self.documentation = Some(url.into());
        self
    }

    #[doc(hidden)]
    pub fn clock(mut self, clock: GuardClock) -> Self {
        self.clock = clock;
        self
    }

    /// Checks the settings and builds the guard. No request is made before the first token.
    ///
    /// # Errors
    /// When a setting is missing or invalid.
    pub fn build(mut self) -> Result<TokenGuard, GuardError> {
        let resource = Resource::parse(self.resource.clone());
        let resource = resource.map_err(|reason| GuardError::Resource { resource: self.resource.clone(), reason })?;
        if resource.url.scheme() == "http" && !is_loopback(&resource.url) && !self.allows_private_network {
            let reason = "https is required; http is allowed on loopback, and with allow_private_network";
            return Err(GuardError::Resource { resource: self.resource, reason });
        }
        self.check_settings()?;
        let issuers = std::mem::take(&mut self.issuers);
        let document = GuardDocument::json(self.metadata(&issuers));
        let issuers = self.issuer_states(issuers, &resource)?;
        let mut audiences = resource.audiences();
        audiences.extend(self.audiences);
        let challenges = Challenges {
            policy: self.policy,
            metadata_url: resource.metadata_url(),
            required: self.scopes.clone(),
            scope_prefix: self.scope_prefix,
        };
        let nonces = |key| Nonces { key, lifetime: self.nonce_lifetime.as_secs_f64() };
        let proofs = ProofRules {
            urls: resource.urls(),
            window: self.proof_window.as_secs_f64(),
            nonces: self.nonce_key.map(nonces),
            replays: self.replays,
        };
        let rules =
            ClaimRules { audiences, leeway: self.leeway.as_secs_f64(), required: self.scopes, implied: self.implied };
        Ok(TokenGuard(Arc::new(GuardState {
            resource,
            issuers,
            algorithms: self.algorithms,
            rules,
            policy: self.policy,
            proofs,
            challenges,
            document,
            max_token_bytes: self.max_token_bytes,
            keeps_streams: self.keeps_streams,
            token_ttl: self.token_ttl.as_secs_f64(),
            introspection_ttl: self.introspection_ttl.as_secs_f64(),
            inactive_ttl: self.inactive_ttl.as_secs_f64(),
            digest: TokenDigest::random(),
            accepted: TokenCache::new(self.cache_size),
            inactive: TokenCache::new(self.cache_size),
            verifying: Mutex::default(),
            clock: self.clock,
        })))
    }

    fn check_settings(&self) -> Result<(), GuardError> {
        if self.issuers.is_empty() {
            return Err(GuardError::NoIssuer);
        }
        if self.algorithms.is_empty() {
            return Err(GuardError::NoAlgorithm);
        }
        let implied = self.implied.iter().flat_map(|(scope, included)| std::iter::once(scope).chain(included));
        let prefix = Some(&self.scope_prefix).filter(|prefix| !prefix.is_empty());
        if let Some(scope) = self.scopes.iter().chain(implied).chain(prefix).find(|scope| !is_scope(scope)) {
            return Err(GuardError::Scope(scope.clone()));
        }
        if self.audiences.iter().any(String::is_empty) {
            return Err(GuardError::Audience);
        }
        let limits =
            [("leeway", self.leeway), ("dpop_window", self.proof_window), ("dpop_nonce_lifetime", self.nonce_lifetime)];
        match limits.into_iter().find(|(_, duration)| *duration > MAX_TOLERANCE) {
            Some((setting, duration)) => Err(GuardError::TooLong { setting, duration }),
            None => Ok(()),
        }
    }

    fn metadata(&self, issuers: &[Issuer]) -> Vec<u8> {
        let mut authorization_servers: Vec<String> = Vec::new();
        for identifier in issuers.iter().filter_map(|issuer| issuer.identifier.as_ref()) {
            if !authorization_servers.contains(identifier) {
                authorization_servers.push(identifier.clone());
            }
        }
        let metadata = ProtectedResourceMetadata {
            resource: self.resource.clone(),
            authorization_servers,
            scopes_supported: Some(published(&self.scope_prefix, &self.scopes)).filter(|scopes| !scopes.is_empty()),
            bearer_methods_supported: Some(vec!["header".to_owned()]),
            resource_name: self.name.clone(),
            resource_documentation: self.documentation.clone(),
            dpop_signing_alg_values_supported: Some(
                Algorithm::ALL.map(|algorithm| algorithm.as_str().to_owned()).into(),
            ),
            dpop_bound_access_tokens_required: (self.policy == DpopPolicy::Required).then_some(true),
        };
        serde_json::to_vec(&metadata).unwrap_or_default()
    }

    /// Checks the issuers and creates their state.
    fn issuer_states(&self, issuers: Vec<Issuer>, resource: &Resource) -> Result<Vec<IssuerState>, GuardError> {
        #[cfg(feature = "remote")]
        let fetcher = self.fetcher(resource);
        #[cfg(not(feature = "remote"))]
        let _ = resource;
        let mut seen = HashSet::new();
        let mut states = Vec::new();
        for Issuer { identifier, source } in issuers {
            if identifier.as_ref().is_some_and(String::is_empty) {
                return Err(GuardError::Issuer { issuer: String::new(), reason: "the identifier is empty" });
            }
            let issuer = identifier.clone().unwrap_or_default();
            let kind = match source {
                IssuerSource::Keys(keys) => {
                    self.check_keys(&keys.keys).map_err(|reason| GuardError::Issuer { issuer, reason })?;
                    IssuerKind::Keys(keys.keys)
                }
                #[cfg(feature = "remote")]
                IssuerSource::Discover => {
                    let url = fetcher.check(FetchStep::ServerMetadata, &issuer)?;
                    if url.query().is_some() || url.fragment().is_some() {
                        return Err(GuardError::Issuer { issuer, reason: "a query or a fragment is not allowed" });
                    }
                    IssuerKind::Remote(self.remote_keys(issuer, None, &fetcher))
                }
                #[cfg(feature = "remote")]
                IssuerSource::KeyUrl(url) => {
                    fetcher.check(FetchStep::Keys, &url)?;
                    IssuerKind::Remote(self.remote_keys(issuer, Some(url), &fetcher))
                }
                #[cfg(feature = "remote")]
                IssuerSource::Introspect { url, client_id, secret } => {
                    fetcher.check(FetchStep::Introspection, &url)?;
                    let limits = (self.remote.max_introspections, self.remote.timeout);
                    let introspector = Introspector::new(url, (&client_id, &secret), fetcher.clone(), limits);
                    IssuerKind::Verifier(Arc::new(introspector))
                }
                IssuerSource::Custom(verifier) => IssuerKind::Verifier(verifier),
            };
            // An issuer may have keys for its signed tokens and a verifier for its opaque ones.
            let is_verifier = matches!(kind, IssuerKind::Verifier(_));
            if let Some(identifier) = &identifier
                && !seen.insert((identifier.clone(), is_verifier))
            {
                return Err(GuardError::Issuer { issuer: identifier.clone(), reason: "it was added twice" });
            }
            states.push(IssuerState { identifier, kind });
        }
        Ok(states)
    }

    /// Checks the keys of an issuer. Returns the reason if they cannot be used.
    fn check_keys(&self, keys: &[Jwk]) -> Result<(), &'static str> {
        let is_usable = |key: &Jwk| self.algorithms.iter().any(|accepted| key.supports(*accepted));
        if !keys.iter().any(is_usable) {
            return Err("it has no key for the accepted algorithms");
        }
        if keys.iter().any(Jwk::is_private) {
            return Err("its keys contain a private key; use the public key");
        }
        Ok(())
    }

    /// Creates the HTTP client for requests to issuers.
    #[cfg(feature = "remote")]
    fn fetcher(&self, resource: &Resource) -> Fetcher {
        let policy = match self.allows_private_network {
            true => NetworkPolicy::Private,
            false => NetworkPolicy::of_server(&resource.url),
        };
        Fetcher::new(policy, turms_http::__internal::DialOptions::new()).timeout(self.remote.timeout)
    }

    #[cfg(feature = "remote")]
    fn remote_keys(&self, issuer: String, url: Option<String>, fetcher: &Fetcher) -> Arc<RemoteKeys> {
        let times = KeyTimes {
            min_lifetime: self.remote.min_lifetime.as_secs_f64(),
            max_lifetime: self.remote.max_lifetime.max(self.remote.min_lifetime).as_secs_f64(),
            grace: self.remote.grace.as_secs_f64(),
            unknown_interval: self.remote.unknown_interval.as_secs_f64(),
        };
        RemoteKeys::new(issuer, url, fetcher.clone(), times, self.clock.clone())
    }
}

/// Settings of requests to issuers.
#[cfg(feature = "remote")]
impl TokenGuardBuilder {
    /// Sets the timeout for a request to an issuer, and for an introspection request to wait for others. Default: 10 s.
    pub fn fetch_timeout(mut self, timeout: Duration) -> Self {
        self.remote.timeout = timeout;
        self
    }

    /// Sets the maximum number of introspection requests at a time, for each issuer. Further requests wait, and are refused with status
    /// 503 after the timeout. Default: 64.
    pub fn max_introspections(mut self, requests: usize) -> Self {
        self.remote.max_introspections = requests.clamp(1, tokio::sync::Semaphore::MAX_PERMITS);
        self
    }

    /// Sets the minimum time that the keys of an issuer are cached, also if its `Cache-Control` names a shorter one. Default: 5 min.
    pub fn min_key_ttl(mut self, ttl: Duration) -> Self {
        self.remote.min_lifetime = ttl;
        self
    }

    /// Sets the maximum time that the keys of an issuer are cached, also if its `Cache-Control` names a longer one. Default: 24 h.
    pub fn max_key_ttl(mut self, ttl: Duration) -> Self {
        self.remote.max_lifetime = ttl;
        self
    }

    /// Sets the time that cached keys are used after their lifetime while the issuer cannot be reached. Default: 1 h.
    pub fn stale_key_ttl(mut self, ttl: Duration) -> Self {
        self.remote.grace = ttl;
        self
    }

    /// Sets the minimum time between two requests for the keys of an issuer because of tokens with an unknown key id. Default: 1 min.
    pub fn unknown_key_interval(mut self, interval: Duration) -> Self {
        self.remote.unknown_interval = interval;
        self
    }
}

/// Maximum of the times by which clocks may differ. Much longer ones could not be added to a time without loss of precision.
const MAX_TOLERANCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns `true` if a text is a scope (RFC 6749, 3.3).
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

impl fmt::Debug for TokenGuardBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenGuardBuilder")
            .field("resource", &self.resource)
            .field("issuers", &self.issuers)
            .finish_non_exhaustive()
    }
}

/// Error for a missing or invalid setting of a [`TokenGuard`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The resource cannot be used.
    #[error("invalid resource {resource:?} of the guard: {reason}")]
    Resource {
        /// The resource.
        resource: String,
        /// The reason.
        reason: &'static str,
    },
    /// There is no issuer.
    #[error("the guard has no issuer; add one with TokenGuardBuilder::issuer")]
    NoIssuer,
    /// An issuer cannot be used.
    #[error("invalid issuer {issuer:?} of the guard: {reason}")]
    Issuer {
        /// The identifier of the issuer.
        issuer: String,
        /// The reason.
        reason: &'static str,
    },
    /// There is no algorithm.
    #[error("the guard accepts no signature algorithm")]
    NoAlgorithm,
    /// A scope has invalid characters.
    #[error("invalid scope {0:?}: it is empty or has spaces, quotes or control characters")]
    Scope(String),
    /// An audience is empty.
    #[error("an audience of the guard is empty")]
    Audience,
    /// A duration is too long.
    #[error("setting {setting} of the guard: {} is longer than a day", format_duration(*.duration))]
    TooLong {
        /// The setting.
        setting: &'static str,
        /// The duration.
        duration: Duration,
    },
    /// A URL of an issuer is not allowed.
    #[cfg(feature = "remote")]
    #[error(transparent)]
    Url(#[from] FetchError),
}

#[cfg(all(test, feature = "remote"))]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, bytes, count, time, when};

        let it = TokenGuardBuilder::new("https://example.com/mcp".to_owned());
        let remote = &it.remote;
        let code = [
            ("TokenGuardBuilder::scope_prefix", when(it.scope_prefix.is_empty(), "none")),
            ("TokenGuardBuilder::scopes", when(it.scopes.is_empty(), "none")),
            ("TokenGuardBuilder::implies", when(it.implied.is_empty(), "none")),
            ("TokenGuardBuilder::audience", when(it.audiences.is_empty(), "none")),
            ("TokenGuardBuilder::algorithms", when(it.algorithms == Algorithm::ALL, "[`Algorithm::ALL`]")),
            ("TokenGuardBuilder::leeway", time(it.leeway)),
            ("TokenGuardBuilder::max_token_bytes", bytes(it.max_token_bytes)),
            ("TokenGuardBuilder::dpop", when(it.policy == DpopPolicy::Optional, "[`DpopPolicy::Optional`]")),
            ("TokenGuardBuilder::dpop_window", time(it.proof_window)),
            ("TokenGuardBuilder::dpop_nonces", when(it.nonce_key.is_none(), "no nonces")),
            ("TokenGuardBuilder::dpop_nonce_lifetime", time(it.nonce_lifetime)),
            ("TokenGuardBuilder::keep_streams_after_expiry", when(!it.keeps_streams, "they end")),
            ("TokenGuardBuilder::token_cache_size", count(it.cache_size)),
            ("TokenGuardBuilder::token_cache_ttl", time(it.token_ttl)),
            ("TokenGuardBuilder::introspection_cache_ttl", time(it.introspection_ttl)),
            ("TokenGuardBuilder::inactive_cache_ttl", time(it.inactive_ttl)),
            (
                "TokenGuardBuilder::allow_private_network",
                when(!it.allows_private_network, "public addresses with `https://`"),
            ),
            ("TokenGuardBuilder::resource_name", when(it.name.is_none(), "none")),
            ("TokenGuardBuilder::resource_documentation", when(it.documentation.is_none(), "none")),
            ("TokenGuardBuilder::fetch_timeout", time(remote.timeout)),
            ("TokenGuardBuilder::max_introspections", count(remote.max_introspections)),
            ("TokenGuardBuilder::min_key_ttl", time(remote.min_lifetime)),
            ("TokenGuardBuilder::max_key_ttl", time(remote.max_lifetime)),
            ("TokenGuardBuilder::stale_key_ttl", time(remote.grace)),
            ("TokenGuardBuilder::unknown_key_interval", time(remote.unknown_interval)),
        ];
        assert_documented(include_str!("builder.rs"), &code);
    }
}
