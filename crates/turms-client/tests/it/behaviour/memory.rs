//! The version cache: what clients reuse between connections to one server.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use turms_client::{Client, ClientBuilder, ConnectionEvent, Event, VersionCache};
use turms_core::transport::{StreamConnector, memory};
use turms_proto::ProtocolVersion::{self, *};
use turms_proto::session::{Dialect, VersionChoice};
use turms_proto::types::CacheScope;
use turms_testkit::within;

use crate::behaviour::peer::{Peer, discovered, said};
use crate::behaviour::reach::nobody;
use turms_testkit::behaviour_server as fixture;

/// Time to live of the `server/discover` results in these tests.
const TTL: Duration = Duration::from_secs(60);

/// Returns a result of `server/discover`.
fn told(scope: &str, instructions: &str) -> Value {
    let mut told = discovered(&[ProtocolVersion::LATEST]);
    told["cacheScope"] = scope.into();
    told["ttlMs"] = TTL.as_secs().saturating_mul(1000).into();
    told["instructions"] = instructions.into();
    told
}

/// Connects a client, answers its `server/discover`, and returns the instructions that it has.
async fn asked(memory: &VersionCache, answer: Value) -> String {
    let (connector, mut started) = by_hand("a");
    let connecting = tokio::spawn(remembering(memory).connect(connector));
    let mut peer = started.recv().await.unwrap();
    let probe = peer.expect("server/discover").await;
    peer.answer(&probe, answer).await;
    within("the connection", connecting).await.unwrap().unwrap().instructions().unwrap()
}

/// Connects a client that uses the cache, and returns its instructions.
async fn not_asked(memory: &VersionCache) -> String {
    let (connector, _started) = by_hand("a");
    within("the connection", remembering(memory).connect(connector)).await.unwrap().instructions().unwrap()
}

#[tokio::test]
async fn a_private_discover_result_is_not_shared() {
    let memory = VersionCache::new();
    assert_eq!(asked(&memory, told("private", "for Ann")).await, "for Ann");
    assert_eq!(memory.dialect("a"), Some(Dialect::Stateless(ProtocolVersion::LATEST)));
    assert_eq!(asked(&memory, told("private", "for Bob")).await, "for Bob");
}

#[tokio::test(start_paused = true)]
async fn a_public_discover_result_is_reused_until_its_ttl_ends() {
    let memory = VersionCache::new();
    asked(&memory, told("public", "old")).await;
    tokio::time::sleep(TTL / 2).await;
    assert_eq!(not_asked(&memory).await, "old");
    // A cache hit does not extend the time to live.
    tokio::time::sleep(TTL / 2).await;
    assert_eq!(asked(&memory, told("public", "new")).await, "new");
    assert_eq!(not_asked(&memory).await, "new");
}

#[tokio::test]
async fn a_discover_result_without_a_ttl_is_not_reused() {
    for ttl in [json!(0), json!(-1), Value::Null] {
        let memory = VersionCache::new();
        let mut answer = told("public", "once");
        answer["ttlMs"] = ttl;
        if answer["ttlMs"].is_null() {
            answer.as_object_mut().unwrap().remove("ttlMs");
        }
        asked(&memory, answer).await;
        asked(&memory, told("public", "again")).await;
    }
}

/// A connector to fixtures of these revisions: a new one for each connection.
fn to_fixture(name: &str, versions: &[ProtocolVersion]) -> StreamConnector {
    let versions = versions.to_vec();
    StreamConnector::from_fn(name, move || {
        let (near, far) = memory();
        let server = fixture::server().protocol_versions(versions.clone()).cache(TTL, CacheScope::Public);
        tokio::spawn(async move { server.serve(far.0, far.1).await });
        std::future::ready(Ok(near))
    })
}

/// A connector to scripted servers: one for each connection.
pub(crate) fn by_hand(name: &str) -> (StreamConnector, mpsc::UnboundedReceiver<Peer>) {
    let (starts, started) = mpsc::unbounded_channel();
    let connector = StreamConnector::from_fn(name, move || {
        let (near, far) = memory();
        starts.send(Peer::new(far)).unwrap();
        std::future::ready(Ok(near))
    });
    (connector, started)
}

pub(crate) fn remembering(memory: &VersionCache) -> ClientBuilder {
    nobody().version_cache(memory.clone())
}

async fn count(client: &Client, counter: &str) -> i64 {
    let counters = client.call_tool("effects", ()).await.unwrap().text();
    serde_json::from_str::<Value>(&counters).unwrap()[counter].as_i64().unwrap_or_default()
}

/// Fills the cache with the `server/discover` result of a server of the newest revision.
pub(crate) async fn meet_newest(memory: &VersionCache, name: &str) {
    let (connector, mut started) = by_hand(name);
    let connecting = tokio::spawn(remembering(memory).connect(connector));
    let mut peer = started.recv().await.unwrap();
    let probe = peer.expect("server/discover").await;
    peer.answer(&probe, told("public", "for all")).await;
    connecting.await.unwrap().unwrap().close().await;
    assert_eq!(memory.dialect(name), Some(Dialect::Stateless(ProtocolVersion::LATEST)));
}

#[tokio::test]
async fn a_cached_server_is_not_probed() {
    let memory = VersionCache::new();
    assert_eq!(memory.dialect("a"), None);
    let first = remembering(&memory).connect(to_fixture("a", &ProtocolVersion::ALL)).await.unwrap();
    assert_eq!(count(&first, "server/discover").await, 1);
    assert_eq!(memory.dialect("a"), Some(Dialect::Stateless(ProtocolVersion::LATEST)));
    let second = remembering(&memory).connect(to_fixture("a", &ProtocolVersion::ALL)).await.unwrap();
    assert_eq!(count(&second, "server/discover").await, 0);
    assert_eq!(second.protocol_version(), Some(ProtocolVersion::LATEST));
    assert_eq!(second.server_info().unwrap().name, "fixture");
    assert_eq!(second.instructions(), first.instructions());
    assert_eq!(second.server_capabilities(), first.server_capabilities());
}

#[tokio::test]
async fn a_cached_older_server_gets_initialize_at_once() {
    let memory = VersionCache::new();
    let (connector, mut started) = by_hand("old");
    let connecting = tokio::spawn(remembering(&memory).connect(connector));
    let mut peer = started.recv().await.unwrap();
    let probe = peer.expect("server/discover").await;
    peer.refuse(&probe, json!({ "code": -32601, "message": "what?" })).await;
    peer.shake_hands(V2025_03_26).await;
    let _first = connecting.await.unwrap().unwrap();
    assert_eq!(memory.dialect("old"), Some(Dialect::Handshake(V2025_03_26)));
    let (connector, mut started) = by_hand("old");
    let connecting = tokio::spawn(remembering(&memory).connect(connector));
    let hello = started.recv().await.unwrap().shake_hands(V2025_03_26).await;
    assert_eq!(hello["params"]["protocolVersion"], "2025-03-26");
    assert_eq!(connecting.await.unwrap().unwrap().protocol_version(), Some(V2025_03_26));
}

#[tokio::test]
async fn each_server_has_an_entry_that_can_be_removed() {
    let memory = VersionCache::new();
    meet_newest(&memory, "a").await;
    assert_eq!(memory.dialect("b"), None);
    let other = remembering(&memory).connect(to_fixture("b", &ProtocolVersion::ALL)).await.unwrap();
    assert_eq!(count(&other, "server/discover").await, 1);
    memory.forget("a");
    let again = remembering(&memory).connect(to_fixture("a", &ProtocolVersion::ALL)).await.unwrap();
    assert_eq!(count(&again, "server/discover").await, 1);
    let stranger = remembering(&VersionCache::new()).connect(to_fixture("a", &ProtocolVersion::ALL)).await.unwrap();
    assert_eq!(count(&stranger, "server/discover").await, 1);
}

#[tokio::test]
async fn a_fixed_revision_of_one_client_does_not_affect_others() {
    for choice in [VersionChoice::Only(V2024_11_05), VersionChoice::Handshake] {
        let memory = VersionCache::new();
        let connector = || to_fixture("a", &ProtocolVersion::ALL);
        let pinned = remembering(&memory).protocol_versions(choice).connect(connector()).await.unwrap();
        assert_ne!(pinned.protocol_version(), Some(ProtocolVersion::LATEST));
        let free = remembering(&memory).connect(connector()).await.unwrap();
        assert_eq!(free.protocol_version(), Some(ProtocolVersion::LATEST));
        let pinned = remembering(&memory).protocol_versions(choice).connect(connector()).await.unwrap();
        assert_ne!(pinned.protocol_version(), Some(ProtocolVersion::LATEST));
    }
}

#[tokio::test]
async fn a_wrong_entry_of_the_newest_revision_is_corrected_by_the_first_call() {
    let memory = VersionCache::new();
    meet_newest(&memory, "a").await;
    let older: Vec<_> = ProtocolVersion::with_handshake().collect();
    let client = remembering(&memory).connect(to_fixture("a", &older)).await.unwrap();
    let mut events = client.events();
    assert!(!client.list_prompts().await.unwrap().is_empty());
    assert_eq!(client.protocol_version(), Some(V2025_11_25));
    assert_eq!(memory.dialect("a"), Some(Dialect::Handshake(V2025_11_25)));
    assert_eq!(client.call_tool("list", ()).await.unwrap().text(), "[1,2,3]");
    let again = events.find(|event| match event {
        Event::Connection(ConnectionEvent::Connected { version, generation }) => Some((version, generation)),
        _ => None,
    });
    assert_eq!(again.await, Some((V2025_11_25, 2)));
}

/// The error could come from the tool, so the call is not repeated; the next call uses the right revision.
#[tokio::test]
async fn a_wrong_entry_fails_one_tool_call() {
    let memory = VersionCache::new();
    meet_newest(&memory, "a").await;
    let older: Vec<_> = ProtocolVersion::with_handshake().collect();
    let client = remembering(&memory).connect(to_fixture("a", &older)).await.unwrap();
    let error = client.call_tool("list", ()).await.unwrap_err();
    assert_eq!(error.error_response().unwrap().code.0, -32600);
    assert_eq!(client.call_tool("list", ()).await.unwrap().text(), "[1,2,3]");
    assert_eq!(memory.dialect("a"), Some(Dialect::Handshake(V2025_11_25)));
}

#[tokio::test]
async fn an_unrelated_error_of_the_first_call_keeps_the_entry() {
    let memory = VersionCache::new();
    meet_newest(&memory, "a").await;
    let client = remembering(&memory).connect(to_fixture("a", &ProtocolVersion::ALL)).await.unwrap();
    let error = client.call_tool("nothing", ()).await.unwrap_err();
    assert_eq!(error.error_response().unwrap().message, "unknown tool: \"nothing\"");
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
    // Only the first failed call repeats `server/discover`.
    client.call_tool("nothing", ()).await.unwrap_err();
    assert_eq!(count(&client, "server/discover").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_entry_of_a_silent_server_fails_one_call() {
    let memory = VersionCache::new();
    meet_newest(&memory, "a").await;
    let (connector, mut started) = by_hand("a");
    let client = remembering(&memory).connect(connector).await.unwrap();
    let mut peer = started.recv().await.unwrap();
    let error = client.call_tool("hello", ()).timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    peer.expect("tools/call").await;
    peer.expect("notifications/cancelled").await;
    peer.expect("server/discover").await;
    let call = tokio::spawn(client.call_tool("hello", ()).into_future());
    let mut peer = started.recv().await.unwrap();
    let probe = peer.expect("server/discover").await;
    peer.refuse(&probe, json!({ "code": -32601, "message": "what?" })).await;
    peer.shake_hands(V2025_06_18).await;
    let request = peer.expect("tools/call").await;
    peer.answer(&request, said("Hello!")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "Hello!");
}

#[tokio::test]
async fn a_wrong_entry_of_a_handshake_revision_is_corrected_on_connect() {
    let memory = VersionCache::new();
    let older = remembering(&memory).connect(to_fixture("a", &[V2025_11_25])).await.unwrap();
    assert_eq!(memory.dialect("a"), Some(Dialect::Handshake(V2025_11_25)));
    drop(older);
    let client = remembering(&memory).connect(to_fixture("a", &[ProtocolVersion::LATEST])).await.unwrap();
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
    assert_eq!(memory.dialect("a"), Some(Dialect::Stateless(ProtocolVersion::LATEST)));
}

#[tokio::test]
async fn a_failed_handshake_from_the_cache_is_repeated_without_the_entry() {
    let memory = VersionCache::new();
    let older = remembering(&memory).connect(to_fixture("a", &[V2025_11_25])).await.unwrap();
    drop(older);
    let (connector, mut started) = by_hand("a");
    let connecting = tokio::spawn(remembering(&memory).connect(connector));
    let mut peer = started.recv().await.unwrap();
    let hello = peer.expect("initialize").await;
    peer.refuse(&hello, json!({ "code": -32601, "message": "what?" })).await;
    let mut peer = started.recv().await.unwrap();
    let probe = peer.expect("server/discover").await;
    peer.answer(&probe, discovered(&[ProtocolVersion::LATEST])).await;
    assert_eq!(connecting.await.unwrap().unwrap().protocol_version(), Some(ProtocolVersion::LATEST));
}
