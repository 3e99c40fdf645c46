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
#[cfg(feature = "guard")]
mod guard;
mod jws;
mod metadata;
#[cfg(any(feature = "fetch", feature = "guard"))]
mod network;
mod pkce;
mod secret;

#[cfg(feature = "fetch")]
pub use self::fetch::{FetchError, FetchErrorKind, FetchStep};
#[cfg(feature = "guard")]
pub use self::guard::{
    DpopPolicy, GuardDocuments, GuardError, GuardedService, Issuer, MemoryReplayStore, ReplayStore, ReplayStoreError,
    TokenGuard, TokenGuardBuilder, TokenGuardLayer, Verifier, VerifyError,
};
pub use self::jws::{Algorithm, Jwk, JwkSet, Jws, JwsError, KeyError, SigningKey};
pub use self::metadata::{
    AuthorizationServerMetadata, ClientMetadata, DeviceAuthorization, Introspection, OAuthErrorResponse,
    ProtectedResourceMetadata, RegistrationResponse, TokenResponse,
};
pub use self::pkce::{Pkce, pkce, pkce_challenge, random_token};
pub use self::secret::Secret;

/// For tests of Turms. Not part of the API.
#[doc(hidden)]
pub mod __internal {
    #[cfg(feature = "guard")]
    pub use crate::guard::GuardClock;
}
