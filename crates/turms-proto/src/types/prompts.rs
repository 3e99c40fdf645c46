//! Prompts: messages prepared for a model (server/prompts).

use std::collections::BTreeMap;

use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::{method, notification};
use crate::types::{
    Annotations, CacheScope, Content, Cursor, EmptyParams, Icon, InputResponses, Meta, Outcome, PaginatedParams,
    ResultType, Role,
};

/// Definition of a prompt.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Prompt {
    /// Programmatic name.
    pub name: String,
    /// Display name.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// Description of the prompt.
    pub description: Option<String>,
    /// Arguments of the prompt.
    pub arguments: Option<Vec<PromptArgument>>,
    /// Icons for display.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Programmatic name.
    pub name: String,
    /// Display name.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// Description of the argument.
    pub description: Option<String>,
    /// `true` if the argument is required.
    pub required: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A message of a prompt.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct PromptMessage {
    /// Role of the message.
    pub role: Role,
    /// Content of the message.
    pub content: Content,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl PromptMessage {
    /// Creates a message of the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

/// Result of `prompts/list`: a page of prompts.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ListPromptsResult {
    /// The prompts.
    pub prompts: Vec<Prompt>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<Cursor>,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Time for which the result may be cached, in milliseconds. Default: 0.
    #[object(default = 0, since = V2026_07_28)]
    pub ttl_ms: Option<i64>,
    /// Caches that may store the result. Default: [`CacheScope::Private`].
    #[object(default = CacheScope::Private, since = V2026_07_28)]
    pub cache_scope: Option<CacheScope>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `prompts/get`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct GetPromptParams {
    /// Name of the prompt.
    pub name: String,
    /// Arguments of the prompt.
    pub arguments: Option<BTreeMap<String, String>>,
    /// Responses to the input requests of the previous round.
    #[object(since = V2026_07_28)]
    pub input_responses: Option<InputResponses>,
    /// Request state from the previous round, sent back unchanged.
    #[object(since = V2026_07_28)]
    pub request_state: Option<String>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of `prompts/get`: the messages of a prompt.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct GetPromptResult {
    /// The messages.
    pub messages: Vec<PromptMessage>,
    /// Description of the prompt.
    pub description: Option<String>,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl GetPromptResult {
    /// Adds a message of the user.
    #[must_use]
    pub fn user(mut self, content: impl Into<Content>) -> Self {
        self.messages.push(PromptMessage::user(content));
        self
    }

    /// Adds a message of the model.
    #[must_use]
    pub fn assistant(mut self, content: impl Into<Content>) -> Self {
        self.messages.push(PromptMessage::assistant(content));
        self
    }

    /// Adds an instruction for the model. The protocol has no system role: the message has the role `user`, with
    /// annotations that name the model as its only audience.
    #[must_use]
    pub fn system(mut self, content: impl Into<Content>) -> Self {
        let annotations = Annotations::new().audience([Role::Assistant]).priority(1);
        self.messages.push(PromptMessage::user(content.into().with_annotations(annotations)));
        self
    }
}

crate::types::multi_round!(GetPromptResult without messages, may be a task: false);

method!(
    /// `prompts/list`.
    ListPrompts = "prompts/list", PaginatedParams => ListPromptsResult
);

method!(
    /// `prompts/get`.
    GetPrompt = "prompts/get", GetPromptParams => Outcome<GetPromptResult>
);

notification!(
    /// `notifications/prompts/list_changed`.
    PromptListChangedNotification = "notifications/prompts/list_changed", EmptyParams
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, when};

        let list_prompts_result = ListPromptsResult::new(Vec::new());
        let code = [
            ("ListPromptsResult::ttl_ms", count(list_prompts_result.ttl_ms.unwrap())),
            (
                "ListPromptsResult::cache_scope",
                when(list_prompts_result.cache_scope == Some(CacheScope::Private), "[`CacheScope::Private`]"),
            ),
        ];
        assert_documented(include_str!("prompts.rs"), &code);
    }
}
