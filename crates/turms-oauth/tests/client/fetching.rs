//! Responses of authorization servers that are too large, too slow, endless, or of a wrong form: each is an error that names its step,
//! in bounded time and memory.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use turms_oauth::{
    AuthorizationServerMetadata, ClientIdentity, Fetcher, Secret, TokenParameters, discover_resource, discover_server,
    refresh,
};
use turms_testkit::within;
use url::Url;

use crate::script::{Reply, Script, tokens};
use crate::world::chain;

/// A server that writes bytes, and then the same bytes again and again until the client disconnects.
struct RawServer {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl RawServer {
    async fn start(first: &'static str, then: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let _ = stream.read(&mut [0; 4096]).await;
                    if stream.write_all(first.as_bytes()).await.is_err() {
                        return;
                    }
                    if then.is_empty() {
                        // Silence, until the client disconnects.
                        let _ = stream.read(&mut [0; 1]).await;
                    }
                    while stream.write_all(then).await.is_ok() && !then.is_empty() {}
                });
            }
        });
        Self { address, serving }
    }

    fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
const CHUNK: &[u8] = b"1000\r\n\
    [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[";

fn fetcher(issuer: &str) -> Fetcher {
    Fetcher::for_server(&issuer.parse().unwrap()).no_proxy().timeout(Duration::from_millis(500))
}

async fn error_of(issuer: &str, fetcher: &Fetcher) -> String {
    chain(&within("the error", discover_server(fetcher, issuer)).await.unwrap_err())
}

#[tokio::test]
async fn a_server_that_does_not_respond_is_given_up() {
    for first in ["", "HTTP/1.1 200 OK\r\n", HEAD] {
        let server = RawServer::start(first, b"").await;
        let error = error_of(&server.issuer(), &fetcher(&server.issuer())).await;
        assert_eq!(error, format!("authorization server metadata from {}: no response within 500 ms", server.issuer()));
    }
}

#[tokio::test]
async fn an_endless_response_is_given_up() {
    let body: &'static [u8] = Box::leak([b"1000\r\n".as_slice(), &[b'['; 4096], b"\r\n"].concat().into_boxed_slice());
    let server = RawServer::start(HEAD, body).await;
    let fetcher = Fetcher::for_server(&server.issuer().parse().unwrap()).no_proxy();
    let error = error_of(&server.issuer(), &fetcher).await;
    assert!(error.ends_with("the response is longer than the limit of 262144 bytes"), "{error}");
    assert!(error_of(&server.issuer(), &fetcher.max_response_bytes(1000)).await.ends_with("limit of 1000 bytes"));
    // A chunk whose end never comes, and a head that never ends.
    let server = RawServer::start(HEAD, CHUNK).await;
    assert!(
        error_of(&server.issuer(), &self::fetcher(&server.issuer())).await.contains("authorization server metadata")
    );
    let server =
        RawServer::start("HTTP/1.1 200 OK\r\n", b"X-Header: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").await;
    assert!(
        error_of(&server.issuer(), &self::fetcher(&server.issuer())).await.contains("authorization server metadata")
    );
}

#[tokio::test]
async fn a_response_of_a_wrong_form_is_an_error_with_its_place() {
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    for (content_type, body, expected) in [
        ("application/json", deep, "the response is not valid: unexpected JSON at line 1, column 200006"),
        (
            "application/json",
            "{\"issuer\": 7}".to_owned(),
            "the response is not valid: unexpected JSON at line 1, column 12",
        ),
        (
            "application/json",
            "{\"s3cret\": nul".to_owned(),
            "the response is not valid: invalid JSON at line 1, column 14",
        ),
        ("text/html", "<h1>Log in</h1>".to_owned(), "has no metadata"),
    ] {
        let server = Script::start(move |_| Reply::text(200, content_type, body.clone())).await;
        let error = error_of(&server.url(""), &fetcher(&server.url(""))).await;
        assert!(error.starts_with("authorization server metadata") && error.ends_with(expected), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
}

#[tokio::test]
async fn a_compressed_response_is_not_unpacked() {
    let server =
        Script::start(|_| Reply::text(200, "application/json", "\u{1f}bomb").with("content-encoding", "gzip")).await;
    let error = error_of(&server.url(""), &fetcher(&server.url(""))).await;
    assert!(error.ends_with("the response is compressed"), "{error}");
}

#[tokio::test]
async fn redirects_are_followed_up_to_a_limit() {
    let server = Script::start(|request| {
        let number: u32 = request.path.rsplit('/').next().unwrap().parse().unwrap_or(0);
        match number {
            3 => Reply::json(
                200,
                json!({ "resource": format!("{}/mcp", request.base), "authorization_servers": ["https://a.example"] }),
            ),
            _ => Reply::redirect(302, &format!("/{}", number + 1)),
        }
    })
    .await;
    let url: Url = server.url("/mcp").parse().unwrap();
    let fetcher = fetcher(&server.url(""));
    assert!(discover_resource(&fetcher, &url, None).await.unwrap().is_some());
    let error = discover_resource(&fetcher.max_redirects(2), &url, None).await.unwrap_err().to_string();
    assert!(error.starts_with("protected resource metadata") && error.contains("redirect with status 302"), "{error}");
}

#[tokio::test]
async fn a_redirect_of_a_token_request_is_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let other = Script::start(|_| Reply::json(200, tokens())).await;
        let target = other.url("/token");
        let server = Script::start(move |_| Reply::redirect(status, &target)).await;
        let metadata = AuthorizationServerMetadata::new(server.url(""), server.url("/token"));
        let client = ClientIdentity::with_secret("agent", "s3cret");
        let parameters = TokenParameters::new();
        let error = refresh(&fetcher(&server.url("")), &metadata, &client, &Secret::new("r"), &parameters).await;
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("token request") && error.ends_with("is not followed"), "{error}");
        assert!(other.received().is_empty(), "credentials were sent to another origin");
    }
}
