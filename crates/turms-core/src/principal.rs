//! The authenticated caller of a server.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use turms_proto::{ErrorCode, ErrorObject, Object, RawJson};

use crate::service_error::ServiceError;

/// The authenticated caller, set by a guard or by middleware that checks tokens. Clones share one value.
///
/// Middleware of an HTTP application sets it with `request.extensions_mut().insert(Principal::new(user))`. Handlers
/// extract it, and keep state of each user in a map in `State`, by its [`key`](Self::key). A call without a principal,
/// such as over stdio, then fails: extract `Option<Principal>` to accept it.
///
/// ```
/// # use turms_core as turms;
/// use turms::Principal;
///
/// let ann = Principal::new("ann").with_issuer("https://auth.example.com").with_scopes(["notes:read"]);
/// assert!(ann.require(["notes:read"]).is_ok());
/// let error = ann.require(["notes:read", "notes:write"]).unwrap_err();
/// assert_eq!(error.scopes(), ["notes:read", "notes:write"]);
/// ```
#[doc(alias = "user")]
#[doc(alias = "identity")]
#[doc(alias = "access_token")]
#[derive(Clone, PartialEq, Eq)]
pub struct Principal(Arc<PrincipalParts>);

#[derive(Clone, PartialEq, Eq)]
struct PrincipalParts {
    subject: String,
    issuer: Option<String>,
    /// The key, unless it is the subject.
    key: Option<String>,
    client_id: Option<String>,
    scopes: Vec<String>,
    expires_at: Option<SystemTime>,
    claims: Object,
}

impl Principal {
    /// Creates a principal with a subject, which is unique among the principals of its issuer, and without scopes.
    pub fn new(subject: impl Into<String>) -> Self {
        let subject = subject.into();
        let key = key_of(None, &subject);
        Self(Arc::new(PrincipalParts {
            subject,
            issuer: None,
            key,
            client_id: None,
            scopes: Vec::new(),
            expires_at: None,
            claims: Object::new(),
        }))
    }

    fn parts_mut(&mut self) -> &mut PrincipalParts {
        Arc::make_mut(&mut self.0)
    }

    /// Sets the scopes. Default: none.
    #[must_use]
    pub fn with_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.parts_mut().scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the issuer of the token. Default: none.
    #[must_use]
    pub fn with_issuer(mut self, issuer: impl Into<String>) -> Self {
        let parts = self.parts_mut();
        let issuer = issuer.into();
        parts.key = key_of(Some(&issuer), &parts.subject);
        parts.issuer = Some(issuer);
        self
    }

    /// Sets the id of the OAuth client that the token was issued to. Default: none.
    #[must_use]
    pub fn with_client_id(mut self, client_id: impl Into<String>) -> Self {
        self.parts_mut().client_id = Some(client_id.into());
        self
    }

    /// Sets the time at which the token expires. Default: none.
    #[must_use]
    pub fn with_expires_at(mut self, time: SystemTime) -> Self {
        self.parts_mut().expires_at = Some(time);
        self
    }

    /// Sets the claims of the token. Default: none.
    #[must_use]
    pub fn with_claims(mut self, claims: impl Into<Object>) -> Self {
        self.parts_mut().claims = claims.into();
        self
    }

    /// Returns the subject.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.0.subject
    }

    /// Returns the issuer of the token, if it is known.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.0.issuer.as_deref()
    }

    /// Returns the id of the OAuth client that the token was issued to, if it is known.
    #[must_use]
    pub fn client_id(&self) -> Option<&str> {
        self.0.client_id.as_deref()
    }

    /// Returns the scopes.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.0.scopes
    }

    /// Returns the time at which the token expires, if it is known.
    #[must_use]
    pub fn expires_at(&self) -> Option<SystemTime> {
        self.0.expires_at
    }

    /// Returns the claims of the token.
    #[must_use]
    pub fn claims(&self) -> &Object {
        &self.0.claims
    }

    /// Decodes a claim. `None` if the token does not have it, or if it is of another type.
    #[must_use]
    pub fn claim<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.0.claims.get_as(name)?.ok()
    }

    /// Returns `true` if the principal has this scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.0.scopes.iter().any(|own| own == scope)
    }

    /// Checks that the principal has all of these scopes.
    ///
    /// # Errors
    /// If a scope is missing. As the error of a call over HTTP, it becomes status 403 with a challenge that names the scopes.
    pub fn require<S: AsRef<str>>(&self, scopes: impl IntoIterator<Item = S>) -> Result<(), InsufficientScopeError> {
        let mut has_all = true;
        let scopes: Vec<S> = scopes.into_iter().inspect(|scope| has_all &= self.has_scope(scope.as_ref())).collect();
        if has_all { Ok(()) } else { Err(InsufficientScopeError::new(scopes.iter().map(AsRef::as_ref))) }
    }

    /// Returns the key of the principal, which sessions, tasks and request state are bound to: its issuer and its subject, or the
    /// subject alone if there is no issuer. No two principals of different issuers have the same key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.0.key.as_deref().unwrap_or(&self.0.subject)
    }
}

/// Returns the key, unless it is the subject: a JSON array of issuer and subject. A subject without an issuer that could be taken for
/// such an array is written as one, too.
fn key_of(issuer: Option<&str>, subject: &str) -> Option<String> {
    let is_array = issuer.is_some() || subject.starts_with('[');
    is_array.then(|| RawJson::encode(&(issuer, subject)).unwrap_or_default().as_str().to_owned())
}

impl From<&str> for Principal {
    fn from(subject: &str) -> Self {
        Self::new(subject)
    }
}

/// Shows the subject, the issuer and the scopes. Claims may contain personal data.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PrincipalParts { subject, issuer, scopes, .. } = &*self.0;
        let mut principal = f.debug_struct("Principal");
        principal.field("subject", subject).field("issuer", issuer).field("scopes", scopes).finish_non_exhaustive()
    }
}

/// Error for a caller without the scopes that an operation needs.
///
/// It converts into a [`ServiceError`] with the origin [`Forbidden`](crate::ErrorOrigin::Forbidden): -32600, with the scopes in the data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("insufficient scope: this operation needs {}", shown(.scopes))]
pub struct InsufficientScopeError {
    scopes: Vec<String>,
}

fn shown(scopes: &[String]) -> Cow<'_, str> {
    match scopes {
        [scope] => scope.into(),
        scopes => scopes.join(" ").into(),
    }
}

impl InsufficientScopeError {
    /// Creates the error of an operation that needs these scopes.
    pub fn new<S: Into<String>>(scopes: impl IntoIterator<Item = S>) -> Self {
        Self { scopes: scopes.into_iter().map(Into::into).collect() }
    }

    /// Returns all scopes that the operation needs, including those that the caller has.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Returns the error that an error object was created from, if it was.
    #[doc(hidden)]
    #[must_use]
    pub fn of_object(object: &ErrorObject) -> Option<Self> {
        let data = object.data.as_ref().filter(|_| object.code == ErrorCode::INVALID_REQUEST)?;
        if data.member("error")?.decode::<String>().ok()? != INSUFFICIENT_SCOPE {
            return None;
        }
        let scope: String = data.member("scope")?.decode().ok()?;
        Some(Self::new(scope.split(' ').filter(|scope| !scope.is_empty())))
    }
}

/// The error code of OAuth (RFC 6750, 3.1).
const INSUFFICIENT_SCOPE: &str = "insufficient_scope";

impl From<InsufficientScopeError> for ErrorObject {
    fn from(error: InsufficientScopeError) -> Self {
        let mut object = Self::invalid_request(error.to_string());
        let mut data = Object::new();
        // Strings can always be encoded.
        let _ = data.insert("error", INSUFFICIENT_SCOPE).and_then(|()| data.insert("scope", &error.scopes.join(" ")));
        object.data = Some(data.into());
        object
    }
}

impl From<InsufficientScopeError> for ServiceError {
    fn from(error: InsufficientScopeError) -> Self {
        Self::forbidden(error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::service_error::ErrorOrigin;

    #[test]
    fn scopes_are_compared_as_they_are_written() {
        let ann = Principal::new("ann").with_scopes(["notes:read", "admin"]);
        assert!(ann.has_scope("notes:read") && ann.require(["admin", "notes:read"]).is_ok());
        for scope in ["notes", "notes:", "notes:read:all", "notes:readwrite", "NOTES:READ", "notes:read admin", "", "*"]
        {
            assert!(!ann.has_scope(scope), "{scope:?}");
            assert!(ann.require(["admin", scope]).is_err(), "{scope:?}");
        }
    }

    #[test]
    fn no_two_principals_have_the_same_key() {
        let principals = [
            Principal::new("ann"),
            Principal::new("ann").with_issuer("https://a"),
            Principal::new("ann").with_issuer("https://b"),
            Principal::new("ann").with_issuer(""),
            Principal::new("\",\"ann").with_issuer("https://a"),
            Principal::new("[\"https://a\",\"ann\"]"),
            Principal::new("[null,\"ann\"]"),
            Principal::new("https://aann"),
        ];
        for (index, one) in principals.iter().enumerate() {
            for other in &principals[index + 1..] {
                assert_ne!(one.key(), other.key(), "{one:?} {other:?}");
            }
        }
        assert_eq!(principals[0].key(), "ann");
        // What a token allows is not a part of who has it.
        let later = Principal::new("ann").with_issuer("https://a").with_scopes(["x"]).with_client_id("c");
        assert_eq!(later.key(), principals[1].key());
        assert_ne!(later, principals[1]);
    }

    #[test]
    fn a_principal_has_the_parts_of_its_token_and_shows_no_claims() {
        let claims = Object::parse(r#"{"tenant":"secret-tenant","level":3}"#).unwrap();
        let expires_at = UNIX_EPOCH + Duration::from_secs(1000);
        let ann = Principal::new("ann")
            .with_issuer("https://a")
            .with_client_id("app")
            .with_scopes(["read", "write"])
            .with_expires_at(expires_at)
            .with_claims(claims.clone());
        assert_eq!((ann.subject(), ann.issuer(), ann.client_id()), ("ann", Some("https://a"), Some("app")));
        assert_eq!((ann.scopes(), ann.expires_at()), (&["read".to_owned(), "write".to_owned()][..], Some(expires_at)));
        assert_eq!(ann.claim::<String>("tenant").as_deref(), Some("secret-tenant"));
        assert_eq!(
            (ann.claim::<u8>("level"), ann.claim::<String>("level"), ann.claim::<u8>("no")),
            (Some(3), None, None)
        );
        assert_eq!(ann.claims(), &claims);
        let shown = format!("{ann:?}");
        assert!(shown.contains("ann") && shown.contains("https://a") && shown.contains("write"), "{shown}");
        assert!(!shown.contains("tenant"), "{shown}");
    }

    #[test]
    fn missing_scopes_are_an_error_that_names_all_that_are_needed() {
        let ann = Principal::new("ann").with_scopes(["a"]);
        assert_eq!(ann.require(["a"]), Ok(()));
        assert_eq!(ann.require(Vec::<String>::new()), Ok(()));
        let error = ann.require(["a", "b"]).unwrap_err();
        assert_eq!(error.to_string(), "insufficient scope: this operation needs a b");
        let object = ErrorObject::from(error.clone());
        assert_eq!(object.code.0, -32600);
        assert_eq!(object.data.as_ref().unwrap().as_str(), r#"{"error":"insufficient_scope","scope":"a b"}"#);
        assert_eq!(InsufficientScopeError::of_object(&object), Some(error.clone()));
        assert_eq!(InsufficientScopeError::of_object(&ErrorObject::invalid_request("a b")), None);
        let error = ServiceError::from(error);
        assert_eq!(
            (error.origin(), error.required_scopes()),
            (ErrorOrigin::Forbidden, &["a".to_owned(), "b".to_owned()][..])
        );
        assert_eq!(error.into_object(), object);
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let ann = Principal::new("ann");
        let code = [
            ("Principal::with_scopes", when(ann.0.scopes.is_empty(), "none")),
            ("Principal::with_issuer", when(ann.0.issuer.is_none(), "none")),
            ("Principal::with_client_id", when(ann.0.client_id.is_none(), "none")),
            ("Principal::with_expires_at", when(ann.0.expires_at.is_none(), "none")),
            ("Principal::with_claims", when(ann.0.claims.is_empty(), "none")),
        ];
        assert_documented(include_str!("principal.rs"), &code);
    }
}
