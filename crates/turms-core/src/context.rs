use std::any::{Any, TypeId};
use std::sync::Arc;

use http::Extensions;
use turms_proto::session::Dialect;
use turms_proto::types::Meta;
use turms_proto::{ProtocolVersion, RequestId};

use crate::peer::Peer;

/// What surrounds a call: how it was asked, by whom, and how to reach them.
#[derive(Clone)]
pub struct CallContext {
    dialect: Dialect,
    id: Option<RequestId>,
    meta: Option<Meta>,
    peer: Peer,
    extensions: Option<Arc<Extensions>>,
    source: Option<Arc<dyn RequestInfo>>,
    session: Option<Arc<dyn Any + Send + Sync>>,
}

impl CallContext {
    /// Around a call in a dialect, from a peer.
    #[must_use]
    pub fn new(dialect: Dialect, peer: Peer) -> Self {
        Self { dialect, id: None, meta: None, peer, extensions: None, source: None, session: None }
    }

    /// Around a call within this process: the newest revision, and nobody to speak to.
    #[must_use]
    pub fn in_process() -> Self {
        Self::new(Dialect::Stateless(ProtocolVersion::LATEST), Peer::nobody())
    }

    /// With the request's id.
    #[must_use]
    pub fn with_id(mut self, id: RequestId) -> Self {
        self.id = Some(id);
        self
    }

    /// With the request's `_meta`.
    #[must_use]
    pub fn with_meta(mut self, meta: Option<Meta>) -> Self {
        self.meta = meta;
        self
    }

    /// With values that the transport or the application's own middleware put there.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Arc<Extensions>) -> Self {
        self.extensions = Some(extensions);
        self
    }

    /// With what the transport knows of the request.
    #[must_use]
    pub fn with_source(mut self, source: Arc<dyn RequestInfo>) -> Self {
        self.source = Some(source);
        self
    }

    /// With another peer to speak to.
    #[must_use]
    pub fn with_peer(mut self, peer: Peer) -> Self {
        self.peer = peer;
        self
    }

    /// With what the service remembers of the peer between its requests.
    #[must_use]
    pub fn with_session(mut self, session: Arc<dyn Any + Send + Sync>) -> Self {
        self.session = Some(session);
        self
    }

    /// What the service remembers of the peer between its requests.
    #[must_use]
    pub fn session<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.session.clone()?.downcast().ok()
    }

    /// How the call was asked.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The revision in which it was asked.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.dialect.version()
    }

    /// The request's id, if it came over a wire.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    /// The request's `_meta`.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// Who asked.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// A value that the transport or the application's own middleware put there.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        let put = self.extensions.as_ref().and_then(|extensions| extensions.get());
        put.or_else(|| self.source.as_ref()?.find(TypeId::of::<T>())?.downcast_ref())
    }

    /// Puts a value there; other calls do not see it.
    pub fn insert_extension<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        let extensions = self.extensions.get_or_insert_default();
        Arc::make_mut(extensions).insert(value);
    }
}

/// What a transport knows of a request. Calls see it as extensions, without each part of it having been put among them.
pub trait RequestInfo: Send + Sync + 'static {
    /// What it knows of this type.
    fn find(&self, kind: TypeId) -> Option<&dyn Any>;
}

/// An extension of requests whose `http::HeaderMap`, another extension, repeats parts of the body, as requests over HTTP
/// do since 2026-07-28. Services that know more of the body than the transport does compare the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadersRepeatBody;

impl HeadersRepeatBody {
    /// The mark.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Default for HeadersRepeatBody {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for CallContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut context = f.debug_struct("CallContext");
        context.field("dialect", &self.dialect).field("id", &self.id).finish_non_exhaustive()
    }
}
