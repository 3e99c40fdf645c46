use bytes::{Buf, Bytes, BytesMut};

use crate::json::scanner::Scanner;
use crate::jsonrpc::{InvalidKind, RequestId};

/// Cuts a byte stream into messages, one per line (basic/transports, "stdio").
///
/// Blank lines and carriage returns are tolerated. A line over the limit is refused without being kept: its bytes are
/// thrown away as they come, and the next line is served. The id of such a message is looked for at its beginning and at its end;
/// [`LineTooLong`] says what was found.
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
    /// Up to here there is no line break in the buffer.
    searched: usize,
    limit: usize,
    /// A line over the limit whose rest is still to come.
    refused: Option<Refused>,
}

/// A line over the limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a message is longer than the limit of {limit} bytes")]
#[non_exhaustive]
pub struct LineTooLong {
    /// The limit.
    pub limit: usize,
    /// The id of the message, if it stands before or after what is long.
    pub id: Option<RequestId>,
    /// The kind of message, as far as one can tell. What is JSON and names no method counts as a response.
    pub kind: InvalidKind,
}

/// What is known of a line over the limit while its rest is thrown away.
#[derive(Debug)]
struct Refused {
    limit: usize,
    is_json: bool,
    has_method: bool,
    id: Option<RequestId>,
    /// The last bytes, unless the line was refused already.
    tail: Option<Vec<u8>>,
}

impl Refused {
    /// Number of bytes at the end of a line in which the id is looked for.
    const TAIL: usize = 128;

    /// Reads the members that stand whole in the first `limit` bytes.
    fn new(line: &[u8], limit: usize) -> Self {
        let head = &line[..limit.min(line.len())];
        let text = match std::str::from_utf8(head) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
        };
        let is_json = begins_message(text);
        let mut refused = Self { limit, is_json, has_method: false, id: None, tail: Some(Vec::new()) };
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        if is_json && scanner.peek() == Some(b'{') {
            let end = text.as_bytes().as_ptr_range().end;
            // It fails where the text ends, and has told of all members before.
            let _ = scanner.each_member(0, |key, value| match &*key.name() {
                "method" => refused.has_method = true,
                // A number at the very end may go on.
                "id" if value.as_bytes().as_ptr_range().end != end => refused.id = RequestId::from_json(value),
                _ => {}
            });
        }
        refused.keep(line);
        refused
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(&bytes[bytes.len().saturating_sub(Self::TAIL)..]);
            tail.drain(..tail.len().saturating_sub(Self::TAIL));
        }
    }

    /// The error, once: at the beginning of the line if the id stands there, at its end otherwise.
    fn error(&mut self, at_end: bool) -> Option<LineTooLong> {
        if self.id.is_none() && !at_end {
            return None;
        }
        let tail = self.tail.take()?;
        let last = if self.is_json { LastMembers::read(&tail) } else { LastMembers::default() };
        let id = self.id.take().or(last.id);
        let kind = match (self.is_json, self.has_method || last.has_method, &id) {
            (false, ..) => InvalidKind::Unreadable,
            (true, true, Some(_)) => InvalidKind::Request,
            (true, true, None) => InvalidKind::Notification,
            (true, false, _) => InvalidKind::Response,
        };
        Some(LineTooLong { limit: self.limit, id, kind })
    }
}

/// Returns `true` if a text may be the beginning of a message or of a batch, which a line in a log is not.
fn begins_message(text: &str) -> bool {
    let text = text.trim_ascii_start();
    let object = text.strip_prefix('[').map_or(text, str::trim_ascii_start);
    object.strip_prefix('{').is_some_and(|members| members.trim_ascii_start().starts_with('"'))
}

/// The members that stand at the end of a message.
#[derive(Default)]
struct LastMembers {
    id: Option<RequestId>,
    has_method: bool,
}

impl LastMembers {
    /// Reads texts and whole numbers backwards until another value stands in the way. The last brace of a message closes the
    /// message itself, so these are its own members and no one's inside it.
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

/// What stands before the last member, its name and its value, which is a text or a whole number.
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
    /// How long a line may be unless configured otherwise.
    pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

    /// With lines of at most `limit` bytes, their end not counted.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, limit, refused: None }
    }

    /// Where to put what was read. Only ever add at the end.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Makes room for what is to be read next: for `piece` bytes, and for as much again as there is of a line that goes on.
    /// There is no more of it than that, however much was read before.
    pub fn make_room(&mut self, piece: usize) {
        let buffer = &mut self.buffer;
        if buffer.capacity() - buffer.len() >= piece / 2 {
            return;
        }
        // What doubles is copied only a few times. `reserve` would double what was read before along with it.
        let more = piece.max(buffer.len());
        if !buffer.try_reclaim(more) {
            let mut larger = BytesMut::with_capacity(buffer.len() + more);
            larger.extend_from_slice(buffer);
            *buffer = larger;
        }
    }

    /// The next whole line, or `None` until more was read. The line shares the buffer.
    pub fn next_line(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        loop {
            let Some(end) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                return self.wait_for_more();
            };
            let line = self.buffer.split_to(self.searched + end);
            self.buffer.advance(1);
            self.searched = 0;
            if let Some(mut refused) = self.refused.take() {
                refused.keep(&line);
                match refused.error(true) {
                    Some(error) => return Some(Err(error)),
                    None => continue,
                }
            }
            if let Some(line) = self.accept(line) {
                return Some(line);
            }
        }
    }

    /// What is left when the stream has ended: a last line without a line break.
    pub fn finish(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        let rest = self.buffer.split();
        self.searched = 0;
        if let Some(mut refused) = self.refused.take() {
            refused.keep(&rest);
            return refused.error(true).map(Err);
        }
        self.accept(rest)
    }

    /// No line break yet: remember how far we looked, and keep no more than a line may hold.
    fn wait_for_more(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        if let Some(refused) = &mut self.refused {
            refused.keep(&self.buffer);
            self.buffer.clear();
            self.searched = 0;
            return None;
        }
        self.searched = self.buffer.len();
        // One more byte may be a carriage return.
        if self.buffer.len() > self.limit.saturating_add(1) {
            let refused = self.refused.insert(Refused::new(&self.buffer, self.limit));
            self.buffer = BytesMut::new();
            self.searched = 0;
            return refused.error(false).map(Err);
        }
        None
    }

    /// `None` for a blank line.
    fn accept(&self, mut line: BytesMut) -> Option<Result<Bytes, LineTooLong>> {
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if line.len() > self.limit {
            return Refused::new(&line, self.limit).error(true).map(Err);
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
        let refused = || Err(LineTooLong { limit: 4, id: None, kind: InvalidKind::Unreadable });
        assert_eq!(read(&[b"12345\nab\n"], 4), [refused(), Ok(Bytes::from("ab"))]);
        assert_eq!(read(&[b"123456", b"7", b"8\nab"], 4), [refused(), Ok(Bytes::from("ab"))]);
        assert_eq!(read(&[b"1234\r\n"], 4), [Ok(Bytes::from("1234"))]);
        assert_eq!(read(&[b"12345678"], 4), [refused()]);
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
        use InvalidKind::*;
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
        // An id that the limit cuts may be another one.
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
