use serde_json::Value;
use turms::client::{BreakerState, Change, ConnectionEvent, Event};
use turms::types::{LogMessage, LoggingLevel, Task};

use crate::text::{Style, StyledText};

/// Formats a log message of the server.
pub(crate) fn log(message: &LogMessage) -> StyledText {
    let style = match message.level {
        LoggingLevel::Debug | LoggingLevel::Info | LoggingLevel::Notice => Style::Dim,
        LoggingLevel::Warning => Style::Warning,
        _ => Style::Error,
    };
    let logger = message.logger.as_deref().map_or_else(String::new, |logger| format!(" {logger}"));
    let text = match serde_json::from_str(message.data.as_str()) {
        Ok(Value::String(text)) => text,
        _ => message.data.as_str().to_owned(),
    };
    StyledText::new().with(style, format!("log {}{logger}: ", message.level.as_str())).plain(text)
}

/// Formats the status of a task.
pub(crate) fn task(task: &Task) -> StyledText {
    let text = StyledText::new().name(&task.task_id).plain(format!("  {}", task.status.as_str().replace('_', " ")));
    match (&task.status_message, &task.error) {
        (_, Some(error)) => text.plain(format!(": {error}")),
        (Some(message), None) => text.plain(format!(": {message}")),
        (None, None) => text,
    }
}

/// Formats a change notification.
pub(crate) fn change(change: &Change) -> StyledText {
    StyledText::from(match change {
        Change::ToolList => "the list of tools changed".to_owned(),
        Change::PromptList => "the list of prompts changed".to_owned(),
        Change::ResourceList => "the list of resources changed".to_owned(),
        Change::Resource { uri } => format!("resource {uri} changed"),
        other => format!("{other:?}"),
    })
}

/// Formats an event of the client; `None` if it is not shown. Log messages and progress are shown elsewhere.
pub(crate) fn event(event: &Event) -> Option<StyledText> {
    let text = match event {
        Event::ToolsChanged => change(&Change::ToolList),
        Event::PromptsChanged => change(&Change::PromptList),
        Event::ResourcesChanged => change(&Change::ResourceList),
        Event::ResourceUpdated { uri } => change(&Change::Resource { uri: uri.clone() }),
        Event::ElicitationComplete { id } => StyledText::from(format!("elicitation {id:?} is complete")),
        Event::TaskUpdated(changed) => StyledText::new().plain("task ").plain(task(changed).render(false)),
        Event::Retrying { target, attempt } => StyledText::from(format!("retrying {target} (retry {attempt})")),
        Event::CircuitBreaker(BreakerState::Open) => StyledText::from("too many failures: the circuit breaker is open"),
        Event::Connection(event) => return connection(event),
        Event::Lagged(number) => StyledText::from(format!("{number} events were dropped")),
        Event::Notification(notification) => {
            let params = notification.params.as_ref().map_or("", |params| params.as_str());
            StyledText::from(format!("{} {params}", notification.method))
        }
        _ => return None,
    };
    Some(StyledText::new().with(Style::Hint, "* ").plain(text.render(false)))
}

fn connection(event: &ConnectionEvent) -> Option<StyledText> {
    let text = match event {
        ConnectionEvent::Lost(ended) => format!("connection closed: {ended}"),
        ConnectionEvent::Reconnecting { attempt: 1, .. } => "reconnecting".to_owned(),
        ConnectionEvent::Connected { generation, .. } if *generation > 1 => "reconnected".to_owned(),
        ConnectionEvent::ReconnectFailed => "reconnecting failed; no further attempts".to_owned(),
        _ => return None,
    };
    Some(StyledText::new().with(Style::Warning, "* ").plain(text))
}

#[cfg(test)]
mod tests {
    use turms::types::RawJson;

    use super::*;

    #[test]
    fn a_log_message_shows_its_level() {
        let message = LogMessage::new(LoggingLevel::Error, RawJson::string("no\u{1b}[2J")).logger("disk");
        assert_eq!(log(&message).render(false), "log error disk: no\\u{1b}[2J");
        let message = LogMessage::new(LoggingLevel::Info, RawJson::parse(r#"{"a":1}"#).unwrap());
        assert_eq!(log(&message).render(false), r#"log info: {"a":1}"#);
    }
}
