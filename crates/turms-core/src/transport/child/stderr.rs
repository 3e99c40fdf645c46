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

/// Who hears the lines, if not [`tracing`].
pub(super) type StderrSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The standard error of a process, which is read for as long as the process lives: one that is not read would stop it.
pub(super) struct Stderr {
    /// None when it has ended.
    pipe: Option<ChildStderr>,
    buffer: Box<[u8]>,
    lines: Lines,
    listener: Listener,
}

struct Listener {
    program: String,
    id: u32,
    sink: Option<StderrSink>,
    tail: Arc<Tail>,
}

impl Stderr {
    const BUFFER: usize = 8 * 1024;

    pub(super) fn new(pipe: ChildStderr, program: String, id: u32, sink: Option<StderrSink>, tail: Arc<Tail>) -> Self {
        Self {
            pipe: Some(pipe),
            buffer: vec![0; Self::BUFFER].into_boxed_slice(),
            lines: Lines::default(),
            listener: Listener { program, id, sink, tail },
        }
    }

    pub(super) fn program(&self) -> &str {
        &self.listener.program
    }

    /// Does something, and hears what the process says meanwhile.
    pub(super) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|task| {
            // Before the lines: a process that never stops talking would use up what the task may do in one go, and the work
            // would not get on.
            let done = work.as_mut().poll(task);
            if done.is_pending() {
                let _ = self.poll(task);
            }
            done
        })
        .await
    }

    /// Hears everything up to the end.
    pub(super) async fn rest(&mut self) {
        poll_fn(|task| self.poll(task)).await;
    }

    fn poll(&mut self, task: &mut Context<'_>) -> Poll<()> {
        while let Some(pipe) = &mut self.pipe {
            let mut buffer = ReadBuf::new(&mut self.buffer);
            match Pin::new(pipe).poll_read(task, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.lines.push(buffer.filled(), |line| self.listener.hear(line));
                }
                Poll::Ready(_) => {
                    self.pipe = None;
                    self.lines.finish(|line| self.listener.hear(line));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

impl Listener {
    fn hear(&self, line: &str) {
        self.tail.push(line);
        match &self.sink {
            // The process must be heard on even if whoever listens comes to harm.
            Some(sink) => drop(catch_unwind(AssertUnwindSafe(|| sink(line)))),
            None => {
                let line = crate::escape_control(line);
                tracing::info!(target: "turms::child", program = self.program, pid = self.id, "{line}");
            }
        }
    }
}

/// Cuts bytes into lines, and lines that are too long.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    cut: bool,
}

impl Lines {
    const LIMIT: usize = 8 * 1024;
    const MARK: &str = " [cut]";

    fn push(&mut self, bytes: &[u8], mut hear: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    self.extend(end);
                    self.end_line(&mut hear);
                }
                None => self.extend(piece),
            }
        }
    }

    /// A line does not have to be ended to be heard.
    fn finish(&mut self, mut hear: impl FnMut(&str)) {
        if !self.line.is_empty() {
            self.end_line(&mut hear);
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = Self::LIMIT - self.line.len();
        self.cut |= bytes.len() > room;
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, hear: &mut impl FnMut(&str)) {
        let line = String::from_utf8_lossy(self.line.strip_suffix(b"\r").unwrap_or(&self.line));
        if self.cut {
            hear(&format!("{line}{}", Self::MARK))
        } else {
            hear(&line)
        }
        self.line.clear();
        self.cut = false;
    }
}

/// The last lines that were heard.
///
/// A lock, since the process goes on talking while somebody looks.
#[derive(Debug, Default)]
pub(super) struct Tail(Mutex<VecDeque<String>>);

impl Tail {
    const LINES: usize = 20;

    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }

    fn push(&self, line: &str) {
        let mut lines = self.0.lock();
        if lines.len() == Self::LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
}

impl fmt::Debug for Stderr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stderr").field("program", &self.listener.program).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(pieces: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut heard) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece, |line| heard.push(line.to_owned()));
        }
        lines.finish(|line| heard.push(line.to_owned()));
        heard
    }

    #[test]
    fn lines_are_heard_wherever_the_bytes_are_parted() {
        assert_eq!(heard(&[b"one\ntw", b"o\r\n", b"\nlast"]), ["one", "two", "", "last"]);
        assert_eq!(heard(&[b"one", b"\n"]), ["one"]);
        assert_eq!(heard(&[]), [""; 0]);
    }

    #[test]
    fn what_is_not_utf8_is_replaced() {
        assert_eq!(heard(&[b"a\xffb\n"]), ["a\u{fffd}b"]);
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_one_is_whole() {
        let full = "x".repeat(Lines::LIMIT);

        assert_eq!(heard(&[full.as_bytes(), b"\nnext\n"]), [full.as_str(), "next"]);
        assert_eq!(heard(&[full.as_bytes(), b"y", b"y\nnext\n"]), [format!("{full} [cut]"), "next".to_owned()]);
    }

    #[test]
    fn the_tail_is_bounded() {
        let tail = Tail::default();
        for number in 0..100 {
            tail.push(&number.to_string());
        }

        assert_eq!(tail.lines(), (80..100).map(|number| number.to_string()).collect::<Vec<_>>());
    }
}
