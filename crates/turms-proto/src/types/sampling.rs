//! Asking the client's model (client/sampling).

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::{Number, Object};
use crate::method::method;
use crate::object::string_enum;
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

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// Who says it.
    pub role: Role,
    /// What.
    pub content: Blocks,
    /// Beside the subject.
    #[object(rename = "_meta", since = V2025_11_25)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
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

/// A hint on which model to use.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ModelHint {
    /// A part of a model's name.
    pub name: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Which model to use.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Names, the best first.
    pub hints: Option<Vec<ModelHint>>,
    /// How much cost matters, from 0 to 1.
    pub cost_priority: Option<Number>,
    /// How much speed matters, from 0 to 1.
    pub speed_priority: Option<Number>,
    /// How much ability matters, from 0 to 1.
    pub intelligence_priority: Option<Number>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
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

/// Whether the model uses tools.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ToolChoice {
    /// Whether.
    pub mode: Option<ToolChoiceMode>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What the client's model is to continue.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The conversation.
    pub messages: Vec<SamplingMessage>,
    /// How long the answer may be.
    pub max_tokens: i64,
    /// Which model to use.
    pub model_preferences: Option<ModelPreferences>,
    /// What to tell the model first.
    pub system_prompt: Option<String>,
    /// Whose context it is to see.
    pub include_context: Option<IncludeContext>,
    /// How freely it speaks.
    pub temperature: Option<Number>,
    /// Where it stops.
    pub stop_sequences: Option<Vec<String>>,
    /// For the model's provider.
    pub metadata: Option<Object>,
    /// Tools it may use.
    #[object(since = V2025_11_25)]
    pub tools: Option<Vec<Tool>>,
    /// Whether it uses them.
    #[object(since = V2025_11_25)]
    pub tool_choice: Option<ToolChoice>,
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

/// What the client's model said.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// Who says it.
    pub role: Role,
    /// What.
    pub content: Blocks,
    /// The model.
    pub model: String,
    /// Why it stopped.
    pub stop_reason: Option<StopReason>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `sampling/createMessage`, asked by servers; since 2026-07-28 only inside `inputRequests`.
    CreateMessage = "sampling/createMessage", CreateMessageParams => CreateMessageResult
);
