//! The shared state of a pool: its members, and picking one for a call.

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

/// The state shared by the handles and tasks of a pool. Holding it does not keep the pool open.
pub(super) struct PoolShared {
    strategy: PoolStrategy,
    check: Option<HealthCheck>,
    table: Mutex<MemberTable>,
    /// Notified when a member is added or removed, or its state changes.
    pub(super) changes: watch::Sender<()>,
    pub(super) events: EventHub,
    /// `true` once a client of the pool has asked for events about changed lists.
    pub(super) wants_list_changes: AtomicBool,
    pub(super) tools: Arc<ToolIndex>,
    pub(super) level: Mutex<Option<LoggingLevel>>,
    pub(super) watched: Mutex<BTreeMap<String, Watch>>,
    pub(super) failovers: AtomicU64,
    pub(super) acquire_timeout: Duration,
    pub(super) lifetime: Lifetime,
}

struct MemberTable {
    entries: Vec<PoolEntry>,
    /// The position of the round robin.
    turn: usize,
    /// The clients of a closed pool. Every call of `close` waits until they are closed.
    closed: Option<Vec<Client>>,
    /// The number of members that the pool connects itself.
    size: usize,
    /// The task that replaces them.
    replacing: Option<AbortOnDropHandle<()>>,
    /// `true` unless the last connection attempt failed. While it is `true`, calls wait for a missing member.
    connecting: bool,
    last_failure: Option<ConnectError>,
}

/// A member and its tasks, which are aborted when the member is removed.
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
        let table = MemberTable {
            entries: Vec::new(),
            turn: 0,
            closed: None,
            size,
            replacing: None,
            connecting: false,
            last_failure: None,
        };
        Arc::new(Self {
            strategy,
            check,
            table: Mutex::new(table),
            changes: watch::Sender::new(()),
            events: EventHub::default(),
            wants_list_changes: AtomicBool::new(false),
            tools: Arc::new(ToolIndex::new(max_steps)),
            level: Mutex::default(),
            watched: Mutex::default(),
            failovers: AtomicU64::new(0),
            acquire_timeout,
            lifetime: Lifetime::new(),
        })
    }

    /// Wakes all tasks that wait for a change.
    pub(super) fn notify_changed(&self) {
        self.changes.send_replace(());
    }

    pub(super) fn add(self: &Arc<Self>, client: Client, managed: bool) -> MemberId {
        let member = Arc::new(PoolMember::new(client.clone(), managed));
        let id = member.id;
        let events = client.control().events(EventInterest::Passive);
        let tasks = [
            self.lifetime.spawn(maintenance::forward_events(self.clone(), events)),
            self.lifetime.spawn(maintenance::maintain(self.clone(), member.clone(), self.check.clone())),
        ];
        let refused = {
            let entry = PoolEntry { member, _tasks: tasks };
            let mut table = self.table.lock();
            match table.closed.is_some() {
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
        if self.wants_list_changes.load(Ordering::SeqCst) {
            self.request_list_changes(&client);
        }
        self.tools.forget();
        self.notify_changed();
        id
    }

    /// Asks the server of a member to report changed lists. The events arrive on the stream that is already forwarded.
    pub(super) fn request_list_changes(&self, client: &Client) {
        let _entered = self.lifetime.runtime.enter();
        drop(client.events());
    }

    pub(super) fn remove(&self, id: MemberId) -> Option<Client> {
        let entry = {
            let mut table = self.table.lock();
            let index = table.entries.iter().position(|entry| entry.member.id == id)?;
            let entry = table.entries.remove(index);
            if entry.member.managed {
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
        self.table.lock().closed.is_some()
    }

    /// Picks a member and counts it as busy under one lock, so that two concurrent calls do not pick the same idle
    /// member.
    pub(super) fn pick(&self, tried: &[MemberId], call: Option<&CallRequest>) -> Option<MemberGuard> {
        let mut table = self.table.lock();
        let MemberTable { entries, turn, .. } = &mut *table;
        let untried = entries.iter().map(|entry| &entry.member).filter(|member| !tried.contains(&member.id));
        let graded: Vec<_> = untried.filter_map(|member| Some((member.grade()?, member))).collect();
        let best = graded.iter().map(|(grade, _)| *grade).min()?;
        let candidates: Vec<_> =
            graded.into_iter().filter(|(grade, _)| *grade == best).map(|(_, member)| member).collect();
        let affinity = call.and_then(|call| call.options.affinity.as_ref());
        let Some(affinity) = affinity else { return Some(MemberGuard::new(self.choose(&candidates, turn)?)) };
        // A batch is sent to one member only if that member's revision has batches.
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

    /// Returns `true` if a member was removed or closed, or is unhealthy while another member is ready.
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
        let managed = table.entries.iter().filter(|entry| entry.member.managed).count();
        PoolStats {
            members,
            unconnected: table.size.saturating_sub(managed),
            last_failure: table.last_failure.clone(),
            failovers: self.failovers.load(Ordering::Relaxed),
        }
    }

    /// Stops all tasks. Returns the clients, which the caller closes.
    pub(super) fn shut_down(&self) -> Vec<Client> {
        let (entries, replacing, clients) = {
            let mut table = self.table.lock();
            let entries = std::mem::take(&mut table.entries);
            let clients = || entries.iter().map(|entry| entry.member.client.clone()).collect();
            let clients = table.closed.get_or_insert_with(clients).clone();
            (entries, table.replacing.take(), clients)
        };
        let watched = std::mem::take(&mut *self.watched.lock());
        drop((entries, replacing, watched));
        self.notify_changed();
        clients
    }

    /// Spawns the task that replaces missing members. Does nothing if health checks are disabled.
    pub(super) fn start_replacing(self: &Arc<Self>, connect: Connect) {
        let Some(check) = &self.check else { return };
        let replacing = self.lifetime.spawn(maintenance::replace_members(self.clone(), connect, check.interval));
        let mut table = self.table.lock();
        table.replacing = Some(replacing);
        table.connecting = table.last_failure.is_none();
    }

    /// Returns the number of members to connect now.
    pub(super) fn missing_members(&self) -> usize {
        let table = self.table.lock();
        let good = |member: &PoolMember| member.managed && member.grade().is_some_and(|grade| grade < Grade::Unhealthy);
        table.size.saturating_sub(table.entries.iter().filter(|entry| good(&entry.member)).count())
    }

    /// Lets calls wait for the connection attempt that begins now.
    pub(super) fn begin_connecting(&self) {
        self.table.lock().connecting = true;
    }

    /// Adds newly connected members in place of closed or unhealthy ones, and records failed attempts.
    pub(super) fn add_connected(self: &Arc<Self>, results: Vec<Result<Client, ConnectError>>) {
        let mut failure = None;
        for result in results {
            match result {
                // Checked again: an unhealthy member may have recovered meanwhile.
                Ok(client) if self.missing_members() > 0 => {
                    let version = client.protocol_version();
                    self.add(client, true);
                    self.remove_worst();
                    // The client published its own event before it was a member.
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
        table.connecting = failure.is_none();
        table.last_failure = failure;
        drop(table);
        // Wakes the calls that wait for a member: they fail now if there is none.
        self.notify_changed();
    }

    /// Removes a closed or unhealthy member if there are more than `size`. Its calls in flight finish, then it
    /// disconnects.
    fn remove_worst(&self) {
        let mut table = self.table.lock();
        let managed = table.entries.iter().filter(|entry| entry.member.managed).count();
        if managed <= table.size {
            return;
        }
        let rank = |entry: &PoolEntry| match entry.member.grade() {
            _ if !entry.member.managed => None,
            None => Some(0),
            Some(Grade::Unhealthy) => Some(1),
            Some(Grade::Ready | Grade::Reconnecting) => None,
        };
        let removable = table.entries.iter().enumerate().filter_map(|(index, entry)| Some((rank(entry)?, index)));
        let removed = removable.min().map(|(_, index)| table.entries.remove(index));
        drop(table);
        if removed.is_some() {
            self.notify_changed();
        }
    }

    /// Returns `true` if the pool is connecting a member, so that a call may wait for it.
    pub(super) fn is_connecting(&self) -> bool {
        let table = self.table.lock();
        table.replacing.is_some() && table.connecting && table.size > 0
    }

    /// Returns `true` if the pool connects members itself, and is not closed.
    pub(super) fn replaces_members(&self) -> bool {
        let table = self.table.lock();
        table.replacing.is_some() && table.size > 0
    }
}
