//! Authorization codes of the development server.

use std::time::Duration;

use http::Method;
use serde_json::json;
use turms_oauth::dev::{DevClient, DevServer, DevServerBuilder, DevUser};
use turms_oauth::{SigningKey, pkce_challenge};

use crate::agent::{Agent, Answer, Login, REDIRECT, decode};

fn builder() -> DevServerBuilder {
    DevServer::builder()
        .user(DevUser::new("alice").claim("tenant", "blue"))
        .client(DevClient::public("app").name("The App").redirect_uri("http://127.0.0.1/callback"))
        .client(DevClient::public("other").redirect_uri("http://127.0.0.1/callback"))
        .scopes(["openid", "read", "write"])
        .default_scopes(["read"])
}

async fn auto() -> DevServer {
    builder().auto_approve("alice").bind("127.0.0.1:0").await.unwrap()
}

#[tokio::test]
async fn the_metadata_is_at_every_place_where_clients_look_for_it() {
    let root = auto().await;
    let tenant = builder().issuer_path("/tenant1").bind("127.0.0.1:0").await.unwrap();
    let origin = tenant.issuer().strip_suffix("/tenant1").unwrap();
    assert_eq!(tenant.metadata_url(), format!("{origin}/.well-known/oauth-authorization-server/tenant1"));
    for (server, url) in [
        (&root, root.metadata_url()),
        (&root, root.url("/.well-known/openid-configuration")),
        (&tenant, tenant.metadata_url()),
        (&tenant, format!("{origin}/.well-known/openid-configuration/tenant1")),
        (&tenant, format!("{origin}/tenant1/.well-known/openid-configuration")),
    ] {
        let answer = Agent::new().get(&url).await;
        let metadata = answer.ok();
        assert_eq!(metadata["issuer"], server.issuer());
        assert_eq!(metadata["token_endpoint"], server.url("/token"));
        assert_eq!(metadata["code_challenge_methods_supported"], json!(["S256"]));
        assert_eq!(metadata["client_id_metadata_document_supported"], true);
        assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
        assert_eq!(answer.header("access-control-allow-origin"), "*");
    }
    let missing = format!("{origin}/.well-known/oauth-authorization-server");
    assert_eq!(Agent::new().get(&missing).await.status, 404);
    // Each path is counted, so there must not be endless ones.
    let well_known = "/.well-known/oauth-authorization-server";
    for slashes in 2..20 {
        let path = format!("{well_known}{}", "/".repeat(slashes));
        assert_eq!(Agent::new().get(root.url(&path)).await.status, 404, "{path}");
        assert_eq!(root.requests(&path), 0, "{path}");
    }
}

#[tokio::test]
async fn a_code_is_exchanged_for_tokens() {
    let server = auto().await;
    let mut agent = Agent::new();
    let login = Login::new("app")
        .with("scope", "openid write")
        .with("resource", "https://notes.example.com/mcp")
        .with("nonce", "n");
    let answer = agent.get(login.url(&server.url("/authorize"))).await;
    assert!(answer.location().as_str().starts_with(&format!("{REDIRECT}?")));
    assert_eq!(answer.param("state").as_deref(), Some("the state"));
    assert_eq!(answer.param("iss").as_deref(), Some(server.issuer()));
    let answer = agent.post(server.url("/token"), &login.exchange(&answer.param("code").unwrap())).await;
    assert_eq!((answer.header("cache-control"), answer.header("pragma")), ("no-store", "no-cache"));
    let tokens = answer.ok();
    assert_eq!(
        (&tokens["token_type"], &tokens["expires_in"], &tokens["scope"]),
        (&json!("Bearer"), &json!(300), &json!("openid write"))
    );
    let (header, claims) = decode(tokens["access_token"].as_str().unwrap());
    assert_eq!((&header["typ"], &header["kid"]), (&json!("at+jwt"), &json!(server.jwk_set().keys[0].kid)));
    assert_eq!(claims["iss"], server.issuer());
    assert_eq!(
        (&claims["sub"], &claims["tenant"], &claims["client_id"]),
        (&json!("alice"), &json!("blue"), &json!("app"))
    );
    assert_eq!((&claims["aud"], &claims["scope"]), (&json!("https://notes.example.com/mcp"), &json!("openid write")));
    let (_, id) = decode(tokens["id_token"].as_str().unwrap());
    assert_eq!((&id["aud"], &id["nonce"], &id["sub"]), (&json!("app"), &json!("n"), &json!("alice")));
    assert_eq!((server.requests("/token"), server.grants("authorization_code")), (1, 1));
}

#[tokio::test]
async fn defaults_are_granted_without_scope_and_resource() {
    let server = auto().await;
    let mut agent = Agent::new();
    let login = Login::new("app");
    let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    let tokens = agent.post(server.url("/token"), &login.exchange(&code)).await.ok();
    assert_eq!(tokens["scope"], "read");
    assert!(tokens["id_token"].is_null());
    assert_eq!(decode(tokens["access_token"].as_str().unwrap()).1["aud"], server.issuer());
}

#[tokio::test]
async fn the_port_of_a_loopback_redirect_may_differ_and_nothing_else() {
    let server = auto().await;
    let mut agent = Agent::new();
    let mut redirect =
        async |uri: &str| agent.get(Login::new("app").with("redirect_uri", uri).url(&server.url("/authorize"))).await;
    assert!(redirect("http://127.0.0.1:4711/callback").await.param("code").is_some());
    for wrong in [
        "http://127.0.0.1:4711/other",
        "http://localhost:4711/callback",
        "http://127.0.0.1:1@evil.example/callback",
        "https://evil.example/callback",
        "http://127.0.0.1/callback/../other",
    ] {
        let answer = redirect(wrong).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.headers.get("location").is_none());
    }
}

#[tokio::test]
async fn an_unknown_client_gets_a_page_and_no_redirect() {
    let server = auto().await;
    let answer = Agent::new().get(Login::new("<b>nobody</b>").url(&server.url("/authorize"))).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("invalid_client") && !answer.text().contains("<b>"));
    assert_eq!(answer.header("x-frame-options"), "DENY");
}

#[tokio::test]
async fn invalid_requests_are_refused_with_a_redirect() {
    let server =
        builder().resources(["https://notes.example.com/mcp"]).auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    for (name, value, error) in [
        ("response_type", "token", "unsupported_response_type"),
        ("response_type", "", "invalid_request"),
        ("code_challenge", "", "invalid_request"),
        ("code_challenge", "short", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("code_challenge_method", "", "invalid_request"),
        ("scope", "read admin", "invalid_scope"),
        ("resource", "https://other.example.com/mcp", "invalid_target"),
        ("resource", "https://notes.example.com/mcp#part", "invalid_target"),
        ("response_mode", "fragment", "invalid_request"),
        ("request", "x.y.z", "request_not_supported"),
        ("request_uri", "https://app.example.com/r", "request_uri_not_supported"),
    ] {
        let answer = agent.get(Login::new("app").with(name, value).url(&server.url("/authorize"))).await;
        assert_eq!(answer.param("error").as_deref(), Some(error), "{name}={value}");
        assert_eq!(answer.param("state").as_deref(), Some("the state"));
        assert_eq!(answer.param("iss").as_deref(), Some(server.issuer()));
        assert!(answer.param("code").is_none());
    }
    let twice = format!("{}&state=again", Login::new("app").url(&server.url("/authorize")));
    assert_eq!(agent.get(twice).await.status, 400);
}

#[tokio::test]
async fn invalid_exchanges_are_refused() {
    let server = auto().await;
    let mut agent = Agent::new();
    for (name, value, error) in [
        ("code_verifier", "a".repeat(43), "invalid_grant"),
        ("code_verifier", String::new(), "invalid_request"),
        ("redirect_uri", "http://127.0.0.1:10/callback".to_owned(), "invalid_grant"),
        ("redirect_uri", String::new(), "invalid_grant"),
        ("client_id", "other".to_owned(), "invalid_grant"),
        ("client_id", "nobody".to_owned(), "invalid_client"),
        ("client_id", String::new(), "invalid_client"),
        ("resource", "https://other.example.com/mcp".to_owned(), "invalid_target"),
        ("code", "guessed".to_owned(), "invalid_grant"),
        ("code", String::new(), "invalid_request"),
        ("grant_type", "password".to_owned(), "unsupported_grant_type"),
        ("grant_type", String::new(), "invalid_request"),
    ] {
        let login = Login::new("app").with("resource", "https://notes.example.com/mcp");
        let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
        let mut form = login.exchange(&code);
        form.retain(|(own, _)| *own != name);
        form.push((name, &value));
        let answer = agent.post(server.url("/token"), &form).await;
        let status = if error == "invalid_client" { 401 } else { 400 };
        assert_eq!(answer.error(), (status, error.to_owned()), "{name}={value}");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    assert_eq!(agent.get(server.url("/token")).await.status, 405);
}

#[tokio::test]
async fn a_code_that_is_used_twice_revokes_its_tokens() {
    let server = builder()
        .client(DevClient::with_secret("guard", "s3cret"))
        .auto_approve("alice")
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let mut agent = Agent::new();
    let login = Login::new("app");
    let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    let tokens = agent.post(server.url("/token"), &login.exchange(&code)).await.ok();
    let introspect =
        [("token", tokens["access_token"].as_str().unwrap()), ("client_id", "guard"), ("client_secret", "s3cret")];
    assert_eq!(agent.post(server.url("/introspect"), &introspect).await.ok()["active"], true);
    let replay = agent.post(server.url("/token"), &login.exchange(&code)).await;
    assert_eq!(replay.error(), (400, "invalid_grant".to_owned()));
    assert_eq!(agent.post(server.url("/introspect"), &introspect).await.ok()["active"], false);
    let refresh = [
        ("grant_type", "refresh_token"),
        ("client_id", "app"),
        ("refresh_token", tokens["refresh_token"].as_str().unwrap()),
    ];
    assert_eq!(agent.post(server.url("/token"), &refresh).await.error(), (400, "invalid_grant".to_owned()));
}

#[tokio::test]
async fn a_code_expires() {
    let server =
        builder().code_lifetime(Duration::from_secs(10)).auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let login = Login::new("app");
    let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    server.advance(Duration::from_secs(10));
    let answer = agent.post(server.url("/token"), &login.exchange(&code)).await;
    assert_eq!(answer.error(), (400, "invalid_grant".to_owned()));
}

#[tokio::test]
async fn a_denied_request_returns_to_the_client() {
    let server = builder().auto_deny().bind("127.0.0.1:0").await.unwrap();
    let answer = Agent::new().get(Login::new("app").url(&server.url("/authorize"))).await;
    assert_eq!(answer.param("error").as_deref(), Some("access_denied"));
}

#[tokio::test]
async fn a_person_logs_in_with_the_form() {
    let server = builder().user(DevUser::new("bob").password("hunter2")).bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let login = Login::new("app").with("scope", "write");
    let url = login.url(&server.url("/authorize"));
    let page = agent.get(&url).await;
    let text = page.text();
    assert!(text.contains("The App") && text.contains("127.0.0.1") && text.contains("write"), "{text}");
    let policy = page.header("content-security-policy");
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"), "{policy}");
    assert_eq!((page.header("x-frame-options"), page.header("cache-control")), ("DENY", "no-store"));
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("access-control-allow-origin"), "", "scripts of other sites cannot read the page");
    let cookie = page.header("set-cookie");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");

    let csrf = page.csrf();
    let form = |user: &'static str, password: &'static str, decision: &'static str| {
        vec![
            ("csrf", csrf.clone()),
            ("user", user.to_owned()),
            ("password", password.to_owned()),
            ("decision", decision.to_owned()),
        ]
    };
    let mut send = async |form: Vec<(&str, String)>| {
        let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        agent.post(&url, &form).await
    };
    let wrong = send(form("bob", "wrong", "approve")).await;
    assert_eq!(wrong.status, 403);
    assert!(wrong.text().contains("The name or the password is wrong"));
    assert_eq!(send(form("nobody", "", "approve")).await.status, 403);
    assert_eq!(send(form("bob", "hunter2", "deny")).await.param("error").as_deref(), Some("access_denied"));
    let code = send(form("bob", "hunter2", "approve")).await.param("code").unwrap();
    let tokens = agent.post(server.url("/token"), &login.exchange(&code)).await.ok();
    assert_eq!(decode(tokens["access_token"].as_str().unwrap()).1["sub"], "bob");
}

#[tokio::test]
async fn a_form_that_another_site_sends_is_refused() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut victim = Agent::new();
    let url = Login::new("app").url(&server.url("/authorize"));
    let csrf = victim.get(&url).await.csrf();
    let good = [("csrf", &*csrf), ("user", "alice"), ("decision", "approve")];

    let mut attacker = Agent::new();
    let foreign = attacker.get(&url).await.csrf();
    assert_eq!(victim.post(&url, &[("csrf", &*foreign), ("user", "alice"), ("decision", "approve")]).await.status, 403);
    assert_eq!(victim.post(&url, &good[1..]).await.status, 403);
    assert_eq!(victim.post_with(&url, &good, &[("origin", "https://evil.example")]).await.status, 403);
    let other = Login::new("other").url(&server.url("/authorize"));
    assert_eq!(victim.post(&other, &good).await.status, 403, "the token is for another request");
    let other = Login::new("app").with("state", "another").url(&server.url("/authorize"));
    assert_eq!(victim.post(&other, &good).await.status, 403, "which looks the same");
    assert_eq!(Agent::new().post(&url, &good).await.status, 403, "there is no cookie");
    assert!(victim.post_with(&url, &good, &[("origin", server.issuer())]).await.param("code").is_some());
}

#[tokio::test]
async fn a_client_that_registered_itself_cannot_use_errors_as_an_open_redirect() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let evil = "https://evil.example/<cb>";
    let request = json!({"redirect_uris": [evil, REDIRECT]});
    let client = agent.post_json(server.url("/register"), &request).await.ok();
    let login = Login::new(client["client_id"].as_str().unwrap()).with("response_type", "token");
    let answer = agent.get(login.with("redirect_uri", evil).url(&server.url("/authorize"))).await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (400, ""));
    let text = answer.text();
    assert!(text.contains("return to evil.example") && text.contains("error=unsupported_response_type"), "{text}");
    assert!(!text.contains("<cb>"), "{text}");
    let login = Login::new(client["client_id"].as_str().unwrap()).with("response_type", "token");
    let answer = agent.get(login.url(&server.url("/authorize"))).await;
    assert_eq!(answer.param("error").as_deref(), Some("unsupported_response_type"), "this machine is no other site");
}

#[tokio::test]
async fn a_resource_is_known_with_and_without_a_slash_at_the_end() {
    let server =
        builder().resources(["https://notes.example.com"]).auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let login = Login::new("app").with("resource", "https://notes.example.com/");
    let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    let tokens = agent.post(server.url("/token"), &login.exchange(&code)).await.ok();
    assert_eq!(decode(tokens["access_token"].as_str().unwrap()).1["aud"], "https://notes.example.com");
}

#[tokio::test]
async fn a_verifier_that_could_be_guessed_is_refused() {
    let server = auto().await;
    let mut agent = Agent::new();
    for (verifier, is_accepted) in
        [("a".repeat(42), false), ("a".repeat(43), true), ("a".repeat(128), true), ("a".repeat(129), false)]
    {
        let mut login = Login::new("app").with("code_challenge", &pkce_challenge(&verifier));
        login.verifier = verifier;
        let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
        let answer = agent.post(server.url("/token"), &login.exchange(&code)).await;
        match is_accepted {
            true => assert!(answer.ok()["access_token"].is_string()),
            false => assert_eq!(answer.error(), (400, "invalid_grant".to_owned()), "{}", login.verifier.len()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_that_is_used_by_two_requests_at_once_gives_no_valid_token() {
    // A signature of RSA takes long enough that other requests arrive meanwhile.
    let key = SigningKey::from_pem(include_bytes!("../data/rsa-2048.pem"), None).unwrap();
    let server = builder()
        .signing_key(key)
        .client(DevClient::with_secret("guard", "s3cret"))
        .auto_approve("alice")
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    for _ in 0..40 {
        let login = Login::new("app").with("scope", "openid");
        let code = Agent::new().get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
        let (url, form) = (server.url("/token"), login.exchange(&code));
        let exchange = async || Agent::new().post(&url, &form).await;
        let answers = futures_util::future::join_all((0..6).map(|_| exchange())).await;
        let issued: Vec<_> = answers.iter().filter(|answer| answer.status.is_success()).map(Answer::json).collect();
        assert!(issued.len() <= 1, "two requests got tokens for one code");
        for tokens in issued {
            let form = [
                ("token", tokens["access_token"].as_str().unwrap()),
                ("client_id", "guard"),
                ("client_secret", "s3cret"),
            ];
            assert_eq!(Agent::new().post(server.url("/introspect"), &form).await.ok()["active"], false);
            let form = [
                ("grant_type", "refresh_token"),
                ("client_id", "app"),
                ("refresh_token", tokens["refresh_token"].as_str().unwrap()),
            ];
            assert_eq!(Agent::new().post(&url, &form).await.error().1, "invalid_grant");
        }
    }
}

#[tokio::test]
async fn requests_that_are_too_long_are_refused() {
    let server = auto().await;
    let mut agent = Agent::new();
    let url = |length: usize| Login::new("app").with("state", &"s".repeat(length)).url(&server.url("/authorize"));
    assert!(agent.get(url(7000)).await.param("code").is_some());
    let answer = agent.get(url(8200)).await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (414, ""));
    let large = "x".repeat(70_000);
    assert_eq!(agent.post(server.url("/token"), &[("code", &large)]).await.status, 413);
}

#[tokio::test]
async fn a_body_of_another_type_is_not_read() {
    let server = auto().await;
    let mut agent = Agent::new();
    // Pages of other sites can send these types without a question to the server before.
    for media_type in ["text/plain", "multipart/form-data", "application/json", ""] {
        let login = Login::new("app");
        let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(login.exchange(&code)).finish();
        let headers = [("content-type", media_type)];
        let answer = agent.send(Method::POST, &server.url("/token"), &headers, body.into()).await;
        assert_eq!(answer.error(), (400, "invalid_request".to_owned()), "{media_type}");
        let body = json!({ "redirect_uris": [REDIRECT] }).to_string();
        if media_type != "application/json" {
            let answer = agent.send(Method::POST, &server.url("/register"), &headers, body.into()).await;
            assert_eq!(answer.error(), (400, "invalid_client_metadata".to_owned()), "{media_type}");
        }
    }
}
