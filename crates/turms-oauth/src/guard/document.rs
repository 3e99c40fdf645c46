//! The protected resource: its identifier, its URLs, and its metadata (RFC 9728).

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tower_service::Service;
use turms_http::{Guard as _, GuardDocument, HttpBody};
use url::Url;

use super::TokenGuard;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The identifier of the resource, and what follows from it.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    /// The identifier as given.
    pub(super) identifier: String,
    pub(super) url: Url,
}

impl Resource {
    /// Checks an identifier. Returns the reason if it cannot be used.
    pub(super) fn parse(identifier: String) -> Result<Self, &'static str> {
        let url = Url::parse(&identifier).map_err(|_| "not a valid URL")?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err("not an http:// or https:// URL");
        }
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
            return Err("a query, a fragment or a user is not allowed");
        }
        Ok(Self { identifier, url })
    }

    /// Returns the values of `aud` that mean this resource. A root with and without a slash is the same.
    pub(super) fn audiences(&self) -> Vec<String> {
        if self.url.path() != "/" {
            return vec![self.identifier.clone()];
        }
        let root = self.identifier.trim_end_matches('/');
        vec![root.to_owned(), format!("{root}/")]
    }

    /// Returns the URLs that are served: those of Streamable HTTP, WebSocket and HTTP+SSE.
    pub(super) fn urls(&self) -> Vec<Url> {
        let below = |name: &str| Url::parse(&format!("{}{name}", self.url.as_str().trim_end_matches('/')));
        [Ok(self.url.clone()), below("/sse"), below("/messages")].into_iter().flatten().collect()
    }

    /// Returns the URL of another path of the same origin.
    pub(super) fn at_path(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(path);
        url
    }

    /// Returns the path of the metadata.
    pub(super) fn metadata_path(&self) -> String {
        format!("{WELL_KNOWN}{}", if self.url.path() == "/" { "" } else { self.url.path() })
    }

    pub(super) fn metadata_url(&self) -> String {
        self.url.origin().ascii_serialization() + &self.metadata_path()
    }

    /// Returns `true` if the metadata is served at a path. Besides its own path that is the path without that of the resource, which
    /// clients try next, and which is the path that a nested service sees.
    pub(super) fn is_metadata_path(&self, path: &str) -> bool {
        path == WELL_KNOWN || path.strip_prefix(WELL_KNOWN).is_some_and(|rest| rest == self.url.path())
    }
}

/// The documents of a [`TokenGuard`] as a `tower` service, for the root of an application that mounts the MCP server below a path.
///
/// ```
/// # fn example(guard: turms_oauth::TokenGuard, mcp: turms_http::HttpService) -> axum::Router {
/// axum::Router::new()
///     .route_service(&guard.metadata_path(), guard.documents())
///     .nest_service("/mcp", mcp.guard(guard))
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct GuardDocuments(pub(super) TokenGuard);

impl<B> Service<Request<B>> for GuardDocuments {
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let document = self.0.document(request.uri().path());
        let response = document.map(|document: GuardDocument| document.into_response(request.method()));
        let response = response.unwrap_or_else(|| {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        });
        ready(Ok(response.map(HttpBody::whole)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(identifier: &str) -> Resource {
        Resource::parse(identifier.to_owned()).unwrap()
    }

    #[test]
    fn the_metadata_is_at_the_path_of_rfc_9728() {
        let table = [
            ("https://h", "https://h/.well-known/oauth-protected-resource"),
            ("https://h/", "https://h/.well-known/oauth-protected-resource"),
            ("https://h:8443/mcp", "https://h:8443/.well-known/oauth-protected-resource/mcp"),
            ("https://h/a/b/", "https://h/.well-known/oauth-protected-resource/a/b/"),
        ];
        for (identifier, url) in table {
            let resource = resource(identifier);
            assert_eq!(resource.metadata_url(), url);
            assert!(resource.is_metadata_path(&resource.metadata_path()));
            assert!(resource.is_metadata_path("/.well-known/oauth-protected-resource"));
            for other in
                ["/", "/mcp", "/.well-known/oauth-protected-resource/other", "/x/.well-known/oauth-protected-resource"]
            {
                assert!(!resource.is_metadata_path(other), "{other}");
            }
        }
    }

    #[test]
    fn a_root_is_the_same_with_and_without_a_slash() {
        assert_eq!(resource("https://h").audiences(), ["https://h", "https://h/"]);
        assert_eq!(resource("https://h/").audiences(), ["https://h", "https://h/"]);
        assert_eq!(resource("https://h/mcp").audiences(), ["https://h/mcp"]);
        assert_eq!(resource("https://h/mcp/").audiences(), ["https://h/mcp/"]);
    }

    #[test]
    fn identifiers_that_are_no_resource_are_refused() {
        for wrong in
            ["", "mcp", "ftp://h/", "https://h/?a", "https://h/#f", "https://u@h/", "https://u:p@h/", "wss://h/mcp"]
        {
            assert!(Resource::parse(wrong.to_owned()).is_err(), "{wrong:?}");
        }
    }
}
