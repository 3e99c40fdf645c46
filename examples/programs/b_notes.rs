//! A server whose tools, resources and prompts are the methods of an object.

use std::collections::BTreeMap;
use tokio::sync::Mutex;

use turms::prelude::*;

#[derive(Default)]
struct Notes(Mutex<BTreeMap<String, String>>);

#[handlers]
impl Notes {
    /// Writes a note.
    #[tool(idempotent)]
    async fn write(&self, name: String, text: String, server: ServerHandle) -> String {
        let uri = format!("note://{name}");
        self.0.lock().await.insert(name, text);
        server.notify_resource_updated(&uri);
        uri
    }

    /// Removes a note.
    #[tool(destructive)]
    async fn remove(&self, name: String) -> Result<String, String> {
        self.0.lock().await.remove(&name).ok_or_else(|| format!("there is no note {name:?}"))
    }

    /// Counts the notes.
    #[tool(read_only)]
    async fn count(&self) -> String {
        self.0.lock().await.len().to_string()
    }

    /// One note.
    #[resource("note://{name}", mime_type = "text/plain")]
    async fn note(&self, #[complete(Self::names)] name: String) -> Option<String> {
        self.0.lock().await.get(&name).cloned()
    }

    /// Asks a model for a summary of a note.
    #[prompt]
    async fn summarize(&self, #[complete(Self::names)] name: String) -> String {
        format!("Summarize the note note://{name} in one sentence.")
    }

    async fn names(&self, request: CompletionRequest) -> Vec<String> {
        let notes = self.0.lock().await;
        notes.keys().filter(|name| name.starts_with(&request.value)).cloned().collect()
    }
}

#[tokio::main]
async fn main() -> turms::Result {
    Server::new("notes", "1.0.0").handlers(Notes::default()).serve_stdio().await
}
