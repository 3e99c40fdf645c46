//! Messages of a handler to its client, with options: input requests, log messages and progress reports.

use std::fmt;
use std::time::Duration;

use turms_core::BoxFuture;
use turms_proto::Number;
use turms_proto::types::{LogMessage, LoggingMessageNotification, ProgressParams};

use crate::context::{Context, InputError};

/// An input request to the client, with options. It is sent when it is awaited.
///
/// Returned by [`Context::elicit`], [`Context::elicit_url`], [`Context::elicit_with`], [`Context::sample`] and
/// [`Context::list_roots`].
///
/// ```
/// use std::time::Duration;
///
/// # use turms_server as turms;
/// use turms::{Context, InputError};
///
/// async fn first_root(context: Context) -> Result<Option<String>, InputError> {
///     let roots = context.list_roots().key("roots").timeout(Duration::from_secs(30)).await?;
///     Ok(roots.into_iter().next().map(|root| root.uri))
/// }
/// ```
#[must_use = "an input request is sent when it is awaited"]
pub struct InputCall<T> {
    options: InputOptions,
    send: SendInput<T>,
}

type SendInput<T> = Box<dyn FnOnce(InputOptions) -> BoxFuture<'static, Result<T, InputError>> + Send>;

/// The options of an input request.
#[derive(Debug, Default)]
pub(crate) struct InputOptions {
    pub(crate) key: Option<String>,
    pub(crate) timeout: Option<Duration>,
}

impl<T: 'static> InputCall<T> {
    pub(crate) fn new<F>(send: impl FnOnce(InputOptions) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<T, InputError>> + Send + 'static,
    {
        Self { options: InputOptions::default(), send: Box::new(|options| Box::pin(send(options))) }
    }
}

impl<T> InputCall<T> {
    /// Sets the key, which clients of 2026-07-28 and clients of a task receive. Default: none; it is the kind of the
    /// request with a number, such as `elicit-1`. The handler must use the same keys each time it runs.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.options.key = Some(key.into());
        self
    }

    /// Sets the timeout for the response. Default: 10 min; none for a task. In 2026-07-28 the response comes
    /// with another request, which has to arrive within
    /// [`Server::request_state_ttl`](crate::Server::request_state_ttl) instead.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }
}

impl<T> IntoFuture for InputCall<T> {
    type Output = Result<T, InputError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        (self.send)(self.options)
    }
}

impl<T> fmt::Debug for InputCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputCall").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A log message, with options. It is sent when it is awaited. Returned by [`Context::log`].
#[derive(Debug)]
#[must_use = "a log message is sent when it is awaited"]
pub struct LogCall<'a> {
    pub(crate) context: &'a Context,
    /// `None` if the client did not request messages of the level.
    pub(crate) message: Option<LogMessage>,
}

impl LogCall<'_> {
    /// Sets the name of the logger. Default: none.
    pub fn logger(mut self, logger: impl Into<String>) -> Self {
        if let Some(message) = &mut self.message {
            message.logger = Some(logger.into());
        }
        self
    }
}

impl<'a> IntoFuture for LogCall<'a> {
    type Output = ();
    type IntoFuture = BoxFuture<'a, ()>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { context, message } = self;
        Box::pin(async move {
            if let Some(message) = message {
                context.send_notification::<LoggingMessageNotification>(&message).await;
            }
        })
    }
}

/// A progress report, with options. It is sent when it is awaited. Returned by
/// [`Progress::report`](crate::Progress::report).
#[derive(Debug)]
#[must_use = "a progress report is sent when it is awaited"]
pub struct ProgressReport<'a> {
    pub(crate) context: &'a Context,
    /// `None` if the client did not request progress notifications.
    pub(crate) params: Option<ProgressParams>,
}

impl ProgressReport<'_> {
    /// Sets the total. Default: unknown.
    pub fn total(mut self, total: impl Into<Number>) -> Self {
        if let Some(params) = &mut self.params {
            params.total = Some(total.into());
        }
        self
    }

    /// Sets the status message. Default: none. Clients before 2025-03-26 do not receive it.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        if let Some(params) = &mut self.params {
            params.message = Some(message.into());
        }
        self
    }
}

impl<'a> IntoFuture for ProgressReport<'a> {
    type Output = ();
    type IntoFuture = BoxFuture<'a, ()>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { context, params } = self;
        Box::pin(async move {
            if let Some(params) = params {
                context.send_progress(params).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time, when};
        use turms_proto::types::LoggingLevel;

        let input = InputCall::<()>::new(|_| async { Ok(()) }).options;
        let timeout = input.timeout.unwrap_or(crate::context::ASK_TIMEOUT);
        let log = LogMessage::new(LoggingLevel::Info, turms_proto::RawJson::from(turms_proto::Object::new()));
        let progress = ProgressParams::new("token", 1_i64);
        let code = [
            ("InputCall::key", when(input.key.is_none(), "none")),
            ("InputCall::timeout", time(timeout)),
            ("LogCall::logger", when(log.logger.is_none(), "none")),
            ("ProgressReport::total", when(progress.total.is_none(), "unknown")),
            ("ProgressReport::message", when(progress.message.is_none(), "none")),
        ];
        assert_documented(include_str!("input_call.rs"), &code);
    }
}
