use serde_json::Value;
use turms::client::{BreakerState, Change, ConnectionEvent, Event};
use turms::types::{LogMessage, LoggingLevel, Task};

use crate::text::{Style, Text};

/// A message of the server's log.
pub(crate) fn log(message: &LogMessage) -> Text {
    let style = match message.level {
        LoggingLevel::Debug | LoggingLevel::Info | LoggingLevel::Notice => Style::Faint,
        LoggingLevel::Warning => Style::Warning,
        _ => Style::Bad,
    };
    let logger = message.logger.as_deref().map_or_else(String::new, |logger| format!(" {logger}"));
    let said = match serde_json::from_str(message.data.as_str()) {
        Ok(Value::String(text)) => text,
        _ => message.data.as_str().to_owned(),
    };
    Text::new().with(style, format!("log {}{logger}: ", message.level.as_str())).plain(said)
}

/// How a task stands.
pub(crate) fn task(task: &Task) -> Text {
    let text = Text::new().name(&task.task_id).plain(format!("  {}", task.status.as_str().replace('_', " ")));
    match (&task.status_message, &task.error) {
        (_, Some(error)) => text.plain(format!(": {error}")),
        (Some(message), None) => text.plain(format!(": {message}")),
        (None, None) => text,
    }
}

/// A change at the server.
pub(crate) fn change(change: &Change) -> Text {
    Text::from(match change {
        Change::Tools => "the list of tools has changed".to_owned(),
        Change::Prompts => "the list of prompts has changed".to_owned(),
        Change::Resources => "the list of resources has changed".to_owned(),
        Change::Resource { uri } => format!("resource {uri} has changed"),
        other => format!("{other:?}"),
    })
}

/// What happens while nobody asks, as far as it is worth a line. The log and progress are told elsewhere.
pub(crate) fn event(event: &Event) -> Option<Text> {
    let told = match event {
        Event::ToolsChanged => change(&Change::Tools),
        Event::PromptsChanged => change(&Change::Prompts),
        Event::ResourcesChanged => change(&Change::Resources),
        Event::ResourceUpdated { uri } => change(&Change::Resource { uri: uri.clone() }),
        Event::ElicitationComplete { id } => Text::from(format!("the page of question {id:?} has been dealt with")),
        Event::TaskChanged(changed) => Text::new().plain("task ").plain(task(changed).render(false)),
        Event::Retrying { subject, attempt } => Text::from(format!("{subject} is tried again (repetition {attempt})")),
        Event::Breaker(BreakerState::Open) => Text::from("the server has failed too often and is left alone"),
        Event::Connection(event) => return connection(event),
        Event::Missed(number) => Text::from(format!("{number} events came too fast to be shown")),
        Event::Other(notification) => {
            let params = notification.params.as_ref().map_or("", |params| params.as_str());
            Text::from(format!("{} {params}", notification.method))
        }
        _ => return None,
    };
    Some(Text::new().with(Style::Hint, "* ").plain(told.render(false)))
}

fn connection(event: &ConnectionEvent) -> Option<Text> {
    let told = match event {
        ConnectionEvent::Lost(ended) => format!("the connection was lost: {ended}"),
        ConnectionEvent::Reconnecting { attempt: 1, .. } => "connecting again".to_owned(),
        ConnectionEvent::Connected { generation, .. } if *generation > 1 => "connected again".to_owned(),
        ConnectionEvent::GaveUp => "no further connection is tried".to_owned(),
        _ => return None,
    };
    Some(Text::new().with(Style::Warning, "* ").plain(told))
}

#[cfg(test)]
mod tests {
    use turms::proto::RawJson;

    use super::*;

    #[test]
    fn a_log_message_says_how_bad_it_is_in_words() {
        let message = LogMessage::new(LoggingLevel::Error, RawJson::string("no\u{1b}[2J")).logger("disk");
        assert_eq!(log(&message).render(false), "log error disk: no\\u{1b}[2J");
        let message = LogMessage::new(LoggingLevel::Info, RawJson::parse(r#"{"a":1}"#).unwrap());
        assert_eq!(log(&message).render(false), r#"log info: {"a":1}"#);
    }
}
