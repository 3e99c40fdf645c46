//! Who is in a pool, and who is next.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use turms_core::ConnectError;
use turms_proto::types::LoggingLevel;

use super::builder::Connect;
use super::member::{Grade, Member, Turn};
use super::watch::Watch;
use super::{MemberId, PoolStats, Strategy, upkeep};
use crate::call::error::{CallError, CallErrorKind, Delivery, NoServerCause, UnsupportedCause};
use crate::client::Client;
use crate::event::{ConnectionEvent, EventHub};
use crate::listen::Task;
use crate::options::Affinity;
use crate::roots::Roots;
use crate::supervision::HealthCheck;
use crate::tool::KnownTools;

/// What all handles of a pool share. Its tasks know it weakly, and end with it.
pub(super) struct Shared {
    pub(super) me: Weak<Self>,
    strategy: Strategy,
    check: Option<HealthCheck>,
    /// So that members can be added from outside a runtime.
    pub(super) runtime: Handle,
    table: Mutex<Table>,
    /// Told whenever who is there, or how somebody stands, has changed.
    pub(super) changes: watch::Sender<()>,
    pub(super) events: EventHub,
    /// Whether anybody wants to hear of changes to lists.
    pub(super) hears_lists: AtomicBool,
    pub(super) tools: KnownTools,
    /// Of the first member that has any. Members that are set up alike share theirs.
    pub(super) roots: OnceLock<Roots>,
    pub(super) level: Mutex<Option<LoggingLevel>>,
    pub(super) watched: Mutex<BTreeMap<String, Watch>>,
    pub(super) keys: Mutex<Keys>,
    pub(super) moved: AtomicU64,
}

struct Table {
    seats: Vec<Seat>,
    /// Where round robin stands.
    turn: usize,
    closed: bool,
    /// How many members the pool is to make itself.
    size: usize,
    /// What makes them, as long as it does.
    maker: Option<Task>,
    /// Whether it can be expected to succeed: it does not rest after a failure.
    hopeful: bool,
    last_failure: Option<ConnectError>,
}

/// A member's place. Its tasks end when it is left.
struct Seat {
    member: Arc<Member>,
    _tasks: [Task; 2],
}

/// What pending calls are called outside: two members may have the same key for different calls.
#[derive(Debug, Default)]
pub(super) struct Keys {
    last: u64,
    known: HashMap<(MemberId, u64), u64>,
}

impl Shared {
    pub(super) fn new(strategy: Strategy, check: Option<HealthCheck>, size: usize, max_steps: u64) -> Arc<Self> {
        let table =
            Table { seats: Vec::new(), turn: 0, closed: false, size, maker: None, hopeful: false, last_failure: None };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            strategy,
            check,
            runtime: Handle::current(),
            table: Mutex::new(table),
            changes: watch::Sender::new(()),
            events: EventHub::default(),
            hears_lists: AtomicBool::new(false),
            tools: KnownTools::new(max_steps),
            roots: OnceLock::new(),
            level: Mutex::default(),
            watched: Mutex::default(),
            keys: Mutex::default(),
            moved: AtomicU64::new(0),
        })
    }

    /// Something has changed: whoever waits for that looks anew.
    pub(super) fn changed(&self) {
        self.changes.send_replace(());
    }

    pub(super) fn add(&self, client: Client, made: bool) -> MemberId {
        let member = Arc::new(Member::new(client.clone(), made));
        let id = member.id;
        if let Some(roots) = client.roots() {
            // The first stay.
            let _ = self.roots.set(roots);
        }
        let hearing = upkeep::hear(self.me.clone(), client.engine().overhear());
        let tending = upkeep::tend(self.me.clone(), member.clone(), self.check.clone(), self.changes.subscribe());
        let tasks = [Task(self.runtime.spawn(hearing)), Task(self.runtime.spawn(tending))];
        let refused = {
            let seat = Seat { member, _tasks: tasks };
            let mut table = self.table.lock();
            match table.closed {
                true => Some(seat),
                false => {
                    table.seats.push(seat);
                    None
                }
            }
        };
        if refused.is_some() {
            self.runtime.spawn(async move { client.close().await });
            return id;
        }
        if self.hears_lists.load(Ordering::SeqCst) {
            self.hear_lists(&client);
        }
        self.tools.forget();
        self.changed();
        id
    }

    /// The first stream that is taken of a client asks its server to tell of its lists; what is told comes by the one that is
    /// there already.
    pub(super) fn hear_lists(&self, client: &Client) {
        let _entered = self.runtime.enter();
        drop(client.events());
    }

    pub(super) fn remove(&self, id: MemberId) -> Option<Client> {
        let seat = {
            let mut table = self.table.lock();
            let place = table.seats.iter().position(|seat| seat.member.id == id)?;
            let seat = table.seats.remove(place);
            if seat.member.made {
                table.size = table.size.saturating_sub(1);
            }
            seat
        };
        self.changed();
        Some(seat.member.client.clone())
    }

    pub(super) fn members(&self) -> Vec<Arc<Member>> {
        self.table.lock().seats.iter().map(|seat| seat.member.clone()).collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.table.lock().closed
    }

    /// Chooses who is next and counts them as busy, in one step: two who ask at once must not find the same one idle.
    pub(super) fn pick(&self, tried: &[MemberId], near: Option<&Affinity>) -> Option<Turn> {
        let mut table = self.table.lock();
        let Table { seats, turn, .. } = &mut *table;
        let untried = seats.iter().map(|seat| &seat.member).filter(|member| !tried.contains(&member.id));
        let graded: Vec<_> = untried.filter_map(|member| Some((member.grade()?, member))).collect();
        let best = graded.iter().map(|(grade, _)| *grade).min()?;
        let candidates: Vec<_> =
            graded.into_iter().filter(|(grade, _)| *grade == best).map(|(_, member)| member).collect();
        let Some(near) = near else { return Some(Turn::begin(self.choose(&candidates, turn)?)) };
        let known = candidates.iter().filter_map(|member| Some((near.age(member.id)?, *member)));
        let chosen = match known.min_by_key(|(age, _)| *age) {
            Some((_, member)) => member,
            None => self.choose(&candidates, turn)?,
        };
        near.join(chosen.id);
        Some(Turn::begin(chosen))
    }

    fn choose<'a>(&self, candidates: &[&'a Arc<Member>], turn: &mut usize) -> Option<&'a Arc<Member>> {
        let busy: Vec<_> = candidates.iter().map(|member| member.busy()).collect();
        candidates.get(self.strategy.choose(&busy, turn)?).copied()
    }

    /// Whether a member is no good any more, and there may be one that is.
    pub(super) fn has_lost(&self, member: &Member) -> bool {
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
        let made = table.seats.iter().filter(|seat| seat.member.made).count();
        PoolStats {
            members,
            missing: table.size.saturating_sub(made),
            last_failure: table.last_failure.clone(),
            moved: self.moved.load(Ordering::Relaxed),
        }
    }

    /// Ends everything but the connections; whose connections there were, unless it was closed before.
    pub(super) fn shut(&self) -> Option<Vec<Client>> {
        let (seats, maker) = {
            let mut table = self.table.lock();
            if std::mem::replace(&mut table.closed, true) {
                return None;
            }
            (std::mem::take(&mut table.seats), table.maker.take())
        };
        let watched = std::mem::take(&mut *self.watched.lock());
        let clients = seats.iter().map(|seat| seat.member.client.clone()).collect();
        drop((seats, maker, watched));
        self.changed();
        Some(clients)
    }

    /// Makes members in place of those that are missing, from now on.
    pub(super) fn keep_full(&self, connect: Connect) {
        let Some(check) = &self.check else { return };
        let making = upkeep::keep_full(self.me.clone(), connect, check.every, self.changes.subscribe());
        let mut table = self.table.lock();
        table.maker = Some(Task(self.runtime.spawn(making)));
        table.hopeful = table.last_failure.is_none();
    }

    /// How many members are to be made now.
    pub(super) fn to_be_made(&self) -> usize {
        let table = self.table.lock();
        let good = |member: &Member| member.made && member.grade().is_some_and(|grade| grade < Grade::Unhealthy);
        table.size.saturating_sub(table.seats.iter().filter(|seat| good(&seat.member)).count())
    }

    pub(super) fn begin_making(&self) {
        self.table.lock().hopeful = true;
    }

    /// Takes in what was made, in place of what is no good any more.
    pub(super) fn take_made(&self, made: Vec<Result<Client, ConnectError>>) {
        let mut failure = None;
        for made in made {
            match made {
                // One that was given up may have come back meanwhile.
                Ok(client) if self.to_be_made() > 0 => {
                    let version = client.protocol_version();
                    self.add(client, true);
                    self.dismiss_one();
                    // Its own news of it was out before anybody heard.
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
        // Whoever waits for somebody to come may have to give that up.
        self.changed();
    }

    /// Lets the worst go if there are more than the pool was to make. Its calls in flight go on; then its connection ends.
    fn dismiss_one(&self) {
        let mut table = self.table.lock();
        let made = table.seats.iter().filter(|seat| seat.member.made).count();
        if made <= table.size {
            return;
        }
        let worst = |seat: &Seat| match seat.member.grade() {
            _ if !seat.member.made => None,
            None => Some(0),
            Some(Grade::Unhealthy) => Some(1),
            Some(Grade::Ready | Grade::Reconnecting) => None,
        };
        let places = table.seats.iter().enumerate().filter_map(|(place, seat)| Some((worst(seat)?, place)));
        let dismissed = places.min().map(|(_, place)| table.seats.remove(place));
        drop(table);
        if dismissed.is_some() {
            self.changed();
        }
    }

    /// Whether somebody may be there soon.
    pub(super) fn is_hopeful(&self) -> bool {
        let table = self.table.lock();
        table.maker.is_some() && table.hopeful && table.size > 0
    }

    /// Whether the pool makes members itself, and is not closed.
    pub(super) fn makes_members(&self) -> bool {
        let table = self.table.lock();
        table.maker.is_some() && table.size > 0
    }
}

impl Keys {
    /// The key of a member's call for outside.
    pub(super) fn key(&mut self, member: MemberId, key: u64) -> u64 {
        *self.known.entry((member, key)).or_insert_with(|| {
            self.last += 1;
            self.last
        })
    }

    /// Whose call a key stands for, and what it is called there.
    pub(super) fn find(&self, key: u64) -> Option<(MemberId, u64)> {
        self.known.iter().find(|(_, outside)| **outside == key).map(|(inside, _)| *inside)
    }

    /// Forgets all keys but these.
    pub(super) fn keep_only(&mut self, pending: &HashSet<u64>) {
        self.known.retain(|_, key| pending.contains(key));
    }
}

/// The way of one call through a pool: to nobody twice.
#[derive(Debug, Clone, Default)]
pub(super) struct Tour {
    tried: Vec<MemberId>,
    last: Option<CallError>,
}

impl Tour {
    pub(super) fn next(&mut self, pool: &Shared, near: Option<&Affinity>) -> Option<Turn> {
        let turn = pool.pick(&self.tried, near)?;
        self.tried.push(turn.member().id);
        Some(turn)
    }

    /// How many have been tried.
    pub(super) fn len(&self) -> usize {
        self.tried.len()
    }

    /// There is nobody else.
    pub(super) fn end(self, subject: &str) -> CallError {
        self.last.unwrap_or_else(|| CallError::not_sent(subject, CallErrorKind::NoServer(NoServerCause::NoneAvailable)))
    }

    /// Takes note of a failure; gives it back if the call must not be made elsewhere.
    pub(super) fn failed(&mut self, error: CallError, is_safe: impl FnOnce() -> bool) -> Result<(), CallError> {
        let lost = error.is_disconnected();
        // Another may speak a revision that has it, or be in better health.
        let refused = matches!(
            error.kind(),
            CallErrorKind::CircuitOpen(_) | CallErrorKind::Unsupported(UnsupportedCause::Revision { .. })
        );
        let unsent = error.delivery() == Delivery::NotSent && (lost || refused);
        if unsent || (lost && is_safe()) {
            // If it may have run anywhere, that is what there is to say in the end.
            if !self.last.as_ref().is_some_and(CallError::may_have_run) {
                self.last = Some(error);
            }
            return Ok(());
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use turms_core::Ended;

    use super::*;
    use crate::call::error::{ClosedCause, TimeoutCause};

    #[test]
    fn what_may_have_run_is_said_in_the_end() {
        let lost =
            CallError::new("tools/call", CallErrorKind::Closed(ClosedCause::Lost(Ended::new())), Delivery::Unknown);
        let unsent = || CallError::not_sent("tools/call", CallErrorKind::Closed(ClosedCause::NotConnected(None)));
        let mut tour = Tour::default();
        tour.failed(unsent(), || false).unwrap();
        tour.failed(lost.clone(), || true).unwrap();
        tour.failed(unsent(), || true).unwrap();
        assert!(tour.end("tools/call").may_have_run());
        assert!(Tour::default().failed(lost, || false).unwrap_err().may_have_run());
        assert!(!Tour::default().end("tools/call").may_have_run());
    }

    #[test]
    fn an_answer_is_not_asked_for_elsewhere() {
        let answered = CallError::server("tools/call", turms_proto::ErrorObject::internal("no"));
        let timed_out = CallErrorKind::Timeout(TimeoutCause::Response(std::time::Duration::ZERO));
        let timed_out = CallError::new("tools/call", timed_out, Delivery::Unknown);
        for error in [answered, timed_out] {
            assert!(Tour::default().failed(error, || true).is_err());
        }
        let resting = CallErrorKind::CircuitOpen(std::time::Duration::ZERO);
        assert!(Tour::default().failed(CallError::not_sent("tools/call", resting), || false).is_ok());
    }
}
