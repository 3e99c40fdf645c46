//! Prompts of every kind.

use schemars::JsonSchema;
use serde::Deserialize;
use turms::InputError;
use turms::prelude::*;

use crate::PNG;
use crate::input::ask_text;

pub(crate) fn add(server: Server) -> Server {
    server
        .prompt(test_simple_prompt)
        .prompt(with_arguments())
        .prompt(test_prompt_with_embedded_resource)
        .prompt(test_prompt_with_image)
        .prompt(test_input_required_result_prompt)
}

/// Returns one message.
#[prompt]
async fn test_simple_prompt() -> &'static str {
    "This is a simple prompt for testing."
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

fn with_arguments() -> Prompt {
    Prompt::builder("test_prompt_with_arguments")
        .description("Repeats its arguments.")
        .completion("arg1", |completing: CompletionRequest| async move {
            let words =
                ["paris", "park", "party"].into_iter().filter(|word| word.starts_with(completing.value.as_str()));
            words.map(str::to_owned).collect::<Vec<_>>()
        })
        .handler(|Args(Arguments { arg1, arg2 }): Args<Arguments>| async move {
            format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")
        })
}

/// Returns an embedded resource.
#[prompt]
async fn test_prompt_with_embedded_resource(
    /// URI of the resource to embed
    #[serde(rename = "resourceUri")]
    resource_uri: String,
) -> GetPromptResult {
    let contents = ResourceContents::from_text(resource_uri, "Embedded resource content for testing.");
    GetPromptResult::new([])
        .user(Content::resource(contents.mime_type("text/plain".to_owned())))
        .user("Please process the embedded resource above.")
}

/// Returns an image.
#[prompt]
async fn test_prompt_with_image() -> GetPromptResult {
    GetPromptResult::new([]).user(Content::image(PNG, "image/png")).user("Please analyze the image above.")
}

/// Requests input before it returns.
#[prompt]
async fn test_input_required_result_prompt(context: Context) -> Result<String, InputError> {
    let about = ask_text(&context, "user_context", "What context should the prompt use?", "context").await?;
    Ok(format!("The context is: {about}"))
}
