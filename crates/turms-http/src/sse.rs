//! Server-sent events (HTML, "Server-sent events"): encoding, and incremental decoding.

use bytes::{Buf as _, Bytes, BytesMut};

/// A decoded event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SseEvent {
    /// The event type; `message` if the event has none.
    pub event: Option<String>,
    /// The data. Empty for events that only carry an id.
    pub data: String,
    /// The last event id: that of this event, or of an earlier one.
    pub id: Option<String>,
    /// The reconnection time in milliseconds, if the event sets it.
    pub retry: Option<u64>,
}

/// Appends an event to a buffer. `data` must not contain line breaks.
pub(crate) fn write_event(out: &mut Vec<u8>, event: Option<&str>, id: Option<&str>, data: &[u8]) {
    debug_assert!(!data.iter().any(|byte| matches!(byte, b'\n' | b'\r')), "data of one line");
    if let Some(event) = event {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(event.as_bytes());
        out.push(b'\n');
    }
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
}

/// Appends the reconnection time.
pub(crate) fn write_retry(out: &mut Vec<u8>, milliseconds: u64) {
    out.extend_from_slice(format!("retry: {milliseconds}\n\n").as_bytes());
}

/// A comment that keeps an idle stream open. Clients ignore it.
pub(crate) const KEEP_ALIVE: &[u8] = b":\n\n";

/// Decodes events from a stream that arrives in arbitrary pieces.
#[derive(Debug)]
pub struct SseDecoder {
    buffer: BytesMut,
    /// Length of the prefix of the buffer that is known to contain no line break.
    searched: usize,
    current: PartialEvent,
    last_id: Option<String>,
    limit: usize,
    begun: bool,
    /// `true` if the last line ended with a carriage return that a line feed may follow.
    after_return: bool,
}

/// The event that is being decoded.
#[derive(Debug, Default)]
struct PartialEvent {
    event: Option<String>,
    data: String,
    has_data: bool,
    has_id: bool,
    retry: Option<u64>,
}

/// Error for an event that exceeds the limit, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("an event is longer than {0} bytes")]
pub struct EventTooLong(pub usize);

impl SseDecoder {
    /// Creates a decoder for events of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            current: PartialEvent::default(),
            last_id: None,
            limit,
            begun: false,
            after_return: false,
        }
    }

    /// Returns the last event id, for resuming the stream.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Adds received bytes.
    pub fn push(&mut self, piece: &Bytes) {
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the next complete event.
    ///
    /// # Errors
    /// If the event is too long. The decoder cannot be used after that.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, EventTooLong> {
        while let Some(line) = self.next_line() {
            if line.is_empty() {
                if let Some(event) = self.dispatch() {
                    return Ok(Some(event));
                }
            } else {
                self.read_line(&line);
                if self.current.data.len() > self.limit {
                    return Err(EventTooLong(self.limit));
                }
            }
        }
        if self.buffer.len() > self.limit { Err(EventTooLong(self.limit)) } else { Ok(None) }
    }

    fn next_line(&mut self) -> Option<Bytes> {
        if !self.begun && !self.skip_byte_order_mark() {
            return None;
        }
        if self.after_return {
            match self.buffer.first() {
                Some(b'\n') => self.buffer.advance(1),
                Some(_) => {}
                None => return None,
            }
            self.after_return = false;
        }
        let found = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]);
        let Some(end) = found.map(|place| place + self.searched) else {
            self.searched = self.buffer.len();
            return None;
        };
        self.searched = 0;
        self.after_return = self.buffer[end] == b'\r';
        let line = self.buffer.split_to(end).freeze();
        self.buffer.advance(1);
        Some(line)
    }

    /// Skips a byte order mark. Returns `false` while more bytes are needed to decide.
    fn skip_byte_order_mark(&mut self) -> bool {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        let start = &self.buffer[..self.buffer.len().min(MARK.len())];
        if start.len() < MARK.len() && MARK.starts_with(start) {
            return false;
        }
        if start == MARK {
            self.buffer.advance(MARK.len());
        }
        self.begun = true;
        true
    }

    fn read_line(&mut self, line: &[u8]) {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.current.has_data {
                    self.current.data.push('\n');
                }
                self.current.has_data = true;
                self.current.data.push_str(&String::from_utf8_lossy(value));
            }
            b"event" => self.current.event = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if !value.contains(&0) => {
                self.current.has_id = true;
                self.last_id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.current.retry = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let PartialEvent { event, data, has_data, has_id, retry } = std::mem::take(&mut self.current);
        if !has_data && !has_id && retry.is_none() {
            return None;
        }
        let id = if has_id { self.last_id.clone() } else { None };
        Some(SseEvent { event: event.filter(|event| !event.is_empty()), data, id, retry })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new(1024);
        let mut events = Vec::new();
        for piece in pieces {
            decoder.push(&Bytes::copy_from_slice(piece));
            while let Some(event) = decoder.next_event().unwrap() {
                events.push(event);
            }
        }
        events
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        let events = read(&[b"\xef\xbb\xbf: hi\n\nevent: endpoint\ndata: /messages\n\ndata: a\ndata: b\r\n\r\nid: 7\rdata:\r\rretry: 500\n\ndata:  x\nretry: soon\n\ndata: cut"]);
        let texts: Vec<_> = events.iter().map(|event| event.data.as_str()).collect();
        assert_eq!(texts, ["/messages", "a\nb", "", "", " x"]);
        assert_eq!(events[0].event.as_deref(), Some("endpoint"));
        assert_eq!((events[2].id.as_deref(), events[3].retry), (Some("7"), Some(500)));
        assert_eq!(events[4].retry, None);
    }

    #[test]
    fn written_events_can_be_read() {
        let mut out = Vec::new();
        write_event(&mut out, None, Some("s-1"), br#"{"a":1}"#);
        out.extend_from_slice(KEEP_ALIVE);
        write_retry(&mut out, 1500);
        let events = read(&[&out]);
        assert_eq!((events[0].data.as_str(), events[0].id.as_deref()), (r#"{"a":1}"#, Some("s-1")));
        assert_eq!(events[1].retry, Some(1500));
        assert_eq!(events.len(), 2);
    }

    #[test]
    fn an_endless_event_is_given_up() {
        for line in [b"data: 0123456789\n".as_slice(), b"0123456789"] {
            let mut decoder = SseDecoder::new(64);
            let outcome = (0..100).find_map(|_| {
                decoder.push(&Bytes::from_static(line));
                decoder.next_event().err()
            });
            assert_eq!(outcome, Some(EventTooLong(64)));
        }
    }

    proptest! {
        #[test]
        fn decoding_does_not_depend_on_the_boundaries_of_pieces(
            text in "((data|id|event|retry|)(: ?[a-z0-9\u{e4}]{0,5})?(\n|\r|\r\n)){0,20}",
            cuts in prop::collection::vec(0_usize..200, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut places: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }
    }
}
