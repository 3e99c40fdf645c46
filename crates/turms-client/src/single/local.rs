//! Calls to a server in this process: made at once, and most of them answered at once.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use turms_core::{Payload, PeerError, Ready};
use turms_proto::types::Task;

use super::call::read;
use super::{Live, Single};
use crate::cancel::Cancel;
use crate::error::CallError;
use crate::job::{Decoded, Job, Performed};
use crate::pending::{PendingCalls, Registered};

/// The first exchange of a call that has been made already.
pub(super) struct Begun {
    pub(super) live: Arc<Live>,
    pub(super) first: First,
}

pub(super) enum First {
    Asked(Ready<Result<Payload, PeerError>>),
    Read(Result<Decoded, CallError>),
}

impl Single {
    /// Makes a call at once, if the server is in this process. Most answers are there at once, too, and nothing is kept for
    /// anybody to wait in. Every other call goes on from where it stands.
    pub(super) fn call_local(&self, job: &Job) -> Option<Ready<Result<Performed, CallError>>> {
        // Whoever supervises looks at a call before it is made.
        if self.budget.is_some() || self.breaker.is_some() {
            return None;
        }
        let live = self.live_now()?;
        let local = live.channel.local().filter(|_| live.verified.load(Ordering::Relaxed))?;
        if self.visits_pages(&live) || job.options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return None;
        }
        let registered = self.pending.register(job, job.options.cancel.clone());
        let first = match self.outgoing(&live, job, job.params.payload()) {
            Ok(request) => match local.call(request).try_now() {
                Ok(Ok(payload)) => {
                    self.note_answer(&live);
                    First::Read(read(&live, job, payload))
                }
                Ok(Err(error)) => First::Asked(Ready::now(Err(error))),
                Err(waiting) => First::Asked(waiting),
            },
            Err(error) => First::Read(Err(error)),
        };
        Some(match first {
            First::Read(Ok(Decoded::Complete(payload))) if !may_be_task(job, &payload) => {
                Ready::now(Ok(Performed::new(payload)))
            }
            first => self.go_on(job.clone(), Begun { live, first }, registered.owned(self.pending.clone())),
        })
    }

    fn go_on(
        &self,
        job: Job,
        begun: Begun,
        registered: Registered<Arc<PendingCalls>>,
    ) -> Ready<Result<Performed, CallError>> {
        let Some(single) = self.me.upgrade() else {
            return Ready::now(Err(CallError::of_peer(job.subject(), PeerError::Closed)));
        };
        Ready::later(async move {
            let call = pin!(single.complete(&job, Some(begun)));
            registered.while_wanted(call).await
        })
    }
}

/// Whether there is more to do with a result than to hand it over.
fn may_be_task(job: &Job, payload: &Payload) -> bool {
    job.options.task.wanted || payload.get::<Task>().is_some()
}
