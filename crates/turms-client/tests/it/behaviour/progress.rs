//! Progress of calls.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use turms_client::Event;
use turms_proto::types::ProgressParams;
use turms_proto::{Ability, ProtocolVersion};

use crate::behaviour::reach::{Way, along, everywhere, person};

fn writer() -> (impl Fn(&ProgressParams) + Clone + Send + Sync + 'static, mpsc::Receiver<ProgressParams>) {
    let (sender, receiver) = mpsc::channel();
    (move |report: &ProgressParams| sender.send(report.clone()).unwrap(), receiver)
}

fn steps(heard: &mpsc::Receiver<ProgressParams>) -> Vec<f64> {
    heard.try_iter().map(|report| report.progress.as_f64()).collect()
}

#[tokio::test]
async fn progress_of_a_call_arrives_in_order_and_before_its_result() {
    everywhere(async |client| {
        let (write, heard) = writer();
        assert_eq!(client.call_tool("steps", ()).on_progress(write).await.unwrap().text(), "done");
        let reports: Vec<_> = heard.try_iter().collect();
        assert_eq!(reports.iter().map(|report| report.progress.as_f64()).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        for report in reports {
            assert_eq!(report.total.unwrap().as_f64(), 3.0);
            let message = client.version.has(Ability::ProgressMessages).then_some("on it");
            assert_eq!(report.message.as_deref(), message);
        }
    })
    .await;
}

#[tokio::test]
async fn without_a_callback_no_progress_is_sent() {
    everywhere(async |client| {
        let mut events = client.events();
        client.text("steps", ()).await;
        client.close().await;
        while let Some(event) = events.next().await {
            assert!(!matches!(event, Event::Progress(_)), "{event:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn progress_goes_to_its_own_call() {
    everywhere(async |client| {
        let ((write, heard), (write_other, heard_other)) = (writer(), writer());
        let walk = |steps: u32| json!({ "steps": steps, "pause_ms": 1 });
        let one = client.call_tool("walk", walk(3)).on_progress(write).into_future();
        let other = client.call_tool("walk", walk(5)).on_progress(write_other).into_future();
        let (one, other) = tokio::join!(one, other);
        assert_eq!((one.unwrap().text(), other.unwrap().text()), ("there".into(), "there".into()));
        assert_eq!(steps(&heard), [1.0, 2.0, 3.0]);
        assert_eq!(steps(&heard_other), [1.0, 2.0, 3.0, 4.0, 5.0]);
    })
    .await;
}

#[tokio::test]
async fn the_callback_of_the_client_gets_the_progress_of_every_call() {
    for way in Way::ALL {
        for version in ProtocolVersion::ALL {
            let (write, all) = writer();
            let builder = person().on_progress(write);
            along(
                &[way],
                &[version],
                || builder.clone(),
                async |client| {
                    let mut events = client.events();
                    client.text("steps", ()).await;
                    let (write, own) = writer();
                    client.call_tool("steps", ()).on_progress(write).await.unwrap();
                    assert_eq!(steps(&all), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
                    assert_eq!(steps(&own), [1.0, 2.0, 3.0]);
                    for step in [1.0, 2.0, 3.0, 1.0, 2.0, 3.0] {
                        let report = events.find(|event| match event {
                            Event::Progress(report) => Some(report),
                            _ => None,
                        });
                        assert_eq!(report.await.unwrap().progress.as_f64(), step);
                    }
                },
            )
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn progress_renews_the_timeout_of_a_call() {
    along(&Way::IN_PROCESS, &ProtocolVersion::ALL, person, async |client| {
        let walk = client.call_tool("walk", json!({ "steps": 5, "pause_ms": 800 }));
        let walked = walk.timeout(Duration::from_secs(1)).on_progress(|_| {}).await;
        assert_eq!(walked.unwrap().text(), "there");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_call_without_further_progress_times_out() {
    along(&Way::IN_PROCESS, &ProtocolVersion::ALL, person, async |client| {
        let started = tokio::time::Instant::now();
        let walk = client.call_tool("walk", json!({ "steps": 1, "pause_ms": 1500 }));
        let error = walk.timeout(Duration::from_secs(1)).on_progress(|_| {}).await.unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert_eq!(started.elapsed(), Duration::from_secs(1));
    })
    .await;
}

#[tokio::test]
async fn a_panic_of_the_callback_is_caught() {
    everywhere(async |client| {
        let call = client.call_tool("steps", ()).on_progress(|_| panic!("as asked"));
        assert_eq!(call.await.unwrap().text(), "done");
        assert_eq!(client.text("list", ()).await, "[1,2,3]");
    })
    .await;
}
