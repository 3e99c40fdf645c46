//! The options of a dialer, which `HttpConnector` and `WsConnector` share.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::proxy::matcher::Matcher;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::address_check::{AddressCheck, DialAddress};
use super::dialer::{Dialer, Route};
use super::tls;

/// Options of a [`Dialer`].
#[derive(Clone)]
pub struct DialOptions {
    proxies: Proxies,
    socket: Option<PathBuf>,
    pub(super) timeout: Duration,
    check: Option<Arc<AddressCheck>>,
    roots: Vec<CertificateDer<'static>>,
    /// Configuration of TLS with the server, in place of the roots.
    config: Option<Arc<ClientConfig>>,
    /// The first option that is invalid.
    invalid: Option<&'static str>,
}

#[derive(Clone)]
enum Proxies {
    System,
    /// This one, with its credentials.
    Only(String),
    None,
}

/// Error for a dialer that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialOptionsError {
    /// An option is invalid.
    #[error("{0}")]
    Invalid(&'static str),
    /// TLS cannot be set up: the system has no certificates, or an added root cannot be used.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
}

/// Protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialProtocol {
    /// HTTP/2 if the server negotiates it in TLS, or HTTP/1.1. Proxies forward requests to plain servers.
    Http,
    /// A protocol that HTTP/1.1 is upgraded to. Proxies open tunnels.
    Upgrade,
}

impl DialOptions {
    /// The proxies of the system, and a connect timeout of 10 s.
    #[must_use]
    pub fn new() -> Self {
        Self {
            proxies: Proxies::System,
            socket: None,
            timeout: Duration::from_secs(10),
            check: None,
            roots: Vec::new(),
            config: None,
            invalid: None,
        }
    }

    /// Connects through this proxy.
    pub fn set_proxy(&mut self, url: &str) {
        let target = Uri::from_static("http://server.invalid/");
        let proxy = Matcher::builder().all(url.to_owned()).build().intercept(&target);
        if !proxy.is_some_and(|proxy| matches!(proxy.uri().scheme_str(), Some("http" | "https"))) {
            // The URL may contain a password, so the error does not repeat it.
            self.invalid = Some("the URL of the proxy is invalid: expected http:// or https:// with a host");
        }
        self.proxies = Proxies::Only(url.to_owned());
    }

    /// Connects without a proxy.
    pub fn set_no_proxy(&mut self) {
        self.proxies = Proxies::None;
    }

    /// Connects to a Unix socket.
    pub fn set_unix_socket(&mut self, path: PathBuf) {
        self.socket = Some(path);
    }

    /// Returns the Unix socket.
    #[must_use]
    pub fn unix_socket(&self) -> Option<&PathBuf> {
        self.socket.as_ref()
    }

    /// Sets the timeout for a connection: name resolution, TCP, the proxy and TLS together.
    pub fn set_connect_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Trusts the certificates of a PEM file, too.
    pub fn add_root_certificates(&mut self, pem: &[u8]) {
        let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match roots {
            Ok(roots) if !roots.is_empty() => self.roots.extend(roots),
            _ => self.invalid = Some("the root certificates are invalid: expected PEM"),
        }
    }

    /// Checks each IP address before connecting.
    pub fn set_address_check<E: Into<Box<dyn Error + Send + Sync>>>(
        &mut self,
        check: impl Fn(&DialAddress<'_>) -> Result<(), E> + Send + Sync + 'static,
    ) {
        self.check = Some(Arc::new(move |address| check(address).map_err(Into::into)));
    }

    /// Sets the configuration of TLS with the server, in place of the system's roots and those added.
    pub fn set_tls_config(&mut self, config: Arc<ClientConfig>) {
        self.config = Some(config);
    }

    /// Builds a dialer for the origin of a URL.
    ///
    /// # Errors
    /// When an option is invalid, or TLS is needed and cannot be set up.
    pub fn build(&self, uri: &Uri, protocol: DialProtocol) -> Result<Dialer, DialOptionsError> {
        if let Some(invalid) = self.invalid {
            return Err(DialOptionsError::Invalid(invalid));
        }
        let proxies = match &self.proxies {
            Proxies::System => (!excepts_all()).then(Matcher::from_system),
            Proxies::Only(url) => Some(Matcher::builder().all(url.clone()).build()),
            Proxies::None => None,
        };
        let proxy = proxies.as_ref().and_then(|proxies| proxies.intercept(uri));
        let protocols = if protocol == DialProtocol::Http { tls::HTTP } else { tls::HTTP_11 };
        let tls = match &self.config {
            Some(config) => config.clone(),
            None => self.tls(uri, protocols)?,
        };
        let proxy_tls = match proxy {
            Some(proxy) => self.tls(proxy.uri(), tls::HTTP_11)?,
            None => tls.clone(),
        };
        let route = Route {
            proxies: proxies.map(Arc::new),
            proxy_tls,
            is_tunnelled: protocol == DialProtocol::Upgrade,
            socket: self.socket.clone(),
            check: self.check.clone(),
            timeout: self.timeout,
        };
        Ok(Dialer::new(route, tls))
    }

    fn tls(&self, uri: &Uri, protocols: &[&str]) -> Result<Arc<ClientConfig>, DialOptionsError> {
        let is_used = uri.scheme() == Some(&Scheme::HTTPS);
        let config = if is_used { tls::trusting(&self.roots, protocols) } else { tls::unused() };
        config.map(Arc::new).map_err(DialOptionsError::Tls)
    }
}

/// Returns `true` if `NO_PROXY` has a `*`. It stands for all hosts, as in curl; `Matcher` takes it for all names, and not for addresses.
fn excepts_all() -> bool {
    let list = std::env::var("NO_PROXY").or_else(|_| std::env::var("no_proxy"));
    list.is_ok_and(|list| list.split(',').any(|entry| entry.trim() == "*"))
}

impl Default for DialOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Does not show the URL of the proxy, which may contain a password.
impl fmt::Debug for DialOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialOptions")
            .field("socket", &self.socket)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
