//! The proxy in front of the provider `oidc-provider`.

use std::process::Stdio;

use axum::Router;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;
use turms_oauth::proxy::{OAuthProxy, Upstream};
use turms_testkit::{node, peer_file, within};
use url::Url;

use crate::agent::{Agent, Login, REDIRECT, decode};

/// Follows redirects, and fills in the pages of the provider, until a URL that begins with a text.
async fn visit(browser: &mut Agent, start: Url, until: &str) -> Url {
    let (mut url, mut answer) = (start.clone(), browser.get(start.as_str()).await);
    for _ in 0..20 {
        if answer.status.is_redirection() {
            url = url.join(answer.header("location")).unwrap();
            if url.as_str().starts_with(until) {
                return url;
            }
            answer = browser.get(url.as_str()).await;
        } else {
            assert_eq!(answer.status, 200, "{}", answer.text());
            let form = [("account", "ann"), ("password", "open sesame"), ("consent", "yes")];
            answer = browser.post(url.as_str(), &form).await;
        }
    }
    panic!("there are too many pages; the last is {url}");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn people_log_in_at_a_provider_of_others_whose_keys_change() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let client = json!({
        "client_id": "proxy",
        "client_secret": "secret: 100% + more",
        "redirect_uris": [format!("{origin}/callback")],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
    });
    let mut command = Command::new(node());
    command.arg(peer_file("node/oidc-provider.mjs")).arg(json!({ "clients": [client] }).to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut process = command.spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
    let issuer = within("the issuer", output.next_line()).await.unwrap().expect("the provider prints its issuer");

    let upstream = Upstream::new(&issuer, "proxy", "secret: 100% + more")
        .scopes(["openid", "offline_access"])
        .parameter("prompt", "consent");
    let proxy = OAuthProxy::builder(&origin).resource(format!("{origin}/mcp")).upstream(upstream).build().unwrap();
    tokio::spawn(axum::serve(listener, Router::new().fallback_service(proxy.service())).into_future());

    let mut browser = Agent::new();
    let body = json!({ "redirect_uris": [REDIRECT] });
    let client = browser.post_json(format!("{origin}/register"), &body).await.ok();
    let client = client["client_id"].as_str().unwrap();
    let login = Login::new(client);
    let authorize = login.url(&format!("{origin}/authorize"));
    let csrf = browser.get(&authorize).await.csrf();
    let approved = browser.post(&authorize, &[("csrf", &csrf), ("decision", "approve")]).await;
    let mut start = approved.location();
    let mut tokens = Value::Null;
    for keys in ["before", "after"] {
        let callback = visit(&mut browser, start, &proxy.callback_url()).await;
        let code =
            browser.get(callback.as_str()).await.param("code").unwrap_or_else(|| panic!("{keys}: there is no code"));
        tokens = browser.post(format!("{origin}/token"), &login.exchange(&code)).await.ok();
        assert_eq!(decode(tokens["access_token"].as_str().unwrap()).1["sub"], "ann");
        browser.post_json(format!("{issuer}/control/replace"), &json!({})).await.ok();
        start = browser.get(&authorize).await.location();
    }

    let refresh = tokens["refresh_token"].as_str().unwrap();
    let form = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", refresh)];
    browser.post(format!("{origin}/token"), &form).await.ok();
    let events = browser.post_json(format!("{issuer}/control/events"), &json!({})).await.ok();
    let grants = |grant: &str| events.as_array().unwrap().iter().filter(|event| *event == grant).count();
    assert_eq!((grants("grant authorization_code"), grants("grant refresh_token")), (2, 1), "{events}");
}
