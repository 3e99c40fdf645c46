//! A client that logs in: `cargo run -p turms-examples --bin login [URL]`, with the server of `guarded.rs` or another.
#![expect(clippy::print_stdout, reason = "the example prints its results")]

use serde_json::json;
use turms::http::HttpConnector;
use turms::oauth::OAuth;
use turms::prelude::*;

#[tokio::main]
async fn main() -> turms::Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8080/mcp".to_owned());
    // Tokens are kept in memory. `.store(FileStore::open()?)` keeps them for the next run.
    let auth = OAuth::new("login example");
    let connector = HttpConnector::new(&url)?.authorizer(auth.clone());

    // Opens the browser, and waits for the login.
    let client = Client::builder("login", "1.0.0").connect(connector).await?;
    println!("{}", client.call_tool("read", json!({})).await?.text());
    // Needs another scope: the client logs in once more for it.
    println!("{}", client.call_tool("write", json!({ "text": "milk" })).await?.text());

    if let Some(login) = auth.status(&url).await? {
        println!("logged in at {} with the scopes {}", login.issuer, login.scopes.join(" "));
    }
    auth.logout(&url).await?;
    client.close().await;
    Ok(())
}
