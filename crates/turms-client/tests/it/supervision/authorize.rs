//! Connectors whose authorizer takes its time, or has no credentials.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use turms_client::{CallErrorKind, ClientGroup, ClosedCause, ConnectError, ConnectionStatus};
use turms_core::transport::StreamConnector;
use turms_core::{BoxFuture, ConnectContext, Connector, OpenChannel};

use crate::supervision::scripted_server::*;

/// A connector that waits for a login, as HTTP connectors do.
#[derive(Clone)]
struct LoginConnector {
    inner: Arc<StreamConnector>,
    login: Duration,
    /// Error of all further connections.
    error: Arc<Mutex<Option<ConnectError>>>,
    is_background: Arc<AtomicBool>,
}

impl LoginConnector {
    fn new(scripted: &ScriptedServer, login: Duration) -> Self {
        let inner = Arc::new(scripted.connector());
        Self { inner, login, error: Arc::default(), is_background: Arc::default() }
    }

    fn fail(&self, transient: bool) {
        let source = Arc::new(std::io::Error::other("the login was cancelled"));
        *self.error.lock().unwrap() =
            Some(ConnectError::Unauthorized { server: "the scripted".to_owned(), source, transient });
    }
}

impl Connector for LoginConnector {
    fn connect(&self, cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        self.is_background.store(cx.is_background, Ordering::Relaxed);
        Box::pin(async move {
            cx.pauses.during(tokio::time::sleep(self.login)).await;
            let error = self.error.lock().unwrap().clone();
            match error {
                Some(error) => Err(error),
                None => self.inner.connect(cx).await,
            }
        })
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_connection_that_waits_for_a_login() {
    let scripted = ScriptedServer::well(NEW);
    let client = builder().start(LoginConnector::new(&scripted, 60 * SECOND)).unwrap();
    let begun = Instant::now();
    let calls: Vec<_> = (0..20).map(|_| spawn_call(&client, "look")).collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(begun.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn the_connect_timeout_does_not_include_a_login() {
    let scripted = ScriptedServer::well(NEW);
    scripted.refuse(1);
    let connector = LoginConnector::new(&scripted, 60 * SECOND);
    let client = reconnecting().connect_timeout(10 * SECOND).connect(connector).await.unwrap();
    assert_eq!(client.status(), ConnectionStatus::Ready);
    // Without a login, a silent server runs into the timeout.
    scripted.refuse(usize::MAX);
    let begun = Instant::now();
    let connector = LoginConnector::new(&scripted, Duration::ZERO);
    reconnecting().connect_timeout(10 * SECOND).connect(connector).await.unwrap_err();
    assert!(begun.elapsed() <= 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn the_connect_timeout_of_a_group_does_not_include_a_login() {
    let scripted = ScriptedServer::well(NEW);
    let connector = LoginConnector::new(&scripted, 90 * SECOND);
    let group = ClientGroup::builder(builder()).server("slow", connector).connect().await;
    assert!(group.failures().is_empty(), "{:?}", group.failures());
}

#[tokio::test(start_paused = true)]
async fn a_client_does_not_reconnect_after_a_final_error_of_authorization() {
    for transient in [false, true] {
        let scripted = ScriptedServer::well(OLD);
        let connector = LoginConnector::new(&scripted, Duration::ZERO);
        let client = reconnecting().connect(connector.clone()).await.unwrap();
        assert!(!connector.is_background.load(Ordering::Relaxed));
        let mut events = client.events();
        connector.fail(transient);
        scripted.kill();
        if transient {
            until(&mut events, "reconnecting 3").await;
            *connector.error.lock().unwrap() = None;
            until(&mut events, "connected 2").await;
        } else {
            until(&mut events, "lost").await;
            until(&mut events, "gave up").await;
            assert_eq!(client.status(), ConnectionStatus::Closed);
            let error = client.ping().await.unwrap_err();
            let CallErrorKind::Closed(ClosedCause::NotConnected(Some(cause))) = error.kind() else {
                panic!("{error:?}")
            };
            assert_eq!(cause.to_string(), "cannot connect to the scripted: not authorized");
            assert_eq!(cause.source().unwrap().to_string(), "the login was cancelled");
        }
        // No call waits for this connection, so it must not start a login of the user.
        assert!(connector.is_background.load(Ordering::Relaxed));
    }
}

#[tokio::test(start_paused = true)]
async fn connecting_ends_at_a_final_error_of_authorization() {
    let scripted = ScriptedServer::well(NEW);
    let connector = LoginConnector::new(&scripted, Duration::ZERO);
    connector.fail(false);
    let begun = Instant::now();
    let error = reconnecting().connect(connector).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unauthorized { .. }), "{error:?}");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
