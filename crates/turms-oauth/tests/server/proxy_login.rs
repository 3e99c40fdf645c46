//! Logins through the proxy.

use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use turms_core::Principal;
use turms_oauth::Jws;
use turms_oauth::proxy::{OAuthProxy, ProxyUser, Upstream, UpstreamError};

use crate::agent::{Agent, Login, REDIRECT, decode, param};
use crate::proxied::{Proxied, RESOURCE, plain_provider};
use crate::site::{Site, serve};

fn claims(tokens: &Value) -> Value {
    decode(tokens["access_token"].as_str().unwrap()).1
}

fn principal(tokens: &Value) -> Principal {
    let claims = claims(tokens);
    let principal = Principal::new(claims["sub"].as_str().unwrap()).with_issuer(claims["iss"].as_str().unwrap());
    principal.with_claims(claims.as_object().unwrap().clone())
}

#[tokio::test]
async fn a_client_gets_tokens_of_the_proxy_for_a_login_at_the_provider() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let metadata = browser.get(proxied.proxy.metadata_url()).await.ok();
    assert_eq!(metadata["issuer"], proxied.proxy.issuer());
    assert_eq!(metadata["registration_endpoint"], proxied.url("/register"));
    assert_eq!(metadata["grant_types_supported"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(
        (&metadata["scopes_supported"], &metadata["client_id_metadata_document_supported"]),
        (&json!(["read", "write"]), &json!(true))
    );

    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let login = Login::new(&client).with("resource", RESOURCE);
    let page = browser.get(login.url(&proxied.url("/authorize"))).await;
    let text = page.text();
    for shown in ["The Client", "127.0.0.1", "read", RESOURCE, "The Provider"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert_eq!((page.header("x-frame-options"), page.header("cache-control")), ("DENY", "no-store"));
    assert!(page.header("content-security-policy").contains("frame-ancestors 'none'"));
    assert_eq!(proxied.provider.requests("/authorize"), 0, "the provider is not visited before the approval");

    let answer = proxied.log_in(&mut browser, &login).await;
    assert!(answer.location().as_str().starts_with(&format!("{REDIRECT}?")));
    assert_eq!(answer.param("state").as_deref(), Some("the state"));
    assert_eq!(answer.param("iss").as_deref(), Some(proxied.proxy.issuer()));
    let tokens = browser.post(proxied.url("/token"), &login.exchange(&answer.param("code").unwrap())).await.ok();
    let token = tokens["access_token"].as_str().unwrap();
    Jws::parse(token).unwrap().verify(&proxied.proxy.jwk_set().keys[0]).unwrap();
    let claims = claims(&tokens);
    assert_eq!((&claims["sub"], &claims["aud"], &claims["scope"]), (&json!("alice"), &json!(RESOURCE), &json!("read")));
    assert_eq!((&claims["iss"], &claims["client_id"]), (&json!(proxied.proxy.issuer()), &json!(client)));
    assert!(claims["email"].is_null(), "claims of the provider are not copied");
    proxied.assert_no_upstream_token(&browser);
}

#[tokio::test]
async fn each_leg_has_its_own_state_challenge_and_redirect_uri() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let login = Login::new(&client);
    let to_provider = proxied.approve(&mut browser, &login).await.location();
    assert_eq!(param(&to_provider, "client_id").as_deref(), Some("proxy"));
    assert_eq!(param(&to_provider, "redirect_uri"), Some(proxied.proxy.callback_url()));
    assert_eq!(param(&to_provider, "code_challenge_method").as_deref(), Some("S256"));
    assert_eq!(param(&to_provider, "scope").as_deref(), Some("openid"));
    assert!(param(&to_provider, "nonce").is_some_and(|nonce| nonce.len() >= 43));
    for name in ["state", "code_challenge"] {
        let own = login.params.iter().find(|(own, _)| own == name).unwrap();
        assert_ne!(param(&to_provider, name).as_ref(), Some(&own.1), "{name}");
    }
}

#[tokio::test]
async fn several_logins_can_be_in_progress_in_one_browser() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let logins = [&*"a".repeat(1200), "second", "third"].map(|state| (Login::new(""), state.to_owned()));
    let mut callbacks = Vec::new();
    for (login, state) in logins {
        let client = proxied.register(&mut browser, &[REDIRECT]).await;
        let login = login.with("client_id", &client).with("state", &state);
        let approved = proxied.approve(&mut browser, &login).await;
        callbacks.push((proxied.at_provider(&mut browser, &approved).await.location(), login, state));
    }
    for (callback, login, state) in callbacks.into_iter().rev() {
        let answer = browser.get(callback.as_str()).await;
        assert_eq!(answer.param("state"), Some(state));
        let code = answer.param("code").unwrap();
        browser.post(proxied.url("/token"), &login.exchange(&code)).await.ok();
    }
    assert!(!browser.cookies.keys().any(|name| name.contains("login-")), "{:?}", browser.cookies.keys());
}

#[tokio::test]
async fn the_cookies_of_logins_in_progress_are_protected_and_short() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let long = "a".repeat(4000);
    let answer = proxied.approve(&mut browser, &Login::new(&client).with("state", &long)).await;
    assert_eq!(answer.param("error").as_deref(), Some("invalid_request"));
    assert!(answer.param("error_description").unwrap().contains("too long"));
    assert_eq!(answer.param("state"), Some(long));

    let answer = proxied.approve(&mut browser, &Login::new(&client)).await;
    let cookies = answer.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
    let cookies: Vec<&str> = cookies.filter(|cookie| cookie.contains("login-")).collect();
    let [cookie] = *cookies else { panic!("{cookies:?}") };
    for attribute in ["; HttpOnly", "; SameSite=Lax", "; Path=/;", "; Max-Age=600;"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    for shown in ["the state", "127.0.0.1", &client] {
        assert!(!cookie.contains(shown), "{shown}: {cookie}");
    }
    // The largest registration leaves enough space.
    let redirects: Vec<String> = (0..10).map(|at| format!("https://app.example.com/{}{at}", "x".repeat(150))).collect();
    let body = json!({"client_name": "The Client", "redirect_uris": redirects});
    let client = browser.post_json(proxied.url("/register"), &body).await.ok();
    let client = client["client_id"].as_str().unwrap();
    assert!(client.len() > 2400, "{}", client.len());
    let login = Login::new(client).with("redirect_uri", &redirects[9]).with("state", &"a".repeat(1000));
    assert!(proxied.log_in(&mut browser, &login).await.param("code").is_some());
}

#[tokio::test]
async fn a_login_in_progress_survives_a_restart_with_the_same_key() {
    let proxied = Proxied::with(|provider| provider.auto_approve("alice"), |proxy| proxy.key([7; 32])).await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let approved = proxied.approve(&mut browser, &Login::new(&client)).await;
    let callback = proxied.at_provider(&mut browser, &approved).await.location();
    let issuer = proxied.proxy.issuer();
    for (key, status) in [([8; 32], 400), ([7; 32], 303)] {
        let proxy = OAuthProxy::builder(issuer).resource(RESOURCE).upstream(proxied.upstream.clone()).key(key);
        let origin = serve(Router::new().fallback_service(proxy.build().unwrap().service())).await;
        let url = callback.as_str().replace(issuer, &origin);
        assert_eq!(browser.get(url).await.status, status);
    }
}

#[tokio::test]
async fn approval_is_remembered_for_the_client_its_redirect_uri_and_the_scopes() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let other_uri = "https://app.example.com/cb";
    let client = proxied.register(&mut browser, &[REDIRECT, other_uri]).await;
    let body = json!({"client_name": "Another", "redirect_uris": [REDIRECT]});
    let second = browser.post_json(proxied.url("/register"), &body).await.ok();
    let second = second["client_id"].as_str().unwrap();
    proxied.approve(&mut browser, &Login::new(&client)).await;
    let cookies = browser.cookies.clone();
    let authorize = proxied.url("/authorize");
    for (login, status) in [
        (Login::new(&client), 303),
        (Login::new(&client).with("redirect_uri", "http://127.0.0.1:4711/callback"), 303),
        (Login::new(&client).with("redirect_uri", other_uri), 200),
        (Login::new(&client).with("scope", "read write"), 200),
        (Login::new(second), 200),
    ] {
        let answer = browser.get(login.url(&authorize)).await;
        assert_eq!(answer.status, status, "{:?}", login.params);
    }
    assert_eq!(Agent::new().get(Login::new(&client).url(&authorize)).await.status, 200, "another browser");
    let (name, value) = cookies.iter().find(|(name, _)| name.contains("approvals")).unwrap();
    let without_code = format!("{}{}", &value[..32], "A".repeat(value.len() - 32));
    let other = value.replace(&value[..4], "AAAA");
    for forged in [without_code, other, value[..value.len() - 3].to_owned(), String::new(), "!".to_owned()] {
        browser.cookies.insert(name.clone(), forged);
        assert_eq!(browser.get(Login::new(&client).url(&authorize)).await.status, 200, "a forged cookie");
    }
    browser.cookies.insert(name.clone(), value.clone());
    proxied.proxy.__advance(Duration::from_secs(31 * 24 * 60 * 60));
    assert_eq!(browser.get(Login::new(&client).url(&authorize)).await.status, 200, "it has ended");
}

#[tokio::test]
async fn the_approval_cookie_is_protected() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let answer = proxied.approve(&mut browser, &Login::new(&client)).await;
    let cookies: Vec<&str> = answer.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(cookies.len(), 2);
    assert!(cookies.iter().all(|cookie| cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax")), "{cookies:?}");

    let settings = OAuthProxy::builder("https://mcp.example.com").resource(RESOURCE).upstream(proxied.upstream.clone());
    let origin = serve(Router::new().fallback_service(settings.build().unwrap().service())).await;
    let body = json!({"redirect_uris": [REDIRECT]});
    let client = Agent::new().post_json(format!("{origin}/register"), &body).await.ok();
    let login = Login::new(client["client_id"].as_str().unwrap());
    let page = Agent::new().get(login.url(&format!("{origin}/authorize"))).await;
    let cookie = page.header("set-cookie");
    assert!(cookie.starts_with("__Host-") && cookie.contains("; Secure") && cookie.contains("; Path=/;"), "{cookie}");
}

#[tokio::test]
async fn a_document_of_a_local_program_is_approved_each_time() {
    let (proxied, site) = (Proxied::new().await, Site::new().await);
    let id = site.url("/client.json");
    let web = "https://app.example.com/cb";
    site.json("/client.json", &json!({"client_id": id, "redirect_uris": [REDIRECT, web]}));
    let mut browser = Agent::new();
    for (redirect, status) in [(REDIRECT, 200), (web, 303)] {
        let login = Login::new(&id).with("redirect_uri", redirect);
        proxied.approve(&mut browser, &login).await;
        assert_eq!(browser.get(login.url(&proxied.url("/authorize"))).await.status, status, "{redirect}");
    }
}

#[tokio::test]
async fn a_person_can_deny_access() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let url = Login::new(&client).url(&proxied.url("/authorize"));
    let csrf = browser.get(&url).await.csrf();
    let answer = browser.post(&url, &[("csrf", &csrf), ("decision", "deny")]).await;
    assert_eq!(answer.param("error").as_deref(), Some("access_denied"));
    assert_eq!(proxied.provider.requests("/authorize"), 0);
    assert_eq!(browser.get(&url).await.status, 200, "a denial is no approval");
}

#[tokio::test]
async fn handlers_get_the_token_of_the_provider_which_is_renewed() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let (_, tokens) = proxied.tokens(&mut browser).await;
    let person = principal(&tokens);
    let token = proxied.proxy.upstream_token(&person).await.unwrap();
    assert_eq!(decode(token.expose()).1["iss"], proxied.provider.issuer());
    let headers = [("authorization", &*format!("Bearer {}", token.expose()))];
    let info =
        Agent::new().send(http::Method::GET, &proxied.provider.url("/userinfo"), &headers, bytes::Bytes::new()).await;
    assert_eq!(info.ok()["email"], "alice@example.com");
    assert_eq!(proxied.proxy.upstream_token(&person).await.unwrap(), token);

    proxied.proxy.__advance(Duration::from_secs(290));
    let calls = (0..20).map(|_| {
        let (proxy, person) = (proxied.proxy.clone(), person.clone());
        tokio::spawn(async move { proxy.upstream_token(&person).await.unwrap() })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_ne!(call.await.unwrap(), token);
    }
    assert_eq!(proxied.provider.grants("refresh_token"), 1, "calls at the same time renew it once");

    let foreign = person.clone().with_issuer("https://other.example.com");
    let unknown = Principal::new("alice").with_issuer(proxied.proxy.issuer());
    for principal in [foreign, unknown] {
        assert!(matches!(proxied.proxy.upstream_token(&principal).await, Err(UpstreamError::NoLogin)));
    }
    proxied.provider.revoke_all();
    proxied.proxy.__advance(Duration::from_secs(290));
    assert!(matches!(proxied.proxy.upstream_token(&person).await, Err(UpstreamError::Ended)));
    proxied.assert_no_upstream_token(&browser);
}

#[tokio::test]
async fn the_token_of_the_provider_is_dropped_with_the_login() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let (client, tokens) = proxied.tokens(&mut browser).await;
    let person = principal(&tokens);
    let form = [("token", tokens["refresh_token"].as_str().unwrap()), ("client_id", &client)];
    assert_eq!(browser.post(proxied.url("/revoke"), &form).await.status, 200);
    assert!(matches!(proxied.proxy.upstream_token(&person).await, Err(UpstreamError::NoLogin)));
}

#[tokio::test]
async fn the_application_decides_about_people() {
    let users = |user: &turms_oauth::proxy::UpstreamUser| {
        let email = user.claim::<String>("email")?;
        email
            .ends_with("@example.com")
            .then(|| ProxyUser::new(format!("user:{email}")).claim("tenant", "blue").scopes(["read"]))
    };
    let proxied = Proxied::with(|provider| provider.auto_approve("alice"), |proxy| proxy.users(users)).await;
    let (_, tokens) = proxied.tokens(&mut Agent::new()).await;
    let claims = claims(&tokens);
    assert_eq!((&claims["sub"], &claims["tenant"]), (&json!("user:alice@example.com"), &json!("blue")));
    assert_eq!(claims["scope"], "read");
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let answer = proxied.log_in(&mut browser, &Login::new(&client).with("scope", "write")).await;
    assert_eq!(answer.param("error").as_deref(), Some("access_denied"), "none of the scopes");

    let proxied = Proxied::with(|provider| provider.user("bob").auto_approve("bob"), |proxy| proxy.users(users)).await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let answer = proxied.log_in(&mut browser, &Login::new(&client)).await;
    assert_eq!(answer.param("error").as_deref(), Some("access_denied"));
    assert!(answer.param("code").is_none());
}

#[tokio::test]
async fn a_provider_without_openid_connect_is_asked_for_the_user_information() {
    let site = Site::new().await;
    let user_info = site.json("/user", &json!({"id": 583_231, "login": "alice"}));
    let proxied = Proxied::with_upstream(
        |provider| provider.auto_approve("alice"),
        |proxy| proxy,
        |_, issuer| plain_provider(issuer, &user_info),
    )
    .await;
    let (_, tokens) = proxied.tokens(&mut Agent::new()).await;
    assert_eq!(claims(&tokens)["sub"], "583231");

    site.json("/user", &json!({"id": null}));
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let answer = proxied.log_in(&mut browser, &Login::new(&client)).await;
    assert_eq!(answer.param("error").as_deref(), Some("server_error"));
}

#[tokio::test]
async fn registrations_and_approvals_survive_a_restart_with_the_same_key() {
    let proxied = Proxied::with(|provider| provider.auto_approve("alice"), |proxy| proxy.key([7; 32])).await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    proxied.approve(&mut browser, &Login::new(&client)).await;
    for (key, status) in [([7; 32], 303), ([8; 32], 400)] {
        let settings = OAuthProxy::builder(proxied.proxy.issuer())
            .resource(RESOURCE)
            .upstream(proxied.upstream.clone())
            .scopes(["read", "write"])
            .default_scopes(["read"])
            .key(key);
        let origin = serve(Router::new().fallback_service(settings.build().unwrap().service())).await;
        let answer = browser.get(Login::new(&client).url(&format!("{origin}/authorize"))).await;
        assert_eq!(answer.status, status);
    }
}

#[test]
fn incomplete_settings_are_refused() {
    let upstream = || Upstream::google("id", "secret");
    let error = |builder: turms_oauth::proxy::OAuthProxyBuilder| builder.build().unwrap_err().to_string();
    let issuer = "https://mcp.example.com";
    assert!(error(OAuthProxy::builder(issuer).resource(RESOURCE)).contains("upstream is missing"));
    assert!(error(OAuthProxy::builder(issuer).upstream(upstream())).contains("resource is missing"));
    for bad in ["http://mcp.example.com", "mcp.example.com", "https://mcp.example.com/?x"] {
        assert!(error(OAuthProxy::builder(bad).resource(RESOURCE).upstream(upstream())).contains("issuer"), "{bad}");
    }
    let proxy = OAuthProxy::builder(issuer).resource(RESOURCE).upstream(upstream()).build().unwrap();
    assert_eq!(proxy.callback_url(), "https://mcp.example.com/callback");
    let debug = format!("{proxy:?} {:?}", upstream());
    assert!(!debug.contains("secret"), "{debug}");
}
