//! Encryption of `requestState`: the input responses and the saved outcomes of earlier rounds. The client returns it with
//! the next round, and can neither read nor modify it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use turms_core::__internal::random_bytes;

/// A key that encrypts request state. Replicas that share keys accept each other's request state.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestStateKey([u8; 32]);

impl RequestStateKey {
    /// Creates a key from 32 secret bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Creates a random key for this process.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    #[must_use]
    pub fn random() -> Self {
        Self(random_bytes())
    }
}

impl fmt::Debug for RequestStateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestStateKey(..)")
    }
}

/// Encrypts with the first key, decrypts with any.
#[derive(Debug)]
pub(crate) struct Sealer {
    keys: Vec<RequestStateKey>,
    lifetime: Duration,
}

/// Error for a request state that this server did not issue for the request, or that has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("requestState is not valid for this request, or has expired")]
pub(crate) struct InvalidRequestState;

impl Sealer {
    /// Length of a nonce of XChaCha20, in bytes. It is long enough for random nonces.
    const NONCE_LENGTH: usize = 24;

    pub(crate) fn new(keys: Vec<RequestStateKey>, lifetime: Duration) -> Self {
        let keys = if keys.is_empty() { vec![RequestStateKey::random()] } else { keys };
        Self { keys, lifetime }
    }

    /// Encrypts a state. `bound_to` is authenticated data that must be the same when the client returns the state.
    pub(crate) fn seal(&self, state: &[u8], bound_to: &[u8]) -> String {
        let nonce = random_bytes::<{ Self::NONCE_LENGTH }>();
        let expiry = (unix_time() + self.lifetime).as_secs().to_be_bytes();
        let plaintext = [&expiry[..], state].concat();
        let payload = Payload { msg: &plaintext, aad: bound_to };
        let ciphertext = cipher(&self.keys[0])
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a state is far smaller than the limit of the cipher");
        URL_SAFE_NO_PAD.encode([&nonce[..], &ciphertext].concat())
    }

    pub(crate) fn open(&self, sealed: &str, bound_to: &[u8]) -> Result<Vec<u8>, InvalidRequestState> {
        self.open_at(sealed, bound_to, unix_time())
    }

    fn open_at(&self, sealed: &str, bound_to: &[u8], now: Duration) -> Result<Vec<u8>, InvalidRequestState> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| InvalidRequestState)?;
        let (nonce, ciphertext) = bytes.split_first_chunk::<{ Self::NONCE_LENGTH }>().ok_or(InvalidRequestState)?;
        let decrypt = |key| {
            let payload = Payload { msg: ciphertext, aad: bound_to };
            cipher(key).decrypt(&XNonce::from(*nonce), payload).ok()
        };
        let plaintext = self.keys.iter().find_map(decrypt).ok_or(InvalidRequestState)?;
        let (expiry, state) = plaintext.split_first_chunk::<8>().ok_or(InvalidRequestState)?;
        if u64::from_be_bytes(*expiry) < now.as_secs() {
            return Err(InvalidRequestState);
        }
        Ok(state.to_vec())
    }
}

fn cipher(key: &RequestStateKey) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&key.0.into())
}

#[expect(clippy::disallowed_methods, reason = "other processes compare the expiry with their clocks")]
fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_opens_only_for_what_it_was_sealed_for() {
        let sealer = Sealer::new(Vec::new(), Duration::from_secs(60));
        let sealed = sealer.seal(b"state", b"tools/call add");
        assert_eq!(sealer.open(&sealed, b"tools/call add").unwrap(), b"state");
        assert_eq!(sealer.open(&sealed, b"tools/call subtract"), Err(InvalidRequestState));
        assert_eq!(sealer.open(&format!("{sealed}-TAMPERED"), b"tools/call add"), Err(InvalidRequestState));
        assert_eq!(sealer.open("", b"tools/call add"), Err(InvalidRequestState));
        let other = Sealer::new(Vec::new(), Duration::from_secs(60));
        assert_eq!(other.open(&sealed, b"tools/call add"), Err(InvalidRequestState));
    }

    #[test]
    fn a_state_does_not_live_for_ever() {
        let sealer = Sealer::new(Vec::new(), Duration::from_secs(60));
        let sealed = sealer.seal(b"state", b"");
        assert!(sealer.open_at(&sealed, b"", unix_time() + Duration::from_secs(50)).is_ok());
        assert_eq!(sealer.open_at(&sealed, b"", unix_time() + Duration::from_secs(70)), Err(InvalidRequestState));
    }

    #[test]
    fn keys_can_be_rotated() {
        let (old, new) = (RequestStateKey::new([1; 32]), RequestStateKey::new([2; 32]));
        let sealed = Sealer::new(vec![old.clone()], Duration::from_secs(60)).seal(b"state", b"");
        let rotated = Sealer::new(vec![new, old], Duration::from_secs(60));
        assert_eq!(rotated.open(&sealed, b"").unwrap(), b"state");
        assert_eq!(format!("{:?}", RequestStateKey::random()), "RequestStateKey(..)");
    }
}
