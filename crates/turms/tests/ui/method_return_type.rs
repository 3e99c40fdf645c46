use turms::prelude::*;

struct Opaque;

struct Api;

#[handlers]
impl Api {
    #[tool]
    async fn make(&self, name: String) -> Opaque {
        drop(name);
        Opaque
    }

    #[tool]
    fn take(&self, #[extract] opaque: Opaque) {
        drop(opaque);
    }
}

fn main() {
    let _ = Server::new("test", "1").handlers(Api);
}
