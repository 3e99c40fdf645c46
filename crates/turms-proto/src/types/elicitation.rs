//! Asking the person (client/elicitation).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::{Object, RawJson};
use crate::method::{method, notification};
use crate::object::string_enum;
use crate::types::{FormSchema, Meta, TaskRequest};

string_enum! {
    /// What is wanted of the person. The member says so only since 2025-11-25; before there were only forms.
    closed FormMode {
        /// To fill in a form.
        Form = "form",
    }
}

/// A form to be filled in.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ElicitForm {
    /// What to tell the person.
    pub message: String,
    /// The form.
    pub requested_schema: FormSchema,
    /// That it is a form.
    #[object(default = FormMode::Form, since = V2025_11_25)]
    pub mode: Option<FormMode>,
    /// Run it as a task (2025-11-25).
    #[object(only = V2025_11_25)]
    pub task: Option<TaskRequest>,
    /// Beside the subject.
    #[object(rename = "_meta", until = V2025_11_25)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A page to be visited.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("mode", "url"))]
#[non_exhaustive]
pub struct ElicitUrl {
    /// What to tell the person.
    pub message: String,
    /// The page.
    pub url: String,
    /// What `notifications/elicitation/complete` will name; 2025-11-25 demands it.
    #[object(only = V2025_11_25)]
    pub elicitation_id: Option<String>,
    /// Run it as a task (2025-11-25).
    #[object(only = V2025_11_25)]
    pub task: Option<TaskRequest>,
    /// Beside the subject.
    #[object(rename = "_meta", until = V2025_11_25)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What is wanted of the person.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// To fill in a form.
    Form(ElicitForm),
    /// To visit a page.
    Url(ElicitUrl),
}

impl ElicitParams {
    /// A form to be filled in.
    pub fn form(message: impl Into<String>, schema: impl Into<FormSchema>) -> Self {
        Self::Form(ElicitForm::new(message, schema))
    }

    /// A page to be visited.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(ElicitUrl::new(message, url))
    }

    /// What to tell the person.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Form(form) => &form.message,
            Self::Url(url) => &url.message,
        }
    }
}

impl From<ElicitForm> for ElicitParams {
    fn from(form: ElicitForm) -> Self {
        Self::Form(form)
    }
}

impl From<ElicitUrl> for ElicitParams {
    fn from(url: ElicitUrl) -> Self {
        Self::Url(url)
    }
}

impl Serialize for ElicitParams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Form(form) => form.serialize(serializer),
            Self::Url(url) => url.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ElicitParams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = RawJson::deserialize(deserializer)?;
        let mode: Option<String> = match value.member("mode") {
            Some(mode) => mode.decode().map_err(|error| D::Error::custom(error.within("mode")))?,
            None => None,
        };
        match mode.as_deref() {
            None | Some("form") => value.decode().map(Self::Form).map_err(D::Error::custom),
            Some("url") => value.decode().map(Self::Url).map_err(D::Error::custom),
            Some(mode) => Err(D::Error::custom(format_args!("unknown elicitation mode {mode:?}"))),
        }
    }
}

string_enum! {
    /// What the person did.
    closed ElicitAction {
        /// Filled in the form, or agreed to visit the page.
        Accept = "accept",
        /// Said no.
        Decline = "decline",
        /// Said nothing.
        Cancel = "cancel",
    }
}

/// What the person answered.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ElicitResult {
    /// What the person did.
    pub action: ElicitAction,
    /// The form, filled in.
    pub content: Option<Object>,
    /// Beside the subject.
    #[object(rename = "_meta", until = V2025_11_25)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ElicitResult {
    /// The form, filled in.
    pub fn accept(content: impl Into<Object>) -> Self {
        Self::new(ElicitAction::Accept).content(content)
    }

    /// The person agreed to visit the page.
    #[must_use]
    pub fn accept_url() -> Self {
        Self::new(ElicitAction::Accept)
    }

    /// The person said no.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// The person said nothing.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

/// Which page has been dealt with (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ElicitationCompleteParams {
    /// The id that the request carried.
    pub elicitation_id: String,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The data of error -32042 (2025-11-25): pages to be visited before the request can be made again.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct UrlElicitationRequired {
    /// The pages.
    pub elicitations: Vec<ElicitUrl>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `elicitation/create`, asked by servers; since 2026-07-28 only inside `inputRequests`.
    Elicit = "elicitation/create", ElicitParams => ElicitResult
);

notification!(
    /// `notifications/elicitation/complete`, only in 2025-11-25.
    ElicitationComplete = "notifications/elicitation/complete", ElicitationCompleteParams
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_tells_forms_from_pages() {
        let schema = r#""requestedSchema":{"type":"object","properties":{}}"#;
        for text in [format!(r#"{{"message":"m",{schema}}}"#), format!(r#"{{"mode":"form","message":"m",{schema}}}"#)] {
            assert!(matches!(crate::decode(&text), Ok(ElicitParams::Form(_))), "{text}");
        }
        for mode in ["url", r"\u0075rl"] {
            let url = crate::decode(&format!(r#"{{"message":"m","mode":"{mode}","url":"https://a.example"}}"#));
            assert_eq!(url, Ok(ElicitParams::url("m", "https://a.example")));
        }
        let error = crate::decode::<ElicitParams>(r#"{"message":"m","mode":"dance"}"#).unwrap_err();
        assert_eq!(error.to_string(), "unknown elicitation mode \"dance\"");
    }
}
