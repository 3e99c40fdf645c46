//! Authorization for the Model Context Protocol.
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `client` | yes | logins, token stores, each flow as functions |
//! | `guard` | yes | checks of tokens, with keys at hand |
//! | `remote` | yes | a guard that fetches keys and introspects tokens; enables `guard` |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "fetch")]
mod fetch;
#[cfg(feature = "client")]
mod flow;
mod jws;
#[cfg(feature = "client")]
mod login;
mod metadata;
#[cfg(feature = "fetch")]
mod network;
mod pkce;
mod secret;
#[cfg(feature = "client")]
pub mod store;

#[cfg(feature = "fetch")]
pub use self::fetch::{FetchError, FetchErrorKind, FetchStep};
#[cfg(feature = "client")]
pub use self::flow::Callback;
pub use self::jws::{Algorithm, Jwk, JwkSet, Jws, JwsError, KeyError, SigningKey};
#[cfg(feature = "client")]
pub use self::login::{Login, LoginError, LoginMessage, LoginPrompt};
pub use self::metadata::{
    AuthorizationServerMetadata, ClientMetadata, DeviceAuthorization, Introspection, OAuthErrorResponse,
    ProtectedResourceMetadata, RegistrationResponse, TokenResponse,
};
pub use self::pkce::{Pkce, pkce, pkce_challenge, random_token};
pub use self::secret::Secret;
#[cfg(feature = "client")]
pub use self::store::{
    FileStore, InvalidRecordError, LoginKey, LoginLock, MemoryStore, StoreError, StoredClient, StoredLogin, TokenStore,
};
