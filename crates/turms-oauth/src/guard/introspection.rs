//! Introspection of opaque tokens (RFC 7662).

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
}

impl Introspector {
    pub(super) fn new(url: String, client_id: &str, secret: &Secret, fetcher: Fetcher, max_requests: usize) -> Self {
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = Zeroizing::new(format!("{}:{}", encoded(client_id), encoded(secret.expose())));
        let basic = Zeroizing::new(format!("Basic {}", STANDARD.encode(&*pair)));
        let mut credentials = HeaderValue::try_from(&**basic).unwrap_or_else(|_| HeaderValue::from_static(""));
        credentials.set_sensitive(true);
        Self { url, credentials, fetcher, permits: Semaphore::new(max_requests) }
    }

    async fn introspect(&self, token: &str) -> Result<Introspection, VerifyError> {
        let _permit = self.permits.acquire().await.map_err(VerifyError::new)?;
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
