//! Notes: resources that are added, changed and deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use turms::RegistrationError;
use turms::prelude::*;
use turms::types::LoggingLevel;

/// Notes by name. Clones share the notes.
#[derive(Debug, Clone)]
pub(super) struct Notes(Arc<Mutex<BTreeMap<String, String>>>);

impl Default for Notes {
    fn default() -> Self {
        let notes = [("shopping", "bread, olives"), ("travel", "to Rome, by ship")];
        Self(Arc::new(Mutex::new(notes.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect())))
    }
}

impl Notes {
    fn with<T>(&self, access: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        access(&mut self.0.lock())
    }
}

#[handlers]
impl Notes {
    /// Writes a note, or replaces the one of the same name. Subscribers are notified.
    #[tool(idempotent)]
    async fn remember(
        &self,
        /// name of the note
        #[schemars(length(min = 1, max = 40))]
        name: String,
        /// text of the note
        text: String,
        context: Context,
    ) -> String {
        let uri = format!("note://{name}");
        context.server().log(LoggingLevel::Info, format!("{name} was written"));
        self.with(|notes| notes.insert(name, text));
        context.server().notify_resource_updated(uri.as_str());
        format!("written to {uri}")
    }

    /// Deletes a note.
    #[tool(destructive, idempotent)]
    async fn forget(
        &self,
        /// name of the note
        name: String,
    ) -> Result<String, String> {
        match self.with(|notes| notes.remove(&name)) {
            Some(_) => Ok(format!("deleted {name}")),
            None => Err(format!("no note {name:?}")),
        }
    }

    /// Adds the tool `shout`, which changes the list of tools.
    #[tool(idempotent)]
    async fn learn(&self, context: Context) -> Result<&'static str, RegistrationError> {
        context.server().replace_tool(shout)?;
        Ok("Added the tool shout.")
    }

    /// All notes.
    #[resource("demo://notes", mime_type = "application/json")]
    async fn all(&self) -> Json<BTreeMap<String, String>> {
        self.with(|notes| Json(notes.clone()))
    }
}

impl Notes {
    /// Returns the resource template of a note, with completion of the name.
    pub(super) fn template(&self) -> Resource {
        #[derive(Deserialize, JsonSchema)]
        struct NoteArgs {
            /// name of the note
            name: String,
        }
        let (names, notes) = (self.clone(), self.clone());
        Resource::builder("note://{name}")
            .name("note")
            .description("One note.")
            .mime_type("text/plain")
            .completion("name", move |request: CompletionRequest| {
                let names = names.with(|notes| notes.keys().cloned().collect::<Vec<_>>());
                async move { names.into_iter().filter(|name| name.starts_with(&request.value)).collect::<Vec<_>>() }
            })
            .handler(move |Args(NoteArgs { name }): Args<NoteArgs>| {
                let note = notes.with(|notes| notes.get(&name).cloned());
                async move { note }
            })
    }
}

/// Converts text to upper case.
#[tool(read_only)]
fn shout(
    /// the text
    text: String,
) -> String {
    text.to_uppercase()
}
