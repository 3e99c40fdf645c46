//! Authorization with the software of others: the authorization server `oidc-provider`, and the official SDKs. They run as real
//! processes; `cargo xtask peers` installs them.
#![cfg(unix)]

mod browser;
mod grants;
mod guarded_server;
mod guards;
mod provider;
mod renewal;
mod sdks;

use turms_client::{Client, ClientBuilder, ConnectError, VersionCache};
use turms_http::{Authorizer, HttpConnector};
use turms_testkit::{TIMEOUT, within};

fn builder() -> ClientBuilder {
    Client::builder("agent", "1.0.0").version_cache(VersionCache::new()).handshake_timeout(TIMEOUT).timeout(TIMEOUT)
}

async fn try_connect(url: &str, authorizer: impl Authorizer) -> Result<Client, ConnectError> {
    let connector = HttpConnector::new(url).unwrap().authorizer(authorizer);
    within("a connection", builder().connect(connector)).await
}

async fn connect(url: &str, authorizer: impl Authorizer) -> Client {
    try_connect(url, authorizer).await.unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// Calls a tool without arguments, and returns its text.
async fn call(client: &Client, tool: &'static str) -> String {
    let called = within(tool, client.call_tool(tool, ()).into_future()).await;
    called.unwrap_or_else(|error| panic!("{tool}: {}", chain(&error))).text()
}

/// Returns the messages of an error and of its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
