//! Redirects, which are only followed within the origin.

use http::{HeaderName, HeaderValue};

use super::*;

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_with_headers_and_body() {
    for status in [301, 302, 307, 308] {
        let server = FakeHttpServer::start(move |request| match request.path.as_str() {
            "/mcp" => Reply::status(status).with("location", "/mcp/"),
            _ => modern(request),
        })
        .await;
        let connector = connector(&server).header(HeaderName::from_static("x-key"), HeaderValue::from_static("k"));
        let client =
            connector.connect(ConnectContext::new(options(), Arc::new(RecordingService::default()))).await.unwrap();
        assert_eq!(client.negotiated.dialect, Dialect::Stateless(ProtocolVersion::LATEST), "{status}");
        let followed = &server.received()[1];
        assert_eq!((followed.path.as_str(), followed.method.as_str()), ("/mcp/", "POST"));
        assert_eq!((followed.header("x-key"), followed.what()), (Some("k"), "server/discover"));
    }
}

#[tokio::test]
async fn credentials_do_not_leave_the_origin() {
    let other = FakeHttpServer::start(modern).await;
    let elsewhere = other.url();
    let server = FakeHttpServer::start(move |_| Reply::status(307).with("location", &elsewhere)).await;
    let error = open(&server, options()).await.unwrap_err();
    let message = chain(&error);
    assert!(message.contains("another origin: credentials are not sent there"), "{message}");
    assert_eq!(other.methods(), Vec::<String>::new());
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn the_number_of_redirects_is_limited() {
    for location in [Some("/mcp"), None] {
        let server = FakeHttpServer::start(move |_| {
            let reply = Reply::status(308);
            match location {
                Some(place) => reply.with("location", place),
                None => reply,
            }
        })
        .await;
        let message = chain(&open(&server, options()).await.unwrap_err());
        assert!(
            message.contains("cannot follow the redirect with status 308") && server.received().len() <= 6,
            "{message}"
        );
    }
}
