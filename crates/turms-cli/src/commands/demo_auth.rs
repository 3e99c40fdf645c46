//! The guard of the demo server.

use std::net::SocketAddr;

use turms::oauth::dev::{DevClient, DevServer};
use turms::oauth::{FetchErrorKind, GuardError, Issuer, Secret, TokenGuard, TokenGuardBuilder};

use crate::args::{DemoAuthArgs, DemoTransport};
use crate::error::{CliError, CliResult, ExitStatus};
use crate::target::{http_url, read_secret};
use crate::text::StyledText;

/// Scope that the demo needs with `--auth`, and that of a tool.
const SCOPE: &str = "demo";
const TOOL_SCOPE: (&str, &str) = ("divide", "demo:divide");

/// Users of the development server.
const USERS: [&str; 2] = ["ann", "ben"];

/// A client of the development server with a secret, for client credentials.
const ROBOT: (&str, &str) = ("robot", "robot-secret");

/// Authorization of the demo server.
pub(super) struct DemoAuth {
    source: TokenSource,
    resource: Option<String>,
    audiences: Vec<String>,
    scopes: Vec<String>,
    tool_scopes: Vec<(String, String)>,
}

/// The authorization server that issues the tokens.
enum TokenSource {
    /// The development server, which is started with the demo. Logs a user in without a page, if there is one.
    Development { user: Option<String> },
    /// Issuers of signed tokens, with the URLs of their keys. Without a URL, the keys are found by the metadata of the issuer.
    Issuers(Vec<(String, Option<String>)>),
    /// An issuer, and its introspection endpoint.
    Introspection { issuer: String, url: String, client: String, secret: Secret },
}

/// The guard, with the development server that it needs.
pub(super) struct DemoGuard {
    guard: TokenGuard,
    /// Stops when it is dropped.
    development: Option<DevServer>,
}

impl DemoGuard {
    pub(super) fn token_guard(&self) -> TokenGuard {
        self.guard.clone()
    }
}

impl DemoAuth {
    /// Checks the options. `None` if there are none.
    pub(super) fn from_args(args: &DemoAuthArgs, transport: &DemoTransport) -> CliResult<Option<Self>> {
        let Some(source) = TokenSource::from_args(args)? else { return Ok(None) };
        if transport.stdio {
            return Err(CliError::usage("authorization is for --http, --ws and --sse, not for --stdio"));
        }
        let is_development = matches!(source, TokenSource::Development { .. });
        let mut tool_scopes = Vec::new();
        for text in &args.auth_tool_scope {
            match text.split_once('=') {
                Some((tool, scope)) if !tool.is_empty() && !scope.is_empty() => {
                    tool_scopes.push((tool.to_owned(), scope.to_owned()));
                }
                _ => {
                    return Err(CliError::usage(format!("--auth-tool-scope: expected TOOL=SCOPE, found {text:?}"))
                        .hint("for example --auth-tool-scope divide=demo:divide"));
                }
            }
        }
        if is_development && tool_scopes.is_empty() {
            tool_scopes.push((TOOL_SCOPE.0.to_owned(), TOOL_SCOPE.1.to_owned()));
        }
        let mut scopes = args.auth_scope.clone();
        if is_development && scopes.is_empty() {
            scopes.push(SCOPE.to_owned());
        }
        let (resource, audiences) = (args.auth_resource.clone(), args.auth_audience.clone());
        Ok(Some(Self { source, resource, audiences, scopes, tool_scopes }))
    }

    /// Returns the names of tools with the scopes that they need.
    pub(super) fn tool_scopes(&self) -> &[(String, String)] {
        &self.tool_scopes
    }

    /// Creates the guard of a server at this URL.
    pub(super) async fn guard(&self, url: &str, bound: Option<SocketAddr>) -> CliResult<DemoGuard> {
        let resource = self.resource.clone().unwrap_or_else(|| http_url(url));
        let mut guard = TokenGuard::builder(resource).scopes(self.scopes.clone()).resource_name("Turms demo");
        guard = self.audiences.iter().fold(guard, TokenGuardBuilder::audience);
        let mut development = None;
        guard = match &self.source {
            TokenSource::Development { user } => {
                let server = self.start_development_server(bound, user.as_deref()).await?;
                let issuer = Issuer::keys(server.issuer(), server.jwk_set());
                development = Some(server);
                guard.issuer(issuer)
            }
            TokenSource::Issuers(issuers) => {
                let issuers = issuers.iter().map(|(issuer, keys)| match keys {
                    Some(url) => Issuer::jwks_uri(issuer, url),
                    None => Issuer::discover(issuer),
                });
                issuers.fold(guard, TokenGuardBuilder::issuer)
            }
            TokenSource::Introspection { issuer, url, client, secret } => {
                guard.issuer(Issuer::introspect(issuer, url, client, secret.expose()))
            }
        };
        Ok(DemoGuard { guard: guard.build().map_err(|error| guard_error(&error))?, development })
    }

    /// Starts the development server at the address of the demo, with another port.
    async fn start_development_server(&self, bound: Option<SocketAddr>, user: Option<&str>) -> CliResult<DevServer> {
        let Some(bound) = bound.filter(|bound| bound.ip().is_loopback()) else {
            return Err(CliError::usage(
                "--auth is for loopback addresses: its authorization server is for development",
            )
            .hint("serve on 127.0.0.1, or use your own authorization server with --auth-issuer URL"));
        };
        let tool_scopes = self.tool_scopes.iter().map(|(_, scope)| scope);
        let mut builder = DevServer::builder()
            .scopes(self.scopes.iter().chain(tool_scopes))
            .default_scopes(&self.scopes)
            .client(DevClient::with_secret(ROBOT.0, ROBOT.1).grant_types(["client_credentials"]));
        builder = USERS.into_iter().fold(builder, |builder, user| builder.user(user));
        if let Some(user) = user {
            builder = if USERS.contains(&user) { builder } else { builder.user(user) }.auto_approve(user);
        }
        let address = SocketAddr::new(bound.ip(), 0);
        builder.bind(address.to_string()).await.map_err(|error| CliError::of(ExitStatus::Failure, &error))
    }

    /// Describes what the demo needs, and commands to try.
    pub(super) fn describe(&self, url: &str, guard: &DemoGuard) -> StyledText {
        let row = |text: StyledText, name: &str, value: &str| text.dim(format!("{name:<22}")).plain(value).plain("\n");
        let mut text = StyledText::new();
        match (&self.source, &guard.development) {
            (TokenSource::Development { user }, Some(server)) => {
                text = row(
                    text,
                    "authorization server",
                    &format!("{} (for development, not for production)", server.issuer()),
                );
                let users = match user {
                    Some(user) => format!("{user}, who is logged in without a page"),
                    None => format!("{}, without passwords", USERS.join(" and ")),
                };
                text = row(text, "users", &users);
                text = row(text, "client with a secret", &format!("{}, {}", ROBOT.0, ROBOT.1));
            }
            (TokenSource::Development { .. }, None) => {}
            (TokenSource::Issuers(issuers), _) => {
                for (issuer, _) in issuers {
                    text = row(text, "authorization server", issuer);
                }
            }
            (TokenSource::Introspection { issuer, .. }, _) => text = row(text, "authorization server", issuer),
        }
        if !self.scopes.is_empty() {
            text = row(text, "scope", &self.scopes.join(" "));
        }
        for (tool, scope) in &self.tool_scopes {
            text = row(text, &format!("scope of {tool}"), scope);
        }
        let url = self.resource.as_deref().unwrap_or(url);
        text = text.plain(format!("try:\n  turms auth login {url}\n  turms call {url} add a=1 b=2"));
        if self.tool_scopes.iter().any(|(tool, _)| tool == "divide") {
            text = text.plain(format!("\n  turms call {url} divide a=6 b=2"));
        }
        text
    }
}

impl TokenSource {
    fn from_args(args: &DemoAuthArgs) -> CliResult<Option<Self>> {
        let has_introspection = args.auth_introspect.is_some();
        if args.auth && (has_introspection || !args.auth_issuer.is_empty()) {
            return Err(CliError::usage("--auth starts an authorization server, so there is no other one")
                .hint("omit --auth to use --auth-issuer or --auth-introspect"));
        }
        if args.auth_user.is_some() && !args.auth {
            return Err(CliError::usage("--auth-user is only for --auth"));
        }
        if let Some(option) = first_given(&[
            ("--auth-client", !has_introspection && args.auth_client.is_some()),
            ("--auth-jwks", !args.auth_jwks.is_empty() && has_introspection),
        ]) {
            return Err(CliError::usage(match option {
                "--auth-jwks" => "--auth-jwks and --auth-introspect exclude each other",
                _ => "--auth-client is only for --auth-introspect",
            }));
        }
        if args.auth {
            return match args.auth_jwks.first() {
                Some(_) => Err(CliError::usage("--auth-jwks is only for --auth-issuer")),
                None => Ok(Some(Self::Development { user: args.auth_user.clone() })),
            };
        }
        if args.auth_jwks.len() > args.auth_issuer.len() {
            return Err(CliError::usage("each --auth-jwks needs an --auth-issuer")
                .hint("the issuer is the claim `iss` of the tokens"));
        }
        match (&args.auth_introspect, args.auth_issuer.as_slice()) {
            (Some(url), issuers) => Self::introspection(args, url, issuers).map(Some),
            (None, []) => match first_given(&[
                ("--auth-resource", args.auth_resource.is_some()),
                ("--auth-audience", !args.auth_audience.is_empty()),
                ("--auth-scope", !args.auth_scope.is_empty()),
                ("--auth-tool-scope", !args.auth_tool_scope.is_empty()),
            ]) {
                Some(option) => {
                    Err(CliError::usage(format!("{option} needs --auth, --auth-issuer or --auth-introspect")))
                }
                None => Ok(None),
            },
            (None, issuers) => {
                let urls = args.auth_jwks.iter().cloned().map(Some).chain(std::iter::repeat(None));
                Ok(Some(Self::Issuers(issuers.iter().cloned().zip(urls).collect())))
            }
        }
    }

    fn introspection(args: &DemoAuthArgs, url: &str, issuers: &[String]) -> CliResult<Self> {
        let issuer = match issuers {
            [issuer] => issuer.clone(),
            [] => origin_of(url),
            _ => return Err(CliError::usage("--auth-introspect takes at most one --auth-issuer")),
        };
        let (Some(client), Some(secret)) = (&args.auth_client, &args.auth_client_secret) else {
            return Err(CliError::usage("--auth-introspect needs --auth-client and --auth-client-secret")
                .hint("the secret can also be in TURMS_AUTH_CLIENT_SECRET"));
        };
        let secret = read_secret("--auth-client-secret", secret)?;
        Ok(Self::Introspection { issuer, url: url.to_owned(), client: client.clone(), secret })
    }
}

fn first_given<'a>(options: &[(&'a str, bool)]) -> Option<&'a str> {
    options.iter().find(|(_, is_given)| *is_given).map(|(option, _)| *option)
}

/// Returns scheme, host and port of a URL.
fn origin_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    format!("{scheme}://{}", rest.split('/').next().unwrap_or_default())
}

/// Converts the error of an invalid guard: the options have the values.
fn guard_error(error: &GuardError) -> CliError {
    let failure = CliError::of(ExitStatus::Usage, error);
    match error {
        GuardError::Resource { .. } => failure.hint("--auth-resource is the URL of the demo server as clients know it"),
        GuardError::Url(url) if matches!(url.kind(), FetchErrorKind::Url) => {
            failure.hint("--auth-issuer, --auth-jwks and --auth-introspect are URLs, such as https://auth.example.com")
        }
        GuardError::Url(_) => {
            failure.hint("addresses of this machine are allowed if the demo server is on loopback, too")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STDIO: DemoTransport = DemoTransport { stdio: true, http: None, ws: None, sse: None };

    fn http() -> DemoTransport {
        DemoTransport { stdio: false, http: Some("0".to_owned()), ws: None, sse: None }
    }

    fn error(args: &DemoAuthArgs) -> String {
        match DemoAuth::from_args(args, &http()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{args:?} is accepted"),
        }
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn options_that_do_not_fit_together_are_errors() {
        let none = DemoAuthArgs::default;
        let issuers = |count: usize| vec!["https://a.example".to_owned(); count];
        assert!(DemoAuth::from_args(&none(), &STDIO).unwrap().is_none());
        let auth = DemoAuthArgs { auth: true, ..none() };
        assert!(DemoAuth::from_args(&auth, &STDIO).is_err_and(|error| error.to_string().contains("not for --stdio")));
        let both = DemoAuthArgs { auth: true, auth_issuer: issuers(1), ..none() };
        assert!(error(&both).contains("no other one"));
        assert_eq!(error(&DemoAuthArgs { auth_user: some("ann"), ..none() }), "--auth-user is only for --auth");
        let keys = |count: usize| vec!["https://a.example/keys".to_owned(); count];
        let more_keys = DemoAuthArgs { auth_jwks: keys(2), auth_issuer: issuers(1), ..none() };
        assert_eq!(error(&more_keys), "each --auth-jwks needs an --auth-issuer");
        let introspect = || DemoAuthArgs { auth_introspect: some("https://a/i"), ..none() };
        assert!(error(&introspect()).contains("needs --auth-client and --auth-client-secret"));
        assert!(error(&DemoAuthArgs { auth_jwks: keys(1), ..introspect() }).contains("exclude each other"));
        assert!(error(&DemoAuthArgs { auth_client: some("a"), ..none() }).contains("only for --auth-introspect"));
        assert!(
            error(&DemoAuthArgs { auth_scope: vec!["a".to_owned()], ..none() }).contains("--auth-scope needs --auth")
        );
        let wrong = DemoAuthArgs { auth: true, auth_tool_scope: vec!["divide".to_owned()], ..none() };
        assert!(error(&wrong).contains("expected TOOL=SCOPE"));
    }

    #[test]
    fn the_issuer_of_introspected_tokens_is_the_origin_of_the_endpoint() {
        assert_eq!(origin_of("https://a.example:8443/oauth/introspect"), "https://a.example:8443");
        assert_eq!(origin_of("https://a.example"), "https://a.example");
    }
}
