//! Logins by a person with an authorization code: from the first rejection to the logout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use turms_client::Client;
use turms_oauth::{ClientIdentity, Login, MemoryStore, OAuth, Secret, TokenStore as _};
use turms_testkit::within;

use crate::script::{Reply, Script, callback, provider, resource_metadata, server_metadata};
use crate::world::{Browser, ERAS, World, call, chain, connect, dev, guarded, open};

#[tokio::test]
async fn a_client_of_either_era_logs_in_when_the_server_asks_for_it() {
    for version in ERAS {
        let world = World::new().await;
        let builder = Client::builder("agent", "1.0.0").protocol_version(version);
        let client = connect(&world.server.url, &world.oauth(), builder).await.unwrap();
        assert_eq!(call(&client, "whoami").await.unwrap(), "alice", "{version}");
        assert_eq!(call(&client, "scopes").await.unwrap(), "notes:read");
        assert_eq!((world.browser.windows(), world.dev.grants("authorization_code")), (1, 1), "{version}");
        assert_eq!(world.browser.param("resource").as_deref(), Some(&*world.server.url));
        assert_eq!(world.browser.param("code_challenge_method").as_deref(), Some("S256"));
        client.close().await;
    }
}

#[tokio::test]
async fn a_stored_login_needs_no_person_and_no_discovery() {
    let world = World::new().await;
    world.oauth().token(&world.server.url).await.unwrap();
    let before = world.dev.requests("/token");
    let client = world.connect(&world.oauth().login(Login::never())).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    assert_eq!((world.browser.windows(), world.dev.requests("/token")), (1, before));
}

#[tokio::test]
async fn profiles_are_logins_of_their_own() {
    let world = World::new().await;
    let (work, home) = (world.oauth().profile("work"), world.oauth().profile("home"));
    let tokens = [work.token(&world.server.url).await.unwrap(), home.token(&world.server.url).await.unwrap()];
    assert_ne!(tokens[0], tokens[1]);
    assert!(work.logout(&world.server.url).await.unwrap());
    assert!(work.status(&world.server.url).await.unwrap().is_none());
    assert_eq!(home.status(&world.server.url).await.unwrap().unwrap().profile, "home");
}

#[tokio::test]
async fn a_login_that_nobody_may_make_is_an_error_with_advice() {
    let world = World::new().await;
    let auth = world.oauth().login(Login::never()).login_advice("run `turms auth login`");
    let error = connect(&world.server.url, &auth, Client::builder("agent", "1.0.0")).await.unwrap_err();
    assert!(matches!(error, turms_core::ConnectError::Unauthorized { .. }) && !error.is_transient(), "{error:?}");
    let text = chain(&error);
    let expected = format!("authorization for {}: login is required; run `turms auth login`", world.server.url);
    assert!(text.contains(&expected), "{text}");
    let error = auth.token(&world.server.url).await.unwrap_err();
    assert!(error.is_login_required(), "{error}");
}

#[tokio::test]
async fn a_denied_login_is_an_error_and_is_not_repeated_by_the_next_call() {
    let world = World::with(dev().auto_deny()).await;
    let auth = world.oauth();
    let error = auth.token(&world.server.url).await.unwrap_err();
    assert!(error.is_denied(), "{error}");
    assert!(error.to_string().contains("login was not completed: access_denied"), "{error}");
    for _ in 0..3 {
        assert!(auth.token(&world.server.url).await.unwrap_err().is_denied());
    }
    assert_eq!(world.browser.windows(), 1, "browser windows pile up");
    assert!(auth.login_now(&world.server.url).await.unwrap_err().is_denied());
    assert_eq!(world.browser.windows(), 2, "a login that the user demands is not made");
}

#[tokio::test]
async fn status_tells_the_state_of_a_login() {
    let world = World::new().await;
    let auth = world.oauth();
    assert!(auth.status(&world.server.url).await.unwrap().is_none());
    let status = auth.login_now(&world.server.url).await.unwrap();
    assert_eq!((&*status.server, &*status.issuer), (&*world.server.url, world.dev.issuer()));
    assert_eq!(status.scopes, ["notes:read"]);
    assert!(status.is_renewable && !status.is_bound && !status.is_expired());
    world.change_stored(|login| login.expires_at = Some(login.obtained_at)).await;
    assert!(auth.status(&world.server.url).await.unwrap().unwrap().is_expired());
}

#[tokio::test]
async fn a_logout_revokes_the_tokens_and_the_next_call_logs_in_again() {
    let world = World::new().await;
    let auth = world.oauth();
    let client = world.connect(&auth).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    let refresh_token = world.stored().await.unwrap().refresh_token.unwrap();
    assert!(auth.logout(&world.server.url).await.unwrap());
    assert_eq!(world.dev.requests("/revoke"), 2);
    assert!(world.stored().await.is_none() && !auth.logout(&world.server.url).await.unwrap());
    let form = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose()), ("client_id", "x")];
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    let request =
        http::Request::post(world.dev.url("/token")).header("content-type", "application/x-www-form-urlencoded");
    let response = crate::script::plain_client().request(request.body(body.into()).unwrap()).await.unwrap();
    assert!(response.status().is_client_error(), "the refresh token is still valid");
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    assert_eq!(world.browser.windows(), 2);
}

#[tokio::test]
async fn a_logout_succeeds_without_the_authorization_server() {
    let World { dev, server, browser, store } = World::new().await;
    let auth = OAuth::new("agent").store(store.clone()).login(browser.login());
    auth.token(&server.url).await.unwrap();
    drop(dev);
    assert!(within("the logout", auth.logout(&server.url)).await.unwrap());
    assert!(store.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_logout_of_another_process_ends_the_login_here() {
    let world = World::new().await;
    let auth = world.oauth();
    let client = world.connect(&auth).await;
    world.oauth().logout(&world.server.url).await.unwrap();
    world.expire_at_server();
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    assert_eq!((world.browser.windows(), world.dev.grants("refresh_token")), (2, 0));
    world.oauth().logout(&world.server.url).await.unwrap();
    let error = auth.refresh_now(&world.server.url).await.unwrap_err();
    assert!(error.is_login_required(), "{error}");
    assert!(world.stored().await.is_none(), "the login has come back");
}

#[tokio::test]
async fn a_registered_client_is_used_without_registration() {
    let provider = dev().client(
        turms_oauth::dev::DevClient::with_secret("notes-app", "s3cret").redirect_uri("http://127.0.0.1/callback"),
    );
    let world = World::with(provider.registration(false)).await;
    let auth = world.oauth().client(world.dev.issuer(), ClientIdentity::with_secret("notes-app", "s3cret"));
    auth.token(&world.server.url).await.unwrap();
    assert_eq!(world.browser.param("client_id").as_deref(), Some("notes-app"));
    assert_eq!(world.dev.requests("/register"), 0);
    // The secret is not in the store, and is used for a refresh all the same.
    assert!(world.stored().await.unwrap().client.client_secret.is_none());
    auth.refresh_now(&world.server.url).await.unwrap();
}

#[tokio::test]
async fn a_registration_is_used_again_for_the_next_login() {
    let world = World::new().await;
    let auth = world.oauth();
    auth.login_now(&world.server.url).await.unwrap();
    let client = world.browser.param("client_id");
    auth.login_now(&world.server.url).await.unwrap();
    assert_eq!((world.browser.param("client_id"), world.dev.requests("/register")), (client, 1));
    auth.login_with_new_registration(&world.server.url).await.unwrap();
    assert_eq!(world.dev.requests("/register"), 2);
}

#[tokio::test]
async fn a_client_that_the_authorization_server_has_forgotten_is_registered_again() {
    let is_forgotten = Arc::new(AtomicBool::new(false));
    let forgotten = is_forgotten.clone();
    let server = Script::start(move |request| match &*request.path {
        "/register" => {
            let is_new = forgotten.load(Ordering::SeqCst);
            Reply::json(201, json!({ "client_id": if is_new { "new" } else { "old" } }))
        }
        "/token" if forgotten.load(Ordering::SeqCst) && request.field("client_id").as_deref() == Some("old") => {
            Reply::error(401, "invalid_client")
        }
        _ => provider(&request),
    })
    .await;
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login());
    auth.token(server.url("/mcp")).await.unwrap();
    is_forgotten.store(true, Ordering::SeqCst);
    // The login with the old client fails, and the one with the new client succeeds.
    auth.login_now(server.url("/mcp")).await.unwrap();
    assert_eq!((server.at("/register").len(), browser.windows()), (2, 3));
    assert_eq!(browser.param("client_id").as_deref(), Some("new"));
}

/// As servers of the Python SDK do: a client may request only the scopes of its registration.
#[tokio::test]
async fn a_client_is_registered_again_for_scopes_that_its_registration_lacks() {
    let registered = Arc::new(Mutex::new(Vec::<String>::new()));
    let allowed = registered.clone();
    let words =
        |text: Option<&str>| -> Vec<String> { text.unwrap_or_default().split(' ').map(str::to_owned).collect() };
    let server = Script::start(move |request| match &*request.path {
        "/register" => {
            *allowed.lock() = words(request.json()["scope"].as_str());
            provider(&request)
        }
        "/authorize" if words(request.field("scope").as_deref()).iter().any(|it| !allowed.lock().contains(it)) => {
            Reply::redirect(302, &callback(&request, &[("error", "invalid_scope"), ("iss", &request.base)]))
        }
        _ => provider(&request),
    })
    .await;
    let (browser, store) = (Browser::new(), MemoryStore::new());
    let auth = |scopes: [&str; 2]| OAuth::new("agent").store(store.clone()).scopes(scopes).login(browser.login());
    auth(["notes:read", "notes:list"]).token(server.url("/mcp")).await.unwrap();
    assert_eq!((server.at("/register").len(), browser.windows()), (1, 1));
    // The login with the first registration is refused without a page, and the one with the second succeeds.
    auth(["notes:read", "notes:write"]).login_now(server.url("/mcp")).await.unwrap();
    assert_eq!((server.at("/register").len(), browser.windows()), (2, 3));
    assert!(registered.lock().contains(&"notes:write".to_owned()));
    // Scopes that the registration has are not a reason for another one.
    auth(["notes:read", "notes:write"]).login_now(server.url("/mcp")).await.unwrap();
    assert_eq!((server.at("/register").len(), browser.windows()), (2, 4));
}

#[tokio::test]
async fn a_server_that_refuses_scopes_in_registrations_gets_none() {
    let server = Script::start(move |request| match &*request.path {
        "/register" if request.json().get("scope").is_some() => Reply::error(400, "invalid_client_metadata"),
        _ => provider(&request),
    })
    .await;
    let auth = OAuth::new("agent").scopes(["notes:read"]).login(Browser::new().login());
    auth.token(server.url("/mcp")).await.unwrap();
    assert_eq!(server.at("/register").len(), 2);
}

#[tokio::test]
async fn a_registration_whose_login_never_returns_is_not_used_again() {
    let world = World::new().await;
    let auth = world.oauth();
    auth.token(&world.server.url).await.unwrap();
    world.dev.forget_registrations();
    // The page in the browser says that the client is unknown. No callback arrives.
    let lost = Login::with(async |_| std::future::pending::<Result<String, String>>().await);
    let lost = world.oauth().login(lost.timeout(Duration::from_millis(50)));
    let error = lost.login_now(&world.server.url).await.unwrap_err();
    assert!(error.is_login_timeout(), "{error}");
    world.oauth().login_now(&world.server.url).await.unwrap();
    assert_eq!(world.dev.requests("/register"), 2);
}

#[tokio::test]
async fn a_client_metadata_document_is_the_client_id_where_it_is_supported() {
    let document = Script::start(|request| {
        let redirect = "http://127.0.0.1/callback";
        let id = format!("{}/client.json", request.base);
        Reply::json(200, json!({ "client_id": id, "client_name": "Notes", "redirect_uris": [redirect] }))
    })
    .await;
    let id = document.url("/client.json");
    let world = World::new().await;
    world.oauth().client_metadata(&id).token(&world.server.url).await.unwrap();
    assert_eq!(world.browser.param("client_id").as_deref(), Some(&*id));
    assert_eq!((world.dev.requests("/register"), document.at("/client.json").len()), (0, 1));

    let world = World::with(dev().client_documents(false)).await;
    world.oauth().client_metadata(&id).token(&world.server.url).await.unwrap();
    assert_ne!(world.browser.param("client_id").as_deref(), Some(&*id));
    assert_eq!(world.dev.requests("/register"), 1);
}

/// An MCP server that first uses one authorization server, then another.
#[tokio::test]
async fn a_server_that_moves_to_another_authorization_server_gets_a_token_of_that() {
    let (first, second) = (dev().bind("127.0.0.1:0").await.unwrap(), dev().bind("127.0.0.1:0").await.unwrap());
    let has_moved = Arc::new(AtomicBool::new(false));
    let (moved, issuers) = (has_moved.clone(), [first.issuer().to_owned(), second.issuer().to_owned()]);
    let server = Script::start(move |request| {
        let issuer = &issuers[usize::from(moved.load(Ordering::SeqCst))];
        let accepts = |token: &str| {
            use base64::Engine as _;
            let claims = token.split('.').nth(1).unwrap();
            let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
            serde_json::from_slice::<serde_json::Value>(&claims).unwrap()["iss"] == **issuer
        };
        match &*request.path {
            "/mcp" if request.authorization().is_some_and(accepts) => Reply::json(200, json!({})),
            "/.well-known/oauth-protected-resource/mcp" => {
                let mut metadata = resource_metadata(&request.base);
                metadata["authorization_servers"] = json!([issuer]);
                Reply::json(200, metadata)
            }
            _ => provider(&request),
        }
    })
    .await;
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login());
    let request =
        || http::Request::get(server.url("/mcp")).body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
    let client = tower_layer::Layer::layer(&auth.layer(), crate::script::plain_client());
    let send = async || {
        let mut client = client.clone();
        tower_service::Service::call(&mut client, request()).await.unwrap().status()
    };
    assert_eq!(send().await, 200);
    assert_eq!(auth.status(server.url("/mcp")).await.unwrap().unwrap().issuer, first.issuer());
    let requests = first.requests("/token");
    has_moved.store(true, Ordering::SeqCst);
    assert_eq!(send().await, 200);
    assert_eq!(auth.status(server.url("/mcp")).await.unwrap().unwrap().issuer, second.issuer());
    assert_eq!((second.requests("/register"), second.grants("authorization_code")), (1, 1));
    assert_eq!(first.requests("/token"), requests, "the first authorization server is asked again");
}

#[tokio::test]
async fn a_server_of_2025_03_26_is_its_own_authorization_server() {
    for has_metadata in [true, false] {
        let server = Script::start(move |request| match &*request.path {
            "/mcp" if request.authorization().is_none() => Reply::status(401),
            "/.well-known/oauth-authorization-server" if has_metadata => {
                Reply::json(200, server_metadata(&request.base))
            }
            path if path.starts_with("/.well-known/") => Reply::status(404),
            "/authorize" if !has_metadata => Reply::redirect(302, &callback(&request, &[("code", "c")])),
            _ => provider(&request),
        })
        .await;
        let browser = Browser::new();
        let auth = OAuth::new("agent").login(browser.login());
        let token = auth.token(server.url("/mcp")).await.unwrap();
        assert!(token.expose().starts_with("access-"));
        assert_eq!(browser.param("resource"), None);
        assert_eq!(browser.param("code_challenge_method").as_deref(), Some("S256"));
    }
}

#[tokio::test]
async fn the_resource_parameter_can_be_replaced_or_left_out_everywhere() {
    use turms_oauth::ResourceParameter;
    for (parameter, expected) in
        [(ResourceParameter::Omit, None), (ResourceParameter::Exactly("api://notes".to_owned()), Some("api://notes"))]
    {
        let server = Script::start(|request| provider(&request)).await;
        let browser = Browser::new();
        let auth = OAuth::new("agent").login(browser.login()).resource(parameter);
        auth.token(server.url("/mcp")).await.unwrap();
        auth.refresh_now(server.url("/mcp")).await.unwrap();
        assert_eq!(browser.param("resource").as_deref(), expected);
        let requests = server.at("/token");
        assert_eq!(requests.len(), 2);
        for request in requests {
            assert_eq!(request.field("resource").as_deref(), expected);
        }
    }
}

#[tokio::test]
async fn a_server_without_authorization_needs_no_login() {
    let server = Script::start(|_| Reply::json(200, json!({}))).await;
    let auth = OAuth::new("agent").login(Login::never());
    let mut client = tower_layer::Layer::layer(&auth.layer(), crate::script::plain_client());
    let request = http::Request::get(server.url("/x")).body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
    let response = tower_service::Service::call(&mut client, request).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(server.paths(), ["/x"]);
}

#[tokio::test]
async fn an_invalid_server_url_is_not_repeated_in_the_error() {
    let auth = OAuth::new("agent");
    for url in ["s3cret", "ftp://s3cret@host/", "https://"] {
        let error = auth.token(url).await.unwrap_err().to_string();
        assert_eq!(error, "the server is not a valid http:// or https:// URL");
    }
}

#[tokio::test]
async fn the_application_conducts_the_login_with_its_own_redirect_uri() {
    let world = World::new().await;
    let login = Login::with(|prompt| async move {
        assert_eq!(prompt.redirect_uri, "http://localhost:8085/cb");
        open(&prompt.url).await
    });
    let auth = world.oauth().login(login.redirect("http://localhost:8085/cb"));
    auth.token(&world.server.url).await.unwrap();
    let client = world.stored().await.unwrap().client;
    assert_eq!(client.redirect_uri.as_deref(), Some("http://localhost:8085/cb"));
    assert!(client.is_registered && client.client_secret.is_none());
}

#[tokio::test]
async fn servers_of_one_client_are_kept_apart() {
    let world = World::new().await;
    let other = guarded(&world.dev).await;
    let auth = world.oauth();
    let [one, two] = [auth.token(&world.server.url).await.unwrap(), auth.token(&other.url).await.unwrap()];
    assert_ne!(one, two);
    assert_eq!((world.browser.windows(), world.dev.requests("/register")), (2, 1));
    // The query of a URL does not make another server of it.
    let same: Secret = auth.token(format!("{}?key=1", world.server.url)).await.unwrap();
    assert_eq!(same, one);
}
