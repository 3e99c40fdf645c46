//! Proof Key for Code Exchange (RFC 7636), with S256 only.

use turms_core::__internal::random_bytes;

use crate::jws::{encode, sha256};
use crate::secret::Secret;

/// The verifier of an authorization request, and its challenge.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Pkce {
    /// The verifier, which is sent with the code.
    pub verifier: Secret,
    /// The challenge, which is sent with the authorization request, with `code_challenge_method=S256`.
    pub challenge: String,
}

/// Creates a verifier of 256 random bits and its challenge.
///
/// ```
/// use turms_oauth::{pkce, pkce_challenge};
///
/// let pkce = pkce();
/// assert_eq!(pkce.challenge, pkce_challenge(pkce.verifier.expose()));
/// ```
///
/// # Panics
/// If the operating system provides no random numbers.
#[doc(alias = "generate_pkce")]
#[doc(alias = "generate_pkce_challenge")]
#[doc(alias = "generate_code_verifier")]
#[must_use]
pub fn pkce() -> Pkce {
    let verifier = random_token();
    let challenge = pkce_challenge(verifier.expose());
    Pkce { verifier, challenge }
}

/// Returns the S256 challenge of a verifier.
#[doc(alias = "generate_code_challenge")]
#[doc(alias = "verify_pkce_challenge")]
#[must_use]
pub fn pkce_challenge(verifier: &str) -> String {
    encode(sha256(verifier))
}

/// Creates a token of 256 random bits in base64url, such as a `state`.
///
/// # Panics
/// If the operating system provides no random numbers.
#[must_use]
pub fn random_token() -> Secret {
    Secret::new(encode(random_bytes::<32>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_rfc_7636() {
        assert_eq!(
            pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn a_verifier_is_long_enough_and_differs_from_the_next() {
        let (one, other) = (pkce(), pkce());
        assert!((43..=128).contains(&one.verifier.expose().len()));
        assert_ne!(one.verifier, other.verifier);
        assert_eq!(one.challenge, pkce_challenge(one.verifier.expose()));
    }
}
