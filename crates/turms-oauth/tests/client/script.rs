//! Scripted HTTP servers: each responds as its test defines, and records what it gets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use turms_core::BoxFuture;
use url::Url;

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Origin of the server.
    pub(crate) base: String,
}

impl Received {
    /// Returns a field of the form, or a parameter of the query.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let form = url::form_urlencoded::parse(&self.body).into_owned();
        self.query.iter().cloned().chain(form).find(|(own, _)| own == name).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn authorization(&self) -> Option<&str> {
        self.headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap())
    }

    /// Returns the id and the secret of `Authorization: Basic`.
    pub(crate) fn basic(&self) -> Option<String> {
        let value = self.authorization()?.strip_prefix("Basic ")?;
        Some(String::from_utf8(STANDARD.decode(value).unwrap()).unwrap())
    }
}

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self { status: StatusCode::from_u16(status).unwrap(), headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub(crate) fn text(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let reply = Self { body: body.into(), ..Self::status(status) };
        reply.with(CONTENT_TYPE.as_str(), content_type)
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
    pub(crate) fn json(status: u16, body: Value) -> Self {
        Self::text(status, "application/json", body.to_string())
    }

    pub(crate) fn error(status: u16, code: &str) -> Self {
        Self::json(status, json!({ "error": code }))
    }

    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).with(LOCATION.as_str(), location)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        self.headers.append(name, HeaderValue::from_str(value).unwrap());
        self
    }
}

/// A scripted server. It stops when it is dropped.
pub(crate) struct Script {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    serving: JoinHandle<()>,
}

impl Drop for Script {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Script {
    /// Starts a server on loopback.
    pub(crate) async fn start(respond: impl Fn(Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_async(move |request| Box::pin(std::future::ready(respond(request)))).await
    }

    /// Starts a server whose responses may wait.
    pub(crate) async fn start_async(
        respond: impl Fn(Received) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        Self::start_at("127.0.0.1:0", respond).await
    }

    pub(crate) async fn start_at(
        address: &str,
        respond: impl Fn(Received) -> BoxFuture<'static, Reply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (received, respond) = (Arc::<Mutex<Vec<Received>>>::default(), Arc::new(respond));
        let record = received.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (respond, record) = (respond.clone(), record.clone());
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let (respond, record) = (respond.clone(), record.clone());
                    async move {
                        let request = receive(request, address).await?;
                        record.lock().push(request.clone());
                        let Reply { status, headers, body } = respond(request).await;
                        let mut response = Response::new(Full::new(body));
                        (*response.status_mut(), *response.headers_mut()) = (status, headers);
                        Ok::<_, hyper::Error>(response)
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, received, serving }
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }

    /// Returns the requests for a path.
    pub(crate) fn at(&self, path: &str) -> Vec<Received> {
        self.received().into_iter().filter(|request| request.path == path).collect()
    }

    /// Returns the paths of all requests.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.received().into_iter().map(|request| request.path).collect()
    }
}

async fn receive(request: Request<hyper::body::Incoming>, address: SocketAddr) -> Result<Received, hyper::Error> {
    let (head, body) = request.into_parts();
    let query = head.uri.query().unwrap_or_default();
    Ok(Received {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: url::form_urlencoded::parse(query.as_bytes()).into_owned().collect(),
        headers: head.headers,
        body: body.collect().await?.to_bytes(),
        base: format!("http://{address}"),
    })
}

/// A response that a client got.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The HTTP client of the tests. It follows no redirects.
pub(crate) type PlainClient = Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>;

pub(crate) fn plain_client() -> PlainClient {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Sends a GET.
pub(crate) async fn get(url: &str) -> Answer {
    let response = plain_client().get(url.parse().unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    Answer { status: head.status, headers: head.headers, body: body.collect().await.unwrap().to_bytes() }
}

/// Returns the metadata of the resource `/mcp` of a scripted server.
pub(crate) fn resource_metadata(base: &str) -> Value {
    json!({ "resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["notes:read"] })
}

/// Returns the metadata of the authorization server of a scripted server.
pub(crate) fn server_metadata(base: &str) -> Value {
    json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "revocation_endpoint": format!("{base}/revoke"),
        "device_authorization_endpoint": format!("{base}/device_authorization"),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"],
        "authorization_response_iss_parameter_supported": true,
    })
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Returns a token response. Each has other tokens, which begin with `access-` and `refresh-`.
pub(crate) fn tokens() -> Value {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    json!({
        "access_token": format!("access-{number}"),
        "token_type": "Bearer",
        "expires_in": 3600,
        "refresh_token": format!("refresh-{number}"),
    })
}

/// Responds as an MCP server and its authorization server do that have no faults.
pub(crate) fn provider(request: &Received) -> Reply {
    let base = &request.base;
    match &*request.path {
        "/mcp" if request.authorization().is_some_and(|value| value.contains(" access-")) => {
            Reply::json(200, json!({ "ok": true }))
        }
        "/mcp" => {
            let url = format!("{base}/.well-known/oauth-protected-resource/mcp");
            Reply::status(401).with(WWW_AUTHENTICATE.as_str(), &format!("Bearer resource_metadata=\"{url}\""))
        }
        "/.well-known/oauth-protected-resource/mcp" => Reply::json(200, resource_metadata(base)),
        "/.well-known/oauth-authorization-server" => Reply::json(200, server_metadata(base)),
        "/register" => {
            let mut body = request.json();
            body["client_id"] = json!("registered-1");
            Reply::json(201, body)
        }
        "/authorize" => Reply::redirect(302, &callback(request, &[("code", "code-1"), ("iss", base)])),
        "/token" => Reply::json(200, tokens()),
        "/revoke" => Reply::status(200),
        _ => Reply::status(404),
    }
}

/// Returns the URL of the callback of an authorization request, with its state and these parameters.
pub(crate) fn callback(request: &Received, parameters: &[(&str, &str)]) -> String {
    let mut url = Url::parse(&request.field("redirect_uri").unwrap()).unwrap();
    url.query_pairs_mut().extend_pairs(parameters).append_pair("state", &request.field("state").unwrap());
    url.into()
}
