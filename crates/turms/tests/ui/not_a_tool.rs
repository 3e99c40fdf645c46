use turms::prelude::*;

fn add(a: f64, b: f64) -> f64 {
    a + b
}

async fn now() -> String {
    String::new()
}

struct Api;

fn main() {
    let _ = Server::new("test", "1").tool(add);
    let _ = Server::new("test", "1").tool(now);
    let _ = Server::new("test", "1").prompt(add);
    let _ = Server::new("test", "1").resource(now);
    let _ = Server::new("test", "1").handlers(Api);
}
