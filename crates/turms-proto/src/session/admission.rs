//! Admission of requests and their dialect (see "Lifecycle" of 2025-11-25 and "Versioning" of 2026-07-28).

use std::ops::Deref;

use bytestring::ByteString;

use super::Dialect;
use crate::json::{decode, find_members};
use crate::jsonrpc::{ErrorCode, ErrorObject, Request, RequestId};
use crate::method::Method as _;
use crate::revision::{Direction, method_info, version_for_initialize};
use crate::types::{Discover, Initialize, Listen, LoggingLevel, Meta, Ping, key};
use crate::{Ability, Object, ProtocolVersion, RawJson};

/// Admission rules of a server.
#[derive(Debug)]
pub(super) struct Admission {
    versions: Versions,
    /// Id of the `initialize` request that has no response yet.
    pending_initialize: Option<RequestId>,
}

/// A list of versions without an allocation, since every session has one.
#[derive(Debug)]
struct Versions {
    all: [ProtocolVersion; ProtocolVersion::ALL.len()],
    count: u8,
}

impl Versions {
    fn new(versions: &[ProtocolVersion]) -> Self {
        let mut all = ProtocolVersion::ALL;
        let mut count = 0;
        for version in versions.iter().take(all.len()) {
            all[usize::from(count)] = *version;
            count += 1;
        }
        Self { all, count }
    }
}

impl Deref for Versions {
    type Target = [ProtocolVersion];

    fn deref(&self) -> &[ProtocolVersion] {
        &self.all[..usize::from(self.count)]
    }
}

impl Admission {
    pub(super) fn new(versions: &[ProtocolVersion]) -> Self {
        Self { versions: Versions::new(versions), pending_initialize: None }
    }

    /// Decides whether a request is accepted, and in which dialect. Requests are independent: a request that names its
    /// revision needs no handshake, before or after one.
    pub(super) fn admit(
        &mut self,
        request: &Request,
        meta: Option<&RawJson>,
        agreed: Option<ProtocolVersion>,
    ) -> Result<Dialect, ErrorObject> {
        // Servers without stateless revisions ignore the version in `_meta`.
        if self.is_stateless()
            && let Some(claim) = meta.and_then(VersionClaim::in_meta)
        {
            return claim?.admit(request, &self.versions).map(Dialect::Stateless);
        }
        let newest = self.versions.iter().copied().filter(|version| version.has(Ability::Handshake)).max();
        let version = match (&*request.method, agreed) {
            // A second one starts a new session.
            (Initialize::NAME, _) => self.accept_initialize(request),
            // A server without a handshake only accepts requests that name their revision.
            _ if newest.is_none() => Err(missing_meta(key::PROTOCOL_VERSION)),
            (Ping::NAME, agreed) => Ok(agreed.or(newest).unwrap_or(ProtocolVersion::LATEST_WITH_HANDSHAKE)),
            (Discover::NAME | Listen::NAME, _) if self.is_stateless() => Err(missing_meta(key::PROTOCOL_VERSION)),
            (Discover::NAME | Listen::NAME, _) => Err(ErrorObject::method_not_found(&request.method)),
            (_, None) => Err(ErrorObject::invalid_request(format!(
                "{} before initialize: begin with initialize, or name the protocol version in params._meta",
                request.method
            ))),
            (_, Some(_)) if self.pending_initialize.is_some() => {
                Err(ErrorObject::invalid_request("wait for the response to initialize"))
            }
            (_, Some(version)) if is_foreign(request, version) => Err(ErrorObject::method_not_found(&request.method)),
            (_, Some(version)) => Ok(version),
        };
        version.map(Dialect::Handshake)
    }

    /// Marks a request as responded to. Returns `true` if it was the handshake.
    pub(super) fn handshake_answered(&mut self, id: &RequestId) -> bool {
        self.pending_initialize.take_if(|pending_initialize| pending_initialize == id).is_some()
    }

    fn is_stateless(&self) -> bool {
        self.versions.iter().any(|version| version.has(Ability::Stateless))
    }

    fn accept_initialize(&mut self, request: &Request) -> Result<ProtocolVersion, ErrorObject> {
        let params = request.params::<Initialize>()?;
        match version_for_initialize(&params.protocol_version, &self.versions) {
            Some(version) => {
                self.pending_initialize = Some(request.id.clone());
                Ok(version)
            }
            None => Err(unsupported_version(&params.protocol_version, &stateless(&self.versions))),
        }
    }
}

/// The protocol version and capabilities that a stateless request declares in `_meta`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionClaim {
    version: ByteString,
    meta: Object,
    /// The request declares at least one capability.
    declares: bool,
}

impl VersionClaim {
    /// Reads the claim of a request; `None` if it names no revision, so that it belongs to a handshake.
    ///
    /// # Errors
    /// If it names a revision but lacks other required metadata.
    #[must_use]
    pub fn of(request: &Request) -> Option<Result<Self, ErrorObject>> {
        let meta = request.params.as_ref()?.meta()?;
        Self::in_meta(&meta)
    }

    /// Reads the claim from the `_meta` of a request; see [`VersionClaim::of`].
    ///
    /// # Errors
    /// If it names a revision but lacks other required metadata.
    #[must_use]
    pub fn in_meta(meta: &RawJson) -> Option<Result<Self, ErrorObject>> {
        let members = [key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES, key::LOG_LEVEL];
        let [version, capabilities, level] = find_members(meta.as_str(), members);
        let (meta, version) = (meta.as_object()?, version?);
        let read = || {
            let version = meta.part(version);
            let version = match version.shared_text() {
                Some(version) => version,
                None => {
                    let decoded = version.decode::<String>();
                    decoded.map_err(|error| error.within(key::PROTOCOL_VERSION).within("_meta"))?.into()
                }
            };
            let Some(capabilities) = capabilities.filter(|capabilities| capabilities.starts_with('{')) else {
                return Err(missing_meta(key::CLIENT_CAPABILITIES));
            };
            let declares = !capabilities[1..].trim_ascii_start().starts_with('}');
            if let Some(level) = level {
                decode::<LoggingLevel>(level).map_err(|error| error.within(key::LOG_LEVEL).within("_meta"))?;
            }
            Ok((version, declares))
        };
        Some(read().map(|(version, declares)| Self { version, meta, declares }))
    }

    /// Returns the `_meta` of the request.
    #[must_use]
    pub fn meta(&self) -> Meta {
        Meta::declaring(self.meta.clone(), self.declares)
    }

    /// Returns the revision that the request names; it may be unknown.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Decides whether a server of these revisions accepts the request, and returns the revision of the request.
    ///
    /// # Errors
    /// If the server does not support the revision, or the revision does not have the method.
    pub fn admit(self, request: &Request, versions: &[ProtocolVersion]) -> Result<ProtocolVersion, ErrorObject> {
        let version = self.supported(versions)?;
        if is_foreign(request, version) {
            return Err(ErrorObject::method_not_found(&request.method));
        }
        Ok(version)
    }

    /// Returns the revision if the server supports it.
    ///
    /// # Errors
    /// If the server does not support it.
    pub fn supported(&self, versions: &[ProtocolVersion]) -> Result<ProtocolVersion, ErrorObject> {
        let known = self.version.parse().ok().filter(|version: &ProtocolVersion| version.has(Ability::Stateless));
        // List only revisions in which the same request can be retried, so that the client does not loop.
        known
            .filter(|version| versions.contains(version))
            .ok_or_else(|| unsupported_version(&self.version, &stateless(versions)))
    }
}

/// Creates the error for a request of an unsupported revision.
#[must_use]
pub fn unsupported_version(requested: &str, supported: &[ProtocolVersion]) -> ErrorObject {
    let supported: Vec<&str> = supported.iter().map(|version| version.as_str()).collect();
    let message = format!("protocol version {requested:?} is not supported here; supported: {}", supported.join(", "));
    let mut data = Object::new();
    data.insert_raw("supported", &RawJson::from(serde_json::Value::from(supported)));
    data.insert_raw("requested", &RawJson::string(requested));
    ErrorObject::new(ErrorCode::UNSUPPORTED_VERSION, message).data(data)
}

fn stateless(versions: &[ProtocolVersion]) -> Vec<ProtocolVersion> {
    versions.iter().copied().filter(|version| version.has(Ability::Stateless)).collect()
}

/// Admission on clients: only requests of a server after the handshake.
pub(super) fn admit_on_client(request: &Request, dialect: Option<Dialect>) -> Result<Dialect, ErrorObject> {
    let dialect = match dialect {
        Some(dialect) => dialect,
        None if &*request.method == Ping::NAME => Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE),
        None => {
            return Err(ErrorObject::invalid_request("a server must not send requests before the handshake"));
        }
    };
    let to_server = method_info(&request.method).is_some_and(|method| method.direction == Direction::ToServer);
    if !dialect.version().has(Ability::ServerRequests) || to_server || is_foreign(request, dialect.version()) {
        return Err(ErrorObject::method_not_found(&request.method));
    }
    Ok(dialect)
}

/// Returns `true` if the protocol defines the method, but not in this revision. Unknown methods may be custom ones.
fn is_foreign(request: &Request, version: ProtocolVersion) -> bool {
    method_info(&request.method).is_some_and(|method| !method.is_defined_in(version))
}

/// Creates the error for a request without required metadata.
#[must_use]
pub fn missing_meta(key: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("params._meta: missing field {key:?}"))
}
