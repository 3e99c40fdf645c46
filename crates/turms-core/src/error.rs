//! The error that ends a program.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use tokio::task::JoinError;
use turms_proto::revision::{UnknownVersionError, UnsupportedFeatureError};
use turms_proto::session::OpenError;
use turms_proto::types::{Base64Error, MissingCapabilityError, SkillEntryError, ToolFailedError};
use turms_proto::uri_template::TemplateError;
use turms_proto::{CanonicalError, DecodeError, EncodeError, ErrorObject, MessageError, SyntaxError};

use crate::channel::ConnectError;
use crate::connection::{ConnectionError, HandshakeError};
use crate::peer::PeerError;
use crate::principal::InsufficientScopeError;
use crate::registry::{RegisterError, RegistryError, ServiceCallError, ServiceNameError};
use crate::service_error::ServiceError;
use crate::store::StoreError;
use crate::transport::SpawnError;

/// The error of building and serving a server, and of a `main` that uses Turms.
///
/// Every other error of Turms, [`io::Error`], tokio's `JoinError`, `serde_json::Error` and `Box<dyn Error + Send + Sync>`
/// convert into it by `?`. For an error of another crate, write
/// `.map_err(|error| Error::new(ErrorKind::Other, error))?`, or let `main` return a `Box<dyn Error>`, into which this
/// error converts.
///
/// Operations have their own error types; this one is for reporting. `Debug` prints the message and a line for each
/// cause, so that a program with a `main` that returns it ends with sentences. `{:#?}` shows the fields.
///
/// ```
/// # use turms_core as turms;
/// use turms::{Error, ErrorKind};
///
/// let cause = std::io::Error::other("address already in use");
/// let error = Error::with_source(ErrorKind::Bind, "cannot listen on 127.0.0.1:80", cause);
/// assert_eq!(format!("{error:?}"), "cannot listen on 127.0.0.1:80\ncaused by: address already in use");
/// assert!(error.downcast_ref::<std::io::Error>().is_some());
/// ```
pub struct Error(Box<ErrorParts>);

/// The result of serving: `Ok` after a clean shutdown.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

struct ErrorParts {
    kind: ErrorKind,
    error: BoxError,
}

type BoxError = Box<dyn StdError + Send + Sync>;

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A tool, prompt, resource or extension of the server is invalid.
    Build,
    /// Standard input or output cannot be used.
    Stdio,
    /// A connection failed, or cannot be opened.
    Connection,
    /// The server cannot listen on the address.
    Bind,
    /// A setting cannot be used, such as a TLS certificate or a configuration file.
    Setup,
    /// Another error, such as that of a call.
    Other,
}

impl Error {
    /// Creates an error from another error, or from a message.
    pub fn new(kind: ErrorKind, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(Box::new(ErrorParts { kind, error: error.into() }))
    }

    /// Creates an error from a message and its cause.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self::new(kind, ErrorWithSource { message: message.into(), source: source.into() })
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the first error of this type among the error that this one was made from and its causes.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        let first: &(dyn StdError + 'static) = &*self.0.error;
        std::iter::successors(Some(first), |&error| error.source()).find_map(|error| error.downcast_ref())
    }
}

/// A message with a cause.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct ErrorWithSource {
    message: String,
    source: BoxError,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.error.fmt(f)
    }
}

crate::__debug_error! { Error |error| { kind: error.0.kind, error: error.0.error } }

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.error.source()
    }
}

/// Writes the message of an error and a line for each cause. A cause that the line before it contains is not repeated.
pub fn debug_report(error: &(dyn StdError + 'static), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut previous = error.to_string();
    f.write_str(&previous)?;
    for cause in std::iter::successors(error.source(), |&error| error.source()) {
        let message = cause.to_string();
        if !previous.contains(&message) {
            write!(f, "\ncaused by: {message}")?;
            previous = message;
        }
    }
    Ok(())
}

/// Implements `Debug` for an error: the message and a line for each cause, and all fields with `{:#?}`. A program with a `main` that returns
/// the error then ends with sentences.
///
/// Takes an enum with the fields of its variants, `debug_error! { PoolError { Unreachable { tried, last }, Timeout(limit), Closed } }`,
/// or a struct with expressions, `debug_error! { Error |error| { kind: error.0.kind } }`.
#[doc(hidden)]
#[macro_export]
macro_rules! __debug_error {
    ($error:ident { $($variant:ident $({ $($field:ident),+ })? $(( $($value:ident),+ ))?),+ $(,)? }) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                if !f.alternate() {
                    return $crate::__internal::debug_report(self, f);
                }
                match self {$(
                    Self::$variant $({ $($field),+ })? $(( $($value),+ ))? => f
                        .debug_struct(concat!(stringify!($error), "::", stringify!($variant)))
                        $($(.field(stringify!($field), $field))+)?
                        $($(.field(stringify!($value), $value))+)?
                        .finish(),
                )+}
            }
        }
    };
    ($error:ident |$this:ident| { $($name:ident: $value:expr),+ $(,)? }) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                if !f.alternate() {
                    return $crate::__internal::debug_report(self, f);
                }
                let $this = self;
                f.debug_struct(stringify!($error))$(.field(stringify!($name), &$value))+.finish()
            }
        }
    };
}

/// Converts errors into [`Error`]s of a kind: `into_error! { Other: CallError, Setup: ConfigError }`.
#[doc(hidden)]
#[macro_export]
macro_rules! __into_error {
    ($($kind:ident: $error:ty),+ $(,)?) => {$(
        impl From<$error> for $crate::Error {
            fn from(error: $error) -> Self {
                Self::new($crate::ErrorKind::$kind, error)
            }
        }
    )+};
}

__into_error! {
    Connection: ConnectionError,
    Connection: ConnectError,
    Connection: OpenError,
    Connection: HandshakeError,
    Connection: SpawnError,
    Other: Base64Error,
    Other: CanonicalError,
    Other: DecodeError,
    Other: EncodeError,
    Other: ErrorObject,
    Other: InsufficientScopeError,
    Other: MessageError,
    Other: JoinError,
    Other: MissingCapabilityError,
    Other: PeerError,
    Other: RegisterError,
    Other: RegistryError,
    Other: ServiceCallError,
    Other: ServiceError,
    Other: ServiceNameError,
    Other: SkillEntryError,
    Other: StoreError,
    Other: SyntaxError,
    Other: TemplateError,
    Other: ToolFailedError,
    Other: UnknownVersionError,
    Other: UnsupportedFeatureError,
    Other: io::Error,
    Other: serde_json::Error,
    Other: BoxError,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind_error() -> Error {
        let source = io::Error::new(io::ErrorKind::AddrInUse, "address already in use (os error 98)");
        Error::with_source(ErrorKind::Bind, "cannot listen on 127.0.0.1:80", source)
    }

    #[test]
    fn debug_is_the_message_and_a_line_for_each_cause() {
        let error = bind_error();
        assert_eq!(error.to_string(), "cannot listen on 127.0.0.1:80");
        assert_eq!(
            format!("{error:?}"),
            "cannot listen on 127.0.0.1:80\ncaused by: address already in use (os error 98)"
        );
        let fields = format!("{error:#?}");
        assert!(fields.starts_with("Error {") && fields.contains("kind: Bind"), "{fields}");
    }

    #[test]
    fn the_cause_can_be_found_by_its_type() {
        let error = bind_error();
        assert_eq!(error.kind(), ErrorKind::Bind);
        assert_eq!(error.downcast_ref::<io::Error>().map(io::Error::kind), Some(io::ErrorKind::AddrInUse));
        assert!(error.downcast_ref::<StoreError>().is_none());
        assert!(error.source().is_some_and(|source| source.is::<io::Error>()));
    }

    #[tokio::test]
    async fn other_errors_convert_by_the_question_mark() {
        fn io() -> Result {
            Err(io::Error::other("disk"))?
        }
        fn boxed() -> Result {
            Err(BoxError::from("text"))?
        }
        fn connection() -> Result {
            Err(ConnectionError::Read(io::Error::other("broken")))?
        }
        async fn task() -> Result {
            let task = tokio::spawn(std::future::pending::<()>());
            task.abort();
            Ok(task.await?)
        }
        assert_eq!(io().unwrap_err().to_string(), "disk");
        assert_eq!(boxed().unwrap_err().to_string(), "text");
        assert_eq!(connection().unwrap_err().kind(), ErrorKind::Connection);
        assert_eq!(format!("{:?}", connection().unwrap_err()), "cannot read from the peer\ncaused by: broken");
        let cancelled = task().await.unwrap_err();
        assert!(cancelled.downcast_ref::<JoinError>().is_some_and(JoinError::is_cancelled));
    }
}
