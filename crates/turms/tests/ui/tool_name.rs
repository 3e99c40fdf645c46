use turms::prelude::*;

#[tool(name = "add numbers")]
fn space() {}

#[tool(name = "")]
fn empty() {}

#[tool]
fn größe() {}

#[tool]
unsafe fn dangerous() {}

fn main() {
    let _ = Server::new("test", "1").tool(space).tool(empty).tool(größe).tool(dangerous);
}
