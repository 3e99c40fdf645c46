//! Requests to the provider.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use url::Url;

use super::attempt::Attempt;
use super::login::{UpstreamLogin, UpstreamTokens};
use super::upstream::{Location, Upstream};
use super::user::UpstreamUser;
use crate::discovery::discover_server;
use crate::error::{OAuthError, OAuthErrorKind};
use crate::fetch::{FetchErrorKind, FetchStep, Fetcher};
use crate::flow::{
    AuthorizationRequest, Callback, CodeExchange, TokenParameters, authorization_url, check_callback, exchange_code,
    refresh,
};
use crate::guard::{KeyTimes, RemoteKeys, is_signed, may_have_key};
use crate::jws::Jws;
use crate::metadata::AuthorizationServerMetadata;
use crate::secret::Secret;
use crate::server::claims::{Claims, is_current, text, texts};

/// Time for which metadata is used, in seconds.
const METADATA_LIFETIME: u64 = 60 * 60;

/// Time after a failed request for metadata before the next one, in seconds.
const RETRY_INTERVAL: u64 = 5;

/// An access token that expires within this time is renewed before handlers get it, in seconds.
const RENEW_AHEAD: u64 = 60;

/// Error of a request to the provider of an [`OAuthProxy`](super::OAuthProxy). Shows no tokens.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// There is no login for a token of the proxy.
    #[error(
        "there is no login for this token: it has ended, or the proxy was restarted; the person has to log in again"
    )]
    NoLogin,
    /// The provider has ended the login, or its token has expired and cannot be renewed.
    #[error("the login at the provider has ended; the person has to log in again")]
    Ended,
    /// A request to the provider failed, or its response is invalid.
    #[error("request to the provider failed")]
    Request(#[source] OAuthError),
    /// The ID token of the provider is invalid.
    #[error("invalid ID token of the provider: {0}")]
    IdToken(&'static str),
    /// The user information of the provider does not identify a person.
    #[error("the user information of the provider has no member {0:?}")]
    Subject(String),
    /// The keys of the provider cannot be fetched at the moment.
    #[error("the keys of the provider cannot be fetched; try again later")]
    KeysUnavailable,
}

impl UpstreamError {
    /// Returns `true` if the same request may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::KeysUnavailable => true,
            Self::Request(error) => error.is_transient(),
            _ => false,
        }
    }
}

impl From<OAuthError> for UpstreamError {
    fn from(error: OAuthError) -> Self {
        Self::Request(error)
    }
}

/// The provider, and the client that is registered there.
pub(super) struct Provider {
    upstream: Upstream,
    fetcher: Fetcher,
    /// The redirect URI of the proxy.
    callback_url: String,
    discovered: tokio::sync::Mutex<Option<Discovered>>,
}

/// The result of discovery, and the second until which it is used.
struct Discovered {
    result: Result<Arc<Endpoints>, OAuthError>,
    until: u64,
}

struct Endpoints {
    metadata: AuthorizationServerMetadata,
    keys: Option<Arc<RemoteKeys>>,
}

impl Provider {
    pub(super) fn new(upstream: Upstream, fetcher: Fetcher, callback_url: String) -> Self {
        Self { upstream, fetcher, callback_url, discovered: tokio::sync::Mutex::default() }
    }

    /// Returns the name that people see.
    pub(super) fn name(&self) -> &str {
        &self.upstream.name
    }

    /// Returns the URL at which a person logs in.
    pub(super) async fn login_url(&self, attempt: &Attempt, now: u64) -> Result<Url, UpstreamError> {
        let endpoints = self.endpoints(now).await?;
        let client_id = self.upstream.client.id();
        let mut request = AuthorizationRequest::new(client_id, &self.callback_url, &attempt.state, &attempt.pkce)
            .scopes(&self.upstream.scopes);
        if self.upstream.has_id_token() {
            request = request.extra("nonce", attempt.nonce.expose());
        }
        for (name, value) in &self.upstream.parameters {
            request = request.extra(name, value);
        }
        Ok(authorization_url(&self.fetcher, &endpoints.metadata, &request)?)
    }

    /// Completes a login: checks the callback, exchanges the code, and finds out who the person is.
    pub(super) async fn complete(
        &self,
        attempt: &Attempt,
        callback: &Callback,
        now: u64,
    ) -> Result<(UpstreamUser, UpstreamTokens), UpstreamError> {
        let endpoints = self.endpoints(now).await?;
        let code = check_callback(&endpoints.metadata, &attempt.state, callback)?;
        let exchange = CodeExchange::new(code, &self.callback_url, &attempt.pkce);
        let (client, parameters) = (&self.upstream.client, TokenParameters::new());
        let response = exchange_code(&self.fetcher, &endpoints.metadata, client, &exchange, &parameters).await?;
        let user = if self.upstream.has_id_token() {
            let token = response.id_token.as_ref().ok_or(UpstreamError::IdToken("there is none"))?;
            self.check_id_token(&endpoints, token, &attempt.nonce, now).await?
        } else {
            self.user_info(&endpoints, &response.access_token).await?
        };
        Ok((user, UpstreamTokens::new(response, now)))
    }

    /// Returns an access token that is valid for a while.
    pub(super) async fn access_token(
        self: &Arc<Self>,
        login: &Arc<UpstreamLogin>,
        now: u64,
    ) -> Result<Secret, UpstreamError> {
        {
            let tokens = login.tokens.lock().await;
            if tokens.is_valid_for(RENEW_AHEAD, now) {
                return Ok(tokens.access.clone());
            }
        }
        self.renew(login, Some(RENEW_AHEAD), now).await
    }

    /// Checks that the provider has not ended a login: renews its tokens, or asks for the user information if they cannot be renewed.
    pub(super) async fn confirm(self: &Arc<Self>, login: &Arc<UpstreamLogin>, now: u64) -> Result<(), UpstreamError> {
        let access = {
            let tokens = login.tokens.lock().await;
            match &tokens.refresh {
                Some(_) => None,
                None if tokens.is_valid_for(0, now) => Some(tokens.access.clone()),
                None => return Err(UpstreamError::Ended),
            }
        };
        let Some(access) = access else { return self.renew(login, None, now).await.map(drop) };
        let endpoints = self.endpoints(now).await?;
        if endpoints.metadata.userinfo_endpoint.is_none() {
            return Ok(());
        }
        match self.user_info(&endpoints, &access).await {
            Err(UpstreamError::Request(error)) if is_rejected(&error) => Err(UpstreamError::Ended),
            result => result.map(drop),
        }
    }

    /// Renews the tokens, unless the access token is valid for this number of seconds. In a task of its own: if the request is given up, the new
    /// refresh token would be lost.
    async fn renew(
        self: &Arc<Self>,
        login: &Arc<UpstreamLogin>,
        unless_valid_for: Option<u64>,
        now: u64,
    ) -> Result<Secret, UpstreamError> {
        let (provider, login) = (self.clone(), login.clone());
        let renewal = tokio::spawn(async move {
            let mut tokens = login.tokens.lock().await;
            // Another request may have renewed them.
            if unless_valid_for.is_some_and(|seconds| tokens.is_valid_for(seconds, now)) {
                return Ok(tokens.access.clone());
            }
            let valid = tokens.is_valid_for(0, now).then(|| tokens.access.clone());
            let Some(old) = tokens.refresh.clone() else { return valid.ok_or(UpstreamError::Ended) };
            let endpoints = provider.endpoints(now).await?;
            let (client, parameters) = (&provider.upstream.client, TokenParameters::new());
            match refresh(&provider.fetcher, &endpoints.metadata, client, &old, &parameters).await {
                Ok(response) => *tokens = UpstreamTokens::new(response, now),
                Err(error) if error.is_invalid_grant() => return Err(UpstreamError::Ended),
                Err(error) => return Err(error.into()),
            }
            Ok(tokens.access.clone())
        });
        let stopped = |_| Err(OAuthError::new(OAuthErrorKind::Stopped).into());
        renewal.await.unwrap_or_else(stopped)
    }

    /// Returns the endpoints. One request finds them out at a time, and a failure is remembered for a moment.
    async fn endpoints(&self, now: u64) -> Result<Arc<Endpoints>, OAuthError> {
        let mut discovered = self.discovered.lock().await;
        if let Some(Discovered { result, until }) = &*discovered
            && now < *until
        {
            return result.clone();
        }
        let known = match &self.upstream.location {
            Location::Issuer(issuer) => discover_server(&self.fetcher, issuer).await,
            Location::Known(metadata) => Ok((**metadata).clone()),
        };
        let (result, lifetime) = match (known, discovered.take()) {
            (Ok(metadata), _) => (Ok(Arc::new(self.use_metadata(metadata))), METADATA_LIFETIME),
            // Old metadata is better than none.
            (Err(_), Some(Discovered { result: Ok(old), .. })) => (Ok(old), RETRY_INTERVAL),
            (Err(error), _) => (Err(error), RETRY_INTERVAL),
        };
        *discovered = Some(Discovered { result: result.clone(), until: now.saturating_add(lifetime) });
        result
    }

    fn use_metadata(&self, mut metadata: AuthorizationServerMetadata) -> Endpoints {
        // PKCE is always used. Servers that do not know it ignore the parameters (RFC 6749, 3.1), and some, such as Microsoft Entra, know
        // it without saying so.
        metadata.code_challenge_methods_supported = Some(vec!["S256".to_owned()]);
        let keys = metadata.jwks_uri.clone().map(|url| {
            let times = KeyTimes { min_lifetime: 300.0, max_lifetime: 86_400.0, grace: 3600.0, unknown_interval: 60.0 };
            RemoteKeys::new(metadata.issuer.clone(), Some(url), self.fetcher.clone(), times, Default::default())
        });
        Endpoints { metadata, keys }
    }

    /// Checks an ID token (OpenID Connect Core, 3.1.3.7).
    async fn check_id_token(
        &self,
        endpoints: &Endpoints,
        token: &Secret,
        nonce: &Secret,
        now: u64,
    ) -> Result<UpstreamUser, UpstreamError> {
        let invalid = UpstreamError::IdToken;
        let jws = Jws::parse(token.expose()).map_err(|_| invalid("it is not a signed token"))?;
        let keys = endpoints.keys.as_ref().ok_or_else(|| invalid("the provider has no keys"))?;
        let keys = keys.find(|keys| may_have_key(&jws, keys)).await;
        if !is_signed(&jws, &keys.map_err(|_| UpstreamError::KeysUnavailable)?) {
            return Err(invalid("the signature does not match"));
        }
        let claims: Claims = jws.claims().map_err(|_| invalid("its claims are invalid"))?;
        check_claims(&claims, &endpoints.metadata.issuer, self.upstream.client.id(), now).map_err(invalid)?;
        if text(&claims, "nonce").map(Secret::new).as_ref() != Some(nonce) {
            return Err(invalid("nonce is not that of this login"));
        }
        let subject =
            text(&claims, "sub").filter(|subject| !subject.is_empty()).ok_or_else(|| invalid("sub is missing"))?;
        Ok(UpstreamUser::new(subject.to_owned(), claims))
    }

    async fn user_info(&self, endpoints: &Endpoints, token: &Secret) -> Result<UpstreamUser, UpstreamError> {
        let endpoint = endpoints.metadata.userinfo_endpoint.as_deref();
        let missing = || OAuthError::unsupported(&endpoints.metadata.issuer, "has no user information endpoint");
        let endpoint = endpoint.ok_or_else(missing)?;
        let value = Secret::new(format!("Bearer {}", token.expose()));
        let mut value = HeaderValue::try_from(value.expose()).map_err(|_| UpstreamError::Ended)?;
        value.set_sensitive(true);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        let response = self.fetcher.get_with(FetchStep::UserInfo, endpoint, headers).await;
        let claims: Claims = response.and_then(|response| response.json()).map_err(OAuthError::from)?;
        let name = &self.upstream.subject;
        let subject = match claims.get(name) {
            Some(Value::String(text)) if !text.is_empty() => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Err(UpstreamError::Subject(name.clone())),
        };
        Ok(UpstreamUser::new(subject, claims))
    }
}

/// Checks the claims that do not depend on the login.
fn check_claims(claims: &Claims, issuer: &str, client_id: &str, now: u64) -> Result<(), &'static str> {
    if text(claims, "iss") != Some(issuer) {
        return Err("iss is another issuer");
    }
    let audiences = texts(claims, "aud");
    if !audiences.contains(&client_id) {
        return Err("aud is another client");
    }
    let azp = claims.get("azp").map(|azp| azp.as_str() == Some(client_id));
    if azp == Some(false) || (azp.is_none() && audiences.len() > 1) {
        return Err("azp is another client");
    }
    if !is_current(claims, now) {
        return Err("it is expired or not yet valid");
    }
    Ok(())
}

/// Returns `true` if the provider rejects a token.
fn is_rejected(error: &OAuthError) -> bool {
    let OAuthErrorKind::Fetch(error) = error.kind() else { return false };
    matches!(error.kind(), FetchErrorKind::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_of_other_logins_are_refused() {
        let check = |changes: Value| {
            let mut claims = json!({"iss": "https://idp.example", "aud": "us", "exp": 2000, "iat": 1000});
            let claims = claims.as_object_mut().unwrap();
            claims.extend(changes.as_object().unwrap().clone());
            check_claims(claims, "https://idp.example", "us", 1000)
        };
        for good in
            [json!({}), json!({"aud": ["us"]}), json!({"aud": ["us", "api"], "azp": "us"}), json!({"azp": "us"})]
        {
            assert_eq!(check(good.clone()), Ok(()), "{good}");
        }
        for bad in [
            json!({"iss": "https://idp.example/"}),
            json!({"iss": null}),
            json!({"aud": "other"}),
            json!({"aud": []}),
            json!({"aud": ["us", "other"]}),
            json!({"azp": "other"}),
            json!({"azp": null}),
            json!({"exp": 900}),
            json!({"exp": null}),
            json!({"nbf": 1100}),
            json!({"iat": 1100}),
        ] {
            assert!(check(bad.clone()).is_err(), "{bad}");
        }
    }
}
