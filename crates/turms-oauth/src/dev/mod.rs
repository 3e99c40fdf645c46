//! A small authorization server for development and tests.
//!
//! **Not for production**: it keeps everything in memory, and logs users in by name. It writes a warning to the log when it starts.
//!
//! It implements authorization codes with PKCE, refresh tokens with rotation and reuse detection, client credentials, device codes, token
//! exchange (ID-JAG), JWT bearer assertions, dynamic registration, client ID metadata documents, DPoP, resource indicators, introspection
//! and revocation.
//!
//! ```no_run
//! use turms_oauth::dev::{DevClient, DevServer};
//!
//! # async fn example() -> Result<(), turms_core::Error> {
//! let server = DevServer::builder()
//!     .user("alice")
//!     .client(DevClient::public("notes").redirect_uri("http://127.0.0.1/callback"))
//!     .scopes(["notes:read", "notes:write"])
//!     .auto_approve("alice")
//!     .bind("127.0.0.1:0")
//!     .await?;
//! println!("{}", server.metadata_url());
//! # Ok(())
//! # }
//! ```

mod application;
mod assertions;
mod builder;
mod client;
mod device;
mod grants;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use turms_core::__internal::random_bytes;

use self::application::DevState;
pub use self::builder::DevServerBuilder;
pub use self::client::{DevClient, DevUser};
use crate::jws::{JwkSet, SigningKey, encode};
pub use crate::server::AuthorizationService;
use crate::server::claims::Claims;
use crate::server::clock::end_of;
use crate::server::default_key;
use crate::server::tokens::{Family, Grant};

/// An authorization server for development and tests. It stops when it is dropped.
pub struct DevServer {
    state: Arc<DevState>,
    address: Option<SocketAddr>,
    /// Stops the listener when it is dropped.
    _shutdown: Option<oneshot::Sender<()>>,
}

impl DevServer {
    /// Returns a builder with the defaults.
    pub fn builder() -> DevServerBuilder {
        DevServerBuilder::new()
    }

    /// Returns the issuer, such as `http://127.0.0.1:41234`.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.state.core.issuer
    }

    /// Returns the URL of the metadata (RFC 8414).
    #[must_use]
    pub fn metadata_url(&self) -> String {
        self.state.core.metadata_url()
    }

    /// Returns the URL of an endpoint, such as `/token`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        self.state.core.url(path)
    }

    /// Returns the address that it listens on. `None` if it was not bound.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns a `tower` service, to be mounted in an application.
    #[must_use]
    pub fn service(&self) -> AuthorizationService {
        AuthorizationService::new(self.state.clone())
    }

    /// Returns the public keys.
    #[must_use]
    pub fn jwk_set(&self) -> JwkSet {
        self.state.core.tokens.jwk_set()
    }

    /// Signs a token with these claims. Members that are absent get a default: `iss`, `iat`, `exp`, `jti`. To leave one out, set it to
    /// `null`.
    ///
    /// # Panics
    /// If the claims are not a JSON object.
    #[must_use]
    pub fn mint(&self, claims: impl Serialize) -> String {
        self.mint_as("at+jwt", claims)
    }

    /// Signs a token like [`mint`](Self::mint), with this `typ` in its header.
    ///
    /// # Panics
    /// If the claims are not a JSON object.
    #[must_use]
    pub fn mint_as(&self, kind: &str, claims: impl Serialize) -> String {
        let core = &self.state.core;
        let now = core.clock.now();
        let Ok(Value::Object(mut claims)) = serde_json::to_value(claims) else {
            panic!("claims are a JSON object");
        };
        let defaults = [
            ("iss", json!(core.issuer)),
            ("iat", json!(now)),
            ("exp", json!(end_of(now, core.settings.access_token_lifetime))),
            ("jti", json!(encode(random_bytes::<16>()))),
        ];
        for (name, value) in defaults {
            claims.entry(name).or_insert(value);
        }
        claims.retain(|_, value| !value.is_null());
        let token = core.tokens.sign(kind, &claims);
        core.tokens.remember_access(&token, &Family::new(), claims, None, now);
        token
    }

    /// Issues an access token for a user, as if the user had logged in.
    #[must_use]
    pub fn access_token(&self, subject: &str, audience: &str, scopes: &[&str]) -> String {
        let core = &self.state.core;
        let now = core.clock.now();
        let grant = Grant {
            client_id: "test".to_owned(),
            subject: subject.to_owned(),
            scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
            audiences: vec![audience.to_owned()],
            claims: self.state.user(subject).map_or_else(Claims::new, |user| user.claims.clone()),
            login_data: None,
            since: now,
        };
        let claims = core.access_claims(&grant, None, now);
        let token = core.tokens.issue_access(&Family::new(), claims, None, core.settings.has_opaque_tokens, now);
        token.expose().to_owned()
    }

    /// Signs with a new key from now on. The previous key stays in the key set until the next rotation.
    pub fn rotate_keys(&self) {
        let algorithm = self.state.core.tokens.key().algorithm();
        // Keys for RSA cannot be created here: the successor is of the default algorithm.
        let key = SigningKey::generate(algorithm).unwrap_or_else(|_| default_key());
        self.state.core.tokens.rotate_key(key);
    }

    /// Revokes all tokens and codes.
    pub fn revoke_all(&self) {
        self.state.core.tokens.revoke_all();
        self.state.core.codes.clear();
    }

    /// Makes the ids of all clients invalid that have registered dynamically.
    pub fn forget_registrations(&self) {
        self.state.core.clients.forget_registrations();
    }

    /// Moves the clock of the server forward, for tests of expiry.
    pub fn advance(&self, by: Duration) {
        self.state.core.clock.advance(by);
    }

    /// Returns the number of requests for an endpoint, such as `/token`, including refused ones.
    #[must_use]
    pub fn requests(&self, path: &str) -> u64 {
        self.state.requests.get(path)
    }

    /// Returns the number of successful requests for tokens with a grant type, such as `refresh_token`.
    #[must_use]
    pub fn grants(&self, grant_type: &str) -> u64 {
        self.state.grants.get(grant_type)
    }
}

impl fmt::Debug for DevServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevServer").field("issuer", &self.issuer()).finish_non_exhaustive()
    }
}
