//! A store in encrypted files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use tokio::sync::OwnedMutexGuard;
use turms_core::__internal::random_bytes;
use turms_core::BoxFuture;
use zeroize::Zeroizing;

use super::directory::{Directory, FileLock};
use super::key::{Key, KeySource};
use super::memory::LockTable;
use super::record::{self, LoginDocument};
use super::{DEFAULT_LOCK_TIMEOUT, LoginKey, LoginLock, StoreError, StoredClient, StoredLogin, TokenStore};
use crate::secret::Secret;

/// First bytes of each file. The last one is the version of the format.
const MAGIC: [u8; 8] = *b"TURMSOA\x01";

const NONCE_BYTES: usize = 24;

const LOGIN: &str = ".login";
const CLIENT: &str = ".client";
const LOCK: &str = ".lock";
/// Suffix of a file that could not be read when its successor was saved.
const DAMAGED: &str = ".damaged";

/// Pauses between two attempts to lock a login: the first one, and the longest.
const MIN_LOCK_PAUSE: Duration = Duration::from_millis(2);
const MAX_LOCK_PAUSE: Duration = Duration::from_millis(50);

/// A store in encrypted files, which any number of processes share.
///
/// Each login is a file of its own, encrypted with XChaCha20-Poly1305. The key is that of [`key`](Self::key), otherwise that in the
/// environment variable `TURMS_KEY` (32 bytes in base64 or hexadecimal), otherwise that in the file `key` in the same directory, which is
/// created if needed. A key in the same directory protects copies of single files, and not against programs of the same user.
///
/// The directory and its files are accessible to their owner only; wider permissions are narrowed, files of other users and symbolic
/// links are errors. On Windows the permissions are those of the directory above.
///
/// A file that is damaged, of another version, or encrypted with another key counts as logged out, with a warning in the log. It
/// is kept: the next login renames it to `*.damaged`. Processes that share a directory must share the key.
#[derive(Debug, Clone)]
pub struct FileStore {
    files: Arc<Files>,
    lock_timeout: Duration,
}

impl FileStore {
    /// Opens the store of this user. It is in `turms/logins` below `$XDG_DATA_HOME` or `~/.local/share`, on macOS below
    /// `~/Library/Application Support`, on Windows below `%LOCALAPPDATA%`.
    ///
    /// # Errors
    /// If the environment does not say where that is.
    pub fn open() -> Result<Self, StoreError> {
        default_directory(|name| std::env::var_os(name)).map(Self::at)
    }

    /// Opens the store in a directory, which is created when the first login is saved.
    #[must_use]
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            files: Arc::new(Files::new(Directory::new(directory), KeySource::Environment)),
            lock_timeout: DEFAULT_LOCK_TIMEOUT,
        }
    }

    /// Sets the key. Default: the environment variable `TURMS_KEY`, otherwise the file `key` in the directory.
    #[must_use]
    pub fn key(self, key: [u8; 32]) -> Self {
        self.key_source(KeySource::Given(Zeroizing::new(key)))
    }

    /// Takes the key from the keyring of the operating system, and stores a new one there if needed: Keychain on macOS, Credential Manager
    /// on Windows, the Secret Service on others. The logins themselves stay in files, as some keyrings take little data.
    ///
    /// An error of the keyring, such as a machine without a Secret Service, is an error of the store: there is no other key instead.
    #[cfg(feature = "keyring")]
    #[must_use]
    pub fn keyring(self) -> Self {
        self.key_source(KeySource::Keyring)
    }

    fn key_source(self, source: KeySource) -> Self {
        let files = Arc::new(Files::new(self.files.directory.clone(), source));
        Self { files, ..self }
    }

    /// Sets the timeout for the lock of a login. Default: 30 s.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> Self {
        self.lock_timeout = timeout;
        self
    }

    /// Returns the directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.files.directory.as_path()
    }

    /// Waits for a lock: first among the tasks of this process, then among processes.
    async fn lock_file(&self, id: &str) -> Result<HeldLock, StoreError> {
        let name = format!("{id}{LOCK}");
        let held = async {
            let task = self.files.locks.lock(id.to_owned()).await;
            let mut pause = MIN_LOCK_PAUSE;
            loop {
                let name = name.clone();
                if let Some(file) = self.files.blocking(move |files| files.directory.try_lock(&name)).await? {
                    return Ok(HeldLock { _file: file, _task: task });
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(MAX_LOCK_PAUSE);
            }
        };
        let held = tokio::time::timeout(self.lock_timeout, held).await;
        held.unwrap_or_else(|_| Err(StoreError::Locked(self.lock_timeout)))
    }
}

impl TokenStore for FileStore {
    fn load<'a>(&'a self, key: &'a LoginKey) -> BoxFuture<'a, Result<Option<StoredLogin>, StoreError>> {
        let id = key.id();
        Box::pin(self.files.blocking(move |files| files.load_login(&id)))
    }

    fn lock<'a>(&'a self, key: &'a LoginKey) -> BoxFuture<'a, Result<Box<dyn LoginLock>, StoreError>> {
        Box::pin(async move {
            let lock = Arc::new(self.lock_file(&key.id()).await?);
            Ok(Box::new(LoginFile { files: self.files.clone(), key: key.clone(), lock }) as _)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<LoginKey>, StoreError>> {
        Box::pin(self.files.blocking(Files::list))
    }

    fn load_client<'a>(
        &'a self,
        issuer: &'a str,
        profile: &'a str,
    ) -> BoxFuture<'a, Result<Option<StoredClient>, StoreError>> {
        let id = record::client_id(issuer, profile);
        Box::pin(self.files.blocking(move |files| files.load_client(&id)))
    }

    fn save_client<'a>(&'a self, profile: &'a str, client: &'a StoredClient) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let id = record::client_id(&client.issuer, profile);
            let lock = self.lock_file(&id).await?;
            let json = client.to_json();
            self.files
                .blocking(move |files| {
                    let _lock = lock;
                    files.save(&format!("{id}{CLIENT}"), &json, |files| files.load_client_file(&id))
                })
                .await
        })
    }

    fn remove_client<'a>(&'a self, issuer: &'a str, profile: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let id = record::client_id(issuer, profile);
            let lock = self.lock_file(&id).await?;
            self.files
                .blocking(move |files| {
                    let _lock = lock;
                    files.remove(&format!("{id}{CLIENT}"))
                })
                .await
        })
    }
}

/// The lock of a login or a client, among tasks and among processes.
#[derive(Debug)]
struct HeldLock {
    // Released first, so that the next task of this process finds it free.
    _file: FileLock,
    _task: OwnedMutexGuard<()>,
}

/// The lock of a login. Each operation has a part in the lock, so that one with a dropped future finishes before the lock is
/// released.
struct LoginFile {
    files: Arc<Files>,
    key: LoginKey,
    lock: Arc<HeldLock>,
}

impl LoginFile {
    fn locked<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Files) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let lock = self.lock.clone();
        Box::pin(self.files.blocking(move |files| {
            let _lock = lock;
            operation(files)
        }))
    }
}

impl LoginLock for LoginFile {
    fn load(&mut self) -> BoxFuture<'_, Result<Option<StoredLogin>, StoreError>> {
        let id = self.key.id();
        self.locked(move |files| files.load_login(&id))
    }

    fn save<'a>(&'a mut self, login: &'a StoredLogin) -> BoxFuture<'a, Result<(), StoreError>> {
        let (id, json) = (self.key.id(), LoginDocument::to_json(&self.key, login));
        self.locked(move |files| files.save(&format!("{id}{LOGIN}"), &json, |files| files.load_login_file(&id)))
    }

    fn clear(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        let name = format!("{}{LOGIN}", self.key.id());
        self.locked(move |files| files.remove(&name))
    }
}

/// The files of a store. All functions block.
#[derive(Debug)]
struct Files {
    directory: Directory,
    source: KeySource,
    key: OnceLock<CachedKey>,
    locks: LockTable<String>,
}

struct CachedKey(Key);

/// Error for a file that cannot be read.
enum ReadError {
    /// The store cannot be read.
    Store(StoreError),
    /// This file has no readable login.
    Damaged(&'static str),
}

impl Files {
    fn new(directory: Directory, source: KeySource) -> Self {
        Self { directory, source, key: OnceLock::new(), locks: LockTable::default() }
    }

    /// Runs a function in a thread that may block. It runs to its end even if the future is dropped.
    fn blocking<T, F>(self: &Arc<Self>, operation: F) -> impl Future<Output = Result<T, StoreError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    {
        let files = self.clone();
        async move {
            let result = tokio::task::spawn_blocking(move || operation(&files)).await;
            result.unwrap_or_else(|error| Err(StoreError::other(error)))
        }
    }

    fn load_login(&self, id: &str) -> Result<Option<StoredLogin>, StoreError> {
        let found = self.load_login_file(id).map(|found| found.map(|document| document.login));
        self.tolerate(&format!("{id}{LOGIN}"), found)
    }

    fn load_client(&self, id: &str) -> Result<Option<StoredClient>, StoreError> {
        self.tolerate(&format!("{id}{CLIENT}"), self.load_client_file(id))
    }

    fn list(&self) -> Result<Vec<LoginKey>, StoreError> {
        let mut keys = BTreeSet::new();
        for id in self.directory.names(LOGIN)? {
            let found = self.load_login_file(&id);
            keys.extend(self.tolerate(&format!("{id}{LOGIN}"), found)?.map(|document| document.key));
        }
        Ok(keys.into_iter().collect())
    }

    /// Counts a damaged file as none, with a warning.
    fn tolerate<T>(&self, name: &str, found: Result<Option<T>, ReadError>) -> Result<Option<T>, StoreError> {
        match found {
            Ok(found) => Ok(found),
            Err(ReadError::Store(error)) => Err(error),
            Err(ReadError::Damaged(reason)) => {
                let path = self.directory.path(name);
                tracing::warn!(path = %path.display(), reason, "a stored login cannot be read: log in again");
                Ok(None)
            }
        }
    }

    fn load_login_file(&self, id: &str) -> Result<Option<LoginDocument>, ReadError> {
        let Some(json) = self.read(&format!("{id}{LOGIN}"))? else {
            return Ok(None);
        };
        // It is the login of this id: the cipher binds the content to the name of the file.
        LoginDocument::from_json(json.expose()).map(Some).map_err(|_| ReadError::Damaged("its content is invalid"))
    }

    fn load_client_file(&self, id: &str) -> Result<Option<StoredClient>, ReadError> {
        let Some(json) = self.read(&format!("{id}{CLIENT}"))? else {
            return Ok(None);
        };
        StoredClient::from_json(json.expose()).map(Some).map_err(|_| ReadError::Damaged("its content is invalid"))
    }

    /// Reads and decrypts a file.
    fn read(&self, name: &str) -> Result<Option<Secret>, ReadError> {
        let Some(bytes) = self.directory.read(name)? else {
            return Ok(None);
        };
        let key = self.find_key()?.ok_or(ReadError::Damaged("its encryption key is gone"))?;
        let (magic, rest) = bytes.split_first_chunk().ok_or(ReadError::Damaged("it is too short"))?;
        if magic[..MAGIC.len() - 1] != MAGIC[..MAGIC.len() - 1] {
            return Err(ReadError::Damaged("it is not a file of this store"));
        }
        if *magic != MAGIC {
            return Err(ReadError::Damaged("it has the format of another version"));
        }
        let (nonce, text) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(ReadError::Damaged("it is too short"))?;
        let payload = Payload { msg: text, aad: &bound_to(name) };
        let json = cipher(key).decrypt(&XNonce::from(*nonce), payload);
        let json = json.map_err(|_| ReadError::Damaged("it is damaged, or encrypted with another key"))?;
        match String::from_utf8(json) {
            Ok(json) => Ok(Some(Secret::new(json))),
            Err(error) => {
                drop(Zeroizing::new(error.into_bytes()));
                Err(ReadError::Damaged("its content is invalid"))
            }
        }
    }

    /// Encrypts and writes a file. The caller holds its lock. A file that cannot be read is renamed before.
    fn save<T>(
        &self,
        name: &str,
        json: &Secret,
        previous: impl FnOnce(&Self) -> Result<Option<T>, ReadError>,
    ) -> Result<(), StoreError> {
        let key = self.find_or_create_key()?;
        let nonce = random_bytes::<NONCE_BYTES>();
        let payload = Payload { msg: json.expose().as_bytes(), aad: &bound_to(name) };
        let sealed = cipher(key)
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a login is far smaller than the limit of the cipher");
        match previous(self) {
            Ok(_) => {}
            Err(ReadError::Damaged(_)) => self.directory.rename(name, &format!("{name}{DAMAGED}"))?,
            Err(ReadError::Store(error)) => return Err(error),
        }
        self.directory.write(name, &[&MAGIC[..], &nonce, &sealed].concat())
    }

    /// Removes a file and what it left behind when it was damaged. The caller holds its lock.
    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.directory.remove(name)?;
        self.directory.remove(&format!("{name}.tmp"))?;
        self.directory.remove(&format!("{name}{DAMAGED}"))
    }

    fn find_key(&self) -> Result<Option<&Key>, StoreError> {
        if let Some(key) = self.key.get() {
            return Ok(Some(&key.0));
        }
        let found = self.source.find(&self.directory)?;
        Ok(found.map(|key| &self.key.get_or_init(|| CachedKey(key)).0))
    }

    fn find_or_create_key(&self) -> Result<&Key, StoreError> {
        if let Some(key) = self.key.get() {
            return Ok(&key.0);
        }
        let key = self.source.find_or_create(&self.directory)?;
        Ok(&self.key.get_or_init(|| CachedKey(key)).0)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Debug for CachedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CachedKey(..)")
    }
}

fn cipher(key: &Key) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new((&**key).into())
}

/// The data that a file is bound to: the format, and its name, which has the id and the kind. A file that is renamed to another
/// login cannot be read.
fn bound_to(name: &str) -> Vec<u8> {
    [&MAGIC[..], name.as_bytes()].concat()
}

/// Returns the directory for the logins of this user.
fn default_directory(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, StoreError> {
    let path = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = if cfg!(windows) {
        path("LOCALAPPDATA").ok_or(StoreError::NoDirectory("LOCALAPPDATA"))?
    } else if cfg!(target_os = "macos") {
        path("HOME").ok_or(StoreError::NoDirectory("HOME"))?.join("Library/Application Support")
    } else {
        let home = || path("HOME").map(|home| home.join(".local/share"));
        path("XDG_DATA_HOME").or_else(home).ok_or(StoreError::NoDirectory("HOME"))?
    };
    Ok(data.join("turms").join("logins"))
}

#[cfg(test)]
pub(super) mod tests;
