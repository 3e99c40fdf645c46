//! The request that all grants share.

use std::fmt;

use http::{HeaderValue, Method};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::client_auth::ClientIdentity;
use crate::dpop::{DPOP, DpopKey};
use crate::error::{OAuthError, OAuthErrorKind};
use crate::fetch::{FetchResponse, FetchStep, Fetcher};
use crate::metadata::{AuthorizationServerMetadata, OAuthErrorResponse, TokenResponse, printable};
use crate::secret::Secret;

/// Parameters that requests for tokens share. All are optional.
///
/// ```
/// use turms_oauth::TokenParameters;
///
/// let parameters = TokenParameters::new().scope("notes:read").resource("https://notes.example.com/mcp");
/// ```
#[derive(Clone, Default)]
pub struct TokenParameters<'a> {
    pub(super) scope: Option<&'a str>,
    pub(super) resource: Option<&'a str>,
    pub(super) proof: Option<&'a DpopKey>,
    extra: Vec<(&'a str, &'a str)>,
}

impl<'a> TokenParameters<'a> {
    /// No parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the scopes, separated by spaces. Requests with a code or a refresh token have none: they keep those of the login.
    #[must_use]
    pub fn scope(mut self, scope: impl Into<Option<&'a str>>) -> Self {
        self.scope = scope.into().filter(|scope| !scope.is_empty());
        self
    }

    /// Sets the MCP server that the token is for (RFC 8707), exactly as its metadata has it.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<Option<&'a str>>) -> Self {
        self.resource = resource.into();
        self
    }

    /// Demands a token that is bound to a key (RFC 9449). A response with another token is an error.
    #[must_use]
    pub fn proof(mut self, key: impl Into<Option<&'a DpopKey>>) -> Self {
        self.proof = key.into();
        self
    }

    /// Adds a parameter that only some servers know, such as `audience`.
    #[must_use]
    pub fn extra(mut self, name: &'a str, value: &'a str) -> Self {
        self.extra.push((name, value));
        self
    }
}

/// Does not show the values of extra parameters.
impl fmt::Debug for TokenParameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.extra.iter().map(|(name, _)| name).collect();
        f.debug_struct("TokenParameters")
            .field("scope", &self.scope)
            .field("resource", &self.resource)
            .field("proof", &self.proof)
            .field("extra", &names)
            .finish()
    }
}

/// A request for a token.
pub(super) struct TokenRequest<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) metadata: &'a AuthorizationServerMetadata,
    pub(super) client: Option<&'a ClientIdentity>,
    pub(super) step: FetchStep,
    pub(super) parameters: &'a TokenParameters<'a>,
}

impl TokenRequest<'_> {
    /// Requests a token with the fields of a grant, and checks its type.
    pub(super) async fn send(&self, grant: &[(&str, &str)]) -> Result<TokenResponse, OAuthError> {
        let (response, token) = self.send_unchecked(grant).await?;
        self.check_type(&response, &token)?;
        Ok(token)
    }

    /// Requests a token of any type.
    pub(super) async fn send_unchecked(
        &self,
        grant: &[(&str, &str)],
    ) -> Result<(FetchResponse, TokenResponse), OAuthError> {
        let endpoint = self.metadata.token_endpoint.as_deref();
        let endpoint = endpoint.ok_or_else(|| self.metadata.lacks("token endpoint"))?;
        let parameters = self.parameters;
        let mut fields = grant.to_vec();
        fields.extend(parameters.resource.map(|resource| ("resource", resource)));
        fields.extend(&parameters.extra);
        let response = self.post(endpoint, &fields, parameters.proof).await?;
        let token: TokenResponse = response.json()?;
        let is_visible = |byte: u8| byte.is_ascii_graphic();
        if token.access_token.is_empty() || !token.access_token.expose().bytes().all(is_visible) {
            return Err(invalid_token(&response, self.step, "it is empty or has characters that headers cannot have"));
        }
        Ok((response, token))
    }

    /// Posts fields with the client's credentials and a proof, and returns a success. If the server demands a nonce, or its clock
    /// differs, repeats the request once with new credentials and a new proof.
    pub(super) async fn post(
        &self,
        endpoint: &str,
        fields: &[(&str, &str)],
        proof: Option<&DpopKey>,
    ) -> Result<FetchResponse, OAuthError> {
        let url = self.fetcher.check(self.step, endpoint)?;
        let (mut has_nonce, mut is_corrected) = (false, false);
        loop {
            let credentials = self.client.map(|client| client.credentials(self.metadata)).transpose()?;
            let credentials = credentials.unwrap_or_default();
            let mut headers = credentials.headers.clone();
            let nonce = proof.and_then(|key| key.nonce(&url));
            if let Some(key) = proof {
                let proof = key.proof(&Method::POST, &url, None, nonce.as_deref());
                headers.insert(DPOP, HeaderValue::try_from(proof).expect("a token is valid in a header"));
            }
            let mut form = fields.to_vec();
            form.extend(credentials.form.iter().map(|(name, value)| (*name, value.expose())));
            let response = self.fetcher.post_form(self.step, endpoint, &form, headers).await?;
            // The key may have learned this nonce from another response meanwhile: the one that was sent counts.
            let is_new = proof.is_some_and(|key| key.observe(&url, &response.headers) && key.nonce(&url) != nonce);
            let Some(error) = error_response(&response, &form, &credentials.header_secrets) else {
                return if response.status.is_success() { Ok(response) } else { Err(response.status_error().into()) };
            };
            if error.error == "use_dpop_nonce" && is_new && !has_nonce {
                has_nonce = true;
                continue;
            }
            // The clocks may differ.
            let may_correct = error.error == "invalid_dpop_proof" && !is_corrected;
            if may_correct && proof.is_some_and(|key| key.correct_clock(&response.headers)) {
                is_corrected = true;
                continue;
            }
            return Err(OAuthError::new(OAuthErrorKind::Response {
                step: self.step,
                origin: response.origin(),
                status: response.status,
                error,
            }));
        }
    }

    fn check_type(&self, response: &FetchResponse, token: &TokenResponse) -> Result<(), OAuthError> {
        let is = |name: &str| token.token_type.eq_ignore_ascii_case(name);
        let invalid = |reason: &str| Err(invalid_token(response, self.step, reason));
        match self.parameters.proof {
            Some(_) if is("DPoP") => Ok(()),
            Some(_) if is("Bearer") => invalid("it is not bound to the key (DPoP), although that was demanded"),
            None if is("Bearer") => Ok(()),
            None if is("DPoP") => invalid("it is bound to a key (DPoP), although no proof was sent"),
            _ => invalid(&format!("its type {:?} is not supported", printable(&token.token_type))),
        }
    }
}

impl AuthorizationServerMetadata {
    /// Creates an error for an endpoint that is not in the metadata.
    pub(crate) fn lacks(&self, endpoint: &str) -> OAuthError {
        OAuthError::unsupported(&self.issuer, format!("has no {endpoint}"))
    }
}

pub(super) fn invalid_token(response: &FetchResponse, step: FetchStep, reason: &str) -> OAuthError {
    OAuthError::new(OAuthErrorKind::InvalidToken { step, origin: response.origin(), reason: reason.to_owned() })
}

/// Fields with values that may be shown.
const PUBLIC_FIELDS: [&str; 10] = [
    "audience",
    "client_assertion_type",
    "client_id",
    "grant_type",
    "redirect_uri",
    "requested_token_type",
    "resource",
    "scope",
    "subject_token_type",
    "token_type_hint",
];

/// Codes of errors that a client acts on. A secret that is a part of one, such as "client", does not change it.
const KNOWN_ERRORS: [&str; 14] = [
    "access_denied",
    "authorization_pending",
    "expired_token",
    "invalid_client",
    "invalid_dpop_proof",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "server_error",
    "slow_down",
    "temporarily_unavailable",
    "unauthorized_client",
    "use_dpop_nonce",
];

/// Returns the error response. Some servers send it with status 200. Values of the request that are secret are removed.
fn error_response(
    response: &FetchResponse,
    form: &[(&str, &str)],
    header_secrets: &[Secret],
) -> Option<OAuthErrorResponse> {
    let members: Map<String, Value> = response.any_json().ok()?;
    if response.status.is_success() && members.contains_key("access_token") {
        return None;
    }
    let mut error = OAuthErrorResponse::deserialize(Value::Object(members)).ok()?;
    let secrets = form.iter().filter(|(name, _)| !PUBLIC_FIELDS.contains(name)).map(|(_, value)| *value);
    let is_known = KNOWN_ERRORS.contains(&&*error.error);
    for secret in secrets.chain(header_secrets.iter().map(Secret::expose)).filter(|secret| secret.len() >= 4) {
        // A server may repeat the form as it was sent.
        let encoded = Secret::new(url::form_urlencoded::byte_serialize(secret.as_bytes()).collect::<String>());
        for secret in [secret, encoded.expose()] {
            let code = Some(&mut error.error).filter(|_| !is_known);
            for text in [code, error.error_description.as_mut(), error.error_uri.as_mut()] {
                if let Some(text) = text.filter(|text| text.contains(secret)) {
                    *text = text.replace(secret, "[..]");
                }
            }
        }
    }
    Some(error)
}
