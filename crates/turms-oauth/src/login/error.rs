//! Errors of logins by a person.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use turms_proto::format_duration;

/// Error of a login by a person.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// This program may not ask a person.
    #[error("a person has to log in, and this program may not ask for it")]
    NotAllowed,
    /// The redirect URI is invalid.
    #[error("redirect URI {uri:?}: {reason}")]
    Redirect {
        /// The redirect URI.
        uri: String,
        /// The reason, and the remedy.
        reason: &'static str,
    },
    /// The listener for the callback cannot be opened.
    #[error(
        "cannot listen on {address} for the callback; use another redirect URI, or log in by pasting the callback URL"
    )]
    Listen {
        /// The address.
        address: String,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// The URL is not safe to open.
    #[error("the authorization URL cannot be opened: {0}")]
    Url(&'static str),
    /// The person did not log in within the timeout.
    #[error("no login within {}", format_duration(*.0))]
    Timeout(Duration),
    /// The input ended before a callback URL was pasted.
    #[error("the input ended before the callback URL was pasted")]
    NoInput,
    /// The input cannot be read.
    #[error("cannot read the pasted callback URL")]
    Input(#[source] Arc<io::Error>),
    /// The text is not the URL of a callback.
    #[error("this is not the URL of a callback; it has to contain code=… or error=…, and state=…")]
    Callback,
    /// The callback has another `state`: it belongs to another login.
    #[error("the callback belongs to another login: its state differs")]
    State,
    /// The function passed to `Login::with` failed.
    #[error("the login of the application failed")]
    Custom(#[source] Arc<dyn Error + Send + Sync>),
}

impl LoginError {
    pub(super) fn redirect(uri: &str, reason: &'static str) -> Self {
        Self::Redirect { uri: uri.to_owned(), reason }
    }
}
