//! Which requests are let in, and in which dialect (see "Lifecycle" of 2025-11-25 and "Versioning" of 2026-07-28).

use std::ops::Deref;

use bytestring::ByteString;

use super::Dialect;
use crate::json::{decode, find_members};
use crate::jsonrpc::{ErrorCode, ErrorObject, Request, RequestId};
use crate::method::Method as _;
use crate::revision::{Direction, method_info, version_for_initialize};
use crate::types::{Discover, Initialize, Listen, LoggingLevel, Meta, Ping, key};
use crate::{Ability, Object, ProtocolVersion, RawJson};

/// What a server lets in.
#[derive(Debug)]
pub(super) struct Admission {
    versions: Versions,
    /// The handshake that is being answered.
    pending_initialize: Option<RequestId>,
}

/// A few versions, with no memory of their own: every session has them.
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

    /// Decides whether a request is accepted, and in which dialect. Each is decided for itself: one that names its revision needs no
    /// handshake, before or after one.
    pub(super) fn admit(
        &mut self,
        request: &Request,
        meta: Option<&RawJson>,
        agreed: Option<ProtocolVersion>,
    ) -> Result<Dialect, ErrorObject> {
        // Older servers take no notice of what `_meta` says.
        if self.is_stateless()
            && let Some(claim) = meta.and_then(VersionClaim::in_meta)
        {
            return claim?.admit(request, &self.versions).map(Dialect::Stateless);
        }
        let newest = self.versions.iter().copied().filter(|version| version.has(Ability::Handshake)).max();
        let version = match (&*request.method, agreed) {
            // A second one begins the session anew.
            (Initialize::NAME, _) => self.accept_initialize(request),
            // A server without a handshake only takes requests that name their revision.
            _ if newest.is_none() => Err(missing_meta(key::PROTOCOL_VERSION)),
            (Ping::NAME, agreed) => Ok(agreed.or(newest).unwrap_or(ProtocolVersion::LATEST_WITH_HANDSHAKE)),
            (Discover::NAME | Listen::NAME, _) if self.is_stateless() => Err(missing_meta(key::PROTOCOL_VERSION)),
            (Discover::NAME | Listen::NAME, _) => Err(ErrorObject::method_not_found(&request.method)),
            (_, None) => Err(ErrorObject::invalid_request(format!(
                "{} before initialize: begin with initialize, or name the protocol version in params._meta",
                request.method
            ))),
            (_, Some(_)) if self.pending_initialize.is_some() => {
                Err(ErrorObject::invalid_request("wait for the answer to initialize"))
            }
            (_, Some(version)) if is_foreign(request, version) => Err(ErrorObject::method_not_found(&request.method)),
            (_, Some(version)) => Ok(version),
        };
        version.map(Dialect::Handshake)
    }

    /// Takes note that a request was answered; whether it was the handshake.
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

/// What a request says of itself in its `_meta`, in the revisions without a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionClaim {
    version: ByteString,
    meta: Object,
    /// Whether the client says that it can do anything.
    declares: bool,
}

impl VersionClaim {
    /// What the request says; `None` if it does not name its revision, so that it is of those with a handshake.
    ///
    /// # Errors
    /// When it names its revision but does not say what else it must.
    #[must_use]
    pub fn of(request: &Request) -> Option<Result<Self, ErrorObject>> {
        let meta = request.params.as_ref()?.meta()?;
        Self::in_meta(&meta)
    }

    /// As [`VersionClaim::of`], of a request that has this `_meta`.
    ///
    /// # Errors
    /// When it names its revision but does not say what else it must.
    #[must_use]
    pub fn in_meta(meta: &RawJson) -> Option<Result<Self, ErrorObject>> {
        let members = [key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES, key::LOG_LEVEL];
        let [version, capabilities, level] = find_members(meta.as_str(), members);
        let (meta, version) = (meta.as_object()?, version?);
        let read = || {
            let version = meta.part(version);
            let version = match version.text() {
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

    /// The `_meta` in which it stands.
    #[must_use]
    pub fn meta(&self) -> Meta {
        Meta::declaring(self.meta.clone(), self.declares)
    }

    /// The revision that it names, which need not exist.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether a server of these revisions lets the request in, and in which of them it is understood.
    ///
    /// # Errors
    /// When the revision is not one of the server's, or does not have the method.
    pub fn admit(self, request: &Request, versions: &[ProtocolVersion]) -> Result<ProtocolVersion, ErrorObject> {
        let version = self.supported(versions)?;
        if is_foreign(request, version) {
            return Err(ErrorObject::method_not_found(&request.method));
        }
        Ok(version)
    }

    /// The revision, if it is one of the server's.
    ///
    /// # Errors
    /// When it is not.
    pub fn supported(&self, versions: &[ProtocolVersion]) -> Result<ProtocolVersion, ErrorObject> {
        let known = self.version.parse().ok().filter(|version: &ProtocolVersion| version.has(Ability::Stateless));
        // Names only revisions in which the same request could be made again, lest the client go in circles.
        known
            .filter(|version| versions.contains(version))
            .ok_or_else(|| unsupported_version(&self.version, &stateless(versions)))
    }
}

/// The answer to a request of a revision that is not spoken here.
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

/// What a client lets in: requests of a server with which it has shaken hands.
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

/// Whether the method is one of the protocol's, but not of this revision. Methods nobody knows may be an application's own.
fn is_foreign(request: &Request, version: ProtocolVersion) -> bool {
    method_info(&request.method).is_some_and(|method| !method.is_defined_in(version))
}

/// The answer to a request that does not say what it must in its `_meta`.
#[must_use]
pub fn missing_meta(key: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("params._meta: missing field {key:?}"))
}
