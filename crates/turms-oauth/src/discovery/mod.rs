//! Discovery of the authorization server of an MCP server.

mod resource;
mod server;

use url::Url;

pub use self::resource::discover_resource;
pub use self::server::discover_server;

use crate::error::OAuthError;
use crate::fetch::Fetcher;
use crate::metadata::{AuthorizationServerMetadata, ProtectedResourceMetadata};

/// The result of [`discover`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Discovery {
    /// Metadata of the MCP server. `None` for servers of 2025-03-26.
    pub resource: Option<ProtectedResourceMetadata>,
    /// Metadata of its authorization server.
    pub server: AuthorizationServerMetadata,
    /// `true` if the MCP server has no metadata, so that the rules of 2025-03-26 apply: its origin is the authorization server.
    pub is_legacy: bool,
    /// `false` if the authorization server has no metadata, so that the default endpoints of 2025-03-26 are used.
    pub has_metadata: bool,
}

impl Discovery {
    /// Returns the value of the parameter `resource`, exactly as the MCP server publishes it.
    #[must_use]
    pub fn resource_identifier(&self) -> Option<&str> {
        self.resource.as_ref().map(|resource| resource.resource.as_str())
    }
}

/// Finds the authorization server of an MCP server: protected resource metadata (RFC 9728), then metadata of the authorization server
/// (RFC 8414 or OpenID Connect Discovery). Without protected resource metadata, the rules of 2025-03-26.
///
/// `resource_metadata` is the parameter of that name of the challenge in `WWW-Authenticate`; only this URL is then requested.
/// `preferred_issuer` is used if the server lists it, otherwise the first issuer.
///
/// ```no_run
/// use turms_oauth::{Fetcher, discover};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let server = "https://notes.example.com/mcp".parse()?;
/// let discovery = discover(&Fetcher::for_server(&server), &server, None, None).await?;
/// println!("{}", discovery.server.issuer);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When a document cannot be fetched, is invalid, or belongs to another server or issuer.
pub async fn discover(
    fetcher: &Fetcher,
    server: &Url,
    resource_metadata: Option<&str>,
    preferred_issuer: Option<&str>,
) -> Result<Discovery, OAuthError> {
    let Some(resource) = discover_resource(fetcher, server, resource_metadata).await? else {
        return server::discover_legacy(fetcher, server).await;
    };
    let issuers = &resource.authorization_servers;
    let preferred =
        preferred_issuer.and_then(|preferred| issuers.iter().find(|issuer| server::is_same_issuer(issuer, preferred)));
    let Some(issuer) = preferred.or_else(|| issuers.first()) else {
        return Err(resource::invalid("`authorization_servers` is empty"));
    };
    let server = discover_server(fetcher, issuer).await?;
    Ok(Discovery { resource: Some(resource), server, is_legacy: false, has_metadata: true })
}
