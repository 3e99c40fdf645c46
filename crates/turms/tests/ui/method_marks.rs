use turms::prelude::*;

struct Api;

#[handlers]
impl Api {
    #[tool]
    #[prompt]
    fn both(&self) -> String {
        String::new()
    }

    #[tool(readonly)]
    fn unknown_key(&self, #[header("A")] _a: u8) {}

    #[resource]
    fn no_uri(&self) -> String {
        String::new()
    }
}

fn main() {
    let _ = Server::new("test", "1").handlers(Api);
}
