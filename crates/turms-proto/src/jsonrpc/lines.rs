use bytes::{Buf, Bytes, BytesMut};

use crate::json::scanner::Scanner;
use crate::jsonrpc::{MessageErrorKind, RequestId};

/// Splits a byte stream into messages, one per line (basic/transports, "stdio").
///
/// Blank lines and carriage returns are skipped. A line over the limit is an error; its bytes are discarded as they
/// arrive, and reading continues with the next line. The id of such a message is searched at the beginning and the end
/// of the line, and reported in [`LineTooLong`].
///
/// ```
/// use turms_proto::Lines;
///
/// let mut lines = Lines::new(1024);
/// lines.buffer().extend_from_slice(b"{\"a\":");
/// assert!(lines.next_line().is_none());
/// lines.buffer().extend_from_slice(b"1}\r\n\n[");
/// assert_eq!(lines.next_line().unwrap()?, "{\"a\":1}");
/// assert!(lines.next_line().is_none());
/// # Ok::<(), turms_proto::LineTooLong>(())
/// ```
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    /// Number of bytes at the start of the buffer that contain no line break.
    searched: usize,
    limit: usize,
    /// A line over the limit that has not ended yet.
    oversized: Option<OversizedLine>,
}

/// Error for a line over the limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message is longer than the limit of {limit} bytes")]
#[non_exhaustive]
pub struct LineTooLong {
    /// The limit, in bytes.
    pub limit: usize,
    /// Id of the message, if it is near the beginning or end of the line.
    pub id: Option<RequestId>,
    /// Kind of the message, as far as it could be determined. JSON without a method counts as a response.
    pub kind: MessageErrorKind,
}

/// State of a line over the limit while the rest of it is discarded.
#[derive(Debug)]
struct OversizedLine {
    limit: usize,
    is_json: bool,
    has_method: bool,
    id: Option<RequestId>,
    /// The last bytes of the line; `None` once the error was returned.
    tail: Option<Vec<u8>>,
}

impl OversizedLine {
    /// Number of bytes at the end of a line in which the id is searched.
    const TAIL: usize = 128;

    /// Reads the complete members in the first `limit` bytes.
    fn new(line: &[u8], limit: usize) -> Self {
        let head = &line[..limit.min(line.len())];
        let text = match std::str::from_utf8(head) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
        };
        let is_json = begins_message(text);
        let mut oversized = Self { limit, is_json, has_method: false, id: None, tail: Some(Vec::new()) };
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        if is_json && scanner.peek() == Some(b'{') {
            let end = text.as_bytes().as_ptr_range().end;
            // Fails at the end of the truncated text, after visiting all complete members.
            let _ = scanner.each_member(0, |key, value| match &*key.name() {
                "method" => oversized.has_method = true,
                // A number at the very end may be truncated.
                "id" if value.as_bytes().as_ptr_range().end != end => oversized.id = RequestId::from_json(value),
                _ => {}
            });
        }
        oversized.push_tail(line);
        oversized
    }

    fn push_tail(&mut self, bytes: &[u8]) {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(&bytes[bytes.len().saturating_sub(Self::TAIL)..]);
            tail.drain(..tail.len().saturating_sub(Self::TAIL));
        }
    }

    /// Returns the error once: at the beginning of the line if the id was found there, else at its end.
    fn error(&mut self, at_end: bool) -> Option<LineTooLong> {
        if self.id.is_none() && !at_end {
            return None;
        }
        let tail = self.tail.take()?;
        let last = if self.is_json { LastMembers::read(&tail) } else { LastMembers::default() };
        let id = self.id.take().or(last.id);
        let kind = match (self.is_json, self.has_method || last.has_method, &id) {
            (false, ..) => MessageErrorKind::Unreadable,
            (true, true, Some(_)) => MessageErrorKind::Request,
            (true, true, None) => MessageErrorKind::Notification,
            (true, false, _) => MessageErrorKind::Response,
        };
        Some(LineTooLong { limit: self.limit, id, kind })
    }
}

/// Returns `true` if the text may be the start of a message or batch, unlike a line of log output.
fn begins_message(text: &str) -> bool {
    let text = text.trim_ascii_start();
    let object = text.strip_prefix('[').map_or(text, str::trim_ascii_start);
    object.strip_prefix('{').is_some_and(|members| members.trim_ascii_start().starts_with('"'))
}

/// The members at the end of a message.
#[derive(Default)]
struct LastMembers {
    id: Option<RequestId>,
    has_method: bool,
}

impl LastMembers {
    /// Reads strings and integers backwards until a value of another type. The last brace of a message closes the
    /// message itself, so these are its own members and not those of a nested object.
    fn read(tail: &[u8]) -> Self {
        let mut found = Self::default();
        let mut rest = strip(tail, b"}");
        while let Some((before, name, value)) = rest.and_then(last_member) {
            match name {
                b"id" => found.id = std::str::from_utf8(value).ok().and_then(RequestId::from_json),
                b"method" => found.has_method = true,
                _ => {}
            }
            rest = strip(before, b",");
        }
        found
    }
}

/// Returns the text before the last member, and its name and value, if the value is a string or an integer.
fn last_member(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let start = match text.strip_suffix(b"\"") {
        Some(inside) => inside.iter().rposition(|byte| *byte == b'"')?,
        None => text.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b'-')? + 1,
    };
    let (before, value) = text.split_at(start);
    let before = strip(strip(before, b":")?, b"\"")?;
    let start = before.iter().rposition(|byte| *byte == b'"')?;
    let (before, name) = (before[..start].trim_ascii_end(), &before[start + 1..]);
    (before.ends_with(b",") || before.ends_with(b"{")).then_some((before, name, value))
}

fn strip<'a>(text: &'a [u8], suffix: &[u8]) -> Option<&'a [u8]> {
    text.trim_ascii_end().strip_suffix(suffix)
}

impl Lines {
    /// Default limit: 16 MiB.
    pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

    /// Creates a splitter for lines of at most `limit` bytes, without the line break.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, limit, oversized: None }
    }

    /// Returns the buffer for received bytes. Only append to it.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Reserves space for the next read: `piece` bytes, and as much as is already buffered of an incomplete line. The
    /// capacity does not depend on lines that were read before.
    pub fn make_room(&mut self, piece: usize) {
        let buffer = &mut self.buffer;
        if buffer.capacity() - buffer.len() >= piece / 2 {
            return;
        }
        // Doubling bounds the number of copies. `reserve` would also double the space of lines that were read before.
        let more = piece.max(buffer.len());
        if !buffer.try_reclaim(more) {
            let mut larger = BytesMut::with_capacity(buffer.len() + more);
            larger.extend_from_slice(buffer);
            *buffer = larger;
        }
    }

    /// Returns the next complete line; `None` until more bytes are appended. The line shares the buffer.
    pub fn next_line(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                return self.wait_for_more();
            };
            let line = self.buffer.split_to(self.searched + end);
            self.buffer.advance(1);
            self.searched = 0;
            if let Some(mut oversized) = self.oversized.take() {
                oversized.push_tail(&line);
                match oversized.error(true) {
                    Some(error) => return Some(Err(error)),
                    None => continue,
                }
            }
            if let Some(line) = self.accept(line) {
                return Some(line);
            }
        }
    }

    /// Returns the last line after the end of the stream, if it has no line break.
    pub fn finish(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        let rest = self.buffer.split();
        self.searched = 0;
        if let Some(mut oversized) = self.oversized.take() {
            oversized.push_tail(&rest);
            return oversized.error(true).map(Err);
        }
        self.accept(rest)
    }

    /// Records the searched length, and discards a line over the limit.
    fn wait_for_more(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        if let Some(oversized) = &mut self.oversized {
            oversized.push_tail(&self.buffer);
            self.buffer.clear();
            self.searched = 0;
            return None;
        }
        self.searched = self.buffer.len();
        // The last byte may be a carriage return.
        if self.buffer.len() > self.limit.saturating_add(1) {
            let oversized = self.oversized.insert(OversizedLine::new(&self.buffer, self.limit));
            self.buffer = BytesMut::new();
            self.searched = 0;
            return oversized.error(false).map(Err);
        }
        None
    }

    /// Returns `None` for a blank line.
    fn accept(&self, mut line: BytesMut) -> Option<Result<Bytes, LineTooLong>> {
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if line.len() > self.limit {
            return OversizedLine::new(&line, self.limit).error(true).map(Err);
        }
        let blank = line.iter().all(|byte| byte.is_ascii_whitespace());
        if blank { None } else { Some(Ok(line.freeze())) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[&[u8]], limit: usize) -> Vec<Result<Bytes, LineTooLong>> {
        let mut lines = Lines::new(limit);
        let mut found = Vec::new();
        for chunk in chunks {
            lines.buffer().extend_from_slice(chunk);
            found.extend(std::iter::from_fn(|| lines.next_line()));
        }
        found.extend(lines.finish());
        found
    }

    #[test]
    fn a_line_over_the_limit_is_refused_and_the_next_is_served() {
        let oversized = || Err(LineTooLong { limit: 4, id: None, kind: MessageErrorKind::Unreadable });
        assert_eq!(read(&[b"12345\nab\n"], 4), [oversized(), Ok(Bytes::from("ab"))]);
        assert_eq!(read(&[b"123456", b"7", b"8\nab"], 4), [oversized(), Ok(Bytes::from("ab"))]);
        assert_eq!(read(&[b"1234\r\n"], 4), [Ok(Bytes::from("1234"))]);
        assert_eq!(read(&[b"12345678"], 4), [oversized()]);
    }

    #[test]
    fn what_is_refused_is_not_kept() {
        let mut lines = Lines::new(16);
        for _ in 0..1000 {
            lines.buffer().extend_from_slice(&[b'x'; 1024]);
            while lines.next_line().is_some() {}
            assert!(lines.buffer().capacity() <= 4096);
        }
    }

    #[test]
    fn room_does_not_grow_with_what_was_read_before() {
        const PIECE: usize = 64 * 1024;
        let mut lines = Lines::new(1024 * 1024);
        let line = [vec![b'x'; 100 * 1024], b"\n".to_vec()].concat();
        let input = line.repeat(100);
        let (mut rest, mut found) = (input.as_slice(), 0);
        while !rest.is_empty() {
            lines.make_room(PIECE);
            let room = lines.buffer().capacity() - lines.buffer().len();
            assert!(room >= PIECE / 2 && lines.buffer().capacity() < 4 * PIECE, "{}", lines.buffer().capacity());
            let (read, unread) = rest.split_at(room.min(PIECE).min(rest.len()));
            lines.buffer().extend_from_slice(read);
            found += std::iter::from_fn(|| lines.next_line()).filter(Result::is_ok).count();
            rest = unread;
        }
        assert_eq!(found, 100);
    }

    #[test]
    fn the_id_of_a_long_line_is_found_before_and_after_what_is_long() {
        use MessageErrorKind::*;
        let long = "x".repeat(500);
        let nested = r#"{"id":9}"#;
        for (line, id, kind) in [
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{long}"}}}}"#), Some(7), Response),
            (format!(r#"{{"result":{{"a":"{long}"}},"jsonrpc":"2.0","id":7}}"#), Some(7), Response),
            (format!(r#"{{ "error" : {{"a":"{long}"}} , "id" : -7 , "jsonrpc" : "2.0" }} "#), Some(-7), Response),
            (format!(r#"{{"jsonrpc":"2.0","result":{{"a":"{long}","b":{nested}}}}}"#), None, Response),
            (format!(r#"{{"id":7.5,"result":{{"a":"{long}"}}}}"#), None, Response),
            (format!(r#"{{"result":["{long}"],"xid":7}}"#), None, Response),
            (format!(r#"{{"result":"{long}","id":"7"}}"#), None, Response),
            (format!(r#"[{{"id":7,"result":"{long}"}}]"#), None, Response),
            (format!(r#"{{"id":7,"method":"m","params":{{"a":"{long}"}}}}"#), Some(7), Request),
            (format!(r#"{{"method":"m","params":{{"a":"{long}"}},"id":7}}"#), Some(7), Request),
            (format!(r#"{{"method":"m","params":{{"a":"{long}","id":7}}}}"#), None, Notification),
            (format!(r#"{{"params":{{"a":"{long}","id":7}},"jsonrpc":"2.0","method":"m"}}"#), None, Notification),
            (format!(r#"{{"params":{{"a":"{long}"}},"id":7,"method":"m","jsonrpc":"2.0"}}"#), Some(7), Request),
            (format!(r#"[{{"params":{{"a":"{long}"}},"method":"m"}}]"#), None, Response),
            (format!(r#"{long},"id":7}}"#), None, Unreadable),
            (format!(r#"[INFO] {long} {{"id":7}}"#), None, Unreadable),
            (format!("{{{long}}}"), None, Unreadable),
        ] {
            let found = read(&[line.as_bytes(), b"\nnext\n"], 100);
            let [Err(error), Ok(next)] = found.as_slice() else { panic!("{line}: {found:?}") };
            assert_eq!((error.limit, error.kind), (100, kind), "{line}");
            if line.contains(r#""id":"7""#) {
                assert_eq!(error.id, Some("7".into()));
            } else {
                assert_eq!(error.id, id.map(RequestId::Number), "{line}");
            }
            assert_eq!(next, "next");
            let bytes: Vec<_> = line.as_bytes().chunks(1).collect();
            assert_eq!(read(&bytes, 100), [Err(error.clone())]);
        }
    }

    #[test]
    fn a_long_line_is_refused_before_it_ends_if_it_begins_with_its_id() {
        let mut lines = Lines::new(20);
        lines.buffer().extend_from_slice(br#"{"id":7,"result":{"text":"xxxxxxxxx"#);
        assert_eq!(lines.next_line().unwrap().unwrap_err().id, Some(7.into()));
        lines.buffer().extend_from_slice(b"\nnext\n");
        assert_eq!(lines.next_line().unwrap().unwrap(), "next");
        // An id that the limit truncates may be another id.
        let mut lines = Lines::new(8);
        lines.buffer().extend_from_slice(br#"{"id":12345,"result":{}"#);
        assert!(lines.next_line().is_none());
        lines.buffer().extend_from_slice(b"}\n");
        assert_eq!(lines.next_line().unwrap().unwrap_err().id, None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn chunk_boundaries_do_not_matter(
            text in prop::collection::vec(prop::sample::select(b"ab{\r\n \n".to_vec()), 0..60),
            cuts in prop::collection::vec(0_usize..60, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut start = 0;
            for cut in cuts {
                chunks.push(&text[start..cut]);
                start = cut;
            }
            chunks.push(&text[start..]);
            prop_assert_eq!(read(&chunks, 6), read(&[&text], 6));
        }
    }
}
