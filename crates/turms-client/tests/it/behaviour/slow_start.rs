//! Servers that do not respond within the probe timeout, because they start slowly or ignore `server/discover`.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use turms_client::VersionCache;
use turms_core::transport::{StreamConnector, memory};
use turms_proto::ProtocolVersion::{self, *};
use turms_proto::session::{OpenError, VersionChoice};
use turms_testkit::within;

use crate::behaviour::opening::{Connecting, connecting, is_usable, opened, refused, speaking};
use crate::behaviour::peer::{Peer, discovered, initialized};
use crate::behaviour::reach::nobody;
use turms_testkit::behaviour_server as fixture;

const PROBE_TIMEOUT: Duration = Duration::from_secs(3);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

fn unknown_method() -> Value {
    json!({ "code": -32601, "message": "Method not found" })
}

/// Connects a client in automatic mode to a silent server; returns the probe and the `initialize` request.
async fn both_asked() -> (Connecting, Peer, Value, Value) {
    let started = Instant::now();
    let (connecting, mut peer) = connecting(nobody());
    let probe = peer.expect("server/discover").await;
    let hello = peer.expect("initialize").await;
    assert_eq!(started.elapsed(), PROBE_TIMEOUT);
    (connecting, peer, probe, hello)
}

#[tokio::test(start_paused = true)]
async fn a_client_of_the_newest_revision_waits_for_a_slow_server() {
    for choice in [VersionChoice::Stateless, VersionChoice::Only(ProtocolVersion::LATEST)] {
        let (connecting, mut peer) = connecting(speaking(choice));
        let probe = peer.expect("server/discover").await;
        sleep(HANDSHAKE_TIMEOUT).await;
        peer.answer(&probe, discovered(&ProtocolVersion::ALL)).await;
        let client = opened(connecting).await;
        assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
        is_usable(&client, &mut peer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_a_timeout_and_not_an_older_server() {
    let started = Instant::now();
    let (connecting, mut peer) = connecting(speaking(VersionChoice::Stateless));
    peer.expect("server/discover").await;
    assert_eq!(refused(connecting).await, OpenError::TimedOut);
    assert_eq!(started.elapsed(), PROBE_TIMEOUT + HANDSHAKE_TIMEOUT);
    assert_eq!(peer.line().await, None, "the probe is sent once");
}

#[tokio::test(start_paused = true)]
async fn a_late_error_of_the_probe_means_an_older_server() {
    let (connecting, mut peer) = connecting(speaking(VersionChoice::Stateless));
    let probe = peer.expect("server/discover").await;
    sleep(2 * PROBE_TIMEOUT).await;
    peer.refuse(&probe, unknown_method()).await;
    assert!(matches!(refused(connecting).await, OpenError::OnlyOlder { refusal: Some(_), .. }));
}

#[tokio::test(start_paused = true)]
async fn connecting_to_a_silent_server_ends_after_both_timeouts() {
    let started = Instant::now();
    let builder = nobody().probe_timeout(Duration::from_secs(2)).handshake_timeout(Duration::from_secs(7));
    let (connecting, mut peer) = connecting(builder);
    peer.expect("server/discover").await;
    peer.expect("initialize").await;
    let error = connecting.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(started.elapsed(), Duration::from_secs(9));
}

/// The behaviour of servers of this project.
#[tokio::test(start_paused = true)]
async fn a_slow_server_of_both_eras_is_used_in_the_newest_revision() {
    for initialized_first in [false, true] {
        let (connecting, mut peer, probe, hello) = both_asked().await;
        peer.answer(&probe, discovered(&ProtocolVersion::ALL)).await;
        let again = peer.expect("server/discover").await;
        if initialized_first {
            peer.answer(&hello, initialized(V2025_11_25)).await;
        }
        peer.answer(&again, discovered(&ProtocolVersion::ALL)).await;
        let client = opened(connecting).await;
        if !initialized_first {
            peer.answer(&hello, initialized(V2025_11_25)).await;
        }
        assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
        is_usable(&client, &mut peer).await;
        assert_eq!(client.stats().connection.ignored, u64::from(!initialized_first));
    }
}

/// The behaviour of servers on the TypeScript SDK 2.4: `initialize` replaces the era that `server/discover` chose.
#[tokio::test(start_paused = true)]
async fn a_slow_server_that_follows_the_last_request_is_used_after_its_handshake() {
    for initialized_first in [false, true] {
        let (connecting, mut peer, probe, hello) = both_asked().await;
        peer.answer(&probe, discovered(&[ProtocolVersion::LATEST])).await;
        let again = peer.expect("server/discover").await;
        if initialized_first {
            peer.answer(&hello, initialized(V2025_11_25)).await;
        }
        peer.refuse(&again, unknown_method()).await;
        if !initialized_first {
            peer.answer(&hello, initialized(V2025_11_25)).await;
        }
        peer.expect("notifications/initialized").await;
        let client = opened(connecting).await;
        assert_eq!(client.protocol_version(), Some(V2025_11_25));
        is_usable(&client, &mut peer).await;
    }
}

/// The behaviour of servers on the Python SDK 2.3: the first request decides the era of the connection.
#[tokio::test(start_paused = true)]
async fn a_slow_server_that_follows_the_first_request_is_used_in_the_newest_revision() {
    let (connecting, mut peer, probe, hello) = both_asked().await;
    peer.answer(&probe, discovered(&[ProtocolVersion::LATEST])).await;
    let data = json!({ "supported": ["2026-07-28"], "requested": "2025-11-25" });
    peer.refuse(&hello, json!({ "code": -32022, "message": "serving 2026-07-28", "data": data })).await;
    let again = peer.expect("server/discover").await;
    peer.answer(&again, discovered(&[ProtocolVersion::LATEST])).await;
    let client = opened(connecting).await;
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
    is_usable(&client, &mut peer).await;
}

#[tokio::test(start_paused = true)]
async fn an_older_server_that_ignores_the_probe_is_used_after_its_handshake() {
    let (connecting, mut peer, _, hello) = both_asked().await;
    peer.answer(&hello, initialized(V2025_06_18)).await;
    peer.expect("notifications/initialized").await;
    let client = opened(connecting).await;
    assert_eq!(client.protocol_version(), Some(V2025_06_18));
    is_usable(&client, &mut peer).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_older_server_gets_one_handshake() {
    let (connecting, mut peer, probe, hello) = both_asked().await;
    peer.refuse(&probe, unknown_method()).await;
    peer.answer(&hello, initialized(V2025_06_18)).await;
    peer.expect("notifications/initialized").await;
    let client = opened(connecting).await;
    assert_eq!(client.protocol_version(), Some(V2025_06_18));
    is_usable(&client, &mut peer).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_older_server_with_discover_gets_one_handshake() {
    let (connecting, mut peer, probe, hello) = both_asked().await;
    peer.answer(&probe, discovered(&[V2025_06_18])).await;
    peer.answer(&hello, initialized(V2025_06_18)).await;
    peer.expect("notifications/initialized").await;
    assert_eq!(opened(connecting).await.protocol_version(), Some(V2025_06_18));
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_that_refuses_the_handshake_is_probed_again() {
    let data = json!({ "supported": ["2026-07-28"], "requested": "2025-11-25" });
    for refusal in [unknown_method(), json!({ "code": -32022, "message": "", "data": data })] {
        for late in [false, true] {
            let (connecting, mut peer, probe, hello) = both_asked().await;
            peer.refuse(&hello, refusal.clone()).await;
            let again = peer.expect("server/discover").await;
            peer.answer(if late { &probe } else { &again }, discovered(&[ProtocolVersion::LATEST])).await;
            let client = opened(connecting).await;
            assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
            is_usable(&client, &mut peer).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_handshake_is_the_error_without_a_probe_response() {
    for silent in [false, true] {
        let (connecting, mut peer, _, hello) = both_asked().await;
        peer.refuse(&hello, json!({ "code": -32603, "message": "closed today" })).await;
        let again = peer.expect("server/discover").await;
        if !silent {
            peer.refuse(&again, unknown_method()).await;
        }
        assert!(matches!(refused(connecting).await, OpenError::Refused(error) if error.message == "closed today"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_probe_response_is_used() {
    let (connecting, mut peer, probe, _) = both_asked().await;
    peer.answer(&probe, discovered(&[ProtocolVersion::LATEST])).await;
    peer.expect("server/discover").await;
    let client = opened(connecting).await;
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
    is_usable(&client, &mut peer).await;
}

#[tokio::test(start_paused = true)]
async fn a_revision_chosen_after_a_timeout_is_not_cached() {
    let known = VersionCache::new();
    let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
    let connector = StreamConnector::from_fn("slow", move || {
        let (near, far) = memory();
        starts.send(Peer::new(far)).unwrap();
        std::future::ready(Ok(near))
    });
    let connecting = tokio::spawn(nobody().version_cache(known.clone()).connect(connector));
    let mut peer = started.recv().await.unwrap();
    let probe = peer.expect("server/discover").await;
    let hello = peer.expect("initialize").await;
    peer.answer(&probe, discovered(&[ProtocolVersion::LATEST])).await;
    let again = peer.expect("server/discover").await;
    peer.refuse(&again, unknown_method()).await;
    peer.answer(&hello, initialized(V2025_11_25)).await;
    let client = opened(connecting).await;
    assert_eq!((client.protocol_version(), known.dialect("slow")), (Some(V2025_11_25), None));
}

/// A server that starts to read after the client has sent `server/discover` and `initialize`.
#[tokio::test(start_paused = true)]
async fn a_turms_server_that_starts_slowly_is_usable() {
    let handshake: Vec<_> = ProtocolVersion::with_handshake().collect();
    for (versions, expected) in [
        (&ProtocolVersion::ALL[..], V2026_07_28),
        (&[V2026_07_28], V2026_07_28),
        (&handshake, V2025_11_25),
        (&[V2024_11_05], V2024_11_05),
    ] {
        let (near, far) = memory();
        let server = fixture::server().protocol_versions(versions.to_vec());
        tokio::spawn(async move {
            sleep(2 * PROBE_TIMEOUT).await;
            server.serve(far.0, far.1).await
        });
        let client = nobody().connect_stream(near.0, near.1).await.unwrap();
        assert_eq!(client.protocol_version(), Some(expected));
        assert_eq!(client.call_tool("list", ()).await.unwrap().text(), "[1,2,3]");
        if expected == ProtocolVersion::LATEST {
            let filter = turms_proto::types::SubscriptionFilter::new().tools_list_changed(true);
            drop(client.subscribe(filter).await.unwrap());
        }
    }
}

/// A child process that starts its server after it has read `server/discover` and `initialize`.
#[cfg(unix)]
#[tokio::test]
async fn a_child_process_that_starts_slowly_is_used_in_the_newest_revision() {
    const SLOW: &str = r#"
        IFS= read -r probe && IFS= read -r hello
        { printf '%s\n%s\n' "$probe" "$hello"; exec cat; } | "$0"
    "#;
    let command = turms_client::ChildCommand::new("sh")
        .args(["-c", SLOW])
        .arg(crate::behaviour::reach::program())
        .on_stderr(|_| {});
    let builder = nobody().version_cache(VersionCache::new()).probe_timeout(Duration::from_millis(1));
    let client = within("the connection", builder.connect_command(command)).await.unwrap();
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST));
    assert_eq!(client.call_tool("list", ()).await.unwrap().text(), "[1,2,3]");
    within("the end of the process", client.close()).await;
}
