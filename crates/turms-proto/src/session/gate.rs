//! Which requests are let in, and in which dialect (see "Lifecycle" of 2025-11-25 and "Versioning" of 2026-07-28).

use super::Dialect;
use crate::jsonrpc::{ErrorCode, ErrorObject, Request, RequestId};
use crate::method::Method as _;
use crate::revision::{Direction, method_info, version_for_initialize};
use crate::types::{Discover, Initialize, Listen, Ping, key};
use crate::{Ability, Object, ProtocolVersion, RawJson};

/// What a server lets in.
#[derive(Debug)]
pub(super) struct Gate {
    versions: Vec<ProtocolVersion>,
    /// The handshake that is being answered.
    shaking: Option<RequestId>,
}

impl Gate {
    pub(super) fn new(versions: &[ProtocolVersion]) -> Self {
        Self { versions: versions.to_vec(), shaking: None }
    }

    /// Every request is judged for itself: one that says which revision it is of needs no handshake, before or after one.
    pub(super) fn admit(&mut self, request: &Request, agreed: Option<ProtocolVersion>) -> Result<Dialect, ErrorObject> {
        let meta = request.params.as_ref().and_then(|params| params.member("_meta"));
        match meta.as_ref().and_then(|meta| meta.member(key::PROTOCOL_VERSION)) {
            Some(version) if self.is_stateless() => {
                self.admit_stateless(request, meta.as_ref(), &version).map(Dialect::Stateless)
            }
            // Older servers take no notice of what `_meta` says.
            _ => self.admit_older(request, agreed).map(Dialect::Handshake),
        }
    }

    /// Takes note that a request was answered; whether it was the handshake.
    pub(super) fn handshake_answered(&mut self, id: &RequestId) -> bool {
        self.shaking.take_if(|shaking| shaking == id).is_some()
    }

    fn is_stateless(&self) -> bool {
        self.versions.iter().any(|version| version.has(Ability::Stateless))
    }

    fn admit_stateless(
        &self,
        request: &Request,
        meta: Option<&RawJson>,
        version: &RawJson,
    ) -> Result<ProtocolVersion, ErrorObject> {
        let named: String = version.decode().map_err(|error| error.within(key::PROTOCOL_VERSION).within("_meta"))?;
        let capabilities = meta.and_then(|meta| meta.member(key::CLIENT_CAPABILITIES));
        if !capabilities.is_some_and(|capabilities| capabilities.is_object()) {
            return Err(missing_meta(key::CLIENT_CAPABILITIES));
        }
        let known = named.parse().ok().filter(|version: &ProtocolVersion| version.has(Ability::Stateless));
        match known.filter(|version| self.versions.contains(version)) {
            None => Err(self.unsupported(&named, Ability::Stateless)),
            Some(version) if is_foreign(request, version) => Err(ErrorObject::method_not_found(&request.method)),
            Some(version) => Ok(version),
        }
    }

    fn admit_older(
        &mut self,
        request: &Request,
        agreed: Option<ProtocolVersion>,
    ) -> Result<ProtocolVersion, ErrorObject> {
        let newest = self.versions.iter().copied().filter(|version| version.has(Ability::Handshake)).max();
        match (&*request.method, agreed) {
            (Initialize::NAME, None) => self.shake_hands(request),
            (Initialize::NAME, Some(_)) => Err(ErrorObject::invalid_request("the connection is initialized already")),
            // A server that knows no handshake only takes requests that say all for themselves.
            _ if newest.is_none() => Err(missing_meta(key::PROTOCOL_VERSION)),
            (Ping::NAME, agreed) => Ok(agreed.or(newest).unwrap_or(ProtocolVersion::LATEST_WITH_HANDSHAKE)),
            (Discover::NAME | Listen::NAME, _) if self.is_stateless() => Err(missing_meta(key::PROTOCOL_VERSION)),
            (Discover::NAME | Listen::NAME, _) => Err(ErrorObject::method_not_found(&request.method)),
            (_, None) => Err(ErrorObject::invalid_request(format!(
                "{} before initialize: begin with initialize, or name the protocol version in params._meta",
                request.method
            ))),
            (_, Some(_)) if self.shaking.is_some() => {
                Err(ErrorObject::invalid_request("wait for the answer to initialize"))
            }
            (_, Some(version)) if is_foreign(request, version) => Err(ErrorObject::method_not_found(&request.method)),
            (_, Some(version)) => Ok(version),
        }
    }

    fn shake_hands(&mut self, request: &Request) -> Result<ProtocolVersion, ErrorObject> {
        let params = request.params::<Initialize>()?;
        match version_for_initialize(&params.protocol_version, &self.versions) {
            Some(version) => {
                self.shaking = Some(request.id.clone());
                Ok(version)
            }
            None => Err(self.unsupported(&params.protocol_version, Ability::Stateless)),
        }
    }

    /// Names only revisions in which the same request could be made again, lest the client go in circles.
    fn unsupported(&self, requested: &str, ability: Ability) -> ErrorObject {
        let supported: Vec<&str> =
            self.versions.iter().filter(|version| version.has(ability)).map(|version| version.as_str()).collect();
        let message =
            format!("protocol version {requested:?} is not supported here; supported: {}", supported.join(", "));
        let mut data = Object::new();
        data.insert_raw("supported", &RawJson::from(serde_json::Value::from(supported)));
        data.insert_raw("requested", &RawJson::string(requested));
        ErrorObject::new(ErrorCode::UNSUPPORTED_VERSION, message).data(data)
    }
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

fn missing_meta(key: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("params._meta: missing field {key:?}"))
}
