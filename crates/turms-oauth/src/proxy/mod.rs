//! An authorization server in front of a provider without dynamic registration, such as Google, GitHub or Microsoft Entra.
//!
//! MCP clients register themselves, which these providers do not support. The proxy is a complete authorization server for MCP clients:
//! they register with it, and log in with authorization codes and PKCE. For the provider the proxy is one client that you have registered
//! there, with the redirect URI [`callback_url`](OAuthProxy::callback_url). The people log in at the provider.
//!
//! ```no_run
//! use turms_http::{Listener, ServeHttp};
//! use turms_oauth::proxy::{OAuthProxy, ProxyUser, Upstream};
//! use turms_oauth::{Issuer, TokenGuard};
//! use turms_server::Server;
//!
//! # async fn example(id: String, secret: String, key: [u8; 32]) -> Result<(), Box<dyn std::error::Error>> {
//! let proxy = OAuthProxy::builder("https://mcp.example.com")
//!     .resource("https://mcp.example.com/mcp")
//!     .upstream(Upstream::google(id, secret))
//!     .scopes(["notes:read"])
//!     .key(key)
//!     // Only accounts of one organization.
//!     .users(|user| {
//!         let is_ours = user.claim::<String>("hd").is_some_and(|domain| domain == "example.com");
//!         is_ours.then(|| ProxyUser::new(user.subject()))
//!     })
//!     .build()?;
//! let guard = TokenGuard::builder("https://mcp.example.com/mcp")
//!     .issuer(Issuer::keys(proxy.issuer(), proxy.jwk_set()))
//!     .scopes(["notes:read"])
//!     .build()?;
//! let mcp = Server::new("notes", "1.0.0").into_http_service()?.allowed_hosts(["mcp.example.com"]).guard(guard.clone());
//! let application = axum::Router::new()
//!     .route_service(&guard.metadata_path(), guard.documents())
//!     .nest_service("/mcp", mcp)
//!     .fallback_service(proxy.service());
//! Listener::bind("127.0.0.1:8080").await?.serve_tower(application).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Without an application, [`service`](OAuthProxy::service) can have a listener of its own: `listener.serve_tower(proxy.service())`.
//!
//! # Login
//!
//! 1. A client sends the person to the proxy. The proxy checks the client and its redirect URI, which must be a registered one; only the
//!    port of a loopback host may differ.
//! 2. A page asks whether this client may have access. Without it any client could use the consent that a person has once given to the
//!    proxy at the provider (the "confused deputy"). Approval is remembered in a signed cookie, for the client, its redirect URI and the
//!    scopes. For a client ID metadata document with a redirect URI of this machine it is not: any local program could use that id.
//! 3. The person logs in at the provider. `state`, PKCE verifier and `nonce` of this leg are those of the proxy, valid for ten minutes,
//!    once, and only in the browser that has approved: a cookie of that browser contains them, encrypted. Several logins may be in
//!    progress at once.
//! 4. The proxy verifies the ID token of the provider, or asks for the user information, and [`users`](OAuthProxyBuilder::users) decides.
//! 5. The client gets a code, and for it tokens that the proxy has signed, for your resource only. Tokens of the provider are never sent
//!    to clients. Handlers get them from [`upstream_token`](OAuthProxy::upstream_token).
//!
//! When a client refreshes its token, the proxy renews the login at the provider first. If the provider has ended it, the login of the
//! client ends, too. Without a refresh token of the provider, the login ends with the provider's access token, if that expires; otherwise
//! the proxy asks for the user information. Refresh tokens are replaced by each use; one that is used twice ends the login.
//!
//! # Restart
//!
//! Logins and tokens of the provider are in memory, so that clients have to log in again after a restart, and replicas need sticky
//! sessions. With [`key`](OAuthProxyBuilder::key), registrations of clients, remembered approvals and logins in progress stay valid;
//! with [`signing_key`](OAuthProxyBuilder::signing_key), access tokens do until they expire.
//!
//! # Limits
//!
//! 10 000 logins, 100 for each subject. If there are more, the oldest end. Registrations are not stored: the id of a client contains
//! them, signed. Logins in progress are in cookies of the browser, at most 3 000 bytes each and 6 000 together: a request that does not
//! fit is refused with `invalid_request`, and the oldest logins of the same browser end if there are too many.

mod application;
mod attempt;
mod builder;
mod consent;
mod login;
mod provider;
mod upstream;
mod user;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turms_core::Principal;

use self::application::ProxyState;
pub use self::builder::OAuthProxyBuilder;
pub use self::provider::UpstreamError;
pub use self::upstream::Upstream;
pub use self::user::{ProxyUser, UpstreamUser};
use crate::jws::JwkSet;
use crate::secret::Secret;
pub use crate::server::AuthorizationService;

/// An authorization server in front of a provider. Cheap to clone.
#[doc(alias = "oauth_proxy")]
#[derive(Clone)]
pub struct OAuthProxy(Arc<ProxyState>);

impl OAuthProxy {
    /// Starts to build a proxy with an issuer, the URL that clients know it by. Its endpoints are below this URL.
    pub fn builder(issuer: impl Into<String>) -> OAuthProxyBuilder {
        OAuthProxyBuilder::new(issuer.into())
    }

    /// Returns the issuer.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.0.core.issuer
    }

    /// Returns the URL of the metadata (RFC 8414).
    #[must_use]
    pub fn metadata_url(&self) -> String {
        self.0.core.metadata_url()
    }

    /// Returns the redirect URI to register with the provider: the issuer with `/callback`.
    #[must_use]
    pub fn callback_url(&self) -> String {
        self.0.core.url("/callback")
    }

    /// Returns the public keys of tokens, for [`Issuer::keys`](crate::Issuer::keys).
    #[must_use]
    pub fn jwk_set(&self) -> JwkSet {
        self.0.core.tokens.jwk_set()
    }

    /// Returns a `tower` service, to be mounted in an application or served by a listener.
    #[must_use]
    pub fn service(&self) -> AuthorizationService {
        AuthorizationService::new(self.0.clone())
    }

    /// Returns the provider's access token of the person that a request comes from. It is renewed if it expires within a minute.
    ///
    /// Use it for requests to the provider, and never send it to a client.
    ///
    /// # Errors
    /// When the principal is not of this proxy, the login has ended, or the provider does not renew the token.
    pub async fn upstream_token(&self, principal: &Principal) -> Result<Secret, UpstreamError> {
        self.0.upstream_token(principal).await
    }

    /// Moves the clock forward, for tests of expiry.
    #[doc(hidden)]
    pub fn __advance(&self, by: Duration) {
        self.0.core.clock.advance(by);
    }
}

impl fmt::Debug for OAuthProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthProxy").field("issuer", &self.issuer()).finish_non_exhaustive()
    }
}
