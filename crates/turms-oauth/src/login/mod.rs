//! Logins by a person: with the browser of this machine, by pasting the callback URL, or with a device code.

mod browser;
mod error;
mod listener;
mod message;
mod paste;
mod redirect;

use std::error::Error;
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncBufRead;
use turms_core::BoxFuture;
use url::Url;

use self::listener::Listener;
use self::paste::LineReader;
use self::redirect::RedirectUri;
use crate::flow::Callback;
use crate::metadata::{DeviceAuthorization, is_hidden};
use crate::secret::Secret;

pub use self::error::LoginError;
pub use self::message::LoginMessage;

/// Maximum length of a callback URL, in bytes.
const MAX_CALLBACK_BYTES: usize = 16 * 1024;

/// Default timeout of a login by a person.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The way in which a person logs in.
///
/// ```
/// use turms_oauth::Login;
///
/// // A redirect URI that is registered with the provider, and messages in a window of the application.
/// let login = Login::browser().redirect("http://localhost:8085/cb").show(|message| {
///     // show(message.to_string())
/// #   let _ = message;
/// });
/// ```
#[derive(Clone)]
pub struct Login {
    method: Method,
    redirect: Option<String>,
    timeout: Duration,
    show: Arc<dyn Fn(&LoginMessage<'_>) + Send + Sync>,
    browser_command: Option<String>,
    input: LineReader,
}

#[derive(Clone)]
enum Method {
    Browser,
    Paste,
    Device,
    Custom(Arc<CustomLogin>),
    Never,
}

type CustomLogin =
    dyn Fn(LoginPrompt) -> BoxFuture<'static, Result<String, Box<dyn Error + Send + Sync>>> + Send + Sync;

/// The flow that a [`Login`] needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginKind {
    /// Authorization code, with [`Login::prepare`].
    Redirect,
    /// Device code, with [`Login::show_device_code`].
    Device,
    /// No person may be asked.
    Never,
}

/// The request that [`Login::with`] passes to the application.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoginPrompt {
    /// URL that the person opens.
    pub url: Url,
    /// URI that the browser is sent to afterwards. The login needs the URL of that request.
    pub redirect_uri: String,
}

impl Login {
    /// Creates a login with the browser of this machine. A listener on the loopback interface receives the callback.
    ///
    /// The browser is started with the commands in the environment variable `BROWSER` (separated by `:`, or `;` on Windows; `%s` is
    /// replaced by the URL), or with `xdg-open`, `open` or `rundll32`. No shell is involved. The URL is shown, too.
    #[must_use]
    pub fn browser() -> Self {
        Self::new(Method::Browser)
    }

    /// Creates a login for a terminal on another machine: the URL is shown, and the person pastes the URL of the callback, or its
    /// query, into the standard input.
    #[must_use]
    pub fn paste() -> Self {
        Self::new(Method::Paste)
    }

    /// Creates a login with a device code: a URL and a code are shown, and the person enters the code on any machine.
    #[must_use]
    pub fn device() -> Self {
        Self::new(Method::Device)
    }

    /// Creates a login that an application conducts itself. `login` gets the URL to open and returns the URL of the callback, or its
    /// query.
    ///
    /// ```
    /// use turms_oauth::Login;
    ///
    /// let login = Login::with(async |prompt| {
    ///     let callback = format!("{}?code=…&state=…", prompt.redirect_uri); // from a window with `prompt.url`
    ///     Ok::<_, std::io::Error>(callback)
    /// })
    /// .redirect("https://app.example.com/callback");
    /// ```
    pub fn with<F, U, T, E>(login: F) -> Self
    where
        F: Fn(LoginPrompt) -> U + Send + Sync + 'static,
        U: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<String>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self::new(Method::Custom(Arc::new(move |prompt| {
            let callback = login(prompt);
            Box::pin(async move { callback.await.map(Into::into).map_err(Into::into) })
        })))
    }

    /// Creates a login that fails, for programs without a person.
    #[must_use]
    pub fn never() -> Self {
        Self::new(Method::Never)
    }

    fn new(method: Method) -> Self {
        Self {
            method,
            redirect: None,
            timeout: DEFAULT_TIMEOUT,
            show: Arc::new(show_on_stderr),
            browser_command: None,
            input: LineReader::stdin(),
        }
    }

    /// Sets the redirect URI. A loopback URI with port 0 gets a free port. Default: `http://127.0.0.1:0/callback`.
    ///
    /// [`browser`](Self::browser) needs an `http` URI with the host `127.0.0.1`, `[::1]` or `localhost`; others may also have an `https`
    /// URI.
    #[must_use]
    pub fn redirect(mut self, uri: impl Into<String>) -> Self {
        self.redirect = Some(uri.into());
        self
    }

    /// Sets the timeout of a login. A login with a device code ends when its code expires instead. Default: 5 min.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the function that shows messages to the person, instead of writing them to the standard error.
    #[must_use]
    pub fn show(mut self, show: impl Fn(&LoginMessage<'_>) + Send + Sync + 'static) -> Self {
        self.show = Arc::new(show);
        self
    }

    /// Sets the command that starts the browser, in the form of the environment variable `BROWSER`, which is then ignored.
    #[must_use]
    pub fn browser_command(mut self, command: impl Into<String>) -> Self {
        self.browser_command = Some(command.into());
        self
    }

    /// Sets the source of the pasted URL, instead of the standard input.
    #[must_use]
    pub fn input(mut self, input: impl AsyncBufRead + Send + Unpin + 'static) -> Self {
        self.input = LineReader::new(input);
        self
    }

    /// Returns the flow that this login needs.
    pub(crate) fn kind(&self) -> LoginKind {
        match self.method {
            Method::Browser | Method::Paste | Method::Custom(_) => LoginKind::Redirect,
            Method::Device => LoginKind::Device,
            Method::Never => LoginKind::Never,
        }
    }

    /// Prepares a login with an authorization code. The redirect URI is known afterwards, and a listener is there if one is needed.
    ///
    /// `preferred` is the redirect URI of an earlier registration. It is used if its port is free and no other URI is configured.
    pub(crate) async fn prepare(&self, preferred: Option<&str>) -> Result<RedirectAttempt, LoginError> {
        let needs_listener = match self.method {
            Method::Browser => true,
            Method::Paste | Method::Custom(_) => false,
            Method::Device | Method::Never => return Err(LoginError::NotAllowed),
        };
        let configured = self.redirect.as_deref().map(|uri| RedirectUri::parse(uri, needs_listener)).transpose()?;
        let preferred = preferred.and_then(|uri| RedirectUri::parse(uri, needs_listener).ok());
        let preferred = preferred.filter(|uri| configured.as_ref().is_none_or(|configured| configured.allows(uri)));
        let uri = configured.unwrap_or_default();
        if !needs_listener {
            let uri = preferred.unwrap_or_else(|| uri.with_any_port());
            return Ok(RedirectAttempt { redirect_uri: uri.to_string(), listener: None, login: self.clone() });
        }
        let listener = match preferred {
            Some(preferred) => Listener::bind(&preferred).await.ok(),
            None => None,
        };
        let listener = match listener {
            Some(listener) => listener,
            None => Listener::bind(&uri).await?,
        };
        let redirect_uri = listener.redirect_uri();
        Ok(RedirectAttempt { redirect_uri, listener: Some(listener), login: self.clone() })
    }

    /// Shows the URL and the code of a device login.
    pub(crate) fn show_device_code(&self, device: &DeviceAuthorization) -> Result<(), LoginError> {
        let url = Url::parse(&device.verification_uri).map_err(|_| LoginError::Url("it is not a valid URL"))?;
        check_url(&url)?;
        let complete_url = device.verification_uri_complete.as_deref().and_then(|url| Url::parse(url).ok());
        let complete_url = complete_url.filter(|url| check_url(url).is_ok());
        // The code goes to a terminal, which would obey control characters.
        let code: String = device.user_code.chars().filter(|c| !is_hidden(*c)).collect();
        (self.show)(&LoginMessage::DeviceCode { url: &url, complete_url: complete_url.as_ref(), code: &code });
        Ok(())
    }

    async fn run(
        &self,
        listener: Option<Listener>,
        prompt: LoginPrompt,
        state: &Secret,
    ) -> Result<Callback, LoginError> {
        match (&self.method, listener) {
            (Method::Browser, Some(listener)) => Ok(self.run_browser(listener, &prompt.url, state).await),
            (Method::Paste, _) => self.run_paste(&prompt.url, state).await,
            (Method::Custom(login), _) => {
                let callback = login(prompt).await.map_err(|error| LoginError::Custom(error.into()))?;
                let callback = Callback::parse(&callback).map_err(|_| LoginError::Callback)?;
                if has_state(&callback, state) { Ok(callback) } else { Err(LoginError::State) }
            }
            (Method::Browser | Method::Device | Method::Never, _) => Err(LoginError::NotAllowed),
        }
    }

    async fn run_browser(&self, listener: Listener, url: &Url, state: &Secret) -> Callback {
        (self.show)(&LoginMessage::OpeningBrowser { url });
        let open = async {
            if let Err(reason) = browser::open(self.browser_command.as_deref(), url).await {
                (self.show)(&LoginMessage::BrowserFailed { url, reason: &reason });
            }
            std::future::pending().await
        };
        tokio::select! {
            callback = listener.wait(state) => callback,
            () = open => unreachable!("never ready"),
        }
    }

    async fn run_paste(&self, url: &Url, state: &Secret) -> Result<Callback, LoginError> {
        (self.show)(&LoginMessage::Paste { url });
        loop {
            let line = self.input.line().await?;
            if line.trim().is_empty() {
                continue;
            }
            match Callback::parse(&line).ok() {
                Some(callback) if has_state(&callback, state) => return Ok(callback),
                Some(_) => (self.show)(&LoginMessage::PasteAgain { reason: &LoginError::State.to_string() }),
                None => (self.show)(&LoginMessage::PasteAgain { reason: &LoginError::Callback.to_string() }),
            }
        }
    }
}

/// A login with an authorization code that is prepared: its redirect URI is known.
#[derive(Debug)]
pub(crate) struct RedirectAttempt {
    redirect_uri: String,
    listener: Option<Listener>,
    login: Login,
}

impl RedirectAttempt {
    /// Returns the redirect URI for the authorization request.
    pub(crate) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Sends the person to the URL and waits for a callback with this `state`. The issuer in it is not checked yet.
    pub(crate) async fn run(self, url: &Url, state: &Secret) -> Result<Callback, LoginError> {
        check_url(url)?;
        let Self { redirect_uri, listener, login } = self;
        let prompt = LoginPrompt { url: url.clone(), redirect_uri };
        let callback = login.run(listener, prompt, state);
        tokio::time::timeout(login.timeout, callback).await.map_err(|_| LoginError::Timeout(login.timeout))?
    }
}

fn has_state(callback: &Callback, state: &Secret) -> bool {
    callback.state.as_ref() == Some(state)
}

/// Checks that a URL is safe to pass to a browser. It is also safe to write to a terminal: the parser has encoded control characters.
fn check_url(url: &Url) -> Result<(), LoginError> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(LoginError::Url("its scheme is not http or https"));
    }
    Ok(())
}

fn show_on_stderr(message: &LoginMessage<'_>) {
    // There is no other place for this error.
    let _ = std::io::stderr().write_all(format!("{message}\n").as_bytes());
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = match self.method {
            Method::Browser => "browser",
            Method::Paste => "paste",
            Method::Device => "device",
            Method::Custom(_) => "custom",
            Method::Never => "never",
        };
        f.debug_struct("Login")
            .field("method", &method)
            .field("redirect", &self.redirect)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNSAFE: [&str; 5] =
        ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ms-settings:x", "--help:x"];

    #[tokio::test]
    async fn no_login_passes_an_unsafe_url_on() {
        for url in UNSAFE.iter().filter_map(|url| Url::parse(url).ok()) {
            let opened = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let shown = opened.clone();
            let show = move |_: &LoginMessage<'_>| shown.store(true, std::sync::atomic::Ordering::SeqCst);
            for login in [
                Login::browser().browser_command("/none/browser"),
                Login::paste().input(tokio::io::empty()),
                Login::with(|_| async { Err::<String, _>("asked") }),
            ] {
                let attempt = login.show(show.clone()).prepare(None).await.unwrap();
                let error = attempt.run(&url, &Secret::new("state")).await.unwrap_err();
                assert!(matches!(error, LoginError::Url(_)), "{url}: {error}");
            }
            assert!(!opened.load(std::sync::atomic::Ordering::SeqCst), "{url}");
        }
    }

    #[test]
    fn a_device_code_is_shown_with_safe_urls_only() {
        let show = |response: serde_json::Value| {
            let text = Arc::new(parking_lot::Mutex::new(String::new()));
            let shown = text.clone();
            let login = Login::device().show(move |message| *shown.lock() = message.to_string());
            let device: DeviceAuthorization = serde_json::from_value(response).unwrap();
            let result = login.show_device_code(&device);
            let text = text.lock().clone();
            (result, text)
        };
        let good = "https://auth.example.com/device";
        for url in UNSAFE {
            let response = serde_json::json!({ "device_code": "d", "user_code": "A", "verification_uri": url });
            let (result, text) = show(response);
            assert!(matches!(result, Err(LoginError::Url(_))) && text.is_empty(), "{url}: {text}");
            let (result, text) = show(serde_json::json!({
                "device_code": "d", "user_code": "A\u{1b}[2JB", "verification_uri": good, "verification_uri_complete": url,
            }));
            assert!(result.is_ok() && text.contains("the code A[2JB") && !text.contains(url), "{text}");
        }
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time};

        let login = Login::browser();
        let code = [
            ("Login::redirect", format!("`{}`", login.redirect.as_deref().unwrap_or(RedirectUri::DEFAULT))),
            ("Login::timeout", time(login.timeout)),
        ];
        assert_documented(include_str!("mod.rs"), &code);
    }
}
