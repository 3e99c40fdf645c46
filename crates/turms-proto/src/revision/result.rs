//! Translation of the result type and caching hints.

use super::{Ability, ProtocolVersion};
use crate::types::{CacheScope, ResultType};

/// Sets the result type of results from older peers, which are always complete.
pub(super) fn complete(result_type: &mut Option<ResultType>, from: ProtocolVersion) {
    if !from.has(Ability::ResultType) {
        *result_type = Some(ResultType::Complete);
    }
}

/// Sets the caching hints of results from older peers, which must not be cached.
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
    EmptyResult, GetPromptResult, CompleteResult, ReadDirectoryResult;
    cacheable: ListToolsResult, ListResourcesResult, ListResourceTemplatesResult, ListPromptsResult, ReadResourceResult,
        ListSkillsResult, GetSkillResult
);
