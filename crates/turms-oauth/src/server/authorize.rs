//! Requests to the authorization endpoint (RFC 6749, 4.1.1).

use std::sync::Arc;

use url::Url;

use super::Core;
use super::clients::ServerClient;
use super::codes::CodeRecord;
use super::http::{HttpResponse, redirect};
use super::page::error_page;
use super::params::{Params, split_scopes};
use super::refusal::Refusal;
use super::tokens::{Family, Grant};

/// A valid authorization request.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizeRequest {
    pub(crate) client: Arc<ServerClient>,
    pub(crate) redirect_uri: String,
    is_redirect_uri_sent: bool,
    state: Option<String>,
    challenge: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) resources: Vec<String>,
    nonce: Option<String>,
    jkt: Option<String>,
}

impl Core {
    /// Checks an authorization request.
    ///
    /// # Errors
    /// The response. Only if the client and its redirect URI are valid, it is a redirect.
    pub(crate) async fn authorize_request(&self, query: &str, now: u64) -> Result<AuthorizeRequest, Box<HttpResponse>> {
        let page = |refusal: Refusal| Box::new(error_page(&refusal));
        let params = Params::parse(query).map_err(page)?;
        let id = params.required("client_id").map_err(page)?;
        let unknown = || Refusal::invalid_client("the client is unknown");
        let client = self.clients.find(id, now).await.and_then(|client| client.ok_or_else(unknown)).map_err(page)?;
        let redirect_uri = match (params.get("redirect_uri"), &*client.redirect_uris) {
            (Some(uri), _) if client.allows_redirect(uri) => uri,
            (None, [only]) => only,
            _ => return Err(page(Refusal::invalid_request("the redirect_uri is not registered for this client"))),
        };
        self.check_authorize(&params, client.clone(), redirect_uri)
            .map_err(|refusal| Box::new(self.error_redirect(redirect_uri, params.get("state"), &refusal)))
    }

    fn check_authorize(
        &self,
        params: &Params,
        client: Arc<ServerClient>,
        redirect_uri: &str,
    ) -> Result<AuthorizeRequest, Refusal> {
        if params.get("request").is_some() {
            return Err(Refusal::new("request_not_supported", "request objects are not supported"));
        }
        if params.get("request_uri").is_some() {
            return Err(Refusal::new("request_uri_not_supported", "request objects are not supported"));
        }
        if params.required("response_type")? != "code" {
            return Err(Refusal::new("unsupported_response_type", "the response type is not code"));
        }
        client.check_grant("authorization_code")?;
        let challenge = params.required("code_challenge")?;
        if params.get("code_challenge_method") != Some("S256") {
            return Err(Refusal::invalid_request("the code_challenge_method is not S256"));
        }
        if challenge.len() != 43 || !challenge.bytes().all(is_base64url) {
            return Err(Refusal::invalid_request("the code_challenge is not a SHA-256 in base64url"));
        }
        Ok(AuthorizeRequest {
            scopes: self.check_scopes(params.get("scope"), &client)?,
            resources: self.check_resources(params)?,
            redirect_uri: redirect_uri.to_owned(),
            is_redirect_uri_sent: params.get("redirect_uri").is_some(),
            state: params.get("state").map(str::to_owned),
            challenge: challenge.to_owned(),
            nonce: params.get("nonce").map(str::to_owned),
            jkt: params.get("dpop_jkt").map(str::to_owned),
            client,
        })
    }

    /// Returns the scopes of a request. Without any, the default.
    pub(crate) fn check_scopes(&self, requested: Option<&str>, client: &ServerClient) -> Result<Vec<String>, Refusal> {
        let settings = &self.settings;
        let is_allowed = |scope: &String| {
            (settings.scopes.is_empty() || settings.scopes.contains(scope))
                && client.scopes.as_ref().is_none_or(|own| own.contains(scope))
        };
        let Some(requested) = requested else {
            let default = settings.default_scopes.as_ref().unwrap_or(&settings.scopes);
            return Ok(default.iter().filter(|scope| is_allowed(scope)).cloned().collect());
        };
        let is_printable =
            |scope: &String| scope.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
        let scopes = split_scopes(requested);
        if scopes.iter().all(|scope| is_allowed(scope) && is_printable(scope)) {
            Ok(scopes)
        } else {
            Err(Refusal::new("invalid_scope", "a scope is unknown or not allowed for this client"))
        }
    }

    /// Returns the resources of a request (RFC 8707).
    pub(crate) fn check_resources(&self, params: &Params) -> Result<Vec<String>, Refusal> {
        let allowed = &self.settings.resources;
        let is_valid = |resource: &str| {
            let is_absolute = Url::parse(resource).is_ok_and(|url| !url.cannot_be_a_base()) && !resource.contains('#');
            is_absolute && (allowed.is_empty() || allowed.iter().any(|own| own == resource))
        };
        let resources: Vec<String> = params.all("resource").map(str::to_owned).collect();
        if resources.iter().all(|resource| is_valid(resource)) {
            Ok(resources)
        } else {
            Err(Refusal::new("invalid_target", "the resource is invalid or unknown"))
        }
    }

    /// Creates the rights of an approved request.
    pub(crate) fn grant_of(&self, request: &AuthorizeRequest, subject: &str, now: u64) -> Grant {
        Grant {
            client_id: request.client.id.clone(),
            subject: subject.to_owned(),
            scopes: request.scopes.clone(),
            audiences: self.audiences(&request.resources),
            claims: super::claims::Claims::new(),
            since: now,
        }
    }

    /// Issues a code for an approved request, and redirects to the client.
    pub(crate) fn code_redirect(
        &self,
        request: &AuthorizeRequest,
        grant: Grant,
        family: Family,
        now: u64,
    ) -> HttpResponse {
        let record = CodeRecord {
            grant,
            family,
            redirect_uri: request.is_redirect_uri_sent.then(|| request.redirect_uri.clone()),
            challenge: request.challenge.clone(),
            nonce: request.nonce.clone(),
            jkt: request.jkt.clone(),
        };
        let code = self.codes.issue(record, self.settings.code_lifetime, now);
        self.client_redirect(&request.redirect_uri, request.state.as_deref(), &[("code", code.expose())])
    }

    /// Redirects to the client with an error.
    pub(crate) fn refuse(&self, request: &AuthorizeRequest, refusal: &Refusal) -> HttpResponse {
        self.error_redirect(&request.redirect_uri, request.state.as_deref(), refusal)
    }

    fn error_redirect(&self, redirect_uri: &str, state: Option<&str>, refusal: &Refusal) -> HttpResponse {
        let params = [("error", refusal.error), ("error_description", &refusal.description)];
        self.client_redirect(redirect_uri, state, &params)
    }

    /// Redirects to the client, with `state` and `iss` (RFC 9207).
    fn client_redirect(&self, redirect_uri: &str, state: Option<&str>, params: &[(&str, &str)]) -> HttpResponse {
        let Ok(mut url) = Url::parse(redirect_uri) else {
            return error_page(&Refusal::invalid_request("the redirect_uri is invalid"));
        };
        let state = state.map(|state| ("state", state));
        url.query_pairs_mut().extend_pairs(params).extend_pairs(state).append_pair("iss", &self.issuer);
        redirect(url.as_str())
    }
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}
