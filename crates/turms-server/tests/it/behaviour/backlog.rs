//! Changes that do not fit into the queue of a session.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use turms_core::{BoxFuture, Payload, Peer, PeerError, PeerTransport, Request, Service as _, SessionHandle};
use turms_proto::Notification;
use turms_proto::session::{Dialect, RequestOptions};
use turms_testkit::eventually;

use super::*;

/// A client that accepts no notifications while it is blocked.
#[derive(Default)]
struct Slow {
    is_blocked: AtomicBool,
    failures: AtomicUsize,
    heard: Mutex<Vec<String>>,
}

impl Slow {
    fn take(&self, notification: &Notification) -> bool {
        let takes = !self.is_blocked.load(Ordering::SeqCst);
        if takes {
            self.heard.lock().unwrap().push(notification.method.to_string());
        }
        takes
    }
}

impl PeerTransport for Slow {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        let outcome = if self.take(&notification) { Ok(()) } else { Err(PeerError::Closed) };
        self.failures.fetch_add(usize::from(outcome.is_err()), Ordering::SeqCst);
        Box::pin(std::future::ready(outcome))
    }

    fn try_notify(&self, notification: Notification) -> bool {
        self.take(&notification)
    }

    fn request(
        &self,
        _: turms_proto::MethodName,
        _: Option<RawJson>,
        _: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        Box::pin(std::future::ready(Err(PeerError::Closed)))
    }
}

/// Opens a session of a client. It ends when the returned value is dropped.
async fn open(router: &Router, client: &Arc<Slow>) -> Arc<SessionHandle> {
    let peer = Peer::shared(client.clone());
    let session = SessionHandle::new(peer.clone());
    let dialect = Dialect::Handshake(ProtocolVersion::V2025_06_18);
    let cx = turms_core::CallContext::new(dialect, peer).with_session(session.clone());
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "slow", "version": "1" }
    });
    let request = Request::raw("initialize", Payload::json(RawJson::from(params)));
    router.call(request, cx).await.unwrap();
    session
}

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";

#[tokio::test]
async fn a_change_that_was_not_sent_is_sent_with_the_next_one() {
    let router = router();
    let client = Arc::new(Slow::default());
    let _session = open(&router, &client).await;
    client.is_blocked.store(true, Ordering::SeqCst);
    router.handle().notify_list_changed(turms_server::ListKind::Tools);
    eventually("the server has tried", async || client.failures.load(Ordering::SeqCst) > 0).await;
    client.is_blocked.store(false, Ordering::SeqCst);
    router.handle().notify_list_changed(turms_server::ListKind::Prompts);
    eventually("both changes are told", async || client.heard.lock().unwrap().len() == 2).await;
    router.handle().notify_list_changed(turms_server::ListKind::Tools);
    eventually("later ones are told as well", async || client.heard.lock().unwrap().len() == 3).await;
    assert_eq!(*client.heard.lock().unwrap(), [TOOLS, PROMPTS, TOOLS]);
}

#[tokio::test]
async fn a_change_outside_of_a_runtime_is_sent_with_the_next_one() {
    let router = router();
    let client = Arc::new(Slow::default());
    let _session = open(&router, &client).await;
    client.is_blocked.store(true, Ordering::SeqCst);
    let handle = router.handle().clone();
    std::thread::spawn(move || handle.notify_list_changed(turms_server::ListKind::Tools)).join().unwrap();
    client.is_blocked.store(false, Ordering::SeqCst);
    router.handle().notify_list_changed(turms_server::ListKind::Prompts);
    eventually("both changes are told", async || client.heard.lock().unwrap().len() == 2).await;
    assert_eq!(*client.heard.lock().unwrap(), [TOOLS, PROMPTS]);
}
