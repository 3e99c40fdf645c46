use turms::prelude::*;

#[tool]
fn add(Args(a): Args<Vec<u8>>, b: u8) {}

#[tool]
fn twice(Args(a): Args<Vec<u8>>, Args(b): Args<Vec<u8>>) {}

fn main() {}
