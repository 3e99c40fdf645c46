use turms::prelude::*;

struct Api;

#[handlers]
impl Api {
    #[tool]
    fn by_value(self) {}

    #[tool]
    fn exclusive(&mut self) {}

    #[tool]
    fn boxed(self: Box<Self>) {}
}

fn main() {
    let _ = Server::new("test", "1").handlers(Api);
}
