//! JSON Web Signatures in compact form (RFC 7515), JSON Web Keys (RFC 7517) and their thumbprints (RFC 7638).
//!
//! Only this module uses the cryptography library, so that another one can take its place.

#[cfg(feature = "guard")]
mod token_digest;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
    ECDSA_P384_SHA384_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use ring::{digest, hmac};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

#[cfg(feature = "guard")]
pub(crate) use self::token_digest::TokenDigest;

/// A signature algorithm (RFC 7518, 3 and RFC 8037). All are asymmetric: a guard that also accepted HMAC could be deceived with its
/// own public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Algorithm {
    /// ECDSA with P-256 and SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// ECDSA with P-384 and SHA-384.
    #[serde(rename = "ES384")]
    Es384,
    /// RSA PKCS #1 v1.5 with SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// RSA PKCS #1 v1.5 with SHA-384.
    #[serde(rename = "RS384")]
    Rs384,
    /// RSA PKCS #1 v1.5 with SHA-512.
    #[serde(rename = "RS512")]
    Rs512,
    /// RSA PSS with SHA-256.
    #[serde(rename = "PS256")]
    Ps256,
    /// RSA PSS with SHA-384.
    #[serde(rename = "PS384")]
    Ps384,
    /// RSA PSS with SHA-512.
    #[serde(rename = "PS512")]
    Ps512,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl Algorithm {
    /// All algorithms, the preferred ones first.
    pub const ALL: [Self; 9] = [
        Self::Es256,
        Self::EdDsa,
        Self::Es384,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
    ];

    /// Returns the value of `alg`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Returns the algorithm with this value of `alg`, which is case-sensitive.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == name)
    }

    fn key_type(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Es256 => ("EC", Some("P-256")),
            Self::Es384 => ("EC", Some("P-384")),
            Self::EdDsa => ("OKP", Some("Ed25519")),
            _ => ("RSA", None),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error for an invalid token or key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwsError {
    /// The text is not a JWS in compact form.
    #[error("not a signed token: {0}")]
    Malformed(&'static str),
    /// The algorithm is not supported, such as `none` and HMAC.
    #[error("signature algorithm {0:?} is not supported")]
    UnsupportedAlgorithm(String),
    /// The header names an extension that must be understood.
    #[error("the token has the header parameter `crit`, which is not supported")]
    Critical,
    /// The algorithm of the token does not fit the key.
    #[error("signature algorithm {algorithm} does not fit the key: {reason}")]
    KeyMismatch {
        /// The algorithm of the token.
        algorithm: Algorithm,
        /// The property of the key that differs.
        reason: &'static str,
    },
    /// The key is incomplete or invalid.
    #[error("invalid key: {0}")]
    InvalidKey(&'static str),
    /// The signature is wrong.
    #[error("the signature does not match")]
    Signature,
    /// The claims have another form than expected.
    #[error("the claims of the token are invalid")]
    Claims,
}

/// A signed token before its signature is checked.
#[derive(Clone)]
pub struct Jws<'a> {
    header: Map<String, Value>,
    algorithm: Algorithm,
    payload: Zeroizing<Vec<u8>>,
    signed: &'a [u8],
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// Maximum length of a token, in bytes.
    pub const MAX_LENGTH: usize = 64 * 1024;

    /// Splits and decodes a token. Nothing in it can be trusted before [`verify`](Self::verify).
    ///
    /// # Errors
    /// When it does not have three parts in base64url without padding, its header is not a JSON object with unique members, its
    /// algorithm is not supported, its `kid` or `typ` is not a text, or it has `crit` or `b64: false`.
    pub fn parse(token: &'a str) -> Result<Self, JwsError> {
        if token.len() > Self::MAX_LENGTH {
            return Err(JwsError::Malformed("it is too long"));
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwsError::Malformed("it does not have three parts"))?;
        let (header, payload) = signed.split_once('.').ok_or(JwsError::Malformed("it does not have three parts"))?;
        if payload.contains('.') {
            return Err(JwsError::Malformed("it does not have three parts"));
        }
        let UniqueMembers(header) = serde_json::from_slice(&decode(header, "its header is not base64url")?)
            .map_err(|_| JwsError::Malformed("its header is not a JSON object with unique members"))?;
        let algorithm = match header.get("alg") {
            Some(Value::String(name)) => Algorithm::from_name(name)
                .ok_or_else(|| JwsError::UnsupportedAlgorithm(name.chars().take(32).collect()))?,
            _ => return Err(JwsError::Malformed("its header has no `alg`")),
        };
        if header.contains_key("crit") {
            return Err(JwsError::Critical);
        }
        // RFC 7797: the payload is not in base64url. Not for JWT, and invalid without `crit`.
        if header.get("b64").is_some_and(|value| *value != Value::Bool(true)) {
            return Err(JwsError::Malformed("it has an unencoded payload (`b64`), which is not supported"));
        }
        if ["kid", "typ"].iter().any(|name| header.get(*name).is_some_and(|value| !value.is_string())) {
            return Err(JwsError::Malformed("its `kid` or `typ` is not a text"));
        }
        Ok(Self {
            header,
            algorithm,
            payload: Zeroizing::new(decode(payload, "its payload is not base64url")?),
            signed: signed.as_bytes(),
            signature: decode(signature, "its signature is not base64url")?,
        })
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns a text of the header, such as `kid` or `typ`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.header.get(name)?.as_str()
    }

    /// Returns the key in the header, which only proofs of possession have.
    #[must_use]
    pub fn jwk(&self) -> Option<Jwk> {
        Jwk::deserialize(self.header.get("jwk")?).ok()
    }

    /// Checks the signature.
    ///
    /// # Errors
    /// When the algorithm does not fit the key, or the signature is wrong.
    pub fn verify(&self, key: &Jwk) -> Result<(), JwsError> {
        key.verify(self.algorithm, self.signed, &self.signature)
    }

    /// Decodes the claims.
    ///
    /// # Errors
    /// When they are not a JSON object with unique members, or have another form.
    pub fn claims<T: DeserializeOwned>(&self) -> Result<T, JwsError> {
        let UniqueMembers(claims) = serde_json::from_slice(&self.payload).map_err(|_| JwsError::Claims)?;
        serde_json::from_value(Value::Object(claims)).map_err(|_| JwsError::Claims)
    }
}

/// Does not show the token.
impl fmt::Debug for Jws<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jws").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// A JSON object in which no member appears twice.
struct UniqueMembers(Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct UniqueVisitor;

        impl<'de> Visitor<'de> for UniqueVisitor {
            type Value = UniqueMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<UniqueMembers, A::Error> {
                let mut object = Map::new();
                while let Some((name, value)) = members.next_entry::<String, Value>()? {
                    if object.insert(name, value).is_some() {
                        return Err(A::Error::custom("a member appears twice"));
                    }
                }
                Ok(UniqueMembers(object))
            }
        }

        deserializer.deserialize_map(UniqueVisitor)
    }
}

/// A public key.
///
/// Members that are not listed are ignored. `Debug` shows no key material.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Jwk {
    /// Type: `EC`, `OKP` or `RSA`.
    pub kty: String,
    /// Curve of `EC` and `OKP` keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crv: Option<String>,
    /// Coordinate of `EC` keys, or the key of `OKP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    /// Coordinate of `EC` keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
    /// Modulus of `RSA` keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<String>,
    /// Exponent of `RSA` keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub e: Option<String>,
    /// Key id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// The only algorithm that the key may be used with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// Use: `sig` or `enc`.
    #[serde(default, rename = "use", skip_serializing_if = "Option::is_none")]
    pub key_use: Option<String>,
    /// Operations: `verify` and others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_ops: Option<Vec<String>>,
    /// Private part. Never read; a public key must not have it.
    #[serde(default, rename = "d", skip_serializing)]
    private: PrivatePart,
}

/// Records only that a member is there.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct PrivatePart(bool);

impl<'de> Deserialize<'de> for PrivatePart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

/// A set of public keys.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct JwkSet {
    /// The keys. Those of unknown types are left out.
    pub keys: Vec<Jwk>,
}

impl JwkSet {
    /// Creates a set.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = Jwk>) -> Self {
        Self { keys: keys.into_iter().collect() }
    }
}

impl<'de> Deserialize<'de> for JwkSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct AnyKeys {
            keys: Vec<Value>,
        }
        let AnyKeys { keys } = AnyKeys::deserialize(deserializer)?;
        Ok(Self { keys: keys.iter().filter_map(|key| Jwk::deserialize(key).ok()).collect() })
    }
}

impl Jwk {
    /// Returns `true` if a private part came with the key.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.private.0
    }

    /// Returns `true` if the key can be used with an algorithm: its type, curve, `alg`, `use` and `key_ops` allow it.
    #[must_use]
    pub fn supports(&self, algorithm: Algorithm) -> bool {
        self.check_use(algorithm).is_ok()
    }

    fn check_use(&self, algorithm: Algorithm) -> Result<(), JwsError> {
        let (kty, crv) = algorithm.key_type();
        let mismatch = |reason| Err(JwsError::KeyMismatch { algorithm, reason });
        if self.kty != kty || (crv.is_some() && self.crv.as_deref() != crv) {
            return mismatch("it has another type");
        }
        if self.alg.as_ref().is_some_and(|own| own != algorithm.as_str()) {
            return mismatch("it is for another algorithm");
        }
        if self.key_use.as_ref().is_some_and(|own| own != "sig") {
            return mismatch("it is not for signatures");
        }
        if self.key_ops.as_ref().is_some_and(|operations| !operations.iter().any(|own| own == "verify")) {
            return mismatch("it is not for verification");
        }
        Ok(())
    }

    fn verify(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> Result<(), JwsError> {
        self.check_use(algorithm)?;
        let verified = match algorithm {
            Algorithm::Es256 => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.point(32)?).verify(signed, signature)
            }
            Algorithm::Es384 => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, self.point(48)?).verify(signed, signature)
            }
            Algorithm::EdDsa => {
                UnparsedPublicKey::new(&ED25519, member(self.x.as_ref(), "x")?).verify(signed, signature)
            }
            Algorithm::Rs256 => self.verify_rsa(&signature::RSA_PKCS1_2048_8192_SHA256, signed, signature)?,
            Algorithm::Rs384 => self.verify_rsa(&signature::RSA_PKCS1_2048_8192_SHA384, signed, signature)?,
            Algorithm::Rs512 => self.verify_rsa(&signature::RSA_PKCS1_2048_8192_SHA512, signed, signature)?,
            Algorithm::Ps256 => self.verify_rsa(&signature::RSA_PSS_2048_8192_SHA256, signed, signature)?,
            Algorithm::Ps384 => self.verify_rsa(&signature::RSA_PSS_2048_8192_SHA384, signed, signature)?,
            Algorithm::Ps512 => self.verify_rsa(&signature::RSA_PSS_2048_8192_SHA512, signed, signature)?,
        };
        verified.map_err(|_| JwsError::Signature)
    }

    fn verify_rsa(
        &self,
        parameters: &'static signature::RsaParameters,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<Result<(), ring::error::Unspecified>, JwsError> {
        let (n, e) = (member(self.n.as_ref(), "n")?, member(self.e.as_ref(), "e")?);
        // RFC 7518, 6.3.1: no leading zeros. Some issuers write one; it does not change the number.
        let n = &n[n.iter().take_while(|byte| **byte == 0).count()..];
        Ok(RsaPublicKeyComponents { n, e: &e[..] }.verify(parameters, signed, signature))
    }

    /// Returns the public key as an uncompressed point.
    fn point(&self, length: usize) -> Result<Vec<u8>, JwsError> {
        let (x, y) = (member(self.x.as_ref(), "x")?, member(self.y.as_ref(), "y")?);
        if x.len() != length || y.len() != length {
            return Err(JwsError::InvalidKey("a coordinate has the wrong length"));
        }
        Ok([&[4][..], &x, &y].concat())
    }

    /// Returns the thumbprint: SHA-256 of the required members, in base64url.
    ///
    /// # Errors
    /// When the type is unknown or a member is missing.
    pub fn thumbprint(&self) -> Result<String, JwsError> {
        let text = |member: &Option<String>| member.clone().ok_or(JwsError::InvalidKey("a member is missing"));
        let members = match &*self.kty {
            "EC" => {
                vec![("crv", text(&self.crv)?), ("kty", self.kty.clone()), ("x", text(&self.x)?), ("y", text(&self.y)?)]
            }
            "OKP" => vec![("crv", text(&self.crv)?), ("kty", self.kty.clone()), ("x", text(&self.x)?)],
            "RSA" => vec![("e", text(&self.e)?), ("kty", self.kty.clone()), ("n", text(&self.n)?)],
            _ => return Err(JwsError::InvalidKey("its type is unknown")),
        };
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("\"{name}\":{}", Value::from(&**value))).collect();
        Ok(encode(sha256(format!("{{{}}}", members.join(",")).as_bytes())))
    }
}

impl fmt::Debug for Jwk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwk")
            .field("kty", &self.kty)
            .field("kid", &self.kid)
            .field("alg", &self.alg)
            .finish_non_exhaustive()
    }
}

/// A private key that signs tokens.
pub struct SigningKey {
    pair: PrivateKey,
    algorithm: Algorithm,
    /// The key in PKCS #8, if it was created here.
    pkcs8: Option<Zeroizing<Vec<u8>>>,
    kid: Option<String>,
}

enum PrivateKey {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

/// Error for a private key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not a private key in PEM.
    #[error("not a private key in PEM (expected `-----BEGIN PRIVATE KEY-----`)")]
    Pem,
    /// The key is encrypted.
    #[error("the private key is encrypted; decrypt it with `openssl pkcs8 -in key.pem -out plain.pem`")]
    Encrypted,
    /// The key is in a form that is not supported.
    #[error(
        "the private key is in a form that is not supported; convert it with `openssl ec -in key.pem | openssl pkcs8 -topk8 -nocrypt -out pkcs8.pem`"
    )]
    Form,
    /// The key does not fit the algorithm.
    #[error("the private key does not fit the algorithm {0}")]
    Algorithm(Algorithm),
    /// Keys for this algorithm cannot be created.
    #[error("keys for {0} cannot be created here; create one with `openssl genpkey`")]
    Create(Algorithm),
}

impl SigningKey {
    /// Creates a key for [`Algorithm::Es256`], [`Algorithm::Es384`] or [`Algorithm::EdDsa`].
    ///
    /// # Errors
    /// For other algorithms.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    pub fn generate(algorithm: Algorithm) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let document = match algorithm {
            Algorithm::Es256 => EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random),
            Algorithm::Es384 => EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random),
            Algorithm::EdDsa => Ed25519KeyPair::generate_pkcs8(&random),
            other => return Err(KeyError::Create(other)),
        };
        let document = document.expect("the operating system provides random numbers");
        let mut key = Self::from_pkcs8(document.as_ref(), Some(algorithm))?;
        key.pkcs8 = Some(Zeroizing::new(document.as_ref().to_vec()));
        Ok(key)
    }

    /// Reads a key in PEM: PKCS #8, or PKCS #1 for RSA. Without an algorithm, the default of the key's type: ES256, ES384, EdDSA or
    /// RS256.
    ///
    /// # Errors
    /// When it is not a private key, or does not fit the algorithm.
    pub fn from_pem(pem: impl AsRef<[u8]>, algorithm: Option<Algorithm>) -> Result<Self, KeyError> {
        let pem = pem.as_ref();
        if find(pem, b"ENCRYPTED") {
            return Err(KeyError::Encrypted);
        }
        match PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::Pem)? {
            PrivateKeyDer::Pkcs8(key) => Self::from_pkcs8(key.secret_pkcs8_der(), algorithm),
            PrivateKeyDer::Pkcs1(key) => {
                let pair = RsaKeyPair::from_der(key.secret_pkcs1_der()).map_err(|_| KeyError::Form)?;
                Self::new(PrivateKey::Rsa(Box::new(pair)), algorithm.unwrap_or(Algorithm::Rs256))
            }
            _ => Err(KeyError::Form),
        }
    }

    /// Reads a key in PKCS #8.
    ///
    /// # Errors
    /// When it is not a private key, or does not fit the algorithm.
    pub fn from_pkcs8(der: &[u8], algorithm: Option<Algorithm>) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random) {
            return Self::new(PrivateKey::Ecdsa(pair), algorithm.unwrap_or(Algorithm::Es256))
                .and_then(|key| key.of_curve("P-256"));
        }
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, der, &random) {
            return Self::new(PrivateKey::Ecdsa(pair), algorithm.unwrap_or(Algorithm::Es384))
                .and_then(|key| key.of_curve("P-384"));
        }
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Self::new(PrivateKey::Ed25519(pair), algorithm.unwrap_or(Algorithm::EdDsa));
        }
        let pair = RsaKeyPair::from_pkcs8(der).map_err(|_| KeyError::Form)?;
        Self::new(PrivateKey::Rsa(Box::new(pair)), algorithm.unwrap_or(Algorithm::Rs256))
    }

    fn new(pair: PrivateKey, algorithm: Algorithm) -> Result<Self, KeyError> {
        let kty = match &pair {
            PrivateKey::Ecdsa(_) => "EC",
            PrivateKey::Ed25519(_) => "OKP",
            PrivateKey::Rsa(_) => "RSA",
        };
        if algorithm.key_type().0 != kty {
            return Err(KeyError::Algorithm(algorithm));
        }
        Ok(Self { pair, algorithm, pkcs8: None, kid: None })
    }

    fn of_curve(self, curve: &str) -> Result<Self, KeyError> {
        if self.algorithm.key_type().1 == Some(curve) { Ok(self) } else { Err(KeyError::Algorithm(self.algorithm)) }
    }

    /// Sets the key id, which signed tokens then have as `kid`. Default: none.
    #[must_use]
    pub fn key_id(mut self, kid: impl Into<String>) -> Self {
        self.kid = Some(kid.into());
        self
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the key in PKCS #8, if it was created by [`generate`](Self::generate).
    #[must_use]
    pub fn to_pkcs8(&self) -> Option<&[u8]> {
        self.pkcs8.as_ref().map(|key| &***key)
    }

    /// Returns the public key, with the key id and the algorithm.
    #[must_use]
    pub fn public_jwk(&self) -> Jwk {
        let mut jwk = Jwk {
            kid: self.kid.clone(),
            alg: Some(self.algorithm.as_str().to_owned()),
            key_use: Some("sig".to_owned()),
            ..self.bare_jwk()
        };
        jwk.private = PrivatePart(false);
        jwk
    }

    /// Returns the public key with its required members only, as proofs of possession have it.
    #[must_use]
    pub fn bare_jwk(&self) -> Jwk {
        let (kty, crv) = self.algorithm.key_type();
        let mut jwk = Jwk { kty: kty.to_owned(), crv: crv.map(str::to_owned), ..Jwk::default() };
        match &self.pair {
            PrivateKey::Ecdsa(pair) => {
                // An uncompressed point: 4, x, y.
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                (jwk.x, jwk.y) = (Some(encode(x)), Some(encode(y)));
            }
            PrivateKey::Ed25519(pair) => jwk.x = Some(encode(pair.public_key())),
            PrivateKey::Rsa(pair) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                (jwk.n, jwk.e) = (Some(encode(public.n)), Some(encode(public.e)));
            }
        }
        jwk
    }

    /// Signs claims. The header has `alg`, the key id as `kid`, and the given members, such as `typ`.
    ///
    /// # Panics
    /// If the claims cannot be written as JSON, or the operating system provides no random numbers.
    #[must_use]
    pub fn sign(&self, header: &[(&str, Value)], claims: &impl Serialize) -> String {
        let mut members = Map::new();
        members.insert("alg".to_owned(), self.algorithm.as_str().into());
        if let Some(kid) = &self.kid {
            members.insert("kid".to_owned(), kid.as_str().into());
        }
        members.extend(header.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let claims = serde_json::to_vec(claims).expect("claims are JSON");
        let mut token = format!("{}.{}", encode(Value::Object(members).to_string()), encode(claims));
        let signature = self.signature(token.as_bytes());
        token.push('.');
        token.push_str(&encode(signature));
        token
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            PrivateKey::Ecdsa(pair) => {
                pair.sign(&random, message).expect("the operating system provides random numbers").as_ref().to_vec()
            }
            PrivateKey::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            PrivateKey::Rsa(pair) => {
                let padding: &dyn signature::RsaEncoding = match self.algorithm {
                    Algorithm::Rs384 => &signature::RSA_PKCS1_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, message, &mut signature)
                    .expect("the operating system provides random numbers");
                signature
            }
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).field("kid", &self.kid).finish_non_exhaustive()
    }
}

/// Returns the SHA-256 of some bytes.
pub(crate) fn sha256(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes.as_ref()).as_ref());
    hash
}

/// A key for message authentication codes: HMAC with SHA-256.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "only some features use it")]
pub(crate) struct MacKey(hmac::Key);

#[allow(dead_code, reason = "only some features use it")]
impl MacKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        hmac::sign(&self.0, message).as_ref().to_vec()
    }

    /// Compares in constant time.
    pub(crate) fn is_valid(&self, message: &[u8], code: &[u8]) -> bool {
        hmac::verify(&self.0, message, code).is_ok()
    }
}

/// Encodes bytes in base64url without padding.
pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode(text: &str, problem: &'static str) -> Result<Vec<u8>, JwsError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| JwsError::Malformed(problem))
}

/// Decodes base64url without padding.
#[allow(dead_code, reason = "only some features use it")]
pub(crate) fn decode_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

fn member(member: Option<&String>, name: &'static str) -> Result<Vec<u8>, JwsError> {
    let text = member.ok_or(JwsError::InvalidKey(name))?;
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| JwsError::InvalidKey(name))
}

fn find(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests;
