//! The URL of a server, and requests to it: headers, credentials, redirects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use turms_core::{CallClock, ClockPauses, ConnectContext};
use url::Url;

use super::error::HttpError;
use super::http_client::{HttpClient, ResponseBody, SendError};
use super::reply::{refusal_text, sent_secrets};
use super::sent_secrets::SentSecrets;
use super::{DRAIN_TIMEOUT, DRAIN_YIELDS};
use crate::authorize::{AuthorizeAttempts, AuthorizeError, RequestPurpose, ServerAuthorizer, is_rejection};
use crate::challenge::Challenge;

/// The URL of a server, and the options of all requests to it.
pub(super) struct HttpEndpoint {
    pub(super) url: Url,
    /// The same URL, parsed for requests.
    pub(super) uri: Uri,
    pub(super) client: Arc<HttpClient>,
    pub(super) headers: HeaderMap,
    pub(super) authorizer: Option<ServerAuthorizer>,
    /// Maximum size of a response or an event, in bytes.
    pub(super) max_message_bytes: usize,
    /// Maximum number of responses that a session posts at once.
    pub(super) max_concurrent_responses: usize,
}

pub(super) type Response = http::Response<ResponseBody>;

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: u32 = 5;

const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The purpose of a request, and the clocks that are stopped while its authorizer works.
#[derive(Clone, Copy)]
pub(super) struct RequestScope<'a> {
    purpose: RequestPurpose,
    clocks: &'a [CallClock],
    pauses: Option<&'a ClockPauses>,
}

impl<'a> RequestScope<'a> {
    /// A request for calls with these clocks.
    pub(super) fn call(clocks: &'a [CallClock], is_background: bool) -> Self {
        Self { purpose: purpose(is_background), clocks, pauses: None }
    }

    /// A request in the background.
    pub(super) fn stream(clocks: &'a [CallClock]) -> Self {
        Self::call(clocks, true)
    }

    /// The same calls, for a request that their caller does not wait for.
    pub(super) fn in_background(self) -> Self {
        Self { purpose: RequestPurpose::Stream, ..self }
    }

    /// The end of a session; its time includes the authorizer.
    pub(super) fn close() -> Self {
        Self { purpose: RequestPurpose::Close, clocks: &[], pauses: None }
    }

    async fn paused<F: Future>(self, work: F) -> F::Output {
        let _pauses: Vec<_> = self.clocks.iter().map(CallClock::pause).collect();
        match self.pauses {
            Some(pauses) => pauses.during(work).await,
            None => work.await,
        }
    }
}

/// A timeout for requests that does not include the work of the authorizer.
#[derive(Clone)]
pub(super) struct RequestTimer {
    clock: CallClock,
    limit: Duration,
    purpose: RequestPurpose,
    /// Pauses of other clocks, that wait for these requests.
    pauses: ClockPauses,
}

impl RequestTimer {
    pub(super) fn new(limit: Duration, is_background: bool, pauses: ClockPauses) -> Self {
        Self { clock: CallClock::new(Some(limit), None), limit, purpose: purpose(is_background), pauses }
    }

    /// The timer of the requests of a handshake.
    pub(super) fn connecting(cx: &ConnectContext) -> Self {
        Self::new(cx.client.handshake_timeout, cx.is_background, cx.pauses.clone())
    }

    pub(super) fn scope(&self) -> RequestScope<'_> {
        let Self { clock, purpose, pauses, .. } = self;
        RequestScope { purpose: *purpose, clocks: std::slice::from_ref(clock), pauses: Some(pauses) }
    }

    /// Runs `work`, which follows the pauses of other requests.
    pub(super) async fn follow<F: Future>(&self, work: F) -> F::Output {
        self.pauses.follow(std::slice::from_ref(&self.clock), work).await
    }

    /// Runs one step, which has the whole timeout.
    pub(super) async fn run<T>(&self, step: impl Future<Output = Result<T, HttpError>>) -> Result<T, HttpError> {
        self.clock.run(step).await.unwrap_or(Err(HttpError::TimedOut(self.limit)))
    }
}

fn purpose(is_background: bool) -> RequestPurpose {
    if is_background { RequestPurpose::Stream } else { RequestPurpose::Call }
}

/// A response, with the facts about its request that a rejection needs.
struct SentResponse {
    response: Response,
    /// `true` if the request had an `Authorization` header.
    was_authorized: bool,
}

impl HttpEndpoint {
    /// Posts a message. The response may have any status except for redirects, 401 and 403.
    pub(super) async fn post(
        &self,
        body: Bytes,
        headers: HeaderMap,
        scope: RequestScope<'_>,
    ) -> Result<Response, HttpError> {
        self.post_to(&self.url, body, headers, scope).await
    }

    pub(super) async fn post_to(
        &self,
        url: &Url,
        body: Bytes,
        mut headers: HeaderMap,
        scope: RequestScope<'_>,
    ) -> Result<Response, HttpError> {
        headers.insert(ACCEPT, JSON_OR_EVENTS);
        headers.insert(CONTENT_TYPE, JSON);
        self.send(&Method::POST, url, headers, body, scope).await
    }

    /// Opens an event stream.
    pub(super) async fn get(&self, mut headers: HeaderMap, scope: RequestScope<'_>) -> Result<Response, HttpError> {
        headers.insert(ACCEPT, EVENTS);
        headers.insert(CACHE_CONTROL, NO_STORE);
        self.send(&Method::GET, &self.url, headers, Bytes::new(), scope).await
    }

    /// Deletes a session.
    pub(super) async fn delete(&self, headers: HeaderMap) -> Result<Response, HttpError> {
        self.send(&Method::DELETE, &self.url, headers, Bytes::new(), RequestScope::close()).await
    }

    /// Returns the origin for error messages. The path and the query may contain a secret.
    pub(super) fn server(&self) -> String {
        origin(&self.url)
    }

    /// Sends a request. Follows redirects and obtains credentials.
    async fn send(
        &self,
        method: &Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        scope: RequestScope<'_>,
    ) -> Result<Response, HttpError> {
        let headers = self.with_own(headers);
        let mut attempts = AuthorizeAttempts::new(self.authorizer.as_ref(), method, scope.purpose);
        // The clone is for retries: the map itself has capacity for the credentials.
        let kept = headers.clone();
        let sent = self.send_once(method, url, headers, &body, scope, &mut attempts).await?;
        if is_final(sent.response.status()) {
            return Ok(sent.response);
        }
        Box::pin(self.send_again(method, url, kept, body, scope, attempts, sent)).await
    }

    /// Continues a request that was redirected or rejected.
    #[expect(clippy::too_many_arguments, reason = "the state of one request, in one place")]
    async fn send_again(
        &self,
        method: &Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        scope: RequestScope<'_>,
        mut attempts: AuthorizeAttempts<'_>,
        mut sent: SentResponse,
    ) -> Result<Response, HttpError> {
        let mut url = url.clone();
        let mut redirects = 0;
        loop {
            let status = sent.response.status();
            if is_final(status) {
                return Ok(sent.response);
            }
            if let Some(next) = self.redirected(method, &url, &sent.response)? {
                redirects += 1;
                if redirects > MAX_REDIRECTS {
                    return Err(HttpError::RedirectLoop(status));
                }
                url = next;
            } else {
                self.rejected(&url, sent, scope, &mut attempts).await?;
            }
            sent = self.send_once(method, &url, headers.clone(), &body, scope, &mut attempts).await?;
        }
    }

    async fn send_once(
        &self,
        method: &Method,
        url: &Url,
        headers: HeaderMap,
        body: &Bytes,
        scope: RequestScope<'_>,
        attempts: &mut AuthorizeAttempts<'_>,
    ) -> Result<SentResponse, HttpError> {
        let mut request = Request::new(body.clone());
        *request.method_mut() = method.clone();
        *request.uri_mut() = self.uri(url)?;
        *request.headers_mut() = headers;
        let credentials = match attempts.cached(url) {
            Some(credentials) => credentials,
            None => Box::pin(scope.paused(attempts.authorize(url))).await.map_err(|error| self.unauthorized(error))?,
        };
        credentials.apply(request.headers_mut());
        let was_authorized = request.headers().contains_key(AUTHORIZATION);
        let secrets = SentSecrets::of(request.headers());
        let mut response = self.client.send(request).await.map_err(|error| self.failed(error))?;
        if !response.status().is_success() {
            // For the error, in which the server may repeat them.
            response.extensions_mut().insert(secrets);
        }
        if let Some(authorizer) = &self.authorizer {
            authorizer.responded(url, response.status(), response.headers());
        }
        Ok(SentResponse { response, was_authorized })
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

    /// Handles a rejection. Returns an error unless the request is to be retried.
    async fn rejected(
        &self,
        url: &Url,
        sent: SentResponse,
        scope: RequestScope<'_>,
        attempts: &mut AuthorizeAttempts<'_>,
    ) -> Result<(), HttpError> {
        let SentResponse { mut response, was_authorized } = sent;
        let (status, mut headers) = (response.status(), std::mem::take(response.headers_mut()));
        sent_secrets(&response).hide_in_challenges(&mut headers);
        // A connection cannot be reused if its response is not read to the end.
        let body = tokio::time::timeout(DRAIN_TIMEOUT, refusal_text(self, response)).await.unwrap_or_default();
        let retries = scope.paused(attempts.rejected(status, &headers, url, was_authorized)).await;
        if retries.map_err(|error| self.unauthorized(error))? {
            // The task of the connection returns it to the pool.
            for _ in 0..DRAIN_YIELDS {
                tokio::task::yield_now().await;
            }
            return Ok(());
        }
        let challenges = Challenge::of_headers(&headers);
        Err(HttpError::Unauthorized { server: self.server(), status, challenges, was_authorized, body })
    }

    fn unauthorized(&self, source: AuthorizeError) -> HttpError {
        HttpError::Authorize { server: self.server(), source }
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
            None => closed_connection(server, error),
        }
    }
}

/// Returns the error for a connection that closed too early.
pub(super) fn closed_connection(server: String, error: SendError) -> HttpError {
    HttpError::Closed { server, source: Arc::new(error) }
}

/// Returns `true` for a status that is neither a redirect nor a rejection of credentials.
fn is_final(status: StatusCode) -> bool {
    !is_rejection(status) && !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Returns the scheme, host and port.
pub(super) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
