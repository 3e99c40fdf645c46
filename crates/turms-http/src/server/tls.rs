//! TLS configuration of a listener: certificate and key.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use turms_core::ServeError;

pub(super) fn acceptor(certificate: &[u8], key: &[u8]) -> Result<TlsAcceptor, ServeError> {
    let bad = |what: &str, problem: &dyn std::fmt::Display| ServeError::Certificate(format!("{what}: {problem}"));
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|problem| bad("not PEM", &problem))?;
    if chain.is_empty() {
        return Err(ServeError::Certificate("the PEM contains no certificate".into()));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|problem| bad("its key is not PEM", &problem))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|problem| bad("TLS", &problem))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|problem| bad("it does not match its key", &problem))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
