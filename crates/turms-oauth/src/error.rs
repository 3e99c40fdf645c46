//! The error of discovery, registration, logins and token requests.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;

use crate::fetch::{FetchError, FetchStep};
#[cfg(feature = "client")]
use crate::login::LoginError;
use crate::metadata::{OAuthErrorResponse, printable};
#[cfg(feature = "client")]
use crate::store::StoreError;

/// Error of discovery, registration, a login or a token request. Cheap to clone. Shows no secrets.
///
/// ```
/// use turms_oauth::OAuthError;
///
/// fn exit_code(error: &OAuthError) -> i32 {
///     if error.is_login_required() { 4 } else { 1 }
/// }
/// ```
#[derive(Clone)]
pub struct OAuthError(Arc<OAuthErrorState>);

#[derive(Clone)]
struct OAuthErrorState {
    /// The MCP server that the error is about, for its message.
    server: Option<String>,
    kind: OAuthErrorKind,
}

/// Reason of an [`OAuthError`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum OAuthErrorKind {
    /// A request failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The authorization server sent an error response.
    #[error("{step} from {origin}: error response: {error}")]
    Response {
        /// The step.
        step: FetchStep,
        /// Origin of the endpoint.
        origin: String,
        /// HTTP status.
        status: StatusCode,
        /// The error response. Secrets of the request are removed from it.
        error: OAuthErrorResponse,
    },
    /// The authorization server does not accept the redirect URI for a registration.
    #[error(
        "client registration at {origin}: redirect URI {redirect_uris} was rejected: {error}; set a redirect URI that the authorization server accepts, or register the client there"
    )]
    RedirectUriRejected {
        /// Origin of the endpoint.
        origin: String,
        /// The redirect URIs, separated by spaces.
        redirect_uris: String,
        /// The error response.
        error: OAuthErrorResponse,
    },
    /// The authorization server sent the browser back with an error, such as `access_denied`.
    #[error("login was not completed: {0}")]
    Callback(OAuthErrorResponse),
    /// The browser came back with parameters that do not belong to this login.
    #[error("invalid authorization response: {0}")]
    InvalidCallback(&'static str),
    /// Metadata is invalid, or does not belong to the server.
    #[error("{step}: {reason}")]
    Metadata {
        /// The step.
        step: FetchStep,
        /// The property that is invalid.
        reason: String,
    },
    /// The authorization server does not support a step.
    #[error("authorization server {issuer} {reason}")]
    Unsupported {
        /// Issuer of the authorization server.
        issuer: String,
        /// The missing feature, such as "has no registration endpoint".
        reason: String,
    },
    /// The response has a token that cannot be used.
    #[error("{step} from {origin}: unusable token: {reason}")]
    InvalidToken {
        /// The step.
        step: FetchStep,
        /// Origin of the endpoint.
        origin: String,
        /// The property of the token that is invalid.
        reason: String,
    },
    /// A parameter of the caller is invalid.
    #[error("{0}")]
    InvalidParameter(String),
    /// A person has to log in, and may not be asked now.
    #[error("login is required{}{}", for_scopes(scopes), with_advice(advice.as_deref()))]
    LoginRequired {
        /// The scopes that the server asks for and the token does not have. Empty if there is no valid token.
        scopes: Vec<String>,
        /// The action that helps, such as a command.
        advice: Option<String>,
    },
    /// A person could not be asked, or did not log in.
    #[cfg(feature = "client")]
    #[error(transparent)]
    Login(#[from] LoginError),
    /// The token store failed.
    #[error("token store failed")]
    Store(#[source] Arc<dyn Error + Send + Sync>),
    /// The source of ID tokens or of assertions failed.
    #[error("cannot obtain the token to exchange")]
    TokenSource(#[source] Arc<dyn Error + Send + Sync>),
    /// The MCP server rejects a token that was just issued for it.
    #[error(
        "the server rejects the token that {issuer} has just issued{}{}{}",
        for_resource(resource.as_deref()), with_scopes(scopes), quoted(response.as_deref())
    )]
    TokenRejected {
        /// Issuer of the token.
        issuer: String,
        /// The resource that it was requested for.
        resource: Option<String>,
        /// Its scopes.
        scopes: Vec<String>,
        /// The error that the server names.
        response: Option<String>,
    },
    /// The MCP server asks for scopes that were requested and not granted.
    #[error("the server requires {}", missing_scopes(.0))]
    InsufficientScope(Vec<String>),
    /// The runtime is shutting down.
    #[error("the runtime is shutting down")]
    Stopped,
}

fn for_resource(resource: Option<&str>) -> String {
    resource.map(|resource| format!(" for {}", printable(resource))).unwrap_or_default()
}

fn with_scopes(scopes: &[String]) -> String {
    if scopes.is_empty() { String::new() } else { format!(" with the scopes {:?}", printable(&scopes.join(" "))) }
}

fn missing_scopes(scopes: &[String]) -> String {
    match scopes {
        [] => "more scopes, and does not name them".to_owned(),
        scopes => {
            format!("the scopes {:?}, which the authorization server has not granted", printable(&scopes.join(" ")))
        }
    }
}

fn quoted(response: Option<&str>) -> String {
    response.map(|response| format!(": {response:?}")).unwrap_or_default()
}

fn for_scopes(scopes: &[String]) -> String {
    if scopes.is_empty() { String::new() } else { format!(" for the scopes {:?}", printable(&scopes.join(" "))) }
}

fn with_advice(advice: Option<&str>) -> String {
    advice.map(|advice| format!("; {advice}")).unwrap_or_default()
}

impl OAuthError {
    /// Creates an error.
    pub(crate) fn new(kind: OAuthErrorKind) -> Self {
        Self(Arc::new(OAuthErrorState { server: None, kind }))
    }

    /// Creates an error for invalid metadata.
    pub(crate) fn metadata(step: FetchStep, reason: impl Into<String>) -> Self {
        Self::new(OAuthErrorKind::Metadata { step, reason: reason.into() })
    }

    /// Creates an error for a missing feature of an authorization server.
    #[cfg(feature = "client")]
    pub(crate) fn unsupported(issuer: &str, reason: impl Into<String>) -> Self {
        Self::new(OAuthErrorKind::Unsupported { issuer: printable(issuer), reason: reason.into() })
    }

    /// Adds the MCP server that the error is about. The first one is kept.
    #[allow(dead_code, reason = "only the authorizer has a server")]
    #[must_use]
    pub(crate) fn with_server(self, server: &str) -> Self {
        if self.0.server.is_some() {
            return self;
        }
        let kind = self.0.kind.clone();
        Self(Arc::new(OAuthErrorState { server: Some(printable(server)), kind }))
    }

    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> &OAuthErrorKind {
        &self.0.kind
    }

    /// Returns the MCP server that the error is about, if it is known.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// Returns the error response of the authorization server.
    #[must_use]
    pub fn error_response(&self) -> Option<&OAuthErrorResponse> {
        match self.kind() {
            OAuthErrorKind::Response { error, .. }
            | OAuthErrorKind::RedirectUriRejected { error, .. }
            | OAuthErrorKind::Callback(error) => Some(error),
            _ => None,
        }
    }

    fn has_code(&self, code: &str) -> bool {
        self.error_response().is_some_and(|error| error.error == code)
    }

    /// Returns `true` if a person has to log in.
    #[must_use]
    pub fn is_login_required(&self) -> bool {
        matches!(self.kind(), OAuthErrorKind::LoginRequired { .. })
    }

    /// Returns `true` if the person did not log in in time.
    #[must_use]
    pub fn is_login_timeout(&self) -> bool {
        match self.kind() {
            #[cfg(feature = "client")]
            OAuthErrorKind::Login(LoginError::Timeout(_)) => true,
            _ => self.is_expired(),
        }
    }

    /// Returns `true` if the person or the authorization server denied access.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.has_code("access_denied")
    }

    /// Returns `true` if the code, the refresh token or the assertion is not accepted (`invalid_grant`).
    #[must_use]
    pub fn is_invalid_grant(&self) -> bool {
        self.has_code("invalid_grant")
    }

    /// Returns `true` if the client is not known or may not use the grant (`invalid_client`, `unauthorized_client`).
    #[must_use]
    pub fn is_invalid_client(&self) -> bool {
        self.has_code("invalid_client") || self.has_code("unauthorized_client")
    }

    /// Returns `true` if the authorization server does not allow the scopes.
    pub(crate) fn is_invalid_scope(&self) -> bool {
        self.has_code("invalid_scope")
    }

    /// Returns `true` if a registration was rejected for its content.
    pub(crate) fn is_invalid_registration(&self) -> bool {
        self.has_code("invalid_client_metadata") || self.is_invalid_scope() || self.has_code("invalid_request")
    }

    /// Returns `true` if the codes of a device login have expired (`expired_token`).
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.has_code("expired_token")
    }

    /// Returns `true` if the same request may succeed later: no connection, a timeout, 429, a status of 500 or more, or
    /// `temporarily_unavailable`.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.kind() {
            OAuthErrorKind::Fetch(error) => error.is_transient(),
            OAuthErrorKind::Response { status, error, .. } => {
                let is_final = matches!(&*error.error, "invalid_grant" | "invalid_client" | "unauthorized_client");
                let is_busy = status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS;
                !is_final && (is_busy || error.error == "temporarily_unavailable")
            }
            _ => false,
        }
    }
}

impl fmt::Display for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.0.server {
            write!(f, "authorization for {server}: ")?;
        }
        self.0.kind.fmt(f)
    }
}

/// Shows the message and the messages of the sources.
impl fmt::Debug for OAuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.debug_struct("OAuthError").field("server", &self.0.server).field("kind", &self.0.kind).finish();
        }
        self.fmt_chain(f)
    }
}

impl OAuthError {
    fn fmt_chain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        for cause in std::iter::successors(self.source(), |&error| error.source()) {
            write!(f, "\ncaused by: {cause}")?;
        }
        Ok(())
    }
}

impl Error for OAuthError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.kind.source()
    }
}

#[cfg(feature = "client")]
impl From<LoginError> for OAuthError {
    fn from(error: LoginError) -> Self {
        Self::new(error.into())
    }
}

#[cfg(feature = "client")]
impl From<StoreError> for OAuthError {
    fn from(error: StoreError) -> Self {
        Self::new(OAuthErrorKind::Store(Arc::new(error)))
    }
}

impl From<FetchError> for OAuthError {
    fn from(error: FetchError) -> Self {
        Self::new(error.into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fetch::FetchErrorKind;

    fn response(status: u16, code: &str) -> OAuthError {
        OAuthError::new(OAuthErrorKind::Response {
            step: FetchStep::Token,
            origin: "https://auth.example.com".to_owned(),
            status: StatusCode::from_u16(status).unwrap(),
            error: OAuthErrorResponse::new(code, "why"),
        })
    }

    #[test]
    fn the_message_names_the_server_the_step_and_the_reason() {
        let error = response(400, "invalid_grant").with_server("https://mcp.example.com/mcp");
        assert_eq!(
            error.to_string(),
            "authorization for https://mcp.example.com/mcp: token request from https://auth.example.com: \
             error response: invalid_grant (why)"
        );
        assert_eq!(error.with_server("https://other.example.com").server(), Some("https://mcp.example.com/mcp"));
        let login = |scopes: &[&str]| {
            let scopes = scopes.iter().map(|&scope| scope.to_owned()).collect();
            let advice = Some("run `turms auth login`".to_owned());
            OAuthError::new(OAuthErrorKind::LoginRequired { scopes, advice })
        };
        assert_eq!(login(&[]).to_string(), "login is required; run `turms auth login`");
        assert_eq!(login(&["a", "b"]).to_string(), "login is required for the scopes \"a b\"; run `turms auth login`");
        assert!(login(&[]).is_login_required());
    }

    #[test]
    fn predicates_follow_the_code_and_the_status() {
        assert!(response(400, "invalid_grant").is_invalid_grant());
        assert!(response(401, "invalid_client").is_invalid_client());
        assert!(response(400, "unauthorized_client").is_invalid_client());
        assert!(response(400, "access_denied").is_denied());
        assert!(response(400, "expired_token").is_expired());
        assert!(response(503, "server_error").is_transient());
        assert!(response(429, "slow_down").is_transient());
        assert!(response(400, "temporarily_unavailable").is_transient());
        assert!(!response(500, "invalid_grant").is_transient());
        assert!(!response(400, "invalid_request").is_transient());
        let late = FetchErrorKind::Timeout(Duration::from_secs(10));
        assert!(OAuthError::from(FetchError::new(FetchStep::Token, "https://a.example", late)).is_transient());
    }

    #[test]
    fn debug_shows_one_line_for_each_cause() {
        let error = OAuthError::new(OAuthErrorKind::Store(Arc::new(std::io::Error::other("disk full"))));
        assert_eq!(format!("{error:?}"), "token store failed\ncaused by: disk full");
    }
}
