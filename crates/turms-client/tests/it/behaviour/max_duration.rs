//! The maximum duration of a call, which progress does not extend.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use turms_client::{CallErrorKind, Change, ClientBuilder, TimeoutCause};
use turms_proto::ProtocolVersion;
use turms_proto::types::SubscriptionFilter;

use crate::behaviour::reach::{Reached, Way, everywhere, person};

const SECOND: Duration = Duration::from_secs(1);

/// Runs a test for every revision, over the transports that work with a paused clock.
async fn in_process(builder: impl Fn() -> ClientBuilder, test: impl AsyncFn(Reached)) {
    for way in Way::IN_PROCESS {
        for version in ProtocolVersion::ALL {
            test(Reached::new(way, version, builder()).await).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn progress_does_not_renew_the_max_duration() {
    in_process(person, async |client| {
        let started = Instant::now();
        let walk = client.call_tool("walk", json!({ "steps": 100, "pause_ms": 800 }));
        let error = walk.timeout(SECOND).max_duration(3 * SECOND).on_progress(|_| {}).await.unwrap_err();
        assert_eq!(started.elapsed(), 3 * SECOND);
        assert!(error.is_timeout() && error.may_have_run(), "{error}");
        assert_eq!(
            error.to_string(),
            "tools/call \"walk\": no response within 3 s (max_duration); the call may have run"
        );
    })
    .await;
}

#[tokio::test]
async fn the_max_duration_ends_a_call_over_every_transport() {
    everywhere(async |client| {
        let walk = client.call_tool("walk", json!({ "steps": 100_000, "pause_ms": 5 }));
        let error = walk.max_duration(Duration::from_millis(50)).on_progress(|_| {}).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Timeout(TimeoutCause::MaxDuration(_))), "{error}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_max_duration_of_the_client_is_the_default_of_its_calls() {
    let builder = || person().timeout(SECOND).max_duration(3 * SECOND);
    in_process(builder, async |client| {
        for own in [None, Some(5 * SECOND)] {
            let started = Instant::now();
            let walk = client.call_tool("walk", json!({ "steps": 100, "pause_ms": 800 })).on_progress(|_| {});
            let walk = if let Some(own) = own { walk.max_duration(own) } else { walk };
            let error = walk.await.unwrap_err();
            assert!(matches!(error.kind(), CallErrorKind::Timeout(TimeoutCause::MaxDuration(_))), "{error}");
            assert_eq!(started.elapsed(), own.unwrap_or(3 * SECOND));
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_default_is_an_hour() {
    in_process(person, async |client| {
        let started = Instant::now();
        let walk = client.call_tool("walk", json!({ "steps": 1000, "pause_ms": 20_000 })).on_progress(|_| {});
        let error = walk.await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Timeout(TimeoutCause::MaxDuration(_))), "{error}");
        assert_eq!(started.elapsed(), 3600 * SECOND);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_longer_than_the_default_is_not_cut_short() {
    in_process(person, async |client| {
        let started = Instant::now();
        let walk = client.call_tool("walk", json!({ "steps": 1, "pause_ms": 100_000_000 }));
        let error = walk.timeout(7200 * SECOND).await.unwrap_err();
        assert_eq!(started.elapsed(), 7200 * SECOND);
        assert!(matches!(error.kind(), CallErrorKind::Timeout(TimeoutCause::Response(_))), "{error}");
        assert!(error.to_string().ends_with("no response within 7200 s; the call may have run"), "{error}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_timeout_may_have_a_max_duration() {
    in_process(person, async |client| {
        let walk = || client.call_tool("walk", json!({ "steps": 1, "pause_ms": 10_000_000 })).without_timeout();
        let error = walk().max_duration(SECOND).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Timeout(TimeoutCause::MaxDuration(_))), "{error}");
        assert_eq!(walk().await.unwrap().text(), "there");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_lasts_longer() {
    in_process(
        || person().max_duration(SECOND),
        async |client| {
            let filter = SubscriptionFilter::new().resource_subscriptions(["config://app".to_owned()]);
            let mut changes = client.subscribe(filter).await.unwrap();
            tokio::time::sleep(100 * SECOND).await;
            client.text("touch", json!({ "uri": "config://app" })).await;
            let change = changes.next().await;
            assert!(matches!(change, Some(Change::Resource { .. })), "{change:?} {}", client.version);
        },
    )
    .await;
}
