//! Authorization for the Model Context Protocol.
//!
//! - **Clients**: [`OAuth`] logs in at any number of servers, keeps and renews their tokens, and authorizes the requests of an
//!   `HttpConnector` or a `WsConnector`. [`OAuth::token`] and [`OAuth::layer`] are for other HTTP clients.
//! - **Servers**: [`TokenGuard`] checks the tokens of requests.
//! - **Single steps**, as functions:
//!
//! | step | function |
//! |---|---|
//! | find the authorization server | [`discover`], [`discover_resource`], [`discover_server`] |
//! | register the client | [`register`] |
//! | create a PKCE verifier and its challenge | [`pkce()`] |
//! | build the URL of the login page | [`authorization_url`] |
//! | check the callback | [`check_callback`] |
//! | exchange the code | [`exchange_code`] |
//! | log in with a device code | [`device_authorization`], [`wait_for_device_token`] |
//! | refresh | [`refresh()`] |
//! | obtain a token without a person | [`client_credentials`], [`jwt_bearer`] |
//! | exchange an ID token of an enterprise | [`exchange_id_token`] |
//! | revoke | [`revoke`] |
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `client` | yes | logins, token stores, each flow as functions |
//! | `guard` | yes | checks of tokens, with keys that the program has |
//! | `remote` | yes | a guard that fetches keys and introspects tokens; enables `guard` |
//! | `keyring` | | the key of the [`FileStore`] in the keyring of the system; enables `client` |
//! | `dev` | | an authorization server for development and tests |
//! | `proxy` | | an authorization server in front of a provider without dynamic registration; enables `client` and `remote` |

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod client_auth;
#[cfg(feature = "client")]
mod clock;
#[cfg(feature = "dev")]
pub mod dev;
#[cfg(feature = "fetch")]
mod discovery;
#[cfg(feature = "client")]
mod dpop;
#[cfg(feature = "fetch")]
mod error;
#[cfg(feature = "fetch")]
mod fetch;
#[cfg(feature = "client")]
mod flow;
#[cfg(feature = "guard")]
mod guard;
mod into_error;
mod jws;
#[cfg(feature = "client")]
mod login;
mod metadata;
#[cfg(any(feature = "fetch", feature = "guard"))]
mod network;
mod pkce;
#[cfg(any(feature = "client", feature = "remote"))]
pub mod provider;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "client")]
mod registration;
#[cfg(feature = "client")]
mod scopes;
mod secret;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "client")]
pub mod store;

#[cfg(feature = "client")]
pub use self::client::{
    ClientCredentials, Dpop, Enterprise, Grant, LoginStatus, OAuth, OAuthLayer, OAuthService, ResourceParameter,
    Workload,
};
#[cfg(feature = "client")]
pub use self::client_auth::{ClientAuthentication, ClientIdentity};
#[cfg(feature = "fetch")]
pub use self::discovery::{Discovery, discover, discover_resource, discover_server};
#[cfg(feature = "client")]
pub use self::dpop::DpopKey;
#[cfg(feature = "fetch")]
pub use self::error::{OAuthError, OAuthErrorKind};
#[cfg(feature = "fetch")]
pub use self::fetch::{FetchError, FetchErrorKind, FetchStep, Fetcher};
#[cfg(feature = "client")]
pub use self::flow::{
    AuthorizationRequest, Callback, CodeExchange, DevicePoll, IdTokenExchange, TokenKind, TokenParameters,
    authorization_url, check_callback, client_credentials, device_authorization, device_token, exchange_code,
    exchange_id_token, jwt_bearer, refresh, revoke, wait_for_device_token,
};
#[cfg(feature = "guard")]
pub use self::guard::{
    DpopPolicy, GuardDocuments, GuardError, GuardedService, Issuer, MemoryReplayStore, ReplayStore, ReplayStoreError,
    TokenGuard, TokenGuardBuilder, TokenGuardLayer, Verifier, VerifyError,
};
pub use self::jws::{Algorithm, Jwk, JwkSet, Jws, JwsError, KeyError, SigningKey};
#[cfg(feature = "client")]
pub use self::login::{Login, LoginError, LoginMessage, LoginPrompt};
pub use self::metadata::{
    AuthorizationServerMetadata, ClientMetadata, DeviceAuthorization, Introspection, OAuthErrorResponse,
    ProtectedResourceMetadata, RegistrationResponse, TokenResponse,
};
pub use self::pkce::{Pkce, pkce, pkce_challenge, random_token};
#[cfg(feature = "client")]
pub use self::registration::register;
#[cfg(feature = "client")]
pub use self::scopes::{add_scopes, choose_scopes};
pub use self::secret::Secret;
#[cfg(feature = "client")]
pub use self::store::{
    FileStore, InvalidRecordError, LoginKey, LoginLock, MemoryStore, StoreError, StoredClient, StoredLogin, TokenStore,
};

/// For tests of Turms. Not part of the API.
#[doc(hidden)]
pub mod __internal {
    #[cfg(feature = "guard")]
    pub use crate::guard::GuardClock;
}

#[cfg(all(doctest, feature = "client", feature = "remote"))]
#[doc = include_str!("../README.md")]
mod readme {}
