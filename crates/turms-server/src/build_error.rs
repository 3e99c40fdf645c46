//! The error of building a server.

use std::error::Error;
use std::fmt;

use turms_core::__internal::debug_error;

/// The error of [`Server::build`](crate::Server::build). It has one entry for each problem.
///
/// ```
/// # use turms_server as turms;
/// use turms::{Server, Tool};
///
/// let misnamed = Tool::builder("two words").handler_sync(|| "");
/// let error = Server::new("shop", "1.0.0").tool(misnamed).build().unwrap_err();
/// assert!(error.to_string().starts_with("cannot build server \"shop\": tool \"two words\": "));
/// assert_eq!(error.problems()[0].component(), "tool");
/// assert_eq!(error.problems()[0].name(), "two words");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    server: String,
    problems: Vec<ComponentError>,
}

impl BuildError {
    pub(crate) fn new(server: String, problems: Vec<ComponentError>) -> Self {
        Self { server, problems }
    }

    /// Returns the problems in the order of registration: at least one.
    #[must_use]
    pub fn problems(&self) -> &[ComponentError] {
        &self.problems
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot build server {:?}", self.server)?;
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { ":" } else { ";" };
            write!(f, "{separator} {problem}")?;
        }
        Ok(())
    }
}

debug_error! { BuildError |error| { server: error.server, problems: error.problems } }

impl Error for BuildError {}

/// The problem of one component of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{component} {name:?}: {reason}")]
pub struct ComponentError {
    component: &'static str,
    name: String,
    reason: String,
}

impl ComponentError {
    pub(crate) fn new(component: &'static str, name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { component, name: name.into(), reason: reason.into() }
    }

    /// Returns the kind of the component: `tool`, `prompt`, `resource`, `extension`, `method` or `notification`.
    #[must_use]
    pub fn component(&self) -> &str {
        self.component
    }

    /// Returns the name of the component, the URI of a resource or the id of an extension.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the reason.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}
