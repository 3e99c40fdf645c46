use turms::prelude::*;

#[tool]
struct Add;

#[handlers]
fn add() {}

fn main() {}
