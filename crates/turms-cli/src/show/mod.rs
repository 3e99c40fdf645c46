//! What the protocol's objects look like to people.

mod content;
mod event;
mod list;
mod server;

pub(crate) use self::content::{Saver, contents, message, tool_result};
pub(crate) use self::event::{change, event, log, task};
pub(crate) use self::list::{prompt, resource, template, tool};
pub(crate) use self::server::{greeting, has_tasks, information, state, state_object, welcome};

use serde_json::Value;
use turms::proto::RawJson;

/// JSON that people can read; as it is where it has what cannot be kept, such as numbers beyond all bounds.
pub(crate) fn pretty(json: &RawJson) -> String {
    let value = serde_json::from_str::<Value>(json.as_str());
    value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or_else(|_| json.as_str().to_owned())
}

/// A number of bytes.
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

/// A time that somebody waited.
pub(crate) fn seconds(time: std::time::Duration) -> String {
    if time < std::time::Duration::from_secs(1) {
        return format!("{}ms", time.as_millis());
    }
    match (time.as_secs_f64() * 10.0).round() / 10.0 {
        1.0 => "1 second".to_owned(),
        rounded => format!("{rounded} seconds"),
    }
}

/// A text, or as much of it as has so many characters.
pub(crate) fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A number of things.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// Lines, each moved to the right.
fn indented(text: &str) -> String {
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
    fn times_are_told_as_people_do() {
        use std::time::Duration;
        assert_eq!(seconds(Duration::from_micros(3_000_571)), "3 seconds");
        assert_eq!(seconds(Duration::from_millis(1004)), "1 second");
        assert_eq!(seconds(Duration::from_millis(1260)), "1.3 seconds");
        assert_eq!(seconds(Duration::from_millis(250)), "250ms");
    }

    #[test]
    fn numbers_beyond_all_bounds_are_shown_as_they_are() {
        let json = RawJson::parse(r#"{"a":1e999}"#).unwrap();
        assert_eq!(pretty(&json), r#"{"a":1e999}"#);
        assert_eq!(pretty(&RawJson::parse(r#"{"a":[]}"#).unwrap()), "{\n  \"a\": []\n}");
    }
}
