//! Attacks on the proxy.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use turms_oauth::proxy::{ProxyUser, UpstreamUser};
use turms_oauth::{Algorithm, SigningKey};

use crate::agent::{Agent, Login, REDIRECT, decode};
use crate::proxied::{Proxied, plain_provider};
use crate::site::{Site, serve};

#[tokio::test]
async fn a_second_client_cannot_use_the_approval_of_another() {
    let proxied = Proxied::new().await;
    let mut victim = Agent::new();
    proxied.tokens(&mut victim).await;
    let evil = "https://evil.example/cb";
    let client = proxied.register(&mut Agent::new(), &[evil]).await;
    let login = Login::new(&client).with("redirect_uri", evil);
    let url = login.url(&proxied.url("/authorize"));
    let visits = proxied.provider.requests("/authorize");
    let page = victim.get(&url).await;
    assert_eq!((page.status.as_u16(), page.header("location")), (200, ""));
    assert!(page.text().contains("evil.example"));
    assert_eq!(victim.post(&url, &[("decision", "approve")]).await.status, 403, "without the page");
    assert_eq!(proxied.provider.requests("/authorize"), visits);
}

#[tokio::test]
async fn the_approval_form_of_another_site_is_refused() {
    let proxied = Proxied::new().await;
    let mut victim = Agent::new();
    let client = proxied.register(&mut victim, &[REDIRECT]).await;
    let other = proxied.register(&mut victim, &[REDIRECT, "https://app.example.com/cb"]).await;
    let url = Login::new(&client).url(&proxied.url("/authorize"));
    let csrf = victim.get(&url).await.csrf();
    let good = [("csrf", &*csrf), ("decision", "approve")];
    let mut attacker = Agent::new();
    let foreign = attacker.get(&url).await.csrf();
    assert_eq!(victim.post(&url, &[("csrf", &*foreign), ("decision", "approve")]).await.status, 403);
    assert_eq!(victim.post_with(&url, &good, &[("origin", "https://evil.example")]).await.status, 403);
    assert_eq!(victim.post_with(&url, &good, &[("origin", "null")]).await.status, 403);
    assert_eq!(Agent::new().post(&url, &good).await.status, 403, "there is no cookie");
    let another = Login::new(&other).url(&proxied.url("/authorize"));
    assert_eq!(victim.post(&another, &good).await.status, 403, "the token is for another request");
    assert_eq!(victim.get(&url).await.status, 200, "nothing was approved");
    assert_eq!(victim.post_with(&url, &good, &[("origin", proxied.proxy.issuer())]).await.status, 303);
}

#[tokio::test]
async fn what_a_person_approves_is_what_the_page_has_shown() {
    let both = ["read", "write"];
    let proxied = Proxied::with(|provider| provider.auto_approve("alice"), |proxy| proxy.default_scopes(both)).await;
    let site = Site::new().await;
    let id = site.url("/client.json");
    let good = json!({"client_id": id, "client_name": "App", "scope": "read", "redirect_uris": ["https://app.example.com/cb"]});
    // The redirect URI and the scopes are those of the document, because the request has none.
    let url = Login::new(&id).with("redirect_uri", "").url(&proxied.url("/authorize"));
    for changes in [
        json!({"redirect_uris": ["https://evil.example.com/cb"]}),
        json!({"scope": "read write"}),
        json!({"client_name": "Other App"}),
    ] {
        site.json("/client.json", &good);
        proxied.proxy.__advance(Duration::from_secs(301));
        let mut browser = Agent::new();
        let page = browser.get(&url).await;
        assert!(page.text().contains("app.example.com") && !page.text().contains("write"), "{}", page.text());
        let mut changed = good.clone();
        changed.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        site.json("/client.json", &changed);
        proxied.proxy.__advance(Duration::from_secs(301));
        let answer = browser.post(&url, &[("csrf", &page.csrf()), ("decision", "approve")]).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (403, ""), "{changes}");
        // A new page shows what has changed, and can be approved.
        let csrf = browser.get(&url).await.csrf();
        let answer = browser.post(&url, &[("csrf", &csrf), ("decision", "approve")]).await;
        assert!(answer.location().as_str().starts_with(proxied.provider.issuer()), "{changes}");
    }
}

#[tokio::test]
async fn a_login_is_completed_once_and_only_in_the_browser_that_approved() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let login = Login::new(&client);
    let approved = proxied.approve(&mut browser, &login).await;
    // The attacker has approved their own client, and lures a person to the provider.
    let callback = proxied.at_provider(&mut Agent::new(), &approved).await.location();
    for mut other in [Agent::new(), {
        let mut other = Agent::new();
        proxied.approve(&mut other, &Login::new(&client)).await;
        other
    }] {
        let refused = other.get(callback.as_str()).await;
        assert_eq!((refused.status.as_u16(), refused.header("location")), (400, ""), "another browser");
    }
    assert_eq!(proxied.provider.requests("/token"), 0);
    let before = browser.cookies.clone();
    assert!(browser.get(callback.as_str()).await.param("code").is_some());
    let exchanges = proxied.provider.requests("/token");
    // A browser that has kept its cookie.
    let after = std::mem::replace(&mut browser.cookies, before);
    assert!(after.len() < browser.cookies.len(), "the cookie is removed");
    let replayed = browser.get(callback.as_str()).await;
    assert_eq!((replayed.status.as_u16(), replayed.header("location")), (400, ""), "the state was used");
    assert_eq!(proxied.provider.requests("/token"), exchanges);
}

#[tokio::test]
async fn a_flood_of_approvals_ends_no_login_of_others() {
    let proxied = Proxied::new().await;
    let (mut victim, mut attacker) = (Agent::new(), Agent::new());
    let client = proxied.register(&mut victim, &[REDIRECT]).await;
    let approved = proxied.approve(&mut victim, &Login::new(&client)).await;
    let callback = proxied.at_provider(&mut victim, &approved).await.location();
    let login = Login::new(&proxied.register(&mut attacker, &[REDIRECT]).await);
    let url = login.url(&proxied.url("/authorize"));
    proxied.approve(&mut attacker, &login).await;
    for _ in 0..5_000 {
        attacker.seen.clear();
        assert!(attacker.get(&url).await.status.is_redirection());
    }
    assert!(victim.get(callback.as_str()).await.param("code").is_some());
    let length: usize = attacker.cookies.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(length < 7_500, "{length} bytes of cookies");
}

#[tokio::test]
async fn a_sealed_login_is_for_its_own_state_and_time() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let login = Login::new(&proxied.register(&mut browser, &[REDIRECT]).await);
    let mut callbacks = Vec::new();
    let mut cookies = Vec::new();
    for _ in 0..2 {
        let known = browser.cookies.clone();
        let approved = proxied.approve(&mut browser, &login).await;
        callbacks.push(proxied.at_provider(&mut browser, &approved).await.location());
        let is_new = |name: &&String| name.contains("login-") && !known.contains_key(*name);
        cookies.push(browser.cookies.keys().find(is_new).unwrap().clone());
    }
    let values = [0, 1].map(|at: usize| browser.cookies[&cookies[at]].clone());
    let (end, sealed) = values[0].split_once('.').unwrap();
    let later = end.parse::<u64>().unwrap() + 1;
    let (half, rest) = sealed.split_at(sealed.len() / 2);
    let flipped = if rest.starts_with('A') { 'B' } else { 'A' };
    for forged in [
        values[1].clone(),
        format!("{later}.{sealed}"),
        format!("{end}.{half}{flipped}{}", &rest[1..]),
        format!("{end}."),
        end.to_owned(),
        String::new(),
    ] {
        browser.cookies.insert(cookies[0].clone(), forged.clone());
        let refused = browser.get(callbacks[0].as_str()).await;
        assert_eq!((refused.status.as_u16(), refused.header("location")), (400, ""), "{forged}");
    }
    browser.cookies.insert(cookies[0].clone(), values[0].clone());
    for callback in callbacks {
        assert!(browser.get(callback.as_str()).await.param("code").is_some());
    }
}

#[tokio::test]
async fn a_callback_that_does_not_belong_to_a_login_is_refused() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let login = Login::new(&client);
    for query in ["", "code=c", "code=c&state=guessed", "state=x", "error=%3Cb%3E&state=x", "code=a&code=b&state=x"] {
        let answer = browser.get(proxied.url(&format!("/callback?{query}"))).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (400, ""), "{query}");
        assert!(!answer.text().contains("<b>"));
    }
    let to_provider = proxied.approve(&mut browser, &login).await;
    let mut mixed_up = proxied.at_provider(&mut browser, &to_provider).await.location();
    let pairs: Vec<(String, String)> = mixed_up.query_pairs().into_owned().filter(|(name, _)| name != "iss").collect();
    mixed_up.query_pairs_mut().clear().extend_pairs(pairs).append_pair("iss", "https://evil.example");
    let answer = browser.get(mixed_up.as_str()).await;
    assert_eq!(answer.param("error").as_deref(), Some("server_error"), "mixed-up issuer");
    assert_eq!(proxied.provider.requests("/token"), 0);

    let to_provider = proxied.approve(&mut browser, &login).await;
    let late = proxied.at_provider(&mut browser, &to_provider).await.location();
    proxied.proxy.__advance(Duration::from_secs(600));
    assert_eq!(browser.get(late.as_str()).await.status, 400, "the login took too long");
}

#[tokio::test]
async fn a_code_that_is_used_twice_ends_the_login() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let login = Login::new(&client);
    let code = proxied.log_in(&mut browser, &login).await.param("code").unwrap();
    let tokens = browser.post(proxied.url("/token"), &login.exchange(&code)).await.ok();
    let replay = browser.post(proxied.url("/token"), &login.exchange(&code)).await;
    assert_eq!(replay.error(), (400, "invalid_grant".to_owned()));
    let refresh = proxied.refresh(&mut browser, &client, &tokens["refresh_token"]).await;
    assert_eq!(refresh.error(), (400, "invalid_grant".to_owned()));
}

#[tokio::test]
async fn pkce_is_required_and_cannot_be_weakened() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    for (name, value) in [("code_challenge", ""), ("code_challenge_method", ""), ("code_challenge_method", "plain")] {
        let answer = browser.get(Login::new(&client).with(name, value).url(&proxied.url("/authorize"))).await;
        assert_eq!(answer.param("error").as_deref(), Some("invalid_request"), "{name}={value}");
    }
    let login = Login::new(&client);
    proxied.approve(&mut browser, &login).await;
    for verifier in ["", "a", &"a".repeat(43)] {
        let approved = browser.get(login.url(&proxied.url("/authorize"))).await;
        let back = proxied.at_provider(&mut browser, &approved).await;
        let code = browser.get(back.location().as_str()).await.param("code").unwrap();
        let mut form = login.exchange(&code);
        form.retain(|(name, _)| *name != "code_verifier");
        form.push(("code_verifier", verifier));
        assert_eq!(browser.post(proxied.url("/token"), &form).await.status, 400, "{verifier:?}");
    }
}

#[tokio::test]
async fn unknown_clients_and_redirect_uris_get_a_page() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let web = "https://app.example.com/cb";
    let client = proxied.register(&mut browser, &[REDIRECT, web]).await;
    let forged = format!("{client}x");
    for login in [
        Login::new("unknown"),
        Login::new("proxy"),
        Login::new(&forged),
        Login::new("https://127.0.0.1:1/client.json"),
        Login::new(&client).with("redirect_uri", "https://evil.example/cb"),
        Login::new(&client).with("redirect_uri", "https://app.example.com.evil.example/cb"),
        Login::new(&client).with("redirect_uri", "https://app.example.com/cb?x=1"),
        Login::new(&client).with("redirect_uri", "https://app.example.com/cb/../evil"),
        Login::new(&client).with("redirect_uri", "http://127.0.0.1:9@evil.example/callback"),
        Login::new(&client).with("redirect_uri", ""),
        Login::new(&client).with("redirect_uri", web).with("response_type", "token"),
    ] {
        let answer = browser.get(login.url(&proxied.url("/authorize"))).await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (400, ""), "{:?}", login.params);
    }
    assert_eq!(proxied.provider.requests("/authorize"), 0);
}

#[tokio::test]
async fn tokens_are_for_the_resource_and_the_scopes_of_the_proxy_only() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    for (name, value, error) in [
        ("resource", "https://other.example.com/mcp", "invalid_target"),
        ("scope", "read admin", "invalid_scope"),
        ("scope", "openid", "invalid_scope"),
    ] {
        let answer = browser.get(Login::new(&client).with(name, value).url(&proxied.url("/authorize"))).await;
        assert_eq!(answer.param("error").as_deref(), Some(error), "{value}");
    }
    let form = [("grant_type", "client_credentials"), ("client_id", &*client)];
    assert_eq!(browser.post(proxied.url("/token"), &form).await.error(), (400, "unsupported_grant_type".to_owned()));
}

#[tokio::test]
async fn errors_of_the_provider_reach_the_client_as_errors_of_oauth() {
    let proxied = Proxied::with(|provider| provider.auto_deny(), |proxy| proxy).await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    let answer = proxied.log_in(&mut browser, &Login::new(&client)).await;
    assert_eq!(answer.param("error").as_deref(), Some("access_denied"));
    assert_eq!(answer.param("state").as_deref(), Some("the state"));
    assert_eq!(answer.param("iss").as_deref(), Some(proxied.proxy.issuer()));

    for (code, error) in [
        ("login_required", "login_required"),
        ("temporarily_unavailable", "temporarily_unavailable"),
        ("invalid_scope", "server_error"),
        ("%3Cscript%3E", "server_error"),
    ] {
        let to_provider = browser.get(Login::new(&client).url(&proxied.url("/authorize"))).await;
        let (state, iss) = (to_provider.param("state").unwrap(), proxied.provider.issuer());
        let query = format!("error={code}&error_description=%3Cb%3Epwned&state={state}&iss={iss}");
        let answer = browser.get(proxied.url(&format!("/callback?{query}"))).await;
        assert_eq!(answer.param("error").as_deref(), Some(error), "{code}");
        let location = answer.location().to_string();
        assert!(!location.contains("pwned") && !location.contains("Cscript"), "{location}");
    }
}

#[tokio::test]
async fn a_provider_that_is_down_is_a_temporary_error() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    proxied.set_down(true);
    let login = Login::new(&client);
    let answer = proxied.approve(&mut browser, &login).await;
    assert_eq!(answer.param("error").as_deref(), Some("temporarily_unavailable"));
    proxied.set_down(false);
    proxied.proxy.__advance(Duration::from_secs(5));
    let to_provider = browser.get(login.url(&proxied.url("/authorize"))).await;
    let back = proxied.at_provider(&mut browser, &to_provider).await;
    proxied.set_down(true);
    let answer = browser.get(back.location().as_str()).await;
    assert_eq!(answer.param("error").as_deref(), Some("temporarily_unavailable"));
}

/// A change of the claims of an ID token.
type ChangeClaims = Box<dyn Fn(Value) -> Value + Send + Sync>;

#[tokio::test]
async fn an_id_token_that_is_forged_or_of_another_login_is_refused() {
    let proxied = Proxied::new().await;
    let mut browser = Agent::new();
    let client = proxied.register(&mut browser, &[REDIRECT]).await;
    proxied.approve(&mut browser, &Login::new(&client)).await;
    let foreign = SigningKey::generate(Algorithm::Es256).unwrap().key_id("x");
    let own_kid = proxied.provider.jwk_set().keys[0].kid.clone().unwrap();
    let same_kid = SigningKey::generate(Algorithm::Es256).unwrap().key_id(own_kid);
    let changes: Vec<(&str, ChangeClaims)> = vec![
        ("no token", Box::new(|_| Value::Null)),
        ("another key", Box::new(move |claims| json!(foreign.sign(&[("typ", json!("JWT"))], &claims)))),
        (
            "another key with the same id",
            Box::new(move |claims| json!(same_kid.sign(&[("typ", json!("JWT"))], &claims))),
        ),
        ("unsigned", Box::new(|_| json!("eyJhbGciOiJub25lIn0.e30."))),
    ];
    for (problem, change) in changes {
        proxied.tamper(move |body| {
            let claims = decode(body["id_token"].as_str().unwrap()).1;
            body["id_token"] = change(claims);
        });
        assert_refused(&proxied, &mut browser, &client, problem).await;
    }
    for (name, value) in [
        ("nonce", json!("of another login")),
        ("nonce", Value::Null),
        ("aud", json!("another client")),
        ("iss", json!("https://evil.example")),
        ("exp", json!(1)),
        ("sub", json!("")),
    ] {
        let provider = proxied.provider.clone();
        let tampered = value.clone();
        proxied.tamper(move |body| {
            let mut claims = decode(body["id_token"].as_str().unwrap()).1;
            claims[name] = tampered.clone();
            body["id_token"] = json!(provider.mint_as("JWT", claims));
        });
        assert_refused(&proxied, &mut browser, &client, &format!("{name}={value}")).await;
    }
    proxied.tamper(|_| {});
    let to_provider = browser.get(Login::new(&client).url(&proxied.url("/authorize"))).await;
    let back = proxied.at_provider(&mut browser, &to_provider).await;
    assert!(browser.get(back.location().as_str()).await.param("code").is_some());
}

async fn assert_refused(proxied: &Proxied, browser: &mut Agent, client: &str, problem: &str) {
    let to_provider = browser.get(Login::new(client).url(&proxied.url("/authorize"))).await;
    let back = proxied.at_provider(browser, &to_provider).await;
    let answer = browser.get(back.location().as_str()).await;
    let error = answer.param("error");
    // A key that is not known might be new: its set cannot be fetched again within a minute.
    assert!(matches!(error.as_deref(), Some("server_error" | "temporarily_unavailable")), "{problem}: {error:?}");
    assert!(answer.param("code").is_none());
}

#[tokio::test]
async fn the_token_of_the_provider_is_not_sent_on_with_a_redirect() {
    let seen: Arc<Mutex<Vec<HeaderMap>>> = Arc::default();
    let record = seen.clone();
    let other = serve(Router::new().fallback(move |headers: HeaderMap| async move {
        record.lock().push(headers);
        ([(CONTENT_TYPE, "application/json")], "{\"id\":1}")
    }))
    .await;
    let target = format!("{other}/elsewhere");
    let redirecting = move || async move { (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, target)]) };
    let user_info = serve(Router::new().fallback(redirecting)).await;
    let proxied = Proxied::with_upstream(
        |provider| provider.auto_approve("alice"),
        |proxy| proxy,
        |_, issuer| plain_provider(issuer, &user_info),
    )
    .await;
    let mut agent = Agent::new();
    let client = proxied.register(&mut agent, &[REDIRECT]).await;
    proxied.log_in(&mut agent, &Login::new(&client)).await;
    let seen = seen.lock();
    assert_eq!(seen.len(), 1, "the redirect is followed");
    assert!(!seen[0].contains_key("authorization"), "{:?}", seen[0]);
}

#[tokio::test]
async fn a_claim_of_a_user_does_not_name_the_login_of_another() {
    let users =
        |user: &UpstreamUser| Some(ProxyUser::new(user.subject()).claim("sid", "chosen").claim("scope", "admin"));
    let proxied = Proxied::with(|provider| provider.auto_approve("alice"), |proxy| proxy.users(users)).await;
    let (_, tokens) = proxied.tokens(&mut Agent::new()).await;
    let claims = decode(tokens["access_token"].as_str().unwrap()).1;
    assert_ne!(claims["sid"], "chosen");
    assert_eq!(claims["scope"], "read write");
}
