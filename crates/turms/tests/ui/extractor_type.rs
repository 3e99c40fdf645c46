use turms::prelude::*;

struct Opaque;

#[tool]
async fn inspect(name: String, #[extract] opaque: Opaque) -> String {
    drop(opaque);
    name
}

fn main() {
    let _ = Server::new("test", "1").tool(inspect);
}
