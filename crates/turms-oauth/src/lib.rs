//! Authorization for the Model Context Protocol.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `client` | yes | logins, token stores, each flow as functions |
//! | `guard` | yes | checks of tokens, with keys at hand |
//! | `remote` | yes | a guard that fetches keys and introspects tokens; enables `guard` |
//! | `dev` | | an authorization server for development and tests |
//! | `proxy` | | an authorization server in front of a provider without dynamic registration |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "dev")]
pub mod dev;
#[cfg(feature = "fetch")]
mod fetch;
mod jws;
mod metadata;
#[cfg(feature = "fetch")]
mod network;
mod pkce;
mod secret;
#[cfg(feature = "server")]
mod server;

#[cfg(feature = "fetch")]
pub use self::fetch::{FetchError, FetchErrorKind, FetchStep};
pub use self::jws::{Algorithm, Jwk, JwkSet, Jws, JwsError, KeyError, SigningKey};
pub use self::metadata::{
    AuthorizationServerMetadata, ClientMetadata, DeviceAuthorization, Introspection, OAuthErrorResponse,
    ProtectedResourceMetadata, RegistrationResponse, TokenResponse,
};
pub use self::pkce::{Pkce, pkce, pkce_challenge, random_token};
pub use self::secret::Secret;
