use std::error::Error;
use std::io;

use http::StatusCode;
use turms::ErrorObject;
use turms::http::{AuthorizeError, Challenge, HttpError};
use turms::oauth::{FetchError, FetchErrorKind, FetchStep, LoginError, OAuthError, OAuthErrorKind};
use turms::ws::WsError;

use super::connect::{CERTIFICATE_HINT, CONNECTION_REFUSED_HINT, UNKNOWN_HOST_HINT, is_certificate, is_unknown_host};
use super::{chain, is_authorization, status};
use crate::error::{CliError, ExitStatus};
use crate::session::quote;
use crate::target::{CliTarget, login_hint};

/// The credentials that failed: a login, or those of a client in the options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoginSource<'a> {
    /// The command that logs in. `None` if the client authenticates itself.
    pub(crate) command: Option<&'a str>,
    /// `true` if the options name the client.
    pub(crate) has_client: bool,
}

/// Returns the error for credentials that cannot be obtained, if there is one.
pub(super) fn oauth_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a OAuthError> {
    chain(error).find_map(|link| match link.downcast_ref::<AuthorizeError>() {
        Some(error) => error.downcast_ref(),
        None => link.downcast_ref(),
    })
}

/// Converts an error of a login, of discovery, or of a token request.
pub(crate) fn authorization_error(error: &OAuthError, source: LoginSource<'_>) -> CliError {
    let failure = match (error.kind(), error.server()) {
        (OAuthErrorKind::LoginRequired { scopes, .. }, Some(server)) if scopes.is_empty() => {
            CliError::new(ExitStatus::Unauthorized, format!("{server} does not accept the stored login any more"))
        }
        (OAuthErrorKind::LoginRequired { scopes, .. }, Some(server)) => {
            let message = format!("the login at {server} does not include {}", scope_phrase(scopes));
            CliError::new(ExitStatus::Unauthorized, message)
        }
        (OAuthErrorKind::Login(LoginError::Redirect { uri, reason }), _) => {
            // The rest is for programs that use the library.
            let reason = reason.split("; use Login::").next().unwrap_or_default();
            CliError::new(exit(error), format!("redirect URI {uri:?}: {reason}"))
        }
        (OAuthErrorKind::Login(login), _) => CliError::of(exit(error), login),
        (OAuthErrorKind::Fetch(fetch), Some(server)) if is_without_authorization(fetch) => {
            let message =
                format!("{server} does not offer logins: there is no authorization metadata and no registration");
            CliError::new(exit(error), message)
        }
        _ => match chain(error).find(|link| link.is::<io::Error>()) {
            // The error of the system says more than those of the libraries around it.
            Some(system) => CliError::new(exit(error), error.to_string()).caused_by(Some(system)),
            None => CliError::of(exit(error), error),
        },
    };
    failure.hint_if(hint(error, source))
}

/// Returns `true` if a server does not offer authorization. Without metadata, 2025-03-26 assumes endpoints at the origin of the server,
/// and the first request goes to that of registration.
fn is_without_authorization(error: &FetchError) -> bool {
    error.step() == FetchStep::Registration && matches!(error.kind(), FetchErrorKind::Status(_))
}

/// Returns scopes as part of a sentence: `the scopes "a b"`.
fn scope_phrase(scopes: &[String]) -> String {
    let noun = if scopes.len() == 1 { "the scope" } else { "the scopes" };
    format!("{noun} {:?}", scopes.join(" "))
}

fn exit(error: &OAuthError) -> ExitStatus {
    match error.kind() {
        _ if error.is_login_timeout() => ExitStatus::Timeout,
        OAuthErrorKind::Fetch(error) => match error.kind() {
            FetchErrorKind::Timeout(_) => ExitStatus::Timeout,
            FetchErrorKind::Connect(_) | FetchErrorKind::Closed(_) => ExitStatus::Connect,
            FetchErrorKind::Setup(_) => ExitStatus::Failure,
            FetchErrorKind::NotHttps | FetchErrorKind::Address(_) => ExitStatus::Unauthorized,
            _ => ExitStatus::Protocol,
        },
        OAuthErrorKind::Metadata { .. } | OAuthErrorKind::InvalidToken { .. } | OAuthErrorKind::InvalidCallback(_) => {
            ExitStatus::Protocol
        }
        OAuthErrorKind::InvalidParameter(_) => ExitStatus::Usage,
        OAuthErrorKind::Login(LoginError::Redirect { .. }) => ExitStatus::Usage,
        OAuthErrorKind::Login(_)
        | OAuthErrorKind::Store(_)
        | OAuthErrorKind::TokenSource(_)
        | OAuthErrorKind::Stopped => ExitStatus::Failure,
        _ => ExitStatus::Unauthorized,
    }
}

const NO_REGISTRATION: &str = "this command cannot register itself there: register a client with the authorization server, and log in \
                               with --client-id ID, and with --redirect-uri URI if it has a fixed one";

fn hint(error: &OAuthError, source: LoginSource<'_>) -> Option<String> {
    let command = source.command.unwrap_or_default();
    let hint = match error.kind() {
        OAuthErrorKind::LoginRequired { scopes, .. } => return Some(login_hint(command, scopes)),
        OAuthErrorKind::Fetch(error) => match (error.step(), error.kind()) {
            (_, FetchErrorKind::Address(_) | FetchErrorKind::NotHttps) => {
                "if you trust the server, --allow-private-network allows it"
            }
            (_, FetchErrorKind::Connect(_)) if chain(error).any(is_unknown_host) => UNKNOWN_HOST_HINT,
            (_, FetchErrorKind::Connect(_)) if chain(error).any(is_certificate) => CERTIFICATE_HINT,
            (FetchStep::Server | FetchStep::ResourceMetadata, FetchErrorKind::Connect(_)) => CONNECTION_REFUSED_HINT,
            (_, FetchErrorKind::Connect(_)) => "is the authorization server running, and reachable from here?",
            _ if is_without_authorization(error) => {
                "does it need a login? if so, give a token with --bearer TOKEN to each command"
            }
            _ => return None,
        },
        _ if error.is_invalid_client() && source.has_client => "are the client id and its secret or key right?",
        _ if error.is_invalid_client() => return Some(format!("`{command} --fresh` registers this command again")),
        OAuthErrorKind::Unsupported { reason, .. } if reason.contains("registration") => NO_REGISTRATION,
        OAuthErrorKind::Unsupported { reason, .. } if reason.contains("device") => {
            "log in with --paste in place of --device"
        }
        // A registration for device codes has none.
        OAuthErrorKind::RedirectUriRejected { redirect_uris, .. } if redirect_uris.is_empty() => {
            "the authorization server has no logins with a code: log in with --paste in place of --device"
        }
        OAuthErrorKind::RedirectUriRejected { .. } => "--redirect-uri sets another one",
        OAuthErrorKind::Metadata { step: FetchStep::ResourceMetadata, reason }
            if reason.contains("is not the server") =>
        {
            "is the URL right? use the one that the server names, if that is the server you mean"
        }
        _ if error.error_response().is_some_and(|response| response.error == "invalid_scope") => {
            "does the authorization server know these scopes, and may this client ask for them?"
        }
        OAuthErrorKind::TokenRejected { .. } => {
            "does the server accept tokens of this issuer? its log should tell why not"
        }
        OAuthErrorKind::InsufficientScope(_) if source.command.is_some() => {
            return Some(format!("another user may have these rights: log in with `{command}`"));
        }
        OAuthErrorKind::InsufficientScope(_) => "the client may not have these rights",
        OAuthErrorKind::Login(LoginError::Redirect { .. }) => "with --paste, it may be any https:// URL",
        OAuthErrorKind::Login(LoginError::Listen { .. }) => "--redirect-uri sets another port, and --paste needs none",
        OAuthErrorKind::Login(LoginError::Timeout(_)) if source.has_client => {
            "if the browser shows an error, are --client-id and --redirect-uri those of the registration? --timeout SECONDS sets a longer timeout"
        }
        OAuthErrorKind::Login(LoginError::Timeout(_)) => {
            "if the browser is on another machine, log in with --paste or --device; --timeout SECONDS sets a longer timeout"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Returns the challenges of a response with status 401 or 403.
fn challenges(error: &(dyn Error + 'static)) -> Vec<Challenge> {
    let of_http = |error: &HttpError| match error {
        HttpError::Unauthorized { challenges, .. } => Some(challenges.clone()),
        _ => None,
    };
    let found = chain(error).find_map(|link| match (link.downcast_ref::<HttpError>(), link.downcast_ref()) {
        (Some(HttpError::NoCommonTransport(tried)), _) => tried.iter().find_map(|(_, error)| of_http(error)),
        (Some(error), _) => of_http(error),
        (_, Some(WsError::Refused { headers, .. })) => Some(Challenge::of_headers(headers)),
        _ => None,
    });
    found.unwrap_or_default()
}

/// Returns the hint for a response with status 401 or 403.
pub(super) fn hint_for_challenge(target: &CliTarget, error: &(dyn Error + 'static)) -> Option<String> {
    let credentials = target.credentials()?;
    let status = status(error).filter(|status| is_authorization(*status))?;
    let challenges = challenges(error);
    let get = |name| challenges.iter().find_map(|challenge| challenge.get(name));
    if get("error") == Some("insufficient_scope") {
        return hint_for_scopes(target, get("scope").unwrap_or_default());
    }
    if status == StatusCode::FORBIDDEN {
        return Some("the server does not allow access from this host or with these credentials".to_owned());
    }
    if credentials.is_header() {
        return Some("have the credentials expired, or are they for another server?".to_owned());
    }
    let login = credentials.login_hint(&[]);
    Some(match get("resource_metadata") {
        Some(_) => login,
        None => format!("give a token with --bearer TOKEN, or a header with --header \"NAME: VALUE\"; or {login}"),
    })
}

/// Returns the hint for missing scopes.
fn hint_for_scopes(target: &CliTarget, scope: &str) -> Option<String> {
    let credentials = target.credentials()?;
    let scopes: Vec<String> = scope.split_ascii_whitespace().map(ToOwned::to_owned).collect();
    Some(if scopes.is_empty() {
        "the credentials do not have the rights for this".to_owned()
    } else if credentials.is_header() {
        format!("give a token that has {}", scope_phrase(&scopes))
    } else if credentials.is_program() {
        let missing = scopes.iter().filter(|scope| !credentials.asks_for(scope));
        let options: String = missing.map(|scope| format!(" --scope {}", quote(scope))).collect();
        if options.is_empty() {
            format!("the client may not have {}", scope_phrase(&scopes))
        } else {
            format!("ask for the missing scopes with{options}, if the client may have them")
        }
    } else {
        credentials.login_hint(&scopes)
    })
}

/// Returns the hint for an error response that names missing scopes. Over WebSocket, HTTP+SSE and within a stream, there is no status.
pub(super) fn hint_for_forbidden(target: &CliTarget, error: &ErrorObject) -> Option<String> {
    hint_for_scopes(target, &missing_scopes(error)?)
}

/// Returns the scopes that an error response names as missing.
pub(super) fn missing_scopes(error: &ErrorObject) -> Option<String> {
    let data = error.data.as_ref()?;
    if data.member("error")?.decode::<String>().ok()? != "insufficient_scope" {
        return None;
    }
    data.member("scope")?.decode().ok()
}
