use turms::prelude::*;

struct Api;

#[handlers]
impl Api {
    #[tool]
    fn show<T: std::fmt::Display>(&self, value: T) -> String {
        value.to_string()
    }

    #[tool]
    fn compare(&self, _other: Self) {}
}

fn main() {
    let _ = Server::new("test", "1").handlers(Api);
}
