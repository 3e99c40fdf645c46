//! The members of a pool, and the choice of the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use turms_core::ConnectError;
use turms_proto::types::LoggingLevel;

use super::builder::Connect;
use super::member::{Grade, MemberGuard, PoolMember};
use super::subscriptions::Watch;
use super::{MemberId, PoolStats, PoolStrategy, maintenance};
use crate::call::CallRequest;
use crate::client::Client;
use crate::control::EventInterest;
use crate::event::{ConnectionEvent, EventHub};
use crate::members::Lifetime;
use crate::reconnect::HealthCheck;
use crate::tool_index::ToolIndex;

/// The state of a pool. It does not keep the pool open.
pub(super) struct PoolShared {
    strategy: PoolStrategy,
    check: Option<HealthCheck>,
    table: Mutex<Table>,
    /// Notified when a member comes or goes, or its state changes.
    pub(super) changes: watch::Sender<()>,
    pub(super) events: EventHub,
    /// Changes of lists are wanted as events.
    pub(super) wants_lists: AtomicBool,
    pub(super) tools: Arc<ToolIndex>,
    pub(super) level: Mutex<Option<LoggingLevel>>,
    pub(super) watched: Mutex<BTreeMap<String, Watch>>,
    pub(super) failovers: AtomicU64,
    pub(super) acquire_timeout: Duration,
    pub(super) lifetime: Lifetime,
}

struct Table {
    entries: Vec<PoolEntry>,
    /// The position of round robin.
    turn: usize,
    closed: bool,
    /// The number of members that the pool makes itself.
    size: usize,
    /// The task that makes them.
    maker: Option<AbortOnDropHandle<()>>,
    /// The last attempt did not fail, so that a call may wait for the next.
    hopeful: bool,
    last_failure: Option<ConnectError>,
}

/// A member and its tasks, which end when it is removed.
struct PoolEntry {
    member: Arc<PoolMember>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl PoolShared {
    pub(super) fn new(
        strategy: PoolStrategy,
        check: Option<HealthCheck>,
        size: usize,
        max_steps: u64,
        acquire_timeout: Duration,
    ) -> Arc<Self> {
        let table = Table {
            entries: Vec::new(),
            turn: 0,
            closed: false,
            size,
            maker: None,
            hopeful: false,
            last_failure: None,
        };
        Arc::new(Self {
            strategy,
            check,
            table: Mutex::new(table),
            changes: watch::Sender::new(()),
            events: EventHub::default(),
            wants_lists: AtomicBool::new(false),
            tools: Arc::new(ToolIndex::new(max_steps)),
            level: Mutex::default(),
            watched: Mutex::default(),
            failovers: AtomicU64::new(0),
            acquire_timeout,
            lifetime: Lifetime::new(),
        })
    }

    /// Wakes all that wait for a change.
    pub(super) fn notify_changed(&self) {
        self.changes.send_replace(());
    }

    pub(super) fn add(self: &Arc<Self>, client: Client, made: bool) -> MemberId {
        let member = Arc::new(PoolMember::new(client.clone(), made));
        let id = member.id;
        let events = client.control().events(EventInterest::Passive);
        let tasks = [
            self.lifetime.spawn(maintenance::forward_events(self.clone(), events)),
            self.lifetime.spawn(maintenance::maintain(self.clone(), member.clone(), self.check.clone())),
        ];
        let refused = {
            let entry = PoolEntry { member, _tasks: tasks };
            let mut table = self.table.lock();
            match table.closed {
                true => Some(entry),
                false => {
                    table.entries.push(entry);
                    None
                }
            }
        };
        if refused.is_some() {
            self.lifetime.runtime.spawn(async move { client.close().await });
            return id;
        }
        if self.wants_lists.load(Ordering::SeqCst) {
            self.request_lists(&client);
        }
        self.tools.forget();
        self.notify_changed();
        id
    }

    /// Requests changes of lists from the server of a member; they come by the stream that is forwarded already.
    pub(super) fn request_lists(&self, client: &Client) {
        let _entered = self.lifetime.runtime.enter();
        drop(client.events());
    }

    pub(super) fn remove(&self, id: MemberId) -> Option<Client> {
        let entry = {
            let mut table = self.table.lock();
            let place = table.entries.iter().position(|entry| entry.member.id == id)?;
            let entry = table.entries.remove(place);
            if entry.member.made {
                table.size = table.size.saturating_sub(1);
            }
            entry
        };
        self.notify_changed();
        Some(entry.member.client.clone())
    }

    pub(super) fn members(&self) -> Vec<Arc<PoolMember>> {
        self.table.lock().entries.iter().map(|entry| entry.member.clone()).collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.table.lock().closed
    }

    /// Chooses a member and counts it as busy, in one step: two calls at once must not find the same one idle.
    pub(super) fn pick(&self, tried: &[MemberId], call: Option<&CallRequest>) -> Option<MemberGuard> {
        let mut table = self.table.lock();
        let Table { entries, turn, .. } = &mut *table;
        let untried = entries.iter().map(|entry| &entry.member).filter(|member| !tried.contains(&member.id));
        let graded: Vec<_> = untried.filter_map(|member| Some((member.grade()?, member))).collect();
        let best = graded.iter().map(|(grade, _)| *grade).min()?;
        let candidates: Vec<_> =
            graded.into_iter().filter(|(grade, _)| *grade == best).map(|(_, member)| member).collect();
        let affinity = call.and_then(|call| call.options.affinity.as_ref());
        let Some(affinity) = affinity else { return Some(MemberGuard::new(self.choose(&candidates, turn)?)) };
        // A batch stays together only where it is sent as one.
        let in_batch = call.is_some_and(|call| call.options.batch.is_some());
        let suitable = candidates.iter().filter(|member| !in_batch || member.has_batches());
        let known = suitable.filter_map(|member| Some((affinity.age(member.id)?, *member)));
        let chosen = match known.min_by_key(|(age, _)| *age) {
            Some((_, member)) => member,
            None => self.choose(&candidates, turn)?,
        };
        affinity.join(chosen.id);
        Some(MemberGuard::new(chosen))
    }

    fn choose<'a>(&self, candidates: &[&'a Arc<PoolMember>], turn: &mut usize) -> Option<&'a Arc<PoolMember>> {
        let busy: Vec<_> = candidates.iter().map(|member| member.busy()).collect();
        candidates.get(self.strategy.choose(&busy, turn)?).copied()
    }

    /// Returns `true` if a member is not usable any more, and there may be one that is.
    pub(super) fn has_lost(&self, member: &PoolMember) -> bool {
        let members = self.members();
        let better = || members.iter().any(|other| other.grade() == Some(Grade::Ready));
        match member.grade() {
            _ if !members.iter().any(|other| other.id == member.id) => true,
            None => true,
            Some(Grade::Unhealthy) => better(),
            Some(Grade::Ready | Grade::Reconnecting) => false,
        }
    }

    pub(super) fn pool_stats(&self) -> PoolStats {
        let members = self.members().iter().map(|member| member.stats()).collect();
        let table = self.table.lock();
        let made = table.entries.iter().filter(|entry| entry.member.made).count();
        PoolStats {
            members,
            unconnected: table.size.saturating_sub(made),
            last_failure: table.last_failure.clone(),
            failovers: self.failovers.load(Ordering::Relaxed),
        }
    }

    /// Ends everything but the connections. Returns the clients, unless the pool was closed before.
    pub(super) fn shut(&self) -> Option<Vec<Client>> {
        let (entries, maker) = {
            let mut table = self.table.lock();
            if std::mem::replace(&mut table.closed, true) {
                return None;
            }
            (std::mem::take(&mut table.entries), table.maker.take())
        };
        let watched = std::mem::take(&mut *self.watched.lock());
        let clients = entries.iter().map(|entry| entry.member.client.clone()).collect();
        drop((entries, maker, watched));
        self.notify_changed();
        Some(clients)
    }

    /// Replaces members that are missing, from now on.
    pub(super) fn keep_full(self: &Arc<Self>, connect: Connect) {
        let Some(check) = &self.check else { return };
        let replacing = self.lifetime.spawn(maintenance::keep_full(self.clone(), connect, check.interval));
        let mut table = self.table.lock();
        table.maker = Some(replacing);
        table.hopeful = table.last_failure.is_none();
    }

    /// The number of members to make now.
    pub(super) fn to_be_made(&self) -> usize {
        let table = self.table.lock();
        let good = |member: &PoolMember| member.made && member.grade().is_some_and(|grade| grade < Grade::Unhealthy);
        table.size.saturating_sub(table.entries.iter().filter(|entry| good(&entry.member)).count())
    }

    pub(super) fn begin_making(&self) {
        self.table.lock().hopeful = true;
    }

    /// Adds new members, in place of those that are not usable any more.
    pub(super) fn take_made(self: &Arc<Self>, made: Vec<Result<Client, ConnectError>>) {
        let mut failure = None;
        for made in made {
            match made {
                // A member that was not usable may be so again.
                Ok(client) if self.to_be_made() > 0 => {
                    let version = client.protocol_version();
                    self.add(client, true);
                    self.remove_worst();
                    // Its own event was sent before it was a member.
                    if let Some(version) = version {
                        self.events.connection(ConnectionEvent::Connected { version, generation: 1 });
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(target: "turms::client", error = &error as &dyn std::error::Error, "the pool lacks a connection");
                    self.events.connection(ConnectionEvent::ConnectFailed(error.clone()));
                    failure = Some(error);
                }
            }
        }
        let mut table = self.table.lock();
        table.hopeful = failure.is_none();
        table.last_failure = failure;
        drop(table);
        // Calls that wait for a member may have to fail.
        self.notify_changed();
    }

    /// Removes the worst member if there are more than the pool makes. Its calls in flight go on; then its connection closes.
    fn remove_worst(&self) {
        let mut table = self.table.lock();
        let made = table.entries.iter().filter(|entry| entry.member.made).count();
        if made <= table.size {
            return;
        }
        let worst = |entry: &PoolEntry| match entry.member.grade() {
            _ if !entry.member.made => None,
            None => Some(0),
            Some(Grade::Unhealthy) => Some(1),
            Some(Grade::Ready | Grade::Reconnecting) => None,
        };
        let places = table.entries.iter().enumerate().filter_map(|(place, entry)| Some((worst(entry)?, place)));
        let removed = places.min().map(|(_, place)| table.entries.remove(place));
        drop(table);
        if removed.is_some() {
            self.notify_changed();
        }
    }

    /// Returns `true` if there may be a member soon.
    pub(super) fn is_hopeful(&self) -> bool {
        let table = self.table.lock();
        table.maker.is_some() && table.hopeful && table.size > 0
    }

    /// Returns `true` if the pool makes members itself, and is not closed.
    pub(super) fn makes_members(&self) -> bool {
        let table = self.table.lock();
        table.maker.is_some() && table.size > 0
    }
}
