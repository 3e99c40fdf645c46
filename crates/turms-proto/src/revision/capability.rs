//! Capabilities that mean something else in another revision.

use super::{Ability, ProtocolVersion, Translate};
use crate::Object;
use crate::types::{ClientCapabilities, ClientCapability, ServerCapabilities};

impl Translate for ClientCapabilities {
    fn lower(&mut self, to: ProtocolVersion) {
        // Without its modes, elicitation means forms; a client that shows only pages would promise what it cannot keep.
        if !to.has(Ability::UrlElicitation) && !self.supports(ClientCapability::FormElicitation) {
            self.elicitation = None;
        }
        self.lower_members(to);
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.raise_members(from);
    }
}

impl Translate for ServerCapabilities {
    fn lower(&mut self, to: ProtocolVersion) {
        self.lower_members(to);
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.raise_members(from);
        // 2024-11-05 has completions but no way to say so, so every server of it may have them.
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
    fn a_server_of_the_first_revision_may_complete() {
        let mut server = ServerCapabilities::new();
        server.raise(ProtocolVersion::V2025_03_26);
        assert!(!server.supports(ServerCapability::Completions));
        server.raise(ProtocolVersion::V2024_11_05);
        assert!(server.supports(ServerCapability::Completions));
    }
}
