//! Translation of content. A block that a revision does not define becomes a text block that describes it.

use super::{Ability, ProtocolVersion, Translate};
use crate::types::{AudioContent, Blocks, Content, ResourceLink, ToolResultContent, ToolUseContent};

impl Translate for Content {
    fn lower(&mut self, to: ProtocolVersion) {
        let description = match self {
            Self::Audio(audio) if !to.has(Ability::Audio) => Some(describe_audio(audio)),
            Self::ResourceLink(link) if !to.has(Ability::ResourceLinks) => Some(describe_link(link)),
            Self::ToolUse(call) if !to.has(Ability::SamplingTools) => Some(describe_call(call)),
            Self::ToolResult(result) if !to.has(Ability::SamplingTools) => Some(describe_result(result)),
            _ => None,
        };
        if let Some(text) = description {
            let annotations = self.annotations().cloned();
            *self = Self::text(text);
            if let Some(annotations) = annotations {
                *self = std::mem::replace(self, Self::text("")).with_annotations(annotations);
            }
        }
        match self {
            Self::Text(block) => block.lower(to),
            Self::Image(block) => block.lower(to),
            Self::Audio(block) => block.lower(to),
            Self::Resource(block) => block.lower(to),
            Self::ResourceLink(block) => block.lower(to),
            Self::ToolUse(block) => block.lower(to),
            Self::ToolResult(block) => block.lower(to),
            Self::Unknown(_) => {}
        }
    }

    fn raise(&mut self, _: ProtocolVersion) {}
}

fn describe_audio(audio: &AudioContent) -> String {
    // Base64 encodes three bytes in four characters.
    format!("[audio: {}, about {} bytes]", audio.mime_type, audio.data.len() / 4 * 3)
}

fn describe_link(link: &ResourceLink) -> String {
    format!("[resource: {} <{}>]", link.title.as_deref().unwrap_or(&link.name), link.uri)
}

fn describe_call(call: &ToolUseContent) -> String {
    format!("[call of tool {}: {}]", call.name, call.input)
}

fn describe_result(result: &ToolResultContent) -> String {
    let text: Vec<_> = result.content.iter().filter_map(Content::as_text).collect();
    format!("[result of tool call {}: {}]", result.tool_use_id, text.join("\n"))
}

impl Translate for Blocks {
    fn lower(&mut self, to: ProtocolVersion) {
        if let Self::Many(blocks) = self
            && !to.has(Ability::SamplingTools)
        {
            // Requests are already split into one message per block; this handles results.
            blocks.lower(to);
            let texts: Vec<_> = blocks.iter().filter_map(Content::as_text).collect();
            *self = Self::One(if blocks.len() != 1 && texts.len() == blocks.len() {
                Content::text(texts.join("\n"))
            } else {
                // A result holds one block, and blocks other than text cannot be joined: the first is kept.
                blocks.remove(0)
            });
        }
        match self {
            Self::One(block) => block.lower(to),
            Self::Many(blocks) => blocks.lower(to),
        }
    }

    fn raise(&mut self, _: ProtocolVersion) {}
}
