//! The documents and messages of OAuth: metadata, registrations, token responses.
//!
//! Identifiers (`issuer`, `resource`) are texts, because they are compared as texts: a URL type would print `http://h` as `http://h/`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::secret::Secret;

/// Metadata of a protected resource (RFC 9728).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProtectedResourceMetadata {
    /// The identifier of the resource.
    pub resource: String,
    /// The issuers of the tokens that it accepts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorization_servers: Vec<String>,
    /// The scopes that basic use needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    /// The ways to send a token: `header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer_methods_supported: Option<Vec<String>>,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// Documentation for developers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_documentation: Option<String>,
    /// Algorithms for proofs of possession.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// `true` if only tokens with a proof of possession are accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_bound_access_tokens_required: Option<bool>,
}

/// Metadata of an authorization server (RFC 8414 and OpenID Connect Discovery).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuthorizationServerMetadata {
    /// The identifier of the server.
    pub issuer: String,
    /// URL that a person logs in at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_endpoint: Option<String>,
    /// URL for tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint: Option<String>,
    /// URL for dynamic registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_endpoint: Option<String>,
    /// URL of the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// URL for introspection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introspection_endpoint: Option<String>,
    /// URL for revocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// URL for device codes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_authorization_endpoint: Option<String>,
    /// URL for information about the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub userinfo_endpoint: Option<String>,
    /// All scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes_supported: Option<Vec<String>>,
    /// Response types: `code`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_types_supported: Option<Vec<String>>,
    /// Grant types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_types_supported: Option<Vec<String>>,
    /// Challenge methods of PKCE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Ways for clients to authenticate at the token endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Algorithms of signed client assertions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// `true` if responses of the authorization endpoint have `iss` (RFC 9207).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_response_iss_parameter_supported: Option<bool>,
    /// `true` if a client id may be the URL of a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id_metadata_document_supported: Option<bool>,
    /// Algorithms for proofs of possession.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Profiles of grants, such as that of ID-JAG.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization_grant_profiles_supported: Option<Vec<String>>,
}

impl AuthorizationServerMetadata {
    /// Metadata with an issuer and a token endpoint only, for servers without a document.
    pub fn new(issuer: impl Into<String>, token_endpoint: impl Into<String>) -> Self {
        Self { issuer: issuer.into(), token_endpoint: Some(token_endpoint.into()), ..Self::default() }
    }

    /// Returns `true` if a list has a value. An absent list has the default.
    pub(crate) fn lists(list: Option<&Vec<String>>, value: &str, default: bool) -> bool {
        list.map_or(default, |list| list.iter().any(|item| item == value))
    }

    /// Returns `true` if the server announces PKCE with S256.
    #[must_use]
    pub fn supports_pkce(&self) -> bool {
        Self::lists(self.code_challenge_methods_supported.as_ref(), "S256", false)
    }
}

/// A request for registration, and a client ID metadata document (RFC 7591).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientMetadata {
    /// The id, which only documents have: their URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// Home page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_uri: Option<String>,
    /// URLs that codes are sent to. Sent even if empty: OpenID Connect requires the member.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
    /// Grant types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grant_types: Vec<String>,
    /// Response types. Sent even if empty: without the member, they are `code` (RFC 7591, 2).
    #[serde(default)]
    pub response_types: Vec<String>,
    /// Way to authenticate at the token endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_endpoint_auth_method: Option<String>,
    /// `native` or `web`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_type: Option<String>,
    /// Scopes, separated by spaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// URL of the client's keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// The client's keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Value>,
    /// `true` if the client's tokens have a proof of possession.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_bound_access_tokens: Option<bool>,
}

/// The response to a registration.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct RegistrationResponse {
    /// The id.
    pub client_id: String,
    /// The secret, for clients that have one.
    #[serde(default)]
    pub client_secret: Option<Secret>,
    /// End of the secret's validity, in seconds since 1970; 0 for none.
    #[serde(default)]
    pub client_secret_expires_at: Option<u64>,
    /// Way to authenticate at the token endpoint.
    #[serde(default)]
    pub token_endpoint_auth_method: Option<String>,
    /// Redirect URIs as registered.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
}

/// A successful response of a token endpoint.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct TokenResponse {
    /// The access token.
    pub access_token: Secret,
    /// The type: `Bearer` or `DPoP`, in any case.
    pub token_type: String,
    /// Lifetime.
    #[serde(default, deserialize_with = "seconds")]
    pub expires_in: Option<Duration>,
    /// The refresh token.
    #[serde(default)]
    pub refresh_token: Option<Secret>,
    /// The granted scopes, separated by spaces, if they differ from those of the request.
    #[serde(default, deserialize_with = "scopes")]
    pub scope: Option<String>,
    /// The ID token of OpenID Connect.
    #[serde(default)]
    pub id_token: Option<Secret>,
    /// The type of an exchanged token (RFC 8693).
    #[serde(default)]
    pub issued_token_type: Option<String>,
}

/// Reads seconds. Some servers send them as a text.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let seconds = match Option::<Value>::deserialize(deserializer)? {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.parse().ok(),
        _ => None,
    };
    Ok(seconds.filter(|seconds| *seconds >= 0.0).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
}

/// Reads scopes. Some servers send them as a list. An unusable value is no reason to lose a refresh token that was rotated.
fn scopes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Option::<Value>::deserialize(deserializer)? {
        Some(Value::String(text)) => Some(text),
        Some(Value::Array(list)) => Some(list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        _ => None,
    })
}

/// An error response of an authorization server (RFC 6749, 5.2).
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct OAuthErrorResponse {
    /// The code, such as `invalid_grant`.
    pub error: String,
    /// Text for developers.
    #[serde(default)]
    pub error_description: Option<String>,
    /// Page about the error.
    #[serde(default)]
    pub error_uri: Option<String>,
}

impl OAuthErrorResponse {
    /// Creates an error.
    pub fn new(error: impl Into<String>, description: impl Into<String>) -> Self {
        Self { error: error.into(), error_description: Some(description.into()), error_uri: None }
    }
}

impl fmt::Display for OAuthErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.error))?;
        match &self.error_description {
            Some(description) => write!(f, " ({})", printable(description)),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for OAuthErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for OAuthErrorResponse {}

/// Returns `true` for a character that must not reach a terminal: a control character, or one that is invisible or changes the
/// direction of the text around it.
pub(crate) fn is_hidden(letter: char) -> bool {
    let is_format = matches!(
        letter,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    letter.is_control() || is_format
}

/// Returns the beginning of a foreign text without control characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|letter| !is_hidden(*letter)).take(300).collect()
}

/// The response of a device authorization endpoint (RFC 8628).
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct DeviceAuthorization {
    /// The code that the client polls with.
    pub device_code: Secret,
    /// The code that a person enters.
    pub user_code: String,
    /// URL that a person opens.
    pub verification_uri: String,
    /// The same with the code in it.
    #[serde(default)]
    pub verification_uri_complete: Option<String>,
    /// Lifetime of the codes.
    #[serde(default, deserialize_with = "seconds")]
    pub expires_in: Option<Duration>,
    /// Interval between two requests; 5 s if it is absent.
    #[serde(default, deserialize_with = "seconds")]
    pub interval: Option<Duration>,
}

/// The response of an introspection endpoint (RFC 7662).
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Introspection {
    /// `true` if the token is valid.
    pub active: bool,
    /// All other members.
    #[serde(flatten)]
    pub claims: Map<String, Value>,
}

impl Introspection {
    /// Creates the response for a valid token with these claims.
    #[must_use]
    pub fn active(claims: Map<String, Value>) -> Self {
        Self { active: true, claims }
    }

    /// Creates the response for a token that is unknown, expired or revoked.
    #[must_use]
    pub fn inactive() -> Self {
        Self { active: false, claims: Map::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_numbers_or_texts() {
        let read = |json: &str| serde_json::from_str::<TokenResponse>(json).unwrap().expires_in;
        let with = |value: &str| read(&format!(r#"{{"access_token":"t","token_type":"bearer","expires_in":{value}}}"#));
        assert_eq!(with("3600"), Some(Duration::from_secs(3600)));
        assert_eq!(with(r#""60""#), Some(Duration::from_secs(60)));
        for none in ["null", "-1", r#""soon""#, "1e400", "[]"] {
            if serde_json::from_str::<Value>(none).is_ok() {
                assert_eq!(with(none), None, "{none}");
            }
        }
        assert_eq!(read(r#"{"access_token":"t","token_type":"bearer"}"#), None);
    }

    #[test]
    fn scopes_are_a_text_or_a_list() {
        let with = |value: &str| {
            let json = format!(r#"{{"access_token":"t","token_type":"bearer","scope":{value}}}"#);
            serde_json::from_str::<TokenResponse>(&json).unwrap().scope
        };
        assert_eq!(with(r#""a b""#).as_deref(), Some("a b"));
        assert_eq!(with(r#"["a","b",1]"#).as_deref(), Some("a b"));
        for none in ["null", "1", "{}"] {
            assert_eq!(with(none), None, "{none}");
        }
    }

    #[test]
    fn error_texts_have_no_control_characters() {
        let error = OAuthErrorResponse::new("invalid_grant\u{1b}[2J", "a\r\nb");
        assert_eq!(error.to_string(), "invalid_grant[2J (ab)");
    }
}
