use turms::prelude::*;

struct Notes;

#[handlers]
impl Notes {
    #[resource("note://{name}")]
    fn note(&self, #[complete(names)] name: String) -> String {
        name
    }

    #[prompt]
    fn summarize(&self, #[complete(Notes::names)] name: String) -> String {
        name
    }

    async fn names(&self, request: CompletionRequest) -> Vec<String> {
        vec![request.value]
    }
}

fn languages(request: CompletionRequest) -> Vec<String> {
    vec![request.value]
}

#[prompt]
fn write(#[complete(languages)] language: String) -> String {
    language
}

fn main() {
    let _ = Server::new("test", "1").handlers(Notes).prompt(write);
}
