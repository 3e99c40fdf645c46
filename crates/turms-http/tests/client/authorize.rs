//! Credentials, which are obtained before each request and again after a rejection.

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use turms_core::{BoxFuture, CallClock};
use turms_http::{
    AuthorizeError, AuthorizeRequest, AuthorizedResponse, Authorizer, BearerToken, Credentials, Decision,
    UnauthorizedResponse,
};
use url::Url;

use super::*;

/// Returns a new token after each rejection. Records what it is called with.
#[derive(Clone, Default)]
struct RenewingAuthorizer {
    tokens: Arc<AtomicUsize>,
    challenges: Arc<Mutex<Vec<String>>>,
    requests: Arc<Mutex<Vec<String>>>,
    rejections: Arc<Mutex<Vec<UnauthorizedResponse>>>,
}

impl Authorizer for RenewingAuthorizer {
    fn authorize<'a>(
        &'a self,
        request: &'a AuthorizeRequest<'a>,
    ) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        let AuthorizeRequest { method, url, purpose, attempt, .. } = request;
        self.requests.lock().unwrap().push(format!("{method} {} {purpose:?} {attempt}", url.path()));
        let number = self.tokens.load(Ordering::Relaxed);
        let value = HeaderValue::from_str(&format!("Bearer token-{number}")).unwrap();
        Box::pin(async move { Ok(Credentials::new(value).serial(number as u64)) })
    }

    fn rejected<'a>(&'a self, response: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        self.tokens.fetch_add(1, Ordering::Relaxed);
        self.rejections.lock().unwrap().push(response.clone());
        let challenges = response.challenges();
        let challenges = challenges.iter().map(|challenge| format!("{} {challenge}", response.status.as_u16()));
        self.challenges.lock().unwrap().extend(challenges);
        Box::pin(async { Ok(Decision::Retry) })
    }
}

impl RenewingAuthorizer {
    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn context() -> ConnectContext {
    ConnectContext::new(options(), Arc::new(RecordingService::default()))
}

/// Starts a server that only accepts this token.
async fn requiring(token: &'static str, status: u16) -> FakeHttpServer {
    FakeHttpServer::start(move |request| match request.header("authorization") == Some(token) {
        true => modern(request),
        false => Reply::status(status).with("WWW-Authenticate", "Bearer scope=\"a\""),
    })
    .await
}

#[tokio::test]
async fn a_rejected_request_is_retried_with_other_credentials() {
    for status in [401, 403] {
        let server = requiring("Bearer token-2", status).await;
        let authorizer = RenewingAuthorizer::default();
        let connector = connector(&server).authorizer(authorizer.clone());
        let client =
            connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap();
        assert_eq!(client.negotiated.dialect, Dialect::Stateless(ProtocolVersion::LATEST));
        let challenge = format!("{status} Bearer scope=\"a\"");
        assert_eq!(*authorizer.challenges.lock().unwrap(), [challenge.clone(), challenge]);
        // Each retry repeats the same request.
        assert_eq!(server.methods(), ["server/discover"; 3]);
        send_request(&client, "tools/list", &json!({})).await.unwrap();
        assert_eq!(server.received().len(), 4);
    }
}

#[tokio::test]
async fn the_number_of_retries_is_limited() {
    let server = requiring("none", 403).await;
    let authorizer = RenewingAuthorizer::default();
    let connector = connector(&server).authorizer(authorizer.clone());
    let error =
        connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap_err();
    assert!(chain(&error).contains("status 403"), "{}", chain(&error));
    assert!(matches!(error, ConnectError::Unauthorized { .. }) && !error.is_transient());
    let rejections = authorizer.rejections.lock().unwrap();
    let seen: Vec<_> = rejections.iter().map(|it| (it.sent, it.rejections, it.was_authorized)).collect();
    assert_eq!(seen, [(Some(0), 1, true), (Some(1), 2, true), (Some(2), 3, true)]);
    assert_eq!((authorizer.tokens.load(Ordering::Relaxed), server.received().len()), (3, 4));
}

#[tokio::test]
async fn a_token_and_headers_are_sent_with_every_request_and_not_shown() {
    let server = FakeHttpServer::start(legacy).await;
    let token = BearerToken::new("s3cret").unwrap();
    assert!(!format!("{token:?}").contains("s3cret"));
    let connector = connector(&server)
        .authorizer(token)
        .header(HeaderName::from_static("x-key"), HeaderValue::from_static("k3y"))
        .header(HeaderName::from_static("content-type"), HeaderValue::from_static("text/plain"));
    assert!(!format!("{connector:?}").contains("k3y"));
    let client =
        connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap();
    client.control.close().await;
    server.wait_for("DELETE", 1).await;
    for request in server.received() {
        assert_eq!(request.header("authorization"), Some("Bearer s3cret"), "{request:?}");
        assert_eq!(request.header("x-key"), Some("k3y"));
    }
    assert_eq!(server.received()[0].header("content-type"), Some("application/json"));
    assert!(BearerToken::new("a\nb").is_err());
}

#[tokio::test]
async fn missing_credentials_are_reported() {
    let server = requiring("Bearer x", 401).await;
    let error = open(&server, options()).await.unwrap_err();
    let origin = &server.origin;
    assert_eq!(
        chain(&error),
        format!(
            "cannot connect to {origin}: not authorized: {origin} responded with status 401 Unauthorized: \
             authorization is required, and the request had none"
        )
    );
    assert!(matches!(error, ConnectError::Unauthorized { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_repeats_the_credentials_does_not_show_them() {
    for token in ["s3cret".to_owned(), "s3cret".repeat(200)] {
        for status in [400, 401, 403, 500] {
            let server = FakeHttpServer::start(move |request| {
                let sent = format!("{:?} {:?}", request.header("authorization"), request.header("x-key"));
                let sent = sent.replace('"', "'");
                let challenge = format!("Bearer error=\"{sent}\", error_description=\"{sent}\"");
                Reply::text(status, "text/plain", &sent).with("WWW-Authenticate", &challenge)
            })
            .await;
            let connector =
                connector(&server).authorizer(BearerToken::new(&token).unwrap()).header("x-key", "k3y-s3cret");
            let error = connector.connect(context()).await.unwrap_err();
            let text = format!("{} {error:?} {error:#?}", chain(&error));
            assert!(text.contains("[..]") && !text.contains("s3cret"), "{text}");
        }
    }
}

#[tokio::test]
async fn the_texts_of_a_rejection_are_shortened() {
    let server = FakeHttpServer::start(|_| {
        let giant = "x".repeat(50_000);
        let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": giant } });
        Reply::json(403, &error).with("WWW-Authenticate", &format!("Bearer error={giant}, error_description={giant}"))
    })
    .await;
    let error = open(&server, options()).await.unwrap_err();
    assert!(chain(&error).len() < 2000, "{} bytes", chain(&error).len());
}

async fn rejecting(reply: Reply) -> FakeHttpServer {
    FakeHttpServer::start(move |_| reply.clone()).await
}

#[tokio::test]
async fn the_message_of_a_rejection_is_shown() {
    let text = "this server does not serve the host \"vm\"";
    let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": text } });
    for reply in [Reply::json(403, &error), Reply::text(403, "text/plain", text)] {
        let server = rejecting(reply).await;
        let error = open(&server, options()).await.unwrap_err();
        let (origin, message) = (&server.origin, chain(&error));
        let expected = format!("{origin}: not authorized: {origin} responded with status 403 Forbidden: {text:?}");
        assert_eq!(message, format!("cannot connect to {expected}"));
    }
}

#[tokio::test]
async fn a_missing_token_and_a_rejected_token_have_different_messages() {
    let wrong = "Bearer error=\"invalid_token\", error_description=\"it has expired\"";
    let server = rejecting(Reply::text(401, "text/plain", "token please").with("WWW-Authenticate", wrong)).await;
    let without = chain(&open(&server, options()).await.unwrap_err());
    let details = ": \"invalid_token\", \"it has expired\": \"token please\"";
    assert!(without.contains("authorization is required, and the request had none"), "{without}");
    assert!(without.ends_with(details), "{without}");
    let connector = connector(&server).authorizer(BearerToken::new("old").unwrap());
    let with = chain(
        &connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap_err(),
    );
    assert!(with.contains("the server rejected the authorization of the request"), "{with}");
    assert!(with.ends_with(details), "{with}");
}

#[tokio::test]
async fn an_unauthorized_call_has_not_run() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => Reply::status(401),
        _ => modern(request),
    })
    .await;
    let client = connect(&server).await;
    let error = send_request(&client, "tools/call", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerError::Unauthorized(_)), "{error:?}");
    assert!(chain(&error).contains("status 401"), "{}", chain(&error));
}

#[tokio::test]
async fn headers_may_be_text_and_invalid_ones_are_reported() {
    let server = FakeHttpServer::start(modern).await;
    let client = connector(&server)
        .header("x-key", "abc")
        .connect(ConnectContext::new(options(), Arc::new(RecordingService::default())))
        .await;
    drop(client.unwrap());
    assert_eq!(server.received()[0].header("x-key"), Some("abc"));
    let error_of = |connector: HttpConnector| async move {
        chain(
            &connector
                .connect(ConnectContext::new(options(), Arc::new(RecordingService::default())))
                .await
                .unwrap_err(),
        )
    };
    let value = error_of(connector(&server).header("x-key", "s3cret\n")).await;
    assert!(value.contains("invalid value of the header \"x-key\""), "{value}");
    assert!(!value.contains("s3cret"), "{value}");
    let name = error_of(connector(&server).header("no name", "x")).await;
    assert!(name.contains("invalid header name"), "{name}");
}

#[tokio::test]
async fn a_client_sends_a_user_agent() {
    let server = FakeHttpServer::start(modern).await;
    drop(connect(&server).await);
    let own = concat!("turms/", env!("CARGO_PKG_VERSION"));
    assert_eq!(server.received()[0].header("user-agent"), Some(own));
    let connector = connector(&server).header("user-agent", "mine");
    drop(connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap());
    assert_eq!(server.received()[1].header("user-agent"), Some("mine"));
}

/// Returns the given decisions in order, and `Fail` after the last one.
#[derive(Clone)]
struct ScriptedAuthorizer(Arc<Mutex<Vec<Decision>>>, Arc<AtomicUsize>);

impl ScriptedAuthorizer {
    fn new(decisions: &[Decision]) -> Self {
        Self(Arc::new(Mutex::new(decisions.iter().rev().copied().collect())), Arc::default())
    }
}

impl Authorizer for ScriptedAuthorizer {
    fn authorize<'a>(&'a self, _: &'a AuthorizeRequest<'a>) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        Box::pin(std::future::ready(Ok(Credentials::none())))
    }

    fn rejected<'a>(&'a self, _: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let decision = self.0.lock().unwrap().pop().unwrap_or(Decision::Fail);
        Box::pin(std::future::ready(Ok(decision)))
    }
}

#[tokio::test]
async fn a_retry_with_a_nonce_does_not_count_and_is_not_granted_twice_in_a_row() {
    use Decision::{Fail, Retry, RetryWithNonce};
    let with_nonces = [RetryWithNonce, Retry, RetryWithNonce, Retry, RetryWithNonce, Retry, RetryWithNonce];
    // The decisions, the number of requests at the server, and the number of calls of `rejected`.
    let cases: &[(&[Decision], usize, usize)] = &[
        (&with_nonces, 8, 7),
        (&[RetryWithNonce, RetryWithNonce, Retry], 2, 2),
        (&[Retry, Retry, Retry, Retry], 4, 4),
        (&[Fail], 1, 1),
    ];
    for (decisions, requests, calls) in cases {
        let server = rejecting(Reply::status(401).with("DPoP-Nonce", "n")).await;
        let authorizer = ScriptedAuthorizer::new(decisions);
        let error = connector(&server).authorizer(authorizer.clone()).connect(context()).await.unwrap_err();
        assert!(matches!(error, ConnectError::Unauthorized { .. }), "{error:?}");
        let seen = (server.received().len(), authorizer.1.load(Ordering::Relaxed));
        assert_eq!(seen, (*requests, *calls), "{decisions:?}");
    }
    // Without a nonce, the authorizer is not called after the last retry.
    let server = rejecting(Reply::status(401)).await;
    let authorizer = ScriptedAuthorizer::new(&[Retry; 9]);
    connector(&server).authorizer(authorizer.clone()).connect(context()).await.unwrap_err();
    assert_eq!((server.received().len(), authorizer.1.load(Ordering::Relaxed)), (4, 3));
}

#[tokio::test]
async fn concurrent_requests_see_the_serial_of_the_credentials_that_were_rejected() {
    /// Renews the token once for each serial number.
    #[derive(Clone, Default)]
    struct OncePerSerial {
        current: Arc<AtomicU64>,
        sent: Arc<Mutex<Vec<Option<u64>>>>,
    }

    impl Authorizer for OncePerSerial {
        fn cached(&self, _: &AuthorizeRequest<'_>) -> Option<Credentials> {
            let serial = self.current.load(Ordering::Relaxed);
            let value = HeaderValue::from_str(&format!("Bearer token-{serial}")).unwrap();
            Some(Credentials::new(value).serial(serial))
        }

        fn authorize<'a>(&'a self, _: &'a AuthorizeRequest<'a>) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
            unreachable!("the credentials are cached")
        }

        fn rejected<'a>(
            &'a self,
            response: &'a UnauthorizedResponse,
        ) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
            self.sent.lock().unwrap().push(response.sent);
            Box::pin(async move {
                // All requests of the test are rejected before the first is retried.
                while self.sent.lock().unwrap().len() < 100 {
                    tokio::task::yield_now().await;
                }
                let serial = response.sent.unwrap();
                let _ = self.current.compare_exchange(serial, serial + 1, Ordering::Relaxed, Ordering::Relaxed);
                Ok(Decision::Retry)
            })
        }
    }

    let server = FakeHttpServer::start(|request| match (request.what(), request.header("authorization")) {
        ("tools/call", Some("Bearer token-7")) => Reply::status(401),
        _ => modern(request),
    })
    .await;
    let authorizer = OncePerSerial::default();
    authorizer.current.store(7, Ordering::Relaxed);
    let client = connector(&server).authorizer(authorizer.clone()).connect(context()).await.unwrap();
    let params = json!({});
    let calls = (0..100).map(|_| send_request(&client, "tools/call", &params));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.unwrap();
    }
    assert_eq!(*authorizer.sent.lock().unwrap(), [Some(7); 100]);
    assert_eq!(authorizer.current.load(Ordering::Relaxed), 8);
}

/// An authorizer that creates a [`ForServer`] for each server. With `observes`, that one records responses.
#[derive(Clone, Default)]
struct PerServer {
    servers: Arc<Mutex<Vec<String>>>,
    responses: Arc<Mutex<Vec<String>>>,
    observes: bool,
}

struct ForServer(PerServer);

impl Authorizer for PerServer {
    fn for_server(&self, url: &Url) -> Option<Arc<dyn Authorizer>> {
        self.servers.lock().unwrap().push(url.as_str().to_owned());
        Some(Arc::new(ForServer(self.clone())))
    }

    fn authorize<'a>(&'a self, _: &'a AuthorizeRequest<'a>) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        unreachable!("each server has its own")
    }

    fn rejected<'a>(&'a self, _: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        unreachable!("each server has its own")
    }
}

impl Authorizer for ForServer {
    fn authorize<'a>(&'a self, _: &'a AuthorizeRequest<'a>) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        let name = HeaderName::from_static("x-server");
        Box::pin(std::future::ready(Ok(Credentials::none().header(name, HeaderValue::from_static("own")))))
    }

    fn rejected<'a>(&'a self, _: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        Box::pin(std::future::ready(Ok(Decision::Retry)))
    }

    fn responded(&self, response: &AuthorizedResponse<'_>) {
        let nonce = response.headers.get("dpop-nonce").and_then(|nonce| nonce.to_str().ok()).unwrap_or("-");
        let seen = format!("{} {} {nonce}", response.status.as_u16(), response.url.path());
        self.0.responses.lock().unwrap().push(seen);
    }

    fn observes_responses(&self) -> bool {
        self.0.observes
    }
}

#[tokio::test]
async fn each_connector_has_the_authorizer_of_its_server_which_observes_responses_if_it_wants_to() {
    for observes in [true, false] {
        let count = AtomicUsize::new(0);
        let server = FakeHttpServer::start(move |request| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::status(401).with("DPoP-Nonce", "rejected"),
            1 => Reply::status(307).with("location", "/mcp/other"),
            _ => modern(request).with("DPoP-Nonce", "fresh"),
        })
        .await;
        let authorizer = PerServer { observes, ..PerServer::default() };
        // Applications share an authorizer in an `Arc`.
        let connector = connector(&server).authorizer(Arc::new(authorizer.clone()));
        for _ in 0..2 {
            connector.connect(context()).await.unwrap();
        }
        assert_eq!(*authorizer.servers.lock().unwrap(), [server.url()]);
        assert!(server.received().iter().all(|request| request.header("x-server") == Some("own")));
        let seen = authorizer.responses.lock().unwrap().clone();
        match observes {
            true => assert_eq!(seen, ["307 /mcp -", "200 /mcp/other fresh", "200 /mcp fresh"]),
            false => assert_eq!(seen, [""; 0]),
        }
    }
}

#[tokio::test]
async fn each_redirect_is_authorized_with_its_own_url() {
    let server = FakeHttpServer::start(|request| match request.path.as_str() {
        "/mcp" => Reply::status(307).with("location", "/other?x=1"),
        _ => modern(request),
    })
    .await;
    let authorizer = RenewingAuthorizer::default();
    connector(&server).authorizer(authorizer.clone()).connect(context()).await.unwrap();
    assert_eq!(authorizer.requests(), ["POST /mcp Call 0", "POST /other Call 1"]);
    assert!(server.received().iter().all(|request| request.header("authorization") == Some("Bearer token-0")));
}

#[tokio::test]
async fn requests_have_a_purpose() {
    let server = FakeHttpServer::start(|request| match request.method.as_str() {
        "GET" => Reply::open_events(": open\n\n"),
        _ => legacy(request),
    })
    .await;
    let authorizer = RenewingAuthorizer::default();
    let connector = connector(&server).authorizer(authorizer.clone());
    let client = connector.connect(context()).await.unwrap();
    server.wait_for("GET", 1).await;
    send_request(&client, "tools/list", &json!({})).await.unwrap();
    within("a response", client.channel.call_in_time(outgoing("ping", &json!({})).background())).await.unwrap();
    client.control.close().await;
    let mut requests = authorizer.requests();
    // The probe, `initialize`, `notifications/initialized`, the stream, a call, a health check, and the DELETE.
    requests.sort_unstable();
    let call = "POST /mcp Call 0";
    let expected = ["DELETE /mcp Close 0", "GET /mcp Stream 0", call, call, call, call, "POST /mcp Stream 0"];
    assert_eq!(requests, expected);
    let reconnecting = RenewingAuthorizer::default();
    let again = connector.authorizer(reconnecting.clone());
    drop(again.connect(context().background(true)).await.unwrap());
    assert_eq!(reconnecting.requests()[0], "POST /mcp Stream 0");
}

#[tokio::test]
async fn the_body_of_a_rejection_is_read_so_that_the_connection_is_reused() {
    let cases = [(10, 1), (60 * 1024, 1), (4 * 1024 * 1024, 2)];
    for (bytes, connections) in cases {
        let server = FakeHttpServer::start(move |request| match request.header("authorization") {
            Some("Bearer token-1") => modern(request),
            _ => Reply::text(401, "text/plain", &"x".repeat(bytes)),
        })
        .await;
        connector(&server).authorizer(RenewingAuthorizer::default()).connect(context()).await.unwrap();
        assert_eq!((server.received().len(), server.connections()), (2, connections), "{bytes}");
    }
}

/// A server without a socket, for tests in virtual time.
#[derive(Clone)]
struct InMemoryServer(Arc<dyn Fn(&Received) -> InMemoryReply + Send + Sync>);

enum InMemoryReply {
    Result(Value),
    /// A rejection with a body that does not end.
    EndlessRejection,
    Rejection,
    Events(tokio::sync::mpsc::UnboundedReceiver<String>),
    Accepted,
    Never,
}

type InMemoryBody = UnsyncBoxBody<Bytes, Infallible>;

impl tower_service::Service<http::Request<Bytes>> for InMemoryServer {
    type Response = http::Response<InMemoryBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Bytes>) -> Self::Future {
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let received = Received {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            headers: request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: serde_json::from_slice(request.body()).unwrap_or_default(),
            at: tokio::time::Instant::now(),
        };
        let endless = || {
            let first = futures_util::stream::once(async { Ok(http_body::Frame::data(Bytes::from_static(b"x"))) });
            StreamBody::new(first.chain(futures_util::stream::pending())).boxed_unsync()
        };
        let (status, body) = match (self.0)(&received) {
            InMemoryReply::Result(value) => {
                let body = result(&received, &value).to_string();
                (StatusCode::OK, Full::new(Bytes::from(body)).boxed_unsync())
            }
            InMemoryReply::EndlessRejection => (StatusCode::UNAUTHORIZED, endless()),
            InMemoryReply::Rejection => (StatusCode::UNAUTHORIZED, Full::default().boxed_unsync()),
            InMemoryReply::Events(mut events) => {
                let events = futures_util::stream::poll_fn(move |task| events.poll_recv(task));
                let frames = events.map(|event| Ok(http_body::Frame::data(Bytes::from(event))));
                (StatusCode::OK, StreamBody::new(frames).boxed_unsync())
            }
            InMemoryReply::Accepted => (StatusCode::ACCEPTED, Full::default().boxed_unsync()),
            InMemoryReply::Never => return Box::pin(std::future::pending()),
        };
        let mut response = http::Response::new(body);
        *response.status_mut() = status;
        let content_type = if received.method == "GET" { "text/event-stream" } else { "application/json" };
        response.headers_mut().insert("content-type", HeaderValue::from_static(content_type));
        Box::pin(std::future::ready(Ok(response)))
    }
}

fn in_memory(reply: impl Fn(&Received) -> InMemoryReply + Send + Sync + 'static) -> HttpConnector {
    HttpConnector::new("http://example.com/mcp").unwrap().http_service(InMemoryServer(Arc::new(reply)))
}

#[tokio::test(start_paused = true)]
async fn a_rejection_whose_body_does_not_end_is_retried_without_it() {
    let connector = in_memory(|request| match request.header("authorization") {
        Some("Bearer token-1") => InMemoryReply::Result(discovered(request)),
        _ => InMemoryReply::EndlessRejection,
    });
    let begun = tokio::time::Instant::now();
    connector.authorizer(RenewingAuthorizer::default()).connect(context()).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 5);
}

/// Needs a minute for credentials, and another one after a rejection.
#[derive(Clone, Copy)]
struct SlowAuthorizer;

const MINUTE: Duration = Duration::from_secs(60);

impl Authorizer for SlowAuthorizer {
    fn authorize<'a>(&'a self, _: &'a AuthorizeRequest<'a>) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        Box::pin(async {
            tokio::time::sleep(MINUTE).await;
            Ok(Credentials::new(HeaderValue::from_static("Bearer slow")))
        })
    }

    fn rejected<'a>(&'a self, _: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        Box::pin(async {
            tokio::time::sleep(MINUTE).await;
            Ok(Decision::Retry)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn timeouts_do_not_run_while_the_authorizer_works() {
    let calls = AtomicUsize::new(0);
    let connector = in_memory(move |request| match (request.what(), calls.fetch_add(1, Ordering::Relaxed)) {
        // The first request of the connection, and the first call.
        (_, 0 | 2) => InMemoryReply::Rejection,
        ("ping", _) => InMemoryReply::Never,
        _ => InMemoryReply::Result(discovered(request)),
    });
    let begun = tokio::time::Instant::now();
    let client = connector.authorizer(SlowAuthorizer).connect(context()).await.unwrap();
    assert_eq!(begun.elapsed(), 3 * MINUTE);
    client.channel.call_in_time(outgoing("tools/list", &json!({}))).await.unwrap();
    assert_eq!(begun.elapsed(), 6 * MINUTE);
    // A server that does not respond still times out.
    let error = client.channel.call_in_time(outgoing("ping", &json!({}))).await.unwrap_err();
    assert!(matches!(error, PeerError::TimedOut(_)), "{error:?}");
    assert_eq!(begun.elapsed(), 7 * MINUTE + Duration::from_secs(30));
    // Each call of a batch has its own clock.
    let batch = client.channel.call_batch(vec![outgoing("ping", &json!({})), outgoing("tools/list", &json!({}))]);
    let outcomes = batch.await;
    assert!(outcomes[0].is_err() && outcomes[1].is_ok());
    assert_eq!(begun.elapsed(), 9 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_batch_in_one_request_and_notifications_wait_for_the_authorizer() {
    let connector = in_memory(|request| match (request.method.as_str(), request.what()) {
        ("GET", _) => InMemoryReply::Never,
        (_, "initialize") => InMemoryReply::Result(initialized(request)),
        (_, "notifications/initialized") => InMemoryReply::Result(json!({})),
        _ => InMemoryReply::Never,
    });
    let known = options().known(Dialect::Handshake(ProtocolVersion::V2025_03_26));
    let cx = ConnectContext::new(known, Arc::new(RecordingService::default()));
    let client = connector.authorizer(SlowAuthorizer).connect(cx).await.unwrap();
    let begun = tokio::time::Instant::now();
    let ping = || {
        let mut ping = OutgoingRequest::new("ping", raw(&json!({})));
        ping.clock = CallClock::new(Some(Duration::from_secs(1)), None);
        ping
    };
    let outcomes = client.channel.call_batch(vec![ping(), ping()]).await;
    assert!(outcomes.iter().all(Result::is_err));
    assert_eq!(begun.elapsed(), MINUTE + Duration::from_secs(1));
    let notification = Notification::raw("notifications/roots/list_changed", None);
    client.channel.notify(notification).await.unwrap_err();
    assert_eq!(begun.elapsed(), 2 * MINUTE + Duration::from_secs(31));
}

#[tokio::test(start_paused = true)]
async fn connecting_times_out_if_the_server_does_not_respond_after_the_authorizer() {
    let begun = tokio::time::Instant::now();
    let connector = in_memory(|_| InMemoryReply::Never).authorizer(SlowAuthorizer);
    let error = connector.connect(context()).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(begun.elapsed(), MINUTE + Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn the_authorizer_has_a_timeout() {
    let begun = tokio::time::Instant::now();
    let connector = in_memory(|_| InMemoryReply::Never).authorizer(SlowAuthorizer);
    let connector = connector.authorize_timeout(Duration::from_secs(50));
    let error = connector.connect(context()).await.unwrap_err();
    assert_eq!(begun.elapsed(), Duration::from_secs(50));
    assert!(chain(&error).ends_with("the authorizer did not finish within 50 s"), "{}", chain(&error));
}

#[tokio::test]
async fn missing_credentials_are_an_error_that_says_why() {
    struct NoCredentials(AuthorizeError);

    impl Authorizer for NoCredentials {
        fn authorize<'a>(&'a self, _: &'a AuthorizeRequest<'a>) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
            Box::pin(std::future::ready(Err(self.0.clone())))
        }

        fn rejected<'a>(&'a self, _: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
            unreachable!("nothing is sent")
        }
    }

    let server = FakeHttpServer::start(modern).await;
    let error = AuthorizeError::new("the login was cancelled");
    for (error, is_transient) in [(error.clone(), false), (error.transient(), true)] {
        let connector = connector(&server).authorizer(NoCredentials(error));
        let error = connector.connect(context()).await.unwrap_err();
        let origin = &server.origin;
        let expected = format!("{origin}: not authorized: cannot obtain credentials for {origin}");
        assert_eq!(chain(&error), format!("cannot connect to {expected}: the login was cancelled"));
        assert_eq!(error.is_transient(), is_transient);
        // A call fails with an authorization error as well.
        let known = options().known(Dialect::Stateless(ProtocolVersion::LATEST));
        let cx = ConnectContext::new(known, Arc::new(RecordingService::default()));
        let client = connector.connect(cx).await.unwrap();
        let error = send_request(&client, "tools/call", &json!({})).await.unwrap_err();
        assert!(matches!(error, PeerError::Unauthorized(_)), "{error:?}");
    }
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn a_rejected_message_of_http_sse_is_an_error_of_authorization() {
    // The event stream needs no authorization in the first case. Posted messages need it in both.
    for is_stream_open in [true, false] {
        let server = FakeHttpServer::start(move |request| match request.method.as_str() {
            "GET" if is_stream_open => Reply::open_events("event: endpoint\ndata: /messages\n\n"),
            "GET" => Reply::status(401),
            _ if request.path == "/mcp" => Reply::status(405),
            _ => Reply::status(401),
        })
        .await;
        let error = open(&server, options()).await.unwrap_err();
        assert!(matches!(error, ConnectError::Unauthorized { .. }), "{error:?}");
        assert!(chain(&error).contains("status 401"), "{}", chain(&error));
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_http_sse_wait_for_the_authorizer() {
    let (send, receive) = tokio::sync::mpsc::unbounded_channel();
    send.send("event: endpoint\ndata: /messages\n\n".to_owned()).unwrap();
    let receive = Mutex::new(Some(receive));
    let connector = in_memory(move |request| {
        if request.method == "GET" {
            return InMemoryReply::Events(receive.lock().unwrap().take().unwrap());
        }
        match request.what() {
            "initialize" => send.send(event(&result(request, &initialized(request)))).unwrap(),
            "ping" => send.send(event(&result(request, &json!({})))).unwrap(),
            _ => {}
        }
        InMemoryReply::Accepted
    });
    let connector = connector.transport(turms_core::TransportKind::HttpSse).authorizer(SlowAuthorizer);
    let begun = tokio::time::Instant::now();
    let client = connector.connect(context()).await.unwrap();
    client.channel.call_in_time(OutgoingRequest::new("ping", raw(&json!({})))).await.unwrap();
    // One minute each for the stream, `initialize`, `notifications/initialized`, and the call.
    assert_eq!(begun.elapsed(), 4 * MINUTE);
    let error = client.channel.call_in_time(OutgoingRequest::new("tools/list", raw(&json!({})))).await.unwrap_err();
    assert!(matches!(error, PeerError::TimedOut(_)), "{error:?}");
    assert_eq!(begun.elapsed(), 5 * MINUTE + Duration::from_secs(30));
}
