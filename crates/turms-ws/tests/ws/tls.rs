//! WebSocket over TLS.

use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use turms_core::ConnectError;
use turms_testkit::within;
use turms_ws::{ServeWs as _, WsConnector, WsError};

use crate::fixture::{builder, server};

/// Starts a server with a certificate and returns its port.
async fn start_tls_server() -> u16 {
    let certificate = CertificateDer::from_slice(include_bytes!("../tls/localhost.der"));
    let key = PrivateKeyDer::try_from(&include_bytes!("../tls/localhost.key.der")[..]).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let service = TowerToHyperService::new(server(&Arc::default()).into_ws_service().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate disconnects.
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone());
            tokio::spawn(connection.with_upgrades());
        }
    });
    port
}

#[tokio::test]
async fn an_untrusted_certificate_is_an_error() {
    let port = start_tls_server().await;
    let connector = WsConnector::new(format!("wss://localhost:{port}/")).unwrap();
    let error = within("an error", builder().connect(connector)).await.unwrap_err();
    let ConnectError::Unreachable { source, .. } = &error else { panic!("{error:?}") };
    // On a system without root certificates the error is `Trust`.
    let source: &WsError = source.downcast_ref().unwrap();
    assert!(matches!(source, WsError::Tls { .. } | WsError::Trust(_)), "{source:?}");
}

#[cfg(feature = "rustls-0_23")]
mod configured {
    use serde_json::json;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    use super::*;
    use crate::fixture::connect;

    /// A TLS configuration that trusts the authority of the tests.
    fn trusting_config() -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_slice(include_bytes!("../tls/authority.der"))).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }

    #[tokio::test]
    async fn a_server_with_a_trusted_certificate_works() {
        let port = start_tls_server().await;
        for host in ["localhost", "127.0.0.1"] {
            let connector = WsConnector::new(format!("wss://{host}:{port}/")).unwrap().tls_config(trusting_config());
            let client = connect(connector, builder()).await;
            let text = "\u{e4}".repeat(200_000);
            let echo = client.call_tool("echo", json!({ "text": text })).await.unwrap();
            assert!(echo.text() == text);
            within("the close", client.close()).await;
        }
    }
}
