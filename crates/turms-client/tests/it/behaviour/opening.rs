//! Version negotiation.

use serde_json::{Value, json};
use turms_client::{Client, ClientBuilder, VersionCache};
use turms_core::ConnectError;
use turms_core::transport::{StreamConnector, memory};
use turms_proto::ProtocolVersion;
use turms_proto::ProtocolVersion::*;
use turms_proto::session::{OpenError, VersionChoice};
use turms_server::Server;

use crate::behaviour::peer::{Peer, discovered, initialized, said};
use crate::behaviour::reach::{nobody, person};
use turms_testkit::behaviour_server as fixture;

pub(crate) type Connecting = tokio::task::JoinHandle<Result<Client, ConnectError>>;

/// Starts to connect a client to a scripted server.
pub(crate) fn connecting(builder: ClientBuilder) -> (Connecting, Peer) {
    let (near, far) = memory();
    (tokio::spawn(builder.connect_stream(near.0, near.1)), Peer::new(far))
}

pub(crate) fn speaking(choice: VersionChoice) -> ClientBuilder {
    nobody().protocol_versions(choice)
}

pub(crate) async fn opened(connecting: Connecting) -> Client {
    connecting.await.unwrap().unwrap()
}

pub(crate) async fn refused(connecting: Connecting) -> OpenError {
    match connecting.await.unwrap() {
        Err(ConnectError::Negotiation(error)) => error,
        other => panic!("not refused: {other:?}"),
    }
}

/// Calls a tool over a connection that was just opened.
pub(crate) async fn is_usable(client: &Client, peer: &mut Peer) {
    let call = tokio::spawn(client.call_tool("hello", ()).into_future());
    let request = peer.expect("tools/call").await;
    peer.answer(&request, said("Hello!")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "Hello!");
}

#[tokio::test]
async fn a_server_of_the_newest_revision_is_probed_once_without_a_handshake() {
    let (connecting, mut peer) = connecting(nobody());
    let probe = peer.expect("server/discover").await;
    peer.answer(&probe, discovered(&ProtocolVersion::ALL)).await;
    let client = opened(connecting).await;
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
    assert_eq!(client.server_info().unwrap().name, "by-hand");
    is_usable(&client, &mut peer).await;
}

#[tokio::test]
async fn every_request_of_the_newest_revision_has_client_info_and_capabilities() {
    let (connecting, mut peer) = connecting(person());
    let probe = peer.expect("server/discover").await;
    let expected = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":
            { "roots": {}, "sampling": {}, "elicitation": { "form": {}, "url": {} } },
        "io.modelcontextprotocol/clientInfo": { "name": "suite", "version": "1.0.0" }
    });
    assert_eq!(probe["params"]["_meta"], expected);
    peer.answer(&probe, discovered(&[ProtocolVersion::LATEST])).await;
    let client = opened(connecting).await;
    let call = tokio::spawn(client.call_tool("hello", ()).into_future());
    let request = peer.expect("tools/call").await;
    assert_eq!(request["params"], json!({ "name": "hello", "_meta": expected }));
    call.abort();
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
}

#[tokio::test]
async fn a_handshake_declares_the_capabilities_that_the_revision_defines() {
    for (version, expected) in [
        (V2024_11_05, json!({ "roots": { "listChanged": true }, "sampling": {} })),
        (V2025_03_26, json!({ "roots": { "listChanged": true }, "sampling": {} })),
        (V2025_06_18, json!({ "roots": { "listChanged": true }, "sampling": {}, "elicitation": {} })),
        (
            V2025_11_25,
            json!({ "roots": { "listChanged": true }, "sampling": {}, "elicitation": { "form": {}, "url": {} } }),
        ),
    ] {
        let (connecting, mut peer) = connecting(person().protocol_version(version));
        let hello = peer.shake_hands(version).await;
        let info = json!({ "name": "suite", "version": "1.0.0" });
        let expected = json!({ "protocolVersion": version, "capabilities": expected, "clientInfo": info });
        assert_eq!(hello["params"], expected);
        assert_eq!(opened(connecting).await.protocol_version(), Some(version));
    }
}

#[tokio::test]
async fn any_error_that_is_not_of_the_newest_revision_means_an_older_server() {
    for code in [-32601, -32602, -32600, -32603, -32700, -32000, -32002, -32099, 0, 1, 404] {
        let (connecting, mut peer) = connecting(nobody());
        let probe = peer.expect("server/discover").await;
        peer.refuse(&probe, json!({ "code": code, "message": "what?" })).await;
        let hello = peer.shake_hands(V2025_11_25).await;
        assert_eq!(hello["params"]["protocolVersion"], "2025-11-25", "{code}");
        let client = opened(connecting).await;
        assert_eq!(client.protocol_version(), Some(V2025_11_25), "{code}");
        is_usable(&client, &mut peer).await;
    }
}

#[tokio::test]
async fn an_invalid_probe_response_means_an_older_server() {
    for answer in [
        json!({ "result": {} }),
        json!({ "result": null }),
        json!({ "result": "pong" }),
        json!({ "result": [] }),
        json!({ "result": { "supportedVersions": "2026-07-28", "capabilities": {} } }),
        json!({ "error": "no" }),
        json!({ "error": { "message": "no" } }),
        json!({ "result": {}, "error": { "code": 1, "message": "both" } }),
    ] {
        let (connecting, mut peer) = connecting(nobody());
        let probe = peer.expect("server/discover").await;
        let mut message = answer.clone();
        message["jsonrpc"] = "2.0".into();
        message["id"] = probe["id"].clone();
        peer.send(&message).await;
        peer.shake_hands(V2025_11_25).await;
        assert_eq!(opened(connecting).await.protocol_version(), Some(V2025_11_25), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_lines_before_the_probe_response_are_ignored() {
    let (connecting, mut peer) = connecting(nobody());
    let probe = peer.expect("server/discover").await;
    peer.write("Starting server on stdio...").await;
    peer.write("").await;
    peer.write("{\"level\":\"info\"}").await;
    peer.answer(&json!({ "id": "another" }), json!({})).await;
    peer.notify("notifications/message", json!({ "level": "info", "data": "hello" })).await;
    peer.answer(&probe, discovered(&ProtocolVersion::ALL)).await;
    let client = opened(connecting).await;
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
    is_usable(&client, &mut peer).await;
}

#[tokio::test]
async fn a_server_with_errors_of_the_newest_revision_is_probed_again() {
    let supported = json!({ "supported": ["2026-07-28"], "requested": "2026-07-28" });
    for error in [
        json!({ "code": -32022, "message": "once more", "data": supported }),
        json!({ "code": -32022, "message": "once more" }),
        json!({ "code": -32020, "message": "header" }),
        json!({ "code": -32021, "message": "capability" }),
    ] {
        let (connecting, mut peer) = connecting(nobody());
        let probe = peer.expect("server/discover").await;
        peer.refuse(&probe, error).await;
        let again = peer.expect("server/discover").await;
        assert_ne!(again["id"], probe["id"]);
        peer.answer(&again, discovered(&[ProtocolVersion::LATEST])).await;
        assert_eq!(opened(connecting).await.protocol_version(), Some(ProtocolVersion::LATEST));
    }
}

#[tokio::test]
async fn a_server_that_supports_older_revisions_gets_initialize() {
    let (connecting, mut peer) = connecting(nobody());
    let probe = peer.expect("server/discover").await;
    let supported = json!({ "supported": ["2024-11-05", "2025-06-18", "1999-01-01"], "requested": "2026-07-28" });
    peer.refuse(&probe, json!({ "code": -32022, "message": "older", "data": supported })).await;
    let hello = peer.shake_hands(V2025_06_18).await;
    assert_eq!(hello["params"]["protocolVersion"], "2025-06-18");
    assert_eq!(opened(connecting).await.protocol_version(), Some(V2025_06_18));
}

#[tokio::test]
async fn a_server_that_discovers_only_older_revisions_gets_initialize() {
    let (connecting, mut peer) = connecting(nobody());
    let probe = peer.expect("server/discover").await;
    peer.answer(&probe, discovered(&[V2024_11_05, V2025_03_26])).await;
    let hello = peer.shake_hands(V2025_03_26).await;
    assert_eq!(hello["params"]["protocolVersion"], "2025-03-26");
    assert_eq!(opened(connecting).await.protocol_version(), Some(V2025_03_26));
}

#[tokio::test]
async fn the_error_without_a_common_version_has_both_lists() {
    let theirs = || vec!["2031-01-01".to_owned()];
    let refusal = json!({ "code": -32022, "message": "", "data": { "supported": theirs(), "requested": "" } });
    let mut told = discovered(&[]);
    told["supportedVersions"] = json!(theirs());
    for newer_error in [false, true] {
        let (connecting, mut peer) = connecting(nobody());
        let probe = peer.expect("server/discover").await;
        match newer_error {
            true => peer.refuse(&probe, refusal.clone()).await,
            false => peer.answer(&probe, told.clone()).await,
        }
        let ours = ProtocolVersion::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(refused(connecting).await, OpenError::NoCommonVersion { theirs: theirs(), ours });
        assert_eq!(peer.line().await, None);
    }
}

#[tokio::test]
async fn the_number_of_probes_is_limited() {
    let (connecting, mut peer) = connecting(nobody());
    let error = json!({ "code": -32022, "message": "once more", "data": { "supported": ["2026-07-28"] } });
    let mut probes = 0;
    while let Some(line) = peer.line().await {
        let probe: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(probe["method"], "server/discover");
        peer.refuse(&probe, error.clone()).await;
        probes += 1;
    }
    assert!((2..=4).contains(&probes), "{probes}");
    assert!(matches!(refused(connecting).await, OpenError::Refused(error) if error.message == "once more"));
}

#[tokio::test]
async fn a_stateless_client_reports_the_error_of_an_older_server() {
    for choice in [VersionChoice::Stateless, VersionChoice::Only(ProtocolVersion::LATEST)] {
        let (connecting, mut peer) = connecting(speaking(choice));
        let probe = peer.expect("server/discover").await;
        peer.refuse(&probe, json!({ "code": -32601, "message": "what?" })).await;
        let error = refused(connecting).await;
        let OpenError::OnlyOlder { ours, refusal } = &error else { panic!("{error}") };
        assert_eq!(
            (ours.as_slice(), refusal.as_ref().unwrap().message.as_str()),
            (&["2026-07-28".to_owned()][..], "what?")
        );
        assert_eq!(peer.line().await, None);
    }
}

#[tokio::test]
async fn a_client_of_older_revisions_does_not_probe() {
    let (connecting, mut peer) = connecting(speaking(VersionChoice::Handshake));
    let hello = peer.shake_hands(V2024_11_05).await;
    assert_eq!(hello["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(opened(connecting).await.protocol_version(), Some(V2024_11_05), "the server may choose an older one");
}

#[tokio::test]
async fn a_client_of_one_revision_uses_no_other() {
    for version in ProtocolVersion::with_handshake() {
        let (connecting, mut peer) = connecting(speaking(VersionChoice::Only(version)));
        let hello = peer.expect("initialize").await;
        assert_eq!(hello["params"]["protocolVersion"], version.as_str());
        let other = if version == V2024_11_05 { V2025_03_26 } else { V2024_11_05 };
        peer.answer(&hello, initialized(other)).await;
        let expected = OpenError::NoCommonVersion { theirs: vec![other.to_string()], ours: vec![version.to_string()] };
        assert_eq!(refused(connecting).await, expected);
        assert_eq!(peer.line().await, None);
    }
}

#[tokio::test]
async fn a_handshake_never_leads_to_a_revision_without_one() {
    let (connecting, mut peer) = connecting(speaking(VersionChoice::Auto));
    let probe = peer.expect("server/discover").await;
    peer.refuse(&probe, json!({ "code": -32601, "message": "what?" })).await;
    let hello = peer.expect("initialize").await;
    peer.answer(&hello, initialized(ProtocolVersion::LATEST)).await;
    assert!(matches!(refused(connecting).await, OpenError::NoCommonVersion { .. }));
}

#[tokio::test]
async fn the_error_of_a_refused_handshake_reaches_the_caller() {
    let (connecting, mut peer) = connecting(speaking(VersionChoice::Handshake));
    let hello = peer.expect("initialize").await;
    peer.refuse(&hello, json!({ "code": -32603, "message": "closed today" })).await;
    assert!(matches!(refused(connecting).await, OpenError::Refused(error) if error.message == "closed today"));
}

#[tokio::test]
async fn an_invalid_handshake_result_is_an_error() {
    let (connecting, mut peer) = connecting(speaking(VersionChoice::Handshake));
    let hello = peer.expect("initialize").await;
    peer.answer(&hello, json!({ "protocolVersion": "2025-11-25" })).await;
    assert!(matches!(refused(connecting).await, OpenError::Invalid(_)));
}

#[tokio::test]
async fn a_server_that_closes_during_the_probe_is_a_closed_connection() {
    let (connecting, mut peer) = connecting(nobody());
    peer.expect("server/discover").await;
    drop(peer);
    let error = connecting.await.unwrap().unwrap_err();
    assert!(matches!(error, ConnectError::Closed(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_exits_on_the_probe_is_started_again_without_a_probe() {
    let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
    let connector = StreamConnector::from_fn("fragile", move || {
        let (near, far) = memory();
        starts.send(Peer::new(far)).unwrap();
        std::future::ready(Ok(near))
    });
    let connecting = tokio::spawn(nobody().version_cache(VersionCache::new()).connect(connector));
    let mut first = started.recv().await.unwrap();
    first.expect("server/discover").await;
    drop(first);
    let mut second = started.recv().await.unwrap();
    second.shake_hands(V2025_11_25).await;
    let client = opened(connecting).await;
    is_usable(&client, &mut second).await;
}

#[tokio::test]
async fn the_error_of_an_unreachable_server_names_it() {
    let connector = StreamConnector::from_fn("nowhere", || async {
        Err::<turms_core::transport::MemoryEnd, _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
    });
    let error = nobody().connect(connector).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot reach nowhere");
}

fn server(versions: &[ProtocolVersion]) -> Server {
    fixture::server().protocol_versions(versions.to_vec())
}

#[tokio::test]
async fn the_newest_common_revision_is_used() {
    let handshake: Vec<_> = ProtocolVersion::with_handshake().collect();
    for (versions, choice, expected) in [
        (&ProtocolVersion::ALL[..], VersionChoice::Auto, V2026_07_28),
        (&ProtocolVersion::ALL, VersionChoice::Stateless, V2026_07_28),
        (&ProtocolVersion::ALL, VersionChoice::Handshake, V2025_11_25),
        (&handshake, VersionChoice::Auto, V2025_11_25),
        (&[V2024_11_05, V2025_06_18], VersionChoice::Auto, V2025_06_18),
        (&[V2024_11_05], VersionChoice::Handshake, V2024_11_05),
        (&[V2026_07_28], VersionChoice::Auto, V2026_07_28),
    ] {
        let local = speaking(choice).connect_service(server(versions).build().unwrap()).await.unwrap();
        let (near, far) = memory();
        let served = server(versions);
        tokio::spawn(async move { served.serve(far.0, far.1).await });
        let pair = speaking(choice).connect_stream(near.0, near.1).await.unwrap();
        for client in [local, pair] {
            assert_eq!(client.protocol_version(), Some(expected));
            assert_eq!(client.call_tool("list", ()).await.unwrap().text(), "[1,2,3]");
        }
    }
}

#[tokio::test]
async fn without_a_common_revision_connecting_fails() {
    for (versions, choice) in [
        (&[V2026_07_28], VersionChoice::Handshake),
        (&[V2025_11_25], VersionChoice::Stateless),
        (&[V2025_11_25], VersionChoice::Only(V2025_06_18)),
        (&[V2026_07_28], VersionChoice::Only(V2025_06_18)),
    ] {
        let error = speaking(choice).connect_service(server(versions).build().unwrap()).await.unwrap_err();
        assert!(matches!(error, ConnectError::Negotiation(_)), "{error}");
        let (near, far) = memory();
        let served = server(versions);
        tokio::spawn(async move { served.serve(far.0, far.1).await });
        let error = speaking(choice).connect_stream(near.0, near.1).await.unwrap_err();
        assert!(matches!(error, ConnectError::Negotiation(_)), "{error}");
        assert!(!error.is_timeout());
    }
}
