//! Translation of sampling. Before 2025-11-25, a message held one content block and tools were not supported.

use super::{Ability, ProtocolVersion, Translate};
use crate::types::{Blocks, CreateMessageParams, SamplingMessage};

impl Translate for CreateMessageParams {
    fn lower(&mut self, to: ProtocolVersion) {
        if !to.has(Ability::SamplingTools) {
            self.messages = std::mem::take(&mut self.messages).into_iter().flat_map(one_block_each).collect();
        }
        self.lower_members(to);
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.raise_members(from);
    }
}

/// Splits a message into messages with one content block each, which is allowed because consecutive messages may have
/// the same role. A message without blocks is dropped.
fn one_block_each(message: SamplingMessage) -> Vec<SamplingMessage> {
    match message.content {
        Blocks::Many(blocks) if !blocks.is_empty() => blocks
            .into_iter()
            .map(|block| SamplingMessage {
                role: message.role,
                content: Blocks::One(block),
                meta: message.meta.clone(),
                extra: message.extra.clone(),
            })
            .collect(),
        Blocks::Many(_) => Vec::new(),
        Blocks::One(_) => vec![message],
    }
}
