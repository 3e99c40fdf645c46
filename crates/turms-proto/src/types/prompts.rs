//! Messages prepared for a model (server/prompts).

use std::collections::BTreeMap;

use crate::method::{method, notification};
use crate::object::object;
use crate::types::{
    Annotations, CacheScope, Content, Cursor, EmptyParams, Icon, InputResponses, Meta, Outcome, PaginatedParams,
    ResultType, Role,
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
