//! The context of a call.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::Extensions;
use turms_proto::header::ParamHeaders;
use turms_proto::session::Dialect;
use turms_proto::types::{ClientCapabilities, Implementation, LoggingLevel, Meta, RequestMeta};
use turms_proto::{Object, ProtocolVersion, RequestId};

use crate::cancellation::CancellationToken;
use crate::peer::Peer;
use crate::principal::Principal;
use crate::service_error::ServiceError;
use crate::session::SessionHandle;

/// The context of a call or a notification: its revision, id and `_meta`, the peer that sent it, its session, and the values that the
/// transport and middleware attached ([`extension`](Self::extension)).
#[derive(Clone)]
pub struct CallContext {
    pub(crate) dialect: Dialect,
    pub(crate) id: Option<RequestId>,
    pub(crate) meta: Option<Meta>,
    pub(crate) peer: Peer,
    pub(crate) session: Option<Arc<SessionHandle>>,
    pub(crate) request: Option<Arc<dyn RequestInfo>>,
    pub(crate) extensions: Option<Arc<Extensions>>,
    pub(crate) cancellation: Option<CancellationToken>,
}

impl CallContext {
    /// Creates the context of a call in a dialect, from a peer.
    #[must_use]
    pub fn new(dialect: Dialect, peer: Peer) -> Self {
        Self { dialect, id: None, meta: None, peer, session: None, request: None, extensions: None, cancellation: None }
    }

    /// Creates the context of a call within this process: the newest revision, and no peer.
    #[must_use]
    pub fn in_process() -> Self {
        Self::new(Dialect::Stateless(ProtocolVersion::LATEST), Peer::disconnected())
    }

    /// Sets the id of the request.
    #[must_use]
    pub fn with_id(mut self, id: RequestId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the `_meta` of the request.
    #[must_use]
    pub fn with_meta(mut self, meta: Option<Meta>) -> Self {
        self.meta = meta;
        self
    }

    /// Sets the values that the transport or middleware attached to the request.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Arc<Extensions>) -> Self {
        self.extensions = Some(extensions);
        self
    }

    /// Sets the details that the transport has of the request.
    #[doc(hidden)]
    #[must_use]
    pub fn with_request_info(mut self, request: Arc<dyn RequestInfo>) -> Self {
        self.request = Some(request);
        self
    }

    /// Sets the token that the transport cancels, with the reason of the peer, before it drops the future of the call.
    #[must_use]
    pub fn with_cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = Some(token);
        self
    }

    /// Sets the peer.
    #[must_use]
    pub fn with_peer(mut self, peer: Peer) -> Self {
        self.peer = peer;
        self
    }

    /// Replaces the peer, for layers that observe what handlers send: every notification and every request to the client.
    #[must_use]
    pub fn map_peer(mut self, map: impl FnOnce(Peer) -> Peer) -> Self {
        self.peer = map(std::mem::replace(&mut self.peer, Peer::disconnected()));
        self
    }

    /// Sets the session.
    #[must_use]
    pub fn with_session(mut self, session: Arc<SessionHandle>) -> Self {
        self.session = Some(session);
        self
    }

    /// Removes the session, for a copy of the context that the session itself holds.
    #[must_use]
    pub fn without_session(mut self) -> Self {
        self.session = None;
        self
    }

    /// The session, in revisions with a handshake.
    #[must_use]
    pub fn session(&self) -> Option<&Arc<SessionHandle>> {
        self.session.as_ref()
    }

    /// The dialect of the request.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The revision of the request.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.dialect.version()
    }

    /// The id of the request, if it came over a transport.
    #[must_use]
    pub fn id(&self) -> Option<&RequestId> {
        self.id.as_ref()
    }

    /// The `_meta` of the request.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// The peer that sent the request.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The capabilities of the client: of this request in 2026-07-28, of the handshake before.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<Cow<'_, ClientCapabilities>> {
        match self.dialect {
            Dialect::Stateless(_) => self.request_meta()?.client_capabilities.map(Cow::Owned),
            _ => Some(Cow::Borrowed(&self.session.as_ref()?.client()?.capabilities)),
        }
    }

    /// The name and version of the client: of this request in 2026-07-28, of the handshake before. For logs.
    #[must_use]
    pub fn client_info(&self) -> Option<Cow<'_, Implementation>> {
        match self.dialect {
            Dialect::Stateless(_) => self.request_meta()?.client_info.map(Cow::Owned),
            _ => Some(Cow::Borrowed(&self.session.as_ref()?.client()?.info)),
        }
    }

    /// The lowest level of log messages that the client wants: of this request in 2026-07-28, of the session before. `None` if it wants
    /// no log messages.
    #[must_use]
    pub fn log_level(&self) -> Option<LoggingLevel> {
        match self.dialect {
            Dialect::Stateless(_) => self.request_meta()?.log_level,
            _ => Some(self.session.as_ref()?.log_level()),
        }
    }

    /// Returns `true` if the client wants log messages of this level.
    #[must_use]
    pub fn log_enabled(&self, level: LoggingLevel) -> bool {
        self.log_level().is_some_and(|wanted| level >= wanted)
    }

    fn request_meta(&self) -> Option<RequestMeta> {
        self.meta.as_ref()?.request().ok()
    }

    /// The authenticated caller.
    #[must_use]
    pub fn principal(&self) -> Option<&Principal> {
        self.extension()
    }

    /// Returns `true` if the call came over a network: the transport has attached [`Remote`].
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.extension::<Remote>().is_some()
    }

    /// The token that is cancelled if the peer cancels the call; `None` for transports that only drop its future.
    #[must_use]
    pub fn cancellation(&self) -> Option<&CancellationToken> {
        self.cancellation.as_ref()
    }

    /// A value that the transport, middleware of the HTTP application or a layer attached to the request.
    #[must_use]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        // First the values that layers attached to this call, then those of the transport, then those of middleware.
        if let Some(attached) = self.extensions.as_ref().and_then(|extensions| extensions.get()) {
            return Some(attached);
        }
        let request = self.request.as_ref()?;
        match request.get(TypeId::of::<T>()) {
            Some(value) => value.downcast_ref(),
            None => request.extensions()?.get(),
        }
    }

    /// Attaches a value; other calls do not see it.
    pub fn insert_extension<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        let extensions = self.extensions.get_or_insert_default();
        Arc::make_mut(extensions).insert(value);
    }

    /// The details that the transport has of the request.
    #[doc(hidden)]
    #[must_use]
    pub fn request_info(&self) -> Option<&dyn RequestInfo> {
        self.request.as_deref()
    }
}

/// Mark of calls that came over a network. HTTP and WebSocket attach it to their calls as an [extension](CallContext::extension).
///
/// It decides about callers without a principal: with this mark, they have no scopes; without it, as over stdio, scopes are not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a mark and nothing else")]
pub struct Remote;

/// The details that a transport has of a request. Handlers see them as [extensions](CallContext::extension), created on demand.
pub trait RequestInfo: Send + Sync + 'static {
    /// Returns the value of this type that the transport has, such as the headers of an HTTP request.
    fn get(&self, type_id: TypeId) -> Option<&dyn Any>;

    /// The values that middleware has attached to the request. For a type that the transport has as well, the value of the transport
    /// is used.
    fn extensions(&self) -> Option<&Extensions> {
        None
    }

    /// Compares the arguments of a tool with the headers that mirror them (`Mcp-Param-…`). Called by the router, which knows the
    /// schema of the tool and so which arguments are mirrored.
    ///
    /// # Errors
    /// -32020 if a header differs from its argument.
    fn check_arguments(&self, mirrored: &ParamHeaders, arguments: Option<&Object>) -> Result<(), ServiceError> {
        let _ = (mirrored, arguments);
        Ok(())
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut context = f.debug_struct("CallContext");
        context.field("dialect", &self.dialect).field("id", &self.id).finish_non_exhaustive()
    }
}
