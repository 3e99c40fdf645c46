use turms::prelude::*;

#[tool(readonly)]
fn unknown_key() {}

#[tool(title = "One", title = "Two")]
fn given_twice() {}

#[prompt(read_only)]
fn key_of_a_tool() -> String {
    String::new()
}

#[resource("config://app", uri = "config://app")]
fn unknown_key_of_a_resource() -> String {
    String::new()
}

#[tool(cache = ())]
fn key_of_a_resource() {}

struct Api;

#[handlers(title = "Api")]
impl Api {
    #[tool]
    fn a(&self) {}
}

fn main() {}
