//! A recorder of `tracing` events.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// A recorded event.
#[derive(Debug, Clone)]
pub struct TraceEvent {
    /// The level.
    pub level: Level,
    /// The fields as text, including the message.
    pub fields: BTreeMap<String, String>,
}

impl TraceEvent {
    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }
}

/// A recorder of the events of one target, or of all events and spans, on this thread.
#[derive(Debug, Clone)]
pub struct TraceEvents {
    /// `None` for all.
    target: Option<&'static str>,
    events: Arc<Mutex<Vec<TraceEvent>>>,
}

impl TraceEvents {
    /// Records events until the guard is dropped.
    pub fn record(target: &'static str) -> (Self, DefaultGuard) {
        Self::begin(Some(target))
    }

    /// Records the events and the spans of all targets until the guard is dropped.
    pub fn record_all() -> (Self, DefaultGuard) {
        Self::begin(None)
    }

    fn begin(target: Option<&'static str>) -> (Self, DefaultGuard) {
        let events = Self { target, events: Arc::default() };
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(events.clone()));
        (events, guard)
    }

    /// Takes the recorded events.
    pub fn take(&self) -> Vec<TraceEvent> {
        std::mem::take(&mut self.events.lock())
    }
}

impl<S: Subscriber> Layer<S> for TraceEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if self.target.is_some_and(|target| event.metadata().target() != target) {
            return;
        }
        let mut fields = TraceFields::default();
        event.record(&mut fields);
        let event = TraceEvent { level: *event.metadata().level(), fields: fields.0 };
        self.events.lock().push(event);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if self.target.is_none() {
            let mut fields = TraceFields::default();
            attributes.record(&mut fields);
            self.events.lock().push(TraceEvent { level: *attributes.metadata().level(), fields: fields.0 });
        }
    }
}

#[derive(Default)]
struct TraceFields(BTreeMap<String, String>);

impl Visit for TraceFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}
