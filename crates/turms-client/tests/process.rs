//! Thousands of connections, opened and closed in every way, leave no task, no file descriptor and no process behind.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Handle};
use tokio::task::AbortHandle;
use turms_client::{
    Backoff, ChildCommand, Client, ClientBuilder, ConnectError, ConnectionEvent, ConnectionStatus, Event, VersionCache,
};
use turms_core::transport::{StreamConnector, memory};
use turms_proto::ProtocolVersion;
use turms_proto::types::SubscriptionFilter;
use turms_server::{Resource, Router, Server, Tool};
use turms_testkit::misbehaving_server::MisbehavingServer;
use turms_testkit::process::{alone_before_runtime, children, open_files};
use turms_testkit::{eventually, within};

const OLD: ProtocolVersion = ProtocolVersion::LATEST_WITH_HANDSHAKE;
const NEW: ProtocolVersion = ProtocolVersion::LATEST;
const MOMENT: Duration = Duration::from_millis(20);

/// The resources that this process uses.
#[derive(Debug)]
struct Having {
    tasks: usize,
    files: usize,
    /// Number of child processes, including exited ones that were not reaped.
    children: usize,
}

impl Having {
    fn now() -> Self {
        Self { tasks: Handle::current().metrics().num_alive_tasks(), files: open_files(), children: children() }
    }

    fn is_only_files(&self) -> bool {
        self.tasks == 0 && self.children == 0
    }
}

/// Runs an action many times and checks that no resource leaks. The first runs may allocate resources that stay, such
/// as the signal handler for child processes.
fn leaves_nothing<F: Future>(times: usize, act: impl FnMut(usize) -> F) {
    leaves_nothing_in(&mut Builder::new_current_thread(), times, act);
}

fn leaves_nothing_in<F: Future>(runtime: &mut Builder, times: usize, mut act: impl FnMut(usize) -> F) {
    let _alone = alone_before_runtime();
    runtime.enable_all().build().unwrap().block_on(async {
        for number in 0..2 {
            within("one round", act(number)).await;
        }
        eventually("nothing is left of the first", async || Having::now().is_only_files()).await;
        let before = Having::now();
        for number in 0..times {
            within("one round", act(number)).await;
        }
        eventually("all is as before", async || {
            let now = Having::now();
            now.is_only_files() && now.files <= before.files
        })
        .await;
    });
}

fn router() -> Router {
    Server::new("server", "1")
        .tool(Tool::builder("hello").handler_sync(|| "Hello!"))
        .resource(Resource::builder("config://app").handler_sync(|| "x"))
        .build()
        .unwrap()
}

fn builder() -> ClientBuilder {
    Client::builder("test", "1").version_cache(VersionCache::new())
}

fn supervised() -> ClientBuilder {
    builder().reconnect(Backoff::new().initial_delay(Duration::from_millis(1)))
}

/// A client of either era, with or without supervision.
fn some(number: usize) -> ClientBuilder {
    let builder = if number.is_multiple_of(3) { supervised() } else { builder() };
    builder.protocol_version([OLD, NEW][number % 2])
}

/// Uses a client and ends it, in a way that depends on the number.
async fn use_and_end(client: Client, number: usize) {
    let events = number.is_multiple_of(5).then(|| client.events());
    let changes = match number % 7 {
        0 => Some(client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap()),
        1 => Some(client.subscribe("config://app").await.unwrap()),
        _ => None,
    };
    assert_eq!(client.call_tool("hello", ()).await.unwrap().text(), "Hello!");
    match number % 4 {
        0 | 1 => client.close().await,
        2 => drop(client),
        _ => {
            let calling = tokio::spawn(client.call_tool("hello", ()).into_future());
            calling.abort();
            drop(client);
        }
    }
    drop((events, changes));
}

#[test]
fn a_thousand_connections_over_memory_leave_nothing() {
    let router = router();
    leaves_nothing(1000, |number| {
        let router = router.clone();
        async move {
            let (near, far) = memory();
            tokio::spawn(async move { router.serve(far.0, far.1).await });
            use_and_end(some(number).connect_stream(near.0, near.1).await.unwrap(), number).await;
        }
    });
}

#[test]
fn a_thousand_connections_over_sockets_leave_nothing() {
    let router = router();
    leaves_nothing(1000, |number| {
        let router = router.clone();
        async move {
            let (near, far) = UnixStream::pair().unwrap();
            let (far, (reader, writer)) = (far.into_split(), near.into_split());
            tokio::spawn(async move { router.serve(far.0, far.1).await });
            use_and_end(some(number).connect_stream(reader, writer).await.unwrap(), number).await;
        }
    });
}

#[test]
fn a_thousand_connections_within_the_process_leave_nothing() {
    let router = router();
    leaves_nothing(1000, |number| {
        let router = router.clone();
        async move { use_and_end(some(number).connect_service(router).await.unwrap(), number).await }
    });
}

#[test]
fn a_hundred_servers_that_are_closed_leave_nothing() {
    leaves_nothing(100, |number| async move {
        let odd = MisbehavingServer::new("polite", ["old", "new"][number % 2]);
        let client = supervised().connect_command(odd.command.clone()).await.unwrap();
        let echoed = client.call_tool("echo", json!({ "text": "hello" })).await.unwrap();
        assert_eq!(echoed.text(), "hello");
        client.close().await;
        odd.assert_gone();
    });
}

#[test]
fn a_hundred_servers_whose_clients_are_dropped_leave_nothing() {
    leaves_nothing(100, |number| async move {
        let mode = ["polite", "never_answers_calls", "closes_stdout", "leaves_child"][number % 4];
        let odd = MisbehavingServer::new(mode, "old").with_time_to_leave(MOMENT);
        let client = some(2 * number).connect_command(odd.command.clone()).await.unwrap();
        let _ = client.call_tool("odd", ()).timeout(MOMENT).await;
        drop(client);
        odd.all_gone().await;
    });
}

#[test]
fn a_hundred_connections_that_are_lost_and_made_again_leave_nothing() {
    leaves_nothing(10, |_| async {
        let modes = format!("{}polite", "exits_mid_call,".repeat(9));
        let odd = MisbehavingServer::new(&modes, "old");
        let client = supervised().connect_command(odd.command.clone()).await.unwrap();
        for _ in 0..9 {
            assert!(client.call_tool("odd", ()).await.unwrap_err().may_have_run());
        }
        assert_eq!(client.call_tool("odd", ()).await.unwrap().text(), "odd, but well");
        assert_eq!(odd.started().len(), 10);
        client.close().await;
        odd.assert_gone();
    });
}

#[test]
fn a_thousand_connections_that_are_lost_and_made_again_leave_nothing() {
    let router = router();
    leaves_nothing(10, |number| {
        let router = router.clone();
        async move {
            let (connector, kill) = mortal(&router);
            // The backoff would double after each loss, and this test is not about delays.
            let backoff = Backoff::new().initial_delay(Duration::ZERO);
            let builder = builder().reconnect(backoff);
            let client = builder.protocol_version([OLD, NEW][number % 2]).connect(connector).await.unwrap();
            let mut events = client.events();
            let _subscription = client.subscribe("config://app").await.unwrap();
            for _ in 0..100 {
                kill();
                let connected =
                    |event| matches!(event, Event::Connection(ConnectionEvent::Connected { .. })).then_some(());
                events.find(connected).await.unwrap();
                assert_eq!(client.status(), ConnectionStatus::Ready);
            }
            client.close().await;
        }
    });
}

/// A connector with a new server for every connection, and a function that ends the newest.
fn mortal(router: &Router) -> (StreamConnector, impl Fn() + Send + use<>) {
    let serving: Arc<Mutex<Option<AbortHandle>>> = Arc::default();
    let (router, newest) = (router.clone(), serving.clone());
    let connector = StreamConnector::from_fn("the server", move || {
        let ((near, far), router) = (memory(), router.clone());
        let task = tokio::spawn(async move { router.serve(far.0, far.1).await });
        *serving.lock().unwrap() = Some(task.abort_handle());
        std::future::ready(Ok(near))
    });
    (connector, move || newest.lock().unwrap().take().into_iter().for_each(|task| task.abort()))
}

#[test]
fn losses_at_any_moment_and_on_several_threads_leave_nothing() {
    async fn act(router: Router, number: usize) {
        let (connector, kill) = mortal(&router);
        let client = supervised().protocol_version([OLD, NEW][number % 2]).connect(connector).await.unwrap();
        let events = client.events();
        let calls: Vec<_> =
            (0..3).map(|_| client.call_tool("hello", ()).idempotent().into_future()).map(tokio::spawn).collect();
        for _ in 0..3 {
            kill();
            for _ in 0..fastrand::usize(..20) {
                tokio::task::yield_now().await;
            }
        }
        match number % 3 {
            0 => client.close().await,
            1 => drop(events),
            _ => calls.iter().for_each(|call| call.abort()),
        }
        drop(client);
        for call in calls {
            let _ = call.await;
        }
    }

    let router = router();
    leaves_nothing_in(Builder::new_multi_thread().worker_threads(4), 50, |number| {
        let acts: Vec<_> = (0..8).map(|offset| tokio::spawn(act(router.clone(), 8 * number + offset))).collect();
        async move {
            for act in acts {
                act.await.unwrap();
            }
        }
    });
}

#[test]
fn a_thousand_connects_that_fail_leave_nothing() {
    let old = Server::new("old", "1").protocol_versions([OLD]).build().unwrap();
    leaves_nothing(1000, |number| {
        let old = old.clone();
        async move {
            let (near, far) = memory();
            let builder = builder().probe_timeout(Duration::from_millis(1)).handshake_timeout(Duration::from_millis(1));
            let error = match number % 4 {
                // There is no server.
                0 => builder.connect_command(ChildCommand::new("/no/such/program")).await.unwrap_err(),
                // The server closes the connection.
                1 => {
                    drop(far);
                    builder.connect_stream(near.0, near.1).await.unwrap_err()
                }
                // The server sends nothing.
                2 => {
                    let error = builder.connect_stream(near.0, near.1).await.unwrap_err();
                    drop(far);
                    error
                }
                // The server supports only another revision.
                _ => {
                    tokio::spawn(async move { old.serve(far.0, far.1).await });
                    builder.protocol_version(NEW).connect_stream(near.0, near.1).await.unwrap_err()
                }
            };
            let expected = match number % 4 {
                0 => matches!(error, ConnectError::Unreachable { .. }),
                1 => matches!(error, ConnectError::Closed(_)),
                2 => error.is_timeout(),
                _ => matches!(error, ConnectError::Negotiation(_)),
            };
            assert!(expected, "{number}: {error:?}");
        }
    });
}

#[test]
fn servers_that_cannot_be_connected_to_leave_nothing() {
    leaves_nothing(50, |number| async move {
        let mode = ["exits_at_once", "mute", "leaves_child_at_once", "mute"][number % 4];
        let odd = MisbehavingServer::new(mode, "old").with_time_to_leave(MOMENT);
        let connecting = builder().probe_timeout(MOMENT).handshake_timeout(MOMENT).connect_command(odd.command.clone());
        if number % 4 == 3 {
            let connecting = tokio::spawn(connecting);
            eventually("it is started", async || !odd.started().is_empty()).await;
            connecting.abort();
            let _ = connecting.await;
        } else {
            connecting.await.unwrap_err();
            odd.assert_gone();
        }
    });
}
