use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use turms_core::__internal::debug_error;
use turms_proto::{RawJson, SyntaxErrorKind};

use super::entry::Fault;

/// The error of a configuration that cannot be used as a whole.
pub struct ConfigError {
    file: Option<PathBuf>,
    kind: ConfigErrorKind,
}

debug_error! { ConfigError |error| { file: error.file, kind: error.kind } }

impl ConfigError {
    pub(super) fn new(file: Option<&Path>, kind: ConfigErrorKind) -> Self {
        Self { file: file.map(Path::to_owned), kind }
    }

    /// The file, unless the configuration came as text.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &ConfigErrorKind {
        &self.kind
    }

    /// Returns `true` if the file does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(&self.kind, ConfigErrorKind::Read(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns `true` if the file is valid but has no servers, such as the settings of an editor.
    #[must_use]
    pub fn is_without_servers(&self) -> bool {
        matches!(self.kind, ConfigErrorKind::NoServers)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_file(f, self.file())?;
        self.kind.fmt(f)
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.kind.source()
    }
}

/// The kind of a [`ConfigError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigErrorKind {
    /// The file could not be read, is larger than 64 MiB or is not UTF-8.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// The text is not JSON, even if comments and trailing commas are allowed.
    #[error("line {line}, column {column}: {problem}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The problem.
        problem: SyntaxErrorKind,
    },
    /// A `/*` has no `*/`.
    #[error("line {line}, column {column}: a comment is not closed")]
    UnclosedComment {
        /// The line of the `/*`, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
    },
    /// A value that must be an object has another type.
    #[error("{path}{separator}expected an object, found {found}", separator = if path.is_empty() { "" } else { ": " })]
    NotAnObject {
        /// The place, such as `mcpServers`; empty for the file itself.
        path: String,
        /// The kind of the value, such as `an array`.
        found: &'static str,
    },
    /// There is no member that could hold servers.
    #[error("has neither \"mcpServers\" nor \"servers\"")]
    NoServers,
}

impl ConfigErrorKind {
    pub(super) fn not_an_object(path: String, value: &RawJson) -> Self {
        Self::NotAnObject { path, found: kind_of(value) }
    }
}

/// The error of one entry of a configuration. The other entries are not affected.
///
/// Values of the entry are not repeated, because they may be secrets.
pub struct EntryError(Box<EntryErrorInner>);

struct EntryErrorInner {
    file: Option<PathBuf>,
    server: String,
    fault: Fault,
}

debug_error! { EntryError |error| { file: error.0.file, server: error.0.server, fault: error.0.fault } }

impl EntryError {
    pub(super) fn new(file: Option<&Path>, server: &str, fault: Fault) -> Self {
        Self(Box::new(EntryErrorInner { file: file.map(Path::to_owned), server: server.to_owned(), fault }))
    }

    /// The file, unless the configuration came as text.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The name of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.0.server
    }

    /// The place within the entry, such as `env.TOKEN`; empty for the entry itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.fault.path
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> &EntryErrorKind {
        &self.0.fault.kind
    }

    /// Returns `true` if the entry is disabled. The error then has no effect.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        self.0.fault.disabled
    }
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_file(f, self.file())?;
        write!(f, "server {:?}: ", self.server())?;
        if !self.path().is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        self.kind().fmt(f)
    }
}

impl Error for EntryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.kind().source()
    }
}

/// The kind of an [`EntryError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryErrorKind {
    /// A value has the wrong type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// The expected kind, such as `a string`.
        expected: &'static str,
        /// The kind of the value, such as `an array`.
        found: &'static str,
    },
    /// There is neither a command nor a URL.
    #[error("has neither \"command\" nor \"url\"")]
    NoTarget,
    /// There are two members that exclude each other.
    #[error("has both {first:?} and {second:?}")]
    Both {
        /// The first member.
        first: &'static str,
        /// The second member.
        second: &'static str,
    },
    /// The members `type` and `transport` contradict each other.
    #[error("\"type\" and \"transport\" disagree")]
    TransportsDisagree,
    /// An unknown transport.
    #[error("unknown transport {name:?}")]
    UnknownTransport {
        /// The name as written.
        name: String,
    },
    /// The member does not match the transport in `type` or `transport`.
    #[error("{stated:?} does not go with {member:?}")]
    TransportMismatch {
        /// The transport as written.
        stated: String,
        /// The member that does not match.
        member: &'static str,
    },
    /// The value is empty.
    #[error("is empty")]
    Empty,
    /// A NUL character, which arguments and environment variables cannot contain.
    #[error("has a NUL character")]
    Nul,
    /// A string with invalid escapes.
    #[error("is not valid Unicode")]
    NotUnicode,
    /// An invalid name of an environment variable.
    #[error("cannot be the name of a variable")]
    VariableName,
    /// The file of environment variables could not be read, is larger than 1 MiB or is not UTF-8.
    #[error("{} cannot be read", path.display())]
    ReadEnvFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A line of the file of environment variables is invalid.
    #[error("{}: line {line}: {problem}", path.display())]
    EnvFileSyntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem, such as `expected NAME=value`.
        problem: &'static str,
    },
    /// Not a URL, or a URL with an unsupported scheme.
    #[error("expected an address that begins with http://, https://, ws:// or wss://")]
    NotAnAddress,
    /// An HTTP transport at a `ws://` address, or a WebSocket at an `http://` address.
    #[error("the address begins with {scheme}://, which does not go with the stated transport")]
    SchemeMismatch {
        /// The scheme of the address.
        scheme: &'static str,
    },
    /// An invalid name of an HTTP header.
    #[error("cannot be the name of a header")]
    HeaderName,
    /// An invalid value of an HTTP header.
    #[error("has characters that a header cannot carry")]
    HeaderValue,
    /// Too many headers for one request.
    #[error("too many headers")]
    TooManyHeaders,
    /// A variable is not set and there is no default.
    #[error("the environment has no variable {name:?}")]
    UnsetVariable {
        /// Its name.
        name: String,
    },
    /// `${userHome}` without a home folder.
    #[error("${{userHome}} needs a home folder, and there is none")]
    NoHome,
    /// `${workspaceFolder}` without a workspace folder, or one with a name that is not Unicode.
    #[error("${{workspaceFolder}} needs a workspace folder, and there is none")]
    NoWorkspaceFolder,
    /// `${input:…}`, for which an editor prompts the user.
    #[error("${{input:…}} {id:?} requires user input")]
    NeedsPerson {
        /// The id of the input.
        id: String,
    },
    /// `${kind:…}` of an unknown kind.
    #[error("${{…}} of the kind {kind:?} is not known; a literal ${{ is written $${{")]
    UnknownReference {
        /// The text before the colon.
        kind: String,
    },
    /// `${` without `}`.
    #[error("${{ is not closed; a literal ${{ is written $${{")]
    UnclosedReference,
    /// `${}`.
    #[error("${{}} names no variable")]
    EmptyReference,
    /// `${…${…}…}`.
    #[error("${{…}} within ${{…}} is not replaced")]
    NestedReference,
}

/// Returns the kind of a value in words.
pub(super) fn kind_of(value: &RawJson) -> &'static str {
    match value.as_str().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

fn write_file(f: &mut fmt::Formatter<'_>, file: Option<&Path>) -> fmt::Result {
    match file {
        Some(file) => write!(f, "{}: ", file.display()),
        None => Ok(()),
    }
}
