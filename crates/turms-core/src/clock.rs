use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use turms_proto::session::RequestOptions;

use crate::peer::PeerError;

/// The clock of one call: a timeout that progress renews, and a maximum duration that nothing renews.
///
/// Channels have no timeouts. The clock runs around the future of a call and drops it at the timeout, which cancels the request.
#[derive(Clone)]
pub struct CallClock(Arc<ClockState>);

struct ClockState {
    timeout: Option<Duration>,
    max_duration: Option<Duration>,
    times: Mutex<ClockTimes>,
    resumed: Notify,
    is_over: AtomicBool,
}

/// The moments from which the limits count. Pauses move them.
#[derive(Default)]
struct ClockTimes {
    started: Option<Instant>,
    renewed: Option<Instant>,
    pauses: usize,
    paused_at: Option<Instant>,
}

/// The event that the clock waits for next.
enum ClockWait {
    Forever,
    Until(Instant, PeerError),
    Resumed,
}

impl CallClock {
    /// Creates a clock with these limits; `None` for no limit.
    #[must_use]
    pub fn new(timeout: Option<Duration>, max_duration: Option<Duration>) -> Self {
        let (times, resumed, is_over) = (Mutex::default(), Notify::new(), AtomicBool::new(false));
        Self(Arc::new(ClockState { timeout, max_duration, times, resumed, is_over }))
    }

    /// Runs a call until it finishes or times out.
    ///
    /// # Errors
    /// [`PeerError::TimedOut`] or [`PeerError::MaxDuration`].
    pub async fn run<F: Future>(&self, call: F) -> Result<F::Output, PeerError> {
        let mut call = pin!(call);
        // Many calls finish when they are first polled and need no timer.
        if let Poll::Ready(output) = std::future::poll_fn(|task| Poll::Ready(call.as_mut().poll(task))).await {
            return Ok(output);
        }
        // Boxed: timers are large.
        Box::pin(self.run_timed(call)).await
    }

    async fn run_timed<F: Future>(&self, mut call: Pin<&mut F>) -> Result<F::Output, PeerError> {
        self.start();
        loop {
            match self.next_wait() {
                ClockWait::Forever => return Ok(call.await),
                ClockWait::Resumed => tokio::select! {
                    biased;
                    output = &mut call => return Ok(output),
                    () = self.0.resumed.notified() => {}
                },
                ClockWait::Until(moment, _) => tokio::select! {
                    biased;
                    output = &mut call => return Ok(output),
                    () = tokio::time::sleep_until(moment) => {}
                },
            }
            // Progress or a pause may have moved the deadline.
            if let ClockWait::Until(moment, error) = self.next_wait()
                && moment <= Instant::now()
            {
                self.0.is_over.store(true, Ordering::Release);
                return Err(error);
            }
        }
    }

    /// Renews the timeout. For progress only: a server could send other messages forever.
    pub fn renew(&self) {
        let mut times = self.0.times.lock();
        if times.started.is_some() {
            times.renewed = Some(Instant::now());
        }
    }

    /// Stops the clock while `work` runs, such as a login.
    pub async fn paused<F: Future>(&self, work: F) -> F::Output {
        let _pause = self.pause();
        work.await
    }

    /// Stops the clock until the guard is dropped.
    #[must_use]
    pub fn pause(&self) -> ClockPause<'_> {
        ClockPause::new(&self.0)
    }

    /// Returns `true` if the call was dropped because it timed out.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_over.load(Ordering::Acquire)
    }

    fn start(&self) {
        let mut times = self.0.times.lock();
        let now = Instant::now();
        times.renewed = Some(now);
        times.started.get_or_insert(now);
    }

    fn next_wait(&self) -> ClockWait {
        let ClockState { timeout, max_duration, times, .. } = &*self.0;
        let times = times.lock();
        if times.pauses > 0 {
            return ClockWait::Resumed;
        }
        let deadline = |from: Option<Instant>, limit: &Option<Duration>| {
            from.zip(*limit).and_then(|(from, limit)| Some((from.checked_add(limit)?, limit)))
        };
        match (deadline(times.renewed, timeout), deadline(times.started, max_duration)) {
            (Some((next, _)), Some((last, limit))) if last < next => {
                ClockWait::Until(last, PeerError::MaxDuration(limit))
            }
            (Some((next, limit)), _) => ClockWait::Until(next, PeerError::TimedOut(limit)),
            (None, Some((last, limit))) => ClockWait::Until(last, PeerError::MaxDuration(limit)),
            (None, None) => ClockWait::Forever,
        }
    }
}

/// The limits of [`RequestOptions`].
impl From<RequestOptions> for CallClock {
    fn from(options: RequestOptions) -> Self {
        Self::new(options.timeout, options.max_timeout)
    }
}

impl fmt::Debug for CallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClockState { timeout, max_duration, .. } = &*self.0;
        f.debug_struct("CallClock")
            .field("timeout", timeout)
            .field("max_duration", max_duration)
            .finish_non_exhaustive()
    }
}

/// A pause of a [`CallClock`], until it is dropped.
pub struct ClockPause<'a>(&'a ClockState);

impl fmt::Debug for ClockPause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClockPause(..)")
    }
}

impl<'a> ClockPause<'a> {
    fn new(state: &'a ClockState) -> Self {
        let mut times = state.times.lock();
        times.pauses += 1;
        times.paused_at.get_or_insert_with(Instant::now);
        Self(state)
    }
}

impl Drop for ClockPause<'_> {
    fn drop(&mut self) {
        let mut times = self.0.times.lock();
        times.pauses -= 1;
        if times.pauses == 0
            && let Some(paused_at) = times.paused_at.take()
        {
            let pause = paused_at.elapsed();
            times.started = times.started.map(|moment| moment + pause);
            times.renewed = times.renewed.map(|moment| moment + pause);
            drop(times);
            self.0.resumed.notify_one();
        }
    }
}

/// Pauses that any number of clocks follow, such as those of all calls that wait for the authorizer of a connection.
#[derive(Clone, Default)]
pub struct ClockPauses(Arc<watch::Sender<PauseState>>);

#[derive(Default)]
struct PauseState {
    pauses: usize,
    paused_at: Option<Instant>,
    total: Duration,
}

impl ClockPauses {
    /// Creates pauses that no clock follows yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops the clocks while `work` runs.
    pub async fn during<F: Future>(&self, work: F) -> F::Output {
        self.0.send_modify(|state| {
            state.pauses += 1;
            state.paused_at.get_or_insert_with(Instant::now);
        });
        let _resume = ResumeClocks(&self.0);
        work.await
    }

    /// Runs `work`. These clocks are stopped during the pauses.
    pub async fn follow<F: Future>(&self, clocks: &[CallClock], work: F) -> F::Output {
        let mut state = self.0.subscribe();
        let pauses = async {
            loop {
                // The sender is alive, so waiting does not fail.
                let _ = state.wait_for(|state| state.pauses > 0).await;
                let _pauses: Vec<_> = clocks.iter().map(CallClock::pause).collect();
                let _ = state.wait_for(|state| state.pauses == 0).await;
            }
        };
        tokio::select! {
            biased;
            output = work => output,
            () = pauses => unreachable!("the loop has no end"),
        }
    }

    /// Returns the duration of all pauses that have ended.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.0.borrow().total
    }
}

impl fmt::Debug for ClockPauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockPauses").field("pauses", &self.0.borrow().pauses).finish_non_exhaustive()
    }
}

/// Ends a pause when it is dropped.
struct ResumeClocks<'a>(&'a watch::Sender<PauseState>);

impl Drop for ResumeClocks<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|state| {
            state.pauses -= 1;
            if state.pauses == 0
                && let Some(paused_at) = state.paused_at.take()
            {
                state.total += paused_at.elapsed();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_at_its_timeout_or_at_its_maximum_duration() {
        let begun = Instant::now();
        let timed_out = CallClock::new(Some(SECOND), Some(3 * SECOND)).run(pending::<()>()).await;
        assert!(matches!(timed_out, Err(PeerError::TimedOut(SECOND))));
        assert_eq!(begun.elapsed(), SECOND);
        let too_long = CallClock::new(Some(3 * SECOND), Some(SECOND)).run(pending::<()>()).await;
        assert!(matches!(too_long, Err(PeerError::MaxDuration(SECOND))));
        let clock = CallClock::new(None, None);
        let finished = clock.run(tokio::time::sleep(100 * SECOND)).await;
        assert!(finished.is_ok() && !clock.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn progress_renews_the_timeout_up_to_the_maximum_duration() {
        let clock = CallClock::new(Some(2 * SECOND), Some(5 * SECOND));
        let progress = async {
            for _ in 0..10 {
                tokio::time::sleep(SECOND).await;
                clock.renew();
            }
        };
        let outcome = tokio::join!(clock.run(pending::<()>()), progress).0;
        assert!(matches!(outcome, Err(PeerError::MaxDuration(limit)) if limit == 5 * SECOND));
        assert!(clock.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_does_not_count() {
        let clock = CallClock::new(Some(2 * SECOND), Some(3 * SECOND));
        let begun = Instant::now();
        let call = async {
            tokio::time::sleep(SECOND).await;
            clock.paused(tokio::time::sleep(10 * SECOND)).await;
            pending::<()>().await;
        };
        assert!(clock.run(call).await.is_err());
        assert_eq!(begun.elapsed(), 12 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn several_clocks_follow_the_same_pauses() {
        let pauses = ClockPauses::new();
        let run = async |limit: Duration| {
            let (clock, begun) = (CallClock::new(Some(limit), None), Instant::now());
            let outcome = clock.run(pauses.follow(std::slice::from_ref(&clock), pending::<()>())).await;
            assert!(matches!(outcome, Err(PeerError::TimedOut(reached)) if reached == limit));
            begun.elapsed()
        };
        let login = async {
            tokio::time::sleep(SECOND).await;
            tokio::join!(pauses.during(tokio::time::sleep(60 * SECOND)), pauses.during(tokio::time::sleep(SECOND)));
        };
        let (first, second, ()) = tokio::join!(run(2 * SECOND), run(3 * SECOND), login);
        assert_eq!((first, second, pauses.total()), (62 * SECOND, 63 * SECOND, 60 * SECOND));
    }
}
