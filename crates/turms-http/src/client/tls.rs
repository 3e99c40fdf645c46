//! TLS of clients. Trusted certificates are those of the system and roots that the user adds. The crypto provider is the default of
//! the process, or ring if there is none; no default is installed.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};
use rustls_platform_verifier::Verifier;

/// The protocols that are offered to a server by ALPN, the preferred one first.
pub(super) const HTTP: &[&str] = &["h2", "http/1.1"];

/// HTTP/1.1 only: for tunnels through proxies and for WebSocket.
pub(super) const HTTP_11: &[&str] = &["http/1.1"];

/// Returns a configuration that trusts the system and `roots`.
pub(super) fn trusting(roots: &[CertificateDer<'static>], protocols: &[&str]) -> Result<ClientConfig, rustls::Error> {
    let provider = provider();
    let verifier = Arc::new(Verifier::new_with_extra_roots(roots.iter().cloned(), provider.clone())?);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(finish(builder.dangerous().with_custom_certificate_verifier(verifier), protocols))
}

/// Returns a configuration that trusts nothing, for connections without TLS. It needs no certificates on the machine.
pub(super) fn unused() -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(finish(builder.with_root_certificates(RootCertStore::empty()), &[]))
}

fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()))
}

fn finish(builder: ConfigBuilder<ClientConfig, WantsClientCert>, protocols: &[&str]) -> ClientConfig {
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    config
}
