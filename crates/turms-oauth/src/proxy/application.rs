//! The endpoints of the proxy.

use std::fmt;
use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use turms_core::__internal::error_chain;
use turms_core::{BoxFuture, Principal};

use super::attempt::{Attempt, Attempts, remove_cookie};
use super::consent::{self, Approvals};
use super::login::{UpstreamLogin, UpstreamLogins};
use super::provider::{Provider, UpstreamError};
use super::user::{ProxyUser, UpstreamUser};
use crate::error::OAuthErrorKind;
use crate::flow::Callback;
use crate::secret::Secret;
use crate::server::authorize::AuthorizeRequest;
use crate::server::http::{Application, HttpRequest, HttpResponse, method_not_allowed, redirect};
use crate::server::page::{describe, error_page, escape};
use crate::server::refusal::Refusal;
use crate::server::token_endpoint::TokenRequest;
use crate::server::tokens::{Family, Grant, LoginData};
use crate::server::{Core, ServerEndpoint};

/// The claim that names a login.
const LOGIN_CLAIM: &str = "sid";

pub(super) type UserFilter = dyn Fn(&UpstreamUser) -> Option<ProxyUser> + Send + Sync;

/// The proxy.
pub(crate) struct ProxyState {
    pub(super) core: Core,
    pub(super) provider: Arc<Provider>,
    pub(super) approvals: Approvals,
    pub(super) attempts: Attempts,
    pub(super) logins: UpstreamLogins,
    pub(super) users: Box<UserFilter>,
}

impl ProxyState {
    async fn handle(&self, endpoint: ServerEndpoint, request: HttpRequest) -> HttpResponse {
        match endpoint {
            ServerEndpoint::Authorize => self.authorize(&request).await,
            ServerEndpoint::Callback if request.method == Method::GET => self.callback(&request).await,
            ServerEndpoint::Callback => method_not_allowed("GET"),
            ServerEndpoint::Token if request.method == Method::POST => {
                self.core.token_response(self.token(&request).await)
            }
            ServerEndpoint::Token => method_not_allowed("POST"),
            _ => self.core.respond(endpoint, &request).await,
        }
    }

    /// Shows the page that asks for approval, or processes its form. The form is sent to the same URL, so that the request is checked
    /// again. A request that was approved before continues at the provider.
    async fn authorize(&self, request: &HttpRequest) -> HttpResponse {
        let now = self.core.clock.now();
        let authorize = match self.core.authorize_request(&request.query, now).await {
            Ok(authorize) => authorize,
            Err(response) => return *response,
        };
        match request.method {
            Method::GET if self.approvals.contains(self.approval_cookie(request), &authorize, now) => {
                self.start(request, authorize, now).await
            }
            Method::GET => self.approval_page(request, &authorize),
            Method::POST => match self.check_approval(request, &authorize) {
                Ok(true) => {
                    let cookie = self.approvals.add(self.approval_cookie(request), &authorize, now);
                    let mut response = self.start(request, authorize, now).await;
                    if let Some(cookie) = cookie {
                        let lifetime = self.approvals.lifetime;
                        self.core.sessions.set_cookie(&mut response, consent::COOKIE, &cookie, lifetime);
                    }
                    response
                }
                Ok(false) => {
                    self.core.refuse(&authorize.details, &Refusal::new("access_denied", "the request was denied"))
                }
                Err(refusal) => error_page(&refusal.status(StatusCode::FORBIDDEN)),
            },
            _ => method_not_allowed("GET, POST"),
        }
    }

    fn approval_cookie<'a>(&self, request: &'a HttpRequest) -> Option<&'a str> {
        self.core.sessions.cookie(request, consent::COOKIE)
    }

    fn approval_page(&self, request: &HttpRequest, authorize: &AuthorizeRequest) -> HttpResponse {
        self.core.sessions.form_page(request, StatusCode::OK, "Approve access", &describe(authorize), |csrf| {
            format!(
                "<p>If you approve, you log in at <strong>{}</strong> next.</p>\
                 <form method=\"post\">{csrf}<button name=\"decision\" value=\"approve\">Approve</button>\
                 <button name=\"decision\" value=\"deny\">Deny</button></form>",
                escape(self.provider.name()),
            )
        })
    }

    /// Returns `true` if the form approves. It must come from the page that this browser has requested.
    fn check_approval(&self, request: &HttpRequest, authorize: &AuthorizeRequest) -> Result<bool, Refusal> {
        let form = request.form()?;
        self.core.sessions.check_form(request, &form, &describe(authorize))?;
        Ok(form.get("decision") == Some("approve"))
    }

    /// Sends the person to the provider.
    async fn start(&self, request: &HttpRequest, authorize: AuthorizeRequest, now: u64) -> HttpResponse {
        let attempt = Attempt::new(authorize.details);
        let cookie = match self.attempts.seal(&attempt, now) {
            Ok(cookie) => cookie,
            Err(refusal) => return self.core.refuse(&attempt.request, &refusal),
        };
        match self.provider.login_url(&attempt, now).await {
            Ok(url) => {
                let mut response = redirect(url.as_str());
                cookie.set(&self.core.sessions, request, &mut response, now);
                response
            }
            Err(error) => self.core.refuse(&attempt.request, &self.refusal(&error)),
        }
    }

    /// Completes a login when the provider sends the person back.
    async fn callback(&self, request: &HttpRequest) -> HttpResponse {
        let (now, sessions) = (self.core.clock.now(), &self.core.sessions);
        let callback = Callback::parse(&request.query).ok();
        let state = callback.as_ref().and_then(|callback| callback.state.as_ref());
        let attempt = state.and_then(|state| self.attempts.open(sessions, request, state, now));
        let attempt = attempt.filter(|attempt| self.attempts.claim(&attempt.state, now));
        let (Some(callback), Some(attempt)) = (callback, attempt) else {
            let reason = "the login is unknown, has expired, was completed before, or was started in another browser; start \
                          again in your application";
            return error_page(&Refusal::invalid_request(reason));
        };
        let mut response = match self.complete(&attempt, &callback, now).await {
            Ok(grant) => self.core.code_redirect(&attempt.request, grant, Family::new(), now),
            Err(refusal) => {
                self.attempts.release(&attempt.state, now);
                self.core.refuse(&attempt.request, &refusal)
            }
        };
        remove_cookie(sessions, &mut response, &attempt.state);
        response
    }

    /// Returns the rights of a person who has logged in.
    async fn complete(&self, attempt: &Attempt, callback: &Callback, now: u64) -> Result<Grant, Refusal> {
        let completed = self.provider.complete(attempt, callback, now).await;
        let (user, tokens) = completed.map_err(|error| self.refusal(&error))?;
        let denied = |reason| Refusal::new("access_denied", reason);
        let user = (self.users)(&user).ok_or_else(|| denied("this account has no access to this server"))?;
        let mut grant = self.core.grant_of(&attempt.request, &user.subject, now);
        if let Some(allowed) = &user.scopes {
            let asks_for_any = !grant.scopes.is_empty();
            grant.scopes.retain(|scope| allowed.contains(scope));
            if asks_for_any && grant.scopes.is_empty() {
                return Err(denied("this account has none of the requested scopes"));
            }
        }
        let login = self.logins.create(tokens);
        grant.claims = user.claims;
        grant.claims.insert(LOGIN_CLAIM.to_owned(), json!(login.sid));
        grant.login_data = Some(login);
        Ok(grant)
    }

    async fn token(&self, request: &HttpRequest) -> Result<Value, Refusal> {
        let request = self.core.token_request(request).await?;
        let result = match request.grant_type()? {
            "authorization_code" => self.core.redeem_code(&request),
            "refresh_token" => self.refresh(&request).await,
            _ => Err(Refusal::new("unsupported_grant_type", "the grant type is not supported")),
        };
        self.core.end_request(&request, &result);
        result
    }

    /// Replaces a refresh token if the provider confirms the login. If the provider cannot be reached, the refresh token stays valid.
    async fn refresh(&self, request: &TokenRequest) -> Result<Value, Refusal> {
        let (_, record) = self.core.find_refresh(request)?;
        let ended = || Refusal::invalid_grant("the login at the provider has ended");
        let login = login_of(&record.grant.login_data).ok_or_else(ended)?;
        let _refreshing = login.refreshing.lock().await;
        // Another request may have used the token meanwhile.
        let (family, record) = self.core.find_refresh(request)?;
        match self.provider.confirm(&login, request.now).await {
            Ok(()) => self.core.refresh(request, &family, &record),
            Err(UpstreamError::Ended) => {
                self.core.tokens.revoke_family(&family, request.now);
                Err(ended())
            }
            Err(error) => {
                tracing::warn!(
                    issuer = self.core.issuer,
                    error = error_chain(&error),
                    "the provider cannot confirm a login"
                );
                Err(Refusal::unavailable("the provider cannot be reached; try again later"))
            }
        }
    }

    pub(super) async fn upstream_token(&self, principal: &Principal) -> Result<Secret, UpstreamError> {
        let is_own = principal.issuer() == Some(&self.core.issuer);
        let sid = principal.claim::<String>(LOGIN_CLAIM).filter(|_| is_own);
        let login = sid.and_then(|sid| self.logins.find(&sid)).ok_or(UpstreamError::NoLogin)?;
        self.provider.access_token(&login, self.core.clock.now()).await
    }

    /// Returns the error for the client. Its text has nothing that the provider or a browser has sent but a known code.
    fn refusal(&self, error: &UpstreamError) -> Refusal {
        tracing::warn!(issuer = self.core.issuer, error = error_chain(error), "a login at the provider failed");
        if let UpstreamError::Request(error) = error
            && let OAuthErrorKind::Callback(response) = error.kind()
        {
            return callback_refusal(&response.error);
        }
        if error.is_transient() {
            return Refusal::unavailable("the provider cannot be reached; try again later");
        }
        Refusal::new("server_error", "the login at the provider failed")
    }
}

/// Returns the error for a code of the provider. Codes about the request of the proxy are none of the client's.
fn callback_refusal(code: &str) -> Refusal {
    const PASSED_ON: [&str; 5] =
        ["access_denied", "account_selection_required", "consent_required", "interaction_required", "login_required"];
    match PASSED_ON.into_iter().find(|known| *known == code) {
        Some(known) => Refusal::new(known, "the provider did not complete the login"),
        None if code == "temporarily_unavailable" => {
            Refusal::unavailable("the provider cannot log people in at the moment; try again later")
        }
        None => Refusal::new("server_error", "the provider did not complete the login"),
    }
}

fn login_of(data: &LoginData) -> Option<Arc<UpstreamLogin>> {
    data.clone()?.downcast().ok()
}

impl Application for ProxyState {
    fn respond(&self, request: HttpRequest) -> BoxFuture<'_, HttpResponse> {
        Box::pin(self.core.route(request, |endpoint, request| self.handle(endpoint, request)))
    }
}

impl fmt::Debug for ProxyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyState").field("issuer", &self.core.issuer).finish_non_exhaustive()
    }
}
