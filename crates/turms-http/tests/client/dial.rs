//! Connections: proxies, TLS, HTTP/2, Unix sockets, the address check, and a custom HTTP client.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request as HttpRequest, Response as HttpResponse, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::connect::HttpConnector as PlainConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use turms_core::BoxFuture;
use turms_http::{DialAddress, DialError};
use turms_testkit::proxy::{DOMAIN, Proxied, Proxy};
use turms_testkit::tls::{CERTIFICATE, acceptor, tls_in_front_of};

use super::*;

/// `ann` with the password `p@1`, in a URL and as a header.
const IN_URL: &str = "ann:p%401";
const CREDENTIALS: &str = "Basic YW5uOnBAMQ==";

/// A server over TLS that records requests.
#[derive(Clone)]
struct SecureServer {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    seen: Arc<std::sync::Mutex<Vec<(Version, HeaderMap)>>>,
}

impl SecureServer {
    /// Starts a server that offers these protocols (ALPN).
    async fn start(protocols: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, connections: Arc::default(), seen: Arc::default() };
        let (serving, acceptor) = (server.clone(), acceptor(protocols));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // A client that does not trust the certificate closes the connection.
                let Ok(stream) = acceptor.accept(stream).await else { continue };
                serving.connections.fetch_add(1, Ordering::Relaxed);
                let serving = serving.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| serving.clone().handle(request));
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        server
    }

    async fn handle(self, request: HttpRequest<Incoming>) -> Result<HttpResponse<Full<Bytes>>, hyper::Error> {
        let (head, body) = request.into_parts();
        self.seen.lock().unwrap().push((head.version, head.headers));
        let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap();
        let id = body["id"].clone();
        let result = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "secure", "version": "1" } }
        });
        let response_body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
        let response = HttpResponse::builder().header("content-type", "application/json");
        Ok(response.body(Full::from(response_body)).unwrap())
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/mcp", self.address.port())
    }

    fn versions(&self) -> Vec<Version> {
        self.seen.lock().unwrap().iter().map(|(version, _)| *version).collect()
    }
}

fn trusting(server: &SecureServer) -> HttpConnector {
    HttpConnector::new(server.url()).unwrap().root_certificates(CERTIFICATE)
}

async fn calls(connector: &HttpConnector) -> Result<(), ConnectError> {
    let client = connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await?;
    send_request(&client, "tools/list", &json!({})).await.unwrap();
    Ok(())
}

async fn fails(connector: HttpConnector) -> String {
    chain(&within("an error", calls(&connector)).await.unwrap_err())
}

/// Returns the URL of a server with a host name that only the proxy can resolve.
fn behind_proxy(server: &FakeHttpServer) -> String {
    server.url().replace("127.0.0.1", DOMAIN)
}

#[tokio::test]
async fn a_proxy_forwards_plain_requests_and_gets_its_credentials() {
    let (server, proxy) = (FakeHttpServer::start(modern).await, Proxy::start(Some(CREDENTIALS)).await);
    let url = behind_proxy(&server);
    let connector = HttpConnector::new(&url).unwrap();
    calls(&connector.proxy(format!("http://{IN_URL}@{}", proxy.address))).await.unwrap();
    let forwarded =
        Proxied { method: "POST".to_owned(), target: url.clone(), authorization: Some(CREDENTIALS.to_owned()) };
    assert_eq!(proxy.received(), [forwarded.clone(), forwarded]);
    assert_eq!(server.methods(), ["server/discover", "tools/list"]);

    let message = fails(HttpConnector::new(&url).unwrap().proxy(format!("http://{}", proxy.address))).await;
    assert!(message.contains("status 407"), "{message}");
}

#[tokio::test]
async fn a_proxy_opens_a_tunnel_to_a_secure_server() {
    let (server, proxy) = (SecureServer::start(&["h2", "http/1.1"]).await, Proxy::start(Some(CREDENTIALS)).await);
    calls(&trusting(&server).proxy(format!("http://{IN_URL}@{}", proxy.address))).await.unwrap();
    let tunnel = Proxied {
        method: "CONNECT".to_owned(),
        target: format!("localhost:{}", server.address.port()),
        authorization: Some(CREDENTIALS.to_owned()),
    };
    assert_eq!(proxy.received(), [tunnel]);
    assert_eq!(server.versions(), [Version::HTTP_2; 2]);
    let seen = server.seen.lock().unwrap().clone();
    assert!(seen.iter().all(|(_, headers)| !headers.contains_key("proxy-authorization")), "{seen:?}");

    let message = fails(trusting(&server).proxy(format!("http://ann:wrong@{}", proxy.address))).await;
    assert!(
        message.contains("cannot connect through the proxy") && message.contains("authorization required"),
        "{message}"
    );
    assert!(!message.contains("wrong"), "{message}");
}

#[tokio::test]
async fn a_proxy_may_use_tls() {
    let proxy = Proxy::start(Some(CREDENTIALS)).await;
    let front = tls_in_front_of(proxy.address).await;
    let through = format!("https://{IN_URL}@localhost:{}", front.port());
    let server = SecureServer::start(&["h2"]).await;
    calls(&trusting(&server).proxy(&through)).await.unwrap();
    let plain = FakeHttpServer::start(modern).await;
    let connector = HttpConnector::new(behind_proxy(&plain)).unwrap();
    calls(&connector.root_certificates(CERTIFICATE).proxy(&through)).await.unwrap();
    let methods: Vec<_> = proxy.received().into_iter().map(|it| it.method).collect();
    assert_eq!(methods, ["CONNECT", "POST", "POST"]);
}

#[tokio::test]
async fn an_invalid_proxy_is_an_error_that_does_not_repeat_it() {
    for url in ["socks5://ann:secret@localhost:1", "ftp://ann:secret@localhost", "http://ann:secret@", ""] {
        let message = fails(HttpConnector::new("http://localhost:1/").unwrap().proxy(url)).await;
        assert!(message.contains("the URL of the proxy is invalid") && !message.contains("secret"), "{url}: {message}");
    }
}

#[tokio::test]
async fn a_private_root_is_trusted_if_it_is_given() {
    let server = SecureServer::start(&["http/1.1"]).await;
    calls(&trusting(&server).no_proxy()).await.unwrap();
    let message = fails(HttpConnector::new(server.url()).unwrap().no_proxy()).await;
    // A machine without any trusted certificates reports that instead.
    assert!(message.contains("invalid peer certificate") || message.contains("cannot set up TLS"), "{message}");
    let message = fails(HttpConnector::new(server.url()).unwrap().no_proxy().root_certificates("nothing")).await;
    assert!(message.contains("the root certificates are invalid"), "{message}");
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

/// HTTP/2 needs only one connection.
#[tokio::test]
async fn http_2_is_used_if_the_server_offers_it() {
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["h2"], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let server = SecureServer::start(protocols).await;
        let connector = trusting(&server).no_proxy();
        let client =
            connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap();
        let (one, other) = (json!({}), json!({}));
        let (one, other) =
            tokio::join!(send_request(&client, "tools/list", &one), send_request(&client, "prompts/list", &other));
        assert!(one.is_ok() && other.is_ok(), "{protocols:?}");
        assert_eq!(server.versions(), [version; 3], "{protocols:?}");
        if version == Version::HTTP_2 {
            assert_eq!(server.connections.load(Ordering::Relaxed), 1);
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_needs_no_proxy() {
    let path = std::env::temp_dir().join(format!("turms-http-dial-{}", std::process::id()));
    let (server, proxy) = (FakeHttpServer::start_on(&path, modern), Proxy::start(None).await);
    let connector = HttpConnector::new("http://localhost/mcp").unwrap().proxy(format!("http://ann@{}", proxy.address));
    calls(&connector.unix_socket(&path)).await.unwrap();
    let request = &server.received()[0];
    assert_eq!((request.path.as_str(), request.header("host")), ("/mcp", Some("localhost")));
    assert_eq!(request.header("proxy-authorization"), None);
    assert_eq!(proxy.received(), []);
    std::fs::remove_file(&path).unwrap();
    let message = fails(HttpConnector::new("http://localhost/mcp").unwrap().unix_socket(&path)).await;
    assert!(message.contains("cannot connect to the Unix socket"), "{message}");
}

fn no_loopback(address: &DialAddress<'_>) -> Result<(), &'static str> {
    if address.ip.is_loopback() && !address.is_proxy { Err("loopback is not allowed") } else { Ok(()) }
}

#[tokio::test]
async fn the_address_check_rejects_addresses() {
    let server = FakeHttpServer::start(modern).await;
    let port = server.origin.rsplit(':').next().unwrap().to_owned();
    // The last one is 127.0.0.1 as a number.
    for host in ["127.0.0.1", "localhost", "[::1]", "2130706433"] {
        let connector = HttpConnector::new(format!("http://{host}:{port}/mcp")).unwrap().no_proxy();
        let connector = connector.address_check(no_loopback);
        let error = calls(&connector).await.unwrap_err();
        let message = chain(&error);
        let errors = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let rejected = errors.map(unwrap_shared).find_map(|error| error.downcast_ref::<DialError>());
        assert!(
            matches!(rejected, Some(DialError::AddressRefused { ip, .. }) if ip.is_loopback()),
            "{host}: {message}"
        );
        assert!(message.ends_with("loopback is not allowed"), "{message}");
    }
    assert_eq!(server.connections(), 0);
    let allowed = connector(&server).address_check(|_| Ok::<_, Infallible>(()));
    calls(&allowed).await.unwrap();
}

/// Returns the error in an `Arc`.
fn unwrap_shared<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    error.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>().map_or(error, |inner| &**inner)
}

#[tokio::test]
async fn the_address_check_sees_proxies_and_literals_behind_them() {
    let (server, proxy) = (FakeHttpServer::start(modern).await, Proxy::start(None).await);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let check = |seen: &Arc<std::sync::Mutex<Vec<String>>>| {
        let seen = seen.clone();
        move |address: &DialAddress<'_>| {
            seen.lock().unwrap().push(format!("{} {} {}", address.host, address.ip.is_loopback(), address.is_proxy));
            no_loopback(address)
        }
    };
    let through = |host: &str| format!("http://{host}:{}", proxy.address.port());
    for host in ["localhost", "127.0.0.1"] {
        let named = HttpConnector::new(behind_proxy(&server)).unwrap().proxy(through(host)).address_check(check(&seen));
        calls(&named).await.unwrap();
        let mut proxies = std::mem::take(&mut *seen.lock().unwrap());
        proxies.dedup();
        assert_eq!(proxies, [format!("{host} true true")]);
    }

    let literal = HttpConnector::new(server.url()).unwrap().proxy(through("localhost")).address_check(check(&seen));
    let before = proxy.received().len();
    let message = fails(literal).await;
    assert!(message.ends_with("loopback is not allowed"), "{message}");
    assert_eq!(*seen.lock().unwrap(), ["127.0.0.1 true false"]);
    assert_eq!(proxy.received().len(), before);
}

/// A custom HTTP client that adds a header and requires `poll_ready`.
#[derive(Clone)]
struct MarkingClient {
    client: Client<PlainConnector, Full<Bytes>>,
    is_ready: bool,
}

impl tower_service::Service<HttpRequest<Bytes>> for MarkingClient {
    type Response = HttpResponse<Incoming>;
    type Error = ClientError;
    type Future = BoxFuture<'static, Result<Self::Response, ClientError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        if std::mem::replace(&mut self.is_ready, true) {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, mut request: HttpRequest<Bytes>) -> Self::Future {
        assert!(self.is_ready, "poll_ready comes first");
        request.headers_mut().insert("x-mark", "mine".parse().unwrap());
        Box::pin(self.client.request(request.map(Full::new)))
    }
}

fn marking_client() -> MarkingClient {
    MarkingClient { client: Client::builder(TokioExecutor::new()).build_http(), is_ready: false }
}

#[tokio::test]
async fn a_custom_http_client_sends_all_requests() {
    let server = FakeHttpServer::start(legacy).await;
    let connector = connector(&server).http_service(marking_client());
    let client =
        connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap();
    send_request(&client, "tools/list", &json!({})).await.unwrap();
    client.control.close().await;
    let received = server.received();
    assert!(received.iter().all(|request| request.header("x-mark") == Some("mine")), "{received:?}");
    let methods: Vec<_> = received.iter().map(|request| request.method.as_str()).collect();
    assert!(["POST", "GET", "DELETE"].iter().all(|method| methods.contains(method)), "{methods:?}");
}

#[tokio::test]
async fn a_custom_http_client_does_not_leave_the_origin() {
    let other = FakeHttpServer::start(modern).await;
    let elsewhere = other.url();
    let server = FakeHttpServer::start(move |_| Reply::status(307).with("location", &elsewhere)).await;
    let message = fails(connector(&server).http_service(marking_client())).await;
    assert!(message.contains("another origin: credentials are not sent there"), "{message}");
    assert_eq!(other.received().len(), 0);
}

#[tokio::test]
async fn a_custom_http_client_that_cannot_connect_has_sent_nothing() {
    let server = FakeHttpServer::start(modern).await;
    let connector = connector(&server).http_service(marking_client());
    let known = options().known(Dialect::Stateless(ProtocolVersion::LATEST));
    let client = connector.connect(ConnectContext::new(known, Arc::new(RecordingService::default()))).await.unwrap();
    let address = server.origin.trim_start_matches("http://").to_owned();
    drop(server);
    within("a free port", async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let error = send_request(&client, "tools/list", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerError::Unreachable { sent: false, .. }), "{error:?}");
}

#[tokio::test]
async fn a_user_and_a_password_in_the_url_are_sent_as_a_header() {
    let server = FakeHttpServer::start(modern).await;
    let url = server.url().replace("http://", &format!("http://{IN_URL}@"));
    let connector = HttpConnector::new(url).unwrap().no_proxy();
    calls(&connector).await.unwrap();
    let request = &server.received()[0];
    assert_eq!((request.header("authorization"), request.path.as_str()), (Some(CREDENTIALS), "/mcp"));
    assert!(!format!("{connector:?} {:?}", connector.identity()).contains("p%401"));
}
