//! Processes that share one store. Each test starts this program again, as another process.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(clippy::disallowed_methods, reason = "tokens expire at a time of day")]

#[path = "../client/script.rs"]
#[allow(dead_code, reason = "the other test program uses the rest")]
mod script;

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use serde_json::json;
use turms_oauth::dev::DevServer;
use turms_oauth::{FileStore, Login, LoginKey, OAuth, StoredClient, StoredLogin, TokenStore};
use turms_testkit::{eventually, within};

use crate::script::{Reply, Script, get, provider};

const DIRECTORY: &str = "TURMS_TEST_DIRECTORY";
const SERVER: &str = "TURMS_TEST_SERVER";

/// Marks a line with a token in the output of a process.
const TOKEN: &str = "token=";

/// A directory that is removed with everything in it.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("turms-oauth-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> FileStore {
        FileStore::at(self.0.join("logins"))
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The other process: gets a token many times at once, and writes each. It begins when its input ends.
#[tokio::test]
async fn a_process_that_gets_tokens() {
    let (Ok(directory), Ok(server)) = (std::env::var(DIRECTORY), std::env::var(SERVER)) else { return };
    let auth = OAuth::new("agent").store(FileStore::at(directory)).login(Login::never());
    println_line("ready");
    tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin())).await.unwrap().unwrap();
    for token in join_all((0..20).map(|_| auth.token(&server))).await {
        println_line(&match token {
            Ok(token) => format!("{TOKEN}{}", token.expose()),
            Err(error) => format!("{TOKEN}none: {error}"),
        });
    }
}

#[expect(clippy::print_stdout, reason = "the other process reads it")]
fn println_line(line: &str) {
    println!("{line}");
}

/// Starts [`a_process_that_gets_tokens`].
fn start(directory: &TestDirectory, server: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_process_that_gets_tokens", "--nocapture"]);
    command.env(DIRECTORY, directory.0.join("logins")).env(SERVER, server);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Reads the output of a process up to a line that contains this.
fn read_until(output: &mut std::io::BufReader<ChildStdout>, text: &str) {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(std::io::BufRead::read_line(output, &mut line).unwrap(), 0, "no {text:?} in the output");
    }
}

/// Returns the tokens in the output of a process.
fn tokens(output: std::io::BufReader<ChildStdout>) -> Vec<String> {
    let lines = std::io::BufRead::lines(output).map(Result::unwrap);
    lines.filter_map(|line| Some(line.split_once(TOKEN)?.1.to_owned())).collect()
}

fn key(server: &str) -> LoginKey {
    LoginKey::new(&server.parse().unwrap(), "")
}

async fn change(store: &FileStore, server: &str, change: impl FnOnce(&mut StoredLogin)) {
    let mut lock = store.lock(&key(server)).await.unwrap();
    let mut login = lock.load().await.unwrap().unwrap();
    change(&mut login);
    lock.save(&login).await.unwrap();
}

fn expired() -> Option<SystemTime> {
    Some(SystemTime::now() - Duration::from_secs(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn five_processes_with_an_expired_token_cause_one_refresh() {
    let directory = TestDirectory::new("refresh");
    let dev = DevServer::builder().user("alice").auto_approve("alice").bind("127.0.0.1:0").await.unwrap();
    // A server of 2025-03-26 is its own authorization server.
    let server = format!("{}/mcp", dev.issuer());
    let login = Login::with(async |prompt| {
        let redirect = get(prompt.url.as_str()).await.headers["location"].to_str().unwrap().to_owned();
        Ok::<_, std::io::Error>(redirect)
    });
    let auth = OAuth::new("agent").store(directory.store()).login(login);
    let old = auth.token(&server).await.unwrap();
    change(&directory.store(), &server, |login| login.expires_at = expired()).await;

    let mut processes: Vec<Child> = (0..5).map(|_| start(&directory, &server)).collect();
    let found = tokio::task::spawn_blocking(move || {
        let mut outputs: Vec<_> =
            processes.iter_mut().map(|process| std::io::BufReader::new(process.stdout.take().unwrap())).collect();
        outputs.iter_mut().for_each(|output| read_until(output, "ready"));
        // All begin at once.
        processes.iter_mut().for_each(|process| drop(process.stdin.take()));
        let found: Vec<Vec<String>> = outputs.into_iter().map(tokens).collect();
        processes.into_iter().for_each(|mut process| assert!(process.wait().unwrap().success()));
        found
    });
    let found = within("the processes", found).await.unwrap();
    let stored = directory.store().load(&key(&server)).await.unwrap().unwrap().access_token;
    assert_ne!(stored, old);
    for tokens in found {
        assert_eq!(tokens.len(), 20, "{tokens:?}");
        assert!(tokens.iter().all(|token| token == stored.expose()), "{tokens:?}");
    }
    assert_eq!((dev.grants("refresh_token"), dev.requests("/token")), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_during_a_refresh_costs_at_most_its_login() {
    let directory = TestDirectory::new("kill");
    // The first refresh is never answered, and has spent the refresh token.
    let is_spent = Arc::new(AtomicBool::new(false));
    let spent = is_spent.clone();
    let server = Script::start_async(move |request| {
        let is_refresh = request.field("refresh_token").as_deref() == Some("refresh-1");
        let was_spent = is_refresh && spent.swap(true, Ordering::SeqCst);
        Box::pin(async move {
            match (is_refresh, was_spent) {
                (true, false) => std::future::pending().await,
                (true, true) => Reply::json(400, json!({ "error": "invalid_grant" })),
                _ => provider(&request),
            }
        })
    })
    .await;
    let (url, other) = (server.url("/mcp"), "https://other.example.com/mcp");
    let store = directory.store();
    for server_url in [&*url, other] {
        let mut login = StoredLogin::new(
            "access-1",
            SystemTime::now(),
            server.url("/token"),
            StoredClient::new(server.url(""), "c"),
        );
        login.expires_at = expired();
        login.refresh_token = Some("refresh-1".into());
        store.lock(&key(server_url)).await.unwrap().save(&login).await.unwrap();
    }
    let mut process = start(&directory, &url);
    drop(process.stdin.take());
    eventually("the refresh", async || is_spent.load(Ordering::SeqCst)).await;
    // SIGKILL.
    process.kill().unwrap();
    process.wait().unwrap();

    // The lock has ended with the process, and everything can be read.
    assert_eq!(directory.store().list().await.unwrap().len(), 2);
    drop(directory.store().lock_timeout(Duration::from_secs(1)).lock(&key(&url)).await.unwrap());
    let left = store.load(&key(&url)).await.unwrap().unwrap();
    assert_eq!(left.refresh_token.unwrap().expose(), "refresh-1");
    assert_eq!(store.load(&key(other)).await.unwrap().unwrap().access_token.expose(), "access-1");
    assert!(names(&directory.store()).iter().all(|name| !name.ends_with(".tmp")));

    // That login has to be made again.
    let auth = OAuth::new("agent").store(directory.store());
    let error = auth.clone().login(Login::never()).token(&url).await.unwrap_err();
    assert!(error.is_login_required(), "{error}");
    let login = Login::with(async |prompt| {
        let redirect = get(prompt.url.as_str()).await.headers["location"].to_str().unwrap().to_owned();
        Ok::<_, std::io::Error>(redirect)
    });
    auth.login(login).token(&url).await.unwrap();
    assert_eq!(directory.store().list().await.unwrap().len(), 2);
}

fn names(store: &FileStore) -> Vec<String> {
    let path: &Path = store.directory();
    std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The other process: opens a browser, which is a shell.
#[tokio::test]
async fn a_process_that_opens_a_browser() {
    let (Ok(output), Ok(server)) = (std::env::var(DIRECTORY), std::env::var(SERVER)) else { return };
    let login = Login::browser()
        .browser_command(format!("sh {output}/browser.sh"))
        .timeout(Duration::from_secs(5))
        .show(|_| {});
    let _ = OAuth::new("agent").login(login).token(&server).await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn the_browser_does_not_get_the_key_of_the_store() {
    let directory = TestDirectory::new("browser");
    let seen = directory.0.join("seen");
    let script = format!("echo \"[$TURMS_KEY][$TURMS_OTHER]\" > {0}.new && mv {0}.new {0}\n", seen.display());
    std::fs::write(directory.0.join("browser.sh"), script).unwrap();
    let server = Script::start(|request| provider(&request)).await;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_process_that_opens_a_browser"]);
    command.env(DIRECTORY, &directory.0).env(SERVER, server.url("/mcp"));
    command.env("TURMS_KEY", "00".repeat(32)).env("TURMS_OTHER", "other");
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    eventually("the browser", async || seen.exists()).await;
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "[][other]\n");
}
