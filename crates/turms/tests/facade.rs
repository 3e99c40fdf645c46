//! Names of the façade, conversions of errors, and error messages.

/// Checks that an error converts into the error of `main`.
const fn converts<E>()
where
    turms::Error: From<E>,
{
}

/// Checks that each of these types converts.
macro_rules! convert {
    ($($error:ty),+) => { $(converts::<$error>();)+ };
}

#[test]
fn every_error_converts_into_the_error_of_main() {
    converts::<std::io::Error>();
    converts::<tokio::task::JoinError>();
    converts::<serde_json::Error>();
    converts::<Box<dyn std::error::Error + Send + Sync>>();
    {
        use turms::jsonrpc::{ErrorObject, MessageError};
        use turms::layer::{PeerError, ServiceError};
        use turms::registry::{RegisterError, RegistryError, ServiceCallError, ServiceNameError};
        use turms::transport::{ConnectError, ConnectionError, HandshakeError, OpenError, SpawnError};
        use turms::types::{
            Base64Error, CanonicalError, DecodeError, EncodeError, MissingCapabilityError, SkillEntryError,
        };
        use turms::types::{SyntaxError, TemplateError, ToolFailedError, UnknownVersionError, UnsupportedFeatureError};

        convert!(ErrorObject, MessageError);
        convert!(PeerError, ServiceError);
        convert!(RegisterError, RegistryError);
        convert!(ServiceCallError, ServiceNameError);
        convert!(ConnectError, ConnectionError, SpawnError);
        convert!(OpenError, HandshakeError);
        convert!(Base64Error, CanonicalError, SyntaxError);
        convert!(DecodeError, EncodeError);
        convert!(MissingCapabilityError, SkillEntryError, ToolFailedError);
        convert!(TemplateError, UnknownVersionError, UnsupportedFeatureError);
        converts::<turms::store::StoreError>();
    }
    #[cfg(feature = "client")]
    {
        use turms::client::{CallError, ConfigError, EntryError, GroupError, HandlerError, PoolError};

        convert!(CallError, HandlerError);
        convert!(ConfigError, EntryError);
        convert!(GroupError, PoolError);
        #[cfg(feature = "skills")]
        converts::<turms::client::SkillError>();
    }
    #[cfg(feature = "server")]
    {
        use turms::server::{BuildError, ComponentError, InputError, RegistrationError, Rejection, ToolError};

        convert!(BuildError, ComponentError, RegistrationError);
        convert!(InputError, Rejection, ToolError);
        #[cfg(feature = "skills")]
        converts::<turms::server::SkillError>();
    }
    #[cfg(feature = "http-client")]
    {
        use turms::http::{AuthorizeError, DialError, HttpError};

        convert!(HttpError, DialError, AuthorizeError);
    }
    #[cfg(feature = "oauth-client")]
    {
        use turms::oauth::{FetchError, LoginError, OAuthError};

        convert!(OAuthError, FetchError, LoginError);
        converts::<turms::oauth::StoreError>();
    }
    #[cfg(feature = "oauth-server")]
    {
        use turms::oauth::{GuardError, JwsError, KeyError, VerifyError};

        convert!(GuardError, VerifyError);
        convert!(JwsError, KeyError);
    }
    #[cfg(feature = "ws-client")]
    convert!(turms::ws::WsError);
}

/// Environment variable that makes `a_program_that_fails` return an error, as the `main` of a program.
#[cfg(feature = "client")]
const FAILS: &str = "TURMS_TEST_FAILS";

/// Returns the error of a command that does not exist, in a process that the next test starts; does nothing otherwise.
#[cfg(feature = "client")]
#[tokio::test]
async fn a_program_that_fails() -> turms::Result {
    if std::env::var_os(FAILS).is_some() {
        let command = turms::ChildCommand::new("no-such-program-of-turms");
        turms::Client::builder("test", "1.0.0").connect_command(command).await?;
    }
    Ok(())
}

#[cfg(feature = "client")]
#[test]
fn a_program_ends_with_a_line_for_the_error_and_each_cause() {
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    let output = program.args(["--exact", "--nocapture", "a_program_that_fails"]).env(FAILS, "1").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().skip_while(|line| !line.starts_with("Error: "));
    assert_eq!(lines.next(), Some("Error: cannot reach \"no-such-program-of-turms\""), "{text}");
    let cause = lines.next().unwrap_or_default();
    assert!(cause.starts_with("caused by: cannot start \"no-such-program-of-turms\": program not found"), "{text}");
}

#[cfg(feature = "client")]
#[test]
fn debug_of_an_error_is_a_line_for_each_cause_and_all_fields_in_the_long_form() {
    use turms::client::ConnectError;

    let error = ConnectError::unreachable("http://example.com/", std::io::Error::other("connection refused"));
    assert_eq!(format!("{error:?}"), "cannot reach http://example.com/\ncaused by: connection refused");
    let fields = format!("{error:#?}");
    assert!(fields.starts_with("ConnectError::Unreachable {\n    server: \"http://example.com/\",\n"), "{fields}");
    assert!(fields.contains("connection refused"), "{fields}");
    let error = turms::client::GroupError::Connect(error);
    assert_eq!(format!("{error:?}"), "cannot reach http://example.com/\ncaused by: connection refused");
}

#[cfg(all(feature = "client", feature = "http-server"))]
#[tokio::test]
async fn the_text_of_an_error_names_the_target_the_failure_and_the_cause() {
    use turms::Tool;

    let tool = || Tool::builder("add").handler_sync(|| "3");
    let server = turms::Server::new("shop", "1.0.0").tool(tool()).build().unwrap();
    let client = turms::Client::builder("test", "1.0.0").connect_service(server).await.unwrap();
    let error = client.call_tool("nope", ()).await.unwrap_err();
    let text = r#"tools/call "nope": error response from server: unknown tool: "nope" (-32602 invalid params)"#;
    assert_eq!(format!("{error:?}"), text);
    assert_eq!(error.error_response().map(|error| error.code), Some(turms::jsonrpc::ErrorCode::INVALID_PARAMS));

    let error = turms::Server::new("shop", "1.0.0").tool(tool()).tool(tool()).build().unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with(r#"cannot build server "shop": tool "add": "#) && !text.ends_with('.'), "{text}");

    let listener = turms::http::Listener::bind("127.0.0.1:0").await.unwrap();
    let error = turms::http::Listener::bind(listener.address()).await.err().unwrap();
    let text = format!("{error:?}");
    assert!(text.starts_with(&format!("cannot listen on {}\ncaused by: ", listener.address())), "{text}");
    assert_eq!(error.kind(), turms::ErrorKind::Bind);
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
    #[cfg(feature = "oauth-dev")]
    use turms::oauth::dev::DevServer;
    #[cfg(feature = "oauth-client")]
    use turms::oauth::{
        ClientCredentials, FileStore, Login, OAuth, ResourceParameter, authorization_url, client_credentials, discover,
        exchange_code, pkce, refresh, register,
    };
    #[cfg(feature = "oauth-server")]
    use turms::oauth::{Issuer, TokenGuard};
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

/// The prelude imports the extension traits without their names.
#[cfg(all(feature = "http-server", feature = "ws-server"))]
#[test]
fn the_prelude_has_the_methods_that_serve() {
    use turms::prelude::*;

    let server = || Server::new("test", "1.0.0");
    assert!(server().into_http_service().is_ok() && server().into_ws_service().is_ok());
}
