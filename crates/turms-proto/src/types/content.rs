//! Blocks of content, in tool results, prompts and sampling (server/tools, server/prompts, client/sampling).

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::Number;
use crate::json::{Object, RawJson, StringSeed};
use crate::object::{DecodeObject, KeptMember, decode_kept_members, decode_members, string_enum};
use crate::types::{Icon, Meta, Resource, ResourceContents};

string_enum! {
    /// Role of a message in a conversation.
    closed Role {
        /// The user.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// Hints on how to use a piece of content.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Annotations {
    /// Intended recipients.
    pub audience: Option<Vec<Role>>,
    /// Importance, from 0 (optional) to 1 (required).
    pub priority: Option<Number>,
    /// Time of the last change, in ISO 8601.
    #[object(since = V2025_06_18)]
    pub last_modified: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Text content.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "text"))]
#[non_exhaustive]
pub struct TextContent {
    /// The text.
    pub text: String,
    /// Hints on how to use the content.
    pub annotations: Option<Box<Annotations>>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Image content.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "image"))]
#[non_exhaustive]
pub struct ImageContent {
    /// The image data in base64.
    pub data: String,
    /// The MIME type.
    pub mime_type: String,
    /// Hints on how to use the content.
    pub annotations: Option<Box<Annotations>>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Audio content.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "audio"))]
#[non_exhaustive]
pub struct AudioContent {
    /// The audio data in base64.
    pub data: String,
    /// The MIME type.
    pub mime_type: String,
    /// Hints on how to use the content.
    pub annotations: Option<Box<Annotations>>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A resource, embedded with its contents.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "resource"))]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// The contents.
    pub resource: ResourceContents,
    /// Hints on how to use the content.
    pub annotations: Option<Box<Annotations>>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A link to a resource. The resource need not be listed.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "resource_link"))]
#[non_exhaustive]
pub struct ResourceLink {
    /// The URI.
    pub uri: String,
    /// Programmatic name.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Description of the resource.
    pub description: Option<String>,
    /// The MIME type.
    pub mime_type: Option<String>,
    /// Hints on how to use the content.
    pub annotations: Option<Box<Annotations>>,
    /// Size in bytes.
    pub size: Option<i64>,
    /// Icons for display.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl From<Resource> for ResourceLink {
    fn from(resource: Resource) -> Self {
        Self {
            uri: resource.uri,
            name: resource.name,
            title: resource.title,
            description: resource.description,
            mime_type: resource.mime_type,
            annotations: resource.annotations,
            size: resource.size,
            icons: resource.icons,
            meta: resource.meta,
            extra: resource.extra,
        }
    }
}

/// A tool call that the model requests (sampling only).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "tool_use"))]
#[non_exhaustive]
pub struct ToolUseContent {
    /// Id of the tool call; the result refers to it.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the tool.
    pub input: Object,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of a tool call that the model requested (sampling only).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "tool_result"), custom_translate)]
#[non_exhaustive]
pub struct ToolResultContent {
    /// Id of the tool call.
    pub tool_use_id: String,
    /// Content of the result.
    pub content: Vec<Content>,
    /// `true` if the tool failed.
    pub is_error: Option<bool>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Structured content of the result.
    pub structured_content: Option<RawJson>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A block of content.
#[doc(alias = "ContentBlock")]
#[doc(alias = "TextContent")]
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// An image.
    Image(ImageContent),
    /// Audio.
    Audio(AudioContent),
    /// A resource, embedded with its contents.
    Resource(Box<EmbeddedResource>),
    /// A link to a resource.
    ResourceLink(Box<ResourceLink>),
    /// A tool call that the model requests.
    ToolUse(Box<ToolUseContent>),
    /// Result of such a tool call.
    ToolResult(Box<ToolResultContent>),
    /// A content block of an unknown type, kept as received.
    Unknown(Object),
}

/// Returns the text of all text blocks, separated by line breaks.
pub(crate) fn text_of(blocks: &[Content]) -> String {
    let mut texts = blocks.iter().filter_map(Content::as_text);
    let mut text = texts.next().unwrap_or_default().to_owned();
    for more in texts {
        text.push('\n');
        text.push_str(more);
    }
    text
}

impl Content {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// Creates an image block. The bytes are encoded in base64.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::new(encode_base64(bytes), mime_type))
    }

    /// Creates an audio block. The bytes are encoded in base64.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::new(encode_base64(bytes), mime_type))
    }

    /// Creates a block with an embedded resource.
    #[must_use]
    pub fn resource(contents: ResourceContents) -> Self {
        Self::Resource(Box::new(EmbeddedResource::new(contents)))
    }

    /// Creates a block with a link to a resource.
    pub fn resource_link(link: impl Into<ResourceLink>) -> Self {
        Self::ResourceLink(Box::new(link.into()))
    }

    /// Returns the text of a text block; `None` for other blocks.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }

    /// Returns the `type` of the block; `None` for an unknown block without a type.
    #[must_use]
    pub fn kind(&self) -> Option<String> {
        let known = match self {
            Self::Text(_) => "text",
            Self::Image(_) => "image",
            Self::Audio(_) => "audio",
            Self::Resource(_) => "resource",
            Self::ResourceLink(_) => "resource_link",
            Self::ToolUse(_) => "tool_use",
            Self::ToolResult(_) => "tool_result",
            Self::Unknown(object) => return object.get_as("type").and_then(Result::ok),
        };
        Some(known.to_owned())
    }

    /// Returns the annotations of the block.
    #[must_use]
    pub fn annotations(&self) -> Option<&Annotations> {
        match self {
            Self::Text(block) => block.annotations.as_deref(),
            Self::Image(block) => block.annotations.as_deref(),
            Self::Audio(block) => block.annotations.as_deref(),
            Self::Resource(block) => block.annotations.as_deref(),
            Self::ResourceLink(block) => block.annotations.as_deref(),
            Self::ToolUse(_) | Self::ToolResult(_) | Self::Unknown(_) => None,
        }
    }

    /// Sets the annotations. Blocks that cannot have annotations stay unchanged.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        let slot = match &mut self {
            Self::Text(block) => &mut block.annotations,
            Self::Image(block) => &mut block.annotations,
            Self::Audio(block) => &mut block.annotations,
            Self::Resource(block) => &mut block.annotations,
            Self::ResourceLink(block) => &mut block.annotations,
            Self::ToolUse(_) | Self::ToolResult(_) | Self::Unknown(_) => return self,
        };
        *slot = Some(Box::new(annotations));
        self
    }
}

impl ImageContent {
    /// Decodes the image data.
    ///
    /// # Errors
    /// If the data is not valid base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode_base64(&self.data)
    }
}

impl AudioContent {
    /// Decodes the audio data.
    ///
    /// # Errors
    /// If the data is not valid base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode_base64(&self.data)
    }
}

/// Error for invalid base64.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not base64")]
pub struct Base64Error(#[source] base64::DecodeError);

pub(crate) fn encode_base64(bytes: impl AsRef<[u8]>) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, Base64Error> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).map_err(Base64Error)
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(block) => block.serialize(serializer),
            Self::Image(block) => block.serialize(serializer),
            Self::Audio(block) => block.serialize(serializer),
            Self::Resource(block) => block.serialize(serializer),
            Self::ResourceLink(block) => block.serialize(serializer),
            Self::ToolUse(block) => block.serialize(serializer),
            Self::ToolResult(block) => block.serialize(serializer),
            Self::Unknown(block) => block.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ContentVisitor)
    }
}

struct ContentVisitor;

/// Decodes a block by its `type`, which is the first member in nearly every message. Members before it are stored as
/// text.
impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a content block")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut before = Vec::new();
        while let Some(name) = map.next_key_seed(StringSeed)? {
            if name != "type" {
                before.push((name, map.next_value()?));
                continue;
            }
            let kind = map.next_value_seed(StringSeed)?;
            return match &*kind {
                "text" => decode_block(before, map).map(Content::Text),
                "image" => decode_block(before, map).map(Content::Image),
                "audio" => decode_block(before, map).map(Content::Audio),
                "resource" => decode_block(before, map).map(|block| Content::Resource(Box::new(block))),
                "resource_link" => decode_block(before, map).map(|block| Content::ResourceLink(Box::new(block))),
                "tool_use" => decode_block(before, map).map(|block| Content::ToolUse(Box::new(block))),
                "tool_result" => decode_block(before, map).map(|block| Content::ToolResult(Box::new(block))),
                kind => unknown_block(before, kind, map).map(Content::Unknown),
            };
        }
        Ok(Content::Unknown(before.into_iter().collect()))
    }
}

/// Decodes a block from the members before and after its `type`.
fn decode_block<'de, T: DecodeObject, A: MapAccess<'de>>(
    before: Vec<KeptMember<'de>>,
    mut map: A,
) -> Result<T, A::Error> {
    let mut partial = T::Partial::default();
    decode_kept_members::<T, A::Error>(&mut partial, before)?;
    decode_members::<T, A>(&mut partial, &mut map)?;
    T::finish(partial)
}

/// Keeps a block of an unknown type. A repeated `type` is an error, because another reader could see a different
/// block.
fn unknown_block<'de, A: MapAccess<'de>>(
    mut members: Vec<KeptMember<'de>>,
    kind: &str,
    mut map: A,
) -> Result<Object, A::Error> {
    members.push(("type".into(), RawJson::string(kind)));
    while let Some(name) = map.next_key_seed(StringSeed)? {
        if name == "type" {
            return Err(A::Error::duplicate_field("type"));
        }
        members.push((name, map.next_value()?));
    }
    Ok(members.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_told_apart_wherever_the_type_stands() {
        for text in [
            r#"{"type":"text","text":"hi"}"#,
            r#"{"text":"hi","type":"text"}"#,
            r#"{"text":"\u0068i","type":"\u0074ext"}"#,
        ] {
            assert_eq!(crate::decode::<Content>(text).unwrap(), Content::text("hi"), "{text}");
        }
    }

    #[test]
    fn unknown_blocks_and_members_are_kept() {
        for text in [
            r#"{"type":"hologram","data":{"x":1e400},"n":null}"#,
            r#"{"no":"type"}"#,
            r#"{"type":"text","text":"a","annotations":{"priority":1,"mood":"calm"},"future":[1,2.50]}"#,
        ] {
            let content: Content = crate::decode(text).unwrap();
            assert_eq!(serde_json::to_string(&content).unwrap(), text);
        }
    }

    #[test]
    fn a_bad_block_says_what_is_wrong() {
        let error = crate::decode::<Vec<Content>>(r#"[{"type":"image","data":"x"}]"#).unwrap_err();
        assert_eq!(error.to_string(), "[0]: missing field \"mimeType\"");
        let error = crate::decode::<Content>(r#"{"type":"text","text":"a","text":"b"}"#).unwrap_err();
        assert_eq!(error.to_string(), "duplicate field \"text\"");
        let error = crate::decode::<Content>(r#"{"type":"x","type":"image"}"#).unwrap_err();
        assert_eq!(error.to_string(), "duplicate field \"type\"");
    }

    #[test]
    fn nesting_behind_a_late_type_is_bounded() {
        let deep = r#"{"content":["#.repeat(300) + &r#"],"toolUseId":"","type":"tool_result"}"#.repeat(300);
        assert!(crate::decode::<Content>(&deep).is_err());
    }

    #[test]
    fn bytes_survive_base64() {
        let Content::Image(image) = Content::image([0, 255, 7], "image/png") else { panic!() };
        assert_eq!(image.bytes().unwrap(), [0, 255, 7]);
        assert!(ImageContent::new("*", "image/png").bytes().is_err());
    }
}
