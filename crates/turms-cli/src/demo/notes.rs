//! Notes: resources that come, change and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use turms::RegistrationError;
use turms::prelude::*;
use turms::types::LoggingLevel;

/// Notes by name. Clones are the same notes.
#[derive(Debug, Clone)]
pub(super) struct Notes(Arc<Mutex<BTreeMap<String, String>>>);

impl Default for Notes {
    fn default() -> Self {
        let notes = [("shopping", "bread, olives"), ("travel", "to Rome, by ship")];
        Self(Arc::new(Mutex::new(notes.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect())))
    }
}

impl Notes {
    fn with<T>(&self, look: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        look(&mut self.0.lock())
    }
}

#[server]
impl Notes {
    /// Writes a note, in the place of one of the same name. Whoever watches it is told.
    #[tool(idempotent)]
    async fn remember(
        &self,
        /// what to call it
        #[schemars(length(min = 1, max = 40))]
        name: String,
        /// what it says
        text: String,
        context: Context,
    ) -> String {
        let uri = format!("note://{name}");
        context.server().log(LoggingLevel::Info, format!("{name} was written"));
        self.with(|notes| notes.insert(name, text));
        context.server().resource_updated(uri.as_str());
        format!("written to {uri}")
    }

    /// Throws a note away.
    #[tool(destructive, idempotent)]
    async fn forget(
        &self,
        /// which
        name: String,
    ) -> Result<String, String> {
        match self.with(|notes| notes.remove(&name)) {
            Some(_) => Ok(format!("{name} is gone")),
            None => Err(format!("there is no note {name:?}")),
        }
    }

    /// Teaches the server a new tool, shout, so that its list of tools changes.
    #[tool(idempotent)]
    async fn learn(&self, context: Context) -> Result<&'static str, RegistrationError> {
        context.server().replace_tool(shout)?;
        Ok("There is a new tool: shout.")
    }

    /// All notes.
    #[resource("demo://notes", mime_type = "application/json")]
    async fn all(&self) -> Json<BTreeMap<String, String>> {
        self.with(|notes| Json(notes.clone()))
    }
}

impl Notes {
    /// One note: a template written by hand, so that names can be completed.
    pub(super) fn template(&self) -> Resource {
        #[derive(Deserialize, JsonSchema)]
        struct Which {
            /// which note
            name: String,
        }
        let (names, notes) = (self.clone(), self.clone());
        Resource::builder("note://{name}")
            .name("note")
            .description("One note.")
            .mime_type("text/plain")
            .completion("name", move |asked: Completing| {
                let names = names.with(|notes| notes.keys().cloned().collect::<Vec<_>>());
                async move { names.into_iter().filter(|name| name.starts_with(&asked.value)).collect::<Vec<_>>() }
            })
            .handler(move |Args(Which { name }): Args<Which>| {
                let note = notes.with(|notes| notes.get(&name).cloned());
                async move { note }
            })
    }
}

/// Says something loudly.
#[tool(read_only)]
fn shout(
    /// what to say
    text: String,
) -> String {
    text.to_uppercase()
}
