use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use turms::oauth::store::{LoginKey, StoreError, StoredLogin, TokenStore as _};
use turms::oauth::{
    ClientIdentity, Fetcher, FileStore, Login, LoginStatus, OAuth, OAuthError, ResourceParameter, Secret, discover,
};

use crate::args::{AuthArgs, AuthCommand, LoginArgs, LogoutArgs, StatusArgs, UrlArgs};
use crate::error::{CliError, CliResult, ExitStatus};
use crate::explain::{self, LoginSource};
use crate::printer::Printer;
use crate::session::SLOW_NOTICE_DELAY;
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
    /// Empty for the login without a profile.
    profile: String,
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
        let store = open_store()?;
        let oauth = dial.oauth(target::new_oauth(&args.profile)).store(store.clone());
        let name = if name.contains("://") { target::without_secrets(name) } else { name.to_owned() };
        let command = target::login_command(&name, &args.config, &args.network, &args.profile);
        let profile = args.profile.profile.clone().unwrap_or_default();
        Ok(Self { url, profile, store, oauth, dial, command, has_client: false })
    }

    fn failed(&self, error: &OAuthError) -> CliError {
        explain::authorization_error(error, LoginSource { command: Some(&self.command), has_client: self.has_client })
    }

    fn shown_url(&self) -> String {
        target::without_secrets(&self.url)
    }

    /// Returns the URL with the profile, if there is one.
    fn shown_login(&self) -> String {
        match self.profile.as_str() {
            "" => self.shown_url(),
            profile => format!("{} with the profile {profile:?}", self.shown_url()),
        }
    }

    fn key(&self) -> CliResult<LoginKey> {
        let invalid = |_| CliError::usage(format!("{:?} is not a valid URL", self.shown_url()));
        Ok(LoginKey::new(&self.url.parse().map_err(invalid)?, &*self.profile))
    }
}

fn open_store() -> CliResult<FileStore> {
    FileStore::open().map_err(|error| match &error {
        StoreError::NoDirectory(variable) => {
            CliError::new(ExitStatus::Failure, "cannot find the directory for logins").hint(format!("set {variable}"))
        }
        _ => CliError::of(ExitStatus::Failure, &error),
    })
}

/// The client of a login, if it is not one that this command has registered.
struct GivenClient {
    issuer: String,
    id: String,
    secret: Option<Secret>,
    redirect_uri: Option<String>,
    resource: ResourceParameter,
}

impl GivenClient {
    /// Returns the client of the options.
    async fn of_options(server: &LoginServer, args: &LoginArgs) -> CliResult<Option<Self>> {
        let Some(id) = &args.client_id else { return Ok(None) };
        let secret = args.client_secret.as_ref().map(|secret| target::read_secret("--client-secret", secret));
        Ok(Some(Self {
            secret: secret.transpose()?,
            issuer: issuer(server, args).await?,
            id: id.clone(),
            redirect_uri: args.redirect_uri.clone(),
            resource: target::resource_parameter(args.resource_parameter.as_deref()),
        }))
    }

    /// Returns the client of the present login. The options take precedence over its settings.
    fn of_login(login: StoredLogin, args: &LoginArgs) -> Option<Self> {
        let client = Some(login.client).filter(|client| !client.is_registered)?;
        let stored = || login.resource.map_or(ResourceParameter::Omit, ResourceParameter::Exactly);
        let resource = args.resource_parameter.as_deref().map(|option| target::resource_parameter(Some(option)));
        Some(Self {
            issuer: client.issuer,
            id: client.client_id,
            secret: client.client_secret,
            redirect_uri: args.redirect_uri.clone().or(client.redirect_uri),
            resource: resource.unwrap_or_else(stored),
        })
    }

    fn identity(&self) -> ClientIdentity {
        match &self.secret {
            Some(secret) => ClientIdentity::with_secret(&self.id, secret.expose()),
            None => ClientIdentity::public(&self.id),
        }
    }
}

async fn login(args: &LoginArgs, printer: &Printer) -> CliResult {
    let mut server = LoginServer::resolve(&args.target, &args.server)?;
    let key = server.key()?;
    let present = match args.fresh {
        true => None,
        false => server.store.load(&key).await.map_err(|error| store_error(&error))?,
    };
    // A login for further scopes keeps the scopes of the present one, and its client if that cannot register itself.
    let mut scopes = target::scopes(&args.scope);
    let kept: Vec<_> = present.iter().flat_map(|login| &login.scopes).filter(|scope| !scopes.contains(scope)).collect();
    let kept: Vec<String> = kept.into_iter().cloned().collect();
    scopes.extend(kept.iter().cloned());
    let client = match GivenClient::of_options(&server, args).await? {
        None => present.and_then(|login| GivenClient::of_login(login, args)),
        given => given,
    };
    let has_shown = Arc::new(AtomicBool::new(false));
    let redirect_uri = client.as_ref().map_or(&args.redirect_uri, |client| &client.redirect_uri);
    let login = method(args, redirect_uri.as_deref(), printer, has_shown.clone());
    server.oauth = server.oauth.clone().login(login).scopes(scopes);
    server.oauth = match &client {
        Some(client) => {
            server.has_client = true;
            let oauth = server.oauth.clone().client(&client.issuer, client.identity());
            oauth.resource(client.resource.clone())
        }
        None => {
            let resource = target::resource_parameter(args.resource_parameter.as_deref());
            server.oauth.clone().resource(resource)
        }
    };
    let login = with_slow_notice(&server, printer, &has_shown, in_time(args, log_in(&server, args, &kept))).await?;
    if let Some(client) = client {
        store_client(&server.store, &key, client).await?;
    }
    if target::has_header(&args.target, &args.server.config)? {
        printer.warn(format!(
            "the configuration of {:?} has a header `Authorization`, which commands send in place of this login",
            args.target
        ));
    }
    if printer.is_json() {
        return printer.json(&object(&login));
    }
    printer.line(describe(StyledText::new().plain("logged in to "), &login))
}

/// Logs in. `kept` has the scopes of the present login that the options do not name.
async fn log_in(server: &LoginServer, args: &LoginArgs, kept: &[String]) -> CliResult<LoginStatus> {
    let login = match args.fresh {
        true => server.oauth.login_with_new_registration(&server.url).await,
        false => server.oauth.login_now(&server.url).await,
    };
    login.map_err(|error| {
        let is_scope = error.error_response().is_some_and(|response| response.error == "invalid_scope");
        let logout = (is_scope && !kept.is_empty()).then(|| {
            let logout = server.command.replacen(" login ", " logout ", 1);
            format!("the scopes of the present login are kept ({}); `{logout}` forgets them", kept.join(" "))
        });
        server.failed(&error).hint_if(logout)
    })
}

/// Tells the user if nothing has been shown for a while.
async fn with_slow_notice<T>(
    server: &LoginServer,
    printer: &Printer,
    has_shown: &AtomicBool,
    login: impl Future<Output = T>,
) -> T {
    let mut login = pin!(login);
    match tokio::time::timeout(SLOW_NOTICE_DELAY, &mut login).await {
        Ok(done) => done,
        Err(_) => {
            if !has_shown.load(Ordering::Relaxed) {
                let url = server.shown_url();
                printer.note(format!("waiting for {url}, or for another command that logs in there; Ctrl-C cancels"));
            }
            login.await
        }
    }
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
fn method(args: &LoginArgs, redirect_uri: Option<&str>, printer: &Printer, has_shown: Arc<AtomicBool>) -> Login {
    let login = match (args.device, args.paste) {
        (true, _) => Login::device(),
        (_, true) => Login::paste(),
        _ => Login::browser(),
    };
    let messages = printer.clone();
    let login = login.show(move |message| {
        has_shown.store(true, Ordering::Relaxed);
        messages.always(message.to_string());
    });
    let login = redirect_uri.into_iter().fold(login, Login::redirect);
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

/// Stores the settings of a client with its login, so that other commands can renew the login, and log in again.
async fn store_client(store: &FileStore, key: &LoginKey, client: GivenClient) -> CliResult {
    let failed = |error| store_error(&error);
    let mut lock = store.lock(key).await.map_err(failed)?;
    if let Some(mut stored) = lock.load().await.map_err(failed)?.filter(|login| login.client.client_id == client.id) {
        stored.client.client_secret = client.secret;
        stored.client.redirect_uri = client.redirect_uri;
        lock.save(&stored).await.map_err(failed)?;
    }
    Ok(())
}

fn store_error(error: &StoreError) -> CliError {
    CliError::of(ExitStatus::Failure, error)
}

async fn logout(args: &LogoutArgs, printer: &Printer) -> CliResult {
    let server = LoginServer::resolve(&args.target, &args.server)?;
    let was_logged_in = server.oauth.logout(&server.url).await.map_err(|error| server.failed(&error))?;
    if printer.is_json() {
        let profile = Some(&server.profile).filter(|profile| !profile.is_empty());
        let url = server.shown_url();
        return printer.json(&json!({ "server": url, "profile": profile, "loggedOut": was_logged_in }));
    }
    let login = server.shown_login();
    match was_logged_in {
        true => printer.line(format!("logged out of {login}")),
        false => {
            printer.note(format!("there was no login at {login}"));
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
        let message = format!("not logged in to {}", server.shown_login());
        return Err(CliError::new(ExitStatus::Unauthorized, message).hint(login_hint(&server.command, &[])));
    };
    if printer.is_json() {
        return printer.json(&object(&login));
    }
    printer.line(describe(StyledText::new(), &login))
}

/// Shows all logins.
async fn list(args: &UrlArgs, printer: &Printer) -> CliResult {
    let failed = |error| store_error(&error);
    let store = open_store()?;
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
