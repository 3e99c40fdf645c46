//! The authorizer of one server: credentials for requests, and decisions about rejected requests.

use std::sync::Arc;

use http::StatusCode;
use turms_core::BoxFuture;
use turms_http::{
    AuthorizeError, AuthorizeRequest, AuthorizedResponse, Authorizer, Challenge, Credentials, Decision, RequestPurpose,
    UnauthorizedResponse,
};
use url::Url;

use super::oauth::OAuth;
use super::obtain::Cause;
use super::server_login::ServerLogin;
use crate::error::OAuthError;
use crate::metadata::printable;
use crate::scopes::split_scopes;
use crate::secret::Secret;

/// Authorizes the requests to one server.
#[derive(Clone)]
pub(super) struct LoginAuthorizer(Arc<ServerLogin>);

impl LoginAuthorizer {
    pub(super) fn new(login: Arc<ServerLogin>) -> Self {
        Self(login)
    }

    /// Decides about a rejected request. Obtains another token if that may help.
    async fn decide(&self, response: &UnauthorizedResponse) -> Result<Decision, OAuthError> {
        let login = &self.0;
        let challenges = response.challenges();
        // A server may send a challenge for each scheme. That of the token says what is wrong with it.
        let is_of_token = |it: &&Challenge| it.is_scheme("DPoP") && it.get("error").is_some() && login.is_bound();
        let challenge = challenges.iter().find(is_of_token);
        let challenge =
            challenge.or_else(|| challenges.iter().find(|it| it.is_scheme("DPoP") || it.is_scheme("Bearer")));
        let error = challenge.and_then(|challenge| challenge.get("error"));
        let has_nonce = login.keep_nonce(&response.url, &response.headers);
        if has_nonce && response.status == StatusCode::UNAUTHORIZED && error == Some("use_dpop_nonce") {
            // Even if the nonce was known before: it may be from the response to a concurrent request. The caller limits retries.
            return Ok(Decision::RetryWithNonce);
        }
        // A request that only closes a session must not start a login.
        if response.purpose == RequestPurpose::Close {
            return Ok(Decision::Fail);
        }
        if response.status == StatusCode::UNAUTHORIZED && error == Some("invalid_dpop_proof") {
            // The clocks may differ. The caller limits retries.
            return if login.correct_clock(&response.headers) {
                Ok(Decision::Retry)
            } else {
                Err(login.rejected_token(challenge))
            };
        }
        if response.status == StatusCode::UNAUTHORIZED && response.rejections > 1 && login.is_current(response.sent) {
            // The server rejects the token that the previous retry has obtained. Another one would be rejected, too.
            return Err(login.reject_new_token(challenge));
        }
        let cause = match (response.status, error) {
            (StatusCode::UNAUTHORIZED, _) => Cause::Rejected { sent: response.sent },
            (StatusCode::FORBIDDEN, Some("insufficient_scope")) => {
                let scopes = challenge.and_then(|challenge| challenge.get("scope")).unwrap_or_default();
                Cause::MissingScopes { sent: response.sent, scopes: split_scopes(scopes) }
            }
            // The server rejects the request for another reason, such as its `Host`.
            _ => return Ok(Decision::Fail),
        };
        // A stream runs in the background, and must not open a browser window.
        let may_ask = response.purpose == RequestPurpose::Call;
        login.obtain(cause, challenge.cloned(), may_ask).await?;
        Ok(Decision::Retry)
    }
}

impl Authorizer for LoginAuthorizer {
    fn cached(&self, request: &AuthorizeRequest<'_>) -> Option<Credentials> {
        self.0.cached_credentials(request)
    }

    fn authorize<'a>(
        &'a self,
        request: &'a AuthorizeRequest<'a>,
    ) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        Box::pin(async move { self.0.credentials(request).await.map_err(authorize_error) })
    }

    fn rejected<'a>(&'a self, response: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        Box::pin(async move { self.decide(response).await.map_err(authorize_error) })
    }

    fn responded(&self, response: &AuthorizedResponse<'_>) {
        self.0.keep_nonce(response.url, response.headers);
    }

    fn observes_responses(&self) -> bool {
        true
    }
}

impl Authorizer for OAuth {
    fn for_server(&self, url: &Url) -> Option<Arc<dyn Authorizer>> {
        Some(Arc::new(self.authorizer_of(url)))
    }

    fn cached(&self, request: &AuthorizeRequest<'_>) -> Option<Credentials> {
        self.authorizer_of(request.url).cached(request)
    }

    fn authorize<'a>(
        &'a self,
        request: &'a AuthorizeRequest<'a>,
    ) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        Box::pin(async move { self.authorizer_of(request.url).authorize(request).await })
    }

    fn rejected<'a>(&'a self, response: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        Box::pin(async move { self.authorizer_of(&response.url).rejected(response).await })
    }

    fn responded(&self, response: &AuthorizedResponse<'_>) {
        self.authorizer_of(response.url).responded(response);
    }

    fn observes_responses(&self) -> bool {
        true
    }
}

/// Converts an error. Clients may connect again after a transient one, such as a network error.
fn authorize_error(error: OAuthError) -> AuthorizeError {
    let is_transient = error.is_transient();
    let error = AuthorizeError::new(error);
    if is_transient { error.transient() } else { error }
}

/// Returns the error code and description of a challenge, for error messages. Some servers repeat the token in them.
pub(super) fn describe(challenge: Option<&Challenge>, token: Option<&Secret>) -> Option<String> {
    let challenge = challenge?;
    let text = [challenge.get("error"), challenge.get("error_description")].into_iter().flatten().collect::<Vec<_>>();
    let text = Some(text.join(": ")).filter(|text| !text.is_empty())?;
    // Before it is shortened, because a part of a token would not be found.
    let text = token.map(|token| text.replace(token.expose(), "[..]")).unwrap_or(text);
    Some(printable(&text))
}
