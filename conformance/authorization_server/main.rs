//! The authorization server for the official conformance suite: the development server of `turms::oauth`.
//!
//! It prints its issuer and exits when its input ends. It approves each request for the client `conformance`.

use std::error::Error;

use turms::oauth::dev::{DevClient, DevServer};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the process that starts it reads the issuer here")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = DevServer::builder()
        .user("alice")
        .auto_approve("alice")
        .client(DevClient::public("conformance").redirect_uri("http://127.0.0.1/callback"))
        .bind("127.0.0.1:0")
        .await?;
    println!("{}", server.issuer());
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    Ok(())
}
