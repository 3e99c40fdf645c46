//! Who the two are.

use turms_proto::types::ServerCapability;
use turms_proto::{Ability, ProtocolVersion};

use crate::behaviour::reach::everywhere;

#[tokio::test]
async fn a_client_knows_who_the_server_is_and_what_it_can_do() {
    everywhere(async |client| {
        assert_eq!(client.protocol_version(), Some(client.version));
        assert_eq!(client.instructions().as_deref(), Some("Be gentle."));
        let info = client.server_info().unwrap();
        assert_eq!((info.name.as_str(), info.version.as_str()), ("fixture", "1.0.0"));
        assert_eq!(info.title.is_some(), client.version >= ProtocolVersion::V2025_06_18);
        let capabilities = client.server_capabilities().unwrap();
        for capability in [
            ServerCapability::ToolsListChanged,
            ServerCapability::PromptsListChanged,
            ServerCapability::ResourcesListChanged,
            ServerCapability::ResourceSubscriptions,
            ServerCapability::Logging,
        ] {
            assert!(capabilities.supports(capability), "{capability}");
        }
        let opened = client.opened().unwrap();
        assert_eq!(opened.dialect.version(), client.version);
        let spoken = &opened.server.as_ref().unwrap().supported_versions;
        assert!(spoken.contains(&client.version.to_string()));
    })
    .await;
}

#[tokio::test]
async fn the_server_knows_who_the_client_is() {
    everywhere(async |client| assert_eq!(client.text("who", ()).await, "suite")).await;
}

#[tokio::test]
async fn whether_the_server_is_there_is_asked_as_the_revision_has_it() {
    everywhere(async |client| {
        let before = (client.count("ping").await, client.count("server/discover").await);
        client.ping().await.unwrap();
        let after = (client.count("ping").await, client.count("server/discover").await);
        let expected =
            if client.version.has(Ability::Ping) { (before.0 + 1, before.1) } else { (before.0, before.1 + 1) };
        assert_eq!(after, expected);
    })
    .await;
}
