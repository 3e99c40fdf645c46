use std::rc::Rc;

use turms::prelude::*;

#[tool]
async fn wait(name: String) -> String {
    let name = Rc::new(name);
    std::future::ready(()).await;
    name.to_string()
}

fn main() {
    let _ = Server::new("test", "1").tool(wait);
}
