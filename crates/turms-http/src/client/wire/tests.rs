use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::response::MAX_HEAD;
use super::*;

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// How one connection of a played server goes: what it answers to each request. Then it closes.
type Script = Vec<&'static [u8]>;

/// Plays a server that has these connections and no others.
async fn played(scripts: Vec<Script>) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp?key=1", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(async move {
        for script in scripts {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            for answer in script {
                let request = request_of(&mut stream).await;
                assert!(request.starts_with("POST /mcp?key=1 HTTP/1.1\r\nhost: 127.0.0.1:"), "{request}");
                stream.write_all(answer).await.unwrap();
            }
        }
    });
    url
}

/// Reads a request to its end.
async fn request_of(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        stream.read_buf(&mut read).await.unwrap();
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return text.into_owned();
            }
        }
    }
}

fn wire(url: &Url) -> Wire {
    Wire::new(url, false, Duration::from_secs(5), None).unwrap()
}

async fn post(wire: &Wire, url: &Url, body: impl Into<Bytes>) -> Result<(StatusCode, Vec<u8>), WireError> {
    let (head, mut body) = wire.send(&Method::POST, url, &Headers::default(), &body.into()).await?;
    let mut all = Vec::new();
    while let Some(piece) = body.piece().await? {
        all.extend_from_slice(&piece);
    }
    Ok((head.status, all))
}

/// What comes of one answer.
async fn of(answer: &'static [u8]) -> Result<(StatusCode, Vec<u8>), WireError> {
    let url = played(vec![vec![answer]]).await;
    post(&wire(&url), &url, "{}").await
}

async fn body_of(answer: &'static [u8]) -> String {
    let (status, body) = of(answer).await.unwrap();
    assert_eq!(status, StatusCode::OK);
    String::from_utf8(body).unwrap()
}

#[tokio::test]
async fn a_connection_is_used_again_once_its_answer_was_read() {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let url = played(vec![vec![EMPTY, chunked, EMPTY]]).await;
    let wire = wire(&url);
    for expected in ["", "abc", ""] {
        assert_eq!(post(&wire, &url, "{}").await.unwrap(), (StatusCode::OK, expected.into()));
    }
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_is_not_used_again() {
    let url = played(vec![vec![EMPTY], vec![EMPTY]]).await;
    let wire = wire(&url);
    post(&wire, &url, "{}").await.unwrap();
    while wire.pool.tidy() {
        tokio::task::yield_now().await;
    }
    post(&wire, &url, "{}").await.unwrap();
}

#[tokio::test]
async fn a_connection_that_the_server_gives_up_is_not_kept() {
    for last in [
        &b"HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 0\r\n\r\n"[..],
        b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nwhat nobody asked for",
    ] {
        let url = played(vec![vec![last], vec![EMPTY]]).await;
        let wire = wire(&url);
        post(&wire, &url, "{}").await.unwrap();
        assert!(wire.pool.take().is_none(), "{last:?}");
    }
}

#[tokio::test]
async fn a_body_ends_as_its_head_says() {
    assert_eq!(body_of(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef").await, "abc");
    assert_eq!(body_of(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc").await, "abc");
    assert_eq!(body_of(b"HTTP/1.1 200 OK\r\n\r\nabc").await, "abc");
    assert_eq!(
        body_of(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n").await,
        "abc"
    );
    let (status, body) = of(b"HTTP/1.1 204 No Content\r\ncontent-length: 3\r\n\r\n").await.unwrap();
    assert_eq!((status, body.len()), (StatusCode::NO_CONTENT, 0));
}

#[tokio::test]
async fn heads_that_announce_others_are_passed_over() {
    let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na";
    assert_eq!(body_of(answer).await, "a");
    assert!(matches!(of(b"HTTP/1.1 101 Switching\r\n\r\n").await, Err(WireError::Head(HeadError::Switch))));
}

#[tokio::test]
async fn an_answer_may_arrive_in_any_pieces() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nx: y\r\n\r\n";
    for size in [1, 2, 3, 7, 50] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            request_of(&mut stream).await;
            for piece in answer.as_bytes().chunks(size) {
                stream.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            stream
        };
        let wire = wire(&url);
        let (answer, _stream) = tokio::join!(post(&wire, &url, "{}"), serve);
        assert_eq!(answer.unwrap().1, b"hello world");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_refused() {
    let not_http: [&'static [u8]; 3] = [b"\x15\x03\x01\x00\x02\x02\x46", b"SSH-2.0-x\r\n", b"<html>\r\n\r\n"];
    for answer in not_http {
        let error = of(answer).await.unwrap_err();
        assert!(error.is_not_http() && !error.is_connect(), "{error:?}");
    }
    // These speak HTTP, and have seen the request.
    for answer in [&b"HTTP/1.1 200 OK\r\nno header\r\n\r\n"[..], b"HTTP/1.1 2x0 OK\r\n\r\n"] {
        let error = of(answer).await.unwrap_err();
        assert!(matches!(error, WireError::Head(_)) && !error.is_not_http(), "{error:?}");
    }
    let lengths = of(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na").await;
    assert!(matches!(lengths, Err(WireError::Head(HeadError::Length))));
    assert!(matches!(
        of(b"HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\na").await,
        Err(WireError::Head(HeadError::Length))
    ));
    let long: &'static [u8] = [b"HTTP/1.1 200 OK\r\nx: ", vec![b'x'; MAX_HEAD].as_slice()].concat().leak();
    assert!(matches!(of(long).await, Err(WireError::Head(HeadError::TooLong))));
    assert!(matches!(
        of(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n").await,
        Err(WireError::Chunk(_))
    ));
}

#[tokio::test]
async fn an_answer_that_is_cut_is_an_error() {
    for answer in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        assert!(matches!(of(answer).await, Err(WireError::Closed)), "{answer:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_heard_before_all_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let refuse = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        let refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(refusal).await.unwrap();
        stream
    };
    let wire = wire(&url);
    let body = vec![b' '; 64 * 1024 * 1024];
    let (answer, _stream) = tokio::join!(post(&wire, &url, body), refuse);
    assert_eq!(answer.unwrap().0, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(wire.pool.take().is_none(), "the rest of the request would be taken for another");
}

#[tokio::test]
async fn a_request_goes_on_while_it_is_answered() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let body = vec![b'!'; 16 * 1024 * 1024];
    let length = body.len();
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        let (mut read, mut heard) = (vec![0; 64 * 1024], 0);
        while heard < length {
            let count = stream.read(&mut read).await.unwrap();
            assert!(count > 0, "the request ends after {heard} bytes");
            heard += read[..count].iter().filter(|byte| **byte == b'!').count();
        }
        stream.write_all(b"2\r\nok\r\n0\r\n\r\n").await.unwrap();
    };
    let wire = Wire::new(&url, false, Duration::from_secs(5), Some(Duration::from_secs(5))).unwrap();
    let (answer, ()) = tokio::join!(post(&wire, &url, body), serve);
    assert_eq!(answer.unwrap().1, b"ok");
}

#[tokio::test]
async fn a_silent_server_is_given_up_where_there_is_a_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    let limit = Duration::from_millis(20);
    let wire = Wire::new(&url, false, Duration::from_secs(5), Some(limit)).unwrap();
    assert!(matches!(post(&wire, &url, "{}").await, Err(WireError::Silent(after)) if after == limit));
}

#[tokio::test]
async fn only_plain_addresses_go_this_way() {
    let can = |url: &str| Wire::new(&url.parse().unwrap(), false, Duration::from_secs(5), None).is_some();
    assert!(can("http://example.com/mcp") && can("http://[::1]:8080/"));
    assert!(!can("https://example.com/mcp") && !can("http://user:password@example.com/"));
}

/// To find out where a server is takes a thread of the runtime, of which there may be none.
#[test]
fn a_name_that_is_not_found_out_in_time_is_given_up() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        tokio::task::spawn_blocking(move || ended.recv());
        let url: Url = "http://localhost:9/".parse().unwrap();
        let wire = Wire::new(&url, false, Duration::from_millis(20), None).unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(10), post(&wire, &url, "{}")).await;
        assert!(answer.expect("it is given up").unwrap_err().is_connect());
    });
    drop(end);
}

#[tokio::test]
async fn nobody_there_is_said_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    assert!(post(&wire(&url), &url, "{}").await.unwrap_err().is_connect());
}
