//! Metadata of authorization servers (RFC 8414 and OpenID Connect Discovery).

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use url::Url;

use super::Discovery;
use crate::error::OAuthError;
use crate::fetch::{FetchResponse, FetchStep, Fetcher};
use crate::metadata::{AuthorizationServerMetadata, is_hidden, printable};

const STEP: FetchStep = FetchStep::ServerMetadata;
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// Sent with requests for metadata at the origin of an MCP server, as 2025-03-26 demands.
const PROTOCOL_VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("mcp-protocol-version"), HeaderValue::from_static("2025-03-26"));

/// Fetches the metadata of an authorization server. The issuer in it must be the same text; only the slash after a host without a path
/// does not count, as common software adds it to URLs.
///
/// ```no_run
/// use turms_oauth::{Fetcher, discover_server};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let issuer = "https://auth.example.com/tenant";
/// let metadata = discover_server(&Fetcher::for_server(&issuer.parse()?), issuer).await?;
/// println!("{:?}", metadata.token_endpoint);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When there is no document, it is invalid, or it belongs to another issuer.
#[doc(alias = "discover_server_metadata")]
pub async fn discover_server(fetcher: &Fetcher, issuer: &str) -> Result<AuthorizationServerMetadata, OAuthError> {
    let mut problem = None;
    for url in well_known_urls(issuer)? {
        let response = fetcher.get(STEP, &url).await?;
        if is_missing(&response) {
            continue;
        }
        match response.json::<AuthorizationServerMetadata>() {
            Ok(metadata) if is_same_issuer(&metadata.issuer, issuer) => return Ok(metadata),
            Ok(metadata) => return Err(other_issuer(issuer, &metadata.issuer)),
            // 5xx says nothing about the other locations.
            Err(error) if error.is_transient() => return Err(error.into()),
            Err(error) => problem = Some(error),
        }
    }
    let missing = || OAuthError::metadata(STEP, format!("{} has no metadata", printable(issuer)));
    Err(problem.map_or_else(missing, Into::into))
}

/// Returns `true` for the same identifier. An origin is the same with and without a slash: both have the same documents, so that neither
/// can pass for another issuer. Servers on the first Python SDK add the slash to each issuer that they list.
pub(super) fn is_same_issuer(one: &str, other: &str) -> bool {
    let is_root = |issuer: &str| Url::parse(issuer).is_ok_and(|url| url.path() == "/");
    let bare = |issuer: &str| issuer.strip_suffix('/').unwrap_or(issuer).to_owned();
    one == other || (is_root(one) && is_root(other) && bare(one) == bare(other))
}

fn other_issuer(expected: &str, found: &str) -> OAuthError {
    let (expected, found) = (printable(expected), printable(found));
    OAuthError::metadata(STEP, format!("`issuer` is {found}, expected {expected}"))
}

/// Finds the authorization server of an MCP server of 2025-03-26: metadata at its origin, or the default endpoints there.
pub(super) async fn discover_legacy(fetcher: &Fetcher, server: &Url) -> Result<Discovery, OAuthError> {
    let origin = server.origin().ascii_serialization();
    let headers = HeaderMap::from_iter([PROTOCOL_VERSION]);
    let response = fetcher.get_with(STEP, &format!("{origin}{OAUTH}"), headers).await?;
    let (server, has_metadata) = if is_missing(&response) {
        (default_endpoints(origin), false)
    } else {
        let metadata: AuthorizationServerMetadata = response.json()?;
        if !is_at_origin(&metadata.issuer, server) {
            return Err(other_issuer(&origin, &metadata.issuer));
        }
        (metadata, true)
    };
    Ok(Discovery { resource: None, server, is_legacy: true, has_metadata })
}

/// Returns `true` if an issuer has the origin of an MCP server of 2025-03-26. It may have a path: no identifier is published that it
/// could be compared with.
fn is_at_origin(issuer: &str, server: &Url) -> bool {
    let is_shown = !issuer.contains(|letter: char| is_hidden(letter) || letter.is_whitespace());
    is_shown
        && Url::parse(issuer).is_ok_and(|issuer| {
            let is_plain = issuer.username().is_empty() && issuer.password().is_none();
            is_plain && issuer.query().is_none() && issuer.fragment().is_none() && issuer.origin() == server.origin()
        })
}

/// Returns the metadata that 2025-03-26 defines for servers without any. PKCE is always used there.
fn default_endpoints(origin: String) -> AuthorizationServerMetadata {
    let endpoint = |path: &str| Some(format!("{origin}{path}"));
    AuthorizationServerMetadata {
        authorization_endpoint: endpoint("/authorize"),
        token_endpoint: endpoint("/token"),
        registration_endpoint: endpoint("/register"),
        code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
        issuer: origin,
        ..AuthorizationServerMetadata::default()
    }
}

/// Returns `true` if a location has no document: a status of 4xx, or a page for people with status 200. Timeouts and rate limits say
/// nothing about the document.
pub(super) fn is_missing(response: &FetchResponse) -> bool {
    let status = response.status;
    match status {
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => false,
        _ => status.is_client_error() || (status.is_success() && !response.is_json()),
    }
}

/// Returns the locations of metadata, in the order of the specification. The root is not requested if the issuer has a path.
fn well_known_urls(issuer: &str) -> Result<Vec<String>, OAuthError> {
    let invalid =
        || OAuthError::metadata(STEP, format!("issuer {} is not a URL without query and fragment", printable(issuer)));
    // The parser removes or encodes such characters, but an issuer is stored and shown as it is.
    if issuer.contains(|letter: char| is_hidden(letter) || letter.is_whitespace()) {
        return Err(invalid());
    }
    let url = Url::parse(issuer).map_err(|_| invalid())?;
    if !url.has_host() || url.query().is_some() || url.fragment().is_some() {
        return Err(invalid());
    }
    let origin = url.origin().ascii_serialization();
    Ok(match url.path().trim_end_matches('/') {
        "" => vec![format!("{origin}{OAUTH}"), format!("{origin}{OPENID}")],
        path => {
            vec![format!("{origin}{OAUTH}{path}"), format!("{origin}{OPENID}{path}"), format!("{origin}{path}{OPENID}")]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_of_2025_03_26_has_the_origin_of_the_server_and_any_path() {
        let server = Url::parse("https://h.example/mcp").unwrap();
        for issuer in ["https://h.example", "https://h.example/", "https://h.example/oauth", "https://h.example:443"] {
            assert!(is_at_origin(issuer, &server), "{issuer}");
        }
        for issuer in [
            "https://other.example",
            "http://h.example",
            "https://h.example:8443",
            "https://h.example.evil.example",
            "https://u@h.example",
            "https://h.example?x",
            "https://h.example#x",
            "https://h.example/\u{1b}[2J",
            "https://h.example/\n",
            "h.example",
            "",
        ] {
            assert!(!is_at_origin(issuer, &server), "{issuer}");
        }
    }

    #[test]
    fn issuers_are_the_same_text_except_for_the_slash_of_an_origin() {
        for (one, other) in [("https://h", "https://h"), ("https://h/", "https://h"), ("https://h/a", "https://h/a")] {
            assert!(is_same_issuer(one, other) && is_same_issuer(other, one), "{one} {other}");
        }
        for other in
            ["https://h/a/", "https://h", "https://H/a", "https://h:443/a", "http://h/a", "https://h/a?", "https://h//"]
        {
            assert!(!is_same_issuer("https://h/a", other) && !is_same_issuer(other, "https://h/a"), "{other}");
        }
        for other in [
            "https://h.example",
            "https://H",
            "https://h:443",
            "http://h",
            "https://h//",
            "https://h/?",
            "https://h/#",
            "x",
        ] {
            assert!(!is_same_issuer("https://h", other) && !is_same_issuer(other, "https://h"), "{other}");
        }
    }

    #[test]
    fn locations_are_in_the_order_of_the_specification() {
        assert_eq!(
            well_known_urls("https://h.example/t1/").unwrap(),
            [
                "https://h.example/.well-known/oauth-authorization-server/t1",
                "https://h.example/.well-known/openid-configuration/t1",
                "https://h.example/t1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            well_known_urls("https://h.example").unwrap(),
            [
                "https://h.example/.well-known/oauth-authorization-server",
                "https://h.example/.well-known/openid-configuration",
            ]
        );
        for issuer in
            ["", "h.example", "https://h.example?x", "https://h.example/#x", "urn:x", "https://h.example/\u{9b}m"]
        {
            assert!(well_known_urls(issuer).is_err(), "{issuer}");
        }
    }
}
