use turms::prelude::*;

#[resource("users://{id}/{?fields}")]
fn user(name: String) -> String {
    name
}

#[resource("config://app")]
fn config(id: u32) -> String {
    id.to_string()
}

#[resource("users://{id")]
fn unclosed(id: u32) -> String {
    id.to_string()
}

#[resource("users://{id}/{id}")]
fn repeated(id: u32) -> String {
    id.to_string()
}

fn main() {}
