//! Client ID metadata documents, and key sets of clients.

use std::sync::Arc;
use std::time::Duration;

use http::header::CACHE_CONTROL;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize as _;
use tokio::sync::Semaphore;
use url::Url;

use super::clients::{ClientCredential, ClientOrigin, ServerClient, check_metadata};
use super::clock::end_of;
use super::expiring_map::ExpiringMap;
use super::refusal::Refusal;
use crate::fetch::{FetchErrorKind, FetchStep, Fetcher};
use crate::jws::JwkSet;
use crate::metadata::ClientMetadata;

/// Maximum size of a client ID metadata document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024;

/// Maximum number of client ID metadata documents, and of key sets of clients, in the cache.
const MAX_CACHED: usize = 256;

/// Maximum number of requests for documents of clients at the same time.
const MAX_FETCHES: usize = 32;

/// Time that a request for a document waits for others to end.
const FETCH_WAIT: Duration = Duration::from_secs(5);

/// Client ID metadata documents and key sets of clients, with a cache.
pub(crate) struct Documents {
    fetcher: Fetcher,
    clients: Mutex<ExpiringMap<String, Result<Arc<ServerClient>, Refusal>>>,
    keys: Mutex<ExpiringMap<String, Result<JwkSet, Refusal>>>,
    permits: Semaphore,
}

/// The shortest and the longest time for which a document is used, and the time without `Cache-Control`.
const MIN_CACHED: Duration = Duration::from_secs(60);
const MAX_CACHED_FOR: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_CACHED: Duration = Duration::from_secs(5 * 60);

/// Time for which a document that cannot be read is not requested again.
const FAILED_CACHED: Duration = Duration::from_secs(30);

impl Documents {
    pub(crate) fn new(fetcher: Fetcher) -> Self {
        Self {
            fetcher,
            clients: Mutex::new(ExpiringMap::new(MAX_CACHED)),
            keys: Mutex::new(ExpiringMap::new(MAX_CACHED)),
            permits: Semaphore::new(MAX_FETCHES),
        }
    }

    pub(crate) async fn client(&self, id: &str, schemes: &[String], now: u64) -> Result<Arc<ServerClient>, Refusal> {
        check_document_url(id)?;
        cached(&self.clients, &self.permits, id, now, async {
            let (body, lifetime) = self.fetch(FetchStep::ClientDocument, id).await?;
            Ok((Arc::new(read_document(id, &body, schemes)?), lifetime))
        })
        .await
    }

    pub(crate) async fn keys(&self, url: &str, now: u64) -> Result<JwkSet, Refusal> {
        cached(&self.keys, &self.permits, url, now, async {
            let (body, lifetime) = self.fetch(FetchStep::Keys, url).await?;
            let keys = serde_json::from_slice(&body);
            Ok((keys.map_err(|_| Refusal::invalid_client("the keys of the client are invalid"))?, lifetime))
        })
        .await
    }

    async fn fetch(&self, step: FetchStep, url: &str) -> Result<(Vec<u8>, Duration), Refusal> {
        let response = self.fetcher.get_direct(step, url).await;
        let response = response.map_err(|error| match error.kind() {
            // An address tells about the network of this server.
            FetchErrorKind::Address(_) => Refusal::invalid_client(format!("{step}: its address is not allowed")),
            _ => Refusal::invalid_client(error.to_string()),
        })?;
        if response.status != StatusCode::OK {
            let status = response.status;
            return Err(Refusal::invalid_client(format!("{step}: the server responded with status {status}")));
        }
        if !response.is_json() {
            return Err(Refusal::invalid_client(format!("{step}: the content type is not JSON")));
        }
        if response.body.len() > MAX_DOCUMENT_BYTES {
            return Err(Refusal::invalid_client(format!("{step}: longer than {MAX_DOCUMENT_BYTES} bytes")));
        }
        Ok((response.body.to_vec(), lifetime_of(&response.headers)))
    }
}

/// Returns a cached result, or fetches it.
async fn cached<T: Clone>(
    cache: &Mutex<ExpiringMap<String, Result<T, Refusal>>>,
    permits: &Semaphore,
    url: &str,
    now: u64,
    fetch: impl Future<Output = Result<(T, Duration), Refusal>>,
) -> Result<T, Refusal> {
    if let Some(result) = cache.lock().get(url, now) {
        return result.clone();
    }
    let unavailable = || Refusal::unavailable("too many documents of clients are requested; try again later");
    let permit = tokio::time::timeout(FETCH_WAIT, permits.acquire()).await.map_err(|_| unavailable())?;
    let _permit = permit.map_err(|_| unavailable())?;
    // Another request may have fetched it meanwhile.
    if let Some(result) = cache.lock().get(url, now) {
        return result.clone();
    }
    let (result, lifetime) = match fetch.await {
        Ok((value, lifetime)) => (Ok(value), lifetime),
        Err(refusal) => (Err(refusal), FAILED_CACHED),
    };
    cache.lock().insert(url.to_owned(), result.clone(), end_of(now, lifetime), now);
    result
}

/// Returns the time for which a response may be used.
fn lifetime_of(headers: &HeaderMap) -> Duration {
    let directives = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut lifetime = DEFAULT_CACHED;
    for directive in directives.split(',').map(str::trim) {
        if directive.eq_ignore_ascii_case("no-store") || directive.eq_ignore_ascii_case("no-cache") {
            return MIN_CACHED;
        }
        if let Some(seconds) = directive.strip_prefix("max-age=").and_then(|seconds| seconds.parse().ok()) {
            lifetime = Duration::from_secs(seconds);
        }
    }
    lifetime.clamp(MIN_CACHED, MAX_CACHED_FOR)
}

/// Checks the form of a client id that is a URL. The fetcher checks its scheme and address.
fn check_document_url(id: &str) -> Result<(), Refusal> {
    let invalid = || Refusal::invalid_client("the client id is not the URL of a client ID metadata document");
    let url = Url::parse(id).map_err(|_| invalid())?;
    // The text of the parsed URL differs if there are dot segments, upper-case hosts or default ports.
    let is_simple =
        url.as_str() == id && url.fragment().is_none() && url.username().is_empty() && url.password().is_none();
    if is_simple && url.path() != "/" && id.len() <= 1024 { Ok(()) } else { Err(invalid()) }
}

fn read_document(id: &str, body: &[u8], schemes: &[String]) -> Result<ServerClient, Refusal> {
    let invalid = |reason: &str| Refusal::invalid_client(format!("client metadata document: {reason}"));
    let document: ClientMetadata = serde_json::from_slice(body).map_err(|_| invalid("it is not valid JSON"))?;
    if document.client_id.as_deref() != Some(id) {
        return Err(invalid("its client_id is not its URL"));
    }
    check_metadata(&document, schemes).map_err(|refusal| invalid(&refusal.description))?;
    let credential = match (document.token_endpoint_auth_method.as_deref(), &document.jwks, &document.jwks_uri) {
        (None | Some("none"), ..) => ClientCredential::Public,
        (Some("private_key_jwt"), Some(keys), _) => {
            ClientCredential::Keys(JwkSet::deserialize(keys).map_err(|_| invalid("its keys are invalid"))?)
        }
        (Some("private_key_jwt"), None, Some(url)) => ClientCredential::KeysAt(url.clone()),
        _ => return Err(invalid("its token_endpoint_auth_method is not supported")),
    };
    Ok(ServerClient::from_metadata(document, id.to_owned(), ClientOrigin::Document, credential))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn documents_must_have_their_own_url_as_client_id() {
        let id = "https://app.example.com/client.json";
        let read = |document: &Value| read_document(id, document.to_string().as_bytes(), &[]);
        let good = json!({"client_id": id, "client_name": "App", "redirect_uris": ["https://app.example.com/cb"]});
        assert_eq!(read(&good).unwrap().display_name(), "App");
        for (member, value) in [
            ("client_id", json!("https://app.example.com/other.json")),
            ("client_id", json!(null)),
            ("redirect_uris", json!([])),
            ("token_endpoint_auth_method", json!("client_secret_post")),
            ("token_endpoint_auth_method", json!("private_key_jwt")),
        ] {
            let mut bad = good.clone();
            bad[member] = value;
            assert_eq!(read(&bad).unwrap_err().error, "invalid_client", "{bad}");
        }
        for bad in [
            "https://app.example.com/",
            "https://app.example.com",
            "https://app.example.com/a/../b",
            "https://u@app.example.com/b",
            "https://app.example.com/b#c",
            "https://APP.example.com/b",
        ] {
            assert!(check_document_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn documents_are_cached_as_long_as_their_headers_say() {
        let lifetime = |value: &str| {
            let headers = HeaderMap::from_iter([(CACHE_CONTROL, value.parse().unwrap())]);
            lifetime_of(&headers).as_secs()
        };
        assert_eq!(lifetime("max-age=600, public"), 600);
        assert_eq!((lifetime("max-age=1"), lifetime("no-store"), lifetime("max-age=99999999")), (60, 60, 86400));
        assert_eq!(lifetime("public"), 300);
    }
}
