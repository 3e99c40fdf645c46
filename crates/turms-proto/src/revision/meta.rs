//! Translation of `_meta`. Since 2026-07-28 it carries what earlier revisions exchange in the handshake.

use super::{Ability, ProtocolVersion, Translate};
use crate::json::find_members;
use crate::types::{Meta, key};

const STATELESS: [&str; 6] = [
    key::PROTOCOL_VERSION,
    key::CLIENT_CAPABILITIES,
    key::CLIENT_INFO,
    key::LOG_LEVEL,
    key::SERVER_INFO,
    key::SUBSCRIPTION_ID,
];

const CORE_TASKS: [&str; 2] = [key::RELATED_TASK, key::MODEL_IMMEDIATE_RESPONSE];

impl Translate for Meta {
    fn lower(&mut self, to: ProtocolVersion) {
        let foreign = |name: &str| {
            !to.has(Ability::Stateless) && STATELESS.contains(&name)
                || !to.has(Ability::CoreTasks) && CORE_TASKS.contains(&name)
        };
        // Most metadata has none of these keys, and one search for all keys is faster than a check of every member.
        let has_foreign = !to.has(Ability::Stateless)
            && find_members(self.as_str(), STATELESS).iter().any(Option::is_some)
            || !to.has(Ability::CoreTasks) && find_members(self.as_str(), CORE_TASKS).iter().any(Option::is_some);
        if has_foreign {
            self.retain(|name| !foreign(name));
        }
    }

    fn raise(&mut self, _: ProtocolVersion) {}

    fn is_void(&self) -> bool {
        self.is_empty()
    }
}
