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
async fn wanting(token: &'static str, status: u16) -> Played {
    Played::start(move |request| match request.header("authorization") == Some(token) {
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
        let client = connector.connect(options(), Arc::new(Ear::default())).await.unwrap();
        assert_eq!(client.opened.dialect, Dialect::Stateless(ProtocolVersion::LATEST));
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
    let error = connector.connect(options(), Arc::new(Ear::default())).await.unwrap_err();
    assert!(chain(&error).contains("status 403"), "{}", chain(&error));
    assert_eq!((authorizer.tokens.load(Ordering::Relaxed), server.received().len()), (3, 4));
}

#[tokio::test]
async fn a_token_and_headers_go_with_every_request_and_show_nowhere() {
    let server = Played::start(legacy).await;
    let token = BearerToken::new("s3cret").unwrap();
    assert!(!format!("{token:?}").contains("s3cret"));
    let connector = connector(&server)
        .authorizer(token)
        .header(HeaderName::from_static("x-key"), HeaderValue::from_static("k3y"))
        .header(HeaderName::from_static("content-type"), HeaderValue::from_static("text/plain"));
    assert!(!format!("{connector:?}").contains("k3y"));
    let client = connector.connect(options(), Arc::new(Ear::default())).await.unwrap();
    client.channel.close().await;
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
