//! Credentials of the upgrade request, which are obtained before it and again after a rejection.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use turms_core::{BoxFuture, ConnectError};
use turms_http::{
    AuthorizeError, AuthorizeRequest, AuthorizedResponse, Authorizer, BearerToken, Credentials, Decision, Listener,
    UnauthorizedResponse,
};
use turms_testkit::within;
use turms_ws::{ServeWs as _, WsBody, WsConnector, WsError, WsService};

use crate::fixture::{builder, connect, server};

/// Accepts one token, as an application does in front of the service.
#[derive(Clone)]
struct Protected {
    service: WsService,
    token: &'static str,
}

impl<B: Send + 'static> tower_service::Service<Request<B>> for Protected
where
    WsService: tower_service::Service<Request<B>, Response = Response<WsBody>, Error = Infallible>,
    <WsService as tower_service::Service<Request<B>>>::Future: Send + 'static,
{
    type Response = Response<WsBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, task: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        self.service.poll_ready(task)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let is_valid = request.headers().get(AUTHORIZATION).is_some_and(|value| value == self.token);
        if is_valid {
            return Box::pin(self.service.call(request));
        }
        let mut response = Response::new(WsBody::default());
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        let challenge = HeaderValue::from_static(r#"Bearer error="invalid_token", error_description="it has expired""#);
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        Box::pin(std::future::ready(Ok(response)))
    }
}

/// Starts a server that accepts only this token, and returns a connector to it.
async fn requiring(token: &'static str) -> WsConnector {
    let service = server(&Arc::default()).into_ws_service().unwrap();
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/some/where?x=1", listener.local_addr().unwrap());
    tokio::spawn(listener.serve_tower(Protected { service, token }));
    WsConnector::new(url).unwrap()
}

/// Returns a new token after each rejection. Records what it is called with.
#[derive(Clone, Default)]
struct RenewingAuthorizer {
    tokens: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<String>>>,
    delay: Duration,
}

impl RenewingAuthorizer {
    fn record(&self, text: String) {
        self.seen.lock().unwrap().push(text);
    }
}

impl Authorizer for RenewingAuthorizer {
    fn authorize<'a>(
        &'a self,
        request: &'a AuthorizeRequest<'a>,
    ) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        let url = request.url;
        let target = format!("{}://{}{}?{}", url.scheme(), url.host_str().unwrap(), url.path(), url.query().unwrap());
        self.record(format!("{} {target} {:?} {}", request.method, request.purpose, request.attempt));
        let number = self.tokens.load(Ordering::Relaxed);
        let value = HeaderValue::from_str(&format!("Bearer token-{number}")).unwrap();
        Box::pin(async move { Ok(Credentials::new(value).serial(number as u64)) })
    }

    fn rejected<'a>(&'a self, response: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        self.tokens.fetch_add(1, Ordering::Relaxed);
        let error = response.challenges()[0].get("error").map(str::to_owned);
        self.record(format!("{} {error:?} {:?}", response.status.as_u16(), response.sent));
        Box::pin(async {
            if !self.delay.is_zero() {
                // Virtual time: nothing else has to happen meanwhile.
                tokio::time::pause();
                tokio::time::sleep(self.delay).await;
                tokio::time::resume();
            }
            Ok(Decision::Retry)
        })
    }

    fn responded(&self, response: &AuthorizedResponse<'_>) {
        self.record(format!("{} {}", response.status.as_u16(), response.headers.contains_key("upgrade")));
    }

    fn observes_responses(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_rejected_upgrade_is_retried_with_other_credentials() {
    let authorizer = RenewingAuthorizer::default();
    let connector =
        requiring("Bearer token-1").await.header(AUTHORIZATION, "Bearer old").authorizer(authorizer.clone());
    let client = connect(connector, builder()).await;
    client.list_tools().await.unwrap();
    let seen = authorizer.seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        [
            "GET http://127.0.0.1/some/where?x=1 Call 0",
            r#"401 Some("invalid_token") Some(0)"#,
            "GET http://127.0.0.1/some/where?x=1 Call 1",
            "101 true",
        ]
    );
}

#[tokio::test]
async fn the_connect_timeout_does_not_run_while_the_authorizer_works() {
    let authorizer = RenewingAuthorizer { delay: Duration::from_secs(60), ..RenewingAuthorizer::default() };
    let connector = requiring("Bearer token-1").await.authorizer(authorizer);
    let begun = tokio::time::Instant::now();
    builder().connect(connector.connect_timeout(Duration::from_secs(20))).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(60));
}

#[tokio::test]
async fn the_authorizer_has_a_timeout() {
    let authorizer = RenewingAuthorizer { delay: Duration::from_secs(60), ..RenewingAuthorizer::default() };
    let connector = requiring("Bearer token-1").await.authorizer(authorizer).authorize_timeout(Duration::from_secs(9));
    let error = builder().connect(connector).await.unwrap_err();
    let message = format!("{error:?}");
    assert!(message.contains("the authorizer did not finish within 9 s"), "{message}");
}

#[tokio::test]
async fn a_final_rejection_is_an_error_of_authorization_that_says_why() {
    let connector = requiring("Bearer right").await.authorizer(BearerToken::new("wr0ng").unwrap());
    let error =
        within("an error", builder().reconnect(turms_client::Backoff::new()).connect(connector)).await.unwrap_err();
    let ConnectError::Unauthorized { server, source, transient: false } = &error else { panic!("{error:?}") };
    assert!(server.starts_with("ws://127.0.0.1:") && server.ends_with("/some/where"), "{server}");
    let source: &WsError = source.downcast_ref().unwrap();
    assert!(source.is_unauthorized());
    assert_eq!(
        source.to_string(),
        "the server responded with 401 Unauthorized instead of opening a WebSocket: \"it has expired\""
    );
    let WsError::Refused { headers, .. } = source else { panic!("{source:?}") };
    assert!(headers.contains_key(WWW_AUTHENTICATE));
    assert!(!format!("{error:?} {source:?}").contains("wr0ng"));

    let authorizer = RenewingAuthorizer::default();
    let connector = requiring("Bearer right").await.authorizer(authorizer.clone());
    builder().connect(connector).await.unwrap_err();
    assert_eq!(authorizer.tokens.load(Ordering::Relaxed), 3);
}

/// Starts a server that rejects each upgrade, and repeats the credentials in the response.
async fn repeating(status: u16) -> WsConnector {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let (mut line, mut sent) = (String::new(), String::new());
            while stream.read_line(&mut line).await.unwrap() > 2 {
                if line.starts_with("authorization: ") {
                    sent = line.trim().to_owned();
                }
                line.clear();
            }
            let head = format!("HTTP/1.1 {status} No\r\nwww-authenticate: Bearer error_description=\"{sent}\"");
            let response = format!("{head}\r\ncontent-length: {}\r\n\r\nwhat is {sent}?", sent.len() + 9);
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    });
    WsConnector::new(url).unwrap()
}

#[tokio::test]
async fn a_server_that_repeats_the_credentials_does_not_show_them() {
    for token in ["s3cret".to_owned(), "s3cret".repeat(200)] {
        for status in [401, 403, 500] {
            let connector = repeating(status).await.authorizer(BearerToken::new(&token).unwrap());
            let error = within("an error", builder().connect(connector)).await.unwrap_err();
            let text = format!("{error:?} {error:#?}");
            assert!(text.contains("what is authorization: Bearer [..]?") && !text.contains("s3cret"), "{text}");
        }
    }
}
