use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use turms_core::BoxFuture;
use turms_proto::method::Method as _;
use turms_proto::session::{Opened, RequestOptions, Stats};
use turms_proto::types::{CallTool, LoggingLevel, SetLevel, SubscriptionFilter};
use turms_proto::{Ability, Notification};

use super::member::{Member, Turn};
use super::shared::{Shared, Tour};
use super::watch;
use crate::cache::Cache;
use crate::call::error::{CallError, CallErrorKind, NoServerCause};
use crate::event::{ConnectionEvent, Event, Events};
use crate::job::{Engine, Job, Performed};
use crate::listen::Subscription;
use crate::options::CallOptions;
use crate::roots::Roots;
use crate::state::{PendingCall, Status};
use crate::tool::KnownTools;

impl Shared {
    /// Makes a call with one member after the other, until it may not be made again.
    async fn make(&self, mut job: Job, mut tour: Tour, mut first: Option<Turn>) -> Result<Performed, CallError> {
        if &*job.method == CallTool::NAME {
            let known = job.name.as_deref().and_then(|name| self.tools.get(name));
            let support = known.and_then(|tool| tool.task_support().cloned());
            if job.options.task.support != support {
                job.options.task.support = support;
            }
        }
        loop {
            let turn = match first.take() {
                Some(turn) => turn,
                None => match self.turn(&mut tour, &job).await {
                    Ok(Some(turn)) => turn,
                    Ok(None) => return Err(tour.end(&job.subject())),
                    Err(error) => return Err(error),
                },
            };
            if tour.len() > 1 {
                self.moved.fetch_add(1, Ordering::Relaxed);
                let attempt = u32::try_from(tour.len() - 1).unwrap_or(u32::MAX);
                self.events.publish(&Event::Retrying { subject: job.subject().into(), attempt });
            }
            turn.count(1);
            let outcome = turn.member().client.engine().perform(job.clone()).await;
            turn.note(&outcome);
            let Err(error) = outcome else { return outcome };
            tour.failed(error, || job.is_safe_to_repeat(Some(&self.tools)))?;
        }
    }

    /// Who is next. If nobody is there but somebody may be soon, that is waited for as long as the call would wait for its
    /// answer.
    async fn turn(&self, tour: &mut Tour, job: &Job) -> Result<Option<Turn>, CallError> {
        let near = job.options.near.as_ref();
        if let Some(turn) = tour.next(self, near) {
            return Ok(Some(turn));
        }
        let mut changes = self.changes.subscribe();
        let coming = async {
            loop {
                let turn = tour.next(self, near);
                if turn.is_some() || !self.is_hopeful() || changes.changed().await.is_err() {
                    return turn;
                }
            }
        };
        let coming = async {
            match job.options.request_options(RequestOptions::DEFAULT_TIMEOUT, None).timeout {
                Some(patience) => tokio::time::timeout(patience, coming).await.unwrap_or_default(),
                None => coming.await,
            }
        };
        let Some(cancel) = &job.options.cancel else { return Ok(coming.await) };
        tokio::select! {
            turn = coming => Ok(turn),
            () = cancel.cancelled() => Err(CallError::not_sent(job.subject(), CallErrorKind::Cancelled)),
        }
    }

    /// Makes calls with one member, in one batch; those that may be made again are made elsewhere.
    async fn make_together(&self, jobs: Vec<Job>, tour: &Tour, turn: Turn) -> Vec<Result<Performed, CallError>> {
        turn.count(jobs.len());
        let outcomes = turn.member().client.engine().perform_all(jobs.clone()).await;
        outcomes.iter().for_each(|outcome| turn.note(outcome));
        drop(turn);
        let settled = outcomes.into_iter().zip(jobs).map(|(outcome, job)| async move {
            let Err(error) = outcome else { return outcome };
            let mut tour = tour.clone();
            tour.failed(error, || job.is_safe_to_repeat(Some(&self.tools)))?;
            self.make(job, tour, None).await
        });
        join_all(settled).await
    }

    async fn tell_all(&self, notification: Notification) -> Result<(), CallError> {
        let told = |member: &Arc<Member>| {
            let (member, notification) = (member.clone(), notification.clone());
            async move { member.client.engine().notify(notification).await }
        };
        let outcomes = join_all(self.connected().iter().map(told)).await;
        let none = || {
            CallError::not_sent(notification.method.to_string(), CallErrorKind::NoServer(NoServerCause::NoneAvailable))
        };
        // Whoever was told is told; whoever was not is not there to hear it.
        if outcomes.iter().any(Result::is_ok) {
            return Ok(());
        }
        outcomes.into_iter().next().unwrap_or_else(|| Err(none()))
    }

    async fn set_level(&self, level: LoggingLevel, options: CallOptions) -> Result<(), CallError> {
        *self.level.lock() = Some(level);
        let set = |member: &Arc<Member>| {
            let (member, options) = (member.clone(), options.clone());
            async move { member.set_level(level, options).await }
        };
        let outcomes = join_all(self.connected().iter().map(set)).await;
        // Whoever was told another level meanwhile is told again, and so is whoever comes back later.
        self.changed();
        let reached =
            outcomes.iter().any(|outcome| outcome.as_ref().err().is_none_or(|error| !error.is_disconnected()));
        let failed = outcomes.into_iter().find(|outcome| match outcome {
            Err(error) => !(reached && error.is_disconnected()),
            Ok(()) => false,
        });
        match failed {
            Some(failed) => failed,
            None if reached => Ok(()),
            None => Err(CallError::not_sent(SetLevel::NAME, CallErrorKind::NoServer(NoServerCause::NoneAvailable))),
        }
    }

    fn connected(&self) -> Vec<Arc<Member>> {
        let mut members = self.members();
        members.retain(|member| member.is_connected());
        members
    }
}

impl Engine for Shared {
    fn perform(&self, job: Job) -> BoxFuture<'_, Result<Performed, CallError>> {
        Box::pin(self.make(job, Tour::default(), None))
    }

    fn perform_all(&self, jobs: Vec<Job>) -> BoxFuture<'_, Vec<Result<Performed, CallError>>> {
        Box::pin(async move {
            let mut tour = Tour::default();
            let mut first = tour.next(self, None);
            let batches = |turn: &mut Turn| {
                let version = turn.member().client.protocol_version();
                version.is_some_and(|version| version.has(Ability::Batching))
            };
            if let Some(turn) = first.take_if(batches) {
                return self.make_together(jobs, &tour, turn).await;
            }
            // Side by side, each has a member of its own; the one that was chosen already takes the first.
            let calls = jobs.into_iter().map(|job| match first.take() {
                Some(turn) => self.make(job, std::mem::take(&mut tour), Some(turn)),
                None => self.make(job, Tour::default(), None),
            });
            join_all(calls).await
        })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(self.tell_all(notification))
    }

    fn set_log_level(&self, level: LoggingLevel, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(self.set_level(level, options))
    }

    fn subscribe(&self, uri: String, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(watch::subscribe(self, uri, options))
    }

    fn unsubscribe(&self, uri: String, options: CallOptions) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(watch::unsubscribe(self, uri, options))
    }

    fn listen(
        &self,
        filter: SubscriptionFilter,
        options: CallOptions,
    ) -> BoxFuture<'_, Result<Subscription, CallError>> {
        Box::pin(watch::listen(self, filter, options))
    }

    fn events(&self) -> Events {
        let events = self.events.subscribe();
        if !self.hears_lists.swap(true, Ordering::SeqCst) {
            self.members().iter().for_each(|member| self.hear_lists(&member.client));
        }
        events
    }

    fn overhear(&self) -> Events {
        self.events.subscribe()
    }

    /// Of the best member. A pool that makes its members itself is over only when it is closed.
    fn status(&self) -> Status {
        let statuses: Vec<_> = self.members().iter().map(|member| member.client.status()).collect();
        if statuses.contains(&Status::Connected) {
            Status::Connected
        } else if statuses.contains(&Status::Reconnecting) || self.makes_members() {
            Status::Reconnecting
        } else {
            Status::Closed
        }
    }

    fn opened(&self) -> Option<Arc<Opened>> {
        let mut members = self.members();
        // The sort is stable: among equals it is the one that is there for longest.
        members.sort_by_key(|member| member.grade().map_or((1, None), |grade| (0, Some(grade))));
        members.iter().find_map(|member| member.client.opened())
    }

    fn stats(&self) -> Stats {
        self.members().iter().fold(Stats::default(), |mut sum, member| {
            sum += member.client.stats();
            sum
        })
    }

    fn pending(&self) -> Vec<PendingCall> {
        let pending = self.members().into_iter().map(|member| (member.id, member.client.pending()));
        let pending: Vec<_> = pending.collect();
        let mut keys = self.keys.lock();
        let calls = pending.into_iter().flat_map(|(member, calls)| calls.into_iter().map(move |call| (member, call)));
        let mut calls: Vec<_> =
            calls.map(|(member, call)| PendingCall { key: keys.key(member, call.key), ..call }).collect();
        keys.keep_only(&calls.iter().map(|call| call.key).collect());
        calls.sort_by_key(|call| std::cmp::Reverse(call.waiting));
        calls
    }

    fn cancel(&self, key: u64) -> bool {
        let Some((member, key)) = self.keys.lock().find(key) else { return false };
        self.members().iter().find(|known| known.id == member).is_some_and(|member| member.client.cancel(key))
    }

    fn roots(&self) -> Option<&Roots> {
        self.roots.get()
    }

    /// None: whether the members lead to the same server is not known.
    fn cache(&self) -> Option<&Cache> {
        None
    }

    fn tools(&self) -> Option<&KnownTools> {
        Some(&self.tools)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(clients) = self.shut() else { return };
            join_all(clients.iter().map(|client| client.close())).await;
            self.events.connection(ConnectionEvent::Closed);
            self.events.close();
        })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("members", &self.members().len()).finish_non_exhaustive()
    }
}
