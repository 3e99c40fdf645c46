//! TLS for test servers.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A self-signed certificate for `localhost` and 127.0.0.1.
pub const CERTIFICATE: &[u8] = include_bytes!("../../turms-http/tests/server/tls/certificate.pem");

const KEY: &[u8] = include_bytes!("../../turms-http/tests/server/tls/key.pem");

/// Creates an acceptor with the certificate and these ALPN protocols.
pub fn acceptor(protocols: &[&str]) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::from_pem_slice(KEY).unwrap())
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// Starts a TLS listener for HTTP/1.1 that forwards to a plain server, and returns its address.
pub async fn tls_in_front_of(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, acceptor) = (listener.local_addr().unwrap(), acceptor(&["http/1.1"]));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust the certificate disconnects.
                let Ok(mut client) = acceptor.accept(stream).await else { return };
                let Ok(mut server) = TcpStream::connect(server).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}
