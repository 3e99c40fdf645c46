//! The endpoints of the development server.

use std::collections::HashMap;
use std::fmt;

use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use turms_core::BoxFuture;

use super::DevUser;
use super::device::DeviceLogins;
use super::grants::{GRANT_TYPES, TrustedIssuer};
use crate::secret::Secret;
use crate::server::authorize::{AuthorizeRequest, RequestDetails};
use crate::server::claims::text;
use crate::server::http::{Application, HttpRequest, HttpResponse, json_response, method_not_allowed};
use crate::server::page::{describe, error_page, escape};
use crate::server::params::Params;
use crate::server::refusal::Refusal;
use crate::server::tokens::Family;
use crate::server::{Core, ServerEndpoint};

/// The decision about requests of clients.
#[derive(Debug, Clone)]
pub(super) enum Approval {
    /// A page asks.
    Ask,
    /// This user approves.
    Approve(String),
    Deny,
}

/// The development server.
pub(crate) struct DevState {
    pub(super) core: Core,
    users: Vec<DevUser>,
    pub(super) approval: Approval,
    pub(super) identity_providers: Vec<TrustedIssuer>,
    pub(super) workload_issuers: Vec<TrustedIssuer>,
    pub(super) devices: DeviceLogins,
    pub(super) requests: Counters,
    pub(super) grants: Counters,
}

/// Counts events by their name. Only known names are counted, so that the number of counters is bounded.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<HashMap<String, u64>>);

impl Counters {
    pub(super) fn add(&self, name: &str) {
        *self.0.lock().entry(name.to_owned()).or_default() += 1;
    }

    pub(super) fn get(&self, name: &str) -> u64 {
        self.0.lock().get(name).copied().unwrap_or_default()
    }
}

impl DevState {
    pub(super) fn new(
        core: Core,
        users: Vec<DevUser>,
        approval: Approval,
        identity_providers: Vec<TrustedIssuer>,
        workload_issuers: Vec<TrustedIssuer>,
        devices: DeviceLogins,
    ) -> Self {
        let (requests, grants) = (Counters::default(), Counters::default());
        Self { core, users, approval, identity_providers, workload_issuers, devices, requests, grants }
    }

    pub(super) fn user(&self, name: &str) -> Option<&DevUser> {
        self.users.iter().find(|user| user.name == name)
    }

    async fn handle(&self, endpoint: ServerEndpoint, request: HttpRequest) -> HttpResponse {
        self.requests.add(self.core.path_of(&request.path));
        let is_post = request.method == Method::POST;
        match endpoint {
            ServerEndpoint::Authorize => self.authorize(&request).await,
            ServerEndpoint::Token if is_post => self.core.token_response(self.token(&request).await),
            ServerEndpoint::Token => method_not_allowed("POST"),
            ServerEndpoint::DeviceAuthorization if is_post => {
                self.device_authorization(&request).await.unwrap_or_else(Refusal::into_response)
            }
            ServerEndpoint::DeviceAuthorization => method_not_allowed("POST"),
            ServerEndpoint::Device => self.device(&request),
            ServerEndpoint::UserInfo => self.user_info(&request).unwrap_or_else(Refusal::into_response),
            _ => self.core.respond(endpoint, &request).await,
        }
    }

    /// Shows the page for a request, or processes its form. The form is sent to the same URL, so that the request is checked again.
    async fn authorize(&self, request: &HttpRequest) -> HttpResponse {
        let now = self.core.clock.now();
        let authorize = match self.core.authorize_request(&request.query, now).await {
            Ok(authorize) => authorize,
            Err(response) => return *response,
        };
        match (&request.method, &self.approval) {
            (&Method::GET, Approval::Approve(user)) => self.approve(&authorize.details, user, now),
            (&Method::GET, Approval::Deny) => self.deny(&authorize.details),
            (&Method::GET, Approval::Ask) => self.login_page(request, &authorize, StatusCode::OK, ""),
            (&Method::POST, _) => self.login(request, &authorize, now),
            _ => method_not_allowed("GET, POST"),
        }
    }

    fn login(&self, request: &HttpRequest, authorize: &AuthorizeRequest, now: u64) -> HttpResponse {
        let form = match request.form() {
            Ok(form) => form,
            Err(refusal) => return error_page(&refusal),
        };
        if let Err(refusal) = self.core.sessions.check_form(request, &form, &describe(authorize)) {
            return error_page(&refusal.status(StatusCode::FORBIDDEN));
        }
        if form.get("decision") != Some("approve") {
            return self.deny(&authorize.details);
        }
        match self.check_login(&form) {
            Some(user) => self.approve(&authorize.details, &user.name, now),
            None => self.login_page(request, authorize, StatusCode::FORBIDDEN, "The name or the password is wrong."),
        }
    }

    /// Returns the user of a form, if the password is right.
    pub(super) fn check_login(&self, form: &Params) -> Option<&DevUser> {
        let user = self.user(form.get("user")?)?;
        let password = form.get("password").map(Secret::new);
        (user.password.is_none() || user.password == password).then_some(user)
    }

    fn login_page(
        &self,
        request: &HttpRequest,
        authorize: &AuthorizeRequest,
        status: StatusCode,
        problem: &str,
    ) -> HttpResponse {
        self.core.sessions.form_page(request, status, "Log in", &describe(authorize), |csrf| {
            format!(
                "<p class=\"warning\">Development server: not for production.</p><p>{}</p>\
                 <form method=\"post\">{csrf}{}<button name=\"decision\" value=\"approve\">Approve</button>\
                 <button name=\"decision\" value=\"deny\">Deny</button></form>",
                escape(problem),
                self.login_fields(),
            )
        })
    }

    /// Returns the fields for the name and the password.
    pub(super) fn login_fields(&self) -> String {
        let mut fields = "<label>User <input name=\"user\" autocomplete=\"username\"></label>".to_owned();
        if self.users.iter().any(|user| user.password.is_some()) {
            fields.push_str(
                "<label>Password <input name=\"password\" type=\"password\" autocomplete=\"current-password\"></label>",
            );
        }
        fields
    }

    fn approve(&self, authorize: &RequestDetails, user: &str, now: u64) -> HttpResponse {
        let mut grant = self.core.grant_of(authorize, user, now);
        grant.claims = self.user(user).map(|user| user.claims.clone()).unwrap_or_default();
        self.core.code_redirect(authorize, grant, Family::new(), now)
    }

    fn deny(&self, authorize: &RequestDetails) -> HttpResponse {
        self.core.refuse(authorize, &Refusal::new("access_denied", "the request was denied"))
    }

    async fn token(&self, request: &HttpRequest) -> Result<Value, Refusal> {
        let request = self.core.token_request(request).await?;
        let grant_type = request.grant_type()?;
        let result = self.grant(grant_type, &request);
        self.core.end_request(&request, &result);
        if result.is_ok() && GRANT_TYPES.contains(&grant_type) {
            self.grants.add(grant_type);
        }
        result
    }

    /// Responds with the claims of the user of an access token.
    fn user_info(&self, request: &HttpRequest) -> Result<HttpResponse, Refusal> {
        let now = self.core.clock.now();
        let invalid = || Refusal::new("invalid_token", "the token is invalid").status(StatusCode::UNAUTHORIZED);
        let (bearer, dpop) = (request.authorization("Bearer"), request.authorization("DPoP"));
        let token = bearer.or(dpop).ok_or_else(invalid)?;
        let claims = self.core.tokens.access_claims(token, now).ok_or_else(invalid)?;
        let proof = self.core.proofs.check(request, &self.core.url("/userinfo"), Some(token), now)?;
        let jkt = proof.as_ref().map(|proof| &*proof.jkt);
        let bound = claims.get("cnf").and_then(|cnf| cnf.get("jkt")).and_then(Value::as_str);
        if bound != jkt || bound.is_some() != dpop.is_some() {
            return Err(invalid());
        }
        let subject = text(&claims, "sub").ok_or_else(invalid)?;
        let mut info = self.user(subject).map(|user| user.claims.clone()).unwrap_or_default();
        info.insert("sub".to_owned(), json!(subject));
        Ok(json_response(StatusCode::OK, &info))
    }
}

impl Application for DevState {
    fn respond(&self, request: HttpRequest) -> BoxFuture<'_, HttpResponse> {
        Box::pin(self.core.route(request, |endpoint, request| self.handle(endpoint, request)))
    }
}

impl fmt::Debug for DevState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevState").field("issuer", &self.core.issuer).finish_non_exhaustive()
    }
}
