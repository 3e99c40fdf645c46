//! Pools, by where calls land: every server answers with its own name.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use turms_client::{
    Breaker, CallErrorKind, Change, Client, ClientBuilder, ConnectionEvent, Event, Events, HealthCheck, MemberId, Pool,
    Status, Strategy, Supervision,
};
use turms_core::transport::{StreamConnector, memory};
use turms_core::{
    CallFuture, ConnectError, Connection, ConnectionOptions, Context, NotifyFuture, Peer, Request, Service,
};
use turms_proto::types::{LoggingLevel, SubscriptionFilter};
use turms_proto::{ProtocolVersion, RawJson};
use turms_server::{Resource, Router, Server, Tool};

const SECOND: Duration = Duration::from_secs(1);
/// What has not happened by then will not happen.
const LIMIT: Duration = Duration::from_secs(60);
const URI: &str = "memo://notes";

/// A server that says who it is, and that can be looked at and disturbed.
struct Site {
    name: &'static str,
    router: Router,
    front: Front,
    /// The methods that it was asked.
    asked: mpsc::UnboundedReceiver<String>,
    /// Lets calls of "wait" go on.
    gate: Arc<Semaphore>,
    connections: Vec<JoinHandle<()>>,
}

/// Stands in front of a router: takes note of what is asked, and does not answer if it is told so.
#[derive(Clone)]
struct Front {
    service: Arc<dyn Service>,
    asked: mpsc::UnboundedSender<String>,
    silent: Arc<AtomicBool>,
}

impl Service for Front {
    fn call(&self, request: Request, cx: Context) -> CallFuture {
        let _ = self.asked.send(request.method.to_string());
        if self.silent.load(Ordering::SeqCst) {
            return CallFuture::later(std::future::pending());
        }
        self.service.call(request, cx)
    }

    fn notify(&self, method: ByteString, params: Option<RawJson>, cx: Context) -> NotifyFuture {
        let _ = self.asked.send(method.to_string());
        self.service.notify(method, params, cx)
    }

    fn for_connection(&self, peer: &Peer) -> Option<Arc<dyn Service>> {
        let service = self.service.for_connection(peer)?;
        Some(Arc::new(Self { service, ..self.clone() }))
    }
}

impl Site {
    fn new(name: &'static str) -> Self {
        Self::with(name, |server| server)
    }

    fn with(name: &'static str, more: impl FnOnce(Server) -> Server) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let passing = gate.clone();
        let server = Server::new(name, "1")
            .tool(Tool::builder("whoami").handler_sync(move || name))
            .tool(Tool::builder("wait").handler(move || {
                let passing = passing.clone();
                async move {
                    passing.acquire().await.unwrap().forget();
                    name
                }
            }))
            .resource(Resource::builder(URI).handler_sync(move || name));
        let router = more(server).build().unwrap();
        let (sender, asked) = mpsc::unbounded_channel();
        let front = Front { service: Arc::new(router.clone()), asked: sender, silent: Arc::default() };
        Self { name, router, front, asked, gate, connections: Vec::new() }
    }

    /// A client in this process.
    async fn local(&self) -> Client {
        app().connect_service(self.front.clone()).await.unwrap()
    }

    /// A client over a pair of pipes.
    async fn remote(&mut self) -> Client {
        self.remote_with(app()).await
    }

    async fn remote_with(&mut self, builder: ClientBuilder) -> Client {
        let (near, far) = memory();
        self.connections.push(serve(self.front.clone(), far));
        builder.connect_stream(near.0, near.1).await.unwrap()
    }

    /// Breaks all connections.
    async fn hang_up(&mut self) {
        for connection in self.connections.drain(..) {
            connection.abort();
            let _ = connection.await;
        }
    }

    /// Waits until all connections have ended.
    async fn deserted(&mut self) {
        for connection in self.connections.drain(..) {
            tokio::time::timeout(LIMIT, connection).await.expect("it ends in time").unwrap();
        }
    }

    /// Waits until something is asked.
    async fn asked(&mut self, method: &str) {
        let asked = async { while self.asked.recv().await.unwrap() != method {} };
        tokio::time::timeout(LIMIT, asked).await.unwrap_or_else(|_| panic!("{} is not asked {method}", self.name));
    }

    /// Takes no note of what was asked so far.
    fn overlook(&mut self) {
        while self.asked.try_recv().is_ok() {}
    }

    fn set_silent(&self, silent: bool) {
        self.front.silent.store(silent, Ordering::SeqCst);
    }
}

fn serve(front: Front, (reader, writer): turms_core::transport::MemoryEnd) -> JoinHandle<()> {
    tokio::spawn(async move {
        let options = ConnectionOptions::default();
        let (connection, handle) = Connection::server(reader, writer, &ProtocolVersion::ALL, options);
        let service = front.for_connection(&handle.peer()).unwrap();
        drop(handle);
        let _ = connection.run(service).await;
    })
}

fn app() -> ClientBuilder {
    Client::builder("app", "1")
}

async fn pool_of(strategy: Strategy, clients: impl IntoIterator<Item = Client>) -> Pool {
    Pool::builder().strategy(strategy).clients(clients).build().await.unwrap()
}

async fn whoami(client: &Client) -> String {
    client.call_tool("whoami", ()).await.unwrap().text()
}

/// Where so many calls land, one after the other.
async fn landings(pool: &Pool, calls: usize) -> Vec<String> {
    let client = pool.client();
    let mut names = Vec::new();
    for _ in 0..calls {
        names.push(whoami(&client).await);
    }
    names
}

fn wait_call(client: &Client) -> JoinHandle<Result<String, turms_client::CallError>> {
    let client = client.clone();
    tokio::spawn(async move { client.call_tool("wait", ()).await.map(|result| result.text()) })
}

async fn hear(events: &mut Events, wanted: impl Fn(&Event) -> bool) -> Event {
    let heard = events.find(|event| wanted(&event).then_some(event));
    tokio::time::timeout(LIMIT, heard).await.expect("it is told in time").expect("the stream goes on")
}

fn connected(event: &Event) -> bool {
    matches!(event, Event::Connection(ConnectionEvent::Connected { .. }))
}

/// What a server of a revision is asked when a resource is to be watched.
fn asks(version: ProtocolVersion) -> &'static str {
    if version == ProtocolVersion::LATEST { "subscriptions/listen" } else { "resources/subscribe" }
}

fn ids(pool: &Pool) -> Vec<MemberId> {
    pool.stats().members.iter().map(|member| member.id).collect()
}

#[tokio::test]
async fn round_robin_goes_round() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await, two.remote().await, one.local().await]).await;
    assert_eq!(landings(&pool, 7).await, ["one", "two", "one", "one", "two", "one", "one"]);
    let calls: Vec<_> = pool.stats().members.iter().map(|member| member.calls).collect();
    assert_eq!(calls, [3, 2, 2]);
}

#[tokio::test]
async fn random_reaches_everybody_and_in_no_order() {
    let (one, two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::Random, [one.local().await, two.local().await]).await;
    let names = landings(&pool, 400).await;
    let ones = names.iter().filter(|name| *name == "one").count();
    assert!((100..300).contains(&ones), "{ones}");
    let repeated = names.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!((100..300).contains(&repeated), "{repeated}");
}

#[tokio::test]
async fn the_least_busy_takes_the_next_call() {
    let (mut one, mut two, mut three) = (Site::new("one"), Site::new("two"), Site::new("three"));
    let clients = [one.remote().await, two.remote().await, three.remote().await];
    let pool = pool_of(Strategy::LeastBusy, clients).await;
    let client = pool.client();
    let slow = wait_call(&client);
    one.asked("tools/call").await;
    assert_eq!(landings(&pool, 4).await, ["three", "two", "three", "two"]);
    two.overlook();
    three.overlook();
    let other = wait_call(&client);
    let idle = tokio::select! {
        () = two.asked("tools/call") => three.name,
        () = three.asked("tools/call") => two.name,
    };
    let mut busy: Vec<_> = pool.stats().members.iter().map(|member| member.busy).collect();
    busy.sort_unstable();
    assert_eq!(busy, [0, 1, 1]);
    assert_eq!(landings(&pool, 3).await, [idle, idle, idle]);
    one.gate.add_permits(1);
    assert_eq!(slow.await.unwrap().unwrap(), "one");
    let names = landings(&pool, 4).await;
    assert_eq!(names.iter().filter(|name| *name == "one").count(), 2, "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == idle).count(), 2, "{names:?}");
    two.gate.add_permits(1);
    three.gate.add_permits(1);
    assert_ne!(other.await.unwrap().unwrap(), idle);
}

#[tokio::test]
async fn calls_that_begin_together_do_not_find_the_same_one_idle() {
    let (one, two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::LeastBusy, [one.local().await, two.local().await]).await;
    let mut batch = pool.client().batch();
    let slots: Vec<_> = (0..4).map(|_| batch.call_tool("wait", ())).collect();
    one.gate.add_permits(2);
    two.gate.add_permits(2);
    let mut outcomes = batch.send().await;
    let names: Vec<_> = slots.into_iter().map(|slot| outcomes.take(slot).unwrap().text()).collect();
    assert_eq!(names, ["one", "two", "one", "two"]);
}

#[tokio::test]
async fn a_lease_is_one_member_and_counts_as_busy() {
    let (mut one, two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::LeastBusy, [one.remote().await, two.local().await]).await;
    let lease = pool.checkout().unwrap();
    let first = whoami(&lease).await;
    assert_eq!((first.as_str(), whoami(&lease).await.as_str()), ("one", "one"));
    assert_eq!(lease.member(), ids(&pool)[0]);
    assert_eq!(landings(&pool, 3).await, ["two", "two", "two"]);
    assert_eq!(pool.stats().members[0].busy, 1);
    drop(lease);
    assert_eq!(pool.stats().members[0].busy, 0);
    assert!(landings(&pool, 2).await.contains(&"one".to_owned()));
}

#[tokio::test]
async fn work_with_one_member_counts_as_busy_until_it_is_done() {
    let (one, two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::LeastBusy, [one.local().await, two.local().await]).await;
    let outside = pool.clone();
    let names = pool.with(|client| async move {
        let within = (whoami(&client).await, whoami(&client).await);
        assert_eq!(within, ("one".to_owned(), "one".to_owned()));
        landings(&outside, 2).await
    });
    assert_eq!(names.await.unwrap(), ["two", "two"]);
    assert!(pool.stats().members.iter().all(|member| member.busy == 0));
}

#[tokio::test]
async fn members_come_and_go_and_calls_in_flight_finish() {
    let (mut one, two) = (Site::new("one"), Site::new("two"));
    let pool = Pool::builder().build().await.unwrap();
    assert!(pool.is_empty());
    assert!(pool.checkout().unwrap_err().is_none_available());
    let first = pool.add(one.remote().await);
    assert_eq!(landings(&pool, 2).await, ["one", "one"]);
    let second = pool.add(two.local().await);
    assert_ne!(first, second);
    assert_eq!(pool.len(), 2);
    one.overlook();
    let slow = wait_call(&pool.client());
    one.asked("tools/call").await;
    let removed = pool.remove(first).unwrap();
    assert!(pool.remove(first).is_none());
    assert_eq!(ids(&pool), [second]);
    assert_eq!(landings(&pool, 2).await, ["two", "two"]);
    assert_eq!(removed.status(), Status::Connected);
    drop(removed);
    one.gate.add_permits(1);
    assert_eq!(slow.await.unwrap().unwrap(), "one");
    one.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_answer_is_taken_out_and_brought_back() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = Pool::builder()
        .clients([one.remote().await, two.remote().await])
        .health_check(HealthCheck::every(10 * SECOND).timeout(SECOND).failures(2))
        .build()
        .await
        .unwrap();
    let mut events = pool.client().events();
    one.set_silent(true);
    let unhealthy = |wanted| move |event: &Event| matches!(event, Event::Unhealthy { failures } if *failures == wanted);
    hear(&mut events, unhealthy(1)).await;
    assert!(pool.stats().members[0].healthy, "once is not enough");
    hear(&mut events, unhealthy(2)).await;
    let stats = pool.stats();
    assert_eq!((stats.members[0].healthy, stats.members[0].status), (false, Status::Connected));
    assert!(stats.members[1].healthy);
    assert_eq!(landings(&pool, 3).await, ["two", "two", "two"]);
    one.set_silent(false);
    hear(&mut events, |event| matches!(event, Event::Healthy)).await;
    assert!(pool.stats().members[0].healthy);
    let mut names = landings(&pool, 2).await;
    names.sort_unstable();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_answer_is_better_than_none() {
    let mut one = Site::new("one");
    let check = HealthCheck::every(10 * SECOND).timeout(SECOND).failures(1);
    let pool = Pool::builder().client(one.remote().await).health_check(check).build().await.unwrap();
    let mut events = pool.client().events();
    one.set_silent(true);
    hear(&mut events, |event| matches!(event, Event::Unhealthy { .. })).await;
    one.set_silent(false);
    assert!(!pool.stats().members[0].healthy);
    assert_eq!(landings(&pool, 1).await, ["one"]);
    one.hang_up().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::Closed))).await;
    let error = pool.client().call_tool("whoami", ()).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::NoneAvailable) && error.is_disconnected(), "{error}");
    assert_eq!(error.to_string(), "tools/call \"whoami\": no connection of the pool is available");
    assert!(!error.may_have_run());
    assert_eq!(pool.client().status(), Status::Closed);
}

#[tokio::test]
async fn calls_go_elsewhere_when_a_connection_is_gone() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    one.hang_up().await;
    // Whether or not the pool has noticed by now.
    assert_eq!(landings(&pool, 4).await, ["two", "two", "two", "two"]);
    let mut events = pool.client().events();
    two.hang_up().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::Closed))).await;
    assert!(pool.client().ping().await.unwrap_err().is_disconnected());
    assert!(pool.checkout().unwrap_err().is_none_available());
}

#[tokio::test]
async fn what_may_have_run_is_repeated_only_if_that_is_safe() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let client = pool.client();
    let mut events = client.events();
    let (unsafe_call, other) = (wait_call(&client), wait_call(&client));
    one.asked("tools/call").await;
    two.asked("tools/call").await;
    let safe = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("wait", ()).safe_to_repeat(true).await.unwrap().text() }
    });
    one.asked("tools/call").await;
    one.hang_up().await;
    let error = unsafe_call.await.unwrap().unwrap_err();
    assert!(error.is_disconnected() && error.may_have_run(), "{error}");
    let retried = hear(&mut events, |event| matches!(event, Event::Retrying { .. })).await;
    assert!(matches!(retried, Event::Retrying { subject, attempt: 1 } if &*subject == "tools/call \"wait\""));
    two.gate.add_permits(2);
    assert_eq!(safe.await.unwrap(), "two");
    assert_eq!(other.await.unwrap().unwrap(), "two");
    let stats = pool.stats();
    assert_eq!((stats.moved, stats.members[0].failures, stats.members[1].failures), (1, 2, 0));
}

#[tokio::test]
async fn nobody_is_tried_twice() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let call = tokio::spawn({
        let client = pool.client();
        async move { client.call_tool("wait", ()).safe_to_repeat(true).await }
    });
    one.asked("tools/call").await;
    one.hang_up().await;
    two.asked("tools/call").await;
    two.hang_up().await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Lost(_)), "{error}");
    assert_eq!(pool.stats().members.iter().map(|member| member.calls).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_breaker_is_open_is_passed_over() {
    let (mut one, two) = (Site::new("one"), Site::new("two"));
    let breaker = Supervision::new().breaker(Breaker::new().failures(1).rest(3600 * SECOND)).without_retry();
    let broken = one.remote_with(app().supervise(breaker)).await;
    let pool = pool_of(Strategy::RoundRobin, [broken, two.local().await]).await;
    one.set_silent(true);
    assert!(pool.client().call_tool("whoami", ()).await.unwrap_err().is_timeout());
    assert_eq!(landings(&pool, 4).await, ["two", "two", "two", "two"]);
    assert!(pool.stats().moved >= 1);
}

#[tokio::test]
async fn a_method_that_one_revision_lacks_goes_to_a_member_that_has_it() {
    let (mut old, mut new) = (Site::new("old"), Site::new("new"));
    let pool = Pool::builder()
        .client(old.remote_with(app().only_version(ProtocolVersion::V2025_06_18)).await)
        .client(new.remote().await)
        .build()
        .await
        .unwrap();
    for _ in 0..3 {
        pool.client().ping().await.unwrap();
    }
}

/// Connects to a site anew each time it is asked to, or fails.
#[derive(Clone)]
struct Factory {
    front: Front,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
    /// How many attempts are to fail before one succeeds.
    failures: Arc<AtomicUsize>,
    attempts: Arc<AtomicUsize>,
}

impl Factory {
    fn new(site: &Site) -> Self {
        Self {
            front: site.front.clone(),
            connections: Arc::default(),
            failures: Arc::default(),
            attempts: Arc::default(),
        }
    }

    async fn connect(self) -> Result<Client, ConnectError> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        let fails = |left: usize| left.checked_sub(1);
        if self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok() {
            return Err(ConnectError::unreachable("the site", "no answer"));
        }
        let (near, far) = memory();
        self.connections.lock().unwrap().push(serve(self.front, far));
        app().connect_stream(near.0, near.1).await
    }

    /// Breaks the connections that there are.
    async fn hang_up(&self) {
        let connections = std::mem::take(&mut *self.connections.lock().unwrap());
        for connection in connections {
            connection.abort();
            let _ = connection.await;
        }
    }

    async fn deserted(&self) {
        let connections = std::mem::take(&mut *self.connections.lock().unwrap());
        for connection in connections {
            tokio::time::timeout(LIMIT, connection).await.expect("it ends in time").unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_makes_its_members_and_tries_again_what_failed() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    factory.failures.store(2, Ordering::SeqCst);
    let making = factory.clone();
    let pool = Pool::builder().size(3, move || making.clone().connect()).build().await.unwrap();
    let stats = pool.stats();
    assert_eq!((stats.members.len(), stats.missing), (1, 2));
    assert_eq!(stats.last_failure.unwrap().to_string(), "cannot reach the site");
    let mut events = pool.client().events();
    for _ in 0..2 {
        hear(&mut events, connected).await;
    }
    let stats = pool.stats();
    assert_eq!((stats.members.len(), stats.missing, stats.last_failure.is_none()), (3, 0, true));
    assert_eq!(landings(&pool, 3).await, ["one", "one", "one"]);
}

#[tokio::test]
async fn a_pool_that_can_make_nobody_does_not_come_up() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    factory.failures.store(2, Ordering::SeqCst);
    let making = factory.clone();
    let error = Pool::builder().size(2, move || making.clone().connect()).build().await.unwrap_err();
    assert!(error.is_unreachable());
    assert_eq!(error.to_string(), "none of 2 connections could be made");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "cannot reach the site");

    factory.failures.store(2, Ordering::SeqCst);
    let making = factory.clone();
    let given = site.local().await;
    let pool = Pool::builder().size(2, move || making.clone().connect()).client(given).build().await.unwrap();
    assert_eq!(landings(&pool, 1).await, ["one"]);
}

#[tokio::test]
async fn a_dead_member_is_replaced_and_calls_wait_for_that() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    let making = factory.clone();
    let pool = Pool::builder().size(1, move || making.clone().connect()).build().await.unwrap();
    let before = ids(&pool);
    factory.hang_up().await;
    assert_eq!(landings(&pool, 1).await, ["one"]);
    assert_ne!(ids(&pool), before);
    assert_eq!(pool.len(), 1);
    assert_eq!(factory.attempts.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_do_not_wait_for_what_has_just_failed() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    let making = factory.clone();
    let pool = Pool::builder().size(1, move || making.clone().connect()).build().await.unwrap();
    let mut events = pool.client().events();
    factory.failures.store(usize::MAX, Ordering::SeqCst);
    factory.hang_up().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::ConnectFailed(_)))).await;
    let error = pool.client().call_tool("whoami", ()).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::NoneAvailable), "{error}");
    assert_eq!(pool.client().status(), Status::Reconnecting);
    assert_eq!(pool.stats().members.iter().map(|member| member.status).collect::<Vec<_>>(), [Status::Closed]);
    factory.failures.store(0, Ordering::SeqCst);
    hear(&mut events, connected).await;
    assert_eq!(landings(&pool, 1).await, ["one"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_is_replaced_and_one_that_is_removed_is_not() {
    let (hanging, well) = (Site::new("hanging"), Site::new("well"));
    let (one, two) = (Factory::new(&hanging), Factory::new(&well));
    let turn = AtomicUsize::new(0);
    let (first, later) = (one.clone(), two.clone());
    let making = move || match turn.fetch_add(1, Ordering::SeqCst) {
        0 => first.clone().connect(),
        _ => later.clone().connect(),
    };
    let check = HealthCheck::every(10 * SECOND).timeout(SECOND).failures(1);
    let pool = Pool::builder().size(2, making).health_check(check).build().await.unwrap();
    assert_eq!(landings(&pool, 2).await, ["hanging", "well"]);
    let before = ids(&pool);
    let mut events = pool.client().events();
    hanging.set_silent(true);
    hear(&mut events, |event| matches!(event, Event::Unhealthy { failures: 1 })).await;
    // Nothing else is left of it.
    one.deserted().await;
    assert_eq!(pool.len(), 2);
    assert!(!ids(&pool).contains(&before[0]) && ids(&pool).contains(&before[1]));
    assert_eq!(landings(&pool, 2).await, ["well", "well"]);

    drop(pool.remove(before[1]).unwrap());
    assert_eq!(pool.stats().missing, 0);
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!((pool.len(), two.attempts.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test]
async fn a_watched_resource_is_watched_by_another_when_its_member_goes() {
    for version in ProtocolVersion::ALL {
        for removed in [false, true] {
            let (mut one, mut two) = (Site::new("one"), Site::new("two"));
            let asks = asks(version);
            let clients = [
                one.remote_with(app().only_version(version)).await,
                two.remote_with(app().only_version(version)).await,
            ];
            let pool = pool_of(Strategy::RoundRobin, clients).await;
            let client = pool.client();
            client.subscribe(URI).await.unwrap();
            client.subscribe(URI).await.unwrap();
            one.asked(asks).await;
            let mut events = client.events();
            let updated = |event: &Event| matches!(event, Event::ResourceUpdated { uri } if uri == URI);
            one.router.handle().resource_updated(URI);
            hear(&mut events, updated).await;
            let kept = match removed {
                true => pool.remove(ids(&pool)[0]),
                false => {
                    one.hang_up().await;
                    None
                }
            };
            two.until_watched(asks, &mut events).await;
            client.unsubscribe(URI).await.unwrap();
            if version != ProtocolVersion::LATEST {
                two.asked("resources/unsubscribe").await;
            }
            drop(kept);
        }
    }
}

impl Site {
    /// Waits until a resource is watched, and sees that changes to it are heard.
    async fn until_watched(&mut self, asks: &str, events: &mut Events) {
        // A server of 2026-07-28 may be asked for lists first.
        loop {
            let updated = events.find(|event| matches!(event, Event::ResourceUpdated { .. }).then_some(()));
            tokio::select! {
                found = updated => return found.unwrap(),
                () = self.asked(asks) => self.router.handle().resource_updated(URI),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watched_resource_is_watched_by_another_when_its_member_hangs() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let check = HealthCheck::every(10 * SECOND).timeout(SECOND).failures(1);
    let pool =
        Pool::builder().clients([one.remote().await, two.remote().await]).health_check(check).build().await.unwrap();
    let client = pool.client();
    client.subscribe(URI).await.unwrap();
    let mut events = client.events();
    one.set_silent(true);
    hear(&mut events, |event| matches!(event, Event::Unhealthy { .. })).await;
    two.until_watched("subscriptions/listen", &mut events).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_watching_does_not_take_it_from_others() {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::LATEST] {
        let mut one = Site::new("one");
        let client = one.remote_with(app().only_version(version)).await;
        let pool = Pool::builder().client(client).without_health_check().build().await.unwrap();
        let client = pool.client();
        one.set_silent(true);
        let first = tokio::spawn(client.subscribe(URI).into_future());
        one.asked(asks(version)).await;
        let second = tokio::spawn(client.subscribe(URI).into_future());
        one.set_silent(false);
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        second.await.unwrap().unwrap();
        let mut events = client.events();
        one.router.handle().resource_updated(URI);
        hear(&mut events, |event| matches!(event, Event::ResourceUpdated { .. })).await;

        client.unsubscribe(URI).await.unwrap();
        one.set_silent(true);
        assert!(client.subscribe(URI).timeout(SECOND).await.unwrap_err().is_timeout());
        one.set_silent(false);
        client.subscribe(URI).await.unwrap();
        if version != ProtocolVersion::LATEST {
            let unknown = client.subscribe("memo://unknown").await.unwrap_err();
            assert!(unknown.server_error().is_some(), "{unknown}");
        }
    }
}

#[tokio::test]
async fn listening_goes_on_with_another_member() {
    for version in ProtocolVersion::ALL {
        let (mut one, mut two) = (Site::new("one"), Site::new("two"));
        let clients =
            [one.remote_with(app().only_version(version)).await, two.remote_with(app().only_version(version)).await];
        let pool = pool_of(Strategy::RoundRobin, clients).await;
        let asks = asks(version);
        let filter = SubscriptionFilter::new().resource_subscriptions([URI.to_owned()]);
        let mut changes = pool.client().listen(filter).await.unwrap();
        assert!(changes.acknowledged().resource_subscriptions.is_some());
        one.router.handle().resource_updated(URI);
        assert_eq!(changes.next().await, Some(Change::Resource { uri: URI.to_owned() }));
        one.hang_up().await;
        two.asked(asks).await;
        two.router.handle().resource_updated(URI);
        assert_eq!(changes.next().await, Some(Change::Resource { uri: URI.to_owned() }));
        assert!(changes.is_open());
        pool.close().await;
        assert_eq!(changes.next().await, None);
    }
}

#[tokio::test]
async fn a_log_level_is_for_all_and_for_those_that_come_later() {
    let version = ProtocolVersion::V2025_06_18;
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let (mut later, mut none) = (Site::new("later"), Site::new("none"));
    let log = app().only_version(version);
    let pool =
        pool_of(Strategy::RoundRobin, [one.remote_with(log.clone()).await, two.remote_with(log.clone()).await]).await;
    pool.client().set_log_level(LoggingLevel::Warning).await.unwrap();
    one.asked("logging/setLevel").await;
    two.asked("logging/setLevel").await;
    pool.add(later.remote_with(log.clone()).await);
    later.asked("logging/setLevel").await;

    let empty = Pool::builder().build().await.unwrap();
    assert!(empty.client().set_log_level(LoggingLevel::Error).await.unwrap_err().is_disconnected());
    empty.add(none.remote_with(log).await);
    none.asked("logging/setLevel").await;
}

#[tokio::test]
async fn events_are_those_of_all_members_also_of_later_ones() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await]).await;
    let mut events = pool.client().events();
    one.asked("subscriptions/listen").await;
    pool.add(two.remote().await);
    two.asked("subscriptions/listen").await;
    for site in [&one, &two] {
        site.router.handle().add_tool(Tool::builder("more").handler_sync(|| "more"));
        hear(&mut events, |event| matches!(event, Event::ToolsChanged)).await;
    }
    pool.close().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::Closed))).await;
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn what_is_told_is_told_to_all() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    pool.client().notify_raw("notifications/mine", None).await.unwrap();
    one.asked("notifications/mine").await;
    two.asked("notifications/mine").await;
}

#[tokio::test]
async fn all_pages_of_a_list_come_from_one_member() {
    let paged = |name: &'static str| {
        Site::with(name, move |server| {
            (0..5).fold(server.page_size(2), |server, number| {
                server.tool(Tool::builder(format!("{name}-{number}")).handler_sync(|| ""))
            })
        })
    };
    let (one, two) = (paged("one"), paged("two"));
    for strategy in [Strategy::RoundRobin, Strategy::Random, Strategy::LeastBusy] {
        let pool = pool_of(strategy, [one.local().await, two.local().await]).await;
        for _ in 0..4 {
            let listed = pool.client().list_tools().await.unwrap();
            let mut streamed = Vec::new();
            let mut items = pool.client().stream_tools();
            while let Some(tool) = items.next().await {
                streamed.push(tool.unwrap());
            }
            for tools in [listed, streamed] {
                assert_eq!(tools.len(), 7);
                let ones = tools.iter().filter(|tool| tool.name.starts_with("one-")).count();
                assert!(ones == 0 || ones == 5, "{ones}");
            }
        }
    }
}

#[tokio::test]
async fn a_batch_is_sent_to_one_member_and_its_calls_go_elsewhere_alone() {
    let version = ProtocolVersion::V2025_03_26;
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let clients =
        [one.remote_with(app().only_version(version)).await, two.remote_with(app().only_version(version)).await];
    let pool = pool_of(Strategy::RoundRobin, clients).await;
    let mut batch = pool.client().batch();
    let slots = [batch.call_tool("whoami", ()), batch.call_tool("whoami", ())];
    let mut outcomes = batch.send().await;
    for slot in slots {
        assert_eq!(outcomes.take(slot).unwrap().text(), "one");
    }
    two.hang_up().await;
    let mut batch = pool.client().batch();
    let slots = [batch.call_tool("whoami", ()), batch.call_tool("whoami", ())];
    let mut outcomes = batch.send().await;
    for slot in slots {
        assert_eq!(outcomes.take(slot).unwrap().text(), "one");
    }
}

#[tokio::test]
async fn pending_calls_of_all_members_have_keys_of_their_own() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let client = pool.client();
    let first = wait_call(&client);
    one.asked("tools/call").await;
    let second = wait_call(&client);
    two.asked("tools/call").await;
    let pending = client.pending();
    assert_eq!(pending.len(), 2);
    assert_ne!(pending[0].key, pending[1].key);
    assert_eq!(client.pending()[1].key, pending[1].key, "a key stays");
    assert!(client.cancel(pending[0].key));
    assert!(first.await.unwrap().unwrap_err().is_cancelled());
    let rest: Vec<_> = client.pending().iter().map(|call| call.key).collect();
    assert_eq!(rest, [pending[1].key]);
    assert!(!client.cancel(pending[0].key));
    assert_eq!(client.cancel_all(), 1);
    assert!(second.await.unwrap().unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_pool_is_a_service() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let client = app().connect_service(pool.clone()).await.unwrap();
    let names = [whoami(&client).await, whoami(&client).await, whoami(&client).await, whoami(&client).await];
    assert_eq!(names.iter().filter(|name| *name == "one").count(), 2, "{names:?}");
    one.hang_up().await;
    for _ in 0..3 {
        assert_eq!(whoami(&client).await, "two");
    }
    assert_eq!(client.read_resource(URI).await.unwrap().contents.len(), 1);
    let error = client.call_tool("nothing", ()).await.unwrap_err();
    assert!(error.server_error().is_some(), "{error}");
    assert!(pool.stats().members[1].calls >= 6);
}

#[tokio::test]
async fn statistics_are_of_each_member_and_sums() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let before = pool.client().stats().requests_sent;
    landings(&pool, 4).await;
    assert_eq!(pool.client().stats().requests_sent - before, 4);
    assert!(pool.client().call_tool("nothing", ()).await.is_err());
    let stats = pool.stats();
    let by_member: BTreeMap<_, _> =
        stats.members.iter().map(|member| (member.id, (member.calls, member.failures, member.busy))).collect();
    // An error that a server answers with is an answer.
    assert_eq!(by_member.into_values().collect::<Vec<_>>(), [(3, 0, 0), (2, 0, 0)]);
    assert_eq!((stats.missing, stats.moved, stats.last_failure.is_none()), (0, 0, true));
    assert_eq!(pool.client().server_info().unwrap().name, "one");
    assert!(format!("{pool:?}").contains("healthy: true"));
}

#[tokio::test]
async fn a_closed_pool_takes_nobody() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(Strategy::RoundRobin, [one.remote().await]).await;
    let mut events = pool.client().events();
    pool.close().await;
    one.deserted().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::Closed))).await;
    assert!(events.next().await.is_none());
    assert_eq!(pool.client().status(), Status::Closed);
    assert!(pool.checkout().unwrap_err().is_closed());
    assert!(pool.client().ping().await.unwrap_err().is_disconnected());
    assert!(pool.client().subscribe(URI).await.unwrap_err().is_disconnected());
    pool.add(two.remote().await);
    assert!(pool.is_empty());
    two.deserted().await;
}

#[tokio::test]
async fn nothing_is_left_when_the_last_handle_is_dropped() {
    let (mut one, mut two, made) = (Site::new("one"), Site::new("two"), Site::new("made"));
    let factory = Factory::new(&made);
    let making = factory.clone();
    let pool = Pool::builder()
        .clients([one.remote().await, two.remote().await])
        .size(2, move || making.clone().connect())
        .build()
        .await
        .unwrap();
    let client = pool.client();
    let mut events = client.events();
    client.subscribe(URI).await.unwrap();
    let mut listening = client.listen(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    let lease = pool.checkout().unwrap();
    drop(pool);
    assert_eq!(whoami(&client).await.len(), 4);
    drop(client);
    let name = whoami(&lease).await;
    assert_eq!(lease.status(), Status::Connected);
    drop(lease);
    assert!([one.name, two.name, made.name].contains(&name.as_str()));
    one.deserted().await;
    two.deserted().await;
    factory.deserted().await;
    while events.next().await.is_some() {}
    assert_eq!(listening.next().await, None);
}

#[tokio::test]
async fn a_pool_of_supervised_clients_waits_for_them_when_there_is_nobody_else() {
    let site = Site::new("one");
    let front = site.front.clone();
    let connections = Arc::new(Mutex::new(Vec::new()));
    let opened = connections.clone();
    let connector = StreamConnector::each("one", move || {
        let (near, far) = memory();
        opened.lock().unwrap().push(serve(front.clone(), far));
        std::future::ready(Ok(near))
    });
    let client = app().supervise(Supervision::new()).connect_to(connector).await.unwrap();
    let pool = pool_of(Strategy::LeastBusy, [client]).await;
    let first: JoinHandle<()> = connections.lock().unwrap().remove(0);
    first.abort();
    let _ = first.await;
    assert_eq!(landings(&pool, 1).await, ["one"]);
}

#[tokio::test]
async fn a_pool_may_have_pools_as_members() {
    let sites: Vec<_> = ["a1", "a2", "b1", "b2"].into_iter().map(Site::new).collect();
    let mut clients = Vec::new();
    for site in &sites {
        clients.push(site.local().await);
    }
    let right = pool_of(Strategy::RoundRobin, clients.split_off(2)).await;
    let left = pool_of(Strategy::RoundRobin, clients).await;
    let pool = pool_of(Strategy::RoundRobin, [left.client(), right.client()]).await;
    assert_eq!(landings(&pool, 4).await, ["a1", "b1", "a2", "b2"]);
    let (one, two) = (wait_call(&pool.client()), wait_call(&pool.client()));
    while pool.client().pending().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.client().cancel_all(), 2);
    assert!(one.await.unwrap().is_err() && two.await.unwrap().is_err());
    left.close().await;
    let names = landings(&pool, 2).await;
    assert!(names.iter().all(|name| name.starts_with('b')), "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_safe_call_is_lost_while_members_come_and_go() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    let making = factory.clone();
    let pool = Pool::builder()
        .strategy(Strategy::LeastBusy)
        .size(3, move || making.clone().connect())
        .client(site.local().await)
        .build()
        .await
        .unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (client, done) = (pool.client(), done.clone());
            tokio::spawn(async move {
                let mut calls = 0;
                while !done.load(Ordering::SeqCst) {
                    let called = client.call_tool("whoami", ()).safe_to_repeat(true).await;
                    assert_eq!(called.unwrap().text(), "one");
                    calls += 1;
                    tokio::task::yield_now().await;
                }
                calls
            })
        })
        .collect();
    let mut events = pool.client().events();
    for _ in 0..6 {
        let added = pool.add(site.local().await);
        factory.hang_up().await;
        hear(&mut events, connected).await;
        pool.remove(added).unwrap();
    }
    done.store(true, Ordering::SeqCst);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
    assert!(pool.stats().members.iter().all(|member| member.busy == 0));
}

#[tokio::test]
async fn pools_and_leases_can_be_sent_about() {
    fn sent<T: Send + Sync + 'static>(it: T) -> T {
        it
    }
    let client = Site::new("one").local().await;
    let pool = sent(tokio::spawn(sent(Pool::builder().client(client)).build()).await.unwrap().unwrap());
    let lease = sent(pool.checkout().unwrap());
    assert_eq!(sent(pool.stats()).members[0].id, lease.member());
}
