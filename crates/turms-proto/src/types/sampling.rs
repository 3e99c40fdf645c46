//! Sampling from the client's model (client/sampling).

use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::{Number, Object};
use crate::method::method;
use crate::object::string_enum;
use crate::types::content::text_of;
use crate::types::{Content, Meta, Role, TaskRequest, Tool};

/// Content of a message: one block, or since 2025-11-25 a list of blocks. Encoding keeps the form.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "JSON has nothing between one and many")]
pub enum Blocks {
    /// One block.
    One(Content),
    /// A list of blocks.
    Many(Vec<Content>),
}

impl Blocks {
    /// Returns the blocks as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[Content] {
        match self {
            Self::One(block) => std::slice::from_ref(block),
            Self::Many(blocks) => blocks,
        }
    }

    /// Returns the text of all text blocks, separated by line breaks.
    ///
    /// ```
    /// # use turms_proto as turms;
    /// use turms::types::{Content, CreateMessageResult};
    ///
    /// let blocks = vec![Content::text("Paris"), Content::image([1], "image/png"), Content::text("in France")];
    /// let result = CreateMessageResult::assistant(blocks, "my-model");
    /// assert_eq!(result.content.text(), "Paris\nin France");
    /// ```
    #[must_use]
    pub fn text(&self) -> String {
        text_of(self.as_slice())
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
    /// Role of the message.
    pub role: Role,
    /// Content of the message.
    pub content: Blocks,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_11_25)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl SamplingMessage {
    /// Creates a message of the user.
    pub fn user(content: impl Into<Blocks>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<Blocks>) -> Self {
        Self::new(Role::Assistant, content)
    }
}

/// A hint for the selection of a model.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ModelHint {
    /// Part of a model name.
    pub name: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Preferences for the selection of a model.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Hints, the most preferred first.
    pub hints: Option<Vec<ModelHint>>,
    /// Priority of low cost, from 0 to 1.
    pub cost_priority: Option<Number>,
    /// Priority of speed, from 0 to 1.
    pub speed_priority: Option<Number>,
    /// Priority of intelligence, from 0 to 1.
    pub intelligence_priority: Option<Number>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

string_enum! {
    /// Scope of the context that is included.
    open IncludeContext {
        /// No server.
        None = "none",
        /// The requesting server.
        ThisServer = "thisServer",
        /// All servers.
        AllServers = "allServers",
    }
}

string_enum! {
    /// Use of tools by the model.
    open ToolChoiceMode {
        /// The model decides.
        Auto = "auto",
        /// The model must use a tool.
        Required = "required",
        /// The model must not use tools.
        None = "none",
    }
}

/// Setting for the use of tools by the model.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ToolChoice {
    /// The mode; if absent, [`ToolChoiceMode::Auto`].
    pub mode: Option<ToolChoiceMode>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `sampling/createMessage`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The conversation.
    pub messages: Vec<SamplingMessage>,
    /// Maximum number of tokens to generate.
    pub max_tokens: i64,
    /// Preferences for the selection of a model.
    pub model_preferences: Option<ModelPreferences>,
    /// System prompt.
    pub system_prompt: Option<String>,
    /// Context of servers to include.
    pub include_context: Option<IncludeContext>,
    /// Sampling temperature.
    pub temperature: Option<Number>,
    /// Sequences that stop the generation.
    pub stop_sequences: Option<Vec<String>>,
    /// Metadata for the model provider.
    pub metadata: Option<Object>,
    /// Tools that the model may use.
    #[object(since = V2025_11_25)]
    pub tools: Option<Vec<Tool>>,
    /// Setting for the use of tools.
    #[object(since = V2025_11_25)]
    pub tool_choice: Option<ToolChoice>,
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

string_enum! {
    /// Reason why the model stopped.
    open StopReason {
        /// The model finished its turn.
        EndTurn = "endTurn",
        /// A stop sequence was generated.
        StopSequence = "stopSequence",
        /// The token limit was reached.
        MaxTokens = "maxTokens",
        /// The model requests tool calls.
        ToolUse = "toolUse",
    }
}

/// Result of `sampling/createMessage`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// Role of the message.
    pub role: Role,
    /// Content of the message.
    pub content: Blocks,
    /// Name of the model.
    pub model: String,
    /// Reason why the model stopped.
    pub stop_reason: Option<StopReason>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl CreateMessageResult {
    /// Creates a message of the assistant, by the model of this name.
    pub fn assistant(content: impl Into<Blocks>, model: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content, model)
    }
}

method!(
    /// `sampling/createMessage`, sent by servers; since 2026-07-28 only inside `inputRequests`.
    CreateMessage = "sampling/createMessage", CreateMessageParams => CreateMessageResult
);
