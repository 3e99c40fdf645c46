//! The authorization server `oidc-provider`, and the person who logs in there.

use std::io;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use turms_oauth::{AuthorizationServerMetadata, Fetcher, Issuer, Login, LoginMessage, OAuth, discover_server};
use turms_testkit::raw_http::{Connection, Request};
use turms_testkit::{node, peer_file, within};
use url::Url;

/// The client for the introspection requests of guards.
const GUARD_SECRET: &str = "secret of the guard";
/// A client that logs in without a person. Its secret has characters that `Basic` has to encode.
pub(super) const ROBOT: (&str, &str) = ("robot", "secret of the robot: 100% + more");

/// A server in a process of its own, which prints its origin first. It ends when this is dropped.
pub(super) struct ServerProcess {
    pub(super) origin: String,
    _process: Child,
    /// Kept open: the process writes more than its origin.
    _output: Lines<BufReader<ChildStdout>>,
}

impl ServerProcess {
    pub(super) async fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let origin = within("an origin", output.next_line()).await.unwrap().expect("the server prints its origin");
        Self { origin, _process: process, _output: output }
    }
}

/// An authorization server.
pub(super) struct Provider {
    pub(super) issuer: String,
    _process: ServerProcess,
}

impl Provider {
    pub(super) async fn start() -> Self {
        Self::with(json!({})).await
    }

    /// Starts a server with settings; they are described in `peers/node/oidc-provider.mjs`.
    pub(super) async fn with(settings: Value) -> Self {
        let mut command = script("oidc-provider.mjs");
        command.arg(settings.to_string());
        let process = ServerProcess::start(command).await;
        Self { issuer: process.origin.clone(), _process: process }
    }

    /// Returns an issuer for guards, of signed tokens.
    pub(super) fn discovered(&self) -> Issuer {
        Issuer::discover(&self.issuer)
    }

    /// Returns an issuer for guards, of opaque tokens.
    pub(super) fn introspected(&self) -> Issuer {
        let url = format!("{}/token/introspection", self.issuer);
        Issuer::introspect(&self.issuer, url, "guard", GUARD_SECRET)
    }

    pub(super) fn fetcher(&self) -> Fetcher {
        Fetcher::for_server(&Url::parse(&self.issuer).unwrap())
    }

    pub(super) async fn metadata(&self) -> AuthorizationServerMetadata {
        within("the metadata", discover_server(&self.fetcher(), &self.issuer)).await.unwrap()
    }

    /// Sends a control request, and returns the events so far.
    pub(super) async fn control(&self, path: &str, body: &Value) -> Vec<String> {
        let address = self.issuer.strip_prefix("http://").unwrap().parse().unwrap();
        let mut connection = Connection::open(address).await;
        let request = Request::new("POST").path(format!("/control/{path}")).header("Host", address.to_string());
        connection.send(&request.body(body.to_string())).await;
        let response = within("an answer", connection.response()).await;
        assert_eq!(response.status(), 200, "{response}");
        serde_json::from_value(response.json()).unwrap()
    }

    /// Returns what has happened, without the requests for documents.
    pub(super) async fn events(&self) -> Vec<String> {
        let mut events = self.control("events", &json!({})).await;
        events.retain(|event| !event.starts_with("request "));
        events
    }

    /// Counts the requests for a path.
    pub(super) async fn requests(&self, path: &str) -> usize {
        let request = format!("request {path}");
        self.control("events", &json!({})).await.into_iter().filter(|event| *event == request).count()
    }
}

/// A client whose person logs in.
pub(super) fn agent() -> OAuth {
    OAuth::new("agent").login(person())
}

/// A person who logs in and consents on the pages of the provider.
pub(super) fn person() -> Login {
    person_with(json!({}))
}

/// A person who fills in some fields in another way.
pub(super) fn person_with(answers: Value) -> Login {
    Login::with(move |prompt| visit(prompt.url.into(), answers.clone()))
}

/// A person who opens the page of a device login and enters the code.
pub(super) fn person_with_code() -> Login {
    Login::device().show(|message| {
        let LoginMessage::DeviceCode { complete_url: Some(url), .. } = message else { panic!("{message}") };
        let url = url.to_string();
        tokio::spawn(async move { visit(url, json!({})).await.unwrap() });
    })
}

/// Opens a URL as a person does, and returns the URL where that ends.
async fn visit(url: String, answers: Value) -> io::Result<String> {
    let output = script("person.mjs").arg(url).arg(answers.to_string()).stdin(Stdio::null()).output().await?;
    let (end, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(end.trim().to_owned()) } else { Err(io::Error::other(complaint.into_owned())) }
}

pub(super) fn script(name: &str) -> Command {
    let mut command = Command::new(node());
    command.arg(peer_file(&format!("node/{name}"))).kill_on_drop(true);
    command
}
