//! The URL of a server, and requests to it: headers, credentials, redirects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use url::Url;

use super::authorize::{Authorizable, Authorizer, Challenge, Decision};
use super::error::HttpError;
use super::http_client::{HttpClient, ResponseBody, SendError};
use super::reply::refusal_text;

/// The URL of a server, and the options of all requests to it.
pub(super) struct HttpEndpoint {
    pub(super) url: Url,
    /// The same URL, parsed for requests.
    pub(super) uri: Uri,
    pub(super) client: Arc<HttpClient>,
    pub(super) headers: HeaderMap,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// Maximum size of a response or an event, in bytes.
    pub(super) limit: usize,
    /// Maximum number of responses that a session posts at once.
    pub(super) max_answers: usize,
}

pub(super) type Response = http::Response<ResponseBody>;

/// Maximum number of times that credentials are obtained for one request.
const MAX_REFUSALS: u32 = 3;

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: u32 = 5;

const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

impl HttpEndpoint {
    /// Posts a message. The response may have any status except for redirects, 401 and 403.
    pub(super) async fn post(&self, body: Bytes, headers: HeaderMap) -> Result<Response, HttpError> {
        self.post_to(&self.url, body, headers).await
    }

    pub(super) async fn post_to(&self, url: &Url, body: Bytes, mut headers: HeaderMap) -> Result<Response, HttpError> {
        headers.insert(ACCEPT, JSON_OR_EVENTS);
        headers.insert(CONTENT_TYPE, JSON);
        self.send(Method::POST, url, headers, body).await
    }

    /// Opens an event stream.
    pub(super) async fn get(&self, mut headers: HeaderMap) -> Result<Response, HttpError> {
        headers.insert(ACCEPT, EVENTS);
        headers.insert(CACHE_CONTROL, NO_STORE);
        self.send(Method::GET, &self.url, headers, Bytes::new()).await
    }

    /// Deletes a session.
    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<Response, HttpError> {
        self.send(Method::DELETE, &self.url, headers, Bytes::new()).await
    }

    /// Returns the origin for error messages. The path and the query may contain a secret.
    pub(super) fn server(&self) -> String {
        origin(&self.url)
    }

    /// Sends a request. Follows redirects and obtains credentials.
    async fn send(&self, method: Method, url: &Url, headers: HeaderMap, body: Bytes) -> Result<Response, HttpError> {
        let headers = self.with_own(headers);
        let response = self.send_once(&method, url, &headers, &body, None).await?;
        if is_final(response.0.status()) {
            return Ok(response.0);
        }
        Box::pin(self.send_again(method, url, headers, body, response)).await
    }

    /// Continues a request that was redirected or rejected.
    async fn send_again(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        mut response: (Response, bool),
    ) -> Result<Response, HttpError> {
        let mut url = url.clone();
        let mut refusal: Option<Challenge> = None;
        let mut redirects = 0;
        loop {
            let (refused, given) = response;
            let status = refused.status();
            if is_final(status) {
                return Ok(refused);
            }
            if let Some(next) = self.redirected(&method, &url, &refused)? {
                redirects += 1;
                if redirects > MAX_REDIRECTS {
                    return Err(HttpError::RedirectLoop(status));
                }
                url = next;
            } else {
                let times = refusal.map_or(1, |refusal| refusal.times + 1);
                refusal = Some(self.refused(refused, given, times).await?);
            }
            response = self.send_once(&method, &url, &headers, &body, refusal.as_ref()).await?;
        }
    }

    /// Returns the response, and whether the request had an `Authorization`.
    async fn send_once(
        &self,
        method: &Method,
        url: &Url,
        headers: &HeaderMap,
        body: &Bytes,
        refusal: Option<&Challenge>,
    ) -> Result<(Response, bool), HttpError> {
        let mut request = Request::new(body.clone());
        *request.method_mut() = method.clone();
        *request.uri_mut() = self.uri(url)?;
        *request.headers_mut() = headers.clone();
        if let Some(authorizer) = &self.authorizer {
            let authorizable = Authorizable { method, url, refusal };
            let credentials = authorizer.authorize(&authorizable).await.map_err(HttpError::Authorize)?;
            replace(request.headers_mut(), &credentials);
        }
        let given = request.headers().contains_key(AUTHORIZATION);
        let response = self.client.send(request).await.map_err(|error| self.failed(error))?;
        Ok((response, given))
    }

    /// Adds the headers of all requests to those of one request, which take precedence.
    fn with_own(&self, mut headers: HeaderMap) -> HeaderMap {
        for name in self.headers.keys() {
            if !headers.contains_key(name) {
                for value in self.headers.get_all(name) {
                    headers.append(name, value.clone());
                }
            }
        }
        headers
    }

    fn uri(&self, url: &Url) -> Result<Uri, HttpError> {
        if *url == self.url {
            return Ok(self.uri.clone());
        }
        Uri::try_from(url.as_str()).map_err(|_| HttpError::Url(origin(url)))
    }

    /// Returns the target of a redirect. Only within the origin, and only if the same request may be repeated.
    fn redirected(&self, method: &Method, url: &Url, response: &Response) -> Result<Option<Url>, HttpError> {
        let status = response.status();
        let repeats = match status {
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            // Browsers turn these into a GET. A message must be posted, so the POST is repeated.
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => true,
            StatusCode::SEE_OTHER => *method == Method::GET,
            _ => return Ok(None),
        };
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let target = location.and_then(|location| url.join(location).ok()).filter(|_| repeats);
        let Some(target) = target else { return Err(HttpError::RedirectLoop(status)) };
        if target.origin() != self.url.origin() {
            return Err(HttpError::Redirect { from: self.server(), to: origin(&target) });
        }
        Ok(Some(target))
    }

    /// Handles a rejection. Returns it for a retry with other credentials, or an error.
    async fn refused(&self, response: Response, given: bool, times: u32) -> Result<Challenge, HttpError> {
        let status = response.status();
        let refusal = Challenge { status, headers: response.headers().clone(), times };
        let decision = match &self.authorizer {
            Some(authorizer) if times <= MAX_REFUSALS => {
                authorizer.refused(&refusal).await.map_err(HttpError::Authorize)?
            }
            _ => Decision::GiveUp,
        };
        if decision == Decision::TryAgain {
            return Ok(refusal);
        }
        let challenge = refusal.headers.get(WWW_AUTHENTICATE);
        let challenge = challenge.map(|challenge| String::from_utf8_lossy(challenge.as_bytes()).into_owned());
        let body = refusal_text(self, response).await;
        Err(HttpError::Unauthorized { status, challenge, given, body })
    }

    /// Converts an error of the HTTP client.
    fn failed(&self, error: SendError) -> HttpError {
        let server = self.server();
        let other = match self.url.scheme() {
            "https" if error.is_not_tls() => Some(("TLS", "http")),
            "http" if error.is_not_http() => Some(("plain HTTP", "https")),
            _ => None,
        };
        match other {
            Some((spoken, other)) => HttpError::Scheme { server, spoken, other, source: Arc::new(error) },
            None if error.is_connect() => HttpError::Connect { server, source: Arc::new(error) },
            None => broken_connection(server, error),
        }
    }
}

/// Returns the error for a connection that closed too early.
pub(super) fn broken_connection(server: String, error: SendError) -> HttpError {
    HttpError::Broken { server, source: Arc::new(error) }
}

/// Returns `true` for a status that is neither a redirect nor a rejection of credentials.
fn is_final(status: StatusCode) -> bool {
    !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308 | 401 | 403)
}

/// Runs a request with a timeout.
pub(super) async fn with_timeout<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(HttpError::TimedOut(limit)))
}

/// Returns the scheme, host and port.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Replaces headers of the same name.
fn replace(headers: &mut HeaderMap, others: &HeaderMap) {
    for (name, value) in others {
        headers.insert(name.clone(), value.clone());
    }
}
