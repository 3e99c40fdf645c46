//! Metadata of protected resources (RFC 9728).

use url::Url;

use super::server::is_missing;
use crate::error::OAuthError;
use crate::fetch::{FetchStep, Fetcher};
use crate::metadata::{ProtectedResourceMetadata, printable};

const STEP: FetchStep = FetchStep::ResourceMetadata;
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Fetches the metadata of an MCP server. `None` if it has none.
///
/// `resource_metadata` is the parameter of that name of the challenge in `WWW-Authenticate`; only this URL is then requested.
/// Without it, the well-known URL with the path of the server is requested, then the one without.
///
/// ```no_run
/// use turms_oauth::{Fetcher, discover_resource};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let server = "https://notes.example.com/mcp".parse()?;
/// let metadata = discover_resource(&Fetcher::for_server(&server), &server, None).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When a document cannot be fetched, is invalid, lists no authorization server, or is about another server.
#[doc(alias = "fetch_protected_resource_metadata")]
pub async fn discover_resource(
    fetcher: &Fetcher,
    server: &Url,
    resource_metadata: Option<&str>,
) -> Result<Option<ProtectedResourceMetadata>, OAuthError> {
    if let Some(url) = resource_metadata {
        return check(fetcher.get(STEP, url).await?.json()?, server).map(Some);
    }
    for url in well_known_urls(server) {
        let response = fetcher.get(STEP, &url).await?;
        if !is_missing(&response) {
            return check(response.json()?, server).map(Some);
        }
    }
    Ok(None)
}

/// Returns the well-known URLs of a server: with its path, then without.
fn well_known_urls(server: &Url) -> Vec<String> {
    let origin = server.origin().ascii_serialization();
    let root = format!("{origin}{WELL_KNOWN}");
    match server.path() {
        "" | "/" => vec![root],
        path => vec![format!("{root}{path}"), root],
    }
}

pub(super) fn invalid(reason: impl Into<String>) -> OAuthError {
    OAuthError::metadata(STEP, reason)
}

fn check(metadata: ProtectedResourceMetadata, server: &Url) -> Result<ProtectedResourceMetadata, OAuthError> {
    if !identifies(&metadata.resource, server) {
        let (resource, server) = (printable(&metadata.resource), without_query(server));
        return Err(invalid(format!("`resource` is {resource}, which is not the server {server}")));
    }
    if metadata.authorization_servers.is_empty() {
        return Err(invalid("`authorization_servers` is empty"));
    }
    Ok(metadata)
}

fn without_query(server: &Url) -> String {
    format!("{}{}", server.origin().ascii_serialization(), server.path())
}

/// Returns `true` if a resource identifier is the URL of the server, or has the same origin and a path that the server's path begins
/// with, segment by segment.
fn identifies(resource: &str, server: &Url) -> bool {
    let Ok(url) = Url::parse(resource) else { return false };
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
        && (url.query().is_none() || url.query() == server.query());
    let prefix = url.path().trim_end_matches('/');
    let is_prefix = server.path().strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is_plain && url.origin() == server.origin() && is_prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_resource_is_the_server_or_a_segment_wise_prefix() {
        let server = url("https://h.example/a/mcp?x=1");
        for resource in [
            "https://h.example/a/mcp",
            "https://h.example/a/mcp/",
            "https://h.example/a",
            "https://h.example",
            "https://h.example/",
            "https://h.example:443/a/mcp",
            "https://H.example/a/mcp",
            "https://h.example/a/mcp?x=1",
        ] {
            assert!(identifies(resource, &server), "{resource}");
        }
        for resource in [
            "https://other.example/a/mcp",
            "http://h.example/a/mcp",
            "https://h.example:8443/a/mcp",
            "https://h.example/a/mc",
            "https://h.example/a/mcp/tool",
            "https://h.example/a/mcp#x",
            "https://h.example/a/mcp?x=2",
            "https://u:p@h.example/a/mcp",
            "https://h.example/b/../c",
            "urn:mcp",
            "",
        ] {
            assert!(!identifies(resource, &server), "{resource}");
        }
    }

    #[test]
    fn the_path_is_inserted_after_the_well_known_one() {
        assert_eq!(
            well_known_urls(&url("https://h.example:8443/a/mcp?x=1#f")),
            [
                "https://h.example:8443/.well-known/oauth-protected-resource/a/mcp",
                "https://h.example:8443/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(
            well_known_urls(&url("https://h.example")),
            ["https://h.example/.well-known/oauth-protected-resource"]
        );
    }
}
