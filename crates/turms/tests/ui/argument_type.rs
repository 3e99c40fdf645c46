use turms::prelude::*;

struct Opaque;

#[tool]
async fn inspect(what: Opaque) -> bool {
    drop(what);
    true
}

fn main() {
    let _ = Server::new("test", "1").tool(inspect);
}
