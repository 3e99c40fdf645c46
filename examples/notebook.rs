//! A server with some of everything: tools, resources, a template, prompts, completions, questions to the person and the
//! model, progress, subscriptions, and tools that come and go while it runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turms::prelude::*;
use turms::types::{CreateMessageParams, SamplingMessage};
use turms::{AskError, Call, FromCall, RegistrationError, Rejection, ServerHandle};

/// Notes by name.
#[derive(Default)]
struct Notebook {
    notes: Mutex<BTreeMap<String, String>>,
}

impl Notebook {
    fn with<T>(&self, look: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        look(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// How long the notes are.
#[derive(Serialize, JsonSchema)]
struct Count {
    notes: usize,
    characters: usize,
}

/// What a person has to say before everything is thrown away.
#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    /// Really throw all notes away?
    sure: bool,
}

#[server]
impl Notebook {
    /// Writes a note, in the place of one of the same name.
    #[tool(idempotent)]
    async fn write(
        &self,
        /// what to call it
        #[schemars(length(min = 1, max = 40))]
        name: String,
        /// what it says
        text: String,
        context: Context,
    ) -> String {
        let uri = format!("note://{name}");
        self.with(|notes| notes.insert(name, text));
        context.server().resource_updated(uri.as_str());
        uri
    }

    /// Counts the notes.
    #[tool(read_only)]
    fn count(&self) -> Json<Count> {
        self.with(|notes| Json(Count { notes: notes.len(), characters: notes.values().map(String::len).sum() }))
    }

    /// Throws all notes away, if the person agrees.
    #[tool(destructive)]
    async fn clear(&self, context: Context) -> Result<&'static str, AskError> {
        match context.elicit::<Confirmation>("All notes will be lost.").await? {
            Elicited::Accepted(Confirmation { sure: true }) => {
                self.with(BTreeMap::clear);
                Ok("All notes are gone.")
            }
            _ => Ok("Nothing was changed."),
        }
    }

    /// Has the client's model sum the notes up.
    #[tool(read_only)]
    async fn summarize(&self, context: Context, progress: Progress) -> Result<String, AskError> {
        let notes = self.with(|notes| notes.values().cloned().collect::<Vec<_>>().join("\n"));
        progress.say(1, Some(2.0), "asking the model").await;
        let question = SamplingMessage::user(format!("Sum these notes up in one sentence:\n{notes}"));
        let answer = context.sample(CreateMessageParams::new([question], 200)).await?;
        progress.say(2, Some(2.0), "done").await;
        Ok(answer.content.as_slice().iter().filter_map(Content::as_text).collect())
    }

    /// Lets notes be shouted from now on: a tool that was not there before.
    #[tool]
    async fn learn_to_shout(&self, #[extract] server: Running) -> Result<&'static str, RegistrationError> {
        server.0.replace_tool(shout)?;
        Ok("There is a new tool: shout.")
    }

    /// All names.
    #[resource("notebook://index", mime_type = "application/json")]
    async fn index(&self) -> Json<Vec<String>> {
        self.with(|notes| Json(notes.keys().cloned().collect()))
    }

    /// One note.
    #[resource("note://{name}", mime_type = "text/plain")]
    async fn note(&self, name: String) -> Option<String> {
        self.with(|notes| notes.get(&name).cloned())
    }

    /// Asks for a note to be made better.
    #[prompt]
    async fn improve(
        &self,
        /// which note
        name: String,
        /// in which tone
        tone: Option<String>,
    ) -> PromptResult {
        let text = self.with(|notes| notes.get(&name).cloned()).unwrap_or_default();
        let tone = tone.unwrap_or_else(|| "plain".to_owned());
        PromptResult::new([]).system(format!("Write in a {tone} tone.")).user(format!("Improve this note:\n{text}"))
    }
}

/// Says something loudly.
#[tool(read_only)]
fn shout(text: String) -> String {
    text.to_uppercase()
}

/// The server itself, as a handler may take it: an extractor of one's own.
struct Running(ServerHandle);

impl FromCall for Running {
    fn from_call(call: &mut Call) -> Result<Self, Rejection> {
        Ok(Self(call.context().server().clone()))
    }
}

/// A prompt written by hand, with completions.
fn greeting() -> Prompt {
    #[derive(Deserialize, JsonSchema)]
    struct Greeting {
        /// the language of the greeting
        language: String,
    }
    Prompt::builder("greeting")
        .description("Asks for a greeting.")
        .completion("language", |completing: Completing| async move {
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
        .service(Notebook::default())
        .prompt(greeting)
        .serve_stdio()
        .await
}
