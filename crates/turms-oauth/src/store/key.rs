//! The key that encrypts a store.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use turms_core::__internal::random_bytes;
use zeroize::Zeroizing;

use super::StoreError;
use super::directory::Directory;
#[cfg(feature = "keyring")]
use super::system_keyring;

/// Environment variable with the key.
pub(crate) const KEY_VARIABLE: &str = "TURMS_KEY";

const KEY_FILE: &str = "key";
const KEY_LOCK: &str = "key.lock";
const KEY_BYTES: usize = 32;

/// Number of attempts to lock the key file, and the pause between two.
const LOCK_ATTEMPTS: u32 = 2000;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

pub(super) type Key = Zeroizing<[u8; KEY_BYTES]>;

/// The place that the key comes from.
#[derive(Clone)]
pub(super) enum KeySource {
    /// The application.
    Given(Key),
    /// The environment variable, otherwise a file in the directory.
    Environment,
    /// The keyring of the operating system.
    #[cfg(feature = "keyring")]
    Keyring,
}

impl KeySource {
    /// Returns the key. `None` if there is none yet.
    pub(super) fn find(&self, directory: &Directory) -> Result<Option<Key>, StoreError> {
        match self {
            Self::Given(key) => Ok(Some(key.clone())),
            Self::Environment => match env::var_os(KEY_VARIABLE) {
                Some(text) => from_variable(text).map(Some),
                None => read_file(directory),
            },
            #[cfg(feature = "keyring")]
            Self::Keyring => system_keyring::find(directory),
        }
    }

    /// Returns the key, or creates one.
    pub(super) fn find_or_create(&self, directory: &Directory) -> Result<Key, StoreError> {
        if let Some(key) = self.find(directory)? {
            return Ok(key);
        }
        let mut attempts = 0;
        let _lock = loop {
            match directory.try_lock(KEY_LOCK)? {
                Some(lock) => break lock,
                None if attempts == LOCK_ATTEMPTS => return Err(StoreError::Locked(LOCK_ATTEMPTS * LOCK_PAUSE)),
                None => std::thread::sleep(LOCK_PAUSE),
            }
            attempts += 1;
        };
        // Another process may have created it meanwhile.
        if let Some(key) = self.find(directory)? {
            return Ok(key);
        }
        let key = Key::new(random_bytes());
        match self {
            Self::Given(_) | Self::Environment => directory.write(KEY_FILE, to_text(&key).as_bytes())?,
            #[cfg(feature = "keyring")]
            Self::Keyring => system_keyring::save(directory, &key)?,
        }
        Ok(key)
    }
}

fn read_file(directory: &Directory) -> Result<Option<Key>, StoreError> {
    let Some(bytes) = directory.read(KEY_FILE)? else {
        return Ok(None);
    };
    let key = std::str::from_utf8(&bytes).ok().and_then(|text| from_text(text).ok());
    key.map(Some).ok_or_else(|| {
        let path = directory.path(KEY_FILE);
        StoreError::Key(format!("{} is damaged; restore it, or remove it and log in again", path.display()))
    })
}

fn from_variable(text: OsString) -> Result<Key, StoreError> {
    let text = Zeroizing::new(text.into_string().unwrap_or_default());
    from_text(&text).map_err(|problem| {
        StoreError::Key(format!(
            "{KEY_VARIABLE} must be {KEY_BYTES} bytes in base64 or hexadecimal, but {problem}; \
             create one with `openssl rand -base64 {KEY_BYTES}`"
        ))
    })
}

/// Reads a key in hexadecimal, or in base64 of either alphabet with or without padding.
fn from_text(text: &str) -> Result<Key, String> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let text = text.trim();
    if text.len() == 2 * KEY_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let mut key = Key::default();
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digit = |at: usize| char::from(digits[at]).to_digit(16).unwrap_or_default();
            *byte = u8::try_from(digit(0) * 16 + digit(1)).unwrap_or_default();
        }
        return Ok(key);
    }
    let alphabet = if text.contains(['-', '_']) { alphabet::URL_SAFE } else { alphabet::STANDARD };
    let bytes = GeneralPurpose::new(&alphabet, CONFIG).decode(text).map(Zeroizing::new);
    let bytes = bytes.map_err(|_| "it is neither".to_owned())?;
    match <[u8; KEY_BYTES]>::try_from(bytes.as_slice()) {
        Ok(key) => Ok(Key::new(key)),
        Err(_) => Err(format!("it has {} bytes", bytes.len())),
    }
}

/// Writes a key in hexadecimal.
fn to_text(key: &Key) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(2 * KEY_BYTES));
    for byte in key.iter() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Given(_) => "Given(..)",
            Self::Environment => "Environment",
            #[cfg(feature = "keyring")]
            Self::Keyring => "Keyring",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1F";

    #[test]
    fn keys_are_read_in_hexadecimal_and_in_base64() {
        let key = from_text(HEX).unwrap();
        assert!(key.iter().enumerate().all(|(at, byte)| at == usize::from(*byte)));
        let base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
        for text in [base64.to_owned(), format!("{base64}=\n"), to_text(&key).to_uppercase()] {
            assert_eq!(*from_text(&text).unwrap(), *key, "{text}");
        }
        let bytes = [0xfb; KEY_BYTES];
        for engine in [base64::engine::general_purpose::STANDARD, base64::engine::general_purpose::URL_SAFE] {
            assert_eq!(*from_text(&engine.encode(bytes)).unwrap(), bytes);
        }
    }

    #[test]
    fn an_invalid_key_is_explained_without_showing_it() {
        for text in ["", "s3cret!", "czNjcmV0", &HEX[1..]] {
            let error = from_variable(text.into()).unwrap_err().to_string();
            assert!(error.contains("TURMS_KEY must be 32 bytes in base64 or hexadecimal"), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
        assert!(from_variable("czNjcmV0".into()).unwrap_err().to_string().contains("it has 6 bytes"));
    }
}
