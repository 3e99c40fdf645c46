//! Credentials, which are obtained before each request and again after a rejection.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};
use turms_core::BoxFuture;
use turms_http::{Authorizable, AuthorizeError, Authorizer, BearerToken, Challenge, Decision};

use super::*;

/// Returns a new token after each rejection.
#[derive(Clone, Default)]
struct RenewingAuthorizer {
    tokens: Arc<AtomicUsize>,
    challenges: Arc<Mutex<Vec<String>>>,
}

impl Authorizer for RenewingAuthorizer {
    fn authorize<'a>(&'a self, request: &'a Authorizable<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthorizeError>> {
        assert_eq!(request.url.path(), "/mcp");
        let token = format!("Bearer token-{}", self.tokens.load(Ordering::Relaxed));
        let value = HeaderValue::from_str(&token).unwrap();
        Box::pin(async { Ok(HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])) })
    }

    fn refused<'a>(&'a self, challenge: &'a Challenge) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        self.tokens.fetch_add(1, Ordering::Relaxed);
        let challenges = challenge.challenges().map(|value| value.to_str().unwrap().to_owned());
        self.challenges.lock().unwrap().extend(challenges.map(|text| format!("{} {text}", challenge.status.as_u16())));
        Box::pin(async { Ok(Decision::TryAgain) })
    }
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
        // The same request each time.
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
    let message = chain(&open(&server, options()).await.unwrap_err());
    assert!(message.contains("status 401 Unauthorized: authorization is required"), "{message}");
}

async fn rejecting(reply: Reply) -> FakeHttpServer {
    FakeHttpServer::start(move |_| reply.clone()).await
}

#[tokio::test]
async fn the_message_of_a_rejection_is_shown() {
    let text = "this server does not answer for the host \"vm\"";
    let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": text } });
    for reply in [Reply::json(403, &error), Reply::text(403, "text/plain", text)] {
        let server = rejecting(reply).await;
        let error = open(&server, options()).await.unwrap_err();
        let (at, message) = (format!("{} rejected the connection", server.origin), chain(&error));
        assert_eq!(message, format!("{at}: status 403 Forbidden: {text:?}"));
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
