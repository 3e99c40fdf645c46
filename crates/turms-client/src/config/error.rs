use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use turms_core::error_chain;
use turms_proto::{Problem, RawJson};

use super::entry::Fault;
use super::env_file::EnvFileError;
use super::file::ReadError;

/// A configuration as a whole is of no use.
pub struct ConfigError {
    file: Option<PathBuf>,
    problem: ConfigProblem,
}

/// The message with its causes, so that an error that leaves `main` reads as a sentence.
impl fmt::Debug for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_chain(self))
    }
}

impl ConfigError {
    pub(super) fn new(file: Option<&Path>, problem: ConfigProblem) -> Self {
        Self { file: file.map(Path::to_owned), problem }
    }

    /// The file, unless the configuration came as text.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The problem.
    #[must_use]
    pub fn problem(&self) -> &ConfigProblem {
        &self.problem
    }

    /// Returns `true` if the file does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(&self.problem, ConfigProblem::Read(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns `true` if the file is valid but names no servers, such as the settings of an editor.
    #[must_use]
    pub fn is_without_servers(&self) -> bool {
        matches!(self.problem, ConfigProblem::NoServers)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_file(f, self.file())?;
        self.problem.fmt(f)
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problem.source()
    }
}

/// A problem of a configuration as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// The file could not be read.
    #[error("cannot be read")]
    Read(#[source] ReadError),
    /// The text is not JSON, even if comments and trailing commas are allowed.
    #[error("line {line}, column {column}: {problem}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// The problem.
        problem: Problem,
    },
    /// A `/*` has no `*/`.
    #[error("line {line}, column {column}: a comment is not closed")]
    UnclosedComment {
        /// The line of the `/*`, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
    },
    /// Something else stands where an object has to.
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

impl ConfigProblem {
    pub(super) fn not_an_object(path: String, value: &RawJson) -> Self {
        Self::NotAnObject { path, found: kind_of(value) }
    }
}

/// One entry of a configuration is of no use. The others are not affected.
///
/// No value of the entry is repeated here, because it may be a secret.
#[derive(Debug)]
pub struct EntryError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    file: Option<PathBuf>,
    server: String,
    fault: Fault,
}

impl EntryError {
    pub(super) fn new(file: Option<&Path>, server: &str, fault: Fault) -> Self {
        Self(Box::new(Inner { file: file.map(Path::to_owned), server: server.to_owned(), fault }))
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

    /// The problem.
    #[must_use]
    pub fn problem(&self) -> &EntryProblem {
        &self.0.fault.problem
    }

    /// Returns `true` if the entry is disabled, so that the problem does not matter now.
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
        self.problem().fmt(f)
    }
}

impl Error for EntryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problem().source()
    }
}

/// A problem of an entry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryProblem {
    /// A value is of another type than what belongs there.
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
    /// There are two members of which only one can count.
    #[error("has both {first:?} and {second:?}")]
    Both {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// The members `type` and `transport` say different things.
    #[error("\"type\" and \"transport\" disagree")]
    TransportsDisagree,
    /// A transport that nobody here knows.
    #[error("unknown transport {name:?}")]
    UnknownTransport {
        /// As it is written.
        name: String,
    },
    /// The stated transport needs another member than the one that is there.
    #[error("{stated:?} does not go with {member:?}")]
    TransportMismatch {
        /// The transport as it is written.
        stated: String,
        /// The member that is there.
        member: &'static str,
    },
    /// Nothing is there, which cannot be right here.
    #[error("is empty")]
    Empty,
    /// A NUL character, which no operating system takes in an argument or a variable.
    #[error("has a NUL character")]
    Nul,
    /// A string with escapes that stand for no character.
    #[error("is not valid Unicode")]
    NotUnicode,
    /// A name that no environment variable can have.
    #[error("cannot be the name of a variable")]
    VariableName,
    /// The file of environment variables is of no use.
    #[error("{} cannot be used", path.display())]
    EnvFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        problem: EnvFileError,
    },
    /// Not a URL, or one of a scheme that leads to no server.
    #[error("expected an address that begins with http://, https://, ws:// or wss://")]
    NotAnAddress,
    /// An HTTP transport at a `ws://` address, or a WebSocket at an `http://` address.
    #[error("the address begins with {scheme}://, which does not go with the stated transport")]
    SchemeMismatch {
        /// The scheme of the address.
        scheme: &'static str,
    },
    /// A name that no HTTP header can have.
    #[error("cannot be the name of a header")]
    HeaderName,
    /// A value that no HTTP header can have.
    #[error("has characters that a header cannot carry")]
    HeaderValue,
    /// More headers than one request can carry.
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
    /// `${workspaceFolder}` without a workspace folder, or one whose name is not Unicode.
    #[error("${{workspaceFolder}} needs a workspace folder, and there is none")]
    NoWorkspaceFolder,
    /// `${input:…}`, which an editor asks of the person in front of it.
    #[error("${{input:…}} {id:?} has to be asked of a person")]
    NeedsPerson {
        /// Which input.
        id: String,
    },
    /// `${kind:…}` of a kind that nobody here knows.
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
