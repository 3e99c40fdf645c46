use std::future::poll_fn;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

/// Runs a test on its own runtime.
fn run<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test)
}

async fn socket(stream: DuplexStream) -> WsByteStream<DuplexStream> {
    WsByteStream::new(stream, Role::Server, 1 << 20, HeartbeatOptions::default(), Arc::default()).await
}

/// Returns a masked frame, as a client sends it.
fn frame(payload: &[u8], kind: OpCode, last: bool) -> Vec<u8> {
    let mut frame = match kind {
        OpCode::Data(_) => Frame::message(payload.to_vec(), kind, last),
        OpCode::Control(_) => Frame::ping(payload.to_vec()),
    };
    frame.header_mut().mask = Some([9, 8, 7, 6]);
    let mut bytes = Vec::new();
    frame.format(&mut bytes).unwrap();
    bytes
}

/// Returns a message in frames that are split at `cuts`, each followed by a ping if `ping` is set.
fn message(text: &str, cuts: &[usize], ping: bool) -> Vec<u8> {
    let mut positions: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
    positions.extend([0, text.len()]);
    positions.sort_unstable();
    let count = positions.len() - 1;
    let mut bytes = Vec::new();
    for (number, ends) in positions.windows(2).enumerate() {
        let kind = if number == 0 { Data::Text } else { Data::Continue };
        let payload = &text.as_bytes()[ends[0]..ends[1]];
        bytes.extend(frame(payload, OpCode::Data(kind), number + 1 == count));
        if ping {
            let kind = OpCode::Control(tokio_tungstenite::tungstenite::protocol::frame::coding::Control::Ping);
            bytes.extend(frame(b"?", kind, true));
        }
    }
    bytes
}

/// Reads `length` bytes, in reads of at most `piece` bytes.
async fn read(socket: &mut WsByteStream<DuplexStream>, length: usize, piece: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    while whole.len() < length {
        let mut buffer = vec![0; piece];
        let count = socket.read(&mut buffer).await.unwrap();
        whole.extend_from_slice(&buffer[..count]);
    }
    whole
}

/// Receives the next message of a socket.
async fn receive(web: &mut WebSocketStream<DuplexStream>) -> String {
    let message = poll_fn(|task| Pin::new(&mut *web).poll_next(task)).await.unwrap().unwrap();
    message.into_text().unwrap().as_str().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn reading_does_not_depend_on_the_boundaries_of_frames_and_packets(
        texts in prop::collection::vec(("[a-z\r\n\u{e4}\u{1f980}]{0,40}", prop::collection::vec(any::<usize>(), 0..4), any::<bool>()), 1..6),
        packet in 1_usize..64,
        piece in 1_usize..64,
    ) {
        let sent: Vec<u8> = texts.iter().flat_map(|(text, cuts, ping)| message(text, cuts, *ping)).collect();
        let lines: String = texts.iter().map(|(text, ..)| text.replace('\n', "\r") + "\n").collect();
        let read = run(async {
            let (near, far) = tokio::io::duplex(packet);
            let (mut pongs, mut far) = tokio::io::split(far);
            tokio::spawn(async move { tokio::io::copy(&mut pongs, &mut tokio::io::sink()).await });
            // A ping after the last message may fail, because the socket is dropped then.
            tokio::spawn(async move { far.write_all(&sent).await.map(|()| far) });
            read(&mut socket(near).await, lines.len(), piece).await
        });
        prop_assert_eq!(String::from_utf8(read).unwrap(), lines);
    }

    #[test]
    fn writing_does_not_depend_on_the_boundaries_of_writes(
        texts in prop::collection::vec(("[a-z\u{e4}\u{1f980}]{1,20}", prop_oneof![9 => 1_usize..4, 1 => 1000_usize..10_000]), 1..6),
        packet in 1_usize..5000,
        piece in 1_usize..5000,
    ) {
        let texts: Vec<String> = texts.into_iter().map(|(text, times)| text.repeat(times)).collect();
        let lines: Vec<u8> = texts.iter().flat_map(|text| format!("{text}\n").into_bytes()).collect();
        let received = run(async {
            let (near, far) = tokio::io::duplex(packet);
            let writing = tokio::spawn(async move {
                let mut socket = socket(near).await;
                for piece in lines.chunks(piece) {
                    socket.write_all(piece).await.unwrap();
                }
                socket.flush().await.unwrap();
                socket
            });
            let mut web = WebSocketStream::from_raw_socket(far, Role::Client, None).await;
            let mut received = Vec::new();
            while received.len() < texts.len() {
                received.push(receive(&mut web).await);
            }
            writing.await.unwrap();
            received
        });
        prop_assert_eq!(received, texts);
    }

    /// Any input is read or closes the connection, without a panic or a deadlock.
    #[test]
    fn any_input_is_read_or_closes_the_connection(bytes in prop::collection::vec(any::<u8>(), 0..200), masked in any::<bool>()) {
        run(async {
            let (near, mut far) = tokio::io::duplex(1024);
            // Random bytes are mostly rejected at the first byte; a valid header gets them further.
            let begin: &[u8] = if masked { &[0x81, 0x84, 0, 0, 0, 0, b'n', b'u', b'l', b'l'] } else { &[] };
            far.write_all(&[begin, &bytes].concat()).await.unwrap();
            drop(far);
            let mut socket = socket(near).await;
            let mut read = Vec::new();
            tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut read)).await.unwrap().unwrap_err();
        });
    }
}

#[tokio::test]
async fn at_most_one_frame_is_buffered_for_a_peer_that_does_not_read() {
    let (near, _far) = tokio::io::duplex(1024);
    let mut socket = socket(near).await;
    let text = [vec![b' '; 10 * MAX_FRAME_BYTES], b"\n".to_vec()].concat();
    let mut taken = 0;
    // Polled once: a pending write would never be ready.
    while let Poll::Ready(count) =
        poll_fn(|task| Poll::Ready(Pin::new(&mut socket).poll_write(task, &text[taken..]))).await
    {
        taken += count.unwrap();
    }
    assert_eq!(taken, MAX_FRAME_BYTES);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_slowly_does_not_time_out() {
    let (near, mut far) = tokio::io::duplex(16);
    let mut socket = socket(near).await;
    let mut text = vec![b' '; 16 * 1024];
    text.push(b'\n');
    let (mut reading, mut writing) = (
        vec![0; 64],
        std::pin::pin!(async move {
            let mut slow = [0; 16 * 1024];
            for _ in 0..4 {
                tokio::time::sleep(Duration::from_secs(25)).await;
                // Frame headers are read, too, so there is a little more to read each time.
                far.read_exact(&mut slow).await.unwrap();
            }
            far
        }),
    );
    let outcome = poll_fn(|task| {
        // Writes and reads as a connection does.
        while let Poll::Ready(written) = Pin::new(&mut socket).poll_write(task, &text) {
            written.unwrap();
        }
        let mut buffer = ReadBuf::new(&mut reading);
        if let Poll::Ready(read) = Pin::new(&mut socket).poll_read(task, &mut buffer) {
            return Poll::Ready(Err(read));
        }
        writing.as_mut().poll(task).map(Ok)
    })
    .await;
    assert!(outcome.is_ok(), "{outcome:?}");
}
