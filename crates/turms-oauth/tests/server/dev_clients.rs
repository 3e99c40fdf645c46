//! Registered clients of the development server.

use std::collections::HashSet;

use serde_json::json;
use turms_oauth::dev::{DevClient, DevServer};

use crate::agent::{Agent, Login, REDIRECT, basic};

#[tokio::test]
async fn a_client_registers_and_logs_in() {
    let server = DevServer::builder().auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let request = json!({"redirect_uris": [REDIRECT], "client_name": "App", "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"], "token_endpoint_auth_method": "none", "application_type": "native"});
    let answer = agent.post_json(server.url("/register"), &request).await;
    assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (201, "no-store"));
    let client = answer.json();
    assert!(client["client_secret"].is_null());
    let login = Login::new(client["client_id"].as_str().unwrap());
    let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    let tokens = agent.post(server.url("/token"), &login.exchange(&code)).await.ok();
    assert!(tokens["refresh_token"].is_string());
    server.forget_registrations();
    assert_eq!(agent.get(login.url(&server.url("/authorize"))).await.status, 400);
}

#[tokio::test]
async fn a_registered_secret_works_with_its_method_only() {
    let server = DevServer::builder().auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let request = json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_basic"});
    let client = agent.post_json(server.url("/register"), &request).await.ok();
    let (id, secret) = (client["client_id"].as_str().unwrap(), client["client_secret"].as_str().unwrap());
    assert_eq!(client["client_secret_expires_at"], 0);
    let login = Login::new(id);
    let mut code = async || agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    let (first, second) = (code().await, code().await);
    let mut form = login.exchange(&first);
    form.push(("client_secret", secret));
    assert_eq!(agent.post(server.url("/token"), &form).await.error(), (401, "invalid_client".to_owned()));
    let (name, value) = basic(id, secret);
    agent.post_with(server.url("/token"), &login.exchange(&second), &[(name, &value)]).await.ok();
    let form = [("grant_type", "client_credentials")];
    let answer = agent.post_with(server.url("/token"), &form, &[(name, &value)]).await;
    assert_eq!(
        answer.error(),
        (400, "unauthorized_client".to_owned()),
        "nobody has approved a token for the client itself"
    );
}

#[tokio::test]
async fn clients_with_the_same_metadata_share_neither_an_id_nor_a_secret() {
    let server = DevServer::builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let request =
        json!({"redirect_uris": [REDIRECT], "client_name": "App", "token_endpoint_auth_method": "client_secret_post"});
    let (mut ids, mut secrets) = (HashSet::new(), HashSet::new());
    // Several of them register in the same second.
    for _ in 0..10 {
        let client = agent.post_json(server.url("/register"), &request).await.ok();
        assert!(ids.insert(client["client_id"].to_string()), "another client has this id");
        assert!(secrets.insert(client["client_secret"].to_string()), "another client has this secret");
    }
}

#[tokio::test]
async fn a_name_that_people_cannot_read_as_it_is_written_cannot_be_registered() {
    let server = DevServer::builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    for name in ["a\u{202e}b", "a\u{61c}b", "a\u{ad}b", "a\u{3164}b", "a\u{180e}b", "a\u{e0041}b", "\u{2800}"] {
        let request = json!({"redirect_uris": [REDIRECT], "client_name": name});
        let answer = agent.post_json(server.url("/register"), &request).await;
        assert_eq!(answer.status, 400, "{name:?} {}", answer.text());
    }
    for name in ["Caf\u{e9} \u{2603}", "\u{645}\u{62a}\u{635}\u{641}\u{62d}", "\u{1f980} App"] {
        let request = json!({"redirect_uris": [REDIRECT], "client_name": name});
        agent.post_json(server.url("/register"), &request).await.ok();
    }
    let request = json!({"redirect_uris": [REDIRECT], "client_name": " \u{a0}"});
    let client = agent.post_json(server.url("/register"), &request).await.ok();
    let login = Login::new(client["client_id"].as_str().unwrap());
    let text = agent.get(login.url(&server.url("/authorize"))).await.text();
    assert!(text.contains("<strong>registered."), "a client without a visible name is shown by its id: {text}");
}

#[tokio::test]
async fn registration_is_refused_for_invalid_requests_and_can_be_disabled() {
    let server = DevServer::builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let answer = agent.post_json(server.url("/register"), &json!({"redirect_uris": ["http://example.com/cb"]})).await;
    assert_eq!(answer.error(), (400, "invalid_redirect_uri".to_owned()));
    let answer = agent.post(server.url("/register"), &[("redirect_uris", REDIRECT)]).await;
    assert_eq!(answer.error(), (400, "invalid_client_metadata".to_owned()));
    let large = json!({"redirect_uris": [REDIRECT], "client_uri": "x".repeat(70_000)});
    assert_eq!(agent.post_json(server.url("/register"), &large).await.status, 413);

    let closed = DevServer::builder().registration(false).bind("127.0.0.1:0").await.unwrap();
    assert!(agent.get(closed.metadata_url()).await.ok()["registration_endpoint"].is_null());
    assert_eq!(agent.post_json(closed.url("/register"), &json!({"redirect_uris": [REDIRECT]})).await.status, 404);
}

#[tokio::test]
async fn a_client_that_registered_itself_introspects_only_its_own_tokens() {
    let server = DevServer::builder().auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let request = json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "client_secret_post"});
    let client = agent.post_json(server.url("/register"), &request).await.ok();
    let (id, secret) = (client["client_id"].as_str().unwrap(), client["client_secret"].as_str().unwrap());
    let login = Login::new(id);
    let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    let mut form = login.exchange(&code);
    form.push(("client_secret", secret));
    let own = agent.post(server.url("/token"), &form).await.ok();
    let foreign = server.access_token("alice", "https://notes.example.com/mcp", &[]);
    for (token, active) in [(own["access_token"].as_str().unwrap(), true), (&foreign, false)] {
        let form = [("token", token), ("client_id", id), ("client_secret", secret)];
        assert_eq!(agent.post(server.url("/introspect"), &form).await.ok()["active"], active);
    }
}

#[tokio::test]
async fn the_scopes_of_a_registration_are_a_default_and_no_limit() {
    let builder = DevServer::builder().scopes(["read", "write"]).default_scopes(["write"]).auto_approve("alice");
    let server = builder.bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let request = json!({"redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none", "scope": "read"});
    let client = agent.post_json(server.url("/register"), &request).await.ok();
    let id = client["client_id"].as_str().unwrap();
    for (login, granted) in [(Login::new(id), "read"), (Login::new(id).with("scope", "read write"), "read write")] {
        let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
        assert_eq!(agent.post(server.url("/token"), &login.exchange(&code)).await.ok()["scope"], granted);
    }
}

#[tokio::test]
async fn a_grant_type_that_does_not_exist_is_not_supported_for_any_client() {
    let server = DevServer::builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let client = agent.post_json(server.url("/register"), &json!({"redirect_uris": [REDIRECT]})).await.ok();
    let form = [("grant_type", "password"), ("client_id", client["client_id"].as_str().unwrap())];
    assert_eq!(agent.post(server.url("/token"), &form).await.error(), (400, "unsupported_grant_type".to_owned()));
}

#[tokio::test]
async fn the_name_of_a_client_is_escaped_on_the_page() {
    let server = DevServer::builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let request = json!({"redirect_uris": [REDIRECT], "client_name": "<img src=x onerror=alert(1)>"});
    let client = agent.post_json(server.url("/register"), &request).await.ok();
    let login = Login::new(client["client_id"].as_str().unwrap()).with("scope", "<b>");
    let text = agent.get(login.url(&server.url("/authorize"))).await.text();
    assert!(text.contains("&lt;img src=x onerror=alert(1)&gt;"), "{text}");
    assert!(!text.contains("<img") && !text.contains("<b>"), "{text}");
}

#[tokio::test]
async fn a_client_gets_no_code_that_its_grants_do_not_allow() {
    let server = DevServer::builder().auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let grants = ["urn:ietf:params:oauth:grant-type:device_code"];
    let request = json!({"redirect_uris": [REDIRECT], "grant_types": grants});
    let client = agent.post_json(server.url("/register"), &request).await.ok();
    let login = Login::new(client["client_id"].as_str().unwrap());
    let answer = agent.get(login.url(&server.url("/authorize"))).await;
    assert_eq!((answer.param("error").as_deref(), answer.param("code")), (Some("unauthorized_client"), None));
}

#[tokio::test]
async fn a_request_names_one_client() {
    let server = DevServer::builder()
        .client(DevClient::with_secret("robot", "s3cret"))
        .client(DevClient::with_secret("other", "s3cret"))
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let (name, value) = basic("robot", "s3cret");
    let post = async |client: &str| {
        let form = [("grant_type", "client_credentials"), ("client_id", client)];
        Agent::new().post_with(server.url("/token"), &form, &[(name, &value)]).await
    };
    assert_eq!(post("other").await.error(), (400, "invalid_request".to_owned()));
    post("robot").await.ok();
}
