use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::ChildStderr;

/// The function that receives the lines instead of [`tracing`].
pub(super) type StderrCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// Reads the standard error of a process as long as it runs: a full pipe would block the process.
pub(super) struct StderrReader {
    /// `None` after the end of the stream.
    pipe: Option<ChildStderr>,
    buffer: Box<[u8]>,
    lines: StderrLines,
    output: StderrOutput,
}

/// The receivers of a line: the tail, and the callback or the log.
struct StderrOutput {
    program: String,
    id: u32,
    callback: Option<StderrCallback>,
    tail: Arc<StderrTail>,
}

impl StderrReader {
    const BUFFER_SIZE: usize = 8 * 1024;

    pub(super) fn new(
        pipe: ChildStderr,
        program: String,
        id: u32,
        callback: Option<StderrCallback>,
        tail: Arc<StderrTail>,
    ) -> Self {
        Self {
            pipe: Some(pipe),
            buffer: vec![0; Self::BUFFER_SIZE].into_boxed_slice(),
            lines: StderrLines::default(),
            output: StderrOutput { program, id, callback, tail },
        }
    }

    pub(super) fn program(&self) -> &str {
        &self.output.program
    }

    /// Runs a future and reads standard error meanwhile.
    pub(super) async fn read_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|task| {
            // Before the lines: a process that writes without end would use up the task's budget, and the work would not be
            // polled.
            let done = work.as_mut().poll(task);
            if done.is_pending() {
                let _ = self.poll(task);
            }
            done
        })
        .await
    }

    /// Reads to the end of the stream.
    pub(super) async fn read_to_end(&mut self) {
        poll_fn(|task| self.poll(task)).await;
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<()> {
        while let Some(pipe) = &mut self.pipe {
            let mut buffer = ReadBuf::new(&mut self.buffer);
            match Pin::new(pipe).poll_read(task, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.lines.push(buffer.filled(), |line| self.output.receive(line));
                }
                Poll::Ready(_) => {
                    self.pipe = None;
                    self.lines.finish(|line| self.output.receive(line));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

impl StderrOutput {
    fn receive(&self, line: &str) {
        self.tail.push(line);
        match &self.callback {
            // Reading continues even if the callback panics.
            Some(callback) => drop(catch_unwind(AssertUnwindSafe(|| callback(line)))),
            None => {
                let line = crate::text::escape_control(line);
                tracing::info!(target: "turms::child", program = self.program, pid = self.id, "{line}");
            }
        }
    }
}

/// Splits bytes into lines, and truncates long lines.
#[derive(Debug, Default)]
struct StderrLines {
    line: Vec<u8>,
    is_truncated: bool,
}

impl StderrLines {
    const MAX_LENGTH: usize = 8 * 1024;
    const TRUNCATION_MARK: &str = " [cut]";

    fn push(&mut self, bytes: &[u8], mut receive: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    self.extend(end);
                    self.end_line(&mut receive);
                }
                None => self.extend(piece),
            }
        }
    }

    /// Delivers the last line, even without a line break.
    fn finish(&mut self, mut receive: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.end_line(&mut receive);
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = Self::MAX_LENGTH - self.line.len();
        self.is_truncated |= bytes.len() > room;
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, receive: &mut impl FnMut(&str)) {
        let line = String::from_utf8_lossy(self.line.strip_suffix(b"\r").unwrap_or(&self.line));
        if self.is_truncated {
            receive(&format!("{line}{}", Self::TRUNCATION_MARK))
        } else {
            receive(&line)
        }
        self.line.clear();
        self.is_truncated = false;
    }
}

/// The last lines of standard error.
#[derive(Debug, Default)]
pub(super) struct StderrTail(Mutex<VecDeque<String>>);

impl StderrTail {
    const MAX_LINES: usize = 20;

    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    fn push(&self, line: &str) {
        let mut lines = self.0.lock();
        if lines.len() == Self::MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
}

impl fmt::Debug for StderrReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StderrReader").field("program", &self.output.program).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut received) = (StderrLines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece, |line| received.push(line.to_owned()));
        }
        lines.finish(|line| received.push(line.to_owned()));
        received
    }

    #[test]
    fn lines_do_not_depend_on_the_boundaries_of_reads() {
        assert_eq!(lines_of(&[b"one\ntw", b"o\r\n", b"\nlast"]), ["one", "two", "", "last"]);
        assert_eq!(lines_of(&[b"one", b"\n"]), ["one"]);
        assert_eq!(lines_of(&[]), [""; 0]);
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(lines_of(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
    }

    #[test]
    fn a_long_line_is_truncated_and_the_next_is_complete() {
        let full = "x".repeat(StderrLines::MAX_LENGTH);

        assert_eq!(lines_of(&[full.as_bytes(), b"\nnext\n"]), [full.as_str(), "next"]);
        assert_eq!(lines_of(&[full.as_bytes(), b"y", b"y\nnext\n"]), [format!("{full} [cut]"), "next".to_owned()]);
    }

    #[test]
    fn the_tail_is_bounded() {
        let tail = StderrTail::default();
        for number in 0..100 {
            tail.push(&number.to_string());
        }

        assert_eq!(tail.lines(), (80..100).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}
