//! What every result of 2026-07-28 says of itself: its kind, and how long it keeps.

use super::{Ability, ProtocolVersion};
use crate::types::{CacheScope, ResultType};

/// An older peer says nothing of the kind, which means that the result is complete.
pub(super) fn complete(result_type: &mut Option<ResultType>, from: ProtocolVersion) {
    if !from.has(Ability::ResultType) {
        *result_type = Some(ResultType::Complete);
    }
}

/// An older peer says nothing of reuse, so there is none.
pub(super) fn uncached(ttl_ms: &mut Option<i64>, scope: &mut Option<CacheScope>, from: ProtocolVersion) {
    if !from.has(Ability::Caching) {
        *ttl_ms = Some(0);
        *scope = Some(CacheScope::Private);
    }
}

macro_rules! results {
    ($($Name:ident),+; cacheable: $($Cacheable:ident),+) => {
        $(
            impl super::Translate for crate::types::$Name {
                fn lower(&mut self, to: ProtocolVersion) {
                    self.lower_members(to);
                }

                fn raise(&mut self, from: ProtocolVersion) {
                    self.raise_members(from);
                    complete(&mut self.result_type, from);
                }
            }
        )+
        $(
            impl super::Translate for crate::types::$Cacheable {
                fn lower(&mut self, to: ProtocolVersion) {
                    self.lower_members(to);
                }

                fn raise(&mut self, from: ProtocolVersion) {
                    self.raise_members(from);
                    complete(&mut self.result_type, from);
                    uncached(&mut self.ttl_ms, &mut self.cache_scope, from);
                }
            }
        )+
    };
}

results!(
    EmptyResult, PromptResult, CompleteResult, ReadDirectoryResult;
    cacheable: ListToolsResult, ListResourcesResult, ListResourceTemplatesResult, ListPromptsResult, ReadResourceResult,
        ListSkillsResult, GetSkillResult
);
