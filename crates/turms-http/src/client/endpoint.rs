//! One server's address, and how requests get there: headers, credentials, redirects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use url::Url;

use super::authorize::{Authorizable, Authorizer, Challenge, Decision};
use super::error::HttpError;
use super::http_client::{HttpClient, ResponseBody, SendError};
use super::reply::said;

/// A server's address, and what every request to it has in common.
pub(super) struct Endpoint {
    pub(super) url: Url,
    /// The URL as requests have it.
    pub(super) uri: Uri,
    pub(super) client: Arc<HttpClient>,
    pub(super) headers: HeaderMap,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// How long an answer or an event may be.
    pub(super) limit: usize,
    /// Maximum number of answers that a session posts at once.
    pub(super) max_answers: usize,
}

pub(super) type Response = http::Response<ResponseBody>;

/// How often credentials are got for one request.
const MOST_REFUSALS: u32 = 3;

/// How often one request is sent elsewhere.
const MOST_REDIRECTS: u32 = 5;

const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const FRESH: HeaderValue = HeaderValue::from_static("no-store");

impl Endpoint {
    /// Posts a message. What comes back may be of any status but a redirect or a refusal of credentials.
    pub(super) async fn post(&self, body: Bytes, headers: HeaderMap) -> Result<Response, HttpError> {
        self.post_to(&self.url, body, headers).await
    }

    pub(super) async fn post_to(&self, url: &Url, body: Bytes, mut headers: HeaderMap) -> Result<Response, HttpError> {
        headers.insert(ACCEPT, EITHER);
        headers.insert(CONTENT_TYPE, JSON);
        self.send(Method::POST, url, headers, body).await
    }

    /// Asks for an event stream.
    pub(super) async fn get(&self, mut headers: HeaderMap) -> Result<Response, HttpError> {
        headers.insert(ACCEPT, EVENTS);
        headers.insert(CACHE_CONTROL, FRESH);
        self.send(Method::GET, &self.url, headers, Bytes::new()).await
    }

    /// Ends a session.
    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<Response, HttpError> {
        self.send(Method::DELETE, &self.url, headers, Bytes::new()).await
    }

    /// Whom errors name: no path and no query, which may hold a secret.
    pub(super) fn server(&self) -> String {
        origin(&self.url)
    }

    /// Sends a request, follows redirects and gets credentials.
    async fn send(&self, method: Method, url: &Url, headers: HeaderMap, body: Bytes) -> Result<Response, HttpError> {
        let headers = self.with_own(headers);
        let response = self.send_once(&method, url, &headers, &body, None).await?;
        if is_final(response.0.status()) {
            return Ok(response.0);
        }
        Box::pin(self.send_again(method, url, headers, body, response)).await
    }

    /// Goes on with a request that was redirected or refused.
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
                if redirects > MOST_REDIRECTS {
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

    /// Adds the headers of every request to those of one, which count more.
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

    /// Where a response sends us, if it does. Only within the origin, and only where the same request may be made again.
    fn redirected(&self, method: &Method, url: &Url, response: &Response) -> Result<Option<Url>, HttpError> {
        let status = response.status();
        let repeats = match status {
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            // Browsers make a GET of these. A message that is not posted is none, so it is posted again.
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => true,
            StatusCode::SEE_OTHER => *method == Method::GET,
            _ => return Ok(None),
        };
        let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
        let place = place.and_then(|place| url.join(place).ok()).filter(|_| repeats);
        let Some(place) = place else { return Err(HttpError::RedirectLoop(status)) };
        if place.origin() != self.url.origin() {
            return Err(HttpError::Redirect { from: self.server(), to: origin(&place) });
        }
        Ok(Some(place))
    }

    /// What becomes of a refusal: it is tried again with other credentials, or it stands.
    async fn refused(&self, response: Response, given: bool, times: u32) -> Result<Challenge, HttpError> {
        let status = response.status();
        let refusal = Challenge { status, headers: response.headers().clone(), times };
        let decision = match &self.authorizer {
            Some(authorizer) if times <= MOST_REFUSALS => {
                authorizer.refused(&refusal).await.map_err(HttpError::Authorize)?
            }
            _ => Decision::GiveUp,
        };
        if decision == Decision::TryAgain {
            return Ok(refusal);
        }
        let challenge = refusal.headers.get(WWW_AUTHENTICATE);
        let challenge = challenge.map(|challenge| String::from_utf8_lossy(challenge.as_bytes()).into_owned());
        let body = said(self, response).await;
        Err(HttpError::Unauthorized { status, challenge, given, body })
    }

    /// Explains an error of the HTTP client.
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
            None => broken(server, error),
        }
    }
}

/// Error for a connection that broke.
pub(super) fn broken(server: String, error: SendError) -> HttpError {
    HttpError::Broken { server, source: Arc::new(error) }
}

/// Returns `true` for a status that is neither a redirect nor a refusal of credentials.
fn is_final(status: StatusCode) -> bool {
    !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308 | 401 | 403)
}

/// Waits no longer than this.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(HttpError::TimedOut(limit)))
}

/// The scheme, the host and the port.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Puts headers in place of those of the same name.
fn replace(headers: &mut HeaderMap, others: &HeaderMap) {
    for (name, value) in others {
        headers.insert(name.clone(), value.clone());
    }
}
