//! Clients and users of the development server.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::jws::JwkSet;
use crate::secret::Secret;
use crate::server::claims::Claims;
use crate::server::clients::{ClientCredential, ClientOrigin, ServerClient};

/// A client that the development server knows from the beginning.
#[derive(Debug, Clone)]
#[must_use]
pub struct DevClient(pub(super) ServerClient);

impl DevClient {
    /// Creates a client without credentials, such as a command or a desktop application.
    pub fn public(id: impl Into<String>) -> Self {
        Self::new(id.into(), ClientCredential::Public)
    }

    /// Creates a client with a secret, which it may send in the header or in the form.
    pub fn with_secret(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self::new(id.into(), ClientCredential::Secret(secret.into(), None))
    }

    /// Creates a client that signs assertions with one of these keys (`private_key_jwt`).
    pub fn with_keys(id: impl Into<String>, keys: JwkSet) -> Self {
        Self::new(id.into(), ClientCredential::Keys(keys))
    }

    fn new(id: String, credential: ClientCredential) -> Self {
        Self(ServerClient {
            id,
            name: None,
            redirect_uris: Vec::new(),
            credential,
            grant_types: None,
            scopes: None,
            default_scopes: None,
            origin: ClientOrigin::Configured,
            ids_elsewhere: Vec::new(),
        })
    }

    /// Sets the name that people see. Default: the id.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// Adds a redirect URI. The port of a loopback host may differ in requests. Default: none.
    pub fn redirect_uri(mut self, uri: impl Into<String>) -> Self {
        self.0.redirect_uris.push(uri.into());
        self
    }

    /// Sets the grant types that the client may use. Default: all.
    pub fn grant_types<S: Into<String>>(mut self, types: impl IntoIterator<Item = S>) -> Self {
        self.0.grant_types = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the scopes that the client may ask for. Default: all.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.0.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the id that this client has at another authorization server, for ID-JAG. Default: the same id.
    pub fn id_at(mut self, issuer: impl Into<String>, id: impl Into<String>) -> Self {
        self.0.ids_elsewhere.push((issuer.into(), id.into()));
        self
    }
}

/// A user of the development server.
#[derive(Clone)]
#[must_use]
pub struct DevUser {
    pub(super) name: String,
    pub(super) password: Option<Secret>,
    pub(super) claims: Claims,
}

impl DevUser {
    /// Creates a user without a password. The name is the subject of tokens.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), password: None, claims: Claims::new() }
    }

    /// Sets the password for the login page. Default: none is asked for.
    pub fn password(mut self, password: impl Into<Secret>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a claim, which tokens and the user information have.
    ///
    /// # Panics
    /// If the value cannot be written as JSON.
    pub fn claim(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let value: Value = serde_json::to_value(value).expect("claims are JSON");
        self.claims.insert(name.into(), value);
        self
    }
}

impl<S: Into<String>> From<S> for DevUser {
    fn from(name: S) -> Self {
        Self::new(name)
    }
}

/// Does not show the password and the claims.
impl fmt::Debug for DevUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevUser").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let client = DevClient::public("app").0;
        let user = DevUser::new("ann");
        let code = [
            ("DevClient::name", when(client.name.is_none(), "the id")),
            ("DevClient::redirect_uri", when(client.redirect_uris.is_empty(), "none")),
            ("DevClient::grant_types", when(client.grant_types.is_none(), "all")),
            ("DevClient::scopes", when(client.scopes.is_none(), "all")),
            ("DevClient::id_at", when(client.ids_elsewhere.is_empty(), "the same id")),
            ("DevUser::password", when(user.password.is_none(), "none is asked for")),
        ];
        assert_documented(include_str!("client.rs"), &code);
    }
}
