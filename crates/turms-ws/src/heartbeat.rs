use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// When to ask a quiet peer whether it is there, and when to give it up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeepAlive {
    /// How long a peer may be quiet before it is asked; never asked if nothing is said.
    pub(crate) interval: Option<Duration>,
    /// How long it may stay quiet once it has been asked.
    pub(crate) timeout: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { interval: Some(Duration::from_secs(30)), timeout: Duration::from_secs(30) }
    }
}

/// Watches for signs of life.
#[derive(Debug)]
pub(crate) struct Pulse {
    keep_alive: KeepAlive,
    heard: Instant,
    asked: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// What a silence calls for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Ask whether the peer is there.
    Ask,
    /// It has been silent for so long that it is not.
    Over(Duration),
}

impl Pulse {
    pub(crate) fn new(keep_alive: KeepAlive) -> Self {
        Self { keep_alive, heard: Instant::now(), asked: None, sleep: None }
    }

    /// The peer has shown that it is there.
    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
        self.asked = None;
    }

    /// Ready when something has to be done about a silence.
    pub(crate) fn poll(&mut self, task: &mut TaskContext<'_>) -> Poll<Silence> {
        while let Some(due) = self.due() {
            let now = Instant::now();
            if due <= now {
                return Poll::Ready(self.speak(now));
            }
            ready!(self.poll_sleep(due, task));
        }
        Poll::Pending
    }

    fn due(&self) -> Option<Instant> {
        match self.asked {
            None => self.heard.checked_add(self.keep_alive.interval?),
            Some(asked) => asked.checked_add(self.keep_alive.timeout),
        }
    }

    fn speak(&mut self, now: Instant) -> Silence {
        if self.asked.is_some() {
            return Silence::Over(now - self.heard);
        }
        self.asked = Some(now);
        Silence::Ask
    }

    /// Signs of life come more often than silences: a timer that was set too early is left to run out, and set anew then.
    fn poll_sleep(&mut self, due: Instant, task: &mut TaskContext<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if sleep.is_elapsed() || due < sleep.deadline() {
            sleep.as_mut().reset(due);
        }
        sleep.as_mut().poll(task)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_quiet_peer_is_asked_and_then_given_up() {
        let start = Instant::now();
        let mut pulse = Pulse::new(KeepAlive::default());
        assert_eq!(poll_fn(|task| pulse.poll(task)).await, Silence::Ask);
        assert_eq!(start.elapsed().as_secs(), 30);
        let Silence::Over(silence) = poll_fn(|task| pulse.poll(task)).await else { panic!() };
        assert_eq!((start.elapsed().as_secs(), silence.as_secs()), (60, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_sign_of_life_begins_the_wait_anew() {
        let start = Instant::now();
        let mut pulse = Pulse::new(KeepAlive::default());
        assert!(poll_fn(|task| Poll::Ready(pulse.poll(task).is_pending())).await);
        tokio::time::advance(Duration::from_secs(20)).await;
        pulse.heard();
        assert_eq!(poll_fn(|task| pulse.poll(task)).await, Silence::Ask);
        assert_eq!(start.elapsed().as_secs(), 50);
        tokio::time::advance(Duration::from_secs(10)).await;
        pulse.heard();
        assert_eq!(poll_fn(|task| pulse.poll(task)).await, Silence::Ask);
        assert_eq!(start.elapsed().as_secs(), 90);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_asked_if_nobody_is_to_be() {
        let mut pulse = Pulse::new(KeepAlive { interval: None, ..KeepAlive::default() });
        let asked = tokio::time::timeout(Duration::from_secs(86_400), poll_fn(|task| pulse.poll(task))).await;
        assert!(asked.is_err());
    }
}
