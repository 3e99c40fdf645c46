//! The authorization code flow with PKCE.

use url::Url;

use super::token::{TokenParameters, TokenRequest};
use crate::client_auth::ClientIdentity;
use crate::error::{OAuthError, OAuthErrorKind};
use crate::fetch::{FetchStep, Fetcher};
use crate::metadata::{AuthorizationServerMetadata, OAuthErrorResponse, TokenResponse, printable};
use crate::network::is_loopback;
use crate::pkce::Pkce;
use crate::secret::Secret;

/// Parameters of [`authorization_url`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AuthorizationRequest {
    /// The id of the client.
    pub client_id: String,
    /// The URL that the code is sent to.
    pub redirect_uri: String,
    /// A random value that comes back with the code: [`random_token`](crate::random_token).
    pub state: Secret,
    /// The challenge of [`pkce`](crate::pkce).
    pub challenge: String,
    /// Scopes, separated by spaces.
    pub scope: Option<String>,
    /// The MCP server that the token is for, exactly as its metadata has it.
    pub resource: Option<String>,
    /// Parameters that only some servers know, such as `prompt`. They do not replace others.
    pub extra: Vec<(String, String)>,
}

impl AuthorizationRequest {
    /// A request without scope and resource.
    pub fn new(client_id: impl Into<String>, redirect_uri: impl Into<String>, state: &Secret, pkce: &Pkce) -> Self {
        Self {
            client_id: client_id.into(),
            redirect_uri: redirect_uri.into(),
            state: state.clone(),
            challenge: pkce.challenge.clone(),
            scope: None,
            resource: None,
            extra: Vec::new(),
        }
    }

    /// Sets the scopes. None are sent if there are none.
    #[must_use]
    pub fn scopes<S: AsRef<str>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        let scopes: Vec<S> = scopes.into_iter().collect();
        let scopes: Vec<&str> = scopes.iter().map(AsRef::as_ref).collect();
        self.scope = Some(scopes.join(" ")).filter(|scope| !scope.is_empty());
        self
    }

    /// Sets the MCP server that the token is for, exactly as its metadata has it.
    #[must_use]
    pub fn resource<'a>(mut self, resource: impl Into<Option<&'a str>>) -> Self {
        self.resource = resource.into().map(str::to_owned);
        self
    }

    /// Adds a parameter that only some servers know, such as `prompt`.
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }
}

/// Returns the URL that a person opens in a browser to log in.
///
/// ```
/// use turms_oauth::{AuthorizationRequest, AuthorizationServerMetadata, Fetcher, authorization_url, pkce, random_token};
///
/// # fn example(metadata: &AuthorizationServerMetadata) -> Result<(), Box<dyn std::error::Error>> {
/// let fetcher = Fetcher::for_server(&"https://notes.example.com/mcp".parse()?);
/// let (pkce, state) = (pkce(), random_token());
/// let request = AuthorizationRequest::new("notes-agent", "http://127.0.0.1:8085/callback", &state, &pkce)
///     .scopes(["notes:read"])
///     .resource("https://notes.example.com/mcp");
/// println!("open {}", authorization_url(&fetcher, metadata, &request)?);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the server has no authorization endpoint or does not announce PKCE with S256, the endpoint is not a URL that the fetcher may
/// reach, or the redirect URI is neither on loopback nor HTTPS.
#[doc(alias = "start_authorization_flow")]
#[doc(alias = "build_authorization_url")]
pub fn authorization_url(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    request: &AuthorizationRequest,
) -> Result<Url, OAuthError> {
    let endpoint = metadata.authorization_endpoint.as_deref();
    let endpoint = endpoint.ok_or_else(|| metadata.lacks("authorization endpoint"))?;
    if !metadata.supports_pkce() {
        let reason = "does not announce PKCE with S256 (`code_challenge_methods_supported`)";
        return Err(OAuthError::unsupported(&metadata.issuer, reason));
    }
    let mut url = fetcher.check(FetchStep::Authorization, endpoint)?;
    check_redirect_uri(&request.redirect_uri)?;
    let mut parameters = vec![
        ("response_type", "code"),
        ("client_id", &request.client_id),
        ("redirect_uri", &request.redirect_uri),
        ("code_challenge", &request.challenge),
        ("code_challenge_method", "S256"),
        ("state", request.state.expose()),
    ];
    parameters.extend(request.resource.as_deref().map(|resource| ("resource", resource)));
    parameters.extend(request.scope.as_deref().map(|scope| ("scope", scope)));
    let is_own = |name: &str| parameters.iter().any(|(own, _)| *own == name);
    let extra: Vec<_> = request.extra.iter().filter(|(name, _)| !is_own(name)).collect();
    // The endpoint may have a query, which is kept. No parameter may appear twice.
    let kept = url.query().unwrap_or_default().split('&').filter(|pair| {
        let name = url::form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name);
        name.is_some_and(|name| !is_own(&name))
    });
    let kept: Vec<&str> = kept.collect();
    let kept = kept.join("&");
    url.set_fragment(None);
    url.set_query(Some(&kept).filter(|kept| !kept.is_empty()).map(String::as_str));
    url.query_pairs_mut().extend_pairs(&parameters).extend_pairs(extra);
    Ok(url)
}

fn check_redirect_uri(redirect_uri: &str) -> Result<(), OAuthError> {
    let is_valid = |url: Url| url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
    if Url::parse(redirect_uri).is_ok_and(is_valid) {
        return Ok(());
    }
    let redirect_uri = printable(redirect_uri);
    Err(OAuthError::new(OAuthErrorKind::InvalidParameter(format!(
        "redirect URI {redirect_uri} is not allowed; use http://127.0.0.1, http://localhost or https"
    ))))
}

/// The parameters that the browser came back with.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Callback {
    /// The code.
    pub code: Option<Secret>,
    /// The state of the request.
    pub state: Option<Secret>,
    /// The issuer (RFC 9207).
    pub iss: Option<String>,
    /// The code of an error.
    pub error: Option<String>,
    /// Text about the error.
    pub error_description: Option<String>,
}

impl Callback {
    /// Reads the query of a callback, or a whole callback URL.
    ///
    /// ```
    /// use turms_oauth::Callback;
    ///
    /// let callback = Callback::parse("http://127.0.0.1:8085/callback?code=c&state=s")?;
    /// assert_eq!(callback.code.unwrap().expose(), "c");
    /// # Ok::<(), turms_oauth::OAuthError>(())
    /// ```
    ///
    /// # Errors
    /// When a parameter appears twice, or there is neither a code nor an error.
    pub fn parse(query_or_url: &str) -> Result<Self, OAuthError> {
        let text = query_or_url.trim();
        let text = text.split_once('#').map_or(text, |(text, _)| text);
        // A value of a query may have a question mark, too.
        let is_url = |before: &str| before.starts_with("http") || before.starts_with('/') || !before.contains('=');
        let query = text.split_once('?').filter(|(before, _)| is_url(before)).map_or(text, |(_, query)| query);
        Self::parse_query(query)
    }

    /// Reads the query of a callback.
    pub(crate) fn parse_query(query: &str) -> Result<Self, OAuthError> {
        let mut callback = Self::default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            let before = match &*name {
                "code" => callback.code.replace(value.into()).is_some(),
                "state" => callback.state.replace(value.into()).is_some(),
                "iss" => callback.iss.replace(value).is_some(),
                "error" => callback.error.replace(value).is_some(),
                "error_description" => callback.error_description.replace(value).is_some(),
                _ => false,
            };
            if before {
                return Err(invalid("a parameter appears twice"));
            }
        }
        if callback.code.is_none() && callback.error.is_none() {
            return Err(invalid("it has neither `code` nor `error`"));
        }
        Ok(callback)
    }
}

fn invalid(reason: &'static str) -> OAuthError {
    OAuthError::new(OAuthErrorKind::InvalidCallback(reason))
}

/// Checks that a callback belongs to a login, and returns its code.
///
/// ```
/// use turms_oauth::{AuthorizationServerMetadata, Callback, OAuthError, Secret, check_callback};
///
/// # fn example(metadata: &AuthorizationServerMetadata, state: &Secret, query: &str) -> Result<(), OAuthError> {
/// let code = check_callback(metadata, state, &Callback::parse(query)?)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the issuer (RFC 9207) or the state differs, the login was denied, or there is no code. If the issuer or the state differs, the
/// error of the callback is not shown.
#[doc(alias = "validate_authorization_response")]
pub fn check_callback(
    metadata: &AuthorizationServerMetadata,
    state: &Secret,
    callback: &Callback,
) -> Result<Secret, OAuthError> {
    match &callback.iss {
        Some(iss) if *iss != metadata.issuer => {
            return Err(invalid("`iss` is not the issuer that the login was started with"));
        }
        None if metadata.authorization_response_iss_parameter_supported == Some(true) => {
            return Err(invalid("`iss` is missing, although the authorization server announces it"));
        }
        _ => {}
    }
    if callback.state.as_ref() != Some(state) {
        return Err(invalid("`state` is not that of this login"));
    }
    if let Some(error) = &callback.error {
        let error = OAuthErrorResponse {
            error: error.clone(),
            error_description: callback.error_description.clone(),
            error_uri: None,
        };
        return Err(OAuthError::new(OAuthErrorKind::Callback(error)));
    }
    callback.code.clone().filter(|code| !code.is_empty()).ok_or_else(|| invalid("`code` is missing"))
}

/// Parameters of [`exchange_code`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CodeExchange {
    /// The code.
    pub code: Secret,
    /// The redirect URI of the authorization request.
    pub redirect_uri: String,
    /// The verifier of [`pkce`](crate::pkce).
    pub verifier: Secret,
}

impl CodeExchange {
    /// The exchange of a code.
    pub fn new(code: Secret, redirect_uri: impl Into<String>, pkce: &Pkce) -> Self {
        Self { code, redirect_uri: redirect_uri.into(), verifier: pkce.verifier.clone() }
    }
}

/// Exchanges a code for tokens.
///
/// ```no_run
/// use turms_oauth::{
///     AuthorizationServerMetadata, ClientIdentity, CodeExchange, Fetcher, OAuthError, Pkce, Secret, TokenParameters, exchange_code,
/// };
///
/// # async fn example(
/// #     fetcher: &Fetcher, metadata: &AuthorizationServerMetadata, code: Secret, pkce: &Pkce,
/// # ) -> Result<(), OAuthError> {
/// let client = ClientIdentity::public("notes-agent");
/// let exchange = CodeExchange::new(code, "http://127.0.0.1:8085/callback", pkce);
/// let parameters = TokenParameters::new().resource("https://notes.example.com/mcp");
/// let tokens = exchange_code(fetcher, metadata, &client, &exchange, &parameters).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the request fails, the server rejects the code, or the token has a type that cannot be used.
#[doc(alias = "exchange_code_for_token")]
pub async fn exchange_code(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    client: &ClientIdentity,
    exchange: &CodeExchange,
    parameters: &TokenParameters<'_>,
) -> Result<TokenResponse, OAuthError> {
    let request = TokenRequest { fetcher, metadata, client: Some(client), step: FetchStep::Token, parameters };
    let grant = [
        ("grant_type", "authorization_code"),
        ("code", exchange.code.expose()),
        ("redirect_uri", &exchange.redirect_uri),
        ("code_verifier", exchange.verifier.expose()),
    ];
    request.send(&grant).await
}

#[cfg(test)]
mod tests;
