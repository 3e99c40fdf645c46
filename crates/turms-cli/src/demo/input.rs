//! Tools that send input requests to the client: elicitation, sampling and roots.

use schemars::JsonSchema;
use serde::Deserialize;
use turms::InputError;
use turms::prelude::*;
use turms::types::{CreateMessageParams, ElicitAction, SamplingMessage};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Plan {
    Free,
    Team,
}

/// The form of `sign_up`.
#[derive(Debug, Deserialize, JsonSchema)]
struct SignUp {
    /// your name
    name: String,
    /// your age
    #[schemars(range(min = 0, max = 150))]
    age: Option<u32>,
    /// your plan
    plan: Plan,
    /// do you want news?
    news: bool,
}

/// Asks the user to fill in a form.
#[tool]
pub(super) async fn sign_up(context: Context) -> Result<String, InputError> {
    Ok(match context.elicit::<SignUp>("Please sign up.").await? {
        Elicited::Accepted(SignUp { name, age, plan, news }) => {
            let age = age.map_or_else(|| "of unknown age".to_owned(), |age| format!("aged {age}"));
            let news = if news { "with" } else { "without" };
            format!("Welcome, {name}, {age}, on the plan {plan:?}, {news} news.")
        }
        Elicited::Declined => "You declined.".to_owned(),
        Elicited::Cancelled => "You cancelled.".to_owned(),
    })
}

/// Asks the user to open a URL.
#[tool]
pub(super) async fn visit(context: Context) -> Result<&'static str, InputError> {
    let action =
        context.elicit_url("Please read the specification.", "https://modelcontextprotocol.io/specification").await?;
    Ok(match action {
        ElicitAction::Accept => "You opened the page.",
        ElicitAction::Decline => "You declined.",
        _ => "You cancelled.",
    })
}

/// Asks the client's model a question.
#[tool(read_only)]
pub(super) async fn ask_model(
    /// the question
    question: String,
    context: Context,
) -> Result<String, InputError> {
    let question = CreateMessageParams::new([SamplingMessage::user(question)], 200).system_prompt("Answer briefly.");
    let response = context.sample(question).await?;
    let text: String = response.content.as_slice().iter().filter_map(Content::as_text).collect();
    Ok(format!("{} says: {text}", response.model))
}

/// Lists the client's roots.
#[tool(read_only)]
pub(super) async fn show_roots(context: Context) -> Result<String, InputError> {
    let roots: Vec<String> = context.list_roots().await?.into_iter().map(|root| root.uri).collect();
    Ok(if roots.is_empty() { "none".to_owned() } else { roots.join("\n") })
}
