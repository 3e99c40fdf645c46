//! HTTP requests and responses of an authorization server, and the `tower` service that handles them.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE,
    HeaderName, HeaderValue, LOCATION, PRAGMA, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, Limited};
use serde::Serialize;
use turms_core::BoxFuture;

use super::params::Params;
use super::refusal::Refusal;

/// Maximum size of a request body, in bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// Maximum length of a query, in bytes.
const MAX_QUERY_BYTES: usize = 8 * 1024;

/// Timeout for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) type HttpResponse = Response<Full<Bytes>>;

/// A request with its body.
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl HttpRequest {
    #[cfg(feature = "dev")]
    pub(crate) fn query(&self) -> Result<Params, Refusal> {
        Params::parse(&self.query)
    }

    /// Decodes a form in the body.
    pub(crate) fn form(&self) -> Result<Params, Refusal> {
        if !self.has_media_type("application/x-www-form-urlencoded") {
            return Err(Refusal::invalid_request("the content type is not application/x-www-form-urlencoded"));
        }
        let body = std::str::from_utf8(&self.body).map_err(|_| Refusal::invalid_request("the form is not UTF-8"))?;
        Params::parse(body)
    }

    pub(crate) fn has_media_type(&self, media_type: &str) -> bool {
        let content_type = self.header(&CONTENT_TYPE).unwrap_or_default();
        content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
    }

    /// Returns a header that appears once.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?;
        if values.next().is_some() { None } else { value.to_str().ok() }
    }

    /// Returns the token of an `Authorization` header with this scheme.
    pub(crate) fn authorization(&self, scheme: &str) -> Option<&str> {
        let (own, credentials) = self.header(&AUTHORIZATION)?.split_once(' ')?;
        own.eq_ignore_ascii_case(scheme).then_some(credentials.trim())
    }
}

/// An authorization server.
pub(crate) trait Application: Send + Sync + 'static {
    fn respond(&self, request: HttpRequest) -> BoxFuture<'_, HttpResponse>;
}

/// An authorization server as a `tower` service, to be mounted in an application. Cheap to clone.
///
/// Its paths begin with the path of the issuer, and with `/.well-known/` for the metadata.
#[derive(Clone)]
pub struct AuthorizationService(Arc<dyn Application>);

impl AuthorizationService {
    pub(crate) fn new(application: Arc<dyn Application>) -> Self {
        Self(application)
    }
}

impl fmt::Debug for AuthorizationService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationService").finish_non_exhaustive()
    }
}

impl<B> tower_service::Service<Request<B>> for AuthorizationService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = HttpResponse;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<HttpResponse, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let application = self.0.clone();
        Box::pin(async move {
            Ok(match read(request).await {
                Ok(request) => application.respond(request).await,
                Err(refusal) => refusal.into_response(),
            })
        })
    }
}

async fn read<B>(request: Request<B>) -> Result<HttpRequest, Refusal>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    if query.len() > MAX_QUERY_BYTES {
        return Err(Refusal::invalid_request("the query is too long").status(StatusCode::URI_TOO_LONG));
    }
    let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await;
    let body =
        body.map_err(|_| Refusal::invalid_request("the body is too slow").status(StatusCode::REQUEST_TIMEOUT))?;
    let body = body.map_err(|_| {
        Refusal::invalid_request("the body is incomplete or too large").status(StatusCode::PAYLOAD_TOO_LARGE)
    })?;
    Ok(HttpRequest {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: query.to_owned(),
        headers: head.headers,
        body: body.to_bytes(),
    })
}

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const ANY: HeaderValue = HeaderValue::from_static("*");

/// Creates a response with JSON, which must not be stored.
pub(crate) fn json_response(status: StatusCode, body: &impl Serialize) -> HttpResponse {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = response(status, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

/// Creates a response that must not be stored.
pub(crate) fn response(status: StatusCode, body: impl Into<Bytes>) -> HttpResponse {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Creates a response with a public document, which may be stored for a minute.
pub(crate) fn document(body: &impl Serialize) -> HttpResponse {
    let mut response = json_response(StatusCode::OK, body);
    response.headers_mut().remove(PRAGMA);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
    response
}

/// Creates a redirect that a browser follows with GET.
pub(crate) fn redirect(location: &str) -> HttpResponse {
    let Ok(location) = HeaderValue::from_str(location) else {
        return Refusal::invalid_request("the redirect URI is invalid").into_response();
    };
    let mut response = response(StatusCode::SEE_OTHER, Bytes::new());
    response.headers_mut().insert(LOCATION, location);
    response
}

pub(crate) fn not_found() -> HttpResponse {
    Refusal::new("not_found", "there is nothing at this path").status(StatusCode::NOT_FOUND).into_response()
}

pub(crate) fn method_not_allowed(allowed: &'static str) -> HttpResponse {
    Refusal::new("invalid_request", "the method is not allowed")
        .status(StatusCode::METHOD_NOT_ALLOWED)
        .header(ALLOW, HeaderValue::from_static(allowed))
        .into_response()
}

/// Allows scripts of all origins to read the response. None of these endpoints uses cookies.
pub(crate) fn with_cors(mut response: HttpResponse) -> HttpResponse {
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("DPoP-Nonce, WWW-Authenticate"));
    response
}

/// Creates the response to a CORS preflight request.
pub(crate) fn preflight() -> HttpResponse {
    let mut response = response(StatusCode::NO_CONTENT, Bytes::new());
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    let allowed = "Authorization, Content-Type, DPoP, MCP-Protocol-Version";
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    response
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    /// A body that never arrives.
    struct Silent;

    impl Body for Silent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_arrive_is_given_up() {
        let began = tokio::time::Instant::now();
        let refusal = read(Request::new(Silent)).await.map(|_| ()).unwrap_err();
        assert_eq!((refusal.into_response().status().as_u16(), began.elapsed().as_secs()), (408, 30));
    }
}
