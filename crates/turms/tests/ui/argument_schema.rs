use serde::Deserialize;
use turms::prelude::*;

#[derive(Deserialize)]
struct NoSchema {
    name: String,
}

#[derive(schemars::JsonSchema)]
struct NoDeserialize {
    name: String,
}

#[tool]
async fn search(_limit: u8, query: NoSchema, _context: Context) -> String {
    query.name
}

#[prompt]
fn several(_first: Option<NoDeserialize>, _second: Vec<NoSchema>) -> String {
    String::new()
}

#[tool]
async fn whole(_context: Context, Args(query): Args<NoSchema>) -> String {
    query.name
}

fn main() {
    let by_hand = Tool::builder("by_hand").handler(|Args(query): Args<NoSchema>| async move { query.name });
    let _ = Server::new("test", "1").tool(search).prompt(several).tool(whole).tool(by_hand);
}
