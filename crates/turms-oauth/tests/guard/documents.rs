//! The protected-resource metadata (RFC 9728).

use serde_json::json;
use turms_oauth::{DpopPolicy, Issuer, JwkSet, TokenGuard};
use turms_testkit::raw_http::Request;
use turms_testkit::within;

use crate::fixture::{GuardedServer, Mount, bearer, challenge, guard_for};
use crate::issuer::TestIssuer;
use crate::tokens::key;

#[tokio::test]
async fn the_metadata_is_public_and_complete() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let guard =
            guard_for(&issuer, mount).resource_name("Notes").resource_documentation("https://notes.example.com/docs");
        let server = GuardedServer::start(mount, guard.build().unwrap()).await;
        let path = format!("/.well-known/oauth-protected-resource{}", server.base);
        let response = server.send(Request::new("GET").path(&path)).await;
        assert_eq!(response.status(), 200, "{response}");
        assert_eq!(response.header("access-control-allow-origin"), Some("*"));
        assert_eq!(response.header("cache-control"), Some("public, max-age=3600"));
        let expected = json!({
            "resource": mount.resource(),
            "authorization_servers": [issuer.identifier],
            // Those that every request needs, and not those of single tools.
            "scopes_supported": ["notes:read"],
            "bearer_methods_supported": ["header"],
            "resource_name": "Notes",
            "resource_documentation": "https://notes.example.com/docs",
            "dpop_signing_alg_values_supported":
                ["ES256", "EdDSA", "ES384", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"],
        });
        assert_eq!(response.json(), expected);
        // Credentials make no difference, not even invalid ones.
        let again = server.send(bearer(Request::new("GET").path(&path), "invalid")).await;
        assert_eq!((again.status(), again.json()), (200, expected));
        assert_eq!(server.reached(), 0);
    }
}

#[tokio::test]
async fn the_challenge_leads_to_the_metadata() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let refused = server.send(Request::post(json!({}))).await;
        let (_, url) = challenge(&refused).split_once("resource_metadata=\"").unwrap();
        let path = url.trim_end_matches('"').strip_prefix("http://localhost").unwrap();
        let metadata = server.send(Request::new("GET").path(path)).await;
        assert_eq!(metadata.json()["resource"], mount.resource());
    }
}

#[tokio::test]
async fn pages_read_the_metadata_across_origins() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let path = format!("/.well-known/oauth-protected-resource{}", server.base);
        let preflight = Request::new("OPTIONS")
            .path(&path)
            .header("Origin", "http://localhost:3000")
            .header("Access-Control-Request-Method", "GET")
            .header("Access-Control-Request-Headers", "mcp-protocol-version");
        let response = server.send(preflight).await;
        assert_eq!((response.status(), response.header("access-control-allow-origin")), (204, Some("*")), "{response}");
        assert_eq!(response.header("access-control-allow-headers"), Some("*"));
        assert!(response.header("access-control-allow-methods").unwrap().contains("GET"));
        let page = Request::new("GET").path(&path).header("Origin", "http://localhost:3000");
        assert_eq!(server.send(page).await.header("access-control-allow-origin"), Some("*"));
        let head = Request::new("HEAD").path(&path);
        assert_eq!(within("a response", server.open(head).await.head()).await.status, 200);
    }
}

#[tokio::test]
async fn pages_read_the_challenge_if_cors_is_enabled() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let guard = guard_for(&issuer, mount).build().unwrap();
    let service = turms_server::Server::new("s", "1").tool(turms_server::Tool::builder("t").handler_sync(|| ""));
    let service = turms_http::ServeHttp::into_http_service(service).unwrap().cors().guard(guard);
    let listener = turms_http::Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(listener.serve(service));
    let mut connection = turms_testkit::raw_http::Connection::open(address).await;
    connection.send(&Request::post(json!({})).header("Origin", "http://localhost:3000")).await;
    let refused = within("a response", connection.response()).await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.header("access-control-allow-origin"), Some("http://localhost:3000"));
    let exposed = refused.header("access-control-expose-headers").unwrap_or_default().to_ascii_lowercase();
    assert!(exposed.contains("www-authenticate"), "{exposed}");
    serving.abort();
}

#[tokio::test]
async fn other_paths_are_guarded() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let base = server.base;
        for path in [
            format!("{base}/.well-known/oauth-protected-resource/other"),
            format!("{base}/.well-known/openid-configuration"),
            format!("{base}/x/.well-known/oauth-protected-resource"),
        ] {
            assert_eq!(server.send(Request::new("GET").path(&path)).await.status(), 401, "{path}");
        }
        let path = format!("/.well-known/oauth-protected-resource{base}");
        let status = server.send(Request::post(json!({})).path(&path)).await.status();
        assert!(matches!(status, 401 | 405), "{mount:?}: {status}");
    }
}

#[tokio::test]
async fn a_root_has_its_metadata_at_the_short_path() {
    let keys = || JwkSet::new([key("k").public_jwk()]);
    for resource in ["https://notes.example.com", "https://notes.example.com/"] {
        let guard =
            TokenGuard::builder(resource).issuer(Issuer::keys("https://auth.example.com", keys())).build().unwrap();
        assert_eq!(guard.metadata_path(), "/.well-known/oauth-protected-resource");
        assert_eq!(guard.metadata_url(), "https://notes.example.com/.well-known/oauth-protected-resource");
    }
}

#[tokio::test]
async fn a_guard_that_requires_proofs_says_so() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let guard = guard_for(&issuer, mount).dpop(DpopPolicy::Required).build().unwrap();
    let server = GuardedServer::start(mount, guard).await;
    let metadata = server.send(Request::new("GET").path("/.well-known/oauth-protected-resource/mcp")).await;
    assert_eq!(metadata.json()["dpop_bound_access_tokens_required"], true);
    let refused = server.send(Request::post(json!({}))).await;
    assert!(challenge(&refused).starts_with("DPoP scope=\"notes:read\", algs=\"ES256 EdDSA"), "{refused}");
}
