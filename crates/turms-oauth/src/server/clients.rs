//! The clients of an authorization server: configured, registered dynamically, or described by a document.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use turms_core::__internal::random_bytes;

use super::documents::Documents;
use super::params::split_scopes;
use super::redirect::{check_redirect_uri, matches};
use super::refusal::Refusal;
use crate::fetch::Fetcher;
use crate::jws::{JwkSet, MacKey, encode};
use crate::metadata::ClientMetadata;
use crate::secret::Secret;

/// Maximum number of redirect URIs of a client.
const MAX_REDIRECT_URIS: usize = 10;

/// Maximum size of a dynamic registration, in bytes. The id of the client contains it.
const MAX_REGISTRATION_BYTES: usize = 2 * 1024;

/// Maximum length of a name of a client that people see, in characters.
const MAX_NAME_LENGTH: usize = 100;

/// The grants that clients may register.
const SELF_SERVICE_GRANTS: [&str; 3] = ["authorization_code", "refresh_token", DEVICE_CODE];

pub(crate) const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// A client as the authorization server knows it.
#[derive(Debug, Clone)]
pub(crate) struct ServerClient {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) redirect_uris: Vec<String>,
    pub(crate) credential: ClientCredential,
    /// Grant types. `None` allows all that fit.
    pub(crate) grant_types: Option<Vec<String>>,
    /// Scopes that the configuration allows. `None` allows all.
    pub(crate) scopes: Option<Vec<String>>,
    /// Scopes of a request that names none. A client chooses them itself, so they are not a limit.
    pub(crate) default_scopes: Option<Vec<String>>,
    pub(crate) origin: ClientOrigin,
    /// The id of the same client at other authorization servers.
    #[cfg_attr(not(feature = "dev"), expect(dead_code, reason = "only the development server issues assertions"))]
    pub(crate) ids_elsewhere: Vec<(String, String)>,
}

/// The source of a client's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientOrigin {
    Configured,
    Registered,
    Document,
}

/// The way in which a client authenticates.
#[derive(Clone)]
pub(crate) enum ClientCredential {
    Public,
    /// A secret, with the only method if there is one: `client_secret_basic` or `client_secret_post`.
    Secret(Secret, Option<String>),
    Keys(JwkSet),
    KeysAt(String),
}

impl fmt::Debug for ClientCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "Public",
            Self::Secret(..) => "Secret",
            Self::Keys(_) => "Keys",
            Self::KeysAt(_) => "KeysAt",
        })
    }
}

impl ServerClient {
    pub(crate) fn is_public(&self) -> bool {
        matches!(self.credential, ClientCredential::Public)
    }

    pub(crate) fn allows_grant(&self, grant_type: &str) -> bool {
        match &self.grant_types {
            Some(own) => own.iter().any(|own| own == grant_type),
            None if self.origin == ClientOrigin::Configured => true,
            None => SELF_SERVICE_GRANTS.contains(&grant_type),
        }
    }

    pub(crate) fn check_grant(&self, grant_type: &str) -> Result<(), Refusal> {
        if self.allows_grant(grant_type) {
            Ok(())
        } else {
            Err(Refusal::new("unauthorized_client", "the client may not use this grant type"))
        }
    }

    pub(crate) fn allows_redirect(&self, uri: &str) -> bool {
        self.redirect_uris.iter().any(|registered| matches(registered, uri))
    }

    /// Returns the name that people see.
    pub(crate) fn display_name(&self) -> &str {
        self.name.as_deref().filter(|name| !name.trim().is_empty()).unwrap_or(&self.id)
    }

    pub(crate) fn from_metadata(
        metadata: ClientMetadata,
        id: String,
        origin: ClientOrigin,
        credential: ClientCredential,
    ) -> Self {
        Self {
            id,
            name: metadata.client_name,
            redirect_uris: metadata.redirect_uris,
            credential,
            grant_types: (!metadata.grant_types.is_empty()).then_some(metadata.grant_types),
            scopes: None,
            default_scopes: metadata.scope.as_deref().map(split_scopes),
            origin,
            ids_elsewhere: Vec::new(),
        }
    }
}

/// All clients of an authorization server.
pub(crate) struct Clients {
    configured: HashMap<String, Arc<ServerClient>>,
    /// The key that signs the ids of registered clients. `None` disables registration.
    registration: Option<RwLock<MacKey>>,
    documents: Option<Documents>,
    schemes: Vec<String>,
}

impl Clients {
    pub(crate) fn new(
        configured: impl IntoIterator<Item = ServerClient>,
        registration: Option<[u8; 32]>,
        documents: Option<Fetcher>,
        schemes: Vec<String>,
    ) -> Self {
        Self {
            configured: configured.into_iter().map(|client| (client.id.clone(), Arc::new(client))).collect(),
            registration: registration.map(|key| RwLock::new(MacKey::new(&key))),
            documents: documents.map(Documents::new),
            schemes,
        }
    }

    pub(crate) fn can_register(&self) -> bool {
        self.registration.is_some()
    }

    pub(crate) fn accepts_documents(&self) -> bool {
        self.documents.is_some()
    }

    /// Returns a client. `None` if there is none with this id.
    ///
    /// # Errors
    /// When its document cannot be read.
    pub(crate) async fn find(&self, id: &str, now: u64) -> Result<Option<Arc<ServerClient>>, Refusal> {
        if let Some(client) = self.configured.get(id) {
            return Ok(Some(client.clone()));
        }
        if let Some(client) = self.registered(id) {
            return Ok(Some(Arc::new(client)));
        }
        match &self.documents {
            Some(documents) if id.starts_with("https://") || id.starts_with("http://") => {
                documents.client(id, &self.schemes, now).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns the keys of a client that has keys.
    pub(crate) async fn keys_of(&self, client: &ServerClient, now: u64) -> Result<Option<JwkSet>, Refusal> {
        match (&client.credential, &self.documents) {
            (ClientCredential::Keys(keys), _) => Ok(Some(keys.clone())),
            (ClientCredential::KeysAt(url), Some(documents)) => documents.keys(url, now).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Registers a client (RFC 7591) and returns the response. Nothing is stored: the id contains the registration and is signed, and
    /// a secret is derived from it.
    pub(crate) fn register(&self, body: &[u8], now: u64) -> Result<Value, Refusal> {
        let Some(key) = &self.registration else {
            return Err(Refusal::new("access_denied", "registration is disabled").status(StatusCode::FORBIDDEN));
        };
        let invalid = |reason: &str| Refusal::new("invalid_client_metadata", reason);
        let request: ClientMetadata =
            serde_json::from_slice(body).map_err(|_| invalid("the request is not valid JSON"))?;
        self.check_metadata(&request)?;
        let method = request.token_endpoint_auth_method.as_deref().unwrap_or("none").to_owned();
        let jwks = match &*method {
            "none" | "client_secret_basic" | "client_secret_post" => None,
            "private_key_jwt" => {
                let keys = request.jwks.as_ref().and_then(|keys| JwkSet::deserialize(keys).ok());
                Some(keys.ok_or_else(|| invalid("private_key_jwt needs jwks"))?)
            }
            _ => return Err(invalid("the token_endpoint_auth_method is not supported")),
        };
        let registration = Registration {
            name: request.client_name,
            redirects: request.redirect_uris,
            method,
            grants: request.grant_types,
            scope: request.scope,
            jwks,
            issued: now,
            unique: encode(random_bytes::<16>()),
        };
        let sealed = serde_json::to_vec(&registration).map_err(|_| invalid("the registration is invalid"))?;
        if sealed.len() > MAX_REGISTRATION_BYTES {
            return Err(invalid("the registration is too long"));
        }
        let key = key.read();
        let id = format!("{ID_PREFIX}{}.{}", encode(&sealed), encode(key.sign(&sealed)));
        let secret = registration.uses_secret().then(|| secret_of(&key, &id));
        drop(key);
        Ok(registration.response(&id, secret.as_ref()))
    }

    /// Makes the ids of all registered clients invalid.
    #[cfg(feature = "dev")]
    pub(crate) fn forget_registrations(&self) {
        if let Some(key) = &self.registration {
            *key.write() = MacKey::new(&random_bytes());
        }
    }

    fn registered(&self, id: &str) -> Option<ServerClient> {
        let (sealed, code) = id.strip_prefix(ID_PREFIX)?.split_once('.')?;
        let (sealed, code) = (URL_SAFE_NO_PAD.decode(sealed).ok()?, URL_SAFE_NO_PAD.decode(code).ok()?);
        let key = self.registration.as_ref()?.read();
        if !key.is_valid(&sealed, &code) {
            return None;
        }
        let registration: Registration = serde_json::from_slice(&sealed).ok()?;
        let credential = match &registration.jwks {
            Some(keys) => ClientCredential::Keys(keys.clone()),
            None if registration.uses_secret() => {
                ClientCredential::Secret(secret_of(&key, id), Some(registration.method.clone()))
            }
            None => ClientCredential::Public,
        };
        let metadata = ClientMetadata {
            client_name: registration.name,
            redirect_uris: registration.redirects,
            grant_types: registration.grants,
            scope: registration.scope,
            ..ClientMetadata::default()
        };
        Some(ServerClient::from_metadata(metadata, id.to_owned(), ClientOrigin::Registered, credential))
    }

    fn check_metadata(&self, metadata: &ClientMetadata) -> Result<(), Refusal> {
        check_metadata(metadata, &self.schemes)
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients").field("configured", &self.configured.len()).finish_non_exhaustive()
    }
}

/// Checks what registrations and documents have in common.
pub(crate) fn check_metadata(metadata: &ClientMetadata, schemes: &[String]) -> Result<(), Refusal> {
    let invalid = |reason: &str| Err(Refusal::new("invalid_client_metadata", reason));
    let uses_code =
        metadata.grant_types.is_empty() || metadata.grant_types.iter().any(|own| own == "authorization_code");
    if uses_code && metadata.redirect_uris.is_empty() {
        return Err(Refusal::new("invalid_redirect_uri", "there is no redirect URI"));
    }
    if metadata.redirect_uris.len() > MAX_REDIRECT_URIS {
        return Err(Refusal::new("invalid_redirect_uri", "there are too many redirect URIs"));
    }
    for uri in &metadata.redirect_uris {
        check_redirect_uri(uri, schemes).map_err(|reason| Refusal::new("invalid_redirect_uri", reason))?;
    }
    if metadata.grant_types.iter().any(|own| !SELF_SERVICE_GRANTS.contains(&own.as_str())) {
        return invalid("a grant type is not allowed for clients that register themselves");
    }
    if metadata.response_types.iter().any(|own| own != "code") {
        return invalid("a response type is not supported");
    }
    let name = metadata.client_name.as_deref().unwrap_or_default();
    if name.chars().count() > MAX_NAME_LENGTH || name.chars().any(is_confusing) {
        return invalid("the name is too long or has invalid characters");
    }
    if metadata.application_type.as_deref().is_some_and(|own| own != "native" && own != "web") {
        return invalid("the application_type is neither native nor web");
    }
    Ok(())
}

/// Returns `true` for control characters, and for those that change the direction of text or cannot be seen.
fn is_confusing(letter: char) -> bool {
    let is_invisible = matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}');
    letter.is_control() || is_invisible
}

const ID_PREFIX: &str = "registered.";

/// A dynamic registration, as the id of the client contains it.
#[derive(Serialize, Deserialize)]
struct Registration {
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    redirects: Vec<String>,
    #[serde(rename = "m")]
    method: String,
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    grants: Vec<String>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    jwks: Option<JwkSet>,
    #[serde(rename = "t")]
    issued: u64,
    /// Random, so that nobody else can register the same metadata and get the same id and secret.
    #[serde(rename = "u", default)]
    unique: String,
}

impl Registration {
    fn uses_secret(&self) -> bool {
        self.method.starts_with("client_secret_")
    }

    fn response(&self, id: &str, secret: Option<&Secret>) -> Value {
        let mut response = json!({
            "client_id": id,
            "client_id_issued_at": self.issued,
            "redirect_uris": self.redirects,
            "token_endpoint_auth_method": self.method,
            "response_types": ["code"],
        });
        if let Some(members) = response.as_object_mut() {
            let grants = match &*self.grants {
                [] => vec!["authorization_code".to_owned(), "refresh_token".to_owned()],
                grants => grants.to_vec(),
            };
            members.insert("grant_types".to_owned(), json!(grants));
            let mut insert =
                |name: &str, value: Option<Value>| value.map(|value| members.insert(name.to_owned(), value));
            insert("client_name", self.name.as_ref().map(|name| json!(name)));
            insert("scope", self.scope.as_ref().map(|scope| json!(scope)));
            insert("jwks", self.jwks.as_ref().map(|keys| json!(keys)));
            insert("client_secret", secret.map(|secret| json!(secret.expose())));
            insert("client_secret_expires_at", secret.map(|_| json!(0)));
        }
        response
    }
}

/// Derives the secret of a registered client.
fn secret_of(key: &MacKey, id: &str) -> Secret {
    Secret::new(encode(key.sign(format!("secret of {id}").as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients() -> Clients {
        Clients::new([], Some([7; 32]), None, Vec::new())
    }

    fn register(clients: &Clients, body: &Value) -> Result<Value, Refusal> {
        clients.register(body.to_string().as_bytes(), 1)
    }

    #[test]
    fn the_id_of_a_registered_client_cannot_be_changed() {
        let clients = clients();
        let response =
            register(&clients, &json!({"redirect_uris": ["https://app.example.com/cb"], "client_name": "App"}));
        let id = response.unwrap()["client_id"].as_str().unwrap().to_owned();
        let client = clients.registered(&id).unwrap();
        assert_eq!((client.name.as_deref(), client.is_public()), (Some("App"), true));
        let (sealed, code) = id.strip_prefix(ID_PREFIX).unwrap().split_once('.').unwrap();
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(sealed).unwrap()).unwrap();
        let forged = encode(text.replace("app.example.com", "evil.example.net"));
        assert!(clients.registered(&format!("{ID_PREFIX}{forged}.{code}")).is_none());
        assert!(clients.registered(&format!("{ID_PREFIX}{sealed}.")).is_none());
        assert!(Clients::new([], Some([8; 32]), None, Vec::new()).registered(&id).is_none(), "another key");
    }

    #[test]
    fn invalid_registrations_are_refused() {
        let clients = clients();
        let with = |member: &str, value: Value| {
            let mut body = json!({"redirect_uris": ["https://app.example.com/cb"]});
            body[member] = value;
            register(&clients, &body)
        };
        for (member, value, error) in [
            ("redirect_uris", json!([]), "invalid_redirect_uri"),
            ("redirect_uris", json!(["http://example.com/cb"]), "invalid_redirect_uri"),
            ("redirect_uris", json!(vec!["https://a.example/cb"; 11]), "invalid_redirect_uri"),
            ("grant_types", json!(["client_credentials"]), "invalid_client_metadata"),
            ("grant_types", json!(["authorization_code", "implicit"]), "invalid_client_metadata"),
            ("response_types", json!(["token"]), "invalid_client_metadata"),
            ("token_endpoint_auth_method", json!("client_secret_jwt"), "invalid_client_metadata"),
            ("token_endpoint_auth_method", json!("private_key_jwt"), "invalid_client_metadata"),
            ("application_type", json!("desktop"), "invalid_client_metadata"),
            ("client_name", json!("a\u{202e}b"), "invalid_client_metadata"),
            ("client_name", json!("a".repeat(101)), "invalid_client_metadata"),
            ("scope", json!("a".repeat(2048)), "invalid_client_metadata"),
            ("client_name", json!(5), "invalid_client_metadata"),
        ] {
            assert_eq!(with(member, value.clone()).unwrap_err().error, error, "{member} {value}");
        }
    }
}
