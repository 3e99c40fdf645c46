//! Dynamic registration of clients (RFC 7591).

use http::HeaderMap;
use url::Url;

use crate::client_auth::ClientIdentity;
use crate::error::{OAuthError, OAuthErrorKind};
use crate::fetch::{FetchResponse, FetchStep, Fetcher};
use crate::metadata::{
    AuthorizationServerMetadata, ClientMetadata, OAuthErrorResponse, RegistrationResponse, printable,
};
use crate::network::is_loopback;

const STEP: FetchStep = FetchStep::Registration;

impl ClientMetadata {
    /// The metadata of a client that people log in with: its name, and the URL that codes are sent to.
    pub fn new(client_name: impl Into<String>, redirect_uri: impl Into<String>) -> Self {
        Self { client_name: Some(client_name.into()), redirect_uris: vec![redirect_uri.into()], ..Self::default() }
    }

    /// Sets what a registration needs and is not yet set.
    fn completed(&self, server: &AuthorizationServerMetadata) -> Self {
        let mut request = self.clone();
        if request.grant_types.is_empty() {
            request.grant_types.push("authorization_code".to_owned());
            let grants = server.grant_types_supported.as_ref();
            if AuthorizationServerMetadata::lists(grants, "refresh_token", true) {
                request.grant_types.push("refresh_token".to_owned());
            }
        }
        if request.response_types.is_empty() && request.grant_types.iter().any(|grant| grant == "authorization_code") {
            request.response_types.push("code".to_owned());
        }
        if request.application_type.is_none() {
            let is_native = request.redirect_uris.iter().all(|uri| !is_hosted(uri));
            request.application_type = Some(if is_native { "native" } else { "web" }.to_owned());
        }
        if request.token_endpoint_auth_method.is_none() {
            request.token_endpoint_auth_method = Some(preferred_method(server).to_owned());
        }
        request
    }
}

/// Returns `true` if a redirect URI leads to another machine.
fn is_hosted(redirect_uri: &str) -> bool {
    Url::parse(redirect_uri).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && !is_loopback(&url))
}

/// Returns the authentication to ask for: `none` first, then those that the metadata lists. Without a list, the server supports
/// `client_secret_basic` (RFC 8414). `client_secret_post` comes before it, because some servers read the client id only in the form.
fn preferred_method(server: &AuthorizationServerMetadata) -> &'static str {
    let Some(methods) = &server.token_endpoint_auth_methods_supported else { return "client_secret_basic" };
    ["none", "client_secret_post", "client_secret_basic"]
        .into_iter()
        .find(|method| methods.iter().any(|listed| listed == method))
        .unwrap_or("none")
}

impl RegistrationResponse {
    /// Returns the identity of the registered client. A secret that comes with the method `none` is not used.
    #[must_use]
    pub fn identity(&self) -> ClientIdentity {
        let method = self.token_endpoint_auth_method.as_deref();
        ClientIdentity::with_method(&self.client_id, self.client_secret.clone(), method)
    }
}

/// Registers a client.
///
/// Members that are not set get values: the grant types `authorization_code` and `refresh_token`, the response type `code`, the
/// application type (`native` if all redirect URIs are on loopback, otherwise `web`), and an authentication that the server
/// supports, preferably `none`. If the response does not name an authentication, the requested one is in the result.
///
/// ```no_run
/// use turms_oauth::{AuthorizationServerMetadata, ClientMetadata, Fetcher, OAuthError, register};
///
/// # async fn example(fetcher: &Fetcher, metadata: &AuthorizationServerMetadata) -> Result<(), OAuthError> {
/// let request = ClientMetadata::new("Notes Agent", "http://127.0.0.1:8085/callback");
/// let client = register(fetcher, metadata, &request).await?.identity();
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the server has no registration endpoint, or rejects the registration. If it rejects the redirect URI, the error names it.
#[doc(alias = "register_client")]
#[doc(alias = "dynamic_client_registration")]
pub async fn register(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    request: &ClientMetadata,
) -> Result<RegistrationResponse, OAuthError> {
    let endpoint = metadata.registration_endpoint.as_ref().ok_or_else(|| {
        let reason = "has no registration endpoint; configure a client id that is registered there";
        OAuthError::unsupported(&metadata.issuer, reason)
    })?;
    let request = request.completed(metadata);
    let response = fetcher.post_json(STEP, endpoint, &request, HeaderMap::new()).await?;
    if !response.status.is_success() {
        return Err(rejected(&response, &request));
    }
    let mut registration: RegistrationResponse = response.json()?;
    if registration.client_id.is_empty() {
        return Err(OAuthError::metadata(STEP, "`client_id` is empty"));
    }
    if registration.token_endpoint_auth_method.is_none() {
        registration.token_endpoint_auth_method = request.token_endpoint_auth_method;
    }
    Ok(registration)
}

fn rejected(response: &FetchResponse, request: &ClientMetadata) -> OAuthError {
    let origin = response.origin();
    match response.any_json::<OAuthErrorResponse>() {
        Ok(error) if is_about_redirect_uri(&error) => OAuthError::new(OAuthErrorKind::RedirectUriRejected {
            origin,
            redirect_uris: printable(&request.redirect_uris.join(" ")),
            error,
        }),
        Ok(error) => OAuthError::new(OAuthErrorKind::Response { step: STEP, origin, status: response.status, error }),
        Err(_) => response.status_error().into(),
    }
}

fn is_about_redirect_uri(error: &OAuthErrorResponse) -> bool {
    let description = error.error_description.as_deref().unwrap_or_default().to_ascii_lowercase();
    error.error == "invalid_redirect_uri" || description.contains("redirect")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_registration_without_redirects_says_so() {
        let mut request = ClientMetadata::new("robot", "");
        request.redirect_uris.clear();
        request.grant_types = vec!["urn:ietf:params:oauth:grant-type:device_code".to_owned()];
        let sent: Value = serde_json::to_value(request.completed(&server(None))).unwrap();
        assert_eq!((&sent["redirect_uris"], &sent["response_types"]), (&json!([]), &json!([])));
    }

    fn server(methods: Option<&[&str]>) -> AuthorizationServerMetadata {
        AuthorizationServerMetadata {
            token_endpoint_auth_methods_supported: methods
                .map(|methods| methods.iter().map(|method| (*method).to_owned()).collect()),
            ..AuthorizationServerMetadata::default()
        }
    }

    #[test]
    fn a_request_is_completed_for_the_server() {
        let request = ClientMetadata::new("agent", "http://127.0.0.1:1/callback").completed(&server(Some(&["none"])));
        assert_eq!(
            serde_json::to_value(&request).unwrap(),
            serde_json::json!({
                "client_name": "agent",
                "redirect_uris": ["http://127.0.0.1:1/callback"],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "native",
            })
        );
        let hosted = ClientMetadata::new("agent", "https://app.example.com/callback").completed(&server(None));
        assert_eq!(hosted.application_type.as_deref(), Some("web"));
        let own = ClientMetadata { application_type: Some("web".to_owned()), ..request };
        assert_eq!(own.completed(&server(None)), own);
    }

    #[test]
    fn grants_that_the_server_does_not_list_are_not_asked_for() {
        let mut server = server(None);
        server.grant_types_supported = Some(vec!["authorization_code".to_owned()]);
        let request = ClientMetadata::new("agent", "http://localhost/cb").completed(&server);
        assert_eq!(request.grant_types, ["authorization_code"]);
    }

    #[test]
    fn the_preferred_method_is_none_then_what_is_listed() {
        assert_eq!(preferred_method(&server(None)), "client_secret_basic");
        assert_eq!(preferred_method(&server(Some(&["client_secret_basic", "none"]))), "none");
        assert_eq!(
            preferred_method(&server(Some(&["client_secret_basic", "client_secret_post"]))),
            "client_secret_post"
        );
        assert_eq!(preferred_method(&server(Some(&["client_secret_basic"]))), "client_secret_basic");
    }
}
