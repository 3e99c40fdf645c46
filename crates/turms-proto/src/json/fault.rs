//! What is wrong with a value, and where.

use std::fmt;

use serde::de::{Error, Expected, Unexpected};

use super::scan::SyntaxError;

/// What does not fit, and where.
#[derive(Debug)]
#[expect(unnameable_types, reason = "sealed: others see it as a `DecodeError`")]
pub struct Fault(Box<Parts>);

/// Says that the variant which nobody knows is a fault of ours.
const CARRIED: &[&str] = &["$turms::fault"];

#[derive(Debug)]
struct Parts {
    path: String,
    /// Nothing if the text is no JSON; what is wrong with it is found out when everything else is known.
    problem: Option<String>,
}

impl Fault {
    #[cold]
    pub(crate) fn new(problem: String) -> Self {
        Self(Box::new(Parts { path: String::new(), problem: Some(problem) }))
    }

    /// The place and the problem.
    pub(super) fn into_parts(self) -> (String, String) {
        (self.0.path, self.0.problem.unwrap_or_default())
    }

    /// Seen from the object that has this in a member.
    #[cold]
    pub(crate) fn within(mut self, name: &str) -> Self {
        let path = &mut self.0.path;
        if !path.is_empty() && !path.starts_with('[') {
            path.insert(0, '.');
        }
        path.insert_str(0, name);
        self
    }

    /// Seen from the array that has this at an index.
    #[cold]
    pub(super) fn at(mut self, index: usize) -> Self {
        let path = &mut self.0.path;
        if !path.is_empty() && !path.starts_with('[') {
            path.insert(0, '.');
        }
        path.insert_str(0, &format!("[{index}]"));
        self
    }

    /// Through code that knows any error there is, but comes to us again in the end.
    #[cold]
    pub(super) fn carried<E: Error>(self) -> E {
        let Parts { path, problem } = *self.0;
        match problem {
            Some(problem) => E::unknown_variant(&format!("{}:{path}{problem}", path.len()), CARRIED),
            None => E::unknown_variant("", CARRIED),
        }
    }

    /// As it was before it was [carried](Fault::carried).
    fn arrived(carried: &str) -> Self {
        let parts = carried.split_once(':').and_then(|(length, text)| text.split_at_checked(length.parse().ok()?));
        let (path, problem) = match parts {
            Some((path, problem)) => (path.to_owned(), Some(problem.to_owned())),
            None => (String::new(), None),
        };
        Self(Box::new(Parts { path, problem }))
    }

    /// What is wrong with text that is no JSON, `serde_json` says.
    pub(super) fn explained(mut self, text: &str) -> Self {
        if self.0.problem.is_none() {
            let problem = serde_json::from_str::<serde_json::Value>(text).err().map(|error| error.to_string());
            self.0.path = String::new();
            self.0.problem = Some(problem.unwrap_or_else(|| "recursion limit exceeded".to_owned()));
        }
        self
    }
}

impl From<SyntaxError> for Fault {
    #[cold]
    fn from(_: SyntaxError) -> Self {
        Self(Box::new(Parts { path: String::new(), problem: None }))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.problem.as_deref().unwrap_or("not JSON"))
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    #[cold]
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self::new(problem.to_string())
    }

    #[cold]
    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        if expected == CARRIED {
            return Self::arrived(variant);
        }
        Self::new(serde::de::value::Error::unknown_variant(variant, expected).to_string())
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(mismatch("type", found, expected))
    }

    #[cold]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(mismatch("value", found, expected))
    }
}

pub(super) fn mismatch(what: &str, found: Unexpected<'_>, expected: &dyn Expected) -> String {
    match found {
        Unexpected::Unit => format!("invalid {what}: null, expected {expected}"),
        // As JSON writes it.
        Unexpected::Float(number) => {
            format!("invalid {what}: floating point `{}`, expected {expected}", serde_json::Value::from(number))
        }
        found => format!("invalid {what}: {found}, expected {expected}"),
    }
}
