use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turms_core::{ConnectError, Ended, PeerError, error_chain};
use turms_proto::session::{RequestError, SessionError};
use turms_proto::{DecodeError, ErrorCode, ErrorObject, ProtocolVersion};

/// Why a call has no result, and whether it may have run all the same.
///
/// A tool that failed is not an error: that is a result, and says so
/// ([`ToolResult::failed`](turms_proto::types::ToolResult::failed)).
#[derive(Clone)]
pub struct CallError(Box<Inner>);

/// The message with its causes, so that an error that leaves `main` reads as a sentence.
impl fmt::Debug for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_chain(self))
    }
}

#[derive(Debug, Clone)]
struct Inner {
    subject: String,
    kind: CallErrorKind,
    delivery: Delivery,
}

/// What went wrong with a call.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The server answered with an error.
    #[error("the server answered: {0}")]
    Server(ErrorObject),
    /// The server did not answer in time, nor report progress.
    #[error("no answer within {0:?} (timeout)")]
    TimedOut(Duration),
    /// The server did not answer within the time that progress does not renew.
    #[error("no answer within {0:?} (max_duration)")]
    MaxDuration(Duration),
    /// The call was cancelled here.
    #[error("cancelled")]
    Cancelled,
    /// The connection ended before the answer came.
    #[error("{}", .0.before("before it answered"))]
    Lost(Ended),
    /// The request could not be carried to the server, or its answer back. The next may fare better.
    #[error("the request was lost on the way")]
    Unreachable(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The server did not let the request in, or there are no credentials for it.
    #[error("not authorized")]
    Unauthorized(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// There is no connection.
    #[error("there is no connection to the server")]
    NotConnected(#[source] Option<ConnectError>),
    /// The circuit breaker is open: the server has failed too often lately.
    #[error("not tried: the server has failed too often, and is left alone for {0:?}")]
    BreakerOpen(Duration),
    /// The server's revision has no such thing.
    #[error("{what} does not exist in revision {version}")]
    NotInRevision {
        /// What.
        what: String,
        /// The server's revision.
        version: ProtocolVersion,
    },
    /// What was to be sent cannot be written as JSON.
    #[error("cannot be written as JSON: {0}")]
    Unwritable(String),
    /// The answer is not what was asked for.
    #[error("the server's answer is not valid: {0}")]
    Invalid(DecodeError),
    /// The answer is longer than the limit, so it was not read.
    #[error(
        "the answer is longer than the limit of {limit} bytes: raise message_limit of the connector, or max_message_bytes of the connection"
    )]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The tool's structured output does not fit the schema that it declares.
    #[error("the structured output does not fit the schema that the tool declares: {}", .0.join("; "))]
    Output(Vec<String>),
    /// What was read is not what the skill's entry says, so it is not handed out.
    #[error("it does not fit the entry of the skill: {0}")]
    Unverified(String),
    /// The server does not say that its directories can be read.
    #[error("the server does not declare directoryRead, so its directories cannot be read")]
    NoDirectories,
    /// The server asked something that this client cannot or will not answer.
    #[error("the server asked {method:?}, and {reason}")]
    Question {
        /// What it asked.
        method: String,
        /// Why there is no answer.
        reason: String,
    },
    /// The server asks again and again.
    #[error("the server still asks for input after {0} rounds")]
    TooManyRounds(usize),
    /// The server's list has more pages than are read, or its pages go in circles.
    #[error("the list does not end: gave up after {0} pages")]
    EndlessList(usize),
    /// The server answered with a task, which was not asked for.
    #[error("the server made a task of the call, which this client did not offer")]
    UnexpectedTask,
    /// The task of the call was given up at the server.
    #[error("the task {id:?} was cancelled{}", because(.reason.as_deref()))]
    TaskCancelled {
        /// The task.
        id: String,
        /// What the server says about it.
        reason: Option<String>,
    },
    /// The server does not know the task, or has forgotten it.
    #[error("the server has no task {id:?}, or has it no more")]
    TaskGone {
        /// The task.
        id: String,
    },
    /// The server did not declare that it can do this.
    #[error("the server does not offer {0}")]
    NotOffered(String),
    /// A pool has nobody who can take the call.
    #[error("no connection of the pool is available")]
    NoneAvailable,
    /// No server has what was asked for.
    #[error("no server has it")]
    NoSuchServer,
    /// Of many servers some failed: those that all had to do it, or all those that could have.
    #[error("{}", each_of(.0))]
    Servers(Vec<(String, CallError)>),
    /// It is for one server to answer, and the client stands for many.
    #[error("this is for one server to answer, and there are many here: ask the one that Fleet::get gives")]
    NeedsOneServer,
}

/// How far a call got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Delivery {
    /// It was never sent: it has certainly not run.
    NotSent,
    /// It was sent, and what became of it is not known: it may have run.
    Unknown,
    /// The server has answered it.
    Answered,
}

impl CallError {
    pub(crate) fn new(subject: impl Into<String>, kind: CallErrorKind, delivery: Delivery) -> Self {
        Self(Box::new(Inner { subject: subject.into(), kind, delivery }))
    }

    pub(crate) fn not_sent(subject: impl Into<String>, kind: CallErrorKind) -> Self {
        Self::new(subject, kind, Delivery::NotSent)
    }

    pub(crate) fn answered(subject: impl Into<String>, kind: CallErrorKind) -> Self {
        Self::new(subject, kind, Delivery::Answered)
    }

    pub(crate) fn server(subject: impl Into<String>, error: ErrorObject) -> Self {
        Self::answered(subject, CallErrorKind::Server(error))
    }

    pub(crate) fn of_peer(subject: impl Into<String>, error: PeerError) -> Self {
        let (kind, delivery) = match error {
            PeerError::Closed => (CallErrorKind::NotConnected(None), Delivery::NotSent),
            PeerError::Session(SessionError::Closed | SessionError::NotReady) => {
                (CallErrorKind::NotConnected(None), Delivery::NotSent)
            }
            PeerError::Session(error) => (CallErrorKind::Unwritable(error.to_string()), Delivery::NotSent),
            PeerError::Request(RequestError::Peer(error)) => (CallErrorKind::Server(*error), Delivery::Answered),
            PeerError::Request(RequestError::TimedOut(after)) => (CallErrorKind::TimedOut(after), Delivery::Unknown),
            PeerError::Request(RequestError::MaxDuration(after)) => {
                (CallErrorKind::MaxDuration(after), Delivery::Unknown)
            }
            PeerError::Request(RequestError::TooLong { limit }) => {
                (CallErrorKind::TooLong { limit }, Delivery::Unknown)
            }
            PeerError::Request(RequestError::Closed) => (CallErrorKind::Lost(Ended::new()), Delivery::Unknown),
            PeerError::Request(RequestError::Invalid(problem)) => {
                (CallErrorKind::Invalid(DecodeError::custom(problem)), Delivery::Answered)
            }
            PeerError::Unreachable { sent, source } => {
                (CallErrorKind::Unreachable(source), if sent { Delivery::Unknown } else { Delivery::NotSent })
            }
            PeerError::Unauthorized(source) => (CallErrorKind::Unauthorized(source), Delivery::NotSent),
            PeerError::Decode(problem) => (CallErrorKind::Invalid(problem), Delivery::Answered),
            PeerError::Encode(problem) => (CallErrorKind::Unwritable(problem.to_string()), Delivery::NotSent),
            other => (CallErrorKind::Invalid(DecodeError::custom(other)), Delivery::Unknown),
        };
        Self::new(subject, kind, delivery)
    }

    /// The same, by what the caller knows the call as.
    pub(crate) fn about(mut self, subject: impl Into<String>) -> Self {
        self.0.subject = subject.into();
        self
    }

    /// Some of many servers failed.
    pub(crate) fn of_servers(subject: impl Into<String>, failures: Vec<(String, Self)>) -> Self {
        let deliveries = || failures.iter().map(|(_, error)| error.delivery());
        let delivery = if deliveries().any(|delivery| delivery == Delivery::Unknown) {
            Delivery::Unknown
        } else if deliveries().all(|delivery| delivery == Delivery::NotSent) {
            Delivery::NotSent
        } else {
            Delivery::Answered
        };
        Self::new(subject, CallErrorKind::Servers(failures), delivery)
    }

    /// What the call was: the method, and the name of the tool, the prompt or the resource.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &CallErrorKind {
        &self.0.kind
    }

    /// How far it got.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        self.0.delivery
    }

    /// Whether the call may have run although there is no result.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        self.0.delivery == Delivery::Unknown
    }

    /// Whether the server did not answer in time; of many servers, none of those that failed.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match &self.0.kind {
            CallErrorKind::TimedOut(_) | CallErrorKind::MaxDuration(_) => true,
            CallErrorKind::Servers(failures) => failures.iter().all(|(_, error)| error.is_timeout()),
            _ => false,
        }
    }

    /// Whether the call was cancelled here.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.kind, CallErrorKind::Cancelled)
    }

    /// Whether there is no connection, none any more, or no way there just now; of many servers, to none of those that failed.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        match &self.0.kind {
            CallErrorKind::Lost(_)
            | CallErrorKind::NotConnected(_)
            | CallErrorKind::Unreachable(_)
            | CallErrorKind::NoneAvailable => true,
            CallErrorKind::Servers(failures) => failures.iter().all(|(_, error)| error.is_disconnected()),
            _ => false,
        }
    }

    /// Whether there is no way there just now, although the connection, which may be one in name only, has not ended.
    pub(crate) fn is_unreachable(&self) -> bool {
        matches!(self.0.kind, CallErrorKind::Unreachable(_))
    }

    /// Whether nobody was there to send it to.
    pub(crate) fn is_unsent(&self) -> bool {
        self.is_unreachable() && self.0.delivery == Delivery::NotSent
    }

    /// Whether no server has what was asked for.
    #[must_use]
    pub fn is_unknown_everywhere(&self) -> bool {
        matches!(self.0.kind, CallErrorKind::NoSuchServer)
    }

    /// The error that the server answered with, if it did.
    #[must_use]
    pub fn server_error(&self) -> Option<&ErrorObject> {
        match &self.0.kind {
            CallErrorKind::Server(error) => Some(error),
            _ => None,
        }
    }

    /// What to say on a wire to somebody for whom this call was made.
    #[must_use]
    pub fn into_wire(self) -> ErrorObject {
        match self.0.kind {
            CallErrorKind::Server(error) => error,
            CallErrorKind::NoSuchServer | CallErrorKind::TaskGone { .. } => {
                ErrorObject::invalid_params(self.to_string())
            }
            CallErrorKind::NeedsOneServer | CallErrorKind::NotOffered(_) => {
                ErrorObject::new(ErrorCode::METHOD_NOT_FOUND, self.to_string())
            }
            _ => ErrorObject::internal(self.to_string()),
        }
    }

    /// The same of a call of which the server has seen a part already.
    pub(crate) fn begun(mut self) -> Self {
        if self.0.delivery == Delivery::NotSent {
            self.0.delivery = Delivery::Unknown;
        }
        self
    }

    pub(crate) fn with_end(mut self, ended: impl FnOnce() -> Ended) -> Self {
        if let CallErrorKind::Lost(how) = &mut self.0.kind {
            *how = ended();
        }
        self
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.kind, self.0.delivery) {
            // What has not left was not lost on the way.
            (CallErrorKind::Unreachable(_), Delivery::NotSent) => {
                write!(f, "{}: the request could not be sent", self.0.subject)?;
            }
            (kind, _) => write!(f, "{}: {kind}", self.0.subject)?,
        }
        if self.may_have_run() {
            f.write_str("; it may have run")?;
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

/// What failed at each server. There is no one source, so each is told with its own.
fn each_of(failures: &[(String, CallError)]) -> String {
    let each = failures.iter().map(|(server, error)| {
        let mut told = format!("server {server:?}: {}", error.kind());
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            told.push_str(": ");
            told.push_str(&cause.to_string());
            source = cause.source();
        }
        told
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_failed_on_what_and_whether_it_may_have_run() {
        let timeout = PeerError::Request(RequestError::TimedOut(Duration::from_secs(30)));
        let error = CallError::of_peer("tools/call \"add\"", timeout);
        assert_eq!(error.to_string(), "tools/call \"add\": no answer within 30s (timeout); it may have run");
        assert!(error.is_timeout() && error.may_have_run());

        let error = CallError::of_peer("tools/call \"add\"", PeerError::Closed);
        assert_eq!(error.to_string(), "tools/call \"add\": there is no connection to the server");
        assert!(error.is_disconnected() && !error.may_have_run());

        let error = CallError::of_peer("ping", PeerError::Request(RequestError::TooLong { limit: 1000 }));
        assert_eq!(
            error.to_string(),
            "ping: the answer is longer than the limit of 1000 bytes: raise message_limit of the connector, or max_message_bytes of the \
             connection; it may have run"
        );
        assert!(error.may_have_run());

        let error = CallError::server("resources/read \"a://b\"", ErrorObject::invalid_params("no such resource"));
        assert_eq!(
            error.to_string(),
            "resources/read \"a://b\": the server answered: no such resource (-32602 invalid params)"
        );
        assert_eq!(error.into_wire(), ErrorObject::invalid_params("no such resource"));
    }
    #[test]
    fn failures_of_many_servers_are_told_one_by_one() {
        let dead = |why: &str| {
            let why = ConnectError::unreachable("files", why);
            CallError::not_sent("ping", CallErrorKind::NotConnected(Some(why)))
        };
        let error = CallError::of_servers("ping", vec![("files".into(), dead("no such program"))]);
        assert_eq!(
            error.to_string(),
            "ping: server \"files\": there is no connection to the server: cannot reach files: no such program"
        );
        assert!(error.is_disconnected() && !error.may_have_run() && !error.is_timeout());
        assert_eq!(
            format!("{:?}", dead("no such program")),
            "ping: there is no connection to the server: cannot reach files: no such program"
        );
        let slow = CallError::of_peer("ping", PeerError::Request(RequestError::TimedOut(Duration::from_secs(1))));
        let error = CallError::of_servers("ping", vec![("a".into(), dead("gone")), ("b".into(), slow)]);
        assert!(!error.is_disconnected() && !error.is_timeout() && error.may_have_run());
    }
}
