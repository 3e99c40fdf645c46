//! Stores of logins and of client registrations.
//!
//! - [`TokenStore`] is the trait; [`LoginLock`] is the exclusive right to change one login.
//! - [`MemoryStore`] forgets everything when the process ends. [`FileStore`] has encrypted files that processes share.
//! - [`contract`] has the tests that every implementation must pass.
//!
//! The future of a store may be dropped before it is ready; the operation is then done or not done.

pub mod contract;
mod directory;
mod error;
mod file;
mod key;
mod memory;
mod record;
#[cfg(feature = "keyring")]
mod system_keyring;

use std::sync::Arc;
use std::time::Duration;

use turms_core::BoxFuture;

pub use self::error::StoreError;
pub use self::file::FileStore;
pub(crate) use self::key::KEY_VARIABLE;
pub use self::memory::MemoryStore;
pub use self::record::{InvalidRecordError, LoginKey, StoredClient, StoredLogin};

/// Default timeout for the lock of a login.
const DEFAULT_LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// A store of logins and client registrations.
///
/// A login is changed only while its lock is held, so that two tasks or processes never refresh the same token.
/// [`contract::check`] tests an implementation.
pub trait TokenStore: Send + Sync + 'static {
    /// Returns the login of a server, without its lock. `None` if there is none, or if it cannot be read any more.
    fn load<'a>(&'a self, key: &'a LoginKey) -> BoxFuture<'a, Result<Option<StoredLogin>, StoreError>>;

    /// Waits for the exclusive right to change a login. Other logins are not locked.
    ///
    /// The error after the timeout is [`StoreError::Locked`].
    fn lock<'a>(&'a self, key: &'a LoginKey) -> BoxFuture<'a, Result<Box<dyn LoginLock>, StoreError>>;

    /// Returns the keys of all logins, sorted.
    fn list(&self) -> BoxFuture<'_, Result<Vec<LoginKey>, StoreError>>;

    /// Returns the client registration at an issuer. `None` if there is none, or if it cannot be read any more.
    fn load_client<'a>(
        &'a self,
        issuer: &'a str,
        profile: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredClient>, StoreError>>;

    /// Stores a client registration under its issuer. Replaces an earlier one.
    fn save_client<'a>(&'a self, profile: &'a str, client: &'a StoredClient) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes the client registration at an issuer, if there is one.
    fn remove_client<'a>(&'a self, issuer: &'a str, profile: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;
}

/// The exclusive right to change a login. Dropping it releases the lock.
pub trait LoginLock: Send {
    /// Returns the login.
    fn load(&mut self) -> BoxFuture<'_, Result<Option<StoredLogin>, StoreError>>;

    /// Stores the login. Replaces an earlier one.
    fn save<'a>(&'a mut self, login: &'a StoredLogin) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes the login, if there is one.
    fn clear(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;
}

impl<S: TokenStore + ?Sized> TokenStore for Arc<S> {
    fn load<'a>(&'a self, key: &'a LoginKey) -> BoxFuture<'a, Result<Option<StoredLogin>, StoreError>> {
        (**self).load(key)
    }

    fn lock<'a>(&'a self, key: &'a LoginKey) -> BoxFuture<'a, Result<Box<dyn LoginLock>, StoreError>> {
        (**self).lock(key)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<LoginKey>, StoreError>> {
        (**self).list()
    }

    fn load_client<'a>(
        &'a self,
        issuer: &'a str,
        profile: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredClient>, StoreError>> {
        (**self).load_client(issuer, profile)
    }

    fn save_client<'a>(&'a self, profile: &'a str, client: &'a StoredClient) -> BoxFuture<'a, Result<(), StoreError>> {
        (**self).save_client(profile, client)
    }

    fn remove_client<'a>(&'a self, issuer: &'a str, profile: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        (**self).remove_client(issuer, profile)
    }
}
