//! TLS on the listener. The key in this folder is only for these tests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use turms_http::Listener;
use turms_testkit::{eventually, within};

use crate::dialog::{modern_call, modern_stream};
use crate::fixture::Fixture;
use crate::wire::Request;

const CERTIFICATE: &[u8] = include_bytes!("certificate.pem");
const KEY: &[u8] = include_bytes!("key.pem");

fn secured(listener: Listener) -> Listener {
    listener.tls(CERTIFICATE, KEY).unwrap()
}

/// Connects with a client that trusts the certificate and offers these protocols (ALPN).
async fn connect(fixture: &Fixture, protocols: &[&str]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(CERTIFICATE).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let socket = TcpStream::connect(fixture.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    within("a secure connection", TlsConnector::from(Arc::new(config)).connect(name, socket)).await.unwrap()
}

fn add() -> Request {
    modern_call(1, "add", json!({ "a": 1, "b": 2 })).header("Connection", "close")
}

async fn assert_serves(fixture: &Fixture) {
    let mut socket = connect(fixture, &["http/1.1"]).await;
    socket.write_all(&add().bytes()).await.unwrap();
    let mut answer = String::new();
    within("a response", socket.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""text":"3""#), "{answer}");
}

#[tokio::test]
async fn a_server_supports_tls() {
    let fixture = Fixture::at(secured).await;
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn both_versions_of_http_are_offered() {
    let fixture = Fixture::at(secured).await;
    for (offered, chosen) in
        [(&["h2", "http/1.1"][..], Some("h2")), (&["http/1.1"], Some("http/1.1")), (&["h2"], Some("h2")), (&[], None)]
    {
        let socket = connect(&fixture, offered).await;
        let (_, session) = socket.get_ref();
        assert_eq!(session.alpn_protocol(), chosen.map(str::as_bytes), "{offered:?}");
    }
    let (mut sender, connection) = h2::client::handshake(connect(&fixture, &["h2"]).await).await.unwrap();
    tokio::spawn(connection);
    let call = modern_call(1, "add", json!({ "a": 1, "b": 2 }));
    let mut head = http::Request::builder().method("POST").uri("https://localhost/mcp");
    for (name, value) in call.headers.iter().filter(|(name, _)| name != "Host") {
        head = head.header(name, value.as_slice());
    }
    let (answer, mut sending) = sender.send_request(head.body(()).unwrap(), false).unwrap();
    sending.send_data(call.body.unwrap().into(), true).unwrap();
    assert_eq!(within("a response", answer).await.unwrap().status(), 200);
}

#[tokio::test]
async fn closing_a_tls_connection_cancels_its_call_in_the_newest_revision() {
    let fixture = Fixture::at(secured).await;
    let mut socket = connect(&fixture, &["http/1.1"]).await;
    socket.write_all(&modern_stream(1, "wait", json!({})).bytes()).await.unwrap();
    eventually("a call", async || fixture.traces.begun.load(Ordering::SeqCst) == 1).await;
    drop(socket);
    eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
}

/// Connections without a finished TLS handshake are closed and do not use up the connection limit.
#[tokio::test]
async fn a_handshake_must_come_in_time() {
    let short = Duration::from_millis(100);
    let fixture = Fixture::at(|listener| secured(listener).header_timeout(short).max_connections(3)).await;
    let mut connections = Vec::new();
    for begun in [&b""[..], b"\x16\x03\x01", &add().bytes()] {
        let mut connection = fixture.connect().await;
        connection.write(begun).await;
        connections.push(connection);
    }
    for mut connection in connections {
        let mut said = Vec::new();
        // A reset is fine as well.
        let _ = within("the end of a connection", connection.socket.read_to_end(&mut said)).await;
        assert!(!said.starts_with(b"HTTP/1.1 2"), "{said:?}");
    }
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn a_server_with_tls_shuts_down_despite_an_unfinished_handshake() {
    // With long timeouts, the shutdown would hang if it waited for an unfinished handshake.
    let long = Duration::from_secs(600);
    let fixture = Fixture::at(|listener| secured(listener).header_timeout(long).drain_timeout(long)).await;
    let _silent = fixture.connect().await;
    assert_serves(&fixture).await;
    let _idle = connect(&fixture, &["http/1.1"]).await;
    fixture.shut_down().await;
}

#[tokio::test]
async fn an_invalid_certificate_or_key_is_an_error() {
    let listener = || Listener::bind("127.0.0.1:0");
    for (certificate, key) in [(&b""[..], KEY), (b"nonsense", KEY), (CERTIFICATE, b""), (CERTIFICATE, CERTIFICATE)] {
        let refused = listener().await.unwrap().tls(certificate, key);
        assert!(!refused.unwrap_err().to_string().is_empty());
    }
}
