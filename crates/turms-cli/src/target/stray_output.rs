use std::sync::Arc;

use parking_lot::Mutex;

/// How many lines are remembered, and how much of each.
const LINES: usize = 5;
const LENGTH: usize = 160;

/// The first lines of a server's standard output that are no messages. Clones overhear the same server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overheard(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    lines: Vec<String>,
    /// The beginning of the line that is being read, and how long it is so far.
    begun: Vec<u8>,
    length: usize,
}

impl Overheard {
    /// The lines, and what follows the last line end.
    pub(crate) fn lines(&self) -> Vec<String> {
        let inner = self.0.lock();
        let last = inner.no_message();
        inner.lines.iter().cloned().chain(last).take(LINES).collect()
    }

    /// Hears what was read, wherever it was cut.
    pub(super) fn hear(&self, bytes: &[u8]) {
        let mut inner = self.0.lock();
        if inner.lines.len() >= LINES {
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LENGTH.saturating_sub(inner.begun.len());
            inner.begun.extend(piece.iter().take(room));
            inner.length += piece.len();
            if piece.ends_with(b"\n") {
                let line = inner.no_message();
                inner.lines.extend(line);
                inner.begun.clear();
                inner.length = 0;
            }
        }
    }
}

impl Inner {
    /// The line that is being read, unless it is a message as far as can be seen, or empty.
    fn no_message(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.begun);
        let text = text.trim();
        let is_cut = self.length > self.begun.len();
        let is_json = text.starts_with(['{', '[']);
        // Servers also write their log as JSON.
        let is_message = is_json && (is_cut || text.contains("\"jsonrpc\""));
        let shown = if is_cut { format!("{text}…") } else { text.to_owned() };
        (!text.is_empty() && !is_message).then_some(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_message_is_remembered_wherever_it_is_cut() {
        let said =
            "Starting...\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n{\"level\":30,\"msg\":\"up\"}\nand on";
        for at in 0..said.len() {
            let overheard = Overheard::default();
            overheard.hear(&said.as_bytes()[..at]);
            overheard.hear(&said.as_bytes()[at..]);
            assert_eq!(overheard.lines(), ["Starting...", "{\"level\":30,\"msg\":\"up\"}", "and on"], "{at}");
        }
    }

    #[test]
    fn it_remembers_only_so_much() {
        let overheard = Overheard::default();
        overheard.hear("x".repeat(1000).as_bytes());
        overheard.hear(b"\n");
        (0..100).for_each(|_| overheard.hear(b"and on\n"));
        overheard.hear(&[b'['; 1000]);
        let lines = overheard.lines();
        assert_eq!((lines.len(), lines[0].chars().count()), (LINES, LENGTH + 1));
        assert_eq!(lines[1], "and on");
    }
}
