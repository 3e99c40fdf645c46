//! One server's address, and how requests get there: headers, credentials, redirects.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::Url;

use super::authorize::{Authorizable, Authorizer, Challenge, Decision};
use super::error::HttpError;
use super::headers::{Headers, Line};
use super::reply::said;
use super::wire::{Head, Wire, WireBody, WireError};

/// A server's address, and what every request to it has in common.
pub(super) struct Endpoint {
    pub(super) url: Url,
    pub(super) way: Way,
    pub(super) headers: HeaderMap,
    pub(super) authorizer: Option<Arc<dyn Authorizer>>,
    /// How long an answer or an event may be.
    pub(super) limit: usize,
    /// Maximum number of answers that a session posts at once.
    pub(super) max_answers: usize,
}

/// How requests get to a server.
#[derive(Clone)]
pub(super) enum Way {
    Wire(Arc<Wire>),
    Reqwest(reqwest::Client),
}

/// How often credentials are got for one request.
const MOST_REFUSALS: u32 = 3;

/// How often one request is sent elsewhere.
const MOST_REDIRECTS: u32 = 5;

/// What can be read in answer to a POST.
const EITHER: Line<'static> = Line::fixed("accept", "application/json, text/event-stream");
const JSON: Line<'static> = Line::fixed("content-type", "application/json");
const EVENTS: Line<'static> = Line::fixed("accept", "text/event-stream");
const FRESH: Line<'static> = Line::fixed("cache-control", "no-store");

impl Endpoint {
    /// Posts a message. What comes back may be of any status but a redirect or a refusal of credentials.
    pub(super) fn post<'a>(
        &'a self,
        body: Bytes,
        headers: impl Into<Headers<'a>>,
    ) -> impl Future<Output = Result<Response, HttpError>> + Send + 'a {
        self.post_to(&self.url, body, headers.into())
    }

    pub(super) fn post_to<'a>(
        &'a self,
        url: &'a Url,
        body: Bytes,
        mut headers: Headers<'a>,
    ) -> impl Future<Output = Result<Response, HttpError>> + Send + 'a {
        headers.push(EITHER);
        headers.push(JSON);
        self.send(Method::POST, url, headers, body)
    }

    /// Asks for an event stream.
    pub(super) async fn get(&self, headers: &HeaderMap) -> Result<Response, HttpError> {
        let mut headers = Headers::from(headers);
        headers.push(EVENTS);
        headers.push(FRESH);
        self.send(Method::GET, &self.url, headers, Bytes::new()).await
    }

    /// Ends a session.
    pub(super) async fn delete(&self, headers: &HeaderMap) -> Result<Response, HttpError> {
        self.send(Method::DELETE, &self.url, headers.into(), Bytes::new()).await
    }

    /// Whom errors name: no path and no query, which may hold a secret.
    pub(super) fn server(&self) -> String {
        origin(&self.url)
    }

    /// Not an `async fn`, whose future would have room for its arguments twice.
    #[expect(clippy::manual_async_fn, reason = "see above")]
    fn send<'a>(
        &'a self,
        method: Method,
        url: &'a Url,
        headers: Headers<'a>,
        body: Bytes,
    ) -> impl Future<Output = Result<Response, HttpError>> + Send + 'a {
        async move {
            let mut moved = None;
            let mut refusal: Option<Challenge> = None;
            let mut redirects = 0;
            loop {
                let url = moved.as_ref().unwrap_or(url);
                let (response, given) = self.send_once(&method, url, &headers, &body, refusal.as_ref()).await?;
                let status = response.status;
                if let Some(next) = self.redirected(&method, url, &response)? {
                    redirects += 1;
                    if redirects > MOST_REDIRECTS {
                        return Err(HttpError::RedirectLoop(status));
                    }
                    moved = Some(next);
                } else if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
                    let times = refusal.map_or(1, |refusal| refusal.times + 1);
                    // Boxed, so that requests that are let in do not carry room for it.
                    refusal = Some(Box::pin(self.refused(response, given, times)).await?);
                } else {
                    return Ok(response);
                }
            }
        }
    }

    /// The response, and whether the request had an `Authorization`.
    async fn send_once(
        &self,
        method: &Method,
        url: &Url,
        headers: &Headers<'_>,
        body: &Bytes,
        refusal: Option<&Challenge>,
    ) -> Result<(Response, bool), HttpError> {
        let mut all = Headers { map: Cow::Borrowed(&headers.map), lines: Cow::Borrowed(&headers.lines) };
        if !self.headers.is_empty() {
            let mut own = self.headers.clone();
            for line in &*headers.lines {
                own.remove(&*line.name);
            }
            replace(&mut own, &headers.map);
            all.map = Cow::Owned(own);
        }
        if let Some(authorizer) = &self.authorizer {
            let request = Authorizable { method, url, refusal };
            replace(all.map.to_mut(), &authorizer.authorize(&request).await.map_err(HttpError::Authorize)?);
        }
        let given = all.contains(&AUTHORIZATION);
        let body = if *method == Method::POST { body } else { &Bytes::new() };
        let client = match &self.way {
            Way::Wire(wire) => {
                let sent = wire.send(method, url, &all, body).await;
                let (head, body) = sent.map_err(|error| self.failed(error.into()))?;
                return Ok((
                    Response { status: head.status, head: ResponseHead::Wire(head), body: Body::Wire(body) },
                    given,
                ));
            }
            Way::Reqwest(client) => client,
        };
        let request = client.request(method.clone(), url.clone()).headers(all.into_map());
        let request = if *method == Method::POST { request.body(body.clone()) } else { request };
        let mut response = request.send().await.map_err(|error| self.failed(error.into()))?;
        // An HTTP client that was brought along may follow redirects by itself.
        if response.url().origin() != self.url.origin() {
            return Err(HttpError::Redirect { from: self.server(), to: origin(response.url()) });
        }
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        Ok((Response { status, head: ResponseHead::Map(headers), body: Body::Reqwest(response) }, given))
    }

    /// Where a response sends us, if it does. Only within the origin, and only where the same request may be made again.
    fn redirected(&self, method: &Method, url: &Url, response: &Response) -> Result<Option<Url>, HttpError> {
        let status = response.status;
        let repeats = match status {
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            // Browsers make a GET of these. A message that is not posted is none, so it is posted again.
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => true,
            StatusCode::SEE_OTHER => *method == Method::GET,
            _ => return Ok(None),
        };
        let headers = response.headers();
        let place = headers.get(LOCATION).and_then(|place| place.to_str().ok());
        let place = place.and_then(|place| response.url(url).join(place).ok()).filter(|_| repeats);
        let Some(place) = place else { return Err(HttpError::RedirectLoop(status)) };
        if place.origin() != self.url.origin() {
            return Err(HttpError::Redirect { from: self.server(), to: origin(&place) });
        }
        Ok(Some(place))
    }

    /// What becomes of a refusal: it is tried again with other credentials, or it stands.
    async fn refused(&self, response: Response, given: bool, times: u32) -> Result<Challenge, HttpError> {
        let status = response.status;
        let refusal = Challenge { status, headers: response.headers().into_owned(), times };
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

    /// What a failure of the HTTP client means.
    fn failed(&self, failure: Failure) -> HttpError {
        let server = self.server();
        let (unsent, other) = match &failure {
            Failure::Reqwest(error) => (error.is_connect(), mixed_up(&self.url, error)),
            Failure::Wire(error) => (error.is_connect(), error.is_not_http().then_some(("plain HTTP", "https"))),
        };
        let source = failure.into_source();
        if let Some((spoken, other)) = other {
            return HttpError::Scheme { server, spoken, other, source };
        }
        if unsent { HttpError::Connect { server, source } } else { HttpError::Broken { server, source } }
    }
}

/// What comes back: its head, and its body as it comes.
pub(super) struct Response {
    pub(super) status: StatusCode,
    head: ResponseHead,
    body: Body,
}

enum ResponseHead {
    Wire(Head),
    Map(HeaderMap),
}

enum Body {
    Wire(WireBody),
    Reqwest(reqwest::Response),
}

impl Response {
    /// All headers.
    pub(super) fn headers(&self) -> Cow<'_, HeaderMap> {
        match &self.head {
            ResponseHead::Wire(head) => Cow::Owned(head.headers()),
            ResponseHead::Map(headers) => Cow::Borrowed(headers),
        }
    }

    /// What is said about the content of the body; empty if nothing is.
    pub(super) fn content_type(&self) -> &str {
        let value = match &self.head {
            ResponseHead::Wire(head) => head.content_type(),
            ResponseHead::Map(headers) => headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default(),
        };
        std::str::from_utf8(value).ok().filter(|value| value.is_ascii()).unwrap_or_default()
    }

    /// Nobody looks at its headers any more.
    pub(super) fn forget_headers(&mut self) {
        self.head = ResponseHead::Map(HeaderMap::new());
    }

    /// The next piece of the body; `None` at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        match &mut self.body {
            Body::Wire(body) => body.piece().await.map_err(Failure::Wire),
            Body::Reqwest(response) => response.chunk().await.map_err(Failure::Reqwest),
        }
    }

    /// From where it came, if it was asked for at `url`.
    fn url<'a>(&'a self, url: &'a Url) -> &'a Url {
        match &self.body {
            Body::Wire(_) => url,
            Body::Reqwest(response) => response.url(),
        }
    }
}

/// Why a response, or the rest of one, did not come.
#[derive(Debug)]
pub(super) enum Failure {
    Wire(WireError),
    Reqwest(reqwest::Error),
}

impl Failure {
    fn into_source(self) -> Arc<dyn std::error::Error + Send + Sync> {
        match self {
            Self::Wire(error) => Arc::new(error),
            // The URL may hold a secret.
            Self::Reqwest(error) => Arc::new(error.without_url()),
        }
    }

    /// As an error of a connection to this server that was there.
    pub(super) fn into_broken(self, server: String) -> HttpError {
        HttpError::Broken { server, source: self.into_source() }
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        Self::Reqwest(error)
    }
}

/// Waits no longer than this.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, HttpError>>,
) -> Result<T, HttpError> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(HttpError::TimedOut(limit)))
}

/// What was spoken to a server that seems to speak the other of HTTP and HTTPS, and that other one.
fn mixed_up(url: &Url, error: &(dyn std::error::Error + 'static)) -> Option<(&'static str, &'static str)> {
    // Neither rustls nor hyper has a type for it that gets through the HTTP client.
    let says = |sign: &str| {
        let mut causes = std::iter::successors(Some(error), |error| error.source());
        causes.any(|cause| cause.to_string().contains(sign))
    };
    match url.scheme() {
        "https" if says("InvalidContentType") => Some(("TLS", "http")),
        "http" if says("invalid HTTP version parsed") => Some(("plain HTTP", "https")),
        _ => None,
    }
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
