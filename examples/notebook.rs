//! A server with most features: tools, resources, a resource template, prompts, completions, elicitation, sampling, progress,
//! subscriptions, and a tool that is added at run time.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turms::prelude::*;
use turms::types::{CreateMessageParams, SamplingMessage};
use turms::{InputError, RegistrationError, ServerHandle};

/// Notes by name.
#[derive(Default)]
struct Notebook {
    notes: Mutex<BTreeMap<String, String>>,
}

impl Notebook {
    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        access(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Size of the notes.
#[derive(Serialize, JsonSchema)]
struct Count {
    notes: usize,
    characters: usize,
}

/// The form that confirms the deletion of all notes.
#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    /// Delete all notes?
    sure: bool,
}

#[handlers]
impl Notebook {
    /// Writes a note, or replaces the one of the same name.
    #[tool(idempotent)]
    async fn write(
        &self,
        /// name of the note
        #[schemars(length(min = 1, max = 40))]
        name: String,
        /// text of the note
        text: String,
        context: Context,
    ) -> String {
        let uri = format!("note://{name}");
        self.with(|notes| notes.insert(name, text));
        context.server().notify_resource_updated(uri.as_str());
        uri
    }

    /// Counts the notes.
    #[tool(read_only)]
    fn count(&self) -> Json<Count> {
        self.with(|notes| Json(Count { notes: notes.len(), characters: notes.values().map(String::len).sum() }))
    }

    /// Deletes all notes after the user confirms it.
    #[tool(destructive)]
    async fn clear(&self, context: Context) -> Result<&'static str, InputError> {
        match context.elicit::<Confirmation>("All notes will be deleted.").await? {
            Elicited::Accepted(Confirmation { sure: true }) => {
                self.with(BTreeMap::clear);
                Ok("All notes were deleted.")
            }
            _ => Ok("Nothing was changed."),
        }
    }

    /// Summarizes the notes with the client's model.
    #[tool(read_only)]
    async fn summarize(&self, context: Context, progress: Progress) -> Result<String, InputError> {
        let notes = self.with(|notes| notes.values().cloned().collect::<Vec<_>>().join("\n"));
        progress.say(1, Some(2.0), "asking the model").await;
        let message = SamplingMessage::user(format!("Summarize these notes in one sentence:\n{notes}"));
        let response = context.sample(CreateMessageParams::new([message], 200)).await?;
        progress.say(2, Some(2.0), "done").await;
        Ok(response.content.as_slice().iter().filter_map(Content::as_text).collect())
    }

    /// Adds the tool `shout`.
    #[tool]
    async fn add_shout(&self, server: ServerHandle) -> Result<&'static str, RegistrationError> {
        server.replace_tool(shout)?;
        Ok("Added the tool shout.")
    }

    /// Names of all notes.
    #[resource("notebook://index", mime_type = "application/json")]
    async fn index(&self) -> Json<Vec<String>> {
        self.with(|notes| Json(notes.keys().cloned().collect()))
    }

    /// One note.
    #[resource("note://{name}", mime_type = "text/plain")]
    async fn note(&self, name: String) -> Option<String> {
        self.with(|notes| notes.get(&name).cloned())
    }

    /// Asks the model to improve a note.
    #[prompt]
    async fn improve(
        &self,
        /// name of the note
        name: String,
        /// tone of the text
        tone: Option<String>,
    ) -> GetPromptResult {
        let text = self.with(|notes| notes.get(&name).cloned()).unwrap_or_default();
        let tone = tone.unwrap_or_else(|| "plain".to_owned());
        GetPromptResult::new([]).system(format!("Write in a {tone} tone.")).user(format!("Improve this note:\n{text}"))
    }
}

/// Converts text to upper case.
#[tool(read_only)]
fn shout(text: String) -> String {
    text.to_uppercase()
}

/// A prompt built without a macro, with completions.
fn greeting() -> Prompt {
    #[derive(Deserialize, JsonSchema)]
    struct Greeting {
        /// the language of the greeting
        language: String,
    }
    Prompt::builder("greeting")
        .description("Asks for a greeting.")
        .completion("language", |completing: CompletionRequest| async move {
            let languages = ["English", "Etruscan", "Greek", "Latin"];
            languages.into_iter().filter(|language| language.starts_with(&completing.value)).collect::<Vec<_>>()
        })
        .handler(|Args(greeting): Args<Greeting>| async move { format!("Greet me in {}.", greeting.language) })
}

#[tokio::main]
async fn main() -> turms::Result<()> {
    Server::new("notebook", "1.0.0")
        .title("Notebook")
        .instructions("Write notes, read them at note://NAME, and ask for a summary.")
        .handlers(Notebook::default())
        .prompt(greeting)
        .serve_stdio()
        .await
}
