use turms::prelude::*;

#[tool]
struct Add;

#[server]
fn add() {}

fn main() {}
