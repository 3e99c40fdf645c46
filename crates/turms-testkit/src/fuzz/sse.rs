//! Where a stream of events is cut does not matter, and no event is longer than is read.

use bytes::Bytes;
use turms_http::{SseDecoder, SseEvent};

const LIMIT: usize = 256;

/// The first byte says how long the pieces are into which the rest is cut.
pub fn sse(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let whole = read(stream, stream.len().max(1));
    let cut = read(stream, usize::from(*size).max(1));
    match (whole, cut) {
        (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
        // What is too long for the decoder may be so a little earlier or later, but what came before it is the same.
        (Ok(some) | Err(some), Ok(other) | Err(other)) => {
            let same = some.len().min(other.len());
            assert_eq!(some[..same], other[..same]);
        }
    }
}

fn read(stream: &[u8], size: usize) -> Result<Vec<SseEvent>, Vec<SseEvent>> {
    let mut decoder = SseDecoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in stream.chunks(size) {
        decoder.push(&Bytes::copy_from_slice(piece));
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => {
                    assert!(event.data.len() <= LIMIT * 4, "an event is longer than is read");
                    events.push(event);
                }
                Ok(None) => break,
                Err(_) => return Err(events),
            }
        }
    }
    Ok(events)
}
