//! Messages prepared for a model (server/prompts).

use std::collections::BTreeMap;

use crate::method::{method, notification};
use crate::object::object;
use crate::types::{
    CacheScope, Content, Cursor, EmptyParams, Icon, InputResponses, Meta, Outcome, PaginatedParams, ResultType, Role,
};

object! {
    /// A prompt.
    pub struct Prompt {
        required {
            /// Its name for programs.
            name: String => "name",
        }
        optional {
            /// Its name for people.
            title: String => "title",
            /// What it is for.
            description: String => "description",
            /// What it takes.
            arguments: Vec<PromptArgument> => "arguments",
            /// Pictures of it.
            icons: Vec<Icon> => "icons",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// What a prompt takes.
    pub struct PromptArgument {
        required {
            /// Its name for programs.
            name: String => "name",
        }
        optional {
            /// Its name for people.
            title: String => "title",
            /// What it is for.
            description: String => "description",
            /// Whether it must be given.
            required: bool => "required",
        }
    }
}

object! {
    /// A message of a prompt.
    pub struct PromptMessage {
        required {
            /// Who says it.
            role: Role => "role",
            /// What.
            content: Content => "content",
        }
    }
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

object! {
    /// A page of prompts.
    pub struct ListPromptsResult (custom) {
        required {
            /// The prompts.
            prompts: Vec<Prompt> => "prompts",
        }
        optional {
            /// Where the next page begins, if there is one.
            next_cursor: Cursor => "nextCursor",
            /// What kind of result this is.
            result_type: ResultType = ResultType::Complete => "resultType",
            /// For how many milliseconds it may be reused.
            ttl_ms: i64 = 0 => "ttlMs",
            /// By whom.
            cache_scope: CacheScope = CacheScope::Private => "cacheScope",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// Which prompt, with what.
    pub struct GetPromptParams {
        required {
            /// The prompt.
            name: String => "name",
        }
        optional {
            /// Its arguments.
            arguments: BTreeMap<String, String> => "arguments",
            /// Answers to what the last round asked for.
            input_responses: InputResponses => "inputResponses",
            /// What the last round wants to see again, as it came.
            request_state: String => "requestState",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// The messages of a prompt.
    pub struct PromptResult (custom) {
        required {
            /// The messages.
            messages: Vec<PromptMessage> => "messages",
        }
        optional {
            /// What they are for.
            description: String => "description",
            /// What kind of result this is.
            result_type: ResultType = ResultType::Complete => "resultType",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

crate::types::multi_round!(PromptResult);

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
