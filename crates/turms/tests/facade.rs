//! What programs can name, and what converts into what.

/// Checks that an error converts into the error of `main`.
const fn converts<E>()
where
    turms::Error: From<E>,
{
}

#[test]
fn every_error_converts_into_the_error_of_main() {
    converts::<std::io::Error>();
    converts::<tokio::task::JoinError>();
    converts::<Box<dyn std::error::Error + Send + Sync>>();
    #[cfg(feature = "client")]
    {
        converts::<turms::client::CallError>();
        converts::<turms::client::ConnectError>();
        converts::<turms::client::ConfigError>();
        converts::<turms::client::GroupError>();
        converts::<turms::client::PoolError>();
    }
    #[cfg(feature = "server")]
    {
        converts::<turms::server::InputError>();
        converts::<turms::server::RegistrationError>();
    }
    #[cfg(feature = "http-client")]
    converts::<turms::http::HttpError>();
    #[cfg(feature = "ws-client")]
    converts::<turms::ws::WsConnectError>();
}

/// `turms::Result` has defaults for both of its types.
fn fails() -> turms::Result {
    Err(std::io::Error::other("no disk"))?
}

#[test]
fn an_error_of_main_is_a_sentence() {
    let error = fails().unwrap_err();
    assert_eq!((error.kind(), format!("{error:?}")), (turms::ErrorKind::Other, "no disk".to_owned()));
}

#[test]
fn the_version_is_that_of_the_crate() {
    assert_eq!(turms::VERSION, env!("CARGO_PKG_VERSION"));
}

/// The modules that the documentation names, with one item of each.
#[expect(unused_imports, reason = "that they can be imported is the test")]
mod modules {
    #[cfg(feature = "client")]
    use turms::client::Client;
    #[cfg(any(feature = "http-client", feature = "http-server"))]
    use turms::http::{HeaderMap, StatusCode};
    use turms::jsonrpc::ErrorCode;
    use turms::layer::{CallContext, Service, TimeoutLayer};
    use turms::registry::ServiceRegistry;
    #[cfg(feature = "server")]
    use turms::server::{Endpoint, Server};
    use turms::store::SessionStore;
    use turms::transport::{ChildCommand, Connector};
    use turms::types::{CallToolResult, Method, Object, RawJson};
    #[cfg(feature = "ws-server")]
    use turms::ws::WsService;
    use turms::{ErrorObject, ProtocolVersion};
}

/// The traits of the prelude have methods and no names.
#[cfg(all(feature = "http-server", feature = "ws-server"))]
#[test]
fn the_prelude_has_the_methods_that_serve() {
    use turms::prelude::*;

    let server = || Server::new("test", "1.0.0");
    assert!(server().into_http_service().is_ok() && server().into_ws_service().is_ok());
}
