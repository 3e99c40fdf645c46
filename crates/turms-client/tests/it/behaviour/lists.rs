//! Lists: complete, page by page, and as streams.

use turms_client::{CallErrorKind, ClosedCause};
use turms_proto::types::Cursor;
use turms_proto::{Ability, ErrorCode};

use crate::behaviour::reach::{Reached, everywhere};

const RESOURCES: [&str; 5] = ["config://app", "data://blob", "reads://kept", "reads://fresh", "asked://name"];
const TEMPLATES: [&str; 4] = ["users://{id}/profile", "notes://{id}", "files://{name}", "days://{day}"];
const PROMPTS: [&str; 4] = ["greeting", "conversation", "personal", "plain"];

/// Returns the number of pages; the fixture has three items per page.
fn pages(items: usize) -> i64 {
    items.div_ceil(3).try_into().unwrap()
}

async fn tool_names(client: &Reached) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn all_pages_of_a_list_are_read() {
    everywhere(async |client| {
        let tools = tool_names(&client).await;
        assert_eq!(tools[..4], ["add", "sum", "list", "rate"]);
        assert!(tools.len() > 20);
        assert_eq!(client.count("tools/list").await, pages(tools.len()));
        let resources = client.list_resources().await.unwrap();
        assert_eq!(resources.iter().map(|resource| resource.uri.as_str()).collect::<Vec<_>>(), RESOURCES);
        assert_eq!(client.count("resources/list").await, 2);
        let templates = client.list_resource_templates().await.unwrap();
        assert_eq!(templates.iter().map(|family| family.uri_template.as_str()).collect::<Vec<_>>(), TEMPLATES);
        assert_eq!(client.count("resources/templates/list").await, 2);
        let prompts = client.list_prompts().await.unwrap();
        assert_eq!(prompts.iter().map(|prompt| prompt.name.as_str()).collect::<Vec<_>>(), PROMPTS);
        assert_eq!(client.count("prompts/list").await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_page_has_the_cursor_of_the_next() {
    everywhere(async |client| {
        let first = client.list_tools_page(None).await.unwrap();
        let second = client.list_tools_page(first.next_cursor).await.unwrap();
        let names = first.tools.iter().chain(&second.tools).map(|tool| tool.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names, ["add", "sum", "list", "rate", "fail", "refuse"]);

        let first = client.list_resources_page(None).await.unwrap();
        let second = client.list_resources_page(first.next_cursor).await.unwrap();
        assert_eq!((first.resources.len(), second.resources.len(), second.next_cursor), (3, 2, None));

        let first = client.list_resource_templates_page(None).await.unwrap();
        let second = client.list_resource_templates_page(first.next_cursor).await.unwrap();
        let sizes = (first.resource_templates.len(), second.resource_templates.len());
        assert_eq!((sizes, second.next_cursor), ((3, 1), None));

        let first = client.list_prompts_page(None).await.unwrap();
        let second = client.list_prompts_page(first.next_cursor).await.unwrap();
        assert_eq!((first.prompts.len(), second.prompts.len(), second.next_cursor), (3, 1, None));
    })
    .await;
}

#[tokio::test]
async fn a_stream_reads_a_page_only_when_it_is_wanted() {
    everywhere(async |client| {
        let mut tools = client.stream_tools();
        for name in ["add", "sum", "list"] {
            assert_eq!(tools.next().await.unwrap().unwrap().name, name);
        }
        assert_eq!(client.count("tools/list").await, 1);
        let mut rest = Vec::new();
        while let Some(tool) = tools.next().await {
            rest.push(tool.unwrap().name);
        }
        assert_eq!(rest, tool_names(&client).await[3..]);
        assert!(tools.next().await.is_none());
    })
    .await;
}

#[tokio::test]
async fn every_list_can_be_streamed() {
    everywhere(async |client| {
        let (mut resources, mut uris) = (client.stream_resources(), Vec::new());
        while let Some(resource) = resources.next().await {
            uris.push(resource.unwrap().uri);
        }
        assert_eq!(uris, RESOURCES);
        let (mut templates, mut uris) = (client.stream_resource_templates(), Vec::new());
        while let Some(template) = templates.next().await {
            uris.push(template.unwrap().uri_template);
        }
        assert_eq!(uris, TEMPLATES);
        let (mut prompts, mut names) = (client.stream_prompts(), Vec::new());
        while let Some(prompt) = prompts.next().await {
            names.push(prompt.unwrap().name);
        }
        assert_eq!(names, PROMPTS);
    })
    .await;
}

#[tokio::test]
async fn an_unknown_cursor_is_refused() {
    everywhere(async |client| {
        let error = client.list_tools_page(Cursor::from("nowhere")).await.unwrap_err();
        assert_eq!(error.error_response().unwrap().code, ErrorCode::INVALID_PARAMS);
        assert_eq!(error.target(), "tools/list");
    })
    .await;
}

#[tokio::test]
async fn tools_are_listed_in_the_format_of_the_revision() {
    everywhere(async |client| {
        let page = client.list_tools_page(None).await.unwrap();
        let version = client.version;
        assert_eq!(page.tools[0].annotations.is_some(), version.has(Ability::ToolAnnotations));
        assert_eq!(page.tools[1].output_schema.is_some(), version.has(Ability::StructuredOutput));
        assert_eq!(page.tools[2].output_schema.is_some(), version.has(Ability::AnyStructuredOutput));
        let schema: serde_json::Value = page.tools[0].input_schema.decode().unwrap();
        assert_eq!(schema["properties"]["a"]["description"], "the first number");
        assert_eq!(schema["required"], serde_json::json!(["a", "b"]));
        // Revisions without caching have no time to live, which means 0.
        assert_eq!(page.ttl_ms, Some(if version.has(Ability::Caching) { 60_000 } else { 0 }));
    })
    .await;
}

#[tokio::test]
async fn a_list_of_a_closed_client_fails_once_and_then_ends() {
    everywhere(async |client| {
        let mut tools = client.stream_tools();
        client.close().await;
        let error = tools.next().await.unwrap().unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Closed(ClosedCause::NotConnected(_))), "{error}");
        assert!(tools.next().await.is_none());
    })
    .await;
}
