//! Messages prepared for a model (server/prompts).

use std::collections::BTreeMap;

use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::{method, notification};
use crate::types::{
    Annotations, CacheScope, Content, Cursor, EmptyParams, Icon, InputResponses, Meta, Outcome, PaginatedParams,
    ResultType, Role,
};

/// A prompt.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Prompt {
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it takes.
    pub arguments: Option<Vec<PromptArgument>>,
    /// Pictures of it.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Beside the subject.
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What a prompt takes.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Whether it must be given.
    pub required: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What.
    pub content: Content,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl PromptMessage {
    /// The person says.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Role::User, content)
    }

    /// The model says.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

/// A page of prompts.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ListPromptsResult {
    /// The prompts.
    pub prompts: Vec<Prompt>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<Cursor>,
    /// What kind of result this is.
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// For how many milliseconds it may be reused.
    #[object(default = 0, since = V2026_07_28)]
    pub ttl_ms: Option<i64>,
    /// By whom.
    #[object(default = CacheScope::Private, since = V2026_07_28)]
    pub cache_scope: Option<CacheScope>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Which prompt, with what.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct GetPromptParams {
    /// The prompt.
    pub name: String,
    /// Its arguments.
    pub arguments: Option<BTreeMap<String, String>>,
    /// Answers to what the last round asked for.
    #[object(since = V2026_07_28)]
    pub input_responses: Option<InputResponses>,
    /// What the last round wants to see again, as it came.
    #[object(since = V2026_07_28)]
    pub request_state: Option<String>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The messages of a prompt.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct PromptResult {
    /// The messages.
    pub messages: Vec<PromptMessage>,
    /// What they are for.
    pub description: Option<String>,
    /// What kind of result this is.
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl PromptResult {
    /// One more message, said by the person.
    #[must_use]
    pub fn user(mut self, content: impl Into<Content>) -> Self {
        self.messages.push(PromptMessage::user(content));
        self
    }

    /// One more message, said by the model.
    #[must_use]
    pub fn assistant(mut self, content: impl Into<Content>) -> Self {
        self.messages.push(PromptMessage::assistant(content));
        self
    }

    /// One more message, meant as an instruction. The protocol knows no role but the person's and the model's, so it is the
    /// person's, marked as being for the model alone.
    #[must_use]
    pub fn system(mut self, content: impl Into<Content>) -> Self {
        let for_the_model = Annotations::new().audience([Role::Assistant]).priority(1);
        self.messages.push(PromptMessage::user(content.into().with_annotations(for_the_model)));
        self
    }
}

crate::types::multi_round!(PromptResult without messages, may be a task: false);

method!(
    /// `prompts/list`.
    ListPrompts = "prompts/list", PaginatedParams => ListPromptsResult
);

method!(
    /// `prompts/get`.
    GetPrompt = "prompts/get", GetPromptParams => Outcome<PromptResult>
);

notification!(
    /// `notifications/prompts/list_changed`.
    PromptListChanged = "notifications/prompts/list_changed", EmptyParams
);
