//! A server of ours that a guard protects.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::AbortHandle;
use turms_http::{Listener, ServeHttp as _};
use turms_oauth::{Issuer, TokenGuard, TokenGuardBuilder};
use turms_server::{Principal, Router, Server, Tool};
use turms_testkit::CallCounters;
use turms_ws::ServeWs as _;

/// The scope that every request needs.
pub(super) const READ: &str = "notes:read";
/// The scope that the tool `write` needs.
pub(super) const WRITE: &str = "notes:write";

/// A guarded server on a port. It ends when this is dropped.
pub(super) struct GuardedServer {
    pub(super) address: SocketAddr,
    /// The calls of each tool.
    pub(super) counters: Arc<CallCounters>,
    serving: AbortHandle,
}

impl GuardedServer {
    /// Serves Streamable HTTP at `/mcp`.
    pub(super) async fn start(issuer: Issuer) -> Self {
        Self::with(issuer, |guard| guard).await
    }

    /// Serves Streamable HTTP at `/mcp`, with other settings of the guard.
    pub(super) async fn with(issuer: Issuer, settings: impl FnOnce(TokenGuardBuilder) -> TokenGuardBuilder) -> Self {
        Self::serve(issuer, settings, |listener, router, guard| {
            let service = router.into_http_service().unwrap().guard(guard);
            tokio::spawn(listener.serve(service)).abort_handle()
        })
        .await
    }

    /// Serves WebSocket at `/mcp`.
    pub(super) async fn over_websocket(issuer: Issuer) -> Self {
        Self::serve(
            issuer,
            |guard| guard,
            |listener, router, guard| {
                let service = router.into_ws_service().unwrap().guard(guard);
                tokio::spawn(listener.serve(service)).abort_handle()
            },
        )
        .await
    }

    /// Serves Streamable HTTP at `/mcp` of an axum application.
    pub(super) async fn in_application(issuer: Issuer) -> Self {
        Self::serve(
            issuer,
            |guard| guard,
            |listener, router, guard| {
                let service = router.into_http_service().unwrap().guard(guard.clone());
                let application = axum::Router::new()
                    .route("/", axum::routing::get(async || "the application"))
                    .route_service(&guard.metadata_path(), guard.documents())
                    .nest_service("/mcp", service);
                tokio::spawn(listener.serve_tower(application)).abort_handle()
            },
        )
        .await
    }

    async fn serve(
        issuer: Issuer,
        settings: impl FnOnce(TokenGuardBuilder) -> TokenGuardBuilder,
        serve: impl FnOnce(Listener, Router, TokenGuard) -> AbortHandle,
    ) -> Self {
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let guard = TokenGuard::builder(format!("http://{address}/mcp")).issuer(issuer).scopes([READ]);
        let counters = Arc::<CallCounters>::default();
        let serving = serve(listener, router(&counters), settings(guard).build().unwrap());
        Self { address, counters, serving }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

impl Drop for GuardedServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// The tools `read` and `write`, which tell who calls them.
fn router(counters: &Arc<CallCounters>) -> Router {
    let (reads, writes) = (counters.clone(), counters.clone());
    let read = Tool::builder("read").handler_sync(move |caller: Principal| {
        reads.add("read", 1);
        format!("read by {}", caller.subject())
    });
    let write = Tool::builder("write").scopes([WRITE]).handler_sync(move |caller: Principal| {
        writes.add("write", 1);
        format!("written by {}", caller.subject())
    });
    Server::new("notes", "1.0.0").tool(read).tool(write).build().unwrap()
}
