use std::future::pending;
use std::task::Poll;

use turms_core::store::{EventStore, StoreError, StoredEvent};
use turms_core::{BoxFuture, CallContext, NotifyFuture, Request, ResponseFuture};
use turms_proto::{Message, Notification};

use super::*;

struct NoService;

impl Service for NoService {
    fn call(&self, _: Request, _: CallContext) -> ResponseFuture {
        Box::pin(pending())
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(pending())
    }
}

fn session_with(events: impl EventStore) -> Arc<HttpSession> {
    let service: Arc<dyn Service> = Arc::new(NoService);
    let options = Arc::new(SessionOptions::new().events(events));
    HttpSession::new("s".into(), &service, options, &[ProtocolVersion::V2025_11_25])
}

fn message(params: &str) -> Message {
    Message::Notification(Notification::raw("notifications/x", Some(RawJson::string(params))))
}

fn try_send(session: &HttpSession, params: &str) -> bool {
    session.send(&Route::Standalone, &message(params), None) == Poll::Ready(true)
}

/// A store that sends to the client of its session while it keeps an event, as the logs of a store may, and never at once.
#[derive(Default)]
struct LoggingStore {
    session: Arc<OnceLock<Weak<HttpSession>>>,
    appended: Arc<AtomicU64>,
}

impl EventStore for LoggingStore {
    fn append<'a>(&'a self, _: &'a str, _: u64, _: StoredEvent) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.appended.fetch_add(1, Ordering::Relaxed);
            let session = self.session.get().and_then(Weak::upgrade).expect("the session is open");
            try_send(&session, "logged");
            Ok(())
        })
    }

    fn after<'a>(
        &'a self,
        _: &'a str,
        _: u64,
        _: u64,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn remove_stream<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn remove_session<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn what_a_slow_store_logs_about_an_event_is_not_an_event() {
    let store = LoggingStore::default();
    let (cell, appended) = (store.session.clone(), store.appended.clone());
    let session = session_with(store);
    let _ = cell.set(Arc::downgrade(&session));
    assert!(try_send(&session, "sent"));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(appended.load(Ordering::Relaxed), 1);
}
