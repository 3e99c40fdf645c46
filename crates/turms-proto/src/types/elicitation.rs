//! Input from the user (client/elicitation).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::EncodeError;
use crate::json::{Object, RawJson};
use crate::method::{method, notification};
use crate::object::string_enum;
use crate::types::{FormSchema, Meta, TaskRequest};

string_enum! {
    /// Mode of a form elicitation. Sent since 2025-11-25; earlier revisions have only forms.
    closed FormMode {
        /// A form.
        Form = "form",
    }
}

/// A request to fill in a form.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ElicitForm {
    /// Message to show to the user.
    pub message: String,
    /// Schema of the form.
    pub requested_schema: FormSchema,
    /// The mode, always [`FormMode::Form`].
    #[object(default = FormMode::Form, since = V2025_11_25)]
    pub mode: Option<FormMode>,
    /// Request to run it as a task (2025-11-25).
    #[object(only = V2025_11_25)]
    pub task: Option<TaskRequest>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", until = V2025_11_25)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A request to visit a URL.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("mode", "url"))]
#[non_exhaustive]
pub struct ElicitUrl {
    /// Message to show to the user.
    pub message: String,
    /// The URL.
    pub url: String,
    /// Id for `notifications/elicitation/complete`; required in 2025-11-25.
    #[object(only = V2025_11_25)]
    pub elicitation_id: Option<String>,
    /// Request to run it as a task (2025-11-25).
    #[object(only = V2025_11_25)]
    pub task: Option<TaskRequest>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", until = V2025_11_25)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `elicitation/create`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitParams {
    /// A form to fill in.
    Form(ElicitForm),
    /// A URL to visit.
    Url(ElicitUrl),
}

impl ElicitParams {
    /// Creates a request to fill in a form.
    pub fn form(message: impl Into<String>, schema: impl Into<FormSchema>) -> Self {
        Self::Form(ElicitForm::new(message, schema))
    }

    /// Creates a request to visit a URL.
    pub fn url(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self::Url(ElicitUrl::new(message, url))
    }

    /// Returns the message to show to the user.
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
    /// Action of the user.
    closed ElicitAction {
        /// The user submitted the form, or agreed to visit the URL.
        Accept = "accept",
        /// The user declined.
        Decline = "decline",
        /// The user dismissed the request without a choice.
        Cancel = "cancel",
    }
}

/// Result of `elicitation/create`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ElicitResult {
    /// Action of the user.
    pub action: ElicitAction,
    /// The form data, if the user submitted a form.
    pub content: Option<Object>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", until = V2025_11_25)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ElicitResult {
    /// Creates the result of a submitted form. The content is anything that serializes to a JSON object.
    ///
    /// # Errors
    /// If the content does not serialize, or not to an object.
    pub fn accept(content: impl Serialize) -> Result<Self, EncodeError> {
        Ok(Self::new(ElicitAction::Accept).content(Object::encode(&content)?))
    }

    /// Creates the result of an accepted URL.
    #[must_use]
    pub fn accept_url() -> Self {
        Self::new(ElicitAction::Accept)
    }

    /// Creates the result of a declined request.
    #[must_use]
    pub fn decline() -> Self {
        Self::new(ElicitAction::Decline)
    }

    /// Creates the result of a dismissed request.
    #[must_use]
    pub fn cancel() -> Self {
        Self::new(ElicitAction::Cancel)
    }
}

/// Parameters of `notifications/elicitation/complete` (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ElicitationCompleteParams {
    /// Id of the elicitation request.
    pub elicitation_id: String,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Data of error -32042 (2025-11-25): URLs to visit before the request is retried.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct UrlElicitationRequired {
    /// The URL elicitations.
    pub elicitations: Vec<ElicitUrl>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `elicitation/create`, sent by servers; since 2026-07-28 only inside `inputRequests`.
    Elicit = "elicitation/create", ElicitParams => ElicitResult
);

notification!(
    /// `notifications/elicitation/complete`, only in 2025-11-25.
    ElicitationCompleteNotification = "notifications/elicitation/complete", ElicitationCompleteParams
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
