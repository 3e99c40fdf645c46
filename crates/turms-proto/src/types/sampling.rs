//! Asking the client's model (client/sampling).

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::{Number, Object};
use crate::method::method;
use crate::object::{object, string_enum};
use crate::types::{Content, Meta, Role, TaskRequest, Tool};

/// The content of a message: one block, or since 2025-11-25 a list of them. Which of the two it was is kept.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "JSON has nothing between one and many")]
pub enum Blocks {
    /// One block.
    One(Content),
    /// A list of blocks.
    Many(Vec<Content>),
}

impl Blocks {
    /// The blocks, however they are written.
    #[must_use]
    pub fn as_slice(&self) -> &[Content] {
        match self {
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }
}

impl From<Content> for Blocks {
    fn from(block: Content) -> Self {
        Self::One(block)
    }
}

impl From<&str> for Blocks {
    fn from(text: &str) -> Self {
        Self::One(Content::text(text))
    }
}

impl From<String> for Blocks {
    fn from(text: String) -> Self {
        Self::One(Content::text(text))
    }
}

impl From<Vec<Content>> for Blocks {
    fn from(blocks: Vec<Content>) -> Self {
        Self::Many(blocks)
    }
}

impl Serialize for Blocks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(block) => block.serialize(serializer),
            Self::Many(blocks) => blocks.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Blocks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BlocksVisitor;

        impl<'de> Visitor<'de> for BlocksVisitor {
            type Value = Blocks;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a content block or a list of them")
            }

            fn visit_map<A: MapAccess<'de>>(self, block: A) -> Result<Blocks, A::Error> {
                Content::deserialize(MapAccessDeserializer::new(block)).map(Blocks::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<Blocks, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(blocks)).map(Blocks::Many)
            }
        }

        deserializer.deserialize_any(BlocksVisitor)
    }
}

object! {
    /// A message of a conversation.
    pub struct SamplingMessage {
        required {
            /// Who says it.
            role: Role => "role",
            /// What.
            content: Blocks => "content",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

impl SamplingMessage {
    /// The person says.
    pub fn user(content: impl Into<Blocks>) -> Self {
        Self::new(Role::User, content)
    }

    /// The model says.
    pub fn assistant(content: impl Into<Blocks>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

object! {
    /// A hint on which model to use.
    pub struct ModelHint {
        optional {
            /// A part of a model's name.
            name: String => "name",
        }
    }
}

object! {
    /// Which model to use.
    pub struct ModelPreferences {
        optional {
            /// Names, the best first.
            hints: Vec<ModelHint> => "hints",
            /// How much cost matters, from 0 to 1.
            cost_priority: Number => "costPriority",
            /// How much speed matters, from 0 to 1.
            speed_priority: Number => "speedPriority",
            /// How much ability matters, from 0 to 1.
            intelligence_priority: Number => "intelligencePriority",
        }
    }
}

string_enum! {
    /// Whose context the model is to see.
    open IncludeContext {
        /// Nobody's.
        None = "none",
        /// That of the server which asks.
        ThisServer = "thisServer",
        /// That of all servers.
        AllServers = "allServers",
    }
}

string_enum! {
    /// Whether the model uses tools.
    open ToolChoiceMode {
        /// As it likes.
        Auto = "auto",
        /// It must.
        Required = "required",
        /// It must not.
        None = "none",
    }
}

object! {
    /// Whether the model uses tools.
    pub struct ToolChoice {
        optional {
            /// Whether.
            mode: ToolChoiceMode => "mode",
        }
    }
}

object! {
    /// What the client's model is to continue.
    pub struct CreateMessageParams (custom) {
        required {
            /// The conversation.
            messages: Vec<SamplingMessage> => "messages",
            /// How long the answer may be.
            max_tokens: i64 => "maxTokens",
        }
        optional {
            /// Which model to use.
            model_preferences: ModelPreferences => "modelPreferences",
            /// What to tell the model first.
            system_prompt: String => "systemPrompt",
            /// Whose context it is to see.
            include_context: IncludeContext => "includeContext",
            /// How freely it speaks.
            temperature: Number => "temperature",
            /// Where it stops.
            stop_sequences: Vec<String> => "stopSequences",
            /// For the model's provider.
            metadata: Object => "metadata",
            /// Tools it may use.
            tools: Vec<Tool> => "tools",
            /// Whether it uses them.
            tool_choice: ToolChoice => "toolChoice",
            /// Run it as a task (2025-11-25).
            task: TaskRequest => "task",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

string_enum! {
    /// Why the model stopped.
    open StopReason {
        /// It was done.
        EndTurn = "endTurn",
        /// It came to a stop sequence.
        StopSequence = "stopSequence",
        /// It had said all it might.
        MaxTokens = "maxTokens",
        /// It wants tools to be called.
        ToolUse = "toolUse",
    }
}

object! {
    /// What the client's model said.
    pub struct CreateMessageResult {
        required {
            /// Who says it.
            role: Role => "role",
            /// What.
            content: Blocks => "content",
            /// The model.
            model: String => "model",
        }
        optional {
            /// Why it stopped.
            stop_reason: StopReason => "stopReason",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

method!(
    /// `sampling/createMessage`, asked by servers; since 2026-07-28 only inside `inputRequests`.
    CreateMessage = "sampling/createMessage", CreateMessageParams => CreateMessageResult
);
