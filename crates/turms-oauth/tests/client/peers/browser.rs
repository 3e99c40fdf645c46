//! A login with the browser Chromium, in which a script fills in the pages and clicks.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;
use turms_oauth::{Login, OAuth};
use turms_testkit::{eventually, node, peer_file, within};

use super::guarded_server::GuardedServer;
use super::provider::Provider;
use super::{call, connect};

/// Set in the process that logs in: `BROWSER` cannot be set in this one, whose other threads may read it.
const CHILD: &str = "TURMS_TEST_LOGS_IN";

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_person_logs_in_with_chromium() {
    if std::env::var_os(CHILD).is_some() {
        return log_in().await;
    }
    let directory = std::env::temp_dir().join(format!("turms-oauth-browser-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let report = directory.join("report");
    let script = peer_file("node/person-chromium.mjs");
    let browser = format!("{} {} %s {}", node().display(), script.display(), report.display());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "peers::browser::a_person_logs_in_with_chromium", "--ignored", "--nocapture"]);
    child.env(CHILD, "1").env("BROWSER", browser).stdin(Stdio::null()).kill_on_drop(true);
    let output = within("the login", child.output()).await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{complaint}", String::from_utf8_lossy(&output.stdout));

    // The browser closes some time after the login.
    let pages = async || pages(&report).last().is_some_and(|line| line["end"] == true);
    eventually("the report of the browser", pages).await;
    check_pages(&self::pages(&report));
    std::fs::remove_dir_all(directory).unwrap();
}

/// Logs in with the browser in `BROWSER`, and uses the token.
async fn log_in() {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    let client = connect(&server.url(), OAuth::new("agent").login(Login::browser())).await;
    assert_eq!(call(&client, "read").await, "read by ann");
    assert_eq!(provider.events().await, ["registered", "grant authorization_code"]);
}

/// Returns what the browser has shown so far.
fn pages(report: &Path) -> Vec<Value> {
    let lines = std::fs::read_to_string(report).unwrap_or_default();
    lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn check_pages(pages: &[Value]) {
    let [browser, login, consent, callback, _end] = pages else { panic!("{pages:?}") };
    assert!(browser["version"].as_str().unwrap().contains("Chrome/"), "{browser}");
    assert!(login["text"].as_str().unwrap().starts_with("Log in\n"), "{login}");
    assert!(consent["text"].as_str().unwrap().starts_with("Grant access\n"), "{consent}");
    assert_eq!(login["origin"], consent["origin"]);
    assert_ne!(login["origin"], callback["origin"]);
    let text = "The login is complete. You can close this window and return to the application.";
    assert_eq!((callback["path"].as_str(), callback["text"].as_str().map(str::trim)), (Some("/callback"), Some(text)));
}
