//! Forwarding of a handler's `tracing` events to the client as MCP log messages.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context as SubscriberContext, Layer};
use turms_proto::types::{LogMessage, LoggingLevel, LoggingMessageNotification};
use turms_proto::{Notification, RawJson};

use crate::context::Context;
use crate::current_call::CURRENT_CALL;

/// A layer for `tracing-subscriber` that forwards the events of a handler to the client that called it, if the client
/// requests log messages of that level. Events of tasks that a handler spawns are not forwarded.
///
/// Enable it on the server as well: [`Server::forward_tracing`](crate::Server::forward_tracing).
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct ForwardTracing;

impl ForwardTracing {
    /// Creates the layer.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl<S: Subscriber> Layer<S> for ForwardTracing {
    fn on_event(&self, event: &Event<'_>, _: SubscriberContext<'_, S>) {
        // Events outside a call are not forwarded.
        let _ = CURRENT_CALL.try_with(|context| forward(event, context));
    }
}

fn forward(event: &Event<'_>, context: &Context) {
    let level = level_of(*event.metadata().level());
    if !context.log_enabled(level) {
        return;
    }
    let mut fields = EventFields::default();
    event.record(&mut fields);
    let message = LogMessage::new(level, fields.into_data()).logger(event.metadata().target());
    if let Ok(notification) = Notification::new::<LoggingMessageNotification>(&message) {
        // Never waits: the message is dropped if the client's queue is full.
        let _ = context.peer().try_notify_raw(notification);
    }
}

fn level_of(level: Level) -> LoggingLevel {
    match level {
        Level::ERROR => LoggingLevel::Error,
        Level::WARN => LoggingLevel::Warning,
        Level::INFO => LoggingLevel::Info,
        _ => LoggingLevel::Debug,
    }
}

/// The fields of an event, as JSON.
#[derive(Default)]
struct EventFields {
    message: Option<String>,
    others: Map<String, Value>,
}

impl EventFields {
    /// Returns only the message if there are no other fields, and an object otherwise.
    fn into_data(mut self) -> RawJson {
        match self.message {
            Some(message) if self.others.is_empty() => RawJson::string(&message),
            message => {
                self.others.extend(message.map(|message| ("message".to_owned(), message.into())));
                Value::Object(self.others).into()
            }
        }
    }

    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.others.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = Some(format!("{value:?}")),
            _ => self.put(field, format!("{value:?}")),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = Some(value.to_owned()),
            _ => self.put(field, value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
}
