//! The check of IP addresses before connecting.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;
use turms_core::BoxFuture;

use super::dialer::{BoxError, DialError};

/// A check of an IP address before connecting.
pub(super) type AddressCheck = dyn Fn(&DialAddress<'_>) -> Result<(), BoxError> + Send + Sync;

/// An IP address before connecting to it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DialAddress<'a> {
    /// Host of the URL, without the brackets of an IPv6 address.
    pub host: &'a str,
    /// The host if it is an IP address, or one of the addresses that it resolves to.
    pub ip: IpAddr,
    /// `true` if this is the address of a proxy, and the server is behind it.
    pub is_proxy: bool,
}

/// Checks one address.
pub(super) fn check_address(check: &AddressCheck, host: &str, ip: IpAddr, is_proxy: bool) -> Result<(), DialError> {
    let refused = |source| DialError::AddressRefused { host: host.to_owned(), ip, source };
    check(&DialAddress { host, ip, is_proxy }).map_err(refused)
}

/// The resolver of the system with a check of its addresses. Exactly the checked addresses are connected to.
#[derive(Clone)]
pub(super) struct CheckedResolver {
    pub(super) check: Option<Arc<AddressCheck>>,
    pub(super) is_proxy: bool,
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { check, is_proxy } = self.clone();
        Box::pin(async move {
            let addresses: Vec<_> = GaiResolver::new().call(name.clone()).await?.collect();
            if let Some(check) = check {
                addresses.iter().try_for_each(|it| check_address(&*check, name.as_str(), it.ip(), is_proxy))?;
            }
            Ok(addresses.into_iter())
        })
    }
}
