//! Translation of capabilities.

use super::{Ability, ProtocolVersion, Translate};
use crate::Object;
use crate::types::{ClientCapabilities, ClientCapability, ServerCapabilities, TASKS_EXTENSION};

impl Translate for ClientCapabilities {
    fn lower(&mut self, to: ProtocolVersion) {
        // Without modes, elicitation means forms. A client that supports only URLs must not declare it.
        if !to.has(Ability::UrlElicitation) && !self.supports(ClientCapability::FormElicitation) {
            self.elicitation = None;
        }
        // The tasks of 2025-11-25 are incompatible and declared elsewhere.
        if !to.has(Ability::TasksExtension) {
            self.extensions = self.extensions.take().map(without_tasks).filter(|others| !others.is_empty());
        }
        self.lower_members(to);
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.raise_members(from);
    }
}

fn without_tasks(mut extensions: Object) -> Object {
    extensions.remove(TASKS_EXTENSION);
    extensions
}

impl Translate for ServerCapabilities {
    fn lower(&mut self, to: ProtocolVersion) {
        self.lower_members(to);
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.raise_members(from);
        // 2024-11-05 has completion but no capability for it, so any server may support it.
        if !from.has(Ability::CompletionsCapability) {
            self.completions.get_or_insert_with(Object::new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ServerCapability;

    #[test]
    fn a_client_without_forms_does_not_promise_them() {
        let mut client: ClientCapabilities = crate::decode(r#"{"elicitation":{"url":{}}}"#).unwrap();
        client.lower(ProtocolVersion::V2025_06_18);
        assert!(!client.supports(ClientCapability::FormElicitation));
    }

    #[test]
    fn the_tasks_extension_means_nothing_to_earlier_revisions() {
        let text = r#"{"extensions":{"a.b/c":{},"io.modelcontextprotocol/tasks":{}}}"#;
        let mut client: ClientCapabilities = crate::decode(text).unwrap();
        client.lower(ProtocolVersion::V2026_07_28);
        assert!(client.supports(ClientCapability::Extension(TASKS_EXTENSION)));
        client.lower(ProtocolVersion::V2025_11_25);
        assert_eq!(serde_json::to_string(&client).unwrap(), r#"{"extensions":{"a.b/c":{}}}"#);
    }

    #[test]
    fn a_server_of_the_first_revision_may_complete() {
        let mut server = ServerCapabilities::new();
        server.raise(ProtocolVersion::V2025_03_26);
        assert!(!server.supports(ServerCapability::Completions));
        server.raise(ProtocolVersion::V2024_11_05);
        assert!(server.supports(ServerCapability::Completions));
    }
}
