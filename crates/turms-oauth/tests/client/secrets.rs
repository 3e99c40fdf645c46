//! Secrets of logins are not in logs, errors and `Debug` output, even if an authorization server repeats them.

use std::fmt::Debug;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tower_layer::Layer as _;
use tower_service::Service as _;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use turms_client::Client;
use turms_oauth::dev::DevClient;
use turms_oauth::{
    ClientCredentials, ClientIdentity, Dpop, Enterprise, FileStore, OAuth, StoredClient, TokenParameters, Workload,
    pkce, random_token,
};

use crate::script::{Received, Reply, Script, plain_client, provider};
use crate::world::{Browser, World, call, chain, connect, dev};

/// Records everything that is logged on this thread, and everything that is shown.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    fn record(&self) -> tracing::subscriber::DefaultGuard {
        let output = self.clone();
        let layer = tracing_subscriber::fmt::layer().with_writer(move || output.clone()).with_ansi(false);
        let guard =
            tracing::subscriber::set_default(tracing_subscriber::registry().with(LevelFilter::TRACE).with(layer));
        tracing::trace!("the log is recorded");
        guard
    }

    fn show(&self, value: &dyn Debug) {
        let mut output = self.0.lock();
        write!(output, "{value:?}\n{value:#?}\n").unwrap();
    }

    fn show_error(&self, error: &(dyn std::error::Error + 'static)) {
        self.show(&error);
        self.0.lock().extend_from_slice(chain(error).as_bytes());
    }

    /// Checks that none of the secrets is in the output.
    #[track_caller]
    fn assert_without<'a>(&self, secrets: impl IntoIterator<Item = &'a str>) {
        let output = String::from_utf8(self.0.lock().clone()).unwrap();
        assert!(output.contains("the log is recorded"), "nothing is logged");
        for secret in secrets {
            assert!(secret.len() >= 4, "{secret:?} is too short to search for");
            if let Some(at) = output.find(secret) {
                let begin = output[..at].rfind('\n').map_or(0, |at| at + 1);
                let line = output[begin..].lines().next().unwrap();
                panic!("{secret:?} is shown: {line}");
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the secrets of requests.
fn secrets_of(requests: &[Received]) -> Vec<String> {
    const FIELDS: [&str; 8] = [
        "code",
        "code_verifier",
        "refresh_token",
        "client_secret",
        "client_assertion",
        "assertion",
        "subject_token",
        "device_code",
    ];
    let fields = requests.iter().flat_map(|request| FIELDS.iter().filter_map(|name| request.field(name)));
    let headers = requests.iter().filter_map(|request| Some(request.authorization()?.split_once(' ')?.1.to_owned()));
    fields.chain(headers).collect()
}

/// Responds as a provider that repeats each secret in an error.
fn repeating(request: &Received) -> Reply {
    let secrets = secrets_of(std::slice::from_ref(request)).join(" ");
    match &*request.path {
        "/token" if request.basic().is_some() || !secrets.is_empty() => Reply::json(
            400,
            json!({ "error": "invalid_grant", "error_description": format!("what is {secrets}? {:?}", request.basic()) }),
        ),
        "/mcp" if request.authorization().is_some() => Reply::status(401)
            .with("www-authenticate", &format!("Bearer error=\"invalid_token\", error_description=\"{secrets}\"")),
        _ => provider(request),
    }
}

#[tokio::test]
async fn logs_and_values_of_a_login_show_no_secret() {
    let output = Output::default();
    let _guard = output.record();
    for dpop in [Dpop::Never, Dpop::Always] {
        let dev = dev().client(DevClient::with_secret("robot", "robot-s3cret"));
        let world = World::with(dev.access_token_lifetime(Duration::from_secs(60))).await;
        let auth = world.oauth().dpop(dpop);
        let client = world.connect(&auth).await;
        let first = world.stored().await.unwrap();
        assert_eq!(call(&client, "write").await.unwrap(), "written");
        world.advance(Duration::from_secs(150));
        assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
        let second = world.stored().await.unwrap();
        output.show(&(&auth, &auth.layer(), &client, &world.store, &second, &second.client));
        output.show(&auth.status(&world.server.url).await.unwrap());
        auth.logout(&world.server.url).await.unwrap();
        let robot = OAuth::new("robot").grant(ClientCredentials::secret("robot", "robot-s3cret"));
        robot.token(&world.server.url).await.unwrap();
        client.close().await;

        let logins = [&first, &second];
        let secrets = logins.iter().flat_map(|login| {
            [Some(&login.access_token), login.refresh_token.as_ref(), login.dpop_key.as_ref()].into_iter().flatten()
        });
        output.assert_without(secrets.map(|secret| secret.expose()).chain(["robot-s3cret"]));
    }
}

#[tokio::test]
async fn errors_show_no_secret_even_if_the_server_repeats_it() {
    let output = Output::default();
    let _guard = output.record();
    let server = Script::start(|request| repeating(&request)).await;
    let url = server.url("/mcp");
    let grants = [
        OAuth::new("a").login(Browser::new().login()),
        OAuth::new("a")
            .login(Browser::new().login())
            .client(server.url(""), ClientIdentity::with_secret("c", "client-s3cret")),
        OAuth::new("a").grant(ClientCredentials::secret("robot", "robot-s3cret")),
        OAuth::new("a").grant(Workload::token("platform-s3cret")),
        OAuth::new("a").grant(Enterprise::new(server.url(""), "id-s3cret")),
    ];
    for auth in grants {
        output.show_error(&auth.token(&url).await.unwrap_err());
        let mut client = auth.layer().layer(plain_client());
        let request = http::Request::get(&url).body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
        output.show_error(&*client.call(request).await.unwrap_err());
        let error = connect(&url, &auth, Client::builder("agent", "1.0.0")).await.unwrap_err();
        output.show_error(&error);
    }
    let secrets = secrets_of(&server.received());
    assert!(secrets.len() >= 5, "{secrets:?}");
    let basic = server
        .received()
        .iter()
        .filter_map(Received::basic)
        .map(|it| it.split_once(':').unwrap().1.to_owned())
        .collect::<Vec<_>>();
    assert!(!basic.is_empty());
    let given = ["client-s3cret", "robot-s3cret", "platform-s3cret", "id-s3cret"];
    output.assert_without(secrets.iter().chain(&basic).map(String::as_str).chain(given));
}

#[tokio::test]
async fn a_rejection_that_repeats_the_token_does_not_show_it() {
    let output = Output::default();
    let _guard = output.record();
    let number = AtomicUsize::new(0);
    let server = Script::start(move |request| match &*request.path {
        "/token" => {
            let number = number.fetch_add(1, Ordering::SeqCst);
            Reply::json(200, json!({ "access_token": format!("access-s3cret-{number}"), "token_type": "Bearer" }))
        }
        _ => repeating(&request),
    })
    .await;
    let auth = OAuth::new("a").login(Browser::new().login());
    let error = connect(&server.url("/mcp"), &auth, Client::builder("agent", "1.0.0")).await.unwrap_err();
    output.show_error(&error);
    assert!(server.at("/mcp").iter().any(|request| request.authorization().is_some()));
    output.assert_without(["access-s3cret"]);
}

#[test]
fn values_with_secrets_do_not_show_them() {
    let output = Output::default();
    let _guard = output.record();
    let key = turms_oauth::SigningKey::generate(turms_oauth::Algorithm::Es256).unwrap();
    let (pkce, state) = (pkce(), random_token());
    let mut client = StoredClient::new("https://a.example", "c");
    client.client_secret = Some("stored-s3cret".into());
    let store = FileStore::at("/none").key(*b"key-s3cretkey-s3cretkey-s3cretke");
    output.show(&(
        ClientCredentials::secret("robot", "robot-s3cret"),
        ClientCredentials::key("robot", key),
        Enterprise::new("https://idp.example", "id-s3cret").client("c", "client-s3cret"),
        Workload::token("platform-s3cret"),
        ClientIdentity::with_secret("c", "client-s3cret"),
        (&pkce, &state, &client, &store),
        TokenParameters::new().extra("assertion", "extra-s3cret"),
        OAuth::new("a").grant(ClientCredentials::secret("robot", "robot-s3cret")),
    ));
    let number = format!("{:?}", b"key-s3cret");
    output.assert_without(["s3cret", pkce.verifier.expose(), state.expose(), number.trim_matches(['[', ']'])]);
}
