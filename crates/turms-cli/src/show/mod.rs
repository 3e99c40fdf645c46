//! Formats protocol objects for people.

mod content;
mod event;
mod list;
mod server;

pub(crate) use self::content::{ContentSaver, contents, message, tool_result};
pub(crate) use self::event::{change, event, log, task};
pub(crate) use self::list::{prompt, resource, template, tool};
pub(crate) use self::server::{handshake_result, has_tasks, info, state, state_object, welcome};

use serde_json::Value;
use turms::types::RawJson;

/// Pretty-prints JSON. Returns it unchanged if it cannot be parsed, for example because a number is out of range.
pub(crate) fn pretty(json: &RawJson) -> String {
    let value = serde_json::from_str::<Value>(json.as_str());
    value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or_else(|_| json.as_str().to_owned())
}

/// Formats a number of bytes.
pub(crate) fn size(bytes: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a rounded number is shown")]
    let number = bytes as f64;
    match bytes {
        1 => "1 byte".to_owned(),
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", number / 1024.0),
        _ => format!("{:.1} MiB", number / 1_048_576.0),
    }
}

/// Formats a duration: `250 ms`, `1.3 s`.
pub(crate) fn duration(time: std::time::Duration) -> String {
    turms_proto::format_duration(time)
}

/// Truncates a text to a number of characters.
pub(crate) fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Formats a count with the singular or plural noun.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// Indents each line.
fn indent(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded() {
        assert_eq!([size(0), size(1), size(1023)], ["0 bytes", "1 byte", "1023 bytes"]);
        assert_eq!([size(1536), size(5 << 20)], ["1.5 KiB", "5.0 MiB"]);
    }

    #[test]
    fn numbers_out_of_range_are_shown_unchanged() {
        let json = RawJson::parse(r#"{"a":1e999}"#).unwrap();
        assert_eq!(pretty(&json), r#"{"a":1e999}"#);
        assert_eq!(pretty(&RawJson::parse(r#"{"a":[]}"#).unwrap()), "{\n  \"a\": []\n}");
    }
}
