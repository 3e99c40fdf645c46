//! A tower layer that authorizes the requests of any HTTP client.

use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use http::header::AUTHORIZATION;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;
use turms_core::BoxFuture;
use turms_http::__internal::{AuthorizeAttempts, ServerAuthorizer, is_rejection};
use turms_http::{AuthorizeError, RequestPurpose};
use url::Url;

use super::oauth::OAuth;

impl OAuth {
    /// Returns a tower layer that adds the token to each request of an HTTP client, and repeats a rejected request with another.
    /// Logins are kept by the URL of the request, without its query.
    ///
    /// The bodies of requests are cloned, so they have to be in memory, such as `Bytes` or `Full<Bytes>`. The client must not follow
    /// redirects by itself: the token could reach another server.
    #[doc(alias = "interceptor")]
    #[must_use]
    pub fn layer(&self) -> OAuthLayer {
        OAuthLayer { oauth: self.clone() }
    }
}

/// Adds tokens to the requests of an HTTP client. Made by [`OAuth::layer`].
#[derive(Debug, Clone)]
pub struct OAuthLayer {
    oauth: OAuth,
}

impl<S> Layer<S> for OAuthLayer {
    type Service = OAuthService<S>;

    fn layer(&self, inner: S) -> OAuthService<S> {
        OAuthService { inner, oauth: self.oauth.clone() }
    }
}

/// An HTTP client that adds tokens to its requests. Made by [`OAuthLayer`].
#[derive(Clone)]
pub struct OAuthService<S> {
    inner: S,
    oauth: OAuth,
}

impl<S> fmt::Debug for OAuthService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthService").field("oauth", &self.oauth).finish_non_exhaustive()
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

impl<S, B, R> Service<Request<B>> for OAuthService<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
    B: Clone + Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<R>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each request is sent by a clone, which is asked when it is sent.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { this.send(request).await })
    }
}

impl<S> OAuthService<S> {
    async fn send<B, R>(mut self, request: Request<B>) -> Result<Response<R>, BoxError>
    where
        S: Service<Request<B>, Response = Response<R>, Error: Into<BoxError>>,
        B: Clone,
    {
        let url = Url::parse(&request.uri().to_string())
            .map_err(|_| AuthorizeError::new("the URL of the request is not absolute"))?;
        let method = request.method().clone();
        let authorizer = ServerAuthorizer::new(self.oauth.clone(), &url);
        let mut attempts = AuthorizeAttempts::new(Some(&authorizer), &method, RequestPurpose::Call);
        loop {
            let mut attempt = request.clone();
            let credentials = match attempts.cached(&url) {
                Some(credentials) => credentials,
                None => attempts.authorize(&url).await?,
            };
            credentials.apply(attempt.headers_mut());
            let was_authorized = attempt.headers().contains_key(AUTHORIZATION);
            poll_fn(|cx| self.inner.poll_ready(cx)).await.map_err(Into::into)?;
            let response = self.inner.call(attempt).await.map_err(Into::into)?;
            let (status, headers) = (response.status(), response.headers());
            authorizer.responded(&url, status, headers);
            if !is_rejection(status) || !attempts.rejected(status, headers, &url, was_authorized).await? {
                return Ok(response);
            }
        }
    }
}
