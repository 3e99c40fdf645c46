//! Decoding of event streams: it does not depend on the boundaries of pieces, and events are limited.

use bytes::Bytes;
use turms_http::__internal::{SseDecoder, SseEvent};

const LIMIT: usize = 256;

/// Fuzz target for event streams. The first byte is the size of the pieces in which the rest is decoded.
pub fn sse(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let whole = decode(stream, stream.len().max(1));
    let in_pieces = decode(stream, usize::from(*size).max(1));
    match (whole, in_pieces) {
        (Ok(whole), Ok(in_pieces)) => assert_eq!(whole, in_pieces),
        // The decoder may notice an event over the limit earlier or later, but the events before it are the same.
        (Ok(some) | Err(some), Ok(other) | Err(other)) => {
            let same = some.len().min(other.len());
            assert_eq!(some[..same], other[..same]);
        }
    }
}

fn decode(stream: &[u8], size: usize) -> Result<Vec<SseEvent>, Vec<SseEvent>> {
    let mut decoder = SseDecoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in stream.chunks(size) {
        decoder.push(&Bytes::copy_from_slice(piece));
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => {
                    assert!(event.data.len() <= LIMIT * 4, "an event is longer than the limit");
                    events.push(event);
                }
                Ok(None) => break,
                Err(_) => return Err(events),
            }
        }
    }
    Ok(events)
}
