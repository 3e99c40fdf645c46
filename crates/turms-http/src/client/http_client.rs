//! The HTTP client of a connector: the pooled client of hyper-util, or a tower service that the application provides.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderValue, Request, Response, Uri};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tower_service::Service;
use turms_core::BoxFuture;
use turms_proto::format_duration;

use super::dialer::Dialer;

#[cfg(test)]
mod tests;

type BoxError = Box<dyn Error + Send + Sync>;

/// Sends requests to one server. Every request of the client goes through [`send`](Self::send).
pub(super) struct HttpClient {
    sender: RequestSender,
    /// Credentials for a proxy that forwards plain requests. For a tunnel (`CONNECT`), the dialer sends them.
    proxy_authorization: Option<HeaderValue>,
    read_timeout: Option<Duration>,
}

enum RequestSender {
    Hyper(Box<Client<Dialer, Full<Bytes>>>),
    Service(Arc<dyn ErasedHttpService>),
}

/// Maximum number of idle connections in the pool.
const MAX_IDLE: usize = 64;

impl HttpClient {
    /// A client that connects with this dialer.
    pub(super) fn new(dialer: Dialer, uri: &Uri, read_timeout: Option<Duration>) -> Self {
        let proxy_authorization = dialer.proxy_authorization(uri);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_max_idle_per_host(MAX_IDLE);
        Self { sender: RequestSender::Hyper(Box::new(builder.build(dialer))), proxy_authorization, read_timeout }
    }

    /// A client that hands all requests to a service.
    pub(super) fn with_service(service: Arc<dyn ErasedHttpService>, read_timeout: Option<Duration>) -> Self {
        Self { sender: RequestSender::Service(service), proxy_authorization: None, read_timeout }
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(&self, mut request: Request<Bytes>) -> Result<Response<ResponseBody>, SendError> {
        if let Some(credentials) = &self.proxy_authorization {
            request.headers_mut().entry(PROXY_AUTHORIZATION).or_insert_with(|| credentials.clone());
        }
        let sending = async {
            match &self.sender {
                RequestSender::Hyper(client) => {
                    let response = client.request(request.map(Full::new)).await.map_err(SendError::Client)?;
                    Ok(response.map(BodyKind::Hyper))
                }
                RequestSender::Service(service) => service.send(request).await.map_err(SendError::Service),
            }
        };
        let response = with_timeout(self.read_timeout, sending).await?;
        Ok(response.map(|kind| ResponseBody { kind, read_timeout: self.read_timeout }))
    }
}

/// The body of a response.
pub(super) struct ResponseBody {
    kind: BodyKind,
    read_timeout: Option<Duration>,
}

/// The kinds of bodies: that of hyper-util's client, which needs no box, or that of a service.
pub(super) enum BodyKind {
    Hyper(Incoming),
    Service(Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>),
}

impl ResponseBody {
    /// Returns the next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, SendError> {
        loop {
            let frame = async {
                match &mut self.kind {
                    BodyKind::Hyper(body) => body.frame().await.transpose().map_err(SendError::Body),
                    BodyKind::Service(body) => body.frame().await.transpose().map_err(SendError::Service),
                }
            };
            // Other frames are trailers, which are ignored.
            match with_timeout(self.read_timeout, frame).await?.map(http_body::Frame::into_data) {
                Some(Ok(data)) => return Ok(Some(data)),
                Some(Err(_)) => {}
                None => return Ok(None),
            }
        }
    }
}

async fn with_timeout<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, SendError>>,
) -> Result<T, SendError> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or(Err(SendError::ReadTimeout(limit))),
        None => work.await,
    }
}

/// A tower service of the application, type-erased.
pub(super) trait ErasedHttpService: Send + Sync {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<BodyKind>, BoxError>>;
}

/// Erases the type of a service. Each request is sent by a clone, because a tower service needs `&mut self`. The mutex
/// makes the service `Sync`; it is held only to clone it.
pub(super) fn boxed<S, B>(service: S) -> Arc<dyn ErasedHttpService>
where
    S: Service<Request<Bytes>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
    B: Body<Error: Into<BoxError>> + Send + 'static,
{
    Arc::new(Mutex::new(service))
}

impl<S, B> ErasedHttpService for Mutex<S>
where
    S: Service<Request<Bytes>, Response = Response<B>, Error: Into<BoxError>, Future: Send> + Clone + Send + 'static,
    B: Body<Error: Into<BoxError>> + Send + 'static,
{
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<BodyKind>, BoxError>> {
        let mut service = self.lock().clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            let response = service.call(request).await.map_err(Into::into)?;
            Ok(response.map(|body| BodyKind::Service(Box::pin(body.map_frame(to_bytes).map_err(Into::into)))))
        })
    }
}

fn to_bytes<D: Buf>(frame: http_body::Frame<D>) -> http_body::Frame<Bytes> {
    frame.map_data(|mut data| data.copy_to_bytes(data.remaining()))
}

/// Error for a request without a complete response.
#[derive(Debug)]
pub(super) enum SendError {
    Client(ClientError),
    Body(hyper::Error),
    Service(BoxError),
    ReadTimeout(Duration),
}

impl SendError {
    /// Returns `true` if there was no connection, so that nothing was sent.
    pub(super) fn is_connect(&self) -> bool {
        let is_refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        match self {
            Self::Client(error) => error.is_connect(),
            Self::Service(error) => find(&**error, &|error| {
                error.downcast_ref().is_some_and(ClientError::is_connect)
                    || error.downcast_ref().is_some_and(is_refused)
            }),
            Self::Body(_) | Self::ReadTimeout(_) => false,
        }
    }

    /// Returns `true` if the server did not use TLS.
    pub(super) fn is_not_tls(&self) -> bool {
        use rustls::{Error, InvalidMessage};
        let is = |error: &Error| matches!(error, Error::InvalidMessage(InvalidMessage::InvalidContentType));
        find(self, &|error| error.downcast_ref().is_some_and(is))
    }

    /// Returns `true` if the server did not send HTTP.
    pub(super) fn is_not_http(&self) -> bool {
        // hyper distinguishes a wrong version from other parse errors by the text only.
        let is = |error: &hyper::Error| error.is_parse() && error.to_string().starts_with("invalid HTTP version");
        find(self, &|error| error.downcast_ref().is_some_and(is))
    }
}

/// Searches an error and its sources. Includes the inner error of an `io::Error`, which its `source` skips.
fn find(error: &(dyn Error + 'static), is: &dyn Fn(&(dyn Error + 'static)) -> bool) -> bool {
    if is(error) {
        return true;
    }
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    match inner {
        Some(inner) => find(inner, is),
        None => error.source().is_some_and(|source| find(source, is)),
    }
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Client(error) if error.is_connect() => f.write_str("no connection"),
            Self::Client(_) => f.write_str("request failed"),
            Self::Body(_) => f.write_str("cannot read the response body"),
            Self::Service(_) => f.write_str("the HTTP service failed"),
            Self::ReadTimeout(limit) => write!(f, "the server sent nothing for {}", format_duration(*limit)),
        }
    }
}

impl Error for SendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Its own message only names the step that failed.
            Self::Client(error) => error.source(),
            Self::Body(error) => Some(error),
            Self::Service(error) => Some(&**error),
            Self::ReadTimeout(_) => None,
        }
    }
}
