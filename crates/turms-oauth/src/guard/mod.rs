//! The token guard: checks of access tokens at an MCP server.

mod builder;
mod cache;
mod claims;
mod clock;
mod document;
mod dpop;
#[cfg(feature = "remote")]
mod introspection;
mod issuer;
#[cfg(feature = "remote")]
mod keys;
mod layer;
mod rejection;
mod request;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use turms_core::{BoxFuture, Principal};
use turms_http::{Guard, GuardDocument, GuardRejection, GuardRequest};
use url::Url;

pub use self::builder::{GuardError, TokenGuardBuilder};
use self::cache::{TokenCache, TokenHash};
use self::claims::{ClaimRules, VerifiedToken};
pub use self::clock::GuardClock;
pub use self::document::GuardDocuments;
use self::document::Resource;
pub use self::dpop::{DpopPolicy, MemoryReplayStore, ReplayStore, ReplayStoreError};
use self::dpop::{ProofRules, ProvenRequest};
pub(crate) use self::issuer::is_signed;
pub use self::issuer::{Issuer, Verifier, VerifyError};
#[cfg(feature = "proxy")]
pub(crate) use self::keys::KeyTimes;
#[cfg(feature = "remote")]
pub(crate) use self::keys::{RemoteKeys, may_have_key};
pub use self::layer::{GuardedService, TokenGuardLayer};
use self::rejection::{Challenges, Refusal};
use self::request::{Credentials, PresentedToken, Scheme};
use crate::jws::{Algorithm, Jwk, Jws, TokenDigest};

/// Time that clients are told to wait if a verifier fails.
const VERIFIER_RETRY: Duration = Duration::from_secs(5);

/// Checks the access tokens of requests to an MCP server, for `HttpService::guard` and `WsService::guard`. Clones share one guard.
///
/// ```
/// use turms_oauth::{Issuer, TokenGuard};
///
/// # fn example() -> Result<(), turms_oauth::GuardError> {
/// let guard = TokenGuard::builder("https://notes.example.com/mcp")
///     .issuer(Issuer::discover("https://auth.example.com"))
///     .scopes(["notes:read"])
///     .implies("notes:write", ["notes:read"])
///     .build()?;
/// # Ok(())
/// # }
/// ```
///
/// # Tokens
///
/// A token is in the only `Authorization` header, with the scheme `Bearer` or `DPoP`. A signed token (JWT) is accepted if
///
/// - its algorithm is one of [`algorithms`](TokenGuardBuilder::algorithms) and fits the type of the key, and its signature is valid;
/// - `typ` is `at+jwt`, `JWT` or absent, and nothing marks it as an ID token: no `nonce`, `at_hash` or `c_hash`, `token_use` absent or
///   `access`, and no claim `typ` with the value `ID`;
/// - `iss` is an issuer of the guard, `aud` contains the resource, `exp` has not passed, and `nbf` and `iat` are not in the future, each
///   with a [leeway](TokenGuardBuilder::leeway).
///
/// The same holds for the claims of opaque tokens, which an introspection endpoint or a [`Verifier`] returns. The subject of the
/// principal is `sub`, or `client_id` if there is no `sub`. Its scopes are those of `scope` or `scp`, and those that these
/// [imply](TokenGuardBuilder::implies).
///
/// # Errors
///
/// | cause | status | error in `WWW-Authenticate` |
/// |---|---|---|
/// | no token | 401 | none |
/// | token in the query, several `Authorization` headers, malformed or too long token | 400 | `invalid_request` |
/// | invalid token | 401 | `invalid_token` |
/// | invalid proof of possession | 401 | `invalid_dpop_proof` or `use_dpop_nonce` |
/// | missing scopes | 403 | `insufficient_scope` |
/// | the issuer cannot be reached and its keys are not known | 503 with `Retry-After` | |
///
/// # Metadata
///
/// The guard serves its protected-resource metadata at the path of RFC 9728. A service that is mounted below a path does not see
/// requests for it: mount [`documents`](Self::documents) at the root of the application.
///
/// # Caches
///
/// A verified signed token is cached for five minutes and at most until its expiry, an introspected one for 30 s. A token that is
/// revoked is accepted for that long.
#[derive(Clone)]
pub struct TokenGuard(Arc<GuardState>);

struct GuardState {
    resource: Resource,
    issuers: Vec<IssuerState>,
    algorithms: Vec<Algorithm>,
    rules: ClaimRules,
    policy: DpopPolicy,
    proofs: ProofRules,
    challenges: Challenges,
    document: GuardDocument,
    max_token_bytes: usize,
    keeps_streams: bool,
    /// Lifetimes of cache entries, in seconds: accepted signed tokens, accepted opaque tokens, and opaque tokens that are not valid.
    token_ttl: f64,
    introspection_ttl: f64,
    inactive_ttl: f64,
    digest: TokenDigest,
    accepted: TokenCache<Arc<VerifiedToken>>,
    /// Opaque tokens that are not valid.
    inactive: TokenCache<()>,
    /// Opaque tokens that are being verified, so that concurrent requests with the same token call the verifier once.
    verifying: Mutex<HashMap<TokenHash, Arc<tokio::sync::Mutex<()>>>>,
    clock: GuardClock,
}

struct IssuerState {
    identifier: Option<String>,
    kind: IssuerKind,
}

enum IssuerKind {
    Keys(Vec<Jwk>),
    #[cfg(feature = "remote")]
    Remote(Arc<RemoteKeys>),
    Verifier(Arc<dyn Verifier>),
}

impl TokenGuard {
    /// Creates a builder for the guard of a resource: the URL of the MCP server as clients know it. It is the audience of tokens, the
    /// URL of proofs of possession, and the identifier in the metadata.
    pub fn builder(resource: impl Into<String>) -> TokenGuardBuilder {
        TokenGuardBuilder::new(resource.into())
    }

    /// Returns the identifier of the resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.0.resource.identifier
    }

    /// Returns the path of the protected-resource metadata, such as `/.well-known/oauth-protected-resource/mcp`.
    #[must_use]
    pub fn metadata_path(&self) -> String {
        self.0.resource.metadata_path()
    }

    /// Returns the URL of the protected-resource metadata.
    #[must_use]
    pub fn metadata_url(&self) -> &str {
        &self.0.challenges.metadata_url
    }

    /// Returns a `tower` service for the protected-resource metadata, for the root of an application.
    #[must_use]
    pub fn documents(&self) -> GuardDocuments {
        GuardDocuments(self.clone())
    }

    /// Returns a `tower` layer that guards other routes of an application.
    #[must_use]
    pub fn layer(&self) -> TokenGuardLayer {
        TokenGuardLayer(self.clone())
    }

    /// Verifies a bearer token that did not come in a request over HTTP.
    ///
    /// # Errors
    /// When the token is not valid, is bound to a key, does not have the required scopes, or cannot be checked at the moment.
    pub async fn verify(&self, token: &str) -> Result<Principal, GuardRejection> {
        let state = &*self.0;
        let presented = PresentedToken { scheme: Scheme::Bearer, token };
        let verified = async {
            if token.len() > state.max_token_bytes {
                return Err(Refusal::Malformed("the token is too long"));
            }
            let verified = state.verify(token).await?;
            state.admit(&verified, presented, None).await
        };
        verified.await.map_err(|refusal| state.challenges.reject(refusal, None))
    }
}

impl GuardState {
    /// Checks a request. `url` is set for a route of the application that does not belong to the resource: a proof of possession must
    /// then be for this URL.
    async fn check(&self, request: &GuardRequest<'_>, url: Option<Url>) -> Result<Principal, GuardRejection> {
        let presented = PresentedToken::find(request, self.max_token_bytes);
        let presented = presented.map_err(|refusal| self.challenges.reject(refusal, None))?;
        let checked = async {
            let verified = self.verify(presented.token).await?;
            self.admit(&verified, presented, Some((request, url))).await
        };
        checked.await.map_err(|refusal| self.challenges.reject(refusal, Some(presented.scheme)))
    }

    /// Verifies a token: with the cache, or else with its issuer.
    async fn verify(&self, token: &str) -> Result<Arc<VerifiedToken>, Refusal> {
        let hash = self.digest.of(token.as_bytes());
        if let Some(verified) = self.accepted.get(&hash, self.clock.now()) {
            return Ok(verified);
        }
        // A signed token is verified by the issuer that it names, and no other.
        if let Ok(jws) = Jws::parse(token)
            && let Ok(claims) = jws.claims::<Map<String, Value>>()
            && let Some(iss) = claims.get("iss")
        {
            let named = |iss: &str| self.issuers.iter().find(|issuer| issuer.identifier.as_deref() == Some(iss));
            let issuer = iss.as_str().and_then(named).ok_or(Refusal::Invalid("the token is from an unknown issuer"))?;
            return if let IssuerKind::Verifier(_) = &issuer.kind {
                self.verify_opaque(token, hash, std::slice::from_ref(issuer)).await
            } else {
                self.verify_signed(&jws, claims, hash, issuer).await
            };
        }
        self.verify_opaque(token, hash, &self.issuers).await
    }

    async fn verify_signed(
        &self,
        jws: &Jws<'_>,
        claims: Map<String, Value>,
        hash: TokenHash,
        issuer: &IssuerState,
    ) -> Result<Arc<VerifiedToken>, Refusal> {
        if !self.algorithms.contains(&jws.algorithm()) {
            return Err(Refusal::Invalid("the algorithm of the token is not accepted"));
        }
        let is_access = |typ: &str| {
            ["at+jwt", "application/at+jwt", "JWT"].iter().any(|accepted| accepted.eq_ignore_ascii_case(typ))
        };
        if !jws.header("typ").is_none_or(is_access) {
            return Err(Refusal::Invalid("the token is not an access token"));
        }
        // The claims are checked before the signature, so that keys are fetched only for tokens that are for this server.
        let now = self.clock.now();
        let token = self.rules.check(claims, issuer.identifier.as_deref(), now).map_err(Refusal::Invalid)?;
        let is_signed = match &issuer.kind {
            IssuerKind::Keys(keys) => is_signed(jws, keys),
            #[cfg(feature = "remote")]
            IssuerKind::Remote(keys) => {
                let keys = keys.find(|keys| may_have_key(jws, keys)).await;
                is_signed(jws, &keys.map_err(|error| Refusal::Unavailable(error.retry_after))?)
            }
            IssuerKind::Verifier(_) => false,
        };
        if !is_signed {
            return Err(Refusal::Invalid("the signature of the token is wrong or its key is unknown"));
        }
        Ok(self.cache_accepted(hash, token, self.token_ttl))
    }

    async fn verify_opaque(
        &self,
        token: &str,
        hash: TokenHash,
        issuers: &[IssuerState],
    ) -> Result<Arc<VerifiedToken>, Refusal> {
        const INACTIVE: Refusal = Refusal::Invalid("the token is unknown, expired or revoked");
        let verification = OpaqueVerification::new(self, hash);
        let _lock = verification.mutex.lock().await;
        // Another request may have verified the token meanwhile.
        let now = self.clock.now();
        if let Some(verified) = self.accepted.get(&hash, now) {
            return Ok(verified);
        }
        if self.inactive.get(&hash, now).is_some() {
            return Err(INACTIVE);
        }
        let mut is_unavailable = false;
        for issuer in issuers {
            let IssuerKind::Verifier(verifier) = &issuer.kind else { continue };
            match verifier.verify(token).await {
                Ok(response) if response.active => {
                    let checked = self.rules.check(response.claims, issuer.identifier.as_deref(), self.clock.now());
                    return match checked {
                        Ok(verified) => Ok(self.cache_accepted(hash, verified, self.introspection_ttl)),
                        Err(reason) => {
                            self.cache_inactive(hash);
                            Err(Refusal::Invalid(reason))
                        }
                    };
                }
                Ok(_) => {}
                Err(error) => {
                    let error = turms_core::__internal::error_chain(&error);
                    tracing::warn!(issuer = issuer.identifier, error, "an issuer cannot verify a token");
                    is_unavailable = true;
                }
            }
        }
        if is_unavailable {
            return Err(Refusal::Unavailable(VERIFIER_RETRY));
        }
        self.cache_inactive(hash);
        Err(INACTIVE)
    }

    fn cache_accepted(&self, hash: TokenHash, verified: VerifiedToken, ttl: f64) -> Arc<VerifiedToken> {
        let (verified, now) = (Arc::new(verified), self.clock.now());
        self.accepted.insert(hash, verified.clone(), now, verified.until.min(now + ttl));
        verified
    }

    fn cache_inactive(&self, hash: TokenHash) {
        let now = self.clock.now();
        self.inactive.insert(hash, (), now, now + self.inactive_ttl);
    }

    /// Checks the binding to a key and the scopes of a verified token. Without a request, there is no proof of possession.
    async fn admit(
        &self,
        verified: &VerifiedToken,
        presented: PresentedToken<'_>,
        request: Option<(&GuardRequest<'_>, Option<Url>)>,
    ) -> Result<Principal, Refusal> {
        match (&verified.jkt, presented.scheme, request) {
            (Some(jkt), Scheme::Dpop, Some((request, url))) => {
                let proof = request::proof(request)?;
                let method = request.method().as_str();
                let request = ProvenRequest { method, url, token: presented.token, jkt };
                self.proofs.check(proof, &request, self.clock.now()).await?;
            }
            (Some(_), _, _) => return Err(Refusal::Unproven),
            (None, ..) => self.check_unbound(presented.scheme)?,
        }
        self.check_scopes(verified)
    }

    /// Checks if a token that is not bound to a key is accepted with a scheme.
    fn check_unbound(&self, scheme: Scheme) -> Result<(), Refusal> {
        if scheme == Scheme::Dpop || self.policy == DpopPolicy::Required {
            return Err(Refusal::Invalid("the token is not bound to a key"));
        }
        Ok(())
    }

    fn check_scopes(&self, verified: &VerifiedToken) -> Result<Principal, Refusal> {
        if verified.has_required_scopes { Ok(verified.principal.clone()) } else { Err(Refusal::Scope) }
    }

    /// Checks a request whose bearer token is in the cache. Returns `None` for other requests.
    fn check_cached(&self, request: &GuardRequest<'_>) -> Option<Result<Principal, Refusal>> {
        let credentials = match Credentials::find(request, self.max_token_bytes) {
            Ok(credentials) if credentials.scheme == Scheme::Bearer => credentials,
            Ok(_) => return None,
            Err(refusal) => return Some(Err(refusal)),
        };
        // The syntax of tokens in the cache has been checked.
        let verified = self.accepted.get(&self.digest.of(credentials.token), self.clock.now())?;
        if verified.jkt.is_some() {
            return Some(Err(Refusal::Unproven));
        }
        Some(self.check_unbound(credentials.scheme).and_then(|()| self.check_scopes(&verified)))
    }
}

/// The verification of an opaque token by one request, from before it waits for concurrent requests with the same token. They share
/// the mutex, which is removed from the map with the last of them.
struct OpaqueVerification<'a> {
    state: &'a GuardState,
    hash: TokenHash,
    mutex: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> OpaqueVerification<'a> {
    fn new(state: &'a GuardState, hash: TokenHash) -> Self {
        let mutex = state.verifying.lock().entry(hash).or_default().clone();
        Self { state, hash, mutex }
    }
}

impl Drop for OpaqueVerification<'_> {
    fn drop(&mut self) {
        let mut verifying = self.state.verifying.lock();
        // The last request: one reference is in the map, and one in `self`.
        if verifying.get(&self.hash).is_some_and(|mutex| Arc::strong_count(mutex) <= 2) {
            verifying.remove(&self.hash);
        }
    }
}

impl Guard for TokenGuard {
    fn check_cached(&self, request: &GuardRequest<'_>) -> Option<Result<Principal, GuardRejection>> {
        let checked = self.0.check_cached(request)?;
        // No scheme is passed: all of these requests have a bearer token or none, and both get the same challenge.
        Some(checked.map_err(|refusal| self.0.challenges.reject(refusal, None)))
    }

    fn check<'a>(&'a self, request: &'a GuardRequest<'a>) -> BoxFuture<'a, Result<Principal, GuardRejection>> {
        Box::pin(self.0.check(request, None))
    }

    fn insufficient_scope(&self, principal: Option<&Principal>, scopes: &[String]) -> Option<HeaderValue> {
        let is_bound = principal.is_some_and(|principal| principal.claim::<Value>("cnf").is_some());
        let scheme = if is_bound { Scheme::Dpop } else { self.0.challenges.default_scheme() };
        Some(self.0.challenges.insufficient_scope(scheme, scopes))
    }

    fn document(&self, path: &str) -> Option<GuardDocument> {
        self.0.resource.is_metadata_path(path).then(|| self.0.document.clone())
    }

    fn ends_streams_on_expiry(&self) -> bool {
        !self.0.keeps_streams
    }
}

impl fmt::Debug for TokenGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issuers: Vec<_> =
            self.0.issuers.iter().map(|issuer| issuer.identifier.as_deref().unwrap_or("(none)")).collect();
        f.debug_struct("TokenGuard")
            .field("resource", &self.0.resource.identifier)
            .field("issuers", &issuers)
            .finish_non_exhaustive()
    }
}
