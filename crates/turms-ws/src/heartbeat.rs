use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// The options of the heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeartbeatOptions {
    /// The time without messages after which the peer is pinged; `None` for no pings. Default: 30 s.
    pub(crate) interval: Option<Duration>,
    /// Timeout for any message after a ping. Default: 30 s.
    pub(crate) timeout: Duration,
}

impl Default for HeartbeatOptions {
    fn default() -> Self {
        Self { interval: Some(Duration::from_secs(30)), timeout: Duration::from_secs(30) }
    }
}

/// Decides when to ping an idle peer, and when a peer has timed out.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    options: HeartbeatOptions,
    last_received: Instant,
    pinged: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// The action for an idle peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeartbeatAction {
    /// Send a ping.
    Ping,
    /// Close the connection: the peer did not respond to a ping. Contains the time since its last message.
    TimedOut(Duration),
}

impl Heartbeat {
    pub(crate) fn new(options: HeartbeatOptions) -> Self {
        Self { options, last_received: Instant::now(), pinged: None, sleep: None }
    }

    /// Restarts the interval, because the peer is alive.
    pub(crate) fn reset(&mut self) {
        self.last_received = Instant::now();
        self.pinged = None;
    }

    /// Ready when an action is due.
    pub(crate) fn poll(&mut self, task: &mut TaskContext<'_>) -> Poll<HeartbeatAction> {
        while let Some(deadline) = self.deadline() {
            let now = Instant::now();
            if deadline <= now {
                return Poll::Ready(self.action(now));
            }
            ready!(self.poll_sleep(deadline, task));
        }
        Poll::Pending
    }

    fn deadline(&self) -> Option<Instant> {
        match self.pinged {
            None => self.last_received.checked_add(self.options.interval?),
            Some(pinged) => pinged.checked_add(self.options.timeout),
        }
    }

    fn action(&mut self, now: Instant) -> HeartbeatAction {
        if self.pinged.is_some() {
            return HeartbeatAction::TimedOut(now - self.last_received);
        }
        self.pinged = Some(now);
        HeartbeatAction::Ping
    }

    /// Polls the timer. Messages are more frequent than timeouts, so a later deadline does not reset the timer until it
    /// elapses.
    fn poll_sleep(&mut self, deadline: Instant, task: &mut TaskContext<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.is_elapsed() || deadline < sleep.deadline() {
            sleep.as_mut().reset(deadline);
        }
        sleep.as_mut().poll(task)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_pinged_and_then_times_out() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(HeartbeatOptions::default());
        assert_eq!(poll_fn(|task| heartbeat.poll(task)).await, HeartbeatAction::Ping);
        assert_eq!(start.elapsed().as_secs(), 30);
        let HeartbeatAction::TimedOut(silence) = poll_fn(|task| heartbeat.poll(task)).await else { panic!() };
        assert_eq!((start.elapsed().as_secs(), silence.as_secs()), (60, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_restarts_the_interval() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(HeartbeatOptions::default());
        assert!(poll_fn(|task| Poll::Ready(heartbeat.poll(task).is_pending())).await);
        tokio::time::advance(Duration::from_secs(20)).await;
        heartbeat.reset();
        assert_eq!(poll_fn(|task| heartbeat.poll(task)).await, HeartbeatAction::Ping);
        assert_eq!(start.elapsed().as_secs(), 50);
        tokio::time::advance(Duration::from_secs(10)).await;
        heartbeat.reset();
        assert_eq!(poll_fn(|task| heartbeat.poll(task)).await, HeartbeatAction::Ping);
        assert_eq!(start.elapsed().as_secs(), 90);
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_no_pings_without_an_interval() {
        let mut heartbeat = Heartbeat::new(HeartbeatOptions { interval: None, ..HeartbeatOptions::default() });
        let action = tokio::time::timeout(Duration::from_secs(86_400), poll_fn(|task| heartbeat.poll(task))).await;
        assert!(action.is_err());
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time};

        let it = HeartbeatOptions::default();
        let code = [
            ("HeartbeatOptions::interval", time(it.interval.unwrap())),
            ("HeartbeatOptions::timeout", time(it.timeout)),
        ];
        assert_documented(include_str!("heartbeat.rs"), &code);
    }
}
