//! The key that encrypts a store, in the keyring of the operating system. All functions block.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keyring::{Entry, Error};
use zeroize::Zeroizing;

use super::StoreError;
use super::directory::Directory;
use super::key::Key;

/// The name of the entries. Each directory has one, whose user is the path of the directory.
const SERVICE: &str = "turms login store";

/// Returns the key of a directory. `None` if there is none.
pub(super) fn find(directory: &Directory) -> Result<Option<Key>, StoreError> {
    let password = match entry(directory)?.get_password() {
        Ok(password) => Zeroizing::new(password),
        Err(Error::NoEntry) => return Ok(None),
        Err(error) => return Err(store_error(&error)),
    };
    let bytes = STANDARD.decode(password.as_bytes()).map(Zeroizing::new);
    let key = bytes.ok().and_then(|bytes| bytes.as_slice().try_into().ok());
    key.map(|key| Some(Key::new(key))).ok_or_else(invalid_entry)
}

/// Stores the key of a directory.
pub(super) fn save(directory: &Directory, key: &Key) -> Result<(), StoreError> {
    // Text, because some keyrings store nothing else.
    let password = Zeroizing::new(STANDARD.encode(**key));
    entry(directory)?.set_password(&password).map_err(|error| store_error(&error))
}

fn entry(directory: &Directory) -> Result<Entry, StoreError> {
    if let Err(error) = Entry::store_status() {
        return Err(store_error(error));
    }
    let path = std::path::absolute(directory.as_path());
    let path = path.unwrap_or_else(|_| directory.as_path().to_owned());
    Entry::new(SERVICE, &path.to_string_lossy()).map_err(|error| store_error(&error))
}

/// Describes an error of the keyring. It is not kept as a source: its `Debug` output can have the content of an entry.
fn store_error(error: &Error) -> StoreError {
    match error {
        Error::BadEncoding(_) | Error::BadDataFormat(..) => invalid_entry(),
        error => StoreError::Key(format!(
            "the keyring of the system cannot be used: {error}; start or unlock its service, or use another key: \
             FileStore::key, or the environment variable TURMS_KEY"
        )),
    }
}

fn invalid_entry() -> StoreError {
    StoreError::Key(format!(
        "the entry {SERVICE:?} in the keyring of the system is not a key; remove it and log in again"
    ))
}
