//! The settings of identity providers, with tokens of the shapes that these document.

use serde_json::{Value, json};
use turms_http::Guard as _;
use turms_oauth::provider::Provider;
use turms_oauth::{Issuer, JwkSet, SigningKey, TokenGuard};
use turms_server::Principal;

use crate::tokens::{changed, key, now};

const RESOURCE: &str = "https://notes.example.com/mcp";

/// Verifies claims as a token of the provider. Its keys are at hand instead of at its URL.
async fn verify(provider: &Provider, scope: &str, header: Value, claims: Value) -> Result<Principal, u16> {
    let key: SigningKey = key("k1");
    let mut guard = TokenGuard::builder(RESOURCE)
        .issuer(Issuer::keys(&provider.issuer, JwkSet::new([key.public_jwk()])))
        .scopes([scope]);
    for audience in &provider.audiences {
        guard = guard.audience(audience);
    }
    if let Some(prefix) = &provider.scope_prefix {
        guard = guard.scope_prefix(prefix);
    }
    let header: Vec<(&str, Value)> =
        header.as_object().unwrap().iter().map(|(name, value)| (&**name, value.clone())).collect();
    let times = json!({ "iat": now(), "nbf": now(), "exp": now() + 3600 });
    let token = key.sign(&header, &changed(claims, times));
    guard.build().unwrap().verify(&token).await.map_err(|rejection| rejection.status.as_u16())
}

#[tokio::test]
async fn keycloak() {
    let provider = Provider::keycloak("https://sso.example.com/", "staff");
    assert_eq!(provider.issuer, "https://sso.example.com/realms/staff");
    assert!(provider.accepts_resource && provider.has_registration);
    let claims = json!({
        "jti": "onrtro:1", "iss": provider.issuer, "aud": [RESOURCE, "account"], "sub": "f:1:ann", "typ": "Bearer", "azp": "agent",
        "sid": "s", "acr": "1", "realm_access": { "roles": ["offline_access"] },
        "resource_access": { "account": { "roles": ["view-profile"] } },
        "scope": "openid profile email notes:read", "preferred_username": "ann",
    });
    let header = json!({ "typ": "JWT" });
    let ann = verify(&provider, "notes:read", header.clone(), claims.clone()).await.unwrap();
    assert_eq!((ann.subject(), ann.client_id(), ann.has_scope("notes:read")), ("f:1:ann", Some("agent"), true));
    // Without the audience mapper.
    let account = changed(claims.clone(), json!({ "aud": "account" }));
    assert_eq!(verify(&provider, "notes:read", header.clone(), account).await.unwrap_err(), 401);
    for typ in ["ID", "Refresh", "Offline"] {
        let other = changed(claims.clone(), json!({ "typ": typ }));
        assert_eq!(verify(&provider, "notes:read", header.clone(), other).await.unwrap_err(), 401, "{typ}");
    }
    let other_realm = changed(claims, json!({ "iss": "https://sso.example.com/realms/other" }));
    assert_eq!(verify(&provider, "notes:read", header, other_realm).await.unwrap_err(), 401);
}

#[tokio::test]
async fn auth0() {
    let provider = Provider::auth0("example.eu.auth0.com");
    assert_eq!(provider.issuer, "https://example.eu.auth0.com/");
    assert!(provider.accepts_resource && provider.has_registration);
    let claims = json!({
        "iss": provider.issuer, "sub": "auth0|5f7c8ec7c33c6c004bbafe82", "azp": "my_client_id",
        "aud": [RESOURCE, "https://example.eu.auth0.com/userinfo"], "scope": "openid notes:read", "permissions": ["notes:read"],
    });
    let header = json!({ "typ": "JWT" });
    let ann = verify(&provider, "notes:read", header.clone(), claims.clone()).await.unwrap();
    assert_eq!((ann.subject(), ann.client_id()), ("auth0|5f7c8ec7c33c6c004bbafe82", Some("my_client_id")));
    // In the dialect of RFC 9068.
    let rfc9068 = changed(claims.clone(), json!({ "azp": "(absent)", "client_id": "my_client_id", "jti": "1" }));
    let ann = verify(&provider, "notes:read", json!({ "typ": "at+jwt" }), rfc9068).await.unwrap();
    assert_eq!(ann.client_id(), Some("my_client_id"));
    // Of a machine.
    let machine =
        changed(claims, json!({ "sub": "my_client_id@clients", "gty": "client-credentials", "aud": RESOURCE }));
    let robot = verify(&provider, "notes:read", header, machine).await.unwrap();
    assert_eq!(robot.subject(), "my_client_id@clients");
}

#[tokio::test]
async fn okta() {
    let provider = Provider::okta("example.okta.com", "default", "api://default");
    assert_eq!(provider.issuer, "https://example.okta.com/oauth2/default");
    assert!(provider.accepts_resource && !provider.has_registration);
    let claims = json!({
        "ver": 1, "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE", "iss": provider.issuer, "aud": "api://default",
        "cid": "nmdP1fcyvdVO11AL7ECm", "uid": "00ujmkLgagxeRrAg20g3", "scp": ["openid", "notes:read"], "sub": "ann@example.com",
    });
    let ann = verify(&provider, "notes:read", json!({}), claims.clone()).await.unwrap();
    assert_eq!((ann.subject(), ann.client_id()), ("ann@example.com", Some("nmdP1fcyvdVO11AL7ECm")));
    let of_organization =
        changed(claims.clone(), json!({ "iss": "https://example.okta.com", "aud": "https://example.okta.com" }));
    assert_eq!(verify(&provider, "notes:read", json!({}), of_organization).await.unwrap_err(), 401);
    let without_scope = changed(claims, json!({ "scp": ["openid"] }));
    assert_eq!(verify(&provider, "notes:read", json!({}), without_scope).await.unwrap_err(), 403);
}

#[tokio::test]
async fn entra() {
    let (tenant, application) = ("4ff7e2a0-52ce-4b1a-a3f2-52cb9a36b2c0", "11112222-bbbb-3333-cccc-4444dddd5555");
    let provider = Provider::entra(tenant, application);
    assert_eq!(provider.issuer, format!("https://login.microsoftonline.com/{tenant}/v2.0"));
    assert!(!provider.accepts_resource && !provider.has_registration);
    let claims = json!({
        "aud": application, "iss": provider.issuer, "aio": "x", "azp": "00001111-aaaa-2222-bbbb-3333cccc4444", "azpacr": "0",
        "name": "Ann", "oid": "o", "preferred_username": "ann@example.com", "rh": "r", "scp": "notes.read notes.write", "sub": "pairwise",
        "tid": tenant, "uti": "u", "ver": "2.0",
    });
    let header = json!({ "typ": "JWT" });
    let ann = verify(&provider, "notes.read", header.clone(), claims.clone()).await.unwrap();
    assert_eq!((ann.subject(), ann.has_scope("notes.write")), ("pairwise", true));
    assert_eq!(ann.claim::<String>("tid").as_deref(), Some(tenant));
    let uri = changed(claims.clone(), json!({ "aud": format!("api://{application}") }));
    assert!(verify(&provider, "notes.read", header.clone(), uri).await.is_ok());
    for changes in [
        json!({ "iss": "https://login.microsoftonline.com/9122040d-6c67-4c5b-b112-36a304b66dad/v2.0" }),
        json!({ "iss": format!("https://sts.windows.net/{tenant}/") }),
        json!({ "aud": "00000003-0000-0000-c000-000000000000" }),
    ] {
        let foreign = changed(claims.clone(), changes.clone());
        assert_eq!(verify(&provider, "notes.read", header.clone(), foreign).await.unwrap_err(), 401, "{changes}");
    }
}

#[tokio::test]
async fn the_guard_of_a_provider_asks_for_scopes_in_their_long_form() {
    let guard = Provider::entra("t", "app").guard(RESOURCE).scopes(["notes.read", "offline_access"]).build().unwrap();
    let document = guard.document("/.well-known/oauth-protected-resource/mcp").unwrap();
    let metadata: Value = serde_json::from_slice(&document.body).unwrap();
    assert_eq!(metadata["scopes_supported"], json!(["api://app/notes.read", "offline_access"]));
    assert_eq!(metadata["authorization_servers"], json!(["https://login.microsoftonline.com/t/v2.0"]));
    let challenge = guard.insufficient_scope(None, &["notes.write".to_owned()]).unwrap();
    assert!(
        challenge.to_str().unwrap().contains("scope=\"api://app/notes.read offline_access api://app/notes.write\"")
    );
}
