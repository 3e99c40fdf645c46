//! TLS configuration of a listener: certificate and key.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use turms_core::{Error, ErrorKind};

/// Creates an acceptor from a certificate chain and its key, both in PEM.
pub(super) fn acceptor(certificate: &[u8], key: &[u8]) -> Result<TlsAcceptor, Error> {
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| invalid("it is not PEM", error))?;
    if chain.is_empty() {
        return Err(Error::new(ErrorKind::Setup, "cannot use the TLS certificate: the PEM contains no certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| invalid("its key is not PEM", error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("TLS cannot be configured", error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| invalid("it does not match its key", error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn invalid(reason: &str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_source(ErrorKind::Setup, format!("cannot use the TLS certificate: {reason}"), source)
}
