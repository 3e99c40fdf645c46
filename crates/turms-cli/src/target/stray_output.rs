use std::sync::Arc;

use parking_lot::Mutex;

/// Maximum number of lines that are stored.
const MAX_LINES: usize = 5;

/// Maximum number of bytes that are stored of each line.
const MAX_LINE_BYTES: usize = 160;

/// The first lines of a server's standard output that are not messages. Clones share the lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct StrayOutput(Arc<Mutex<StrayLines>>);

#[derive(Debug, Default)]
struct StrayLines {
    lines: Vec<String>,
    /// Beginning of the current line.
    current: Vec<u8>,
    /// Length of the current line.
    length: usize,
}

impl StrayOutput {
    /// Returns the lines, with the current one.
    pub(crate) fn lines(&self) -> Vec<String> {
        let stray = self.0.lock();
        let last = stray.current_line();
        stray.lines.iter().cloned().chain(last).take(MAX_LINES).collect()
    }

    /// Adds bytes of standard output, split at any position.
    pub(super) fn push(&self, bytes: &[u8]) {
        let mut stray = self.0.lock();
        if stray.lines.len() >= MAX_LINES {
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let free = MAX_LINE_BYTES.saturating_sub(stray.current.len());
            stray.current.extend(piece.iter().take(free));
            stray.length += piece.len();
            if piece.ends_with(b"\n") {
                let line = stray.current_line();
                stray.lines.extend(line);
                stray.current.clear();
                stray.length = 0;
            }
        }
    }
}

impl StrayLines {
    /// Returns the current line, unless it is empty or looks like a message.
    fn current_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.current);
        let text = text.trim();
        let is_truncated = self.length > self.current.len();
        let is_json = text.starts_with(['{', '[']);
        // Some servers write their log as JSON.
        let is_message = is_json && (is_truncated || text.contains("\"jsonrpc\""));
        let line = if is_truncated { format!("{text}…") } else { text.to_owned() };
        (!text.is_empty() && !is_message).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_not_messages_are_stored_however_they_are_split() {
        let output =
            "Starting...\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n{\"level\":30,\"msg\":\"up\"}\nand on";
        for at in 0..output.len() {
            let stray_output = StrayOutput::default();
            stray_output.push(&output.as_bytes()[..at]);
            stray_output.push(&output.as_bytes()[at..]);
            assert_eq!(stray_output.lines(), ["Starting...", "{\"level\":30,\"msg\":\"up\"}", "and on"], "{at}");
        }
    }

    #[test]
    fn the_stored_output_is_limited() {
        let stray_output = StrayOutput::default();
        stray_output.push("x".repeat(1000).as_bytes());
        stray_output.push(b"\n");
        (0..100).for_each(|_| stray_output.push(b"and on\n"));
        stray_output.push(&[b'['; 1000]);
        let lines = stray_output.lines();
        assert_eq!((lines.len(), lines[0].chars().count()), (MAX_LINES, MAX_LINE_BYTES + 1));
        assert_eq!(lines[1], "and on");
    }
}
