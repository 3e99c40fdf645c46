//! The ways in which a person logs in: with the browser of this machine, by pasting, with a device code.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::LOCATION;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use turms_oauth::{Login, LoginMessage, OAuth};
use turms_testkit::within;
use url::Url;

use crate::script::{Reply, Script, get, provider};
use crate::world::{World, call, chain, dev, open};

const URL: &str = "TURMS_TEST_URL";

/// The browser that [`browser_command`] starts: another process, which opens the URL and follows its redirect.
#[tokio::test]
async fn a_browser_that_is_started() {
    let Ok(url) = std::env::var(URL) else { return };
    let redirect = get(&url).await.headers[LOCATION].to_str().unwrap().to_owned();
    assert_eq!(get(&redirect).await.status, 200);
}

/// Returns the command that starts the test above as a browser.
fn browser_command() -> String {
    let program = std::env::current_exe().unwrap();
    // A colon separates commands, so that the module of the test cannot be named.
    format!("env {URL}=%s {} a_browser_that_is_started", program.to_str().unwrap())
}

/// Records the messages of a login.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<Vec<String>>>);

impl Messages {
    fn record(&self) -> impl Fn(&LoginMessage<'_>) + Send + Sync + 'static {
        let this = self.clone();
        move |message| this.0.lock().push(message.to_string())
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

#[tokio::test]
async fn the_browser_is_started_and_the_listener_receives_the_callback() {
    let world = World::new().await;
    let messages = Messages::default();
    let login = Login::browser().browser_command(browser_command()).show(messages.record());
    let auth = world.oauth().login(login);
    within("the login", auth.token(&world.server.url)).await.unwrap();
    assert_eq!(world.dev.grants("authorization_code"), 1);
    let messages = messages.all();
    assert!(messages.len() == 1 && messages[0].starts_with("Opening the browser to log in."), "{messages:?}");
    let redirect = world.stored().await.unwrap().client.redirect_uri.unwrap();
    assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
}

#[tokio::test]
async fn a_registered_port_that_is_taken_leads_to_another_registration() {
    let world = World::new().await;
    let login = Login::browser().browser_command(browser_command()).show(|_| {});
    let auth = world.oauth().login(login);
    within("the login", auth.login_now(&world.server.url)).await.unwrap();
    let first = world.stored().await.unwrap().client;
    within("the login", auth.login_now(&world.server.url)).await.unwrap();
    assert_eq!(world.stored().await.unwrap().client, first, "the port and the registration are not used again");

    let port = Url::parse(first.redirect_uri.as_deref().unwrap()).unwrap().port().unwrap();
    let _taken = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    within("the login", auth.login_now(&world.server.url)).await.unwrap();
    let second = world.stored().await.unwrap().client;
    assert_ne!(second.redirect_uri, first.redirect_uri);
    assert_eq!(world.dev.requests("/register"), 2);
}

#[tokio::test]
async fn a_configured_port_that_is_taken_is_an_error() {
    let world = World::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let redirect = format!("http://127.0.0.1:{}/cb", taken.local_addr().unwrap().port());
    let login = Login::browser().browser_command("false").redirect(redirect).show(|_| {});
    let error = world.oauth().login(login).token(&world.server.url).await.unwrap_err();
    assert!(chain(&error).contains("for the callback; use another redirect URI"), "{}", chain(&error));
    assert_eq!(world.dev.requests("/register"), 0);
}

#[tokio::test]
async fn a_browser_that_cannot_be_started_leaves_the_url_to_the_person() {
    let world = World::new().await;
    let (sender, mut urls) = tokio::sync::mpsc::unbounded_channel();
    let login = Login::browser().browser_command("/none/such-browser").show(move |message| {
        if let LoginMessage::BrowserFailed { url, reason } = message {
            sender.send(((*url).clone(), (*reason).to_owned())).unwrap();
        }
    });
    let auth = world.oauth().login(login);
    let (token, ()) = tokio::join!(within("the login", auth.token(&world.server.url)), async {
        let (url, reason) = urls.recv().await.unwrap();
        assert!(reason.starts_with("/none/such-browser: "), "{reason}");
        assert_eq!(get(&open(&url).await.unwrap()).await.status, 200);
    });
    token.unwrap();
}

#[tokio::test]
async fn another_page_that_calls_the_listener_does_not_end_the_login() {
    let world = World::new().await;
    let (sender, mut urls) = tokio::sync::mpsc::unbounded_channel();
    let login = Login::browser().browser_command("true").show(move |message| {
        if let LoginMessage::OpeningBrowser { url } = message {
            sender.send((*url).clone()).unwrap();
        }
    });
    let auth = world.oauth().login(login);
    let (token, ()) = tokio::join!(within("the login", auth.token(&world.server.url)), async {
        let url = urls.recv().await.unwrap();
        let redirect = url.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1.into_owned();
        for query in ["?code=evil&state=guess", "?error=access_denied&state=guess", "?code=evil", ""] {
            assert_eq!(get(&format!("{redirect}{query}")).await.status, 400, "{query}");
        }
        assert_eq!(get(&open(&url).await.unwrap()).await.status, 200);
    });
    token.unwrap();
}

#[tokio::test]
async fn a_login_that_is_not_made_in_time_is_an_error() {
    let world = World::new().await;
    let login = Login::browser().browser_command("true").show(|_| {}).timeout(Duration::from_millis(50));
    let error = within("the timeout", world.oauth().login(login).token(&world.server.url)).await.unwrap_err();
    assert!(error.is_login_timeout() && error.to_string().ends_with("no login within 50 ms"), "{error}");
}

#[tokio::test]
async fn the_callback_can_be_pasted() {
    let world = World::new().await;
    let (input, mut keyboard) = (tokio::io::duplex(4096), Messages::default());
    let (sender, mut urls) = tokio::sync::mpsc::unbounded_channel();
    let record = keyboard.record();
    let login = Login::paste().input(tokio::io::BufReader::new(input.0)).show(move |message| {
        record(message);
        if let LoginMessage::Paste { url } = message {
            sender.send((*url).clone()).unwrap();
        }
    });
    let auth = world.oauth().login(login);
    let mut terminal = input.1;
    let (token, ()) = tokio::join!(within("the login", auth.token(&world.server.url)), async {
        let callback = open(&urls.recv().await.unwrap()).await.unwrap();
        // Rubbish, the callback of another login, and then the query of the right one.
        let (_, query) = callback.split_once('?').unwrap();
        let lines = format!("\nhello\nhttp://127.0.0.1/callback?code=x&state=other\n  {query} \n");
        terminal.write_all(lines.as_bytes()).await.unwrap();
    });
    token.unwrap();
    let messages = std::mem::take(&mut keyboard).all();
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert!(messages[1].contains("this is not the URL of a callback"), "{messages:?}");
    assert!(messages[2].contains("its state differs"), "{messages:?}");
}

#[tokio::test]
async fn the_end_of_the_input_ends_a_login_by_pasting() {
    let world = World::new().await;
    let login = Login::paste().input(tokio::io::BufReader::new(tokio::io::empty())).show(|_| {});
    let error = world.oauth().login(login).token(&world.server.url).await.unwrap_err();
    assert!(error.to_string().ends_with("the input ended before the callback URL was pasted"), "{error}");
}

/// Responds with a device code, and says that it is pending this many times.
fn device_server(pending: usize) -> impl Fn(crate::script::Received) -> Reply + Send + Sync + 'static {
    let polls = AtomicUsize::new(0);
    move |request| match &*request.path {
        "/device_authorization" => Reply::json(
            200,
            json!({
                "device_code": "device-s3cret", "user_code": "WDJB-MJHT", "interval": 1, "expires_in": 60,
                "verification_uri": format!("{}/device", request.base),
                "verification_uri_complete": "javascript:alert(1)",
            }),
        ),
        "/token" if request.field("device_code").is_some() && polls.fetch_add(1, Ordering::SeqCst) < pending => {
            Reply::error(400, "authorization_pending")
        }
        _ => provider(&request),
    }
}

#[tokio::test]
async fn a_person_enters_a_device_code() {
    let server = Script::start(device_server(1)).await;
    let messages = Messages::default();
    let auth = OAuth::new("agent").login(Login::device().show(messages.record())).scopes(["extra"]);
    within("the login", auth.token(server.url("/mcp"))).await.unwrap();
    let messages = messages.all();
    let expected = format!(
        "Open this URL in a browser on any machine:\n\n  {}\n\nand enter the code WDJB-MJHT",
        server.url("/device")
    );
    assert_eq!(messages, [expected], "a URL that no browser must open is shown");
    let [codes, polls] = ["/device_authorization", "/token"].map(|path| server.at(path));
    assert_eq!((codes.len(), polls.len()), (1, 2));
    assert_eq!(codes[0].field("scope").as_deref(), Some("notes:read extra"));
    assert_eq!(codes[0].field("resource"), Some(server.url("/mcp")));
    for poll in polls {
        assert_eq!(poll.field("grant_type").as_deref(), Some("urn:ietf:params:oauth:grant-type:device_code"));
        assert_eq!(poll.field("device_code").as_deref(), Some("device-s3cret"));
        assert_eq!(poll.field("client_id").as_deref(), Some("registered-1"));
    }
    let registration = server.at("/register")[0].json();
    assert_eq!(registration["grant_types"][0], "urn:ietf:params:oauth:grant-type:device_code");
    assert_eq!(registration["redirect_uris"], json!([]));
}

#[tokio::test]
async fn a_device_calls_a_tool() {
    let world = World::with(dev().device_interval(Duration::from_secs(1))).await;
    let auth = world.oauth().login(Login::device().show(|_| {}));
    let client = world.connect(&auth).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    world.expire_at_server();
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    assert_eq!((world.dev.requests("/device_authorization"), world.dev.grants("refresh_token")), (1, 1));
}

#[tokio::test]
async fn a_device_login_that_is_denied_is_an_error() {
    let server = Script::start(|request| match &*request.path {
        "/token" => Reply::error(400, "access_denied"),
        _ => device_server(0)(request),
    })
    .await;
    let auth = OAuth::new("agent").login(Login::device().show(|_| {}));
    let error = within("the login", auth.token(server.url("/mcp"))).await.unwrap_err();
    assert!(error.is_denied(), "{error}");
}
