//! Logins: the development authorization server runs in the test, and a demo server requires its tokens.

use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;
use turms::http::Listener;
use turms::oauth::dev::{DevClient, DevServer, DevServerBuilder};
use turms::oauth::{Algorithm, JwkSet, SigningKey};
use turms_testkit::browser::Browser;
use turms_testkit::tls::{CERTIFICATE, tls_in_front_of};

use crate::run::{Demo, RunningTurms, TempDir, TurmsCommand, turms};

/// Set in a process that is the browser of a login.
const BROWSER: &str = "TURMS_TEST_BROWSER";

/// Opens the URL in the arguments, and approves the login if a page asks. `BROWSER` runs it in a process of its own.
#[test]
fn browser_of_a_login() {
    if std::env::var_os(BROWSER).is_none() {
        return;
    }
    let mut browser = Browser::new();
    let page = browser.open(&std::env::args().next_back().unwrap());
    let page = match page.body.contains("name=\"csrf\"") {
        true => browser.submit(&page, &[("user", "ann"), ("decision", "approve")]),
        false => page,
    };
    assert!(page.url.contains("/callback?"), "{page:?}");
}

/// Returns a list of two browsers, of which the first does not exist.
fn browser_command() -> String {
    format!("no-such-browser-of-turms:{} browser_of_a_login %s", std::env::current_exe().unwrap().display())
}

/// The authorization server, a demo server with a tool `divide` that needs a scope, and a directory for logins.
struct Setting {
    runtime: Runtime,
    server: DevServer,
    demo: Demo,
    directory: TempDir,
}

impl Setting {
    fn new(test: &str) -> Self {
        Self::with(test, |server| server.auto_approve("ann"))
    }

    fn with(test: &str, configure: impl FnOnce(DevServerBuilder) -> DevServerBuilder) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let builder = DevServer::builder()
            .user("ann")
            .client(DevClient::with_secret("robot", "robot-secret"))
            .scopes(["demo", "demo:divide"])
            .default_scopes(["demo"]);
        let server = runtime.block_on(configure(builder).bind("127.0.0.1:0")).unwrap();
        let demo = Demo::with_options("--http", &guard_options(&["--auth-issuer", server.issuer()]));
        Self { runtime, server, demo, directory: TempDir::new(test) }
    }

    /// Returns a command with the logins of this test.
    fn turms<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> TurmsCommand {
        with_logins(turms(args), &self.directory)
    }

    fn add(&self) -> TurmsCommand {
        self.turms(["call", &self.demo.url, "add", "a=1", "b=2"])
    }

    fn divide(&self) -> TurmsCommand {
        self.turms(["call", &self.demo.url, "divide", "a=6", "b=2"])
    }

    fn login(&self, options: &[&str]) -> TurmsCommand {
        self.turms(["auth", "login", &self.demo.url].into_iter().chain(options.iter().copied()))
    }

    fn token(&self, scopes: &[&str]) -> String {
        self.server.access_token("ann", &self.demo.url, scopes)
    }
}

fn guard_options<'a>(issuer: &[&'a str]) -> Vec<&'a str> {
    let scopes = ["--auth-scope", "demo", "--auth-tool-scope", "divide=demo:divide"];
    issuer.iter().copied().chain(scopes).collect()
}

fn with_logins(command: TurmsCommand, directory: &TempDir) -> TurmsCommand {
    command.env("XDG_DATA_HOME", &directory.0).env("BROWSER", browser_command()).env(BROWSER, "1")
}

#[test]
fn a_login_in_the_browser_is_stored_and_used_until_the_logout() {
    let setting = Setting::new("login");
    let (url, issuer) = (&setting.demo.url, setting.server.issuer());
    let hint = format!("hint: log in with `turms auth login {url}`");
    setting.add().run().fails(4, &[&format!("cannot connect to {url}: not authorized"), "401", &hint]);
    setting.turms(["auth", "status", url]).run().fails(4, &[&format!("not logged in to {url}"), &hint]);

    let output = setting.login(&[]).run();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(output.stdout.starts_with(&format!("logged in to {url}\n")), "{output:?}");
    for line in [format!("issuer        {issuer}"), "scopes        demo".to_owned()] {
        assert!(output.stdout.contains(&line), "{line:?} is not in {output:?}");
    }
    assert!(output.stderr.contains("Opening the browser to log in"), "{output:?}");

    assert_eq!(setting.add().ok(), "3\n");
    let status = setting.turms(["auth", "status"]).ok();
    assert!(status.contains(url) && status.contains("renewed automatically"), "{status}");
    let status: Value = serde_json::from_str(&setting.turms(["auth", "status", url, "--json"]).ok()).unwrap();
    assert_eq!((&status["loggedIn"], &status["issuer"]), (&true.into(), &issuer.into()));
    assert_eq!((&status["scopes"], &status["renewable"]), (&serde_json::json!(["demo"]), &true.into()));

    assert_eq!(setting.turms(["auth", "logout", url]).ok(), format!("logged out of {url}\n"));
    assert_eq!(setting.server.requests("/revoke"), 2, "the access token and the refresh token are revoked");
    setting.add().run().fails(4, &[&hint]);
    let again = setting.turms(["auth", "logout", url]).run();
    assert_eq!((again.status, again.stdout.as_str()), (Some(0), ""));
    assert!(again.stderr.contains("there was no login"), "{again:?}");
}

#[test]
fn a_missing_scope_is_named_and_a_further_login_adds_it() {
    let setting = Setting::new("scopes");
    setting.login(&[]).ok();
    let command = format!("turms auth login {} --scope demo:divide", setting.demo.url);
    setting
        .divide()
        .run()
        .fails(4, &["does not include the scope \"demo:divide\"", &format!("hint: log in with `{command}`")]);
    assert_eq!(setting.server.requests("/authorize"), 1, "a command never asks for a login by itself");
    setting.login(&["--scope", "demo:divide"]).ok();
    assert_eq!(setting.divide().ok(), "3\n");
    assert_eq!(setting.add().ok(), "3\n", "the other scope is kept");
}

#[test]
fn an_expired_token_is_renewed_and_a_lost_login_says_what_to_do() {
    let setting = Setting::with("renewal", |server| server.auto_approve("ann").access_token_lifetime(Duration::ZERO));
    setting.login(&[]).ok();
    assert_eq!(setting.add().ok(), "3\n");
    let renewals = setting.server.grants("refresh_token");
    assert_eq!(setting.add().ok(), "3\n");
    assert!(renewals > 0 && setting.server.grants("refresh_token") > renewals);
    setting.server.revoke_all();
    setting
        .add()
        .run()
        .fails(4, &["does not accept the stored login any more", "hint: log in with `turms auth login "]);
}

#[test]
fn a_valid_token_is_not_renewed_by_a_command_that_may_end_before_the_response() {
    let lifetime = Duration::from_secs(60);
    let setting = Setting::with("valid", |server| server.auto_approve("ann").access_token_lifetime(lifetime));
    setting.login(&[]).ok();
    assert_eq!(setting.add().ok(), "3\n");
    assert_eq!(setting.server.grants("refresh_token"), 0);
}

#[test]
fn the_address_of_the_last_page_is_pasted() {
    let setting = Setting::new("paste");
    let mut login = RunningTurms::start(setting.login(&["--paste"]));
    let url = login.wait_for_stderr("/authorize?");
    let callback = Browser::new().redirect_of(&url);
    let stdin = login.stdin.as_mut().unwrap();
    std::io::Write::write_all(stdin, format!("http://example.com/\n{callback}\n").as_bytes()).unwrap();
    login.wait_for_stderr("Not accepted");
    assert_eq!(login.line(), format!("logged in to {}", setting.demo.url));
    assert_eq!(login.end(), Some(0));
    assert_eq!(setting.add().ok(), "3\n");
    // Standard input that ends before is an error.
    setting.login(&["--paste"]).stdin("").run().fails(1, &["the input ended before the callback URL was pasted"]);
}

#[test]
fn a_code_is_entered_on_another_device() {
    let setting = Setting::with("device", |server| server.device_interval(Duration::ZERO));
    let mut login = RunningTurms::start(setting.login(&["--device"]));
    login.wait_for_stderr("and enter the code");
    let url = login.wait_for_stderr("/device?user_code=");
    let mut browser = Browser::new();
    let page = browser.open(&url);
    browser.submit(&page, &[("user", "ann"), ("decision", "approve")]);
    assert_eq!(login.line(), format!("logged in to {}", setting.demo.url));
    assert_eq!(login.end(), Some(0));
    assert_eq!(setting.add().ok(), "3\n");
    setting.login(&["--device", "--timeout", "0.2"]).run().fails(7, &["no login within 200 ms"]);
}

#[test]
fn each_profile_is_a_login() {
    let setting = Setting::new("profile");
    let login: Value = serde_json::from_str(&setting.login(&["--profile", "work", "--json"]).ok()).unwrap();
    assert_eq!((&login["profile"], &login["loggedIn"]), (&"work".into(), &true.into()));
    setting.add().run().fails(4, &["401"]);
    let add = |profile: &str| setting.turms(["call", &setting.demo.url, "add", "a=1", "b=2", "--profile", profile]);
    assert_eq!(add("work").ok(), "3\n");
    add("home")
        .run()
        .fails(4, &["there is no login \"home\" at", "hint: log in with `turms auth login", "--profile home`"]);
    let all: Value = serde_json::from_str(&setting.turms(["auth", "status", "--json"]).ok()).unwrap();
    assert_eq!(all["logins"][0]["profile"], "work");
    let logout = || setting.turms(["auth", "logout", &setting.demo.url, "--profile", "work"]);
    let url = &setting.demo.url;
    assert_eq!(logout().ok(), format!("logged out of {url} with the profile \"work\"\n"));
    let again: Value = serde_json::from_str(&logout().arg("--json").ok()).unwrap();
    assert_eq!(again, serde_json::json!({ "server": url, "profile": "work", "loggedOut": false }));
    assert!(setting.turms(["auth", "status"]).run().stderr.contains("there are no logins"));
}

#[test]
fn a_configured_server_has_a_login_by_its_name() {
    let setting = Setting::new("configured");
    let config = setting.directory.file(
        "mcp.json",
        &format!(r#"{{"mcpServers":{{"maths":{{"url":"{}"}},"files":{{"command":"x"}}}}}}"#, setting.demo.url),
    );
    let hint = format!("hint: log in with `turms auth login maths --config {config}`");
    setting.turms(["tools", "maths", "--config", &config]).run().fails(4, &[&hint]);
    setting.turms(["auth", "login", "maths", "--config", &config]).ok();
    assert!(setting.turms(["tools", "maths", "--config", &config]).ok().starts_with("add("));
    setting.turms(["auth", "login", "files", "--config", &config]).run().fails(2, &["\"files\" is a program"]);
    setting.turms(["auth", "login", "demo"]).run().fails(2, &["needs no login", "--auth"]);
}

#[test]
fn a_login_that_is_denied_or_not_made_fails() {
    let denied = Setting::with("denied", DevServerBuilder::auto_deny);
    // The page after the callback is the same: the browser cannot tell.
    denied.login(&[]).run().fails(4, &["login was not completed: access_denied"]);
    let setting = Setting::new("not-made");
    let login = setting.login(&["--timeout", "0.2"]).env("BROWSER", "true");
    login.run().fails(7, &["no login within 200 ms", "hint: if the browser is on another machine", "--paste"]);
    let output = setting.login(&["--timeout", "0.2"]).env("BROWSER", "no-such-browser-of-turms").run();
    output.fails(7, &["The browser could not be started: no-such-browser-of-turms"]);
}

#[test]
fn a_forgotten_registration_is_made_again() {
    let setting = Setting::new("fresh");
    setting.login(&[]).ok();
    setting.server.forget_registrations();
    setting.login(&["--fresh"]).ok();
    assert_eq!(setting.server.requests("/register"), 2);
    assert_eq!(setting.add().ok(), "3\n");
}

#[test]
fn a_registered_client_logs_in_and_its_secret_is_stored_with_the_login() {
    let setting = Setting::with("registered", |server| {
        let client = DevClient::with_secret("app", "app-secret").redirect_uri("http://127.0.0.1/callback");
        server.auto_approve("ann").access_token_lifetime(Duration::ZERO).client(client)
    });
    let login = |issuer: &str| {
        setting.login(&["--client-id", "app", "--issuer", issuer]).env("TURMS_CLIENT_SECRET", "app-secret")
    };
    login("https://auth.example").run().fails(4, &[setting.server.issuer(), "not https://auth.example"]);
    login(setting.server.issuer()).ok();
    assert_eq!(setting.server.requests("/register"), 0);
    assert_eq!(setting.add().ok(), "3\n");
    assert!(setting.server.grants("refresh_token") > 0, "the token has expired, and was renewed with the secret");
    // A further login has the same client: the command that other commands name does not repeat its options.
    setting.divide().run().fails(4, &[&format!("`turms auth login {} --scope demo:divide`", setting.demo.url)]);
    setting.login(&["--scope", "demo:divide"]).ok();
    assert_eq!(setting.server.requests("/register"), 0);
    assert_eq!(setting.divide().ok(), "3\n");
    assert_eq!(setting.add().ok(), "3\n", "the secret is still stored with the login");
    setting.login(&["--fresh"]).ok();
    assert_eq!(setting.server.requests("/register"), 1);
}

#[test]
fn empty_variables_of_the_environment_count_as_not_set() {
    let setting = Setting::new("empty");
    setting.login(&[]).ok();
    let names = ["TURMS_BEARER", "TURMS_CLIENT_ID", "TURMS_CLIENT_SECRET", "TURMS_CLIENT_KEY", "TURMS_CA_FILE"];
    assert_eq!(names.iter().fold(setting.add(), |add, name| add.env(name, "")).ok(), "3\n");
    // An empty option is a mistake.
    setting.add().arg("--bearer").arg("").run().fails(2, &["--bearer: the value is empty"]);
    let file = setting.directory.file("empty", "\n");
    setting.add().arg("--bearer").arg(&format!("@{file}")).run().fails(2, &["--bearer: ", " is empty"]);
    let robot = setting.add().arg("--client-id").arg("robot").arg("--client-secret").arg("");
    robot.run().fails(2, &["--client-secret: the value is empty"]);
}

#[test]
fn options_of_a_client_without_its_id_are_errors() {
    let setting = Setting::new("no-id");
    setting.login(&[]).ok();
    for option in ["--scope", "--issuer", "--client-secret", "--resource-parameter"] {
        let message = format!("{option} is given without --client-id");
        setting.add().arg(option).arg("x").run().fails(2, &[&message, "hint: ", "`turms auth login`"]);
    }
    assert_eq!(setting.add().env("TURMS_CLIENT_SECRET", "of a login").ok(), "3\n");
}

#[test]
fn scopes_in_one_option_are_separate_scopes() {
    let setting = Setting::new("scope-list");
    let login: Value = serde_json::from_str(&setting.login(&["--json", "--scope", "demo:divide demo"]).ok()).unwrap();
    assert_eq!(login["scopes"], serde_json::json!(["demo", "demo:divide"]));
    // A scope that the authorization server does not know any more would be requested forever.
    let output = setting.login(&["--scope", "unknown"]).run();
    let logout = format!("`turms auth logout {}`", setting.demo.url);
    output.fails(4, &["invalid_scope", "hint: does the authorization server know these scopes", "(demo demo:divide)"]);
    output.fails(4, &[&logout]);
}

#[cfg(unix)]
#[test]
fn a_login_waits_for_another_one_and_says_so() {
    let setting = Setting::new("waits");
    let mut first = RunningTurms::start(setting.login(&[]).env("BROWSER", "true"));
    first.wait_for_stderr("/authorize?");
    let mut second = RunningTurms::start(setting.login(&[]));
    second.wait_for_stderr(&format!("waiting for {}, or for another command that logs in there", setting.demo.url));
    // Ctrl-C ends a login at once, and leaves no lock.
    let interrupt = ["-INT", &first.id().to_string()];
    assert!(std::process::Command::new("kill").args(interrupt).status().unwrap().success());
    let (status, rest) = first.end_with_stderr();
    assert_eq!(status, Some(130), "{rest}");
    assert_eq!(second.line(), format!("logged in to {}", setting.demo.url));
    assert_eq!(second.end(), Some(0));
}

#[test]
fn a_redirect_uri_that_cannot_be_used_is_described_with_options() {
    let setting = Setting::new("redirect");
    let output = setting.login(&["--redirect-uri", "https://app.example/callback"]).run();
    output.fails(2, &["must begin with http://127.0.0.1", "hint: with --paste, it may be any https:// URL"]);
    assert!(!output.stderr.contains("Login::with"), "{output:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}/callback", taken.local_addr().unwrap());
    let output = setting.login(&["--redirect-uri", &uri]).run();
    output.fails(1, &["cannot listen on", "hint: --redirect-uri sets another port, and --paste needs none"]);
    let no_home = setting.login(&[]).env("HOME", "").env("XDG_DATA_HOME", "").env("LOCALAPPDATA", "").run();
    no_home.fails(1, &["error: cannot find the directory for logins\nhint: set "]);
}

#[test]
fn a_server_that_names_another_url_is_a_mistake_in_the_url() {
    let setting = Setting::new("other-url");
    let login = |url: &str| setting.turms(["auth", "login", url]).run();
    let wrong = setting.demo.url.replace("/mcp", "/");
    login(&wrong).fails(5, &[&format!("`resource` is {}, which is not", setting.demo.url), "hint: is the URL right?"]);
}

#[test]
fn a_login_at_a_server_with_a_configured_header_is_not_used() {
    let setting = Setting::new("configured-header");
    let token = setting.token(&["demo"]);
    let config = format!(
        r#"{{"mcpServers":{{"maths":{{"url":"{}","headers":{{"Authorization":"Bearer {token}"}}}}}}}}"#,
        setting.demo.url
    );
    let config = setting.directory.file("mcp.json", &config);
    let output = setting.turms(["auth", "login", "maths", "--config", &config]).run();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(
        output.stderr.contains("warning: the configuration of \"maths\" has a header `Authorization`"),
        "{output:?}"
    );
    assert!(!output.stderr.contains(&token), "{output:?}");
}

#[test]
fn failures_of_repeated_calls_have_their_causes() {
    let setting = Setting::new("repeat");
    let divide = || setting.divide().env("TURMS_BEARER", setting.token(&["demo"])).arg("--repeat").arg("3");
    divide().run().fails(4, &["3 × tools/call \"divide\": not authorized: ", "403 Forbidden", "insufficient_scope"]);
    let report: Value = serde_json::from_str(&divide().arg("--json").run().stdout).unwrap();
    assert!(report["failures"][0]["message"].as_str().unwrap().contains("insufficient_scope"), "{report}");
}

#[test]
fn a_client_asks_for_scopes_of_websocket_calls_with_an_option() {
    let demo = Demo::with_options("--ws", &["--auth"]);
    let divide = |options: &[&str]| {
        let words = ["call", &demo.url, "divide", "a=6", "b=2", "--client-id", "robot"];
        turms(words.iter().chain(options)).env("TURMS_CLIENT_SECRET", "robot-secret")
    };
    let hint = "hint: ask for the missing scopes with --scope demo:divide, if the client may have them";
    divide(&[]).run().fails(4, &["insufficient scope", hint]);
    assert_eq!(divide(&["--scope", "demo demo:divide"]).ok(), "3\n");
}

#[test]
fn the_resource_is_left_out_for_authorization_servers_that_reject_it() {
    let setting = Setting::with("resource", |server| {
        server.auto_approve("ann").resources(["api://demo"]).default_resource("api://demo")
    });
    let issuer = ["--auth-issuer", setting.server.issuer(), "--auth-audience", "api://demo"];
    let demo = Demo::with_options("--http", &guard_options(&issuer));
    let login = |options: &[&str]| setting.turms(["auth", "login", &demo.url].iter().chain(options).copied());
    login(&[]).run().fails(4, &["invalid_target"]);
    login(&["--resource-parameter", "none"]).ok();
    assert_eq!(setting.turms(["call", &demo.url, "add", "a=1", "b=2"]).ok(), "3\n");
    let robot = ["call", &demo.url, "add", "a=1", "b=2", "--client-id", "robot", "--resource-parameter", "api://demo"];
    assert_eq!(setting.turms(robot).env("TURMS_CLIENT_SECRET", "robot-secret").ok(), "3\n");
}

#[test]
fn a_bearer_token_is_used_as_it_is() {
    let setting = Setting::new("bearer");
    let token = setting.token(&["demo"]);
    let file = setting.directory.file("token", &format!("{token}\n"));
    let add = ["call", &setting.demo.url, "add", "a=1", "b=2", "--bearer"];
    let with = |bearer: &str| setting.turms(add.into_iter().chain([bearer])).run();
    assert_eq!(with(&token).stdout, "3\n");
    assert_eq!(with(&format!("@{file}")).stdout, "3\n");
    let traced = setting.add().env("TURMS_BEARER", &token).arg("-vvv").run();
    assert!(traced.stderr.contains("tools/call") && !traced.stderr.contains(&token), "{traced:?}");
    assert_eq!(setting.add().env("TURMS_BEARER", &token).ok(), "3\n");
    // Random tokens may begin with a hyphen.
    let wrong = with("-wrong-token");
    wrong.fails(4, &["401", "invalid_token", "hint: have the credentials expired"]);
    assert!(!wrong.stderr.contains("wrong-token"), "{wrong:?}");
    let output = setting.divide().env("TURMS_BEARER", &token).run();
    output.fails(4, &["403", "insufficient_scope", "hint: give a token that has the scopes \"demo demo:divide\""]);
}

#[test]
fn a_client_with_a_secret_needs_no_login() {
    let setting = Setting::new("credentials");
    let file = setting.directory.file("secret", "robot-secret\n");
    let add = ["call", &setting.demo.url, "add", "a=1", "b=2", "--client-id", "robot"];
    let with_file = format!("@{file}");
    assert_eq!(setting.turms(add.into_iter().chain(["--client-secret", &with_file])).ok(), "3\n");
    let robot = |command: TurmsCommand, secret: &str| {
        command.env("TURMS_CLIENT_ID", "robot").env("TURMS_CLIENT_SECRET", secret)
    };
    assert_eq!(robot(setting.add(), "robot-secret").ok(), "3\n");
    assert_eq!(robot(setting.divide(), "robot-secret").ok(), "3\n", "the client asks for the scope that is missing");
    let wrong = robot(setting.add(), "wrong-secret").run();
    wrong.fails(4, &["invalid_client", "hint: are the client id and its secret or key right?"]);
    assert!(!wrong.stderr.contains("wrong-secret"), "{wrong:?}");
    let elsewhere = robot(setting.add().arg("--issuer").arg("https://auth.example"), "robot-secret").run();
    elsewhere.fails(4, &[setting.server.issuer(), "https://auth.example"]);
    setting.add().env("TURMS_CLIENT_ID", "robot").run().fails(2, &["without --client-secret or --client-key"]);
    assert!(setting.turms(["auth", "status"]).run().stderr.contains("there are no logins"));
}

#[test]
fn a_client_with_a_key_needs_no_login() {
    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let keys = JwkSet::new([key.public_jwk()]);
    let setting = Setting::with("key", |server| server.client(DevClient::with_keys("signer", keys)));
    let base64 = serde_json::to_value(turms::types::Content::image(key.to_pkcs8().unwrap(), "")).unwrap();
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", base64["data"].as_str().unwrap());
    let file = setting.directory.file("key.pem", &pem);
    let add = ["call", &setting.demo.url, "add", "a=1", "b=2", "--client-id", "signer", "--client-key", &file];
    assert_eq!(setting.turms(add).ok(), "3\n");
    setting.directory.file("key.pem", "no key");
    setting.turms(add).run().fails(1, &["--client-key: cannot use"]);
}

#[test]
fn a_new_token_that_the_server_rejects_is_described() {
    let (setting, other) = (Setting::new("rejected"), Setting::new("rejecting"));
    let (issuer, keys) = (setting.server.issuer(), other.server.url("/jwks"));
    let demo = Demo::with_options("--http", &guard_options(&["--auth-issuer", issuer, "--auth-jwks", &keys]));
    let call = setting.turms(["call", &demo.url, "add", "a=1", "b=2", "--client-id", "robot"]);
    let output = call.env("TURMS_CLIENT_SECRET", "robot-secret").run();
    let message = format!("the server rejects the token that {issuer} has just issued for {}", demo.url);
    output.fails(4, &[&message, "invalid_token", "hint: does the server accept tokens of this issuer?"]);
}

#[test]
fn a_server_without_logins_is_told_from_one_that_is_down() {
    let (demo, directory) = (Demo::listening("--http"), TempDir::new("no-logins"));
    let login = |url: &str| with_logins(turms(["auth", "login", url]), &directory).run();
    login(&demo.url).fails(5, &[&format!("{} does not offer logins", demo.url), "hint: does it need a login?"]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    login(&format!("http://{free}/mcp")).fails(3, &["refused", "hint: is the server running"]);
    turms(["auth"]).run().fails(2, &["requires a subcommand", "login, logout, status"]);
    turms(["auth", "login"]).run().fails(2, &["hint: TARGET is a URL"]);
    turms(["auth", "login", &demo.url, "--device", "--paste"]).run().fails(2, &["--device", "--paste"]);
}

#[test]
fn an_authorization_server_that_is_down_is_named() {
    let Setting { runtime, server, demo, directory } = Setting::new("down");
    let issuer = server.issuer().to_owned();
    runtime.block_on(async { drop(server) });
    drop(runtime);
    let login = with_logins(turms(["auth", "login", &demo.url]), &directory);
    login.run().fails(3, &[&issuer, "cannot connect", "hint: is the authorization server running"]);
}

#[cfg(target_os = "linux")]
#[test]
fn certificates_of_the_environment_and_of_the_option_count_for_authorization_servers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = TempDir::new("auth-tls");
    let file = directory.file("authority.pem", std::str::from_utf8(CERTIFICATE).unwrap());
    let server = runtime.block_on(async {
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let secure = tls_in_front_of(listener.local_addr().unwrap()).await;
        let robot = DevClient::with_secret("robot", "robot-secret");
        let builder = DevServer::builder().client(robot).issuer(format!("https://localhost:{}", secure.port()));
        builder.listen(listener).unwrap()
    });
    let jwks = format!("http://{}/jwks", server.local_addr().unwrap());
    let guard = ["--auth-issuer", server.issuer(), "--auth-jwks", &jwks, "--auth-scope", "demo"];
    let demo = Demo::with_options("--http", &guard);
    let add = || {
        let command = turms(["call", &demo.url, "add", "a=1", "b=2", "--client-id", "robot"]);
        command.env("TURMS_CLIENT_SECRET", "robot-secret")
    };
    add().run().fails(3, &["https://localhost:", "cannot connect", "certificate", "--ca-file"]);
    assert_eq!(add().env("SSL_CERT_FILE", &file).ok(), "3\n");
    assert_eq!(add().env("TURMS_CA_FILE", &file).ok(), "3\n");
}

#[test]
fn a_demo_with_its_own_authorization_server_is_logged_in_to_over_every_transport() {
    for (option, further) in [("--http", &[][..]), ("--sse", &["--transport", "sse"]), ("--ws", &[])] {
        let directory = TempDir::new(&format!("demo-auth{option}"));
        let mut demo = Demo::with_options(option, &["--auth"]);
        let lines = demo.lines_until(" divide a=6 ").join("\n");
        let url = &*demo.url;
        for part in ["not for production", "ann and ben", "robot", &format!("turms auth login {url}")] {
            assert!(lines.contains(part), "{part:?} is not in\n{lines}");
        }
        let run = |command: &str, words: &[&str]| {
            let words = words.iter().chain(further).copied();
            with_logins(turms([command, url].into_iter().chain(words)), &directory)
        };
        // The page of the authorization server asks for the user.
        let login =
            |options: &[&str]| with_logins(turms(["auth", "login", url].iter().chain(options)), &directory).ok();
        run("tools", &[]).run().fails(4, &["401", "turms auth login"]);
        login(&[]);
        assert_eq!(run("call", &["add", "a=1", "b=2"]).ok(), "3\n", "{option}");
        let divide = || run("call", &["divide", "a=6", "b=2"]);
        divide().run().fails(4, &["demo:divide", "turms auth login", "--scope demo:divide`"]);
        login(&["--scope", "demo:divide"]);
        assert_eq!(divide().ok(), "3\n", "{option}");
    }
}

#[test]
fn a_demo_with_a_given_user_shows_no_page() {
    let (directory, demo) =
        (TempDir::new("demo-user"), Demo::with_options("--http", &["--auth", "--auth-user", "cleo"]));
    let mut login = RunningTurms::start(with_logins(turms(["auth", "login", &demo.url, "--paste"]), &directory));
    let callback = Browser::new().redirect_of(&login.wait_for_stderr("/authorize?"));
    assert!(callback.contains("code="), "{callback}");
    drop(login.stdin.take());
}

#[test]
fn a_demo_accepts_tokens_that_its_authorization_server_introspects() {
    let setting = Setting::with("introspection", |server| server.opaque_tokens(true));
    let endpoint = setting.server.url("/introspect");
    let options = ["--auth-issuer", setting.server.issuer(), "--auth-introspect", &endpoint, "--auth-client", "robot"];
    let command = turms(["demo", "--http", "127.0.0.1:0"].into_iter().chain(guard_options(&options)));
    let demo = Demo::start(command.env("TURMS_AUTH_CLIENT_SECRET", "robot-secret"));
    let add = |token: &str| turms(["call", &demo.url, "add", "a=1", "b=2", "--bearer", token]);
    assert_eq!(add(&setting.server.access_token("ann", &demo.url, &["demo"])).ok(), "3\n");
    add("unknown").run().fails(4, &["401", "invalid_token"]);
}

#[test]
fn a_demo_accepts_the_tokens_of_several_issuers() {
    let (first, second) = (Setting::new("first-issuer"), Setting::new("second-issuer"));
    let keys = first.server.url("/jwks");
    let issuers = ["--auth-issuer", first.server.issuer(), "--auth-issuer", second.server.issuer()];
    let demo = Demo::with_options("--http", &guard_options(&[&issuers[..], &["--auth-jwks", &keys]].concat()));
    for setting in [first, second] {
        let token = setting.server.access_token("ann", &demo.url, &["demo"]);
        assert_eq!(turms(["call", &demo.url, "add", "a=1", "b=2", "--bearer", &token]).ok(), "3\n");
    }
}

#[test]
fn demo_options_that_do_not_fit_together_are_errors() {
    let demo = |options: &[&str]| turms(["demo", "--http", "127.0.0.1:0"].iter().chain(options)).run();
    demo(&["--auth", "--auth-issuer", "https://a.example"]).fails(2, &["--auth starts an authorization server"]);
    demo(&["--auth-scope", "x"]).fails(2, &["--auth-scope needs --auth"]);
    demo(&["--auth", "--auth-tool-scope", "multiply=x"]).fails(2, &["no tool \"multiply\"", "turms tools demo"]);
    demo(&["--auth-issuer", "http://a.example"]).fails(2, &["https is required"]);
    demo(&["--auth-issuer", "auth.example"])
        .fails(2, &["hint: --auth-issuer, --auth-jwks and --auth-introspect are URLs"]);
    turms(["demo", "--stdio", "--auth"]).run().fails(2, &["not for --stdio"]);
    turms(["demo", "--http", "0.0.0.0:0", "--auth"]).run().fails(2, &["--auth is for loopback addresses"]);
}
