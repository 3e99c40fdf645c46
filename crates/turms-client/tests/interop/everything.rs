//! `@modelcontextprotocol/server-everything`, which uses every feature of the revisions with a handshake.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use turms_client::{Client, ClientBuilder, Event};
use turms_proto::types::{Content, ElicitParams, ElicitResult, LoggingLevel, Reference, Role, Root, TaskSupport};
use turms_proto::{Ability, ErrorCode, ProtocolVersion};
use turms_testkit::within;

use crate::peer;

async fn connect(builder: ClientBuilder) -> Client {
    peer::connect(builder, peer::everything()).await
}

/// Waits for a tool that the server adds after the handshake, for clients with the needed capability.
async fn offers(client: &Client, tool: &str) {
    let mut events = client.events();
    while !client.list_tools().await.unwrap().iter().any(|offered| offered.name == tool) {
        let changed = events.find(|event| matches!(event, Event::ToolsChanged).then_some(()));
        within("a change of the tools", changed).await.unwrap();
    }
}

async fn say(client: &Client, tool: &str, arguments: Value) -> String {
    let result = client.call_tool(tool, arguments).await.unwrap();
    assert!(!result.is_error(), "{tool}: {result:?}");
    result.text()
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn it_has_server_info_and_complete_lists() {
    let client = connect(peer::client()).await;
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::V2025_11_25));
    assert_eq!(client.server_info().unwrap().name, "mcp-servers/everything");
    assert!(client.instructions().is_some());

    let tools = client.list_tools().await.unwrap();
    let sum = tools.iter().find(|tool| tool.name == "get-sum").unwrap();
    assert!(sum.annotations.as_ref().unwrap().is_safe_to_repeat());
    assert!(tools.iter().all(|tool| tool.name != "trigger-sampling-request"));

    let resources = client.list_resources().await.unwrap();
    assert!(resources.iter().any(|resource| resource.uri == "demo://resource/static/document/features.md"));
    let templates = client.list_resource_templates().await.unwrap();
    let templates: Vec<_> = templates.into_iter().map(|template| template.uri_template).collect();
    let (text, blob) = ("demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}");
    assert_eq!(templates, [text, blob]);
    let prompts: Vec<_> = client.list_prompts().await.unwrap().into_iter().map(|prompt| prompt.name).collect();
    assert_eq!(prompts, ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"]);
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn it_works_in_every_revision_with_a_handshake() {
    for version in ProtocolVersion::ALL.into_iter().filter(|version| version.has(Ability::Handshake)) {
        let client = peer::connect(peer::client().protocol_version(version), peer::everything()).await;
        assert_eq!(client.protocol_version(), Some(version));
        assert_eq!(say(&client, "get-sum", json!({ "a": 40, "b": 2 })).await, "The sum of 40 and 2 is 42.");
        client.close().await;
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn its_tools_return_content_of_every_kind() {
    let client = connect(peer::client()).await;
    assert_eq!(say(&client, "echo", json!({ "message": "hello" })).await, "Echo: hello");

    let weather = client.call_tool("get-structured-content", json!({ "location": "New York" })).await.unwrap();
    let expected = json!({ "temperature": 33, "conditions": "Cloudy", "humidity": 82 });
    assert_eq!(weather.structured::<Value>().unwrap(), expected);

    let image = client.call_tool("get-tiny-image", ()).await.unwrap();
    let png = image.images().next().unwrap();
    assert_eq!(png.mime_type, "image/png");
    assert!(png.bytes().unwrap().starts_with(b"\x89PNG"));

    let arguments = json!({ "messageType": "error", "includeImage": true });
    let annotated = client.call_tool("get-annotated-message", arguments).await.unwrap();
    let audience = annotated.content[0].annotations().unwrap().audience.clone().unwrap();
    assert_eq!(audience, [Role::User, Role::Assistant]);
    assert_eq!(annotated.images().count(), 1);

    let links = client.call_tool("get-resource-links", json!({ "count": 3 })).await.unwrap();
    let uris = links.content.iter().filter_map(|content| match content {
        Content::ResourceLink(link) => Some(link.uri.rsplit_once('/').unwrap().1),
        _ => None,
    });
    assert_eq!(uris.collect::<Vec<_>>(), ["1", "2", "3"]);

    let arguments = json!({ "resourceType": "Blob", "resourceId": 7 });
    let reference = client.call_tool("get-resource-reference", arguments).await.unwrap();
    let Content::Resource(embedded) = &reference.content[1] else { panic!("{reference:?}") };
    assert_eq!(embedded.resource.uri, "demo://resource/dynamic/blob/7");
    assert!(embedded.resource.bytes().unwrap().starts_with(b"Resource 7: "));
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_long_operation_reports_progress() {
    let client = connect(peer::client()).await;
    let (sender, reports) = mpsc::channel();
    let operation = client
        .call_tool("trigger-long-running-operation", json!({ "duration": 0.2, "steps": 4 }))
        .on_progress(move |report| sender.send(report.progress.as_f64()).unwrap());
    assert!(operation.await.unwrap().text().starts_with("Long running operation completed."));
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0]);
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn its_resources_are_read_and_subscribed_to() {
    let client = connect(peer::client()).await;
    let read = client.read_resource("demo://resource/static/document/features.md").await.unwrap();
    assert_eq!(read.contents[0].mime_type.as_deref(), Some("text/markdown"));
    assert!(read.contents[0].text.as_ref().unwrap().starts_with('#'));
    let read = client.read_resource("demo://resource/dynamic/blob/3").await.unwrap();
    assert!(read.contents[0].blob.is_some());
    assert!(read.contents[0].bytes().unwrap().starts_with(b"Resource 3: This is a base64 blob"));
    let error = client.read_resource("demo://resource/dynamic/text/none").await.unwrap_err();
    assert!(error.error_response().is_some(), "{error}");

    let mut events = client.events();
    let uri = "demo://resource/dynamic/text/1";
    let _subscription = client.subscribe(uri).await.unwrap();
    say(&client, "toggle-subscriber-updates", json!({})).await;
    let updated = events.find(|event| match event {
        Event::ResourceUpdated { uri } => Some(uri),
        _ => None,
    });
    assert_eq!(within("an update", updated).await.unwrap(), uri);
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn its_prompts_are_filled_in_and_completed() {
    let client = connect(peer::client()).await;
    let prompt = client.get_prompt("args-prompt", json!({ "city": "Bonn" })).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("What's weather in Bonn?"));
    let prompt =
        client.get_prompt("resource-prompt", json!({ "resourceType": "Text", "resourceId": "2" })).await.unwrap();
    assert!(matches!(&prompt.messages[1].content, Content::Resource(_)), "{prompt:?}");

    let prompt = Reference::prompt("completable-prompt");
    let departments = client.complete(prompt.clone(), "department", "S").await.unwrap();
    assert_eq!(departments.values, ["Sales", "Support"]);
    let known = BTreeMap::from([("department".to_owned(), "Sales".to_owned())]);
    assert_eq!(client.complete(prompt.clone(), "name", "").await.unwrap().values, [""; 0]);
    let names = client.complete(prompt, "name", "").arguments(known).await.unwrap();
    assert_eq!(names.values, ["David", "Eve", "Frank"]);
    let template = Reference::resource("demo://resource/dynamic/text/{resourceId}");
    assert_eq!(client.complete(template, "resourceId", "12").await.unwrap().values, ["12"]);
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn it_logs_from_the_level_that_was_set() {
    let client = connect(peer::client()).await;
    let mut events = client.events();
    client.set_log_level(LoggingLevel::Error).await.unwrap();
    let _subscription = client.subscribe("demo://resource/dynamic/text/1").await.unwrap();
    client.set_log_level(LoggingLevel::Debug).await.unwrap();
    let _subscription = client.subscribe("demo://resource/dynamic/text/2").await.unwrap();
    say(&client, "toggle-simulated-logging", json!({})).await;
    let mut next = async || {
        let log = events.find(|event| match event {
            Event::Log(message) => Some(message.data.decode::<String>().unwrap()),
            _ => None,
        });
        within("a log message", log).await.unwrap()
    };
    let said = next().await;
    assert!(said.trim_end().ends_with("Subscribe Resource request for URI: demo://resource/dynamic/text/2"), "{said}");
    let said = next().await.to_lowercase();
    assert!(said.contains("level") && said.ends_with("message"), "{said}");
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn it_requests_the_roots_again_when_they_change() {
    let client = connect(peer::answering()).await;
    offers(&client, "get-roots-list").await;
    let roots = say(&client, "get-roots-list", json!({})).await;
    assert!(roots.contains("(1 total)") && roots.contains("1. project\n   URI: file:///srv/project"), "{roots}");

    let mut events = client.events();
    client.roots().unwrap().add(Root::new("file:///srv/other"));
    let told = events.find(|event| match event {
        Event::Log(message) if message.data.as_str().contains("Roots updated: 2 root(s)") => Some(()),
        _ => None,
    });
    within("an update of the roots", told).await.unwrap();
    let roots = say(&client, "get-roots-list", json!({})).await;
    assert!(roots.contains("(2 total)") && roots.contains("URI: file:///srv/other"), "{roots}");
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn it_sends_sampling_requests() {
    let client = connect(peer::answering()).await;
    offers(&client, "trigger-sampling-request").await;
    let said = say(&client, "trigger-sampling-request", json!({ "prompt": "Where?", "maxTokens": 20 })).await;
    assert!(said.contains(r#""model": "parrot""#) && said.contains("context: Where? Paris."), "{said}");
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_form_is_accepted_with_its_defaults_or_declined() {
    let (sender, answers) = mpsc::channel();
    for answer in [
        ElicitResult::accept(json!({ "name": "Ann", "integer": 7 })).unwrap(),
        ElicitResult::decline(),
        ElicitResult::cancel(),
    ] {
        sender.send(answer).unwrap();
    }
    let answers = std::sync::Mutex::new(answers);
    let client =
        connect(peer::client().on_form(move |_, _| std::future::ready(Ok(answers.lock().unwrap().recv().unwrap()))))
            .await;
    offers(&client, "trigger-elicitation-request").await;

    let said = say(&client, "trigger-elicitation-request", json!({})).await;
    for line in ["- Name: Ann\n", "- Favorite Integer: 7\n", "- Favorite Number: 3.14\n", r#""fish-1""#, r#""pet-1""#] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(say(&client, "trigger-elicitation-request", json!({})).await.contains("User declined"));
    assert!(say(&client, "trigger-elicitation-request", json!({})).await.contains("User cancelled"));
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_page_is_opened_before_or_during_a_call() {
    let (sender, opened) = mpsc::channel();
    let client = connect(peer::client().on_elicitation(move |params, _| {
        let ElicitParams::Url(page) = params else { panic!("{params:?}") };
        sender.send(page.url).unwrap();
        std::future::ready(Ok(ElicitResult::accept_url()))
    }))
    .await;
    offers(&client, "trigger-url-elicitation").await;
    let said = say(&client, "trigger-url-elicitation", json!({ "url": "https://example.com/one" })).await;
    assert!(said.contains("User completed the URL elicitation flow."), "{said}");
    assert_eq!(opened.try_recv().unwrap(), "https://example.com/one");

    // This server never sends the completion of a required URL elicitation, so the caller has to repeat the call.
    let arguments = json!({ "url": "https://example.com/two", "errorPath": true });
    let call = client.call_tool("trigger-url-elicitation", &arguments).timeout(Duration::from_secs(3));
    assert_eq!(call.await.unwrap_err().error_response().unwrap().code, ErrorCode::URL_ELICITATION_REQUIRED);
    assert_eq!(opened.try_recv().unwrap(), "https://modelcontextprotocol.io");
    let said = say(&client, "trigger-url-elicitation", arguments).await;
    assert!(said.contains("User completed the URL elicitation flow."), "{said}");
    assert_eq!(opened.try_recv().unwrap(), "https://example.com/two");
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_call_without_its_required_task_is_a_tool_error() {
    let client = connect(peer::client()).await;
    offers(&client, "simulate-research-query").await;
    let tools = client.list_tools().await.unwrap();
    let query = tools.into_iter().find(|tool| tool.name == "simulate-research-query").unwrap();
    assert_eq!(query.execution.unwrap().task_support, Some(TaskSupport::Required));
    let result = client.call_tool("simulate-research-query", json!({ "topic": "tea" })).await.unwrap();
    assert!(result.is_error() && result.text().contains("requires task augmentation"), "{result:?}");
    client.close().await;
}
