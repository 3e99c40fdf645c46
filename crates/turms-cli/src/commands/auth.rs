use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use turms::oauth::store::TokenStore as _;
use turms::oauth::{ClientIdentity, Fetcher, FileStore, Login, LoginStatus, OAuth, OAuthError, Secret, discover};

use crate::args::{AuthArgs, AuthCommand, LoginArgs, LogoutArgs, StatusArgs, UrlArgs};
use crate::error::{CliError, CliResult, ExitStatus};
use crate::explain::{self, LoginSource};
use crate::printer::Printer;
use crate::show;
use crate::target::{self, DialSettings, login_hint};
use crate::text::StyledText;

/// Logs in, logs out, or shows logins.
pub(crate) async fn run(args: &AuthArgs, printer: &Printer) -> CliResult {
    let command = async {
        match &args.command {
            AuthCommand::Login(args) => login(args, printer).await,
            AuthCommand::Logout(args) => logout(args, printer).await,
            AuthCommand::Status(StatusArgs { target: Some(target), server }) => status(target, server, printer).await,
            AuthCommand::Status(StatusArgs { target: None, server }) => list(server, printer).await,
        }
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Err(CliError::new(ExitStatus::Interrupted, "interrupted")),
        result = command => result,
    }
}

/// A server with a login.
struct LoginServer {
    url: String,
    store: FileStore,
    oauth: OAuth,
    dial: DialSettings,
    /// The command that logs in to the server.
    command: String,
    /// `true` if the options name the client.
    has_client: bool,
}

impl LoginServer {
    fn resolve(name: &str, args: &UrlArgs) -> CliResult<Self> {
        let url = target::login_url(name, &args.config)?;
        let dial = DialSettings::read(&args.network)?;
        let store = FileStore::open().map_err(|error| CliError::of(ExitStatus::Failure, &error))?;
        let oauth = dial.oauth(target::new_oauth(&args.profile)).store(store.clone());
        let name = if name.contains("://") { target::without_secrets(name) } else { name.to_owned() };
        let command = target::login_command(&name, &args.config, &args.network, &args.profile);
        Ok(Self { url, store, oauth, dial, command, has_client: false })
    }

    fn failed(&self, error: &OAuthError) -> CliError {
        explain::authorization_error(error, LoginSource { command: Some(&self.command), has_client: self.has_client })
    }

    fn shown_url(&self) -> String {
        target::without_secrets(&self.url)
    }
}

async fn login(args: &LoginArgs, printer: &Printer) -> CliResult {
    let mut server = LoginServer::resolve(&args.target, &args.server)?;
    let mut scopes = args.scope.clone();
    if !args.fresh
        && let Some(login) = server.oauth.status(&server.url).await.map_err(|error| server.failed(&error))?
    {
        // A login for further scopes keeps the scopes of the present one.
        scopes.extend(login.scopes.into_iter().filter(|scope| !args.scope.contains(scope)));
    }
    let resource = target::resource_parameter(args.resource_parameter.as_deref());
    server.oauth = server.oauth.clone().login(method(args, printer)).scopes(scopes).resource(resource);
    let secret = match (&args.client_id, &args.client_secret) {
        (Some(_), Some(secret)) => Some(target::read_secret("--client-secret", secret)?),
        _ => None,
    };
    if let Some(id) = &args.client_id {
        server.has_client = true;
        let client = match &secret {
            Some(secret) => ClientIdentity::with_secret(id, secret.expose()),
            None => ClientIdentity::public(id),
        };
        server.oauth = server.oauth.clone().client(issuer(&server, args).await?, client);
    }
    let login = in_time(args, log_in(&server, args)).await?;
    if let Some(secret) = secret {
        store_secret(&server.store, &login, secret).await?;
    }
    if printer.is_json() {
        return printer.json(&object(&login));
    }
    printer.line(describe(StyledText::new().plain("logged in to "), &login))
}

async fn log_in(server: &LoginServer, args: &LoginArgs) -> CliResult<LoginStatus> {
    let login = match args.fresh {
        true => server.oauth.login_with_new_registration(&server.url).await,
        false => server.oauth.login_now(&server.url).await,
    };
    login.map_err(|error| server.failed(&error))
}

/// Limits the time of a device login, which otherwise waits until its code expires.
async fn in_time<T>(args: &LoginArgs, login: impl Future<Output = CliResult<T>>) -> CliResult<T> {
    match args.timeout.filter(|_| args.device) {
        Some(limit) => tokio::time::timeout(limit, login).await.unwrap_or_else(|_| {
            Err(CliError::new(ExitStatus::Timeout, format!("no login within {}", show::duration(limit))))
        }),
        None => login.await,
    }
}

/// Returns the way in which the person logs in.
fn method(args: &LoginArgs, printer: &Printer) -> Login {
    let login = match (args.device, args.paste) {
        (true, _) => Login::device(),
        (_, true) => Login::paste(),
        _ => Login::browser(),
    };
    let messages = printer.clone();
    let login = login.show(move |message| messages.always(message.to_string()));
    let login = args.redirect_uri.iter().fold(login, |login, uri| login.redirect(uri));
    args.timeout.into_iter().fold(login, Login::timeout)
}

/// Returns the issuer of a server, where the client is registered.
async fn issuer(server: &LoginServer, args: &LoginArgs) -> CliResult<String> {
    let invalid = |_| CliError::usage(format!("{:?} is not a valid URL", server.shown_url()));
    let url = server.url.parse().map_err(invalid)?;
    let mut fetcher = server.dial.fetcher(Fetcher::for_server(&url));
    if args.server.profile.allow_private_network {
        fetcher = fetcher.allow_private_network();
    }
    let discovery = discover(&fetcher, &url, None, None).await.map_err(|error| server.failed(&error))?;
    let found = discovery.server.issuer;
    match args.issuer.as_ref().filter(|expected| **expected != found) {
        Some(expected) => {
            let message = format!("{} uses the authorization server {found}, not {expected}", server.shown_url());
            Err(CliError::new(ExitStatus::Unauthorized, message))
        }
        None => Ok(found),
    }
}

/// Stores the secret of a client with its login, so that other commands can renew the login.
async fn store_secret(store: &FileStore, login: &LoginStatus, secret: Secret) -> CliResult {
    let failed = |error| CliError::of(ExitStatus::Failure, &error);
    let keys = store.list().await.map_err(failed)?;
    let Some(key) = keys.iter().find(|key| key.server == login.server && key.profile == login.profile) else {
        return Ok(());
    };
    let mut lock = store.lock(key).await.map_err(failed)?;
    if let Some(mut stored) = lock.load().await.map_err(failed)? {
        stored.client.client_secret = Some(secret);
        lock.save(&stored).await.map_err(failed)?;
    }
    Ok(())
}

async fn logout(args: &LogoutArgs, printer: &Printer) -> CliResult {
    let server = LoginServer::resolve(&args.target, &args.server)?;
    let was_logged_in = server.oauth.logout(&server.url).await.map_err(|error| server.failed(&error))?;
    let url = server.shown_url();
    if printer.is_json() {
        return printer.json(&json!({ "server": url, "loggedOut": was_logged_in }));
    }
    match was_logged_in {
        true => printer.line(format!("logged out of {url}")),
        false => {
            printer.note(format!("there was no login at {url}"));
            Ok(())
        }
    }
}

async fn status(name: &str, args: &UrlArgs, printer: &Printer) -> CliResult {
    let server = LoginServer::resolve(name, args)?;
    let login = server.oauth.status(&server.url).await.map_err(|error| server.failed(&error))?;
    let Some(login) = login else {
        if printer.is_json() {
            printer.json(&json!({ "server": server.shown_url(), "loggedIn": false }))?;
        }
        let profile = args.profile.profile.as_ref().map(|profile| format!(" with the profile {profile:?}"));
        let message = format!("not logged in to {}{}", server.shown_url(), profile.unwrap_or_default());
        return Err(CliError::new(ExitStatus::Unauthorized, message).hint(login_hint(&server.command, &[])));
    };
    if printer.is_json() {
        return printer.json(&object(&login));
    }
    printer.line(describe(StyledText::new(), &login))
}

/// Shows all logins.
async fn list(args: &UrlArgs, printer: &Printer) -> CliResult {
    let failed = |error| CliError::of(ExitStatus::Failure, &error);
    let store = FileStore::open().map_err(failed)?;
    let mut logins = Vec::new();
    for key in store.list().await.map_err(failed)? {
        if args.profile.profile.as_ref().is_some_and(|profile| *profile != key.profile) {
            continue;
        }
        let oauth = OAuth::new("turms").profile(key.profile).store(store.clone());
        let login = oauth.status(&key.server).await;
        logins.extend(login.map_err(|error| CliError::of(ExitStatus::Failure, &error))?);
    }
    if printer.is_json() {
        return printer.json(&json!({ "logins": logins.iter().map(object).collect::<Vec<_>>() }));
    }
    if logins.is_empty() {
        printer.note("there are no logins; `turms auth login TARGET` logs in");
    }
    logins.iter().try_for_each(|login| printer.line(describe(StyledText::new(), login)))
}

/// Formats a login, without its tokens.
fn describe(text: StyledText, login: &LoginStatus) -> StyledText {
    let row = |text: StyledText, name: &str, value: &str| text.dim(format!("\n  {name:<14}")).plain(value);
    let mut text = text.name(login.server.as_str());
    if !login.profile.is_empty() {
        text = row(text, "profile", &login.profile);
    }
    text = row(text, "issuer", &login.issuer);
    if !login.scopes.is_empty() {
        text = row(text, "scopes", &login.scopes.join(" "));
    }
    text = row(text, "access token", &validity(login));
    if login.is_bound { row(text, "proof", "bound to a key (DPoP)") } else { text }
}

/// Describes how long the access token is valid.
fn validity(login: &LoginStatus) -> String {
    #[expect(clippy::disallowed_methods, reason = "this is a binary")]
    let now = SystemTime::now();
    let left = login.expires_at.map(|at| at.duration_since(now));
    let (valid, renewal) = match (left, login.is_renewable) {
        (Some(Err(_)), true) => ("expired".to_owned(), "renewed when it is needed"),
        (Some(Err(_)), false) => ("expired".to_owned(), "a new login is needed"),
        (None, renewable) => ("valid until the server rejects it".to_owned(), renewal(renewable)),
        (Some(Ok(left)), renewable) => (format!("valid for {}", rounded(left)), renewal(renewable)),
    };
    format!("{valid}; {renewal}")
}

fn renewal(is_renewable: bool) -> &'static str {
    if is_renewable { "renewed automatically" } else { "then a new login is needed" }
}

/// Formats a duration in minutes or hours if it is long.
fn rounded(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h", (seconds + 1800) / 3600),
    }
}

fn object(login: &LoginStatus) -> Value {
    let seconds = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).map(|time| time.as_secs()).ok();
    json!({
        "server": login.server,
        "profile": Some(&login.profile).filter(|profile| !profile.is_empty()),
        "loggedIn": true,
        "issuer": login.issuer,
        "scopes": login.scopes,
        "expiresAt": login.expires_at.and_then(seconds),
        "expired": login.is_expired(),
        "renewable": login.is_renewable,
        "bound": login.is_bound,
    })
}
