use turms::prelude::*;

#[tool]
fn distance((x, y): (f64, f64), _: u8) -> f64 {
    x + y
}

fn main() {
    let _ = Server::new("test", "1").tool(distance);
}
