//! Log messages of a server.

use std::sync::mpsc;

use serde_json::json;
use turms_client::{ClientBuilder, Event};
use turms_proto::types::{LogMessage, LoggingLevel};
use turms_proto::{Ability, ProtocolVersion, RawJson};

use crate::behaviour::reach::{Reached, Way, along, everywhere, everywhere_as, person};

/// Returns a client that records the log messages of its server.
fn listener() -> (ClientBuilder, mpsc::Receiver<LogMessage>) {
    let (sender, receiver) = mpsc::channel();
    let builder = person().without_log_tracing().on_log(move |message| sender.send(message.clone()).unwrap());
    (builder, receiver)
}

async fn say_everything(client: &Reached) {
    for level in ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] {
        client.text("emit_log", json!({ "level": level, "text": level })).await;
    }
}

/// Runs a test for every revision and transport, with a client that records log messages.
async fn everywhere_listening(
    prepare: impl Fn(ClientBuilder) -> ClientBuilder,
    test: impl AsyncFn(Reached, &mpsc::Receiver<LogMessage>),
) {
    for way in Way::ALL {
        for version in ProtocolVersion::ALL {
            let (builder, heard) = listener();
            let builder = prepare(builder);
            along(&[way], &[version], || builder.clone(), async |client| test(client, &heard).await).await;
        }
    }
}

fn texts(heard: &mpsc::Receiver<LogMessage>) -> Vec<String> {
    heard.try_iter().map(|message| message.data.decode().unwrap()).collect()
}

#[tokio::test]
async fn only_messages_of_the_level_or_above_arrive() {
    everywhere_listening(
        |builder| builder,
        async |client, heard| {
            client.set_log_level(LoggingLevel::Error).await.unwrap();
            say_everything(&client).await;
            assert_eq!(texts(heard), ["error", "critical", "alert", "emergency"]);
            client.set_log_level(LoggingLevel::Debug).await.unwrap();
            say_everything(&client).await;
            assert_eq!(texts(heard).len(), 8);
        },
    )
    .await;
}

#[tokio::test]
async fn the_level_can_be_set_before_connecting() {
    everywhere_listening(
        |builder| builder.log_level(LoggingLevel::Alert),
        async |client, heard| {
            say_everything(&client).await;
            assert_eq!(texts(heard), ["alert", "emergency"]);
        },
    )
    .await;
}

#[tokio::test]
async fn without_a_level_the_default_of_the_revision_applies() {
    everywhere_listening(
        |builder| builder,
        async |client, heard| {
            say_everything(&client).await;
            let expected = if client.version.has(Ability::SessionLogLevel) { 7 } else { 0 };
            assert_eq!(texts(heard).len(), expected);
        },
    )
    .await;
}

#[tokio::test]
async fn the_callback_and_every_event_stream_get_the_whole_message() {
    everywhere_listening(
        |builder| builder.log_level(LoggingLevel::Debug),
        async |client, heard| {
            let mut streams = [client.events(), client.events()];
            client.text("emit_log", json!({ "level": "notice", "text": "it rains" })).await;
            let expected =
                LogMessage::new(LoggingLevel::Notice, RawJson::parse(r#""it rains""#).unwrap()).logger("fixture");
            assert_eq!(heard.try_recv().unwrap(), expected);
            for events in &mut streams {
                let message = events.find(|event| match event {
                    Event::Log(message) => Some(message),
                    _ => None,
                });
                assert_eq!(*message.await.unwrap(), expected);
            }
        },
    )
    .await;
}

#[tokio::test]
async fn log_messages_arrive_in_order_and_before_the_result() {
    everywhere_listening(
        |builder| builder.log_level(LoggingLevel::Info),
        async |client, heard| {
            assert_eq!(client.text("steps", ()).await, "done");
            let steps: Vec<_> = heard.try_iter().map(|message| message.data.to_string()).collect();
            assert_eq!(steps, [r#"{"step":1}"#, r#"{"step":2}"#, r#"{"step":3}"#]);
        },
    )
    .await;
}

#[tokio::test]
async fn setting_the_level_is_a_request_only_where_there_are_sessions() {
    everywhere(async |client| {
        client.set_log_level(LoggingLevel::Info).await.unwrap();
        let expected = i64::from(client.version.has(Ability::SessionLogLevel));
        assert_eq!(client.count("logging/setLevel").await, expected);
    })
    .await;
}

#[tokio::test]
async fn a_panic_of_the_callback_is_caught() {
    let builder = || person().log_level(LoggingLevel::Debug).on_log(|_| panic!("as asked"));
    everywhere_as(builder, async |client| {
        assert_eq!(client.text("steps", ()).await, "done");
        assert_eq!(client.text("list", ()).await, "[1,2,3]");
    })
    .await;
}
