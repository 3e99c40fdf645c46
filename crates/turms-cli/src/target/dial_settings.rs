use std::fs;

use turms::http::HttpConnector;
use turms::oauth::{Fetcher, OAuth};
use turms::ws::WsConnector;

use crate::args::NetworkOptions;
use crate::error::{CliError, CliResult, ExitStatus};

/// Options for connections to URLs: proxy and certificates.
#[derive(Clone, Default)]
pub(crate) struct DialSettings {
    proxy: Option<ProxyChoice>,
    /// Additional root certificates, as PEM.
    roots: Option<Vec<u8>>,
}

#[derive(Clone)]
enum ProxyChoice {
    None,
    Url(String),
}

impl DialSettings {
    /// Reads the files that the options name.
    pub(crate) fn read(options: &NetworkOptions) -> CliResult<Self> {
        let proxy = match options.proxy.as_deref() {
            None => None,
            Some("none") => Some(ProxyChoice::None),
            Some(url) => Some(ProxyChoice::Url(proxy_url(url)?)),
        };
        let roots = options.ca_file.as_ref().map(|file| {
            let unreadable =
                |error| CliError::new(ExitStatus::Failure, format!("--ca-file: cannot read {file:?}: {error}"));
            let pem = fs::read(file).map_err(unreadable)?;
            if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
                return Err(CliError::usage(format!("--ca-file: {file:?} contains no PEM certificates")));
            }
            Ok(pem)
        });
        Ok(Self { proxy, roots: roots.transpose()? })
    }

    pub(super) fn http(&self, connector: HttpConnector) -> HttpConnector {
        let connector = match &self.proxy {
            None => connector,
            Some(ProxyChoice::None) => connector.no_proxy(),
            Some(ProxyChoice::Url(url)) => connector.proxy(url),
        };
        self.roots.iter().fold(connector, HttpConnector::root_certificates)
    }

    pub(super) fn ws(&self, connector: WsConnector) -> WsConnector {
        let connector = match &self.proxy {
            None => connector,
            Some(ProxyChoice::None) => connector.no_proxy(),
            Some(ProxyChoice::Url(url)) => connector.proxy(url),
        };
        self.roots.iter().fold(connector, WsConnector::root_certificates)
    }

    pub(crate) fn oauth(&self, oauth: OAuth) -> OAuth {
        let oauth = match &self.proxy {
            None => oauth,
            Some(ProxyChoice::None) => oauth.no_proxy(),
            Some(ProxyChoice::Url(url)) => oauth.proxy(url),
        };
        self.roots.iter().fold(oauth, OAuth::root_certificates)
    }

    pub(crate) fn fetcher(&self, fetcher: Fetcher) -> Fetcher {
        let fetcher = match &self.proxy {
            None => fetcher,
            Some(ProxyChoice::None) => fetcher.no_proxy(),
            Some(ProxyChoice::Url(url)) => fetcher.proxy(url),
        };
        self.roots.iter().fold(fetcher, Fetcher::root_certificates)
    }
}

/// Returns the URL of the proxy. It may contain a password, so it can be read from a file, and errors do not repeat it.
fn proxy_url(value: &str) -> CliResult<String> {
    let url = match value.strip_prefix('@') {
        Some(file) => fs::read_to_string(file)
            .map_err(|error| CliError::new(ExitStatus::Failure, format!("--proxy: cannot read {file:?}: {error}")))?
            .trim()
            .to_owned(),
        None => value.to_owned(),
    };
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if host.is_none_or(str::is_empty) {
        return Err(CliError::usage("--proxy: expected http://HOST:PORT, https://HOST:PORT or none"));
    }
    Ok(url)
}
