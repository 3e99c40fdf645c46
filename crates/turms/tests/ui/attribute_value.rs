use turms::prelude::*;

const TITLE: &str = "Title";

#[tool(title = TITLE)]
fn not_written_out() {}

#[tool(title)]
fn no_text() {}

#[tool(read_only = true)]
fn no_value_wanted() {}

#[tool(destructive = "no")]
fn not_a_choice() {}

#[resource]
fn no_uri() -> String {
    String::new()
}

#[resource(name = "settings")]
fn not_a_uri() -> String {
    String::new()
}

#[tool(task = "later")]
fn no_mode() {}

#[tool(blocking)]
async fn blocks() {}

#[resource("a://b", cache = 60)]
fn no_scope() -> String {
    String::new()
}

#[tool(icon)]
fn no_icon() {}

#[tool(scopes = "notes:read notes:write")]
fn no_list() {}

#[prompt(scopes)]
fn no_scopes() -> String {
    String::new()
}

#[tool(layer)]
fn no_layer() {}

#[tool(crate = 1)]
fn no_path() {}

async fn values(_: CompletionRequest) -> Vec<String> {
    Vec::new()
}

#[tool]
fn completed(#[complete(values)] _a: String) {}

#[prompt]
fn no_function(#[complete("values")] a: String) -> String {
    a
}

fn main() {}
