//! Requests to the authorization endpoint (RFC 6749, 4.1.1).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use url::Url;

use super::Core;
use super::clients::{ClientOrigin, ServerClient};
use super::codes::CodeRecord;
use super::http::{HttpResponse, redirect};
use super::page::{error_page, error_page_with_link};
use super::params::{Params, split_scopes};
use super::redirect::host_of;
use super::refusal::Refusal;
use super::tokens::{Family, Grant};
use crate::jws::{encode, sha256};

/// A valid authorization request.
#[derive(Debug, Clone)]
pub(crate) struct AuthorizeRequest {
    pub(crate) client: Arc<ServerClient>,
    pub(crate) details: RequestDetails,
}

/// The part of an authorization request that is needed to respond to it. The proxy keeps it in a cookie, so its members have short
/// names.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RequestDetails {
    /// The hash of the id of the client, because ids may be long.
    #[serde(rename = "c")]
    pub(crate) client: String,
    #[serde(rename = "u")]
    pub(crate) redirect_uri: String,
    #[serde(rename = "i")]
    pub(crate) is_redirect_uri_sent: bool,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(rename = "p")]
    pub(crate) challenge: String,
    #[serde(rename = "s")]
    pub(crate) scopes: Vec<String>,
    #[serde(rename = "r")]
    pub(crate) resources: Vec<String>,
    /// `nonce` of OpenID Connect.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub(crate) nonce: Option<String>,
    /// Thumbprint of the only key that may use the code.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub(crate) jkt: Option<String>,
}

impl RequestDetails {
    /// Returns `true` if a client has sent the request.
    pub(crate) fn is_of(&self, client: &ServerClient) -> bool {
        self.client == client_hash(client)
    }
}

fn client_hash(client: &ServerClient) -> String {
    encode(sha256(&client.id))
}

impl Core {
    /// Checks an authorization request.
    ///
    /// # Errors
    /// The response. It is a redirect only if the client and its redirect URI are valid, and the client is trusted with that.
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
            .map_err(|refusal| Box::new(self.refuse_unasked(&client, redirect_uri, params.get("state"), &refusal)))
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
        if params.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(Refusal::invalid_request("the response mode is not query"));
        }
        client.check_grant("authorization_code")?;
        let challenge = params.required("code_challenge")?;
        if params.get("code_challenge_method") != Some("S256") {
            return Err(Refusal::invalid_request("the code_challenge_method is not S256"));
        }
        if challenge.len() != 43 || !challenge.bytes().all(is_base64url) {
            return Err(Refusal::invalid_request("the code_challenge is not a SHA-256 in base64url"));
        }
        let details = RequestDetails {
            client: client_hash(&client),
            scopes: self.check_scopes(params.get("scope"), Some(&client))?,
            resources: self.check_resources(params)?,
            redirect_uri: redirect_uri.to_owned(),
            is_redirect_uri_sent: params.get("redirect_uri").is_some(),
            state: params.get("state").map(str::to_owned),
            challenge: challenge.to_owned(),
            nonce: params.get("nonce").map(str::to_owned),
            jkt: params.get("dpop_jkt").map(str::to_owned),
        };
        Ok(AuthorizeRequest { client, details })
    }

    /// Returns the scopes of a request. Without any, the default.
    pub(crate) fn check_scopes(
        &self,
        requested: Option<&str>,
        client: Option<&ServerClient>,
    ) -> Result<Vec<String>, Refusal> {
        let settings = &self.settings;
        let is_allowed = |scope: &String| {
            settings.scopes.as_ref().is_none_or(|all| all.contains(scope))
                && client.and_then(|client| client.scopes.as_ref()).is_none_or(|own| own.contains(scope))
        };
        let Some(requested) = requested else {
            let own = client.and_then(|client| client.default_scopes.as_ref());
            let default = own.or(settings.default_scopes.as_ref()).or(settings.scopes.as_ref());
            return Ok(default.into_iter().flatten().filter(|scope| is_allowed(scope)).cloned().collect());
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

    /// Returns the resources of a request (RFC 8707), spelled as in the settings.
    pub(crate) fn check_resources(&self, params: &Params) -> Result<Vec<String>, Refusal> {
        let mut resources: Vec<String> = Vec::new();
        for resource in params.all("resource") {
            let own = self.find_resource(resource);
            let own = own.ok_or_else(|| Refusal::new("invalid_target", "the resource is invalid or unknown"))?;
            if !resources.contains(&own) {
                resources.push(own);
            }
        }
        Ok(resources)
    }

    /// Returns a resource as the settings spell it. Some clients write URLs without a path with a slash at the end, others without.
    pub(crate) fn find_resource(&self, resource: &str) -> Option<String> {
        let is_absolute = Url::parse(resource).is_ok_and(|url| !url.cannot_be_a_base()) && !resource.contains('#');
        let without_slash = |text: &str| text.strip_suffix('/').unwrap_or(text).to_owned();
        let is_same = |own: &&String| without_slash(own) == without_slash(resource);
        match &*self.settings.resources {
            _ if !is_absolute => None,
            [] => Some(resource.to_owned()),
            allowed => allowed.iter().find(is_same).cloned(),
        }
    }

    /// Creates the rights of an approved request. They are those of the client that exchanges the code.
    pub(crate) fn grant_of(&self, request: &RequestDetails, subject: &str, now: u64) -> Grant {
        Grant {
            client_id: String::new(),
            subject: subject.to_owned(),
            scopes: request.scopes.clone(),
            audiences: self.audiences(&request.resources),
            claims: super::claims::Claims::new(),
            login_data: None,
            since: now,
        }
    }

    /// Issues a code for an approved request, and redirects to the client.
    pub(crate) fn code_redirect(
        &self,
        request: &RequestDetails,
        grant: Grant,
        family: Family,
        now: u64,
    ) -> HttpResponse {
        let record = CodeRecord { grant, family, request: request.clone() };
        let code = self.codes.issue(record, self.settings.code_lifetime, now);
        self.client_redirect(&request.redirect_uri, request.state.as_deref(), &[("code", code.expose())])
    }

    /// Redirects to the client with an error.
    pub(crate) fn refuse(&self, request: &RequestDetails, refusal: &Refusal) -> HttpResponse {
        self.error_redirect(&request.redirect_uri, request.state.as_deref(), refusal)
    }

    /// Responds to an invalid request that no person has seen. A client that has registered itself could use a redirect to lead people
    /// from this server to any site (RFC 9700, 4.11.2), so that the response is a page with a link, unless it leads to this machine.
    fn refuse_unasked(
        &self,
        client: &ServerClient,
        redirect_uri: &str,
        state: Option<&str>,
        refusal: &Refusal,
    ) -> HttpResponse {
        let (host, is_local) = host_of(redirect_uri);
        if client.origin == ClientOrigin::Configured || is_local {
            return self.error_redirect(redirect_uri, state, refusal);
        }
        match self.client_url(redirect_uri, state, &error_params(refusal)) {
            Some(url) => error_page_with_link(refusal, url.as_str(), &host),
            None => error_page(refusal),
        }
    }

    fn error_redirect(&self, redirect_uri: &str, state: Option<&str>, refusal: &Refusal) -> HttpResponse {
        self.client_redirect(redirect_uri, state, &error_params(refusal))
    }

    fn client_redirect(&self, redirect_uri: &str, state: Option<&str>, params: &[(&str, &str)]) -> HttpResponse {
        match self.client_url(redirect_uri, state, params) {
            Some(url) => redirect(url.as_str()),
            None => error_page(&Refusal::invalid_request("the redirect_uri is invalid")),
        }
    }

    /// Returns the URL of a response to the client, with `state` and `iss` (RFC 9207).
    fn client_url(&self, redirect_uri: &str, state: Option<&str>, params: &[(&str, &str)]) -> Option<Url> {
        let mut url = Url::parse(redirect_uri).ok()?;
        let state = state.map(|state| ("state", state));
        url.query_pairs_mut().extend_pairs(params).extend_pairs(state).append_pair("iss", &self.issuer);
        Some(url)
    }
}

fn error_params(refusal: &Refusal) -> [(&str, &str); 2] {
    [("error", refusal.error), ("error_description", &refusal.description)]
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}
