//! Attacks on the client: by a malicious MCP server, authorization server, web page or network. Each is refused with an error that names
//! the reason, and the attacker gets nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use turms_client::Client;
use turms_http::{AuthorizeRequest, Authorizer as _, Decision, RequestPurpose, UnauthorizedResponse};
use turms_oauth::{
    AuthorizationRequest, AuthorizationServerMetadata, ClientIdentity, ClientMetadata, CodeExchange, Fetcher,
    IdTokenExchange, Login, OAuth, OAuthError, Secret, TokenKind, TokenParameters, authorization_url,
    client_credentials, device_authorization, device_token, discover_resource, discover_server, exchange_code,
    exchange_id_token, jwt_bearer, pkce, random_token, refresh, register, revoke,
};
use url::Url;

use crate::script::{Received, Reply, Script, callback, provider, resource_metadata, server_metadata, tokens};
use crate::world::{Browser, chain, connect, open};

/// Starts a provider whose metadata of the authorization server is changed.
async fn with_server_metadata(change: impl Fn(&mut Value, &str) + Send + Sync + 'static) -> Script {
    Script::start(move |request| match &*request.path {
        "/.well-known/oauth-authorization-server" => {
            let mut metadata = server_metadata(&request.base);
            change(&mut metadata, &request.base);
            Reply::json(200, metadata)
        }
        _ => provider(&request),
    })
    .await
}

/// Logs in at a server, and returns the error and the number of browser windows.
async fn log_in(server: &Script) -> (String, usize) {
    let browser = Browser::new();
    let error = OAuth::new("agent").login(browser.login()).token(server.url("/mcp")).await.unwrap_err();
    (chain(&error), browser.windows())
}

#[tokio::test]
async fn a_callback_of_another_issuer_is_not_exchanged() {
    let wrong = "invalid authorization response: `iss` is not the issuer that the login was started with";
    let missing = "invalid authorization response: `iss` is missing, although the authorization server announces it";
    for (announced, iss, expected) in [
        (json!(true), Some("https://evil.example"), wrong),
        (json!(false), Some("https://evil.example"), wrong),
        (Value::Null, Some("https://evil.example"), wrong),
        (json!(true), Some(""), wrong),
        (json!(true), None, missing),
    ] {
        let server = Script::start(move |request| match &*request.path {
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = server_metadata(&request.base);
                metadata["authorization_response_iss_parameter_supported"] = announced.clone();
                Reply::json(200, metadata)
            }
            "/authorize" => {
                let parameters: Vec<_> = [("code", "c")].into_iter().chain(iss.map(|iss| ("iss", iss))).collect();
                Reply::redirect(302, &callback(&request, &parameters))
            }
            _ => provider(&request),
        })
        .await;
        let (error, windows) = log_in(&server).await;
        assert!(error.contains(expected), "{error}");
        assert!(server.at("/token").is_empty() && windows == 1, "the code was sent to an issuer that is mixed up");
    }
}

#[tokio::test]
async fn a_callback_with_another_state_is_not_exchanged() {
    for state in ["", "other"] {
        let server = Script::start(|request| provider(&request)).await;
        let login = Login::with(move |prompt| async move {
            let url = Url::parse(&open(&prompt.url).await?).map_err(|error| error.to_string())?;
            let others =
                url.query_pairs().filter(|(name, _)| name != "state").map(|(name, value)| format!("{name}={value}"));
            let query = others.chain([format!("state={state}")]).collect::<Vec<_>>().join("&");
            Ok::<_, String>(format!("http://127.0.0.1/callback?{query}"))
        });
        let error = OAuth::new("agent").login(login).token(server.url("/mcp")).await.unwrap_err();
        assert!(error.to_string().ends_with("the callback belongs to another login: its state differs"), "{error}");
        assert!(server.at("/token").is_empty());
    }
}

#[tokio::test]
async fn a_server_without_pkce_is_refused_before_the_browser() {
    for methods in [Value::Null, json!([]), json!(["plain"]), json!(["s256"])] {
        let server = with_server_metadata(move |metadata, _| {
            metadata["code_challenge_methods_supported"] = methods.clone();
        })
        .await;
        let (error, windows) = log_in(&server).await;
        assert!(error.contains("does not announce PKCE with S256"), "{error}");
        assert_eq!(windows, 0);
    }
}

#[tokio::test]
async fn tokens_of_other_types_are_not_used() {
    for (response, expected) in [
        (json!({ "access_token": "t", "token_type": "mac" }), "its type \"mac\" is not supported"),
        (json!({ "access_token": "t", "token_type": "N_A" }), "its type \"N_A\" is not supported"),
        (json!({ "access_token": "t", "token_type": "" }), "its type \"\" is not supported"),
        (
            json!({ "access_token": "t", "token_type": "DPoP" }),
            "it is bound to a key (DPoP), although no proof was sent",
        ),
        (json!({ "access_token": "t" }), "unexpected JSON"),
        (
            json!({ "access_token": "", "token_type": "Bearer" }),
            "it is empty or has characters that headers cannot have",
        ),
        (json!({ "access_token": "a\r\nX: y", "token_type": "Bearer" }), "characters that headers cannot have"),
        (json!({ "access_token": ["t"], "token_type": "Bearer" }), "unexpected JSON"),
        (json!({ "error": "server_error" }), "error response: server_error"),
    ] {
        let server = Script::start(move |request| match &*request.path {
            "/token" => Reply::json(200, response.clone()),
            _ => provider(&request),
        })
        .await;
        let (error, _) = log_in(&server).await;
        assert!(error.contains("token request from http://127.0.0.1") && error.contains(expected), "{error}");
        assert_eq!(server.at("/mcp").len(), 1, "an unusable token is used");
    }
}

#[tokio::test]
async fn the_type_of_a_token_is_not_case_sensitive() {
    for token_type in ["Bearer", "bearer", "BEARER"] {
        let server = Script::start(move |request| match &*request.path {
            "/token" => {
                let mut tokens = tokens();
                tokens["token_type"] = json!(token_type);
                Reply::json(200, tokens)
            }
            _ => provider(&request),
        })
        .await;
        OAuth::new("agent").login(Browser::new().login()).token(server.url("/mcp")).await.unwrap();
    }
}

#[tokio::test]
async fn decoys_in_a_challenge_are_not_followed() {
    let evil = Script::start(|_| Reply::status(404)).await;
    let trap = evil.url("/metadata");
    for decoy in [
        format!("Basic realm=\"x, Bearer resource_metadata=\\\"{trap}\\\"\", Bearer resource_metadata=\"RIGHT\""),
        format!("Bearer realm=\"resource_metadata={trap}\", resource_metadata=\"RIGHT\""),
        format!("Bearer realm=\"a\\\", resource_metadata=\\\"{trap}\", resource_metadata=\"RIGHT\""),
        format!("Digest resource_metadata=\"{trap}\", Bearer resource_metadata=\"RIGHT\""),
        format!("Bearer resource_metadata=\"RIGHT\", Basic resource_metadata=\"{trap}\""),
        format!("Basic x\"y, Bearer resource_metadata={trap}\", Bearer resource_metadata=\"RIGHT\""),
        format!("Bearer xresource_metadata=\"{trap}\", resource_metadata=\"RIGHT\""),
        format!("Bearer resource_metadata=\"RIGHT\", resource_metadata=\"{trap}\""),
    ] {
        let server = Script::start(move |request| match &*request.path {
            "/mcp" => {
                let right = format!("{}/right", request.base);
                Reply::status(401).with("www-authenticate", &decoy.replace("RIGHT", &right))
            }
            "/right" => Reply::json(200, resource_metadata(&request.base)),
            _ => provider(&request),
        })
        .await;
        let auth = OAuth::new("agent").login(Browser::new().login());
        auth.token(server.url("/mcp")).await.unwrap();
        assert_eq!(server.paths()[1], "/right");
    }
    assert!(evil.received().is_empty(), "a decoy was followed");
}

#[tokio::test]
async fn metadata_of_another_resource_is_refused() {
    for resource in ["https://other.example/mcp", "BASE/other", "BASE/mcp/deeper", "BASE/mc", "not a URL", ""] {
        let server = Script::start(move |request| match &*request.path {
            "/.well-known/oauth-protected-resource/mcp" => {
                let mut metadata = resource_metadata(&request.base);
                metadata["resource"] = json!(resource.replace("BASE", &request.base));
                Reply::json(200, metadata)
            }
            _ => provider(&request),
        })
        .await;
        let (error, windows) = log_in(&server).await;
        assert!(error.contains("protected resource metadata: `resource` is ") && windows == 0, "{error}");
        assert_eq!(server.paths(), ["/mcp", "/.well-known/oauth-protected-resource/mcp"]);
    }
}

#[tokio::test]
async fn metadata_of_another_issuer_is_refused() {
    for issuer in ["https://auth.example.com", "BASE//", "BASE/tenant", ""] {
        let server = with_server_metadata(move |metadata, base| {
            metadata["issuer"] = json!(issuer.replace("BASE", base));
        })
        .await;
        let (error, windows) = log_in(&server).await;
        assert!(error.contains("authorization server metadata: `issuer` is ") && windows == 0, "{error}");
        assert!(server.at("/register").is_empty() && server.at("/token").is_empty());
    }
}

#[tokio::test]
async fn an_authorization_url_that_a_browser_must_not_open_starts_no_browser() {
    for endpoint in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "vbscript:x",
        "ms-settings:",
        "http://evil.example/authorize",
        "https://169.254.169.254/authorize",
        "https://auth.example.com/a\nb",
        "https://auth.example.com/\u{1b}]0;title\u{7}",
        "https://good.example@evil.example/",
        "--help",
        "",
    ] {
        let server =
            with_server_metadata(move |metadata, _| metadata["authorization_endpoint"] = json!(endpoint)).await;
        let browser = Arc::new(AtomicBool::new(false));
        let opened = browser.clone();
        let login =
            Login::browser().browser_command("/none/browser").show(move |_| opened.store(true, Ordering::SeqCst));
        let error = OAuth::new("agent").login(login).token(server.url("/mcp")).await.unwrap_err();
        assert!(error.to_string().contains("authorization endpoint"), "{endpoint}: {error}");
        assert!(!browser.load(Ordering::SeqCst), "{endpoint}");
    }
}

#[tokio::test]
async fn a_device_url_that_a_browser_must_not_open_is_not_shown() {
    for uri in ["javascript:alert(1)", "file:///etc/passwd", "http://evil.example/", "https://a.example/\u{1b}[2J"] {
        let server = Script::start(move |request| match &*request.path {
            "/device_authorization" => {
                Reply::json(200, json!({ "device_code": "d", "user_code": "A", "verification_uri": uri }))
            }
            _ => provider(&request),
        })
        .await;
        let auth = OAuth::new("agent").login(Login::device().show(|message| panic!("{message}")));
        let error = auth.token(server.url("/mcp")).await.unwrap_err().to_string();
        assert!(error.contains("device authorization"), "{error}");
        assert!(server.at("/token").is_empty());
    }
}

/// The steps with a URL that the MCP server or the authorization server chooses. Each is passed the URL of a trap.
async fn reach(step: usize, fetcher: &Fetcher, trap: &str) -> Option<Result<(), OAuthError>> {
    let mut metadata = AuthorizationServerMetadata::new("https://auth.example.com", trap);
    metadata.authorization_endpoint = Some(trap.to_owned());
    metadata.registration_endpoint = Some(trap.to_owned());
    metadata.revocation_endpoint = Some(trap.to_owned());
    metadata.device_authorization_endpoint = Some(trap.to_owned());
    metadata.code_challenge_methods_supported = Some(vec!["S256".to_owned()]);
    let (client, secret, none) =
        (ClientIdentity::with_secret("agent", "s3cret"), Secret::new("s3cret"), TokenParameters::new());
    let (pkce, state, redirect) = (pkce(), random_token(), "http://127.0.0.1:1/cb");
    let exchange = CodeExchange::new(secret.clone(), redirect, &pkce);
    let id_token = IdTokenExchange::new("s3cret", "https://auth.example.com");
    let (fetcher, metadata) = (fetcher, &metadata);
    Some(match step {
        0 => discover_resource(fetcher, &"https://mcp.example.com/mcp".parse().unwrap(), Some(trap)).await.map(|_| ()),
        1 => discover_server(fetcher, trap).await.map(|_| ()),
        2 => register(fetcher, metadata, &ClientMetadata::new("agent", redirect)).await.map(|_| ()),
        3 => authorization_url(fetcher, metadata, &AuthorizationRequest::new("agent", redirect, &state, &pkce))
            .map(|_| ()),
        4 => exchange_code(fetcher, metadata, &client, &exchange, &none).await.map(|_| ()),
        5 => refresh(fetcher, metadata, &client, &secret, &none).await.map(|_| ()),
        6 => client_credentials(fetcher, metadata, &client, &none).await.map(|_| ()),
        7 => device_authorization(fetcher, metadata, &client, &none).await.map(|_| ()),
        8 => device_token(fetcher, metadata, &client, &secret, &none).await.map(|_| ()),
        9 => exchange_id_token(fetcher, metadata, &client, &id_token, &none).await.map(|_| ()),
        10 => jwt_bearer(fetcher, metadata, Some(&client), &secret, &none).await.map(|_| ()),
        11 => revoke(fetcher, metadata, &client, &secret, TokenKind::Refresh).await,
        _ => return None,
    })
}

#[tokio::test]
async fn no_url_of_a_stranger_reaches_this_machine_or_its_network() {
    let trap = Script::start(|_| Reply::json(200, json!({}))).await;
    let port = trap.address.port();
    let public = Fetcher::for_server(&"https://mcp.example.com/mcp".parse().unwrap()).no_proxy();
    let mut steps = 0;
    while reach(steps, &public, "https://127.0.0.1/").await.is_some() {
        // Names pass the first check. The address that is connected to is checked again, so that a name cannot change in between.
        for (host, is_name) in [
            ("127.0.0.1", false),
            ("2130706433", false),
            ("0x7f.1", false),
            ("0177.0.0.1", false),
            ("127.1", false),
            ("[::1]", false),
            ("[::ffff:127.0.0.1]", false),
            ("[64:ff9b::7f00:1]", false),
            ("0.0.0.0", false),
            ("10.0.0.1", false),
            ("192.168.0.1", false),
            ("169.254.169.254", false),
            ("100.100.100.200", false),
            ("localhost", true),
        ] {
            let url = format!("https://{host}:{port}/");
            let is_browser = steps == 3;
            let outcome = reach(steps, &public, &url).await.unwrap();
            if is_name && is_browser {
                // The browser of the person resolves this name.
                continue;
            }
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("is not allowed"), "step {steps}, {host}: {error}");
        }
        for url in [
            format!("http://127.0.0.1:{port}/"),
            format!("http://localhost:{port}/"),
            format!("ftp://127.0.0.1:{port}/"),
        ] {
            assert!(reach(steps, &public, &url).await.unwrap().is_err(), "step {steps}, {url}");
        }
        steps += 1;
    }
    assert_eq!(steps, 12);
    assert!(trap.received().is_empty(), "{:?}", trap.paths());
    // The trap works: the same requests arrive if the MCP server is on this machine.
    let local = Fetcher::for_server(&trap.url("/mcp").parse().unwrap()).no_proxy();
    for step in 0..steps {
        let _ = reach(step, &local, &trap.url("/")).await;
    }
    assert_eq!(trap.received().len(), 12, "a discovery by two URLs, and none for the browser: {:?}", trap.paths());
}

#[tokio::test]
async fn a_server_on_this_machine_does_not_open_the_private_network() {
    for target in [
        "http://evil.example/",
        "http://10.0.0.1/",
        "https://192.168.0.1/",
        "http://169.254.169.254/",
        "https://[fd00:ec2::254]/",
    ] {
        // Named by the challenge, by the metadata of the resource, by a redirect, and as an endpoint.
        let by_challenge = Script::start(move |request| match &*request.path {
            "/mcp" => Reply::status(401).with("www-authenticate", &format!("Bearer resource_metadata=\"{target}\"")),
            _ => provider(&request),
        });
        let by_resource = Script::start(move |request| match &*request.path {
            "/.well-known/oauth-protected-resource/mcp" => {
                let mut metadata = resource_metadata(&request.base);
                metadata["authorization_servers"] = json!([target]);
                Reply::json(200, metadata)
            }
            _ => provider(&request),
        });
        let by_redirect = Script::start(move |request| match &*request.path {
            "/.well-known/oauth-authorization-server" => Reply::redirect(302, target),
            _ => provider(&request),
        });
        let by_endpoint = with_server_metadata(move |metadata, _| metadata["registration_endpoint"] = json!(target));
        for server in [by_challenge.await, by_resource.await, by_redirect.await, by_endpoint.await] {
            let (error, windows) = log_in(&server).await;
            let is_refused = error.contains("is not allowed") || error.contains("https is required");
            assert!(is_refused && windows == 0, "{target}: {error}");
        }
    }
}

#[tokio::test]
async fn a_redirect_to_another_origin_gets_no_credentials() {
    let other = Script::start(|_| Reply::json(200, json!({}))).await;
    for status in [302, 307, 308] {
        let target = other.url("/mcp");
        let server = Script::start(move |request| match &*request.path {
            "/mcp" if request.authorization().is_some() => Reply::redirect(status, &target),
            _ => provider(&request),
        })
        .await;
        let auth = OAuth::new("agent").login(Browser::new().login());
        assert!(connect(&server.url("/mcp"), &auth, Client::builder("agent", "1.0.0")).await.is_err());
    }
    let leaked = |request: &Received| request.authorization().is_some() || request.headers.contains_key("dpop");
    assert!(!other.received().iter().any(leaked), "{:?}", other.received());
}

#[tokio::test]
async fn a_token_goes_only_to_the_server_that_it_is_for() {
    let [one, other] = [Script::start(|it| provider(&it)).await, Script::start(|it| provider(&it)).await];
    let auth = OAuth::new("agent").login(Browser::new().login());
    let tokens = [auth.token(one.url("/mcp")).await.unwrap(), auth.token(other.url("/mcp")).await.unwrap()];
    auth.refresh_now(one.url("/mcp")).await.unwrap();
    assert_ne!(tokens[0], tokens[1]);
    let text = |server: &Script| format!("{:?}", server.received());
    assert!(!text(&other).contains(tokens[0].expose()) && !text(&one).contains(tokens[1].expose()));
}

#[tokio::test]
async fn the_refresh_token_is_not_sent_to_another_authorization_server() {
    let evil = Script::start(|request| provider(&request)).await;
    let is_evil = Arc::new(AtomicBool::new(false));
    let (turned, issuer) = (is_evil.clone(), evil.url(""));
    let server = Script::start(move |request| match &*request.path {
        "/mcp" if turned.load(Ordering::SeqCst) => Reply::status(401).with("www-authenticate", "Bearer"),
        "/.well-known/oauth-protected-resource/mcp" if turned.load(Ordering::SeqCst) => {
            let mut metadata = resource_metadata(&request.base);
            metadata["authorization_servers"] = json!([issuer]);
            Reply::json(200, metadata)
        }
        "/token" => Reply::json(
            200,
            json!({ "access_token": "access-s3cret", "token_type": "Bearer", "refresh_token": "r-s3cret" }),
        ),
        _ => provider(&request),
    })
    .await;
    let auth = OAuth::new("agent").login(Browser::new().login());
    auth.token(server.url("/mcp")).await.unwrap();
    is_evil.store(true, Ordering::SeqCst);
    assert!(connect(&server.url("/mcp"), &auth, Client::builder("agent", "1.0.0")).await.is_err());
    let received = evil.received();
    assert!(received.iter().any(|request| request.path == "/token"), "the attack did not take place");
    let text: Vec<_> = received.iter().map(|it| format!("{it:?} {}", String::from_utf8_lossy(&it.body))).collect();
    assert!(!text.iter().any(|text| text.contains("s3cret")), "{text:?}");
}

#[tokio::test]
async fn a_secret_that_comes_with_the_method_none_is_not_used() {
    let server = Script::start(|request| match &*request.path {
        "/register" => Reply::json(
            201,
            json!({ "client_id": "c", "client_secret": "s3cret", "token_endpoint_auth_method": "none" }),
        ),
        _ => provider(&request),
    })
    .await;
    OAuth::new("agent").login(Browser::new().login()).token(server.url("/mcp")).await.unwrap();
    let request = &server.at("/token")[0];
    assert_eq!((request.authorization(), request.field("client_secret")), (None, None));
}

#[tokio::test]
async fn metadata_of_a_server_of_2025_03_26_is_of_its_own_origin() {
    let evil = Script::start(|request| provider(&request)).await;
    for issuer in [evil.url(""), "https://auth.example.com".to_owned(), "not a URL".to_owned(), String::new()] {
        let endpoint = evil.url("/token");
        let server = Script::start(move |request| match &*request.path {
            path if path.starts_with("/.well-known/oauth-protected-resource") => Reply::status(404),
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = server_metadata(&request.base);
                (metadata["issuer"], metadata["token_endpoint"]) = (json!(issuer), json!(endpoint));
                Reply::json(200, metadata)
            }
            "/mcp" if request.authorization().is_none() => Reply::status(401).with("www-authenticate", "Bearer"),
            _ => provider(&request),
        })
        .await;
        let (error, windows) = log_in(&server).await;
        assert!(error.contains("authorization server metadata: `issuer` is ") && windows == 0, "{error}");
    }
    assert!(evil.received().is_empty(), "{:?}", evil.paths());
}

#[tokio::test]
async fn metadata_that_is_unavailable_is_not_looked_for_elsewhere() {
    for status in [429, 500, 503] {
        let server = Script::start(move |request| match &*request.path {
            "/.well-known/oauth-authorization-server/tenant" => Reply::status(status),
            path if path.contains("/openid-configuration") => {
                let mut metadata = server_metadata(&request.base);
                metadata["issuer"] = json!(format!("{}/tenant", request.base));
                Reply::json(200, metadata)
            }
            _ => Reply::status(404),
        })
        .await;
        let fetcher = Fetcher::for_server(&server.url("/mcp").parse().unwrap()).no_proxy();
        let error = discover_server(&fetcher, &server.url("/tenant")).await.unwrap_err();
        assert!(error.is_transient() && error.to_string().contains(&format!("status {status}")), "{error}");
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn a_device_response_is_safe_to_show() {
    let device = |changes: Value| async move {
        let server = Script::start(move |request| {
            let mut response = json!({
                "device_code": "d", "user_code": "ABCD-EFGH", "verification_uri": format!("{}/device", request.base),
            });
            response.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            Reply::json(200, response)
        })
        .await;
        let fetcher = Fetcher::for_server(&server.url("/mcp").parse().unwrap()).no_proxy();
        let mut metadata = AuthorizationServerMetadata::new(server.url(""), server.url("/token"));
        metadata.device_authorization_endpoint = Some(server.url("/device_authorization"));
        let client = ClientIdentity::public("agent");
        device_authorization(&fetcher, &metadata, &client, &TokenParameters::new()).await
    };
    for code in ["", "A\u{1b}[2JB", "A\nB", &"A".repeat(65)] {
        let error = device(json!({ "user_code": code })).await.unwrap_err().to_string();
        assert!(error.ends_with("`user_code` cannot be shown"), "{code:?}: {error}");
    }
    // The URL with the code in it is only a convenience.
    for complete in ["javascript:alert(1)", "http://evil.example/", "https://10.0.0.1/", "https://a@b.example/", "x"] {
        let shown = device(json!({ "verification_uri_complete": complete })).await.unwrap();
        assert_eq!(shown.verification_uri_complete, None, "{complete}");
    }
    let complete = "https://auth.example.com/device?user_code=ABCD-EFGH";
    let shown = device(json!({ "verification_uri_complete": complete })).await.unwrap();
    assert_eq!(shown.verification_uri_complete.as_deref(), Some(complete));
}

#[tokio::test]
async fn the_secret_of_a_client_goes_only_to_its_issuer() {
    // The authorization server gives the client the id that it has at another issuer, and asks for a secret.
    let registered =
        json!({ "client_id": "agent", "client_secret": "other", "token_endpoint_auth_method": "client_secret_post" });
    let evil = Script::start(move |request| match &*request.path {
        "/register" => Reply::json(201, registered.clone()),
        _ => provider(&request),
    })
    .await;
    let identity = || ClientIdentity::with_secret("agent", "s3cret");
    for issuer in ["https://auth.example.com".to_owned(), evil.url("/"), evil.url("/tenant")] {
        let auth = OAuth::new("agent").client(issuer, identity()).login(Browser::new().login());
        auth.token(evil.url("/mcp")).await.unwrap();
        auth.refresh_now(evil.url("/mcp")).await.unwrap();
        auth.logout(evil.url("/mcp")).await.unwrap();
    }
    assert_eq!(evil.at("/register").len(), 3);
    let shows_secret = |request: &Received| {
        let is_posted = request.field("client_secret").as_deref() == Some("s3cret");
        is_posted || request.basic().is_some_and(|pair| pair.contains("s3cret"))
    };
    assert!(!evil.received().iter().any(shows_secret), "the secret was sent");
    let auth = OAuth::new("agent").client(evil.url(""), identity()).login(Browser::new().login());
    auth.token(evil.url("/mcp")).await.unwrap();
    assert!(shows_secret(evil.at("/token").last().unwrap()), "its own issuer gets the secret");
}

#[tokio::test]
async fn streams_and_ends_of_sessions_open_no_browser() {
    let server = Script::start(|request| provider(&request)).await;
    let url: Url = server.url("/mcp").parse().unwrap();
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login());
    let authorizer = auth.for_server(&url).unwrap();
    let metadata = server.url("/.well-known/oauth-protected-resource/mcp");
    let challenge = format!("Bearer resource_metadata=\"{metadata}\"").parse().unwrap();
    let headers = HeaderMap::from_iter([(WWW_AUTHENTICATE, challenge)]);
    let rejected = async |purpose: RequestPurpose| {
        let mut response =
            UnauthorizedResponse::new(StatusCode::UNAUTHORIZED, headers.clone(), Method::GET, url.clone());
        response.purpose = purpose;
        authorizer.rejected(&response).await
    };
    assert!(rejected(RequestPurpose::Stream).await.is_err());
    assert_eq!(browser.windows(), 0, "a stream runs in the background");
    let before = server.received().len();
    assert_eq!(rejected(RequestPurpose::Close).await.unwrap(), Decision::Fail);
    assert_eq!((server.received().len(), browser.windows()), (before, 0), "a closed session needs no token");
    assert_eq!(rejected(RequestPurpose::Call).await.unwrap(), Decision::Retry);
    assert_eq!(browser.windows(), 1);
    // The token is marked as secret: other code does not show it.
    let credentials = authorizer.authorize(&AuthorizeRequest::new(&Method::POST, &url)).await.unwrap();
    let mut headers = HeaderMap::new();
    credentials.apply(&mut headers);
    assert!(headers["authorization"].is_sensitive());
}
