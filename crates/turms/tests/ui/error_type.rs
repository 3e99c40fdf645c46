use turms::prelude::*;

enum Failure {
    Unlucky,
}

#[tool]
fn gamble() -> Result<String, Failure> {
    Err(Failure::Unlucky)
}

fn main() {
    let _ = Server::new("test", "1").tool(gamble);
}
