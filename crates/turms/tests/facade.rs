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
        converts::<turms::InputError>();
        converts::<turms::RegistrationError>();
    }
    #[cfg(feature = "http-client")]
    converts::<turms::http::HttpError>();
    #[cfg(all(feature = "client", feature = "ws"))]
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
