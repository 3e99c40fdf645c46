//! Identity and authentication of clients at an authorization server.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde::Serialize;

use crate::clock::now;
use crate::error::OAuthError;
use crate::jws::SigningKey;
use crate::metadata::AuthorizationServerMetadata;
use crate::pkce::random_token;
use crate::secret::Secret;

/// Validity of a client assertion. RFC 7523 demands a short one.
const ASSERTION_LIFETIME: Duration = Duration::from_secs(120);

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The id of a client, and its authentication.
///
/// ```
/// use turms_oauth::ClientIdentity;
///
/// let client = ClientIdentity::with_secret("notes-agent", "s3cr3t");
/// assert_eq!(client.id(), "notes-agent");
/// assert!(!format!("{client:?}").contains("s3cr3t"));
/// ```
#[derive(Debug, Clone)]
pub struct ClientIdentity {
    id: String,
    authentication: ClientAuthentication,
}

/// Authentication of a client at the token endpoint.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ClientAuthentication {
    /// None: a public client, which sends its id only.
    None,
    /// A secret, sent in the way that the metadata of the authorization server lists.
    Secret(Secret),
    /// A secret in the header `Authorization` (`client_secret_basic`).
    SecretBasic(Secret),
    /// A secret in the body (`client_secret_post`).
    SecretPost(Secret),
    /// A signed assertion (`private_key_jwt`).
    PrivateKeyJwt(Arc<SigningKey>),
}

impl ClientIdentity {
    /// A client with this authentication.
    pub fn new(id: impl Into<String>, authentication: ClientAuthentication) -> Self {
        Self { id: id.into(), authentication }
    }

    /// A client without a secret. The id may be the URL of a client ID metadata document.
    pub fn public(id: impl Into<String>) -> Self {
        Self::new(id, ClientAuthentication::None)
    }

    /// A client with a secret, sent in the way that the metadata of the authorization server lists: `client_secret_basic`, else
    /// `client_secret_post`. It is not sent to a server that lists only `none`.
    pub fn with_secret(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self::new(id, ClientAuthentication::Secret(secret.into()))
    }

    /// A client with a key, which signs assertions (`private_key_jwt`).
    pub fn with_key(id: impl Into<String>, key: impl Into<Arc<SigningKey>>) -> Self {
        Self::new(id, ClientAuthentication::PrivateKeyJwt(key.into()))
    }

    /// A client with a `token_endpoint_auth_method` of a registration. Without a method, or with one that is not known, a secret is
    /// sent in the way that the metadata lists. With `none`, a secret is not used.
    pub fn with_method(id: impl Into<String>, secret: Option<Secret>, method: Option<&str>) -> Self {
        let authentication = match (secret.filter(|secret| !secret.is_empty()), method) {
            (None, _) | (_, Some("none")) => ClientAuthentication::None,
            (Some(secret), Some("client_secret_basic")) => ClientAuthentication::SecretBasic(secret),
            (Some(secret), Some("client_secret_post")) => ClientAuthentication::SecretPost(secret),
            (Some(secret), _) => ClientAuthentication::Secret(secret),
        };
        Self::new(id, authentication)
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the authentication.
    #[must_use]
    pub fn authentication(&self) -> &ClientAuthentication {
        &self.authentication
    }

    /// Returns the credentials for one request: form fields, or a header. Never both. An assertion can be used once.
    pub(crate) fn credentials(&self, metadata: &AuthorizationServerMetadata) -> Result<ClientCredentials, OAuthError> {
        let mut credentials = ClientCredentials::default();
        let authentication = match &self.authentication {
            ClientAuthentication::Secret(secret) => &chosen(secret, metadata),
            other => other,
        };
        match authentication {
            ClientAuthentication::SecretBasic(secret) => credentials.basic(&self.id, secret),
            ClientAuthentication::SecretPost(secret) => {
                credentials.form.push(("client_id", Secret::new(&self.id)));
                credentials.form.push(("client_secret", secret.clone()));
            }
            ClientAuthentication::PrivateKeyJwt(key) => {
                credentials.form.push(("client_id", Secret::new(&self.id)));
                credentials.form.push(("client_assertion_type", Secret::new(ASSERTION_TYPE)));
                credentials.form.push(("client_assertion", self.assertion(key, metadata)?));
            }
            ClientAuthentication::None | ClientAuthentication::Secret(_) => {
                credentials.form.push(("client_id", Secret::new(&self.id)));
            }
        }
        Ok(credentials)
    }

    /// Returns the method by which a secret is sent, if the metadata of the server decides it. Later requests are made without the
    /// metadata.
    #[cfg(feature = "client")]
    pub(crate) fn chosen_method(&self, metadata: &AuthorizationServerMetadata) -> Option<&'static str> {
        let ClientAuthentication::Secret(secret) = &self.authentication else { return None };
        Some(match chosen(secret, metadata) {
            ClientAuthentication::SecretPost(_) => "client_secret_post",
            ClientAuthentication::None => "none",
            _ => "client_secret_basic",
        })
    }

    /// Returns this client with the method that was chosen for its secret.
    #[cfg(feature = "client")]
    pub(crate) fn with_chosen_method(&self, method: Option<&str>) -> Self {
        match &self.authentication {
            ClientAuthentication::Secret(secret) if method.is_some() => {
                Self::with_method(&self.id, Some(secret.clone()), method)
            }
            _ => self.clone(),
        }
    }

    /// Signs an assertion (RFC 7523, 2.2).
    fn assertion(&self, key: &SigningKey, metadata: &AuthorizationServerMetadata) -> Result<Secret, OAuthError> {
        let algorithm = key.algorithm();
        let accepted = metadata.token_endpoint_auth_signing_alg_values_supported.as_ref();
        if !AuthorizationServerMetadata::lists(accepted, algorithm.as_str(), true) {
            let reason = format!("does not accept client assertions with {algorithm}");
            return Err(OAuthError::unsupported(&metadata.issuer, reason));
        }
        #[derive(Serialize)]
        struct Claims<'a> {
            iss: &'a str,
            sub: &'a str,
            aud: &'a str,
            jti: &'a str,
            iat: u64,
            exp: u64,
        }
        let (id, now) = (random_token(), seconds_since_epoch(now()));
        let claims = Claims {
            iss: &self.id,
            sub: &self.id,
            aud: &metadata.issuer,
            jti: id.expose(),
            iat: now,
            exp: now + ASSERTION_LIFETIME.as_secs(),
        };
        Ok(Secret::new(key.sign(&[("typ", "JWT".into())], &claims)))
    }
}

pub(crate) fn seconds_since_epoch(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Chooses the way to send a secret. Metadata without a list means `client_secret_basic` (RFC 8414).
fn chosen(secret: &Secret, metadata: &AuthorizationServerMetadata) -> ClientAuthentication {
    let methods = metadata.token_endpoint_auth_methods_supported.as_ref();
    let lists = |method, default| AuthorizationServerMetadata::lists(methods, method, default);
    if lists("client_secret_basic", true) {
        ClientAuthentication::SecretBasic(secret.clone())
    } else if lists("client_secret_post", false) {
        ClientAuthentication::SecretPost(secret.clone())
    } else if lists("none", false) {
        ClientAuthentication::None
    } else {
        ClientAuthentication::SecretBasic(secret.clone())
    }
}

/// Form fields and headers that authenticate one request.
#[derive(Default)]
pub(crate) struct ClientCredentials {
    pub(crate) form: Vec<(&'static str, Secret)>,
    pub(crate) headers: HeaderMap,
    /// The secret in the header, alone and as the header has it.
    pub(crate) header_secrets: Vec<Secret>,
}

impl ClientCredentials {
    /// Adds the header of `client_secret_basic`. Id and secret are form-encoded first (RFC 6749, 2.3.1).
    fn basic(&mut self, id: &str, secret: &Secret) {
        let encoded = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let pair = Secret::new(format!("{}:{}", encoded(id), encoded(secret.expose())));
        let encoded = Secret::new(STANDARD.encode(pair.expose()));
        let value = Secret::new(format!("Basic {}", encoded.expose()));
        let mut value = HeaderValue::from_str(value.expose()).expect("base64 is valid in a header");
        value.set_sensitive(true);
        self.headers.insert(AUTHORIZATION, value);
        self.header_secrets = vec![encoded, pair, secret.clone()];
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::jws::{Algorithm, Jws};

    fn metadata(methods: Option<&[&str]>) -> AuthorizationServerMetadata {
        AuthorizationServerMetadata {
            issuer: "https://auth.example.com".to_owned(),
            token_endpoint_auth_methods_supported: methods
                .map(|methods| methods.iter().map(|method| (*method).to_owned()).collect()),
            ..AuthorizationServerMetadata::default()
        }
    }

    /// Returns the decoded header and the fields of the form.
    fn sent(client: &ClientIdentity, metadata: &AuthorizationServerMetadata) -> (Option<String>, Vec<&'static str>) {
        let credentials = client.credentials(metadata).expect("credentials");
        let header = credentials.headers.get(AUTHORIZATION).map(|value| {
            assert!(value.is_sensitive());
            let value = value.to_str().expect("text").strip_prefix("Basic ").expect("Basic");
            String::from_utf8(STANDARD.decode(value).expect("base64")).expect("text")
        });
        (header, credentials.form.iter().map(|(name, _)| *name).collect())
    }

    #[test]
    fn a_secret_is_sent_later_as_the_metadata_listed_before() {
        let client = ClientIdentity::with_secret("agent", "pw");
        for methods in [&["client_secret_post"][..], &["none"], &["client_secret_basic"]] {
            let listed = metadata(Some(methods));
            let later = client.with_chosen_method(client.chosen_method(&listed));
            assert_eq!(sent(&later, &metadata(None)), sent(&client, &listed), "{methods:?}");
        }
        assert_eq!(ClientIdentity::public("agent").chosen_method(&metadata(None)), None);
    }

    #[test]
    fn a_secret_is_sent_in_the_way_that_the_metadata_lists() {
        let client = ClientIdentity::with_secret("agent", "pw");
        let basic = (Some("agent:pw".to_owned()), vec![]);
        let post = (None, vec!["client_id", "client_secret"]);
        let none = (None, vec!["client_id"]);
        assert_eq!(sent(&client, &metadata(None)), basic);
        assert_eq!(sent(&client, &metadata(Some(&["client_secret_post", "client_secret_basic"]))), basic);
        assert_eq!(sent(&client, &metadata(Some(&["none", "client_secret_post"]))), post);
        assert_eq!(sent(&client, &metadata(Some(&["none"]))), none);
        assert_eq!(sent(&client, &metadata(Some(&["tls_client_auth"]))), basic);
        assert_eq!(sent(&ClientIdentity::public("agent"), &metadata(None)), none);
    }

    #[test]
    fn the_method_of_a_registration_wins() {
        let client = |method| ClientIdentity::with_method("agent", Some(Secret::new("pw")), method);
        let all = metadata(Some(&["client_secret_basic", "client_secret_post", "none"]));
        assert_eq!(sent(&client(Some("none")), &all).1, ["client_id"]);
        assert_eq!(sent(&client(Some("client_secret_post")), &all).1, ["client_id", "client_secret"]);
        assert!(sent(&client(Some("client_secret_basic")), &metadata(Some(&["none"]))).0.is_some());
        assert!(sent(&client(None), &all).0.is_some());
        let without = ClientIdentity::with_method("agent", None, Some("client_secret_basic"));
        assert_eq!(sent(&without, &all), (None, vec!["client_id"]));
    }

    #[test]
    fn basic_credentials_are_form_encoded_and_plain_ones_stay_plain() {
        let header = |id: &str, secret: &str| sent(&ClientIdentity::with_secret(id, secret), &metadata(None)).0;
        assert_eq!(header("test-client_1.x", "s3cret*").as_deref(), Some("test-client_1.x:s3cret*"));
        assert_eq!(header("a:b", "p w%é").as_deref(), Some("a%3Ab:p+w%25%C3%A9"));
    }

    #[test]
    fn an_assertion_is_short_lived_unique_and_for_the_issuer() {
        let key = SigningKey::generate(Algorithm::Es256).unwrap();
        let public = key.public_jwk();
        let client = ClientIdentity::with_key("robot", key);
        let metadata = metadata(Some(&["private_key_jwt"]));
        let assertion = || {
            let credentials = client.credentials(&metadata).unwrap();
            assert!(credentials.headers.is_empty());
            let names: Vec<_> = credentials.form.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, ["client_id", "client_assertion_type", "client_assertion"]);
            credentials.form[2].1.clone()
        };
        let (one, other) = (assertion(), assertion());
        let jws = Jws::parse(one.expose()).unwrap();
        jws.verify(&public).unwrap();
        let claims: Value = jws.claims().unwrap();
        assert_eq!([&claims["iss"], &claims["sub"], &claims["aud"]], ["robot", "robot", "https://auth.example.com"]);
        let (iat, exp) = (claims["iat"].as_u64().unwrap(), claims["exp"].as_u64().unwrap());
        assert!(exp > iat && exp - iat <= 300);
        let next: Value = Jws::parse(other.expose()).unwrap().claims().unwrap();
        assert_ne!(claims["jti"], next["jti"]);
    }

    #[test]
    fn a_key_that_the_server_does_not_accept_is_an_error() {
        let client = ClientIdentity::with_key("robot", SigningKey::generate(Algorithm::Es256).unwrap());
        let mut metadata = metadata(None);
        metadata.token_endpoint_auth_signing_alg_values_supported = Some(vec!["RS256".to_owned()]);
        assert_eq!(
            client.credentials(&metadata).err().unwrap().to_string(),
            "authorization server https://auth.example.com does not accept client assertions with ES256"
        );
    }
}
