//! A proxy whose provider is the development server.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use turms_oauth::dev::{DevClient, DevServer, DevServerBuilder, DevUser};
use turms_oauth::proxy::{OAuthProxy, OAuthProxyBuilder, Upstream};
use turms_oauth::{AuthorizationServerMetadata, ClientIdentity};

use crate::agent::{Agent, Answer, Login, REDIRECT};

pub(crate) const RESOURCE: &str = "https://notes.example.com/mcp";
const SECRET: &str = "secret-of-the-proxy";

/// A change of the responses of the provider's token endpoint.
type Tamper = Box<dyn Fn(&mut Value) + Send + Sync>;

#[derive(Default)]
struct Wire {
    /// Tokens and codes that the provider has issued.
    issued: Vec<String>,
    tamper: Option<Tamper>,
    is_down: bool,
}

/// A proxy and its provider.
pub(crate) struct Proxied {
    pub(crate) provider: Arc<DevServer>,
    pub(crate) proxy: OAuthProxy,
    wire: Arc<Mutex<Wire>>,
    pub(crate) upstream: Upstream,
}

impl Proxied {
    pub(crate) async fn new() -> Self {
        Self::with(|provider| provider.auto_approve("alice"), |proxy| proxy).await
    }

    pub(crate) async fn with(
        provider: impl FnOnce(DevServerBuilder) -> DevServerBuilder,
        settings: impl FnOnce(OAuthProxyBuilder) -> OAuthProxyBuilder,
    ) -> Self {
        Self::with_upstream(provider, settings, |upstream, _| upstream).await
    }

    /// `change` gets the settings of the provider and its issuer.
    pub(crate) async fn with_upstream(
        provider: impl FnOnce(DevServerBuilder) -> DevServerBuilder,
        settings: impl FnOnce(OAuthProxyBuilder) -> OAuthProxyBuilder,
        change: impl FnOnce(Upstream, &str) -> Upstream,
    ) -> Self {
        let (own, other) =
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let origin = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let (issuer, upstream) = (origin(&own), origin(&other));
        let client = DevClient::with_secret("proxy", SECRET).redirect_uri(format!("{issuer}/callback"));
        let builder = DevServer::builder()
            .issuer(&upstream)
            .user(DevUser::new("alice").claim("email", "alice@example.com").claim("id", 583_231))
            .client(client);
        let provider = Arc::new(provider(builder).build().unwrap());
        let wire: Arc<Mutex<Wire>> = Arc::default();
        let shared = wire.clone();
        let recorded = from_fn(move |request: Request, next: Next| record(shared.clone(), request, next));
        let router = Router::new().fallback_service(provider.service()).layer(recorded);
        tokio::spawn(axum::serve(other, router).into_future());
        let upstream = change(Upstream::new(&upstream, "proxy", SECRET).name("The Provider"), &upstream);
        let proxy = OAuthProxy::builder(&issuer)
            .resource(RESOURCE)
            .scopes(["read", "write"])
            .default_scopes(["read"])
            .upstream(upstream.clone());
        let proxy = settings(proxy).build().unwrap();
        tokio::spawn(axum::serve(own, Router::new().fallback_service(proxy.service())).into_future());
        Self { provider, proxy, wire, upstream }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.proxy.issuer())
    }

    /// Changes the responses of the provider's token endpoint from now on.
    pub(crate) fn tamper(&self, tamper: impl Fn(&mut Value) + Send + Sync + 'static) {
        self.wire.lock().tamper = Some(Box::new(tamper));
    }

    /// Lets the provider respond to everything with status 503.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.wire.lock().is_down = is_down;
    }

    /// Checks that nothing that a client has received contains a token of the provider.
    pub(crate) fn assert_no_upstream_token(&self, agent: &Agent) {
        let wire = self.wire.lock();
        assert!(wire.issued.len() >= 2);
        for token in &wire.issued {
            assert!(!agent.seen.contains(token), "a token of the provider was sent to the client");
        }
        assert!(!agent.seen.contains(SECRET));
    }

    /// Registers a client with redirect URIs.
    pub(crate) async fn register(&self, agent: &mut Agent, redirects: &[&str]) -> String {
        let body = json!({"client_name": "The Client", "redirect_uris": redirects});
        agent.post_json(self.url("/register"), &body).await.ok()["client_id"].as_str().unwrap().to_owned()
    }

    /// Approves the client on the page, if there is one. Returns the redirect to the provider.
    pub(crate) async fn approve(&self, browser: &mut Agent, login: &Login) -> Answer {
        let url = login.url(&self.url("/authorize"));
        let page = browser.get(&url).await;
        if page.status.is_redirection() {
            return page;
        }
        let csrf = page.csrf();
        browser.post(&url, &[("csrf", &csrf), ("decision", "approve")]).await
    }

    /// Logs in at the provider, which does so without a page. Returns the redirect to the proxy.
    pub(crate) async fn at_provider(&self, browser: &mut Agent, answer: &Answer) -> Answer {
        assert!(answer.location().as_str().starts_with(self.provider.issuer()), "{}", answer.location());
        browser.get(answer.location().as_str()).await
    }

    /// Logs in with the pages. Returns the redirect to the client.
    pub(crate) async fn log_in(&self, browser: &mut Agent, login: &Login) -> Answer {
        let approved = self.approve(browser, login).await;
        let back = self.at_provider(browser, &approved).await;
        assert!(back.location().as_str().starts_with(&self.proxy.callback_url()), "{}", back.location());
        browser.get(back.location().as_str()).await
    }

    /// Registers a client, logs in, and returns the id of the client and its tokens.
    pub(crate) async fn tokens(&self, browser: &mut Agent) -> (String, Value) {
        let client = self.register(browser, &[REDIRECT]).await;
        let login = Login::new(&client).with("scope", "read write");
        let code = self.log_in(browser, &login).await.param("code").unwrap();
        let tokens = browser.post(self.url("/token"), &login.exchange(&code)).await.ok();
        (client, tokens)
    }

    pub(crate) async fn refresh(&self, agent: &mut Agent, client: &str, token: &Value) -> Answer {
        let form = [("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token.as_str().unwrap())];
        agent.post(self.url("/token"), &form).await
    }
}

async fn record(wire: Arc<Mutex<Wire>>, request: Request, next: Next) -> Response {
    if wire.lock().is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let is_token = request.uri().path() == "/token";
    let response = next.run(request).await;
    if !is_token {
        return response;
    }
    let (head, body) = response.into_parts();
    let mut body: Value = serde_json::from_slice(&to_bytes(body, usize::MAX).await.unwrap()).unwrap();
    let mut wire = wire.lock();
    if let Some(tamper) = &wire.tamper {
        tamper(&mut body);
    }
    let tokens = ["access_token", "refresh_token", "id_token"].into_iter().filter_map(|name| body[name].as_str());
    let tokens: Vec<String> = tokens.map(str::to_owned).collect();
    wire.issued.extend(tokens);
    let mut head = head;
    head.headers.remove("content-length");
    Response::from_parts(head, Body::from(body.to_string()))
}

/// The settings of a provider without OpenID Connect, whose user information is at a URL.
pub(crate) fn plain_provider(issuer: &str, user_info: &str) -> Upstream {
    let mut metadata = AuthorizationServerMetadata::new(issuer, format!("{issuer}/token"));
    metadata.authorization_endpoint = Some(format!("{issuer}/authorize"));
    metadata.userinfo_endpoint = Some(user_info.to_owned());
    Upstream::with_metadata(metadata, ClientIdentity::with_secret("proxy", SECRET))
        .scopes(["user"])
        .subject_member("id")
}
