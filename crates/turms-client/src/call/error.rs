use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turms_core::__internal::debug_error;
use turms_core::{CloseInfo, ConnectError, PeerError};
use turms_proto::{DecodeError, ErrorCode, ErrorObject, ProtocolVersion, format_duration};

/// Error of a call.
///
/// A tool that fails is not a `CallError`: its result has
/// [`CallToolResult::is_error`](turms_proto::types::CallToolResult::is_error).
#[derive(Clone)]
pub struct CallError(Box<CallErrorInner>);

debug_error! { CallError |error| { target: error.0.target, kind: error.0.kind, delivery: error.0.delivery } }

#[derive(Clone)]
struct CallErrorInner {
    target: String,
    kind: CallErrorKind,
    delivery: Delivery,
    recovery: Recovery,
}

/// A hint for retries, in addition to the kind and the delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Recovery {
    #[default]
    Unknown,
    /// The HTTP session has expired, and the client opens a new one.
    NewSession,
    /// The cached protocol revision was wrong, and the next connection negotiates it.
    NewVersion,
    /// No connection was ready in time, and another attempt would wait again.
    DoNotRetry,
}

/// The kind of a [`CallError`]. To decide about retries, prefer the methods of the error.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The server responded with an error.
    #[error("error response from server: {0}")]
    ErrorResponse(ErrorObject),
    /// No response in time.
    #[error(transparent)]
    Timeout(TimeoutCause),
    /// The call was cancelled by this client.
    #[error("cancelled")]
    Cancelled,
    /// The connection closed before the response, or there is none.
    #[error(transparent)]
    Closed(ClosedCause),
    /// The transport failed to deliver the request or its response. The connection is still usable.
    #[error("transport failed before the response")]
    Transport(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The server requires other credentials.
    #[error("not authorized")]
    Unauthorized(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The circuit breaker is open. Contains the time until the next trial.
    #[error("not sent: circuit breaker is open for another {}", format_duration(*.0))]
    CircuitOpen(Duration),
    /// The server does not support the call.
    #[error(transparent)]
    Unsupported(UnsupportedCause),
    /// The parameters cannot be encoded.
    #[error("cannot be written as JSON: {0}")]
    Encode(String),
    /// The response is not valid.
    #[error(transparent)]
    Decode(DecodeCause),
    /// An input request of the server has no response.
    #[error(transparent)]
    Input(InputCause),
    /// The task of the call has no result.
    #[error(transparent)]
    Task(TaskCause),
    /// No server of a pool or a group could handle the call.
    #[error(transparent)]
    NoServer(NoServerCause),
}

/// The limit that a call exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeoutCause {
    /// The timeout, which progress renews.
    #[error("no response within {}", format_duration(*.0))]
    Response(Duration),
    /// The maximum duration, which progress does not renew.
    #[error("no response within {} (max_duration)", format_duration(*.0))]
    MaxDuration(Duration),
}

/// The reason that there is no connection.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClosedCause {
    /// The connection closed before the response.
    #[error("{}", .0.before("before the response"))]
    Lost(CloseInfo),
    /// There was no connection to send the request on.
    #[error("not connected to the server")]
    NotConnected(#[source] Option<ConnectError>),
}

/// The reason that a server does not support a call.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UnsupportedCause {
    /// The negotiated protocol revision does not have the method.
    #[error("{what} does not exist in revision {version}")]
    Revision {
        /// The method.
        what: String,
        /// The revision of the server.
        version: ProtocolVersion,
    },
    /// The server did not declare the capability.
    #[error("the server does not offer {0}")]
    NotOffered(String),
}

/// The problem with a response.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeCause {
    /// The result does not match the method.
    #[error("invalid response: {0}")]
    Invalid(DecodeError),
    /// The response is larger than the limit and was not read.
    #[error("the response is larger than {limit} bytes; raise max_message_bytes of the connector or of the connection")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The structured output does not match the output schema of the tool.
    #[error("structured content does not match the output schema: {}", .0.join("; "))]
    Output(Vec<String>),
    /// The list has more pages than are read, or its cursors repeat.
    #[error("the list has more than {0} pages, or its cursors repeat")]
    EndlessList(usize),
}

/// The problem with an input request of the server.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum InputCause {
    /// This client could not respond to the input request.
    #[error("input request {method:?}: {reason}")]
    Refused {
        /// The method of the input request.
        method: String,
        /// The reason that there is no response.
        reason: String,
    },
    /// The contents of a form do not match its schema. They are not sent to the server.
    #[error("input request {method:?}: {reason}")]
    InvalidForm {
        /// The method of the input request.
        method: String,
        /// The members that do not match.
        reason: String,
    },
    /// The call needs more input rounds than allowed.
    #[error("more than {0} input rounds")]
    TooManyRounds(usize),
}

/// The reason that a task has no result.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TaskCause {
    /// The server responded with a task, and the client had not declared support for tasks.
    #[error("the server made a task of the call, which this client did not offer")]
    Unexpected,
    /// The task was cancelled at the server.
    #[error("the task {id:?} was cancelled{}", because(.reason.as_deref()))]
    Cancelled {
        /// The id of the task.
        id: String,
        /// The status message of the server.
        reason: Option<String>,
    },
    /// The server does not know the task.
    #[error("task {id:?} not found")]
    NotFound {
        /// The id of the task.
        id: String,
    },
}

/// The reason that no server of a pool or a group could handle a call.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NoServerCause {
    /// No member of the pool is available.
    #[error("no connection of the pool is available")]
    NoneAvailable,
    /// No server of the group has the tool, prompt or resource.
    #[error("no server offers it")]
    NotFound,
    /// The call is for one server, and a group cannot choose it. Use
    /// [`ClientGroup::client`](crate::ClientGroup::client).
    #[error("several servers are connected; use `ClientGroup::client(name)`")]
    Several,
    /// The errors by server: of all servers that could handle the call, or of some servers for a call that goes to all.
    #[error("{}", each_of(.0))]
    Failed(Vec<(String, CallError)>),
}

/// The delivery status of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a program that decides about a retry considers each")]
pub enum Delivery {
    /// The request was not sent: the call has not run.
    NotSent,
    /// The request was sent, and there is no response: the call may have run.
    Unknown,
    /// The server has responded.
    Answered,
}

impl CallError {
    pub(crate) fn new(target: impl fmt::Display, kind: CallErrorKind, delivery: Delivery) -> Self {
        Self(Box::new(CallErrorInner { target: target.to_string(), kind, delivery, recovery: Recovery::Unknown }))
    }

    pub(crate) fn not_sent(target: impl fmt::Display, kind: CallErrorKind) -> Self {
        Self::new(target, kind, Delivery::NotSent)
    }

    pub(crate) fn answered(target: impl fmt::Display, kind: CallErrorKind) -> Self {
        Self::new(target, kind, Delivery::Answered)
    }

    pub(crate) fn server(target: impl fmt::Display, error: ErrorObject) -> Self {
        Self::answered(target, CallErrorKind::ErrorResponse(error))
    }

    pub(crate) fn of_peer(target: impl fmt::Display, error: PeerError) -> Self {
        let (kind, delivery) = match error {
            PeerError::Closed => (CallErrorKind::Closed(ClosedCause::NotConnected(None)), Delivery::NotSent),
            error @ PeerError::NoServerRequests => (CallErrorKind::Encode(error.to_string()), Delivery::NotSent),
            PeerError::ErrorResponse(error) => (CallErrorKind::ErrorResponse(*error), Delivery::Answered),
            PeerError::TimedOut(after) => (CallErrorKind::Timeout(TimeoutCause::Response(after)), Delivery::Unknown),
            PeerError::MaxDuration(after) => {
                (CallErrorKind::Timeout(TimeoutCause::MaxDuration(after)), Delivery::Unknown)
            }
            PeerError::TooLarge { limit } => {
                (CallErrorKind::Decode(DecodeCause::TooLarge { limit }), Delivery::Unknown)
            }
            PeerError::ClosedBeforeResponse => {
                (CallErrorKind::Closed(ClosedCause::Lost(CloseInfo::new())), Delivery::Unknown)
            }
            PeerError::InvalidResponse(problem) => {
                (CallErrorKind::Decode(DecodeCause::Invalid(DecodeError::custom(problem))), Delivery::Answered)
            }
            PeerError::Unreachable { sent, source } => {
                (CallErrorKind::Transport(source), if sent { Delivery::Unknown } else { Delivery::NotSent })
            }
            PeerError::Unauthorized(source) => (CallErrorKind::Unauthorized(source), Delivery::NotSent),
            PeerError::Decode(problem) => (CallErrorKind::Decode(DecodeCause::Invalid(problem)), Delivery::Answered),
            PeerError::Encode(problem) => (CallErrorKind::Encode(problem.to_string()), Delivery::NotSent),
            other => (CallErrorKind::Decode(DecodeCause::Invalid(DecodeError::custom(other))), Delivery::Unknown),
        };
        Self::new(target, kind, delivery)
    }

    /// Replaces the target.
    pub(crate) fn about(mut self, target: impl fmt::Display) -> Self {
        self.0.target = target.to_string();
        self
    }

    /// Creates the error of a call to several servers.
    pub(crate) fn of_servers(target: impl fmt::Display, failures: Vec<(String, Self)>) -> Self {
        let deliveries = || failures.iter().map(|(_, error)| error.delivery());
        let delivery = if deliveries().any(|delivery| delivery == Delivery::Unknown) {
            Delivery::Unknown
        } else if deliveries().all(|delivery| delivery == Delivery::NotSent) {
            Delivery::NotSent
        } else {
            Delivery::Answered
        };
        Self::new(target, CallErrorKind::NoServer(NoServerCause::Failed(failures)), delivery)
    }

    /// Returns the method, with the name of the tool, prompt or resource.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.0.target
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &CallErrorKind {
        &self.0.kind
    }

    /// Returns the delivery status of the request.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        self.0.delivery
    }

    /// Returns `true` if the call may have run although there is no result.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        self.0.delivery == Delivery::Unknown
    }

    /// Returns `true` if the call timed out. For several servers: if all errors are timeouts.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match &self.0.kind {
            CallErrorKind::Timeout(TimeoutCause::Response(_))
            | CallErrorKind::Timeout(TimeoutCause::MaxDuration(_)) => true,
            CallErrorKind::NoServer(NoServerCause::Failed(failures)) => {
                failures.iter().all(|(_, error)| error.is_timeout())
            }
            _ => false,
        }
    }

    /// Returns `true` if the call was cancelled by this client.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.kind, CallErrorKind::Cancelled)
    }

    /// Returns `true` if the connection or the transport failed. For several servers: if all errors are of this kind.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        match &self.0.kind {
            CallErrorKind::Closed(ClosedCause::Lost(_))
            | CallErrorKind::Closed(ClosedCause::NotConnected(_))
            | CallErrorKind::Transport(_)
            | CallErrorKind::NoServer(NoServerCause::NoneAvailable) => true,
            CallErrorKind::NoServer(NoServerCause::Failed(failures)) => {
                failures.iter().all(|(_, error)| error.is_disconnected())
            }
            _ => false,
        }
    }

    /// Returns `true` if the server requires other credentials. For several servers: if all errors are of this kind.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        match &self.0.kind {
            CallErrorKind::Unauthorized(_) => true,
            CallErrorKind::NoServer(NoServerCause::Failed(failures)) => {
                failures.iter().all(|(_, error)| error.is_unauthorized())
            }
            _ => false,
        }
    }

    /// Returns `true` if the request was not sent, and may succeed later: there was no connection, or the circuit breaker is open.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        let is_temporary =
            self.is_disconnected() || self.is_timeout() || matches!(self.0.kind, CallErrorKind::CircuitOpen(_));
        is_temporary && self.0.delivery == Delivery::NotSent
    }

    /// Returns `true` if the transport failed and the connection is still open.
    pub(crate) fn is_transport(&self) -> bool {
        matches!(self.0.kind, CallErrorKind::Transport(_))
    }

    /// Returns `true` if no server of a group has the tool, prompt or resource.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self.0.kind, CallErrorKind::NoServer(NoServerCause::NotFound))
    }

    /// Returns the error response of the server; `None` for other errors.
    #[must_use]
    pub fn error_response(&self) -> Option<&ErrorObject> {
        match &self.0.kind {
            CallErrorKind::ErrorResponse(error) => Some(error),
            _ => None,
        }
    }

    /// Converts to an error response, for a server that forwards its calls with this client.
    #[must_use]
    pub fn into_error_object(self) -> ErrorObject {
        match self.0.kind {
            CallErrorKind::ErrorResponse(error) => error,
            CallErrorKind::NoServer(NoServerCause::NotFound) | CallErrorKind::Task(TaskCause::NotFound { .. }) => {
                ErrorObject::invalid_params(self.to_string())
            }
            CallErrorKind::NoServer(NoServerCause::Several)
            | CallErrorKind::Unsupported(UnsupportedCause::NotOffered(_)) => {
                ErrorObject::new(ErrorCode::METHOD_NOT_FOUND, self.to_string())
            }
            _ => ErrorObject::internal(self.to_string()),
        }
    }

    /// Marks the call as possibly run, because the server has received an earlier part of it.
    pub(crate) fn maybe_sent(mut self) -> Self {
        if self.0.delivery == Delivery::NotSent {
            self.0.delivery = Delivery::Unknown;
        }
        self
    }

    pub(crate) fn recovery(&self) -> Recovery {
        self.0.recovery
    }

    pub(crate) fn with_recovery(mut self, recovery: Recovery) -> Self {
        self.0.recovery = recovery;
        self
    }

    /// Creates the error of a call that was not sent because there is no connection.
    pub(crate) fn not_connected(target: impl fmt::Display, cause: Option<ConnectError>) -> Self {
        Self::not_sent(target, CallErrorKind::Closed(ClosedCause::NotConnected(cause)))
    }

    pub(crate) fn with_end(mut self, ended: impl FnOnce() -> CloseInfo) -> Self {
        if let CallErrorKind::Closed(ClosedCause::Lost(how)) = &mut self.0.kind {
            *how = ended();
        }
        self
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.kind, self.0.delivery) {
            // Without a request sent, the connection was not lost but missing.
            (CallErrorKind::Transport(_), Delivery::NotSent) => {
                write!(f, "{}: the request could not be sent", self.0.target)?;
            }
            (kind, _) => write!(f, "{}: {kind}", self.0.target)?,
        }
        if self.may_have_run() {
            f.write_str("; the call may have run")?;
        }
        Ok(())
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.kind)
    }
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}

/// Formats the errors of all servers, each with its sources.
fn each_of(failures: &[(String, CallError)]) -> String {
    let each = failures.iter().map(|(server, error)| {
        let mut text = format!("server {server:?}: {}", error.kind());
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        text
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_failed_on_what_and_whether_it_may_have_run() {
        let timeout = PeerError::TimedOut(Duration::from_secs(30));
        let error = CallError::of_peer("tools/call \"add\"", timeout);
        assert_eq!(error.to_string(), "tools/call \"add\": no response within 30 s; the call may have run");
        assert!(error.is_timeout() && error.may_have_run());

        let error = CallError::of_peer("tools/call \"add\"", PeerError::Closed);
        assert_eq!(error.to_string(), "tools/call \"add\": not connected to the server");
        assert!(error.is_disconnected() && !error.may_have_run());

        let error = CallError::of_peer("ping", PeerError::TooLarge { limit: 1000 });
        assert_eq!(
            error.to_string(),
            "ping: the response is larger than 1000 bytes; raise max_message_bytes of the connector or of the \
             connection; the call may have run"
        );
        assert!(error.may_have_run());

        let error = CallError::server("resources/read \"a://b\"", ErrorObject::invalid_params("no such resource"));
        assert_eq!(
            error.to_string(),
            "resources/read \"a://b\": error response from server: no such resource (-32602 invalid params)"
        );
        assert_eq!(error.into_error_object(), ErrorObject::invalid_params("no such resource"));
    }

    #[test]
    fn predicates_say_what_a_program_can_do() {
        let source = Arc::new(std::io::Error::other("invalid token"));
        let unauthorized = CallError::not_sent("ping", CallErrorKind::Unauthorized(source));
        assert_eq!(format!("{unauthorized:?}"), "ping: not authorized\ncaused by: invalid token");
        assert!(unauthorized.is_unauthorized() && !unauthorized.is_retriable());

        let open = CallError::not_sent("ping", CallErrorKind::CircuitOpen(Duration::from_secs(10)));
        assert_eq!(open.to_string(), "ping: not sent: circuit breaker is open for another 10 s");
        assert!(open.is_retriable() && !open.is_unauthorized());

        assert!(CallError::of_peer("ping", PeerError::Closed).is_retriable());
        let sent = CallError::of_peer("ping", PeerError::TimedOut(Duration::from_secs(30)));
        assert!(!sent.is_retriable());

        let several = CallErrorKind::NoServer(NoServerCause::Several);
        let several = CallError::not_sent("prompts/get \"x\"", several);
        assert_eq!(
            several.to_string(),
            "prompts/get \"x\": several servers are connected; use `ClientGroup::client(name)`"
        );
        assert!(!several.is_retriable());
    }

    #[test]
    fn failures_of_many_servers_are_told_one_by_one() {
        let dead = |why: &str| {
            let why = ConnectError::unreachable("files", why);
            CallError::not_sent("ping", CallErrorKind::Closed(ClosedCause::NotConnected(Some(why))))
        };
        let error = CallError::of_servers("ping", vec![("files".into(), dead("no such program"))]);
        assert_eq!(
            error.to_string(),
            "ping: server \"files\": not connected to the server: cannot reach files: no such program"
        );
        assert!(error.is_disconnected() && !error.may_have_run() && !error.is_timeout());
        assert_eq!(
            format!("{:?}", dead("no such program")),
            "ping: not connected to the server\ncaused by: cannot reach files\ncaused by: no such program"
        );
        let fields = format!("{:#?}", dead("no such program"));
        assert!(fields.starts_with("CallError {\n    target: \"ping\",\n    kind: Closed("), "{fields}");
        let slow = CallError::of_peer("ping", PeerError::TimedOut(Duration::from_secs(1)));
        let error = CallError::of_servers("ping", vec![("a".into(), dead("gone")), ("b".into(), slow)]);
        assert!(!error.is_disconnected() && !error.is_timeout() && error.may_have_run());
    }
}
