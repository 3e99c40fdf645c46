use bytes::{Buf, Bytes, BytesMut};

/// Cuts a byte stream into messages, one per line (basic/transports, "stdio").
///
/// Blank lines and carriage returns are tolerated. A line over the limit is refused without being kept: its bytes are
/// thrown away as they come, and the next line is served.
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
    /// The rest of a line that was refused is still to come.
    refusing: bool,
}

/// A line over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message is longer than the limit of {limit} bytes")]
#[non_exhaustive]
pub struct LineTooLong {
    /// The limit.
    pub limit: usize,
}

impl Lines {
    /// How long a line may be unless configured otherwise.
    pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

    /// With lines of at most `limit` bytes, their end not counted.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, limit, refusing: false }
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
            if std::mem::take(&mut self.refusing) {
                continue;
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
        if std::mem::take(&mut self.refusing) {
            return None;
        }
        self.accept(rest)
    }

    /// No line break yet: remember how far we looked, and keep no more than a line may hold.
    fn wait_for_more(&mut self) -> Option<Result<Bytes, LineTooLong>> {
        if self.refusing {
            self.buffer.clear();
            self.searched = 0;
            return None;
        }
        self.searched = self.buffer.len();
        // One more byte may be a carriage return.
        if self.buffer.len() > self.limit.saturating_add(1) {
            self.refusing = true;
            self.buffer = BytesMut::new();
            self.searched = 0;
            return Some(Err(LineTooLong { limit: self.limit }));
        }
        None
    }

    /// `None` for a blank line.
    fn accept(&self, mut line: BytesMut) -> Option<Result<Bytes, LineTooLong>> {
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        if line.len() > self.limit {
            return Some(Err(LineTooLong { limit: self.limit }));
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
        let refused = || Err(LineTooLong { limit: 4 });
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
