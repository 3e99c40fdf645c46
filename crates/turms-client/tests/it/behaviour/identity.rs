//! Client and server info, and pings.

use turms_proto::types::ServerCapability;
use turms_proto::{Ability, ProtocolVersion};

use crate::behaviour::reach::everywhere;

#[tokio::test]
async fn the_client_has_the_info_and_capabilities_of_the_server() {
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
async fn the_server_has_the_info_of_the_client() {
    everywhere(async |client| assert_eq!(client.text("who", ()).await, "suite")).await;
}

#[tokio::test]
async fn ping_uses_the_method_of_the_revision() {
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
