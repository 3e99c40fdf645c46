//! Digests of tokens.

use ring::aead;
use turms_core::__internal::random_bytes;
use zeroize::Zeroizing;

/// A key for digests of tokens that do not leave the process, such as the keys of a cache.
///
/// It is GMAC with a fixed nonce, which is a universal hash function with a secret key: unless digests are known, two texts have the same
/// one with a probability of 2^-118 at most, also if they are chosen on purpose. It is several times as fast as SHA-256 on processors
/// without instructions for that.
pub(crate) struct TokenDigest(aead::LessSafeKey);

impl TokenDigest {
    /// Creates a digest with a random key.
    pub(crate) fn random() -> Self {
        let key = Zeroizing::new(random_bytes::<32>());
        let key = aead::UnboundKey::new(&aead::AES_256_GCM, &*key).expect("the key has the length of the algorithm");
        Self(aead::LessSafeKey::new(key))
    }

    pub(crate) fn of(&self, token: &[u8]) -> [u8; 16] {
        let nonce = aead::Nonce::assume_unique_for_key([0; aead::NONCE_LEN]);
        let tag = self.0.seal_in_place_separate_tag(nonce, aead::Aad::from(token), &mut []);
        let mut digest = [0; 16];
        digest.copy_from_slice(tag.expect("a token is shorter than the limit of the algorithm").as_ref());
        digest
    }
}
