use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use turms_core::BoxFuture;
use turms_proto::Notification;
use turms_proto::method::Method as _;
use turms_proto::session::{Negotiated, RequestOptions};
use turms_proto::types::{LoggingLevel, SetLevel};

use super::attempts::Attempts;
use super::member::{MemberGuard, PoolMember};
use super::shared::PoolShared;
use super::subscriptions;
use crate::backend::Backend;
use crate::call::error::{CallError, CallErrorKind, NoServerCause};
use crate::call::options::{CallOptions, CallTimeouts};
use crate::call::{CallOutput, CallRequest, SessionCall};
use crate::control::{ClientControl, EventInterest};
use crate::event::{ConnectionEvent, Event, Events};
use crate::layer::track::PendingCalls;
use crate::members::{best_status, total_stats};
use crate::state::ClientStats;
use turms_proto::session::ConnectionStatus;

/// The [`Backend`] of [`Pool::as_client`](super::Pool::as_client).
pub(super) struct PoolBackend(pub(super) Arc<PoolShared>);

impl Backend for PoolBackend {
    fn call<'a>(&'a self, call: &'a CallRequest) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        Box::pin(self.0.lifetime.pending.track(call, || self.call_members(call)))
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), CallError>> {
        Box::pin(async move {
            let members = self.0.connected_members();
            let sent = members.iter().map(|member| member.client.backend().notify(notification.clone()));
            let outcomes = join_all(sent).await.into_iter();
            // One success is enough: a notification fails only if the member has lost its connection.
            let best = outcomes.reduce(|first, next| if next.is_ok() { next } else { first });
            best.unwrap_or_else(|| Err(none_available(&notification.method)))
        })
    }

    fn control(&self) -> &dyn ClientControl {
        self
    }
}

impl ClientControl for PoolBackend {
    /// Returns the status of the best member. A pool that replaces its members is `Closed` only after
    /// [`close`](Self::close).
    fn status(&self) -> ConnectionStatus {
        match best_status(self.0.members().iter().map(|member| member.client.status())) {
            ConnectionStatus::Ready => ConnectionStatus::Ready,
            ConnectionStatus::Closed if !self.0.replaces_members() => ConnectionStatus::Closed,
            _ => ConnectionStatus::Disconnected,
        }
    }

    fn server(&self) -> Option<Arc<Negotiated>> {
        let mut members = self.0.members();
        // The sort is stable: among equals, the oldest member comes first.
        members.sort_by_key(|member| member.grade().map_or((1, None), |grade| (0, Some(grade))));
        members.iter().find_map(|member| member.client.opened())
    }

    fn events(&self, interest: EventInterest) -> Events {
        let events = self.0.events.subscribe();
        if interest == EventInterest::AskServer && !self.0.wants_list_changes.swap(true, Ordering::SeqCst) {
            self.0.members().iter().for_each(|member| self.0.request_list_changes(&member.client));
        }
        events
    }

    fn pending(&self) -> &PendingCalls {
        &self.0.lifetime.pending
    }

    fn stats(&self) -> ClientStats {
        total_stats(self.0.members().iter().map(|member| &member.client))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.close())
    }
}

impl PoolBackend {
    /// Runs a call: most go to one member, the log level goes to all, and subscriptions move between members.
    async fn call_members(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        if call.is_raw() {
            return self.send(call.clone()).await;
        }
        let (pool, options) = (&self.0, &call.options);
        match SessionCall::of(call)? {
            Some(SessionCall::SetLogLevel(level)) => self.set_level(level, options).await?,
            Some(SessionCall::Subscribe(uri)) => subscriptions::subscribe(pool, uri, options).await?,
            Some(SessionCall::Unsubscribe(uri)) => subscriptions::unsubscribe(pool, uri, options).await?,
            Some(SessionCall::Listen(filter)) => {
                return subscriptions::listen(pool, filter, options).await.map(CallOutput::subscription);
            }
            Some(SessionCall::Ping) | None => return self.send(call.clone()).await,
        }
        Ok(CallOutput::empty())
    }

    /// Sends a call to one member after the other, until it succeeds or must not be retried.
    async fn send(&self, mut call: CallRequest) -> Result<CallOutput, CallError> {
        let pool = &self.0;
        // The members share one tool index: a tool may have been listed by another member.
        call.options.tools = Some(pool.tools.clone());
        let mut attempts = Attempts::default();
        loop {
            let Some(guard) = self.next(&mut attempts, &call).await? else { return Err(attempts.error(call.target())) };
            if attempts.len() > 1 {
                pool.failovers.fetch_add(1, Ordering::Relaxed);
                let attempt = u32::try_from(attempts.len() - 1).unwrap_or(u32::MAX);
                pool.events.publish(&Event::Retrying { target: call.target().to_string().into(), attempt });
            }
            match guard.call(&call).await {
                Err(error) => attempts.failed(error, || call.is_idempotent(Some(&pool.tools)))?,
                output => return output,
            }
        }
    }

    /// Returns the next member. If there is none but the pool is connecting one, waits up to the timeout of the call.
    async fn next(&self, attempts: &mut Attempts, call: &CallRequest) -> Result<Option<MemberGuard>, CallError> {
        let pool = &self.0;
        if let Some(guard) = attempts.next(pool, Some(call)) {
            return Ok(Some(guard));
        }
        let mut changes = pool.changes.subscribe();
        let available = async {
            loop {
                let guard = attempts.next(pool, Some(call));
                if guard.is_some() || !pool.is_connecting() || changes.changed().await.is_err() {
                    return guard;
                }
            }
        };
        let timeouts = CallTimeouts { timeout: RequestOptions::DEFAULT_TIMEOUT, max_duration: None };
        let available = async {
            match timeouts.request(&call.options).timeout {
                Some(timeout) => tokio::time::timeout(timeout, available).await.unwrap_or_default(),
                None => available.await,
            }
        };
        tokio::select! {
            guard = available => Ok(guard),
            () = call.cancellation.cancelled_with(call.options.cancellation.as_ref()) => {
                Err(CallError::not_sent(call.target(), CallErrorKind::Cancelled))
            }
        }
    }

    async fn set_level(&self, level: LoggingLevel, options: &CallOptions) -> Result<(), CallError> {
        let pool = &self.0;
        *pool.level.lock() = Some(level);
        let members = pool.connected_members();
        let outcomes = join_all(members.iter().map(|member| member.set_level(level, options))).await;
        // Wakes the maintenance tasks: they set the level of members that reconnect, or that a concurrent call set
        // differently.
        pool.notify_changed();
        let is_lost = |outcome: &Result<(), CallError>| outcome.as_ref().is_err_and(CallError::is_disconnected);
        let (lost, reached): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(is_lost);
        let decisive = if reached.is_empty() { lost } else { reached };
        decisive.into_iter().reduce(Result::and).unwrap_or_else(|| Err(none_available(SetLevel::NAME)))
    }
}

impl PoolShared {
    fn connected_members(&self) -> Vec<Arc<PoolMember>> {
        let mut members = self.members();
        members.retain(|member| member.is_connected());
        members
    }

    pub(super) async fn close(&self) {
        let clients = self.shut_down();
        join_all(clients.iter().map(|client| client.close())).await;
        self.events.connection(ConnectionEvent::Closed);
        self.events.close();
    }
}

fn none_available(target: &str) -> CallError {
    CallError::not_sent(target, CallErrorKind::NoServer(NoServerCause::NoneAvailable))
}
