//! Tools that end a round with input requests in 2026-07-28, under keys that the suite expects.

use turms::InputError;
use turms::prelude::*;
use turms::types::{BooleanField, ElicitParams, ElicitResult, FormSchema, StringField};

use crate::question::{question, text_of};

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(test_input_required_result_elicitation)
        .tool(test_input_required_result_sampling)
        .tool(test_input_required_result_list_roots)
        .tool(test_input_required_result_request_state)
        .tool(test_input_required_result_multiple_inputs)
        .tool(test_input_required_result_multi_round)
        .tool(test_input_required_result_tampered_state)
        .tool(test_input_required_result_capabilities)
}

/// Requests a name.
#[tool]
async fn test_input_required_result_elicitation(context: Context) -> Result<String, InputError> {
    let name = ask_text(&context, "user_name", "What is your name?", "name").await?;
    Ok(format!("Hello, {name}!"))
}

/// Sends a sampling request.
#[tool]
async fn test_input_required_result_sampling(context: Context) -> Result<String, InputError> {
    let answer = context.sample(question("What is the capital of France?", 100)).key("capital_question").await?;
    Ok(text_of(&answer))
}

/// Requests the roots.
#[tool]
async fn test_input_required_result_list_roots(context: Context) -> Result<String, InputError> {
    let roots = context.list_roots().key("client_roots").await?;
    Ok(roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(", "))
}

/// Keeps state between the rounds.
#[tool]
async fn test_input_required_result_request_state(context: Context) -> Result<String, InputError> {
    let state: String = context.once("state", async { "state-ok".to_owned() }).await?;
    confirm(&context, "confirm").await?;
    Ok(state)
}

/// Sends three input requests at once.
#[tool]
async fn test_input_required_result_multiple_inputs(context: Context) -> Result<String, InputError> {
    let (name, greeting, roots) = tokio::join!(
        ask_text(&context, "user_name", "What is your name?", "name"),
        context.sample(question("Generate a greeting", 50)).key("greeting"),
        context.list_roots().key("client_roots"),
    );
    Ok(format!("{} {} {}", text_of(&greeting?), name?, roots?.len()))
}

/// Sends two input requests, one after the other.
#[tool]
async fn test_input_required_result_multi_round(context: Context) -> Result<String, InputError> {
    let name = ask_text(&context, "step1", "What is your name?", "name").await?;
    let color = ask_text(&context, "step2", "What is your favorite color?", "color").await?;
    Ok(format!("{name} likes {color}"))
}

/// Sends an input request with a protected state.
#[tool]
async fn test_input_required_result_tampered_state(context: Context) -> Result<&'static str, InputError> {
    confirm(&context, "confirm").await?;
    Ok("confirmed")
}

/// Sends an input request that the client supports.
#[tool]
async fn test_input_required_result_capabilities(context: Context) -> Result<String, InputError> {
    let client = context.client_capabilities();
    if client.sampling.is_some() {
        return Ok(text_of(&context.sample(question("What is the capital of France?", 100)).key("question").await?));
    }
    if client.elicitation.is_some() {
        return ask_text(&context, "user_name", "What is your name?", "name").await;
    }
    Ok("the client supports no input requests".to_owned())
}

/// Requests one line of text; returns an empty string without a value.
pub(crate) async fn ask_text(context: &Context, key: &str, message: &str, field: &str) -> Result<String, InputError> {
    let form = FormSchema::new().required_field(field, StringField::new());
    let answer = context.elicit_with(ElicitParams::form(message, form)).key(key).await?;
    let text = answer.content.and_then(|content| content.get(field)?.decode().ok());
    Ok(text.unwrap_or_default())
}

pub(crate) async fn confirm(context: &Context, key: &str) -> Result<ElicitResult, InputError> {
    let form = FormSchema::new().required_field("ok", BooleanField::new());
    context.elicit_with(ElicitParams::form("Please confirm", form)).key(key).await
}
