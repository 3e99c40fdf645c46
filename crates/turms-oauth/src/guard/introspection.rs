//! Introspection of opaque tokens (RFC 7662).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::Semaphore;
use turms_core::BoxFuture;
use url::form_urlencoded;
use zeroize::Zeroizing;

use super::issuer::{Verifier, VerifyError};
use crate::fetch::{FetchStep, Fetcher};
use crate::metadata::Introspection;
use crate::secret::Secret;

/// An introspection endpoint.
pub(super) struct Introspector {
    url: String,
    credentials: HeaderValue,
    fetcher: Fetcher,
    /// Bounds the number of requests at a time.
    permits: Semaphore,
    /// Timeout for a permit.
    timeout: Duration,
}

impl Introspector {
    /// Creates a client of an endpoint. `most` is the maximum number of requests at a time, and `timeout` that for the others to end.
    pub(super) fn new(
        url: String,
        (client_id, secret): (&str, &Secret),
        fetcher: Fetcher,
        (most, timeout): (usize, Duration),
    ) -> Self {
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = Zeroizing::new(format!("{}:{}", encoded(client_id), encoded(secret.expose())));
        let basic = Zeroizing::new(format!("Basic {}", STANDARD.encode(&*pair)));
        let mut credentials = HeaderValue::try_from(&**basic).unwrap_or_else(|_| HeaderValue::from_static(""));
        credentials.set_sensitive(true);
        Self { url, credentials, fetcher, permits: Semaphore::new(most), timeout }
    }

    async fn introspect(&self, token: &str) -> Result<Introspection, VerifyError> {
        let permit = tokio::time::timeout(self.timeout, self.permits.acquire()).await;
        let _permit = permit.map_err(|_| VerifyError::new("too many introspection requests are waiting"))?;
        let form = [("token", token), ("token_type_hint", "access_token")];
        let headers = HeaderMap::from_iter([(AUTHORIZATION, self.credentials.clone())]);
        let response = self.fetcher.post_form(FetchStep::Introspection, &self.url, &form, headers).await;
        response.and_then(|response| response.json()).map_err(VerifyError::new)
    }
}

impl Verifier for Introspector {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Introspection, VerifyError>> {
        Box::pin(self.introspect(token))
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    #[test]
    fn the_credentials_are_marked_as_secret() {
        let fetcher = Fetcher::for_server(&Url::parse("https://notes.example.com/mcp").unwrap());
        let limits = (1, Duration::from_secs(1));
        let url = "https://auth.example.com/introspect".to_owned();
        let introspector = Introspector::new(url, ("guard", &Secret::new("s3cret")), fetcher, limits);
        // Other code does not show such values, and HTTP/2 does not compress them.
        assert!(introspector.credentials.is_sensitive());
        assert!(!format!("{:?}", introspector.credentials).contains("Basic"));
    }
}
