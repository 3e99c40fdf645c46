//! The context of requests and notifications of a server.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use turms_core::{CallContext, CancellationToken, Peer};
use turms_proto::method::NotificationMethod as _;
use turms_proto::types::{Implementation, Meta, ProgressNotification, key};
use turms_proto::{MethodName, Notification, Object, RawJson};

/// The context of a request of a server: which server sent it, its metadata and its cancellation.
#[derive(Clone)]
pub struct RequestContext {
    server: Arc<ServerIdentity>,
    meta: Option<Meta>,
    cancellation: CancellationToken,
    progress: Option<RequestProgress>,
}

impl RequestContext {
    /// Creates the context of an input request in a response, or of a notification.
    pub(crate) fn new(server: Arc<ServerIdentity>, meta: Option<Meta>, cancellation: CancellationToken) -> Self {
        Self { server, meta, cancellation, progress: None }
    }

    /// Creates the context of a request with its own id.
    pub(crate) fn of_call(server: Arc<ServerIdentity>, cx: &CallContext) -> Self {
        let token = cx.meta().and_then(|meta| Object::from(meta.clone()).get(key::PROGRESS_TOKEN));
        let progress = token.map(|token| RequestProgress { peer: cx.peer().clone(), token });
        let cancellation = cx.cancellation().cloned().unwrap_or_default();
        Self { server, meta: cx.meta().cloned(), cancellation, progress }
    }

    /// Returns the name of the server: that of its entry in a [`ClientGroup`](crate::ClientGroup), or else the name
    /// that the server reports. `"server"` if neither is known.
    #[must_use]
    pub fn server_name(&self) -> &str {
        let reported = || self.server.info().map(|info| info.name.as_str());
        self.server.name.as_deref().or_else(reported).unwrap_or("server")
    }

    /// Returns the name and version that the server reports. For display and logs.
    #[must_use]
    pub fn server_info(&self) -> Option<&Implementation> {
        self.server.info()
    }

    /// Returns the protocol metadata (`_meta`) of the request. Input requests of 2026-07-28 have none.
    #[must_use]
    pub fn meta(&self) -> Option<&Meta> {
        self.meta.as_ref()
    }

    /// Returns the token that is cancelled with the request. Its future is dropped as well.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Returns the reporter of progress, if the server asked for progress. Input requests of 2026-07-28 have none.
    #[must_use]
    pub fn progress(&self) -> Option<&RequestProgress> {
        self.progress.as_ref()
    }
}

impl fmt::Debug for RequestContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestContext").field("server_name", &self.server_name()).finish_non_exhaustive()
    }
}

/// Reports the progress of a request to the server that sent it.
#[derive(Clone)]
pub struct RequestProgress {
    peer: Peer,
    token: RawJson,
}

impl RequestProgress {
    /// Sends the progress so far, and the total if it is known. The progress must increase with every report. Nothing
    /// is sent if the connection is closed.
    pub async fn report(&self, progress: f64, total: impl Into<Option<f64>>) {
        let mut params = Object::new();
        params.insert_raw("progressToken", &self.token);
        // Numbers always serialize.
        let _ = params.insert("progress", &progress);
        if let Some(total) = total.into() {
            let _ = params.insert("total", &total);
        }
        let method = MethodName::from_static(ProgressNotification::NAME);
        let _ = self.peer.notify_raw(Notification::raw(method, Some(params.into()))).await;
    }
}

impl fmt::Debug for RequestProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestProgress").finish_non_exhaustive()
    }
}

/// The identity of a server at the time of a request.
#[derive(Debug, Default)]
pub(crate) struct ServerIdentity {
    name: Option<String>,
    info: Option<Implementation>,
}

impl ServerIdentity {
    fn info(&self) -> Option<&Implementation> {
        self.info.as_ref()
    }
}

/// The identity of the server that a client is currently connected to.
#[derive(Debug, Default)]
pub(crate) struct CurrentServer(Mutex<Arc<ServerIdentity>>);

impl CurrentServer {
    pub(crate) fn new(name: Option<String>) -> Self {
        Self(Mutex::new(Arc::new(ServerIdentity { name, info: None })))
    }

    pub(crate) fn set_info(&self, info: Option<Implementation>) {
        let mut current = self.0.lock();
        *current = Arc::new(ServerIdentity { name: current.name.clone(), info });
    }

    pub(crate) fn get(&self) -> Arc<ServerIdentity> {
        self.0.lock().clone()
    }
}
