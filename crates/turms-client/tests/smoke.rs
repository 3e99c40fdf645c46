//! A first look at each part over a pair and in process.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use serde_json::json;
use turms_client::{Client, ClientBuilder, Event, Refusal};
use turms_core::transport::memory;
use turms_proto::ProtocolVersion;
use turms_proto::types::*;
use turms_server::{AskError, Context, Progress, Router, Server, Tool};

fn router() -> Router {
    Server::new("s", "1")
        .tool(Tool::builder("hello").handler_sync(|| "Hello!"))
        .tool(Tool::builder("steps").handler(|progress: Progress| async move {
            for step in 1..=3 {
                progress.report(step).await;
            }
            "done"
        }))
        .tool(Tool::builder("think").handler(|context: Context| async move {
            let answer = context.sample(CreateMessageParams::new([SamplingMessage::user("?")], 5)).await?;
            Ok::<_, AskError>(answer.content.as_slice()[0].as_text().unwrap_or_default().to_owned())
        }))
        .resource(turms_server::Resource::builder("config://app").handler_sync(|| "x"))
        .build()
        .unwrap()
}

async fn over_pair(builder: ClientBuilder, router: &Router) -> Client {
    let (near, far) = memory();
    let router = router.clone();
    tokio::spawn(async move { router.serve(far.0, far.1).await });
    builder.connect_stream(near.0, near.1).await.unwrap()
}

#[tokio::test]
async fn it_works_at_all() {
    for local in [false, true] {
        for version in ProtocolVersion::ALL {
            let router = router();
            let builder = Client::builder("c", "1")
                .only_version(version)
                .on_sampling(|_| async { Ok::<_, Refusal>(CreateMessageResult::new(Role::Assistant, "Paris", "m")) });
            let client = match local {
                true => builder.connect_service(router.clone()).await.unwrap(),
                false => over_pair(builder, &router).await,
            };
            assert_eq!(client.protocol_version(), Some(version));
            client.ping().await.unwrap();
            assert_eq!(client.list_tools().await.unwrap().len(), 3);
            assert_eq!(client.call_tool("hello", ()).await.unwrap().text(), "Hello!");
            assert_eq!(client.call_tool("think", json!({})).await.unwrap().text(), "Paris");
            let (sender, receiver) = std::sync::mpsc::channel();
            let heard =
                client.call_tool("steps", ()).on_progress(move |report| sender.send(report.progress.as_f64()).unwrap());
            heard.await.unwrap();
            assert_eq!(receiver.iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
            let mut events = client.events();
            client.subscribe("config://app").await.unwrap();
            router.handle().resource_updated("config://app");
            let updated = events.find(|event| match event {
                Event::ResourceUpdated { uri } => Some(uri),
                _ => None,
            });
            let uri = tokio::time::timeout(Duration::from_secs(5), updated)
                .await
                .unwrap_or_else(|_| panic!("{version} {local}"));
            assert_eq!(uri.unwrap(), "config://app");
            let mut batch = client.batch();
            let (one, two) = (batch.call_tool("hello", ()), batch.list_tools());
            let mut outcomes = batch.send().await;
            assert_eq!(outcomes.take(one).unwrap().text(), "Hello!");
            assert_eq!(outcomes.take(two).unwrap().tools.len(), 3);
            client.close().await;
            assert!(client.ping().await.unwrap_err().is_disconnected());
        }
    }
}
