use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::server::parse_seconds;
use crate::target::without_secrets;

/// Environment variable with the path of a certificate file.
const CA_FILE: &str = "TURMS_CA_FILE";

/// Environment variable with the id of a client for client credentials.
const CLIENT_ID: &str = "TURMS_CLIENT_ID";

/// Environment variable with the secret of a client.
const CLIENT_SECRET: &str = "TURMS_CLIENT_SECRET";

/// Environment variable with the path of a client's private key.
const CLIENT_KEY: &str = "TURMS_CLIENT_KEY";

/// Returns `true` if an environment variable has this value.
pub(super) fn is_set(variable: &str, value: &str) -> bool {
    std::env::var(variable).is_ok_and(|set| set == value)
}

/// Options for connections to URLs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct NetworkOptions {
    /// Proxy, instead of those in HTTPS_PROXY, HTTP_PROXY and ALL_PROXY: http://USER:PASSWORD@HOST:PORT, or none; `@FILE` reads it from a file
    #[arg(long, value_name = "URL")]
    pub(crate) proxy: Option<String>,
    /// PEM file with certificates to trust in addition to those of the system
    #[arg(long, value_name = "FILE", env = CA_FILE)]
    pub(crate) ca_file: Option<PathBuf>,
}

impl NetworkOptions {
    /// Returns the options that another command needs to reach the same server, without secrets.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(proxy) = &self.proxy {
            let proxy = if proxy.starts_with('@') { proxy.clone() } else { without_secrets(proxy) };
            words.extend(["--proxy".to_owned(), proxy]);
        }
        if let Some(file) = self.ca_file.as_deref().filter(|file| !is_set(CA_FILE, &file.to_string_lossy())) {
            words.extend(["--ca-file".to_owned(), file.display().to_string()]);
        }
        words
    }
}

/// The login to use.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct ProfileOptions {
    /// Name of the login, for several logins at one server
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Allow an authorization server on a private network, also without TLS
    #[arg(long)]
    pub(crate) allow_private_network: bool,
}

impl ProfileOptions {
    /// Returns the options that another command needs to use the same login.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(profile) = &self.profile {
            words.extend(["--profile".to_owned(), profile.clone()]);
        }
        if self.allow_private_network {
            words.push("--allow-private-network".to_owned());
        }
        words
    }
}

/// Credentials of this program, for tokens without a login.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct ClientOptions {
    /// Id of a client with a secret or a key: the command obtains a token for itself, without a login
    #[arg(long, value_name = "ID", env = CLIENT_ID)]
    pub(crate) client_id: Option<String>,
    /// Secret of the client; `@FILE` reads it from a file. Other users can see options of running programs: prefer the file or the variable
    #[arg(long, value_name = "SECRET", env = CLIENT_SECRET, hide_env_values = true, allow_hyphen_values = true)]
    pub(crate) client_secret: Option<String>,
    /// PEM file with the private key of the client, in place of a secret
    #[arg(long, value_name = "FILE", env = CLIENT_KEY)]
    pub(crate) client_key: Option<PathBuf>,
    /// Issuer of the authorization server that knows the client; another one does not get its secret
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: Option<String>,
    /// Scope to ask for, in addition to those that the server names
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Value of the parameter `resource` for the authorization server, in place of the identifier of the server; `none` omits it
    #[arg(long, value_name = "URI")]
    pub(crate) resource_parameter: Option<String>,
}

impl ClientOptions {
    /// Returns `true` if the id is an option, not a variable of the environment.
    pub(crate) fn is_typed(&self) -> bool {
        self.client_id.as_deref().is_some_and(|id| !is_set(CLIENT_ID, id))
    }

    /// Returns an option that has no effect without the id of a client, if one is typed.
    pub(crate) fn needs_id(&self) -> Option<&'static str> {
        let has_secret = self.client_secret.as_deref().is_some_and(|secret| !is_set(CLIENT_SECRET, secret));
        let typed = [
            ("--client-secret", has_secret),
            ("--issuer", self.issuer.is_some()),
            ("--scope", !self.scope.is_empty()),
            ("--resource-parameter", self.resource_parameter.is_some()),
        ];
        typed.into_iter().find(|(_, is_typed)| *is_typed).map(|(option, _)| option)
    }

    /// Returns the options that another command needs for the same credentials. The secret is replaced by `...`.
    pub(crate) fn repeated(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        if let Some(id) = self.client_id.as_deref().filter(|id| !is_set(CLIENT_ID, id)) {
            add("--client-id", id.to_owned());
        }
        if let Some(secret) = self.client_secret.as_deref().filter(|secret| !is_set(CLIENT_SECRET, secret)) {
            add("--client-secret", if secret.starts_with('@') { secret } else { "..." }.to_owned());
        }
        if let Some(file) = self.client_key.as_deref().filter(|file| !is_set(CLIENT_KEY, &file.to_string_lossy())) {
            add("--client-key", file.display().to_string());
        }
        self.issuer.iter().for_each(|issuer| add("--issuer", issuer.clone()));
        self.scope.iter().for_each(|scope| add("--scope", scope.clone()));
        self.resource_parameter.iter().for_each(|uri| add("--resource-parameter", uri.clone()));
        words
    }
}

/// `auth`
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = false)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    pub(crate) command: AuthCommand,
}

/// The subcommands of `auth`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Log in to a server, in the browser
    ///
    /// The login is stored encrypted, and all commands use and renew it.
    Login(LoginArgs),
    /// Remove the login of a server, and revoke its tokens
    Logout(LogoutArgs),
    /// Show the login of a server, or all logins
    Status(StatusArgs),
}

/// A server at a URL.
#[derive(Debug, Args)]
pub(crate) struct UrlArgs {
    /// Configuration file for NAME, instead of those of other clients
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub(crate) config: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) network: NetworkOptions,
    #[command(flatten)]
    pub(crate) profile: ProfileOptions,
}

/// `auth login`
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// Server: a URL, or a name from a configuration file
    pub(crate) target: String,
    /// Show a URL and a code, to log in on any machine
    #[arg(long, conflicts_with = "paste")]
    pub(crate) device: bool,
    /// Show a URL, to log in with a browser on another machine, and read the address of the page that the login ends on
    #[arg(long)]
    pub(crate) paste: bool,
    /// Register this command again with the authorization server
    #[arg(long, conflicts_with = "client_id")]
    pub(crate) fresh: bool,
    /// Scope to ask for, in addition to those that the server names and those of the present login
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Value of the parameter `resource` for the authorization server, in place of the identifier of the server; `none` omits it
    #[arg(long, value_name = "URI")]
    pub(crate) resource_parameter: Option<String>,
    /// Id of a client that is registered with the authorization server, for servers without dynamic registration
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// Secret of that client, which is stored with the login; `@FILE` reads it from a file
    #[arg(long, value_name = "SECRET", env = CLIENT_SECRET, hide_env_values = true, allow_hyphen_values = true)]
    pub(crate) client_secret: Option<String>,
    /// Issuer of the authorization server that knows the client; another one does not get its id and secret
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) issuer: Option<String>,
    /// Redirect URI that is registered for that client, such as http://localhost:8085/callback
    #[arg(long, value_name = "URI")]
    pub(crate) redirect_uri: Option<String>,
    /// Timeout for the login [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) server: UrlArgs,
}

/// `auth logout`
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// Server: a URL, or a name from a configuration file
    pub(crate) target: String,
    #[command(flatten)]
    pub(crate) server: UrlArgs,
}

/// `auth status`
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Server: a URL, or a name from a configuration file; without one, show all logins
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) server: UrlArgs,
}
