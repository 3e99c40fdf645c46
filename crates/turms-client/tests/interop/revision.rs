//! Every server on an official SDK in every revision that it supports, and the errors without a common revision.

use turms_client::VersionChoice;
use turms_proto::ProtocolVersion::{self, *};
use turms_testkit::within;

use crate::conversation::{in_revision, in_whatever_it_speaks};
use crate::peer::{self, NODE_HANDSHAKE, NODE_STATELESS, PYTHON_HANDSHAKE, PYTHON_STATELESS, Peer};

macro_rules! conversations {
    ($($peer:ident: $Peer:ident in $($test:ident: $version:ident),+;)+) => {
        $(mod $peer {
            use super::*;

            #[tokio::test]
            #[ignore = "needs the peers: run `cargo xtask test`"]
            async fn is_negotiated_automatically() {
                in_whatever_it_speaks(&$Peer).await;
            }

            $(#[tokio::test]
            #[ignore = "needs the peers: run `cargo xtask test`"]
            async fn $test() {
                in_revision(&$Peer, $version).await;
            })+
        })+
    };
}
conversations! {
    node_handshake: NODE_HANDSHAKE in
        is_understood_in_2024_11_05: V2024_11_05,
        is_understood_in_2025_03_26: V2025_03_26,
        is_understood_in_2025_06_18: V2025_06_18,
        is_understood_in_2025_11_25: V2025_11_25;
    node_stateless: NODE_STATELESS in
        is_understood_in_2024_11_05: V2024_11_05,
        is_understood_in_2025_03_26: V2025_03_26,
        is_understood_in_2025_06_18: V2025_06_18,
        is_understood_in_2025_11_25: V2025_11_25,
        is_understood_in_2026_07_28: V2026_07_28;
    python_handshake: PYTHON_HANDSHAKE in
        is_understood_in_2024_11_05: V2024_11_05,
        is_understood_in_2025_03_26: V2025_03_26,
        is_understood_in_2025_06_18: V2025_06_18,
        is_understood_in_2025_11_25: V2025_11_25;
    python_stateless: PYTHON_STATELESS in
        is_understood_in_2024_11_05: V2024_11_05,
        is_understood_in_2025_03_26: V2025_03_26,
        is_understood_in_2025_06_18: V2025_06_18,
        is_understood_in_2025_11_25: V2025_11_25,
        is_understood_in_2026_07_28: V2026_07_28;
}

/// Returns the error of a client that cannot connect to a server.
async fn refusal(choice: VersionChoice, peer: &Peer, arg: Option<&str>) -> String {
    let command = peer.command().args(arg);
    let connected = within("a refusal", peer::client().protocol_versions(choice).connect_command(command)).await;
    connected.map(|client| client.protocol_version()).unwrap_err().to_string()
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_client_of_the_newest_revision_refuses_an_older_server() {
    for peer in [&NODE_HANDSHAKE, &PYTHON_HANDSHAKE] {
        assert_eq!(
            refusal(VersionChoice::Only(V2026_07_28), peer, None).await,
            "the server supports only older revisions, and this client is set to 2026-07-28"
        );
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_client_of_older_revisions_refuses_a_stateless_server() {
    let both = [
        (VersionChoice::Only(V2025_06_18), "2025-06-18"),
        (VersionChoice::Handshake, "2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25"),
    ];
    for (choice, ours) in both {
        assert_eq!(
            refusal(choice, &NODE_STATELESS, Some("--stateless-only")).await,
            format!("no common protocol version: the server supports 2026-07-28, this client {ours}")
        );
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_stateless_server_is_negotiated_automatically() {
    let command = NODE_STATELESS.command().arg("--stateless-only");
    let client = peer::connect(peer::client(), command).await;
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
    assert_eq!(client.call_tool("echo", serde_json::json!({ "text": "hi" })).await.unwrap().text(), "hi");
    client.close().await;
}
