//! Tools that use elicitation and sampling, in every revision.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use turms::InputError;
use turms::prelude::*;
use turms::types::{CreateMessageParams, CreateMessageResult, ElicitParams, ElicitResult, FormSchema, SamplingMessage};

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(test_sampling)
        .tool(test_elicitation)
        .tool(test_elicitation_sep1034_defaults)
        .tool(test_elicitation_sep1330_enums)
        .tool(test_missing_capability)
        .tool(test_streaming_elicitation)
}

/// Sends a sampling request.
#[tool]
async fn test_sampling(
    /// the prompt for the model
    prompt: String,
    context: Context,
) -> Result<String, InputError> {
    let answer = context.sample(question(prompt, 100)).await?;
    Ok(format!("LLM response: {}", text_of(&answer)))
}

#[derive(Deserialize, JsonSchema, Debug)]
struct User {
    /// User's response
    username: String,
    /// User's email address
    email: String,
}

/// Requests a name and an email address.
#[tool]
async fn test_elicitation(
    /// the message of the form
    message: String,
    context: Context,
) -> Result<String, InputError> {
    Ok(match context.elicit::<User>(message).await? {
        Elicited::Accepted(user) => format!("User response: {} <{}>", user.username, user.email),
        _ => "User response: none".to_owned(),
    })
}

/// Sends a form whose fields have defaults.
#[tool]
async fn test_elicitation_sep1034_defaults(context: Context) -> Result<String, InputError> {
    let form = form(json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "User name", "default": "John Doe"},
            "age": {"type": "integer", "description": "User age", "default": 30},
            "score": {"type": "number", "description": "User score", "default": 95.5},
            "status": {
                "type": "string", "description": "User status", "enum": ["active", "inactive", "pending"], "default": "active"
            },
            "verified": {"type": "boolean", "description": "Verification status", "default": true}
        },
        "required": []
    }));
    completed(
        context.elicit_with(ElicitParams::form("Please review and update the form fields with defaults", form)).await,
    )
}

/// Sends a form with every kind of choice.
#[tool]
async fn test_elicitation_sep1330_enums(context: Context) -> Result<String, InputError> {
    let titled = json!([
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"}
    ]);
    let form = form(json!({
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}}
        },
        "required": []
    }));
    completed(context.elicit_with(ElicitParams::form("Please select options from the enum fields", form)).await)
}

/// Requires a client with sampling.
#[tool]
async fn test_missing_capability(context: Context) -> Result<String, InputError> {
    Ok(text_of(&context.sample(question("Hello?", 10)).await?))
}

/// Reports progress, then requests input.
#[tool]
async fn test_streaming_elicitation(context: Context, progress: Progress) -> Result<String, InputError> {
    progress.report(1).await;
    let form = FormSchema::new().required_field("name", turms::types::StringField::new());
    completed(context.elicit_with(ElicitParams::form("What is your name?", form)).await)
}

pub(crate) fn question(text: impl Into<String>, max_tokens: u32) -> CreateMessageParams {
    CreateMessageParams::new([SamplingMessage::user(text.into())], max_tokens)
}

pub(crate) fn text_of(answer: &CreateMessageResult) -> String {
    answer.content.as_slice().iter().filter_map(Content::as_text).collect()
}

/// Parses a form schema.
fn form(schema: Value) -> FormSchema {
    serde_json::from_value(schema).unwrap_or_else(|_| FormSchema::new())
}

fn completed(answer: Result<ElicitResult, InputError>) -> Result<String, InputError> {
    let answer = answer?;
    let content = answer.content.map(|content| content.as_str().to_owned()).unwrap_or_default();
    Ok(format!("Elicitation completed: action={:?}, content={content}", answer.action))
}
