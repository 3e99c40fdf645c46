//! Counters that handlers increment and tests wait for.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// Counters by name. A counter starts at 0.
#[derive(Debug, Default)]
pub struct CallCounters(watch::Sender<BTreeMap<String, i64>>);

impl CallCounters {
    /// Adds to a counter and returns its new value.
    pub fn add(&self, counter: &str, by: i64) -> i64 {
        let mut value = 0;
        self.0.send_modify(|counters| {
            let count = counters.entry(counter.to_owned()).or_default();
            *count += by;
            value = *count;
        });
        value
    }

    /// Returns the value of a counter.
    pub fn count(&self, counter: &str) -> i64 {
        value_of(&self.0.borrow(), counter)
    }

    /// Returns all counters with their values.
    pub fn all(&self) -> BTreeMap<String, i64> {
        self.0.borrow().clone()
    }

    /// Waits until a counter has exactly this value. Waits forever if it never does: wrap it in [`within`](crate::within).
    pub async fn reaches(&self, counter: &str, value: i64) {
        // The sender is borrowed, so it cannot be dropped.
        let _ = self.0.subscribe().wait_for(|counters| value_of(counters, counter) == value).await;
    }
}

fn value_of(counters: &BTreeMap<String, i64>, counter: &str) -> i64 {
    counters.get(counter).copied().unwrap_or_default()
}

/// A guard that adds to a counter when it is dropped.
#[derive(Debug)]
pub struct CountOnDrop {
    counters: Arc<CallCounters>,
    counter: &'static str,
    by: i64,
}

impl CountOnDrop {
    /// Creates a guard for this counter.
    pub fn new(counters: &Arc<CallCounters>, counter: &'static str, by: i64) -> Self {
        Self { counters: counters.clone(), counter, by }
    }
}

impl Drop for CountOnDrop {
    fn drop(&mut self) {
        self.counters.add(self.counter, self.by);
    }
}
