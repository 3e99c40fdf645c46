//! An MCP client that logs in at a guarded MCP server through the proxy, which is mounted beside it.

use turms_client::Client;
use turms_http::{HttpConnector, ServeHttp as _};
use turms_oauth::dev::{DevClient, DevServer};
use turms_oauth::proxy::{OAuthProxy, Upstream};
use turms_oauth::{Issuer, Login, LoginPrompt, OAuth, TokenGuard};
use turms_server::{Principal, Server, Tool, ToolError};

use crate::agent::{Agent, decode};

/// Approves the client at the proxy. Returns the URL of the callback.
async fn approve(prompt: LoginPrompt) -> Result<String, String> {
    let mut browser = Agent::new();
    let csrf = browser.get(prompt.url.as_str()).await.csrf();
    let mut answer = browser.post(prompt.url.as_str(), &[("csrf", &csrf), ("decision", "approve")]).await;
    while !answer.location().as_str().starts_with(&prompt.redirect_uri) {
        answer = browser.get(answer.location().as_str()).await;
    }
    Ok(answer.location().into())
}

#[tokio::test]
async fn a_client_calls_tools_of_a_server_behind_the_proxy() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let url = format!("{origin}/mcp");
    let client = DevClient::with_secret("proxy", "secret").redirect_uri(format!("{origin}/callback"));
    let provider = DevServer::builder().client(client).auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    let proxy = OAuthProxy::builder(&origin)
        .resource(&url)
        .upstream(Upstream::new(provider.issuer(), "proxy", "secret"))
        .scopes(["notes:read"])
        .build()
        .unwrap();
    let guard = TokenGuard::builder(&url)
        .issuer(Issuer::keys(proxy.issuer(), proxy.jwk_set()))
        .scopes(["notes:read"])
        .build()
        .unwrap();
    let handlers = proxy.clone();
    let upstream = Tool::builder("upstream").handler(move |caller: Principal| {
        let proxy = handlers.clone();
        async move {
            let token = proxy.upstream_token(&caller).await?;
            Ok::<_, ToolError>(decode(token.expose()).1["iss"].as_str().unwrap_or_default().to_owned())
        }
    });
    let mcp = Server::new("notes", "1.0.0")
        .tool(Tool::builder("whoami").handler_sync(|caller: Principal| caller.subject().to_owned()))
        .tool(upstream)
        .into_http_service()
        .unwrap()
        .guard(guard.clone());
    let application = axum::Router::new()
        .route_service(&guard.metadata_path(), guard.documents())
        .nest_service("/mcp", mcp)
        .fallback_service(proxy.service());
    tokio::spawn(axum::serve(listener, application).into_future());

    let auth = OAuth::new("notes-agent").login(Login::with(approve));
    let connector = HttpConnector::new(&url).unwrap().authorizer(auth.clone());
    let client = Client::builder("agent", "1.0.0").connect(connector).await.unwrap();
    let call = async |tool: &str| client.call_tool(tool, ()).await.unwrap().text();
    assert_eq!(call("whoami").await, "alice");
    assert_eq!(call("upstream").await, provider.issuer());

    let before = auth.token(&url).await.unwrap();
    let renewed = auth.refresh_now(&url).await.unwrap();
    assert_ne!(renewed, before);
    assert_eq!(provider.grants("refresh_token"), 1);
    assert_eq!(call("whoami").await, "alice");

    provider.revoke_all();
    let of_provider = auth.refresh_now(&url).await.unwrap_err();
    assert!(of_provider.is_invalid_grant() || of_provider.is_login_required(), "{of_provider}");
}
