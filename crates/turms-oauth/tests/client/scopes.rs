//! Scopes that a login gets later, because a tool needs them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use serde_json::json;
use tower_layer::Layer as _;
use tower_service::Service as _;
use turms_client::Client;
use turms_oauth::dev::DevClient;
use turms_oauth::{ClientCredentials, OAuth};

use crate::script::{Reply, Script, plain_client, provider};
use crate::world::{Browser, ERAS, World, call, chain, connect, dev};

#[tokio::test]
async fn a_tool_that_needs_more_scopes_leads_to_one_more_login_in_either_era() {
    for version in ERAS {
        let world = World::new().await;
        let builder = Client::builder("agent", "1.0.0").protocol_version(version);
        let client = connect(&world.server.url, &world.oauth(), builder).await.unwrap();
        assert_eq!(call(&client, "scopes").await.unwrap(), "notes:read");
        let results = join_all((0..10).map(|_| call(&client, "write"))).await;
        for result in results {
            assert_eq!(result.unwrap(), "written", "{version}");
        }
        assert_eq!(world.browser.param("scope").as_deref(), Some("notes:read notes:write"));
        assert_eq!(call(&client, "scopes").await.unwrap(), "notes:read notes:write");
        assert_eq!(world.browser.windows(), 2, "{version}");
    }
}

#[tokio::test]
async fn scopes_that_are_not_granted_are_requested_once() {
    let granted = |request: &crate::script::Received| match &*request.path {
        "/mcp" if request.authorization().is_some_and(|value| value.contains(" access-")) => {
            Reply::status(403).with("www-authenticate", "Bearer error=\"insufficient_scope\", scope=\"notes:admin\"")
        }
        _ => provider(request),
    };
    let server = Script::start(move |request| granted(&request)).await;
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login());
    let mut client = auth.layer().layer(plain_client());
    for _ in 0..3 {
        let request = http::Request::get(server.url("/mcp")).body(http_body_util::Full::<bytes::Bytes>::default());
        let error = client.call(request.unwrap()).await.unwrap_err();
        let text = chain(&*error);
        let expected = "the server requires the scopes \"notes:admin\", which the authorization server has not granted";
        assert!(text.contains(expected), "{text}");
    }
    // The first login, and one for the scope.
    assert_eq!(browser.windows(), 2);
    assert_eq!(browser.param("scope").as_deref(), Some("notes:read notes:admin"));
}

#[tokio::test]
async fn a_program_asks_for_missing_scopes_once() {
    let world = World::with(dev().client(DevClient::with_secret("robot", "s3cret"))).await;
    let auth = OAuth::new("robot").grant(ClientCredentials::secret("robot", "s3cret"));
    let client = world.connect(&auth).await;
    assert_eq!(call(&client, "write").await.unwrap(), "written");
    assert_eq!(world.dev.grants("client_credentials"), 2);
    assert_eq!(call(&client, "scopes").await.unwrap(), "notes:read notes:write");
}

#[tokio::test]
async fn scopes_that_another_process_has_got_need_no_login() {
    let world = World::new().await;
    let [one, other] = [world.connect(&world.oauth()).await, world.connect(&world.oauth()).await];
    assert_eq!(call(&one, "write").await.unwrap(), "written");
    assert_eq!(call(&other, "write").await.unwrap(), "written");
    assert_eq!(world.browser.windows(), 2);
}

#[tokio::test]
async fn own_scopes_are_added_to_those_of_the_server() {
    let world = World::new().await;
    let client = world.connect(&world.oauth().scopes(["notes:write"])).await;
    assert_eq!(call(&client, "write").await.unwrap(), "written");
    assert_eq!((world.browser.windows(), world.browser.param("scope").as_deref()), (1, Some("notes:read notes:write")));
}

#[tokio::test]
async fn a_rejection_for_another_reason_leads_to_no_login() {
    let logins = Arc::new(AtomicUsize::new(0));
    let server = Script::start(|request| match &*request.path {
        "/mcp" => Reply::json(403, json!({ "error": "this origin is not allowed" })),
        _ => provider(&request),
    })
    .await;
    let count = logins.clone();
    let login = turms_oauth::Login::with(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Err::<String, _>("no") }
    });
    let mut client = OAuth::new("agent").login(login).layer().layer(plain_client());
    let request = http::Request::get(server.url("/mcp")).body(http_body_util::Full::<bytes::Bytes>::default());
    assert_eq!(client.call(request.unwrap()).await.unwrap().status(), 403);
    assert_eq!((logins.load(Ordering::SeqCst), server.received().len()), (0, 1));
}

#[tokio::test]
async fn a_challenge_without_scopes_does_not_ask_a_person_for_nothing() {
    let server = Script::start(|request| match &*request.path {
        "/mcp" if request.authorization().is_some() => {
            Reply::status(403).with("www-authenticate", "Bearer error=\"insufficient_scope\"")
        }
        _ => provider(&request),
    })
    .await;
    let browser = Browser::new();
    let mut client = OAuth::new("agent").login(browser.login()).layer().layer(plain_client());
    let request = http::Request::get(server.url("/mcp")).body(http_body_util::Full::<bytes::Bytes>::default());
    let text = chain(&*client.call(request.unwrap()).await.unwrap_err());
    assert!(text.contains("the server requires more scopes, and does not name them"), "{text}");
    assert_eq!(browser.windows(), 1);
}
