//! The client for the official conformance suite. The suite starts it with the URL of a server as the last argument,
//! and the scenario in the environment.

mod auth;
mod skills;
mod tasks;

use std::error::Error;

use serde_json::{Map, Value, json};
use turms::http::HttpConnector;
use turms::types::{CreateMessageResult, ElicitParams, ElicitResult, Field, Object, RawJson, Root};
use turms::{Client, ClientBuilder};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().next_back().ok_or("usage: conformance-client ADDRESS")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let mut connector = HttpConnector::new(&address)?.no_proxy();
    if scenario.starts_with("auth/") {
        connector = connector.authorizer(auth::authorizer(&scenario, &address).await?);
    }
    let client = person().connect(connector).await?;
    let played = play(&scenario, &client).await;
    client.close().await;
    played
}

/// A client with all capabilities. Its handlers accept every elicitation, with the default value of each field.
fn person() -> ClientBuilder {
    Client::builder("turms-conformance", env!("CARGO_PKG_VERSION"))
        .on_elicitation(|params, _| async move { Ok(ElicitResult::accept(defaults(&params))?) })
        .on_sampling(|_, _| async { Ok(CreateMessageResult::assistant("Paris", "no model")) })
        .roots([Root::new("file:///work")])
        .enable_tasks()
}

async fn play(scenario: &str, client: &Client) -> Result<(), Box<dyn Error>> {
    match scenario {
        "tools_call" => {
            client.list_tools().await?;
            client.call_tool("add_numbers", json!({ "a": 5, "b": 3 })).await?;
        }
        "elicitation-sep1034-client-defaults" => {
            client.list_tools().await?;
            client.call_tool("test_client_elicitation_defaults", ()).await?;
        }
        "sse-retry" => {
            client.list_tools().await?;
            client.call_tool("test_reconnection", ()).await?;
        }
        "sep-2322-client-request-state" => {
            client.list_tools().await?;
            for tool in
                ["test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"]
            {
                client.call_tool(tool, ()).await?;
            }
        }
        "http-standard-headers" => use_everything(client).await?,
        "http-custom-headers" => call_what_was_asked(client).await?,
        "http-invalid-tool-headers" => {
            for tool in client.list_tools().await? {
                client.call_tool(&tool.name, json!({ "region": "us-west1" })).await?;
            }
        }
        "json-schema-2020-12-preservation" => {
            let tools = client.list_tools().await?;
            let tool =
                tools.into_iter().find(|tool| tool.name == "json_schema_2020_12_tool").ok_or("the tool is missing")?;
            let mut arguments = Object::new();
            arguments.insert_raw("schema", &RawJson::from(tool.input_schema));
            client.call_tool("json_schema_echo", arguments).await?;
        }
        "tasks-client-lifecycle" => tasks::lifecycle(client).await?,
        "tasks-client-create-handling" => tasks::create(client).await?,
        "sep-2640-client-no-prefetch" => skills::list(client).await?,
        skill if skill.starts_with("sep-2640-client-verify-") => skills::load(client).await?,
        scenario if scenario.starts_with("auth/") => use_tools(client).await?,
        // The other scenarios need only a connection and a request.
        _ => drop(client.list_tools().await?),
    }
    Ok(())
}

/// Lists the tools and calls each of them.
async fn use_tools(client: &Client) -> Result<(), Box<dyn Error>> {
    for tool in client.list_tools().await? {
        client.call_tool(&tool.name, json!({})).await?;
    }
    Ok(())
}

/// Uses all tools, resources and prompts.
async fn use_everything(client: &Client) -> Result<(), Box<dyn Error>> {
    use_tools(client).await?;
    for resource in client.list_resources().await? {
        client.read_resource(&resource.uri).await?;
    }
    for prompt in client.list_prompts().await? {
        client.get_prompt(&prompt.name, ()).await?;
    }
    Ok(())
}

/// Makes the calls that the context of the scenario lists.
async fn call_what_was_asked(client: &Client) -> Result<(), Box<dyn Error>> {
    let context: Value = serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT")?)?;
    client.list_tools().await?;
    for call in context["toolCalls"].as_array().into_iter().flatten() {
        let name = call["name"].as_str().ok_or("a call without a name")?;
        client.call_tool(name, &call["arguments"]).await?;
    }
    Ok(())
}

/// Returns the default values of a form.
fn defaults(question: &ElicitParams) -> Object {
    let ElicitParams::Form(form) = question else { return Object::new() };
    let mut content = Map::new();
    for (name, field) in &form.requested_schema.properties {
        let value = field.default_value().and_then(|value| value.decode().ok());
        content.insert(name.clone(), value.unwrap_or_else(|| something(field)));
    }
    Object::encode(&content).unwrap_or_default()
}

/// Returns a valid value for a field.
fn something(field: &Field) -> Value {
    match serde_json::to_value(field).unwrap_or_default()["type"].as_str() {
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("array") => json!([]),
        _ => json!("test"),
    }
}
