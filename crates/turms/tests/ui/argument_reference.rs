use turms::prelude::*;

#[tool]
fn greet(name: &str, context: &Context) -> String {
    format!("Hello, {name}!")
}

#[tool]
fn show(value: impl std::fmt::Display) -> String {
    value.to_string()
}

#[tool]
fn borrow<'a>(value: std::borrow::Cow<'a, str>) -> String {
    value.into_owned()
}

fn main() {
    let _ = Server::new("test", "1").tool(greet).tool(show).tool(borrow);
}
