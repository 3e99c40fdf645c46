//! Tokens for other HTTP clients: the `tower` layer, and the upgrade of a WebSocket.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use tower_layer::Layer as _;
use tower_service::Service as _;
use turms_client::Client;
use turms_http::Listener;
use turms_oauth::__internal::GuardClock;
use turms_oauth::{Login, OAuth};
use turms_testkit::within;
use turms_ws::{ServeWs as _, WsConnector};

use crate::script::{Reply, Script, plain_client, provider};
use crate::world::{Browser, World, call, chain, dev, guard, notes};

#[tokio::test]
async fn the_layer_adds_the_token_and_repeats_a_rejected_request_with_its_body() {
    let server = Script::start(|request| match &*request.path {
        "/mcp" if request.authorization().is_some() => Reply::text(200, "text/plain", request.body),
        _ => provider(&request),
    })
    .await;
    let browser = Browser::new();
    let mut client = OAuth::new("agent").login(browser.login()).layer().layer(plain_client());
    let post = || {
        let request = Request::post(format!("{}?page=2", server.url("/mcp"))).header("x-own", "1");
        request.body(Full::new(Bytes::from_static(b"hello"))).unwrap()
    };
    for _ in 0..2 {
        let response = client.call(post()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    }
    let requests = server.at("/mcp");
    assert_eq!((requests.len(), browser.windows()), (3, 1));
    for request in &requests {
        assert_eq!((request.headers["x-own"].as_bytes(), request.field("page").as_deref()), (&b"1"[..], Some("2")));
        assert_eq!(request.body, "hello");
    }
    assert!(requests[1].authorization().is_some_and(|value| value.starts_with("Bearer access-")));
}

#[tokio::test]
async fn the_layer_shares_its_logins_with_the_authorizer() {
    let world = World::new().await;
    let auth = world.oauth();
    auth.token(&world.server.url).await.unwrap();
    let mut client = auth.layer().layer(plain_client());
    let response = client.call(Request::get(&world.server.url).body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    assert_ne!(response.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(world.browser.windows(), 1);
}

#[tokio::test]
async fn the_layer_needs_an_absolute_url_and_reports_the_errors_of_the_client() {
    let mut client = OAuth::new("agent").login(Login::never()).layer().layer(plain_client());
    let error = client.call(Request::get("/mcp").body(Full::<Bytes>::default()).unwrap()).await.unwrap_err();
    assert_eq!(error.to_string(), "the URL of the request is not absolute");
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let request = Request::get(format!("http://{free}/")).body(Full::<Bytes>::default()).unwrap();
    assert!(chain(&*client.call(request).await.unwrap_err()).contains("refused"));
}

#[tokio::test]
async fn the_upgrade_of_a_websocket_is_authorized() {
    let dev = dev().bind("127.0.0.1:0").await.unwrap();
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.address().to_owned();
    let clock = GuardClock::standing_at(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    let guard = guard(&dev, &format!("http://{address}/mcp"), &clock).build().unwrap();
    let service = notes().into_ws_service().unwrap().guard(guard);
    let serving = tokio::spawn(listener.serve_tower(service));
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login());
    let connect = async || {
        let connector = WsConnector::new(format!("ws://{address}/mcp")).unwrap().authorizer(auth.clone());
        within("the connection", Client::builder("agent", "1.0.0").connect(connector)).await
    };
    let client = connect().await.unwrap();
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    let other = connect().await.unwrap();
    assert_eq!(call(&other, "whoami").await.unwrap(), "alice");
    assert_eq!((browser.windows(), dev.requests("/token")), (1, 1));
    // The login is that of the same URL of HTTP.
    let status = auth.status(format!("http://{address}/mcp")).await.unwrap();
    assert!(status.is_some());
    serving.abort();
}

#[tokio::test]
async fn many_connections_to_one_server_cause_one_login() {
    let world = World::new().await;
    let auth = world.oauth();
    let clients = join_all((0..10).map(|_| world.connect(&auth))).await;
    for client in &clients {
        assert_eq!(call(client, "whoami").await.unwrap(), "alice");
    }
    assert_eq!((world.browser.windows(), world.dev.requests("/register")), (1, 1));
}

#[tokio::test]
async fn a_token_is_obtained_for_the_metadata_that_the_challenge_names() {
    let server = Script::start(|request| match &*request.path {
        "/mcp" => {
            let url = format!("{}/metadata", request.base);
            Reply::status(401).with("www-authenticate", &format!("Bearer resource_metadata=\"{url}\", scope=\"a b\""))
        }
        "/metadata" => Reply::json(200, crate::script::resource_metadata(&request.base)),
        path if path.starts_with("/.well-known/oauth-protected-resource") => Reply::json(500, json!({})),
        _ => provider(&request),
    })
    .await;
    let browser = Browser::new();
    OAuth::new("agent").login(browser.login()).token(server.url("/mcp")).await.unwrap();
    assert_eq!(browser.param("scope").as_deref(), Some("a b"));
    assert_eq!(server.paths()[..2], ["/mcp", "/metadata"]);
}
