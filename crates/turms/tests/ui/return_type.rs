use turms::prelude::*;

struct Opaque;

#[tool]
async fn make(name: String) -> Opaque {
    drop(name);
    Opaque
}

#[prompt]
fn number() -> u8 {
    1
}

#[resource("number://one")]
fn one() -> u8 {
    1
}

fn main() {
    let _ = Server::new("test", "1").tool(make).prompt(number).resource(one);
}
