//! The values of a store: logins and client registrations, with the keys they are found by.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::jws::sha256;
use crate::secret::{Secret, exposed};

/// The key of a login: the server, and a profile for several logins to one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoginKey {
    /// URL of the MCP server, without user information, query and fragment.
    pub server: String,
    /// The profile. Empty for the only login of a server.
    pub profile: String,
}

impl LoginKey {
    /// Creates the key for a server. User information, query and fragment of the URL do not count.
    pub fn new(server: &Url, profile: impl Into<String>) -> Self {
        let mut server = server.clone();
        server.set_query(None);
        server.set_fragment(None);
        // Both fail only for URLs without a host, which have no user information.
        let _ = server.set_username("");
        let _ = server.set_password(None);
        Self { server: server.into(), profile: profile.into() }
    }

    /// Returns the name of this key for stores: 128 bits of SHA-256 in hexadecimal.
    #[must_use]
    pub fn id(&self) -> String {
        id("login", &self.server, &self.profile)
    }
}

/// Returns the name of the client registration of an issuer and a profile.
pub(super) fn client_id(issuer: &str, profile: &str) -> String {
    id("client", issuer, profile)
}

/// Returns 128 bits of SHA-256 in hexadecimal. Each part is preceded by its length, so that two lists of parts never have the same
/// bytes.
fn id(kind: &str, place: &str, profile: &str) -> String {
    let mut text = String::new();
    for part in [kind, place, profile] {
        text.push_str(&part.len().to_string());
        text.push(':');
        text.push_str(part);
    }
    let digest = sha256(text);
    digest[..16].iter().fold(String::new(), |id, byte| id + &format!("{byte:02x}"))
}

/// A login: tokens, and everything that is needed to refresh and to revoke them without discovery.
///
/// There is no `Serialize`, so that tokens are not written by accident; [`to_json`](Self::to_json) is for stores.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLogin {
    /// The access token.
    pub access_token: Secret,
    /// Its type as the issuer spells it: `Bearer` or `DPoP`.
    pub token_type: String,
    /// End of its lifetime. `None` if the issuer did not say.
    pub expires_at: Option<SystemTime>,
    /// The time at which it was issued.
    pub obtained_at: SystemTime,
    /// The refresh token.
    pub refresh_token: Option<Secret>,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// The requested scopes.
    pub requested_scopes: Vec<String>,
    /// The issuer.
    pub issuer: String,
    /// The `resource` parameter of all requests, exactly as it was sent. `None` if it was not.
    pub resource: Option<String>,
    /// The token endpoint.
    pub token_endpoint: String,
    /// The revocation endpoint.
    pub revocation_endpoint: Option<String>,
    /// The client that the tokens were issued to.
    pub client: StoredClient,
    /// The private key for DPoP proofs: PKCS#8 in base64url.
    pub dpop_key: Option<Secret>,
}

impl StoredLogin {
    /// Creates a login with an access token of the type `Bearer`.
    pub fn new(
        access_token: impl Into<Secret>,
        obtained_at: SystemTime,
        token_endpoint: impl Into<String>,
        client: StoredClient,
    ) -> Self {
        Self {
            access_token: access_token.into(),
            token_type: "Bearer".to_owned(),
            expires_at: None,
            obtained_at,
            refresh_token: None,
            scopes: Vec::new(),
            requested_scopes: Vec::new(),
            issuer: client.issuer.clone(),
            resource: None,
            token_endpoint: token_endpoint.into(),
            revocation_endpoint: None,
            client,
            dpop_key: None,
        }
    }

    /// Returns the login as JSON with all its secrets, for a store. Times are in whole milliseconds.
    #[must_use]
    pub fn to_json(&self) -> Secret {
        to_json(&LoginRef(self), self.secret_bytes())
    }

    fn secret_bytes(&self) -> usize {
        let secrets = [&self.refresh_token, &self.dpop_key, &self.client.client_secret].into_iter().flatten();
        secrets.chain([&self.access_token]).map(|secret| secret.expose().len()).sum()
    }

    /// Reads what [`to_json`](Self::to_json) has written.
    ///
    /// # Errors
    /// If the JSON is invalid or lacks a member. The error does not show its content.
    pub fn from_json(json: &str) -> Result<Self, InvalidRecordError> {
        from_json(json).map(|LoginValue(login)| login)
    }
}

/// A client registration at an issuer.
///
/// There is no `Serialize`, so that secrets are not written by accident; [`to_json`](Self::to_json) is for stores.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredClient {
    /// The issuer that knows the client.
    pub issuer: String,
    /// The client id.
    pub client_id: String,
    /// The client secret.
    pub client_secret: Option<Secret>,
    /// The `token_endpoint_auth_method`.
    pub method: Option<String>,
    /// The redirect URI that is registered.
    pub redirect_uri: Option<String>,
    /// The scopes that the registration named.
    pub scopes: Vec<String>,
    /// End of the lifetime of the secret.
    pub secret_expires_at: Option<SystemTime>,
    /// `true` if the client was registered dynamically.
    pub is_registered: bool,
}

impl StoredClient {
    /// Creates a client without secret.
    pub fn new(issuer: impl Into<String>, client_id: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            client_id: client_id.into(),
            client_secret: None,
            method: None,
            redirect_uri: None,
            scopes: Vec::new(),
            secret_expires_at: None,
            is_registered: false,
        }
    }

    /// Returns the registration as JSON with its secret, for a store. Times are in whole milliseconds.
    #[must_use]
    pub fn to_json(&self) -> Secret {
        to_json(&ClientRef(self), self.client_secret.as_ref().map_or(0, |secret| secret.expose().len()))
    }

    /// Reads what [`to_json`](Self::to_json) has written.
    ///
    /// # Errors
    /// If the JSON is invalid or lacks a member. The error does not show its content.
    pub fn from_json(json: &str) -> Result<Self, InvalidRecordError> {
        from_json(json).map(|ClientValue(client)| client)
    }
}

/// Error for JSON that is not a stored login or a stored client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a stored login or client: invalid JSON at line {line}, column {column}")]
pub struct InvalidRecordError {
    line: usize,
    column: usize,
}

/// A login with its key, as a file has it.
#[derive(Deserialize)]
pub(super) struct LoginDocument {
    pub(super) key: LoginKey,
    #[serde(with = "LoginFields")]
    pub(super) login: StoredLogin,
}

impl LoginDocument {
    pub(super) fn to_json(key: &LoginKey, login: &StoredLogin) -> Secret {
        #[derive(Serialize)]
        struct Document<'a> {
            key: &'a LoginKey,
            login: LoginRef<'a>,
        }
        to_json(&Document { key, login: LoginRef(login) }, login.secret_bytes())
    }

    pub(super) fn from_json(json: &str) -> Result<Self, InvalidRecordError> {
        from_json(json)
    }
}

/// Writes JSON into one buffer that does not grow: a growing one leaves copies of the secrets behind. `secrets` is their length.
fn to_json(value: &impl Serialize, secrets: usize) -> Secret {
    let mut json = Vec::with_capacity(4096 + 2 * secrets);
    serde_json::to_writer(&mut json, value).expect("strings, numbers and lists can be written");
    Secret::new(String::from_utf8(json).expect("JSON is UTF-8"))
}

fn from_json<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, InvalidRecordError> {
    serde_json::from_str(json).map_err(|error| InvalidRecordError { line: error.line(), column: error.column() })
}

#[derive(Serialize)]
struct LoginRef<'a>(#[serde(with = "LoginFields")] &'a StoredLogin);

#[derive(Deserialize)]
struct LoginValue(#[serde(with = "LoginFields")] StoredLogin);

#[derive(Serialize)]
struct ClientRef<'a>(#[serde(with = "ClientFields")] &'a StoredClient);

#[derive(Deserialize)]
struct ClientValue(#[serde(with = "ClientFields")] StoredClient);

#[derive(Serialize, Deserialize)]
#[serde(remote = "StoredLogin")]
struct LoginFields {
    #[serde(serialize_with = "exposed::serialize")]
    access_token: Secret,
    token_type: String,
    #[serde(default, with = "milliseconds::option")]
    expires_at: Option<SystemTime>,
    #[serde(with = "milliseconds")]
    obtained_at: SystemTime,
    #[serde(default, serialize_with = "exposed::option::serialize")]
    refresh_token: Option<Secret>,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    requested_scopes: Vec<String>,
    issuer: String,
    #[serde(default)]
    resource: Option<String>,
    token_endpoint: String,
    #[serde(default)]
    revocation_endpoint: Option<String>,
    #[serde(with = "ClientFields")]
    client: StoredClient,
    #[serde(default, serialize_with = "exposed::option::serialize")]
    dpop_key: Option<Secret>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "StoredClient")]
struct ClientFields {
    issuer: String,
    client_id: String,
    #[serde(default, serialize_with = "exposed::option::serialize")]
    client_secret: Option<Secret>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    redirect_uri: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default, with = "milliseconds::option")]
    secret_expires_at: Option<SystemTime>,
    #[serde(default)]
    is_registered: bool,
}

/// Times as milliseconds since 1970.
mod milliseconds {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    fn to_number(time: SystemTime) -> u64 {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn to_time<E: serde::de::Error>(number: u64) -> Result<SystemTime, E> {
        UNIX_EPOCH.checked_add(Duration::from_millis(number)).ok_or_else(|| E::custom("time out of range"))
    }

    pub(super) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(to_number(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        to_time(u64::deserialize(deserializer)?)
    }

    pub(super) mod option {
        use super::*;

        pub(in super::super) fn serialize<S: Serializer>(
            time: &Option<SystemTime>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            time.map(to_number).serialize(serializer)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<SystemTime>, D::Error> {
            Option::<u64>::deserialize(deserializer)?.map(to_time::<D::Error>).transpose().map_err(D::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_logins_or_clients_share_a_file() {
        let login = |server: &str, profile: &str| LoginKey::new(&server.parse().unwrap(), profile).id();
        let ids = [
            login("https://a.example/", ""),
            login("https://a.example/", "b:"),
            login("https://a.example/:b", ""),
            login("https://b.example/", ""),
            client_id("https://a.example/", ""),
            client_id("https://a.example/", "b:"),
            client_id("https://a.example/:b", ""),
            client_id("https://b.example/", ""),
        ];
        for (index, one) in ids.iter().enumerate() {
            assert!(!ids[index + 1..].contains(one), "{index}");
        }
    }
}
