//! A small HTTP proxy: forwards plain requests, and opens tunnels for `CONNECT`.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};

/// A domain that only the proxy can resolve, to 127.0.0.1.
pub const DOMAIN: &str = "turms-test.invalid";

/// A proxy that runs until its runtime is shut down.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// The address of the proxy.
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Proxied>>>,
}

/// A request to the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxied {
    /// The HTTP method.
    pub method: String,
    /// The request target, as it was sent.
    pub target: String,
    /// The value of `Proxy-Authorization`.
    pub authorization: Option<String>,
}

type ProxyBody = Either<Incoming, Empty<Bytes>>;

impl Proxy {
    /// Starts a proxy. If `credentials` are set, requests must send them as `Proxy-Authorization`.
    pub async fn start(credentials: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), received: Arc::default() };
        let serving = proxy.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let proxy = serving.clone();
                let service = service_fn(move |request| proxy.clone().handle(request, credentials));
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection.with_upgrades());
            }
        });
        proxy
    }

    /// Returns the received requests.
    pub fn received(&self) -> Vec<Proxied> {
        self.received.lock().clone()
    }

    async fn handle(
        self,
        mut request: Request<Incoming>,
        credentials: Option<&str>,
    ) -> Result<Response<ProxyBody>, hyper_util::client::legacy::Error> {
        let authorization = request.headers_mut().remove(PROXY_AUTHORIZATION);
        let authorization = authorization.map(|value| value.to_str().unwrap().to_owned());
        let is_allowed = credentials.is_none() || authorization.as_deref() == credentials;
        self.received.lock().push(Proxied {
            method: request.method().to_string(),
            target: request.uri().to_string(),
            authorization,
        });
        if !is_allowed {
            let mut response = empty(StatusCode::PROXY_AUTHENTICATION_REQUIRED);
            response.headers_mut().insert(PROXY_AUTHENTICATE, "Basic realm=\"test\"".parse().unwrap());
            return Ok(response);
        }
        match request.uri().authority() {
            Some(authority) if request.method() == Method::CONNECT => {
                let target = resolve(authority.as_str());
                Ok(tunnel(&target, request).await)
            }
            // Requests to a proxy have absolute URLs.
            Some(_) => forward(request).await,
            None => Ok(empty(StatusCode::BAD_REQUEST)),
        }
    }
}

async fn tunnel(target: &str, request: Request<Incoming>) -> Response<ProxyBody> {
    let Ok(mut server) = TcpStream::connect(target).await else { return empty(StatusCode::BAD_GATEWAY) };
    tokio::spawn(async move {
        let client = hyper::upgrade::on(request).await.unwrap();
        // Either side may disconnect.
        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut server).await;
    });
    empty(StatusCode::OK)
}

async fn forward(mut request: Request<Incoming>) -> Result<Response<ProxyBody>, hyper_util::client::legacy::Error> {
    let target = resolve(&request.uri().to_string());
    *request.uri_mut() = target.parse().unwrap();
    // Remove `Host`: hyper's client sets it again, to the resolved address, which the server accepts.
    request.headers_mut().remove(HOST);
    let client: Client<HttpConnector, Incoming> = Client::builder(TokioExecutor::new()).build_http();
    Ok(client.request(request).await?.map(Either::Left))
}

/// Replaces [`DOMAIN`] by 127.0.0.1.
fn resolve(target: &str) -> String {
    target.replace(DOMAIN, "127.0.0.1")
}

fn empty(status: StatusCode) -> Response<ProxyBody> {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = status;
    response
}
