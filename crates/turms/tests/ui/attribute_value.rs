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

fn main() {}
