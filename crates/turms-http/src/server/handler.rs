//! What a listener serves.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use turms_core::BoxFuture;

use super::PeerAddress;
use super::request::RequestHead;
use super::request::body::{self, BodyProblem};
use super::response::HttpBody;

/// What answers requests and can be ended well.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not served by `Listener::serve`",
    note = "for `tower` services, such as the router of an application, there is `Listener::serve_tower`"
)]
pub trait Served: Send + Sync + 'static {
    /// Whether connections may be upgraded, to WebSocket for example. What upgrades one finds hyper's `OnUpgrade` among the
    /// extensions of its request.
    const UPGRADES: bool = false;

    /// Whether a request is let in, and how much of its body is wanted. Whoever is refused here need not send it.
    ///
    /// # Errors
    /// The answer to one that is not let in.
    fn admit(&self, head: &RequestHead) -> Result<WantedBody, Box<Response<HttpBody>>>;

    /// Answers a request that was let in.
    fn respond(
        &self,
        head: RequestHead,
        body: Result<Bytes, BodyProblem>,
    ) -> impl Future<Output = Response<HttpBody>> + Send;

    /// Comes when it is to serve nobody any more.
    fn ending(&self) -> BoxFuture<'static, ()>;

    /// Ends what would go on for ever, such as streams that belong to no call. What runs may finish.
    fn begin_closing(&self);

    /// Ends what is left, and waits for it.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// How much of the body of a request is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedBody(pub(super) Option<(usize, Duration)>);

impl WantedBody {
    /// Nothing of it.
    #[must_use]
    pub const fn nothing() -> Self {
        Self(None)
    }

    /// All of it, if it is at most so many bytes long and arrives in this time.
    #[must_use]
    pub const fn all(limit: usize, timeout: Duration) -> Self {
        Self(Some((limit, timeout)))
    }
}

/// Answers a request that came by any way.
pub(super) async fn answer<S, B>(service: &S, request: Request<B>, peer: Option<PeerAddress>) -> Response<HttpBody>
where
    S: Served,
    B: Body + Send,
    B::Data: Send,
    B::Error: std::fmt::Display,
{
    let (parts, body) = request.into_parts();
    let head = RequestHead::new(parts, peer);
    let body = match service.admit(&head) {
        Err(refusal) => return HttpBody::described(*refusal),
        Ok(WantedBody(None)) => Ok(Bytes::new()),
        Ok(WantedBody(Some((limit, timeout)))) => body::read(body, limit, timeout).await,
    };
    HttpBody::described(service.respond(head, body).await)
}
