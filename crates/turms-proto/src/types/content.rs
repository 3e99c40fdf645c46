//! Blocks of content, in tool results, prompts and sampling (server/tools, server/prompts, client/sampling).

use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Number;
use crate::json::{Object, RawJson, StringSeed};
use crate::object::{DecodeObject, KeptMember, decode_kept_members, decode_members, object, string_enum};
use crate::types::{Icon, Meta, Resource, ResourceContents};

string_enum! {
    /// Who speaks in a conversation.
    closed Role {
        /// The person.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

object! {
    /// Hints on how to use a piece of content.
    pub struct Annotations {
        optional {
            /// For whom it is.
            audience: Vec<Role> => "audience",
            /// How important it is, from 0 to 1.
            priority: Number => "priority",
            /// When it last changed, in ISO 8601.
            last_modified: String => "lastModified",
        }
    }
}

object! {
    /// Text.
    pub struct TextContent {
        tag "type" = "text";
        required {
            /// The text.
            text: String => "text",
        }
        optional {
            /// Hints.
            annotations: Box<Annotations> => "annotations",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// A picture.
    pub struct ImageContent {
        tag "type" = "image";
        required {
            /// The bytes in base64.
            data: String => "data",
            /// Their type.
            mime_type: String => "mimeType",
        }
        optional {
            /// Hints.
            annotations: Box<Annotations> => "annotations",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// Sound.
    pub struct AudioContent {
        tag "type" = "audio";
        required {
            /// The bytes in base64.
            data: String => "data",
            /// Their type.
            mime_type: String => "mimeType",
        }
        optional {
            /// Hints.
            annotations: Box<Annotations> => "annotations",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// A resource with its contents.
    pub struct EmbeddedResource {
        tag "type" = "resource";
        required {
            /// The contents.
            resource: ResourceContents => "resource",
        }
        optional {
            /// Hints.
            annotations: Box<Annotations> => "annotations",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// A resource that the client may read, listed or not.
    pub struct ResourceLink {
        tag "type" = "resource_link";
        required {
            /// Where it is.
            uri: String => "uri",
            /// Its name for programs.
            name: String => "name",
        }
        optional {
            /// Its name for people.
            title: String => "title",
            /// What it is.
            description: String => "description",
            /// Its type.
            mime_type: String => "mimeType",
            /// Hints.
            annotations: Box<Annotations> => "annotations",
            /// Its size in bytes.
            size: i64 => "size",
            /// Pictures of it.
            icons: Vec<Icon> => "icons",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
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

object! {
    /// The model wants a tool to be called (sampling only).
    pub struct ToolUse {
        tag "type" = "tool_use";
        required {
            /// What the answer will name.
            id: String => "id",
            /// The tool.
            name: String => "name",
            /// Its arguments.
            input: Object => "input",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// What came of a tool that the model wanted to be called (sampling only).
    pub struct ToolResultContent (custom) {
        tag "type" = "tool_result";
        required {
            /// Which call this answers.
            tool_use_id: String => "toolUseId",
            /// What the tool gave.
            content: Vec<Content> => "content",
        }
        optional {
            /// Whether it failed.
            is_error: bool => "isError",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
        any {
            /// What the tool gave, as data.
            structured_content => "structuredContent",
        }
    }
}

/// A block of content.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(TextContent),
    /// A picture.
    Image(ImageContent),
    /// Sound.
    Audio(AudioContent),
    /// A resource with its contents.
    Resource(Box<EmbeddedResource>),
    /// A resource to be read.
    ResourceLink(Box<ResourceLink>),
    /// The model wants a tool to be called.
    ToolUse(Box<ToolUse>),
    /// What came of it.
    ToolResult(Box<ToolResultContent>),
    /// A kind of block that this crate does not know, kept as it came.
    Unknown(Object),
}

impl Content {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent::new(text))
    }

    /// A picture, from its bytes.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageContent::new(encode_base64(bytes), mime_type))
    }

    /// Sound, from its bytes.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio(AudioContent::new(encode_base64(bytes), mime_type))
    }

    /// A resource with its contents.
    #[must_use]
    pub fn resource(contents: ResourceContents) -> Self {
        Self::Resource(Box::new(EmbeddedResource::new(contents)))
    }

    /// A resource to be read.
    pub fn resource_link(link: impl Into<ResourceLink>) -> Self {
        Self::ResourceLink(Box::new(link.into()))
    }

    /// The text, if that is what this is.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(block) => Some(&block.text),
            _ => None,
        }
    }

    /// The `type` on the wire; `None` for an unknown block that has none.
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

    /// The hints on the block.
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

    /// The block with hints; blocks that cannot have any stay as they are.
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
    /// The bytes.
    ///
    /// # Errors
    /// When the data is not base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode_base64(&self.data)
    }
}

impl AudioContent {
    /// The bytes.
    ///
    /// # Errors
    /// When the data is not base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        decode_base64(&self.data)
    }
}

/// Binary data that is not base64.
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

/// `type` says what a block is. It is the first member in nearly every message; members before it are kept as text.
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

/// Keeps a block of an unknown type. A second type would make it another block to the next reader.
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
