//! The guarded server and the client that logs in, run as programs.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use turms_testkit::browser::Browser;

/// A child process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_client_logs_in_and_asks_for_the_missing_scope() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_guarded"));
    let mut server = Running(server.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap());
    let mut url = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut url).unwrap();

    let mut client = Command::new(env!("CARGO_BIN_EXE_login"));
    // `true` as the browser does nothing: the test opens the URLs.
    client.arg(url.trim()).env("BROWSER", "true").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = Running(client.spawn().unwrap());
    let mut browser = Browser::new();
    for line in BufReader::new(client.0.stderr.take().unwrap()).lines() {
        if let Some(url) = line.unwrap().strip_prefix("  http") {
            assert_eq!(browser.open(&format!("http{url}")).status, 200);
        }
    }
    let output = BufReader::new(client.0.stdout.take().unwrap()).lines().map(Result::unwrap).collect::<Vec<_>>();
    assert!(client.0.wait().unwrap().success(), "{output:?}");
    assert_eq!(output[..2], ["the note of ann", "ann wrote \"milk\""]);
    assert!(output[2].ends_with("with the scopes notes:read notes:write"), "{output:?}");
}
