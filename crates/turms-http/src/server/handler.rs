//! The interface between a listener and the service it serves.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use turms_core::BoxFuture;

use super::PeerAddress;
use super::request::RequestHead;
use super::request::body::{self, BodyError};
use super::response::HttpBody;

/// Handles HTTP requests, and can be shut down.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be served by `Listener::serve`",
    note = "`tower` services, such as the router of an application, are served by `Listener::serve_tower`"
)]
pub trait HttpHandler: Send + Sync + 'static {
    /// `true` if connections may be upgraded, for example to WebSocket. The request then has hyper's `OnUpgrade`
    /// extension.
    const UPGRADES: bool = false;

    /// Checks a request by its head, before its body is read.
    ///
    /// # Errors
    /// The response to a rejected request. Its body is not read.
    fn check(&self, head: &mut RequestHead) -> impl Future<Output = Result<BodyLimit, Box<Response<HttpBody>>>> + Send;

    /// Handles a request that passed the check.
    fn handle(
        &self,
        head: RequestHead,
        body: Result<Bytes, BodyError>,
    ) -> impl Future<Output = Response<HttpBody>> + Send;

    /// Returns the response to bytes that are not a valid request: the reason as plain text.
    fn reject(&self, status: StatusCode, reason: String) -> Response<HttpBody> {
        let mut response = Response::new(HttpBody::whole(reason));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    }

    /// Resolves when the handler requests a shutdown.
    fn shutdown_requested(&self) -> BoxFuture<'static, ()>;

    /// Begins the shutdown: ends streams that do not belong to a call. Running calls may finish.
    fn begin_shutdown(&self);

    /// Closes everything that is still open.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Limits for the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimit(pub(super) Option<(usize, Duration)>);

impl BodyLimit {
    /// Creates limits from a maximum length in bytes and a timeout for the whole body.
    #[must_use]
    pub const fn new(max_length: usize, timeout: Duration) -> Self {
        Self(Some((max_length, timeout)))
    }

    /// Creates a limit for a body that is not read.
    #[must_use]
    pub const fn unread() -> Self {
        Self(None)
    }
}

/// Handles a request that another HTTP implementation has parsed.
pub(super) async fn handle_request<H, B>(
    handler: &H,
    request: Request<B>,
    peer: Option<PeerAddress>,
) -> Response<HttpBody>
where
    H: HttpHandler,
    B: Body + Send,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    let (parts, body) = request.into_parts();
    let is_head_request = parts.method == Method::HEAD;
    let mut head = RequestHead::from_parts(parts, peer);
    let response = match handler.check(&mut head).await {
        Err(response) => *response,
        Ok(BodyLimit(None)) => handler.handle(head, Ok(Bytes::new())).await,
        Ok(BodyLimit(Some((max_length, timeout)))) => {
            let body = body::read(body, max_length, timeout).await;
            handler.handle(head, body).await
        }
    };
    let response = HttpBody::with_headers(response);
    if is_head_request { without_body(response) } else { response }
}

/// Removes the body from the response to a `HEAD` request, which hyper does not do in HTTP/2.
fn without_body(mut response: Response<HttpBody>) -> Response<HttpBody> {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    response.map(|_| HttpBody::empty())
}
