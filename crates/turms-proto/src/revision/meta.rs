//! `_meta` against the handshake: what every request says for itself since 2026-07-28 was said once before.

use super::{Ability, ProtocolVersion, Translate};
use crate::json::object_members;
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
        if object_members(self.as_str()).any(|(key, _)| foreign(&key.name())) {
            self.retain(|name| !foreign(name));
        }
    }

    fn raise(&mut self, _: ProtocolVersion) {}

    fn is_void(&self) -> bool {
        self.is_empty()
    }
}
