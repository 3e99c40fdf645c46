//! Lines that the user pastes, such as the address to which the authorization server sent the browser.

use std::io::{self, BufRead as _, Read as _};
use std::sync::Arc;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, Lines};
use tokio::sync::{Mutex, oneshot};

use super::LoginError;
use super::MAX_CALLBACK_BYTES;

type Input = Lines<Box<dyn AsyncBufRead + Send + Unpin>>;

/// A source of lines: the standard input, or an input that the application provides.
#[derive(Clone)]
pub(super) struct LineReader(Option<Arc<Mutex<Input>>>);

impl LineReader {
    pub(super) fn stdin() -> Self {
        Self(None)
    }

    pub(super) fn new(input: impl AsyncBufRead + Send + Unpin + 'static) -> Self {
        let input: Box<dyn AsyncBufRead + Send + Unpin> = Box::new(input);
        Self(Some(Arc::new(Mutex::new(input.lines()))))
    }

    /// Waits for the next line. May be dropped: no input is lost.
    pub(super) async fn line(&self) -> Result<String, LoginError> {
        let line = match &self.0 {
            Some(input) => input.lock().await.next_line().await,
            None => stdin_line().await,
        };
        line.map_err(|error| LoginError::Input(Arc::new(error)))?.ok_or(LoginError::NoInput)
    }
}

/// A read from the standard input that was not finished when its login ended. The next login continues it.
static PENDING: Mutex<Option<oneshot::Receiver<io::Result<Option<String>>>>> = Mutex::const_new(None);

/// Reads a line from the standard input, in a thread that does not belong to the runtime. The read cannot be cancelled, and a runtime
/// waits for its blocking threads when it shuts down: the process would not end before the user presses Enter.
async fn stdin_line() -> io::Result<Option<String>> {
    let mut pending = PENDING.lock().await;
    if pending.is_none() {
        let (sender, receiver) = oneshot::channel();
        std::thread::Builder::new().name("turms-paste".to_owned()).spawn(move || {
            let mut line = String::new();
            let read = io::stdin().lock().take(MAX_CALLBACK_BYTES as u64).read_line(&mut line);
            // Does not fail: `PENDING` keeps the receiver until it has the line.
            let _ = sender.send(read.map(|bytes| (bytes > 0).then_some(line)));
        })?;
        *pending = Some(receiver);
    }
    let line = match pending.as_mut() {
        Some(receiver) => receiver.await.unwrap_or(Ok(None)),
        None => Ok(None),
    };
    *pending = None;
    line
}
