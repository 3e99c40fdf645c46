//! The credentials of requests to a server at a URL.

use std::fs;
use std::path::Path;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use turms::oauth::{ClientCredentials, FileStore, Login, OAuth, OAuthError, ResourceParameter, Secret, SigningKey};

use super::dial_settings::DialSettings;
use crate::args::{ClientOptions, ProfileOptions};
use crate::error::{CliError, CliResult, ExitStatus};
use crate::printer::Printer;
use crate::session::quote;

/// Name of this program on consent pages.
const CLIENT_NAME: &str = "turms";

/// The credentials of requests to a server at a URL.
#[derive(Clone)]
pub(crate) struct UrlCredentials {
    kind: CredentialKind,
    /// URL with the scheme `http` or `https`.
    url: String,
    profile: Option<String>,
    /// The command that logs in to the server.
    login_command: String,
    /// Scopes of the options.
    scopes: Vec<String>,
}

#[derive(Clone)]
enum CredentialKind {
    /// An `Authorization` header.
    Header,
    /// A token that this program obtains for itself.
    Program(OAuth),
    /// The stored login, if there is one.
    Login(OAuth),
}

impl UrlCredentials {
    pub(super) fn new(
        url: &str,
        headers: &HeaderMap,
        dial: &DialSettings,
        (profile, client): (&ProfileOptions, &ClientOptions),
        login_command: String,
    ) -> CliResult<Self> {
        let scopes = scopes(&client.scope);
        let kind = if headers.contains_key(AUTHORIZATION) {
            CredentialKind::Header
        } else {
            let oauth = dial.oauth(new_oauth(profile).scopes(scopes.clone()).login(Login::never()));
            let oauth = oauth.resource(resource_parameter(client.resource_parameter.as_deref()));
            match client_credentials(client)? {
                Some(grant) => {
                    let grant = client.issuer.iter().fold(grant, ClientCredentials::issuer);
                    CredentialKind::Program(oauth.grant(grant))
                }
                // Without a directory for logins, there is no login.
                None => CredentialKind::Login(match FileStore::open() {
                    Ok(store) => oauth.store(store),
                    Err(_) => oauth,
                }),
            }
        };
        Ok(Self { kind, url: http_url(url), profile: profile.profile.clone(), login_command, scopes })
    }

    /// Returns the source of tokens for requests. `None` without a login.
    pub(super) async fn authorizer(&self, printer: &Printer) -> CliResult<Option<OAuth>> {
        let login = match &self.kind {
            CredentialKind::Header => return Ok(None),
            CredentialKind::Program(oauth) => return Ok(Some(oauth.clone())),
            CredentialKind::Login(oauth) => oauth,
        };
        match (login.status(&self.url).await, &self.profile) {
            (Ok(Some(_)), _) => Ok(Some(login.clone())),
            (Ok(None), None) => Ok(None),
            (Ok(None), Some(profile)) => Err(CliError::new(
                ExitStatus::Unauthorized,
                format!("there is no login {profile:?} at {}", super::without_secrets(&self.url)),
            )
            .hint(self.login_hint(&[]))),
            (Err(error), Some(_)) => Err(CliError::of(ExitStatus::Failure, &error)),
            // Servers without authorization can still be used.
            (Err(error), None) => {
                printer.warn(format!("stored logins are not used: {}", cause_of(&error)));
                Ok(None)
            }
        }
    }

    /// Returns `true` if requests have an `Authorization` header of the user.
    pub(crate) fn is_header(&self) -> bool {
        matches!(self.kind, CredentialKind::Header)
    }

    /// Returns `true` if the command obtains tokens for itself.
    pub(crate) fn is_program(&self) -> bool {
        matches!(self.kind, CredentialKind::Program(_))
    }

    /// Returns the command that logs in to the server.
    pub(crate) fn login_command(&self) -> &str {
        &self.login_command
    }

    /// Returns `true` if the options ask for a scope.
    pub(crate) fn asks_for(&self, scope: &String) -> bool {
        self.scopes.contains(scope)
    }

    /// Returns the hint to log in, with the scopes that are missing.
    pub(crate) fn login_hint(&self, scopes: &[String]) -> String {
        login_hint(&self.login_command, scopes)
    }
}

/// Returns the hint to log in with a command.
pub(crate) fn login_hint(command: &str, scopes: &[String]) -> String {
    let scopes: String = scopes.iter().map(|scope| format!(" --scope {}", quote(scope))).collect();
    format!("log in with `{command}{scopes}`")
}

/// Returns the last cause of an error, which names the file.
fn cause_of(error: &OAuthError) -> String {
    let first: &dyn std::error::Error = error;
    std::iter::successors(Some(first), |error| error.source()).last().map(ToString::to_string).unwrap_or_default()
}

/// Returns an OAuth client of this command.
pub(crate) fn new_oauth(options: &ProfileOptions) -> OAuth {
    let oauth = OAuth::new(CLIENT_NAME).profile(options.profile.clone().unwrap_or_default());
    // A command may end while it renews a token in the background. The new refresh token would be lost, and the old one is spent.
    let oauth = oauth.refresh_ahead(Duration::ZERO);
    if options.allow_private_network { oauth.allow_private_network() } else { oauth }
}

/// Returns the scopes of options, each once. One option may have several, separated by spaces as in other programs.
pub(crate) fn scopes(options: &[String]) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in options.iter().flat_map(|option| option.split_whitespace()) {
        if !scopes.iter().any(|known| known == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

/// Returns the parameter `resource` of an option.
pub(crate) fn resource_parameter(option: Option<&str>) -> ResourceParameter {
    match option {
        None => ResourceParameter::FromMetadata,
        Some("none") => ResourceParameter::Omit,
        Some(uri) => ResourceParameter::Exactly(uri.to_owned()),
    }
}

/// Returns the credentials of this program, if the options have any.
fn client_credentials(options: &ClientOptions) -> CliResult<Option<ClientCredentials>> {
    let ClientOptions { client_id, client_secret, client_key, .. } = options;
    match (client_id, client_secret, client_key) {
        (Some(id), Some(secret), None) => {
            Ok(Some(ClientCredentials::secret(id, read_secret("--client-secret", secret)?)))
        }
        (Some(id), None, Some(file)) => Ok(Some(ClientCredentials::key(id, read_key(file)?))),
        (Some(_), Some(_), Some(_)) => {
            Err(CliError::usage("--client-secret and --client-key are both given").hint("give one of them"))
        }
        (Some(_), None, None) => Err(CliError::usage("--client-id is given without --client-secret or --client-key")
            .hint("a client without a secret is for `turms auth login`")),
        // The secret may be in the environment for `auth login`.
        (None, _, None) => match options.needs_id() {
            Some(option) => Err(CliError::usage(format!("{option} is given without --client-id")).hint(
                "it is for a client with a secret or a key; the options of a login belong to `turms auth login`",
            )),
            None => Ok(None),
        },
        (None, _, Some(_)) => Err(CliError::usage("--client-key is given without --client-id")),
    }
}

/// Returns a secret: the value, or the content of the file if it is `@FILE`.
pub(crate) fn read_secret(option: &str, value: &str) -> CliResult<Secret> {
    match value.strip_prefix('@') {
        Some(file) => {
            let text = fs::read_to_string(file).map_err(|error| unreadable(option, file, &error))?;
            match text.trim() {
                "" => Err(CliError::usage(format!("{option}: {file:?} is empty"))),
                secret => Ok(Secret::new(secret)),
            }
        }
        None if value.is_empty() => Err(CliError::usage(format!("{option}: the value is empty"))),
        None => Ok(Secret::new(value)),
    }
}

fn read_key(file: &Path) -> CliResult<SigningKey> {
    let name = file.display().to_string();
    let pem = fs::read(file).map_err(|error| unreadable("--client-key", &name, &error))?;
    SigningKey::from_pem(pem, None)
        .map_err(|error| CliError::new(ExitStatus::Failure, format!("--client-key: cannot use {name:?}: {error}")))
}

fn unreadable(option: &str, file: &str, error: &std::io::Error) -> CliError {
    CliError::new(ExitStatus::Failure, format!("{option}: cannot read {file:?}: {error}"))
}

/// Returns a URL with the scheme of HTTP, by which the logins of a server are found.
pub(crate) fn http_url(url: &str) -> String {
    let scheme = url.get(..2).filter(|scheme| scheme.eq_ignore_ascii_case("ws"));
    scheme.map_or_else(|| url.to_owned(), |_| format!("http{}", &url[2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_websocket_has_the_login_of_its_http_url() {
        assert_eq!(http_url("ws://a/b"), "http://a/b");
        assert_eq!(http_url("wss://a"), "https://a");
        assert_eq!(http_url("https://a"), "https://a");
    }

    #[test]
    fn a_client_has_an_id_and_one_kind_of_credentials() {
        let options = |id: Option<&str>, secret: Option<&str>, key: Option<&str>| ClientOptions {
            client_id: id.map(ToOwned::to_owned),
            client_secret: secret.map(ToOwned::to_owned),
            client_key: key.map(Into::into),
            ..ClientOptions::default()
        };
        let error = |options| client_credentials(&options).unwrap_err().to_string();
        assert!(client_credentials(&options(None, None, None)).unwrap().is_none());
        assert_eq!(error(options(None, Some("s"), None)), "--client-secret is given without --client-id");
        assert!(client_credentials(&options(Some("a"), Some("s"), None)).unwrap().is_some());
        assert!(error(options(Some("a"), None, None)).contains("without --client-secret or --client-key"));
        assert!(error(options(Some("a"), Some("s"), Some("k"))).contains("both given"));
        assert!(error(options(None, None, Some("k"))).contains("without --client-id"));
        assert!(error(options(Some("a"), None, Some("/nonexistent"))).starts_with("--client-key: cannot read"));
    }

    #[test]
    fn scopes_are_separated_and_kept_once() {
        let options = ["a b".to_owned(), " b  c".to_owned(), String::new()];
        assert_eq!(scopes(&options), ["a", "b", "c"]);
    }

    #[test]
    fn an_empty_secret_is_an_error() {
        assert_eq!(read_secret("--x", "").unwrap_err().to_string(), "--x: the value is empty");
        #[cfg(unix)]
        assert_eq!(read_secret("--x", "@/dev/null").unwrap_err().to_string(), "--x: \"/dev/null\" is empty");
    }

    #[test]
    fn scopes_are_part_of_the_hint() {
        let scopes = ["a:b".to_owned(), "c d".to_owned()];
        assert_eq!(
            login_hint("turms auth login x", &scopes),
            "log in with `turms auth login x --scope a:b --scope 'c d'`"
        );
    }
}
