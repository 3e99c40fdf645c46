//! `initialize`, `server/discover` and `logging/setLevel`.

use turms_core::{CallResult, ClientRecord, Payload};
use turms_proto::revision::initialize_of_discover;
use turms_proto::types::{
    DiscoverResult, EmptyResult, InitializeParams, ServerCapabilities, ServerTasksCapability, SetLevelParams,
    TASKS_EXTENSION,
};
use turms_proto::{ErrorObject, Object, RawJson};

use super::Router;
use crate::context::Context;
use crate::task;

impl Router {
    /// Handles `initialize`: records the client in its session, and calls the `on_session_start` callbacks.
    pub(super) async fn initialize(&self, params: Payload, context: &Context) -> CallResult {
        let params: InitializeParams = params.take()?;
        if let (Some(session), Some(handle)) = (context.session(), context.call().session()) {
            let client = self.0.handle.share_client(ClientRecord::new(params.client_info, params.capabilities));
            handle.set_client(client.clone());
            session.core().set_client(client);
            session.core().start(&self.0.settings, context).await?;
        }
        let mut discovered = self.discover();
        if self.0.handle.has_tasks() {
            // The tasks extension does not exist in revisions with a handshake; 2025-11-25 has its own tasks
            // capability.
            if let Some(extensions) = &mut discovered.capabilities.extensions {
                extensions.remove(TASKS_EXTENSION);
            }
            discovered.capabilities.extensions = discovered.capabilities.extensions.filter(|some| !some.is_empty());
            discovered.capabilities.tasks = Some(core_tasks(context));
        }
        Ok(Payload::new(initialize_of_discover(discovered, context.protocol_version())))
    }

    /// Handles `server/discover`. The result of `initialize` is derived from this one.
    pub(super) fn discover(&self) -> DiscoverResult {
        let settings = &self.0.settings;
        let versions: Vec<String> = self.protocol_versions().iter().map(ToString::to_string).collect();
        let mut result = DiscoverResult::new(versions, self.capabilities());
        result.instructions.clone_from(&settings.instructions);
        result.ttl_ms = Some(settings.lists.ttl_ms);
        result.cache_scope = Some(settings.lists.scope.clone());
        result.meta = Some(settings.lists.server_meta.clone());
        result
    }

    pub(super) fn capabilities(&self) -> ServerCapabilities {
        let mut capabilities = self.0.handle.catalog().capabilities();
        capabilities.experimental.clone_from(&self.0.settings.experimental);
        capabilities.extensions.clone_from(&self.0.settings.extensions);
        if self.0.handle.has_tasks() {
            capabilities = capabilities.with_extension(TASKS_EXTENSION, Object::new());
        }
        capabilities
    }
}

/// Returns the error for requests of a session that a callback has refused.
pub(crate) fn refused_session() -> ErrorObject {
    ErrorObject::invalid_request("the server has not accepted the session")
}

/// Returns the tasks capability of 2025-11-25.
fn core_tasks(context: &Context) -> ServerTasksCapability {
    // Only tool calls can become tasks. `tasks/list` needs a caller whose tasks can be told from those of others.
    let calls = RawJson::parse(r#"{"tools":{"call":{}}}"#).ok().and_then(|calls| calls.as_object());
    let mut tasks = ServerTasksCapability::new().cancel(Object::new());
    tasks.list = task::creator(context).map(|_| Object::new());
    tasks.requests(calls.unwrap_or_default())
}

/// Handles `logging/setLevel`.
pub(super) fn set_level(params: Payload, context: &Context) -> CallResult {
    let params: SetLevelParams = params.take()?;
    if let Some(session) = context.call().session() {
        session.set_log_level(params.level);
    }
    Ok(Payload::new(EmptyResult::new()))
}
