//! Each step of a flow alone, as a function.

use turms_oauth::dev::DevClient;
use turms_oauth::{
    AuthorizationRequest, Callback, ClientIdentity, ClientMetadata, CodeExchange, DevicePoll, DpopKey, Fetcher,
    TokenKind, TokenParameters, authorization_url, check_callback, client_credentials, device_token, discover,
    discover_server, exchange_code, pkce, random_token, refresh, register, revoke,
};

use crate::script::{Reply, Script, provider};
use crate::world::{World, dev, open};

const REDIRECT: &str = "http://127.0.0.1:8085/callback";

#[tokio::test]
async fn a_login_is_made_step_by_step() {
    let world = World::new().await;
    let server = world.server.url.parse().unwrap();
    let fetcher = Fetcher::for_server(&server);
    let discovery = discover(&fetcher, &server, None, None).await.unwrap();
    assert!(!discovery.is_legacy && discovery.has_metadata);
    let (metadata, resource) = (&discovery.server, discovery.resource_identifier());
    let client = register(&fetcher, metadata, &ClientMetadata::new("agent", REDIRECT)).await.unwrap().identity();

    let (pkce, state) = (pkce(), random_token());
    let request =
        AuthorizationRequest::new(client.id(), REDIRECT, &state, &pkce).scopes(["notes:read"]).resource(resource);
    let url = authorization_url(&fetcher, metadata, &request).unwrap();
    let callback = Callback::parse(&open(&url).await.unwrap()).unwrap();
    let code = check_callback(metadata, &state, &callback).unwrap();

    let parameters = TokenParameters::new().resource(resource);
    let exchange = CodeExchange::new(code, REDIRECT, &pkce);
    let tokens = exchange_code(&fetcher, metadata, &client, &exchange, &parameters).await.unwrap();
    let error = exchange_code(&fetcher, metadata, &client, &exchange, &parameters).await.unwrap_err();
    assert!(error.is_invalid_grant(), "a code is accepted twice: {error}");

    let error = refresh(&fetcher, metadata, &client, tokens.refresh_token.as_ref().unwrap(), &parameters).await;
    assert!(error.unwrap_err().is_invalid_grant(), "the tokens of a code that is used twice are valid");
}

#[tokio::test]
async fn a_token_is_refreshed_and_revoked() {
    let world = World::new().await;
    world.oauth().token(&world.server.url).await.unwrap();
    let stored = world.stored().await.unwrap();
    let issuer = world.dev.issuer();
    let fetcher = Fetcher::for_server(&issuer.parse().unwrap());
    let metadata = discover_server(&fetcher, issuer).await.unwrap();
    let client = ClientIdentity::public(&stored.client.client_id);
    let parameters = TokenParameters::new().resource(stored.resource.as_deref());
    let first = stored.refresh_token.unwrap();
    let tokens = refresh(&fetcher, &metadata, &client, &first, &parameters).await.unwrap();
    let next = tokens.refresh_token.unwrap();
    assert_ne!(next, first);
    revoke(&fetcher, &metadata, &client, &next, TokenKind::Refresh).await.unwrap();
    assert!(refresh(&fetcher, &metadata, &client, &next, &parameters).await.unwrap_err().is_invalid_grant());
}

#[tokio::test]
async fn client_credentials_are_exchanged_for_a_token_also_for_a_bound_one() {
    let dev =
        dev().client(DevClient::with_secret("robot", "s3cret")).dpop_nonces(true).bind("127.0.0.1:0").await.unwrap();
    let fetcher = Fetcher::for_server(&dev.issuer().parse().unwrap());
    let metadata = discover_server(&fetcher, dev.issuer()).await.unwrap();
    let client = ClientIdentity::with_secret("robot", "s3cret");
    let parameters = TokenParameters::new().scope("notes:read").resource("https://notes.example.com/mcp");
    let token = client_credentials(&fetcher, &metadata, &client, &parameters).await.unwrap();
    assert_eq!(token.token_type, "Bearer");
    let key = DpopKey::generate();
    let token = client_credentials(&fetcher, &metadata, &client, &parameters.clone().proof(&key)).await.unwrap();
    assert_eq!(token.token_type, "DPoP");
    assert!(key.nonce(&dev.url("/token").parse().unwrap()).is_some());
}

#[tokio::test]
async fn a_device_login_is_polled_once() {
    let server = Script::start(|request| match &*request.path {
        "/token" => match &*request.field("device_code").unwrap() {
            "pending" => Reply::error(400, "authorization_pending"),
            "fast" => Reply::error(400, "slow_down"),
            "late" => Reply::error(400, "expired_token"),
            _ => provider(&request),
        },
        _ => provider(&request),
    })
    .await;
    let fetcher = Fetcher::for_server(&server.url("").parse().unwrap());
    let metadata = discover_server(&fetcher, &server.url("")).await.unwrap();
    let client = ClientIdentity::public("agent");
    let poll =
        async |code: &str| device_token(&fetcher, &metadata, &client, &code.into(), &TokenParameters::new()).await;
    assert!(matches!(poll("pending").await, Ok(DevicePoll::Pending)));
    assert!(matches!(poll("fast").await, Ok(DevicePoll::SlowDown)));
    assert!(matches!(poll("done").await, Ok(DevicePoll::Complete(_))));
    assert!(poll("late").await.unwrap_err().is_expired());
}

#[tokio::test]
async fn a_rejected_redirect_uri_is_named() {
    let world = World::new().await;
    let fetcher = Fetcher::for_server(&world.dev.issuer().parse().unwrap());
    let metadata = discover_server(&fetcher, world.dev.issuer()).await.unwrap();
    let request = ClientMetadata::new("agent", "http://evil.example/cb");
    let error = register(&fetcher, &metadata, &request).await.unwrap_err().to_string();
    assert!(error.contains("redirect URI http://evil.example/cb was rejected"), "{error}");
}
