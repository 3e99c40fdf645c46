//! Credentials: asked for before each request, and again when they are refused.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};
use turms_core::BoxFuture;
use turms_http::{Authorizable, AuthorizeError, Authorizer, BearerToken, Challenge, Decision};

use super::*;

/// Has a new token after each refusal.
#[derive(Clone, Default)]
struct Renewing {
    tokens: Arc<AtomicUsize>,
    challenges: Arc<Mutex<Vec<String>>>,
}

impl Authorizer for Renewing {
    fn authorize<'a>(&'a self, request: &'a Authorizable<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthorizeError>> {
        assert_eq!(request.url.path(), "/mcp");
        let token = format!("Bearer token-{}", self.tokens.load(Ordering::Relaxed));
        let value = HeaderValue::from_str(&token).unwrap();
        Box::pin(async { Ok(HeaderMap::from_iter([(http::header::AUTHORIZATION, value)])) })
    }

    fn refused<'a>(&'a self, challenge: &'a Challenge) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        self.tokens.fetch_add(1, Ordering::Relaxed);
        let said = challenge.challenges().map(|value| value.to_str().unwrap().to_owned());
        self.challenges.lock().unwrap().extend(said.map(|said| format!("{} {said}", challenge.status.as_u16())));
        Box::pin(async { Ok(Decision::TryAgain) })
    }
}

/// Takes only this token.
async fn wanting(token: &'static str, status: u16) -> FakeHttpServer {
    FakeHttpServer::start(move |request| match request.header("authorization") == Some(token) {
        true => modern(request),
        false => Reply::status(status).with("WWW-Authenticate", "Bearer scope=\"a\""),
    })
    .await
}

#[tokio::test]
async fn other_credentials_are_got_and_tried() {
    for status in [401, 403] {
        let server = wanting("Bearer token-2", status).await;
        let authorizer = Renewing::default();
        let connector = connector(&server).authorizer(authorizer.clone());
        let client = connector.connect(ConnectContext::new(options(), Arc::new(Ear::default()))).await.unwrap();
        assert_eq!(client.negotiated.dialect, Dialect::Stateless(ProtocolVersion::LATEST));
        let challenge = format!("{status} Bearer scope=\"a\"");
        assert_eq!(*authorizer.challenges.lock().unwrap(), [challenge.clone(), challenge]);
        // The same request each time.
        assert_eq!(server.asked(), ["server/discover"; 3]);
        ask(&client, "tools/list", &json!({})).await.unwrap();
        assert_eq!(server.received().len(), 4);
    }
}

#[tokio::test]
async fn nobody_tries_for_ever() {
    let server = wanting("none", 403).await;
    let authorizer = Renewing::default();
    let connector = connector(&server).authorizer(authorizer.clone());
    let error = connector.connect(ConnectContext::new(options(), Arc::new(Ear::default()))).await.unwrap_err();
    assert!(chain(&error).contains("status 403"), "{}", chain(&error));
    assert_eq!((authorizer.tokens.load(Ordering::Relaxed), server.received().len()), (3, 4));
}

#[tokio::test]
async fn a_token_and_headers_go_with_every_request_and_show_nowhere() {
    let server = FakeHttpServer::start(legacy).await;
    let token = BearerToken::new("s3cret").unwrap();
    assert!(!format!("{token:?}").contains("s3cret"));
    let connector = connector(&server)
        .authorizer(token)
        .header(HeaderName::from_static("x-key"), HeaderValue::from_static("k3y"))
        .header(HeaderName::from_static("content-type"), HeaderValue::from_static("text/plain"));
    assert!(!format!("{connector:?}").contains("k3y"));
    let client = connector.connect(ConnectContext::new(options(), Arc::new(Ear::default()))).await.unwrap();
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
async fn whoever_has_no_credentials_is_told_what_is_wanted() {
    let server = wanting("Bearer x", 401).await;
    let told = chain(&open(&server, options()).await.unwrap_err());
    assert!(told.contains("status 401 Unauthorized: the server wants authorization"), "{told}");
}

async fn refusing(reply: Reply) -> FakeHttpServer {
    FakeHttpServer::start(move |_| reply.clone()).await
}

#[tokio::test]
async fn whoever_is_not_let_in_is_told_what_the_server_says() {
    let says = "this server does not answer for the host \"vm\"";
    let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32600, "message": says } });
    for reply in [Reply::json(403, &error), Reply::text(403, "text/plain", says)] {
        let server = refusing(reply).await;
        let error = open(&server, options()).await.unwrap_err();
        let (at, told) = (format!("{} rejected the connection", server.origin), chain(&error));
        assert_eq!(told, format!("{at}: status 403 Forbidden: {says:?}"));
    }
}

#[tokio::test]
async fn no_token_and_a_wrong_one_are_told_apart() {
    let wrong = "Bearer error=\"invalid_token\", error_description=\"it has expired\"";
    let server = refusing(Reply::text(401, "text/plain", "token please").with("WWW-Authenticate", wrong)).await;
    let without = chain(&open(&server, options()).await.unwrap_err());
    let said = ": \"invalid_token\", \"it has expired\": \"token please\"";
    assert!(without.contains("the server wants authorization, and the request had none"), "{without}");
    assert!(without.ends_with(said), "{without}");
    let connector = connector(&server).authorizer(BearerToken::new("old").unwrap());
    let with = chain(&connector.connect(ConnectContext::new(options(), Arc::new(Ear::default()))).await.unwrap_err());
    assert!(with.contains("the server does not accept the authorization of the request"), "{with}");
    assert!(with.ends_with(said), "{with}");
}

#[tokio::test]
async fn a_call_that_is_not_let_in_has_not_run() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => Reply::status(401),
        _ => modern(request),
    })
    .await;
    let client = connect(&server).await;
    let error = ask(&client, "tools/call", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerError::Unauthorized(_)), "{error:?}");
    assert!(chain(&error).contains("status 401"), "{}", chain(&error));
}

#[tokio::test]
async fn headers_may_be_text_and_what_cannot_be_one_is_said() {
    let server = FakeHttpServer::start(modern).await;
    let client = connector(&server)
        .header("x-key", "abc")
        .connect(ConnectContext::new(options(), Arc::new(Ear::default())))
        .await;
    drop(client.unwrap());
    assert_eq!(server.received()[0].header("x-key"), Some("abc"));
    let told = |connector: HttpConnector| async move {
        chain(&connector.connect(ConnectContext::new(options(), Arc::new(Ear::default()))).await.unwrap_err())
    };
    let value = told(connector(&server).header("x-key", "s3cret\n")).await;
    assert!(value.contains("the value of the header \"x-key\" holds what a header cannot"), "{value}");
    assert!(!value.contains("s3cret"), "{value}");
    let name = told(connector(&server).header("no name", "x")).await;
    assert!(name.contains("the name of a header is none"), "{name}");
}

#[tokio::test]
async fn a_client_says_who_it_is() {
    let server = FakeHttpServer::start(modern).await;
    drop(connect(&server).await);
    let own = concat!("turms/", env!("CARGO_PKG_VERSION"));
    assert_eq!(server.received()[0].header("user-agent"), Some(own));
    let connector = connector(&server).header("user-agent", "mine");
    drop(connector.connect(ConnectContext::new(options(), Arc::new(Ear::default()))).await.unwrap());
    assert_eq!(server.received()[1].header("user-agent"), Some("mine"));
}
