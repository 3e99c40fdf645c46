//! `tracing` events for failed calls, for all transports.
//!
//! The target is `turms::server`. The levels are:
//!
//! - error: a panic of a handler, or an internal error;
//! - warn: a timeout, an exceeded limit, or an unavailable dependency;
//! - info: a failure of a handler (an error or a tool result with `isError`), or a call without the scopes it needs;
//! - debug: a rejected request (unknown, invalid, not allowed).
//!
//! The fields are `method`, the name of the item (`tool`, `prompt` or `resource`, long names shortened), `session`
//! ([`Session::serial`](crate::Session::serial)), the request `id` and the error `code`. Arguments and results are not
//! logged.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use tracing::Level;
use turms_core::{CallResult, ErrorOrigin, Request, ServiceError};
use turms_proto::method::Method as _;
use turms_proto::types::{CallTool, CallToolParams, CallToolResult, GetPrompt, ReadResource};
use turms_proto::{ErrorCode, MethodName, RawJson, RequestId};
use turms_schema::shortened;

/// The fields of the events of a call.
#[derive(Debug)]
pub(crate) struct CallLog {
    method: MethodName,
    item: ItemName,
    session: Option<u64>,
    id: Option<RequestId>,
}

/// The source of the item's name. It is decoded only if an event is logged.
#[derive(Debug)]
enum ItemName {
    Unknown,
    Params(RawJson),
    Name(String),
}

/// The outcome of a call, for logging.
pub(crate) trait CallOutcome {
    /// Returns the origin and the code of the error, or `None` if the call succeeded.
    fn failure(&self) -> Option<(ErrorOrigin, Option<ErrorCode>)>;
}

impl CallOutcome for CallResult {
    fn failure(&self) -> Option<(ErrorOrigin, Option<ErrorCode>)> {
        match self {
            Ok(payload) => {
                let failed = payload.get::<CallToolResult>().is_some_and(CallToolResult::is_error);
                failed.then_some((ErrorOrigin::Handler, None))
            }
            Err(error) => Some((error.origin(), Some(error.code))),
        }
    }
}

impl CallOutcome for Result<CallToolResult, ServiceError> {
    fn failure(&self) -> Option<(ErrorOrigin, Option<ErrorCode>)> {
        match self {
            Ok(result) => result.is_error().then_some((ErrorOrigin::Handler, None)),
            Err(error) => Some((error.origin(), Some(error.code))),
        }
    }
}

/// A notification handler fails only by a panic.
impl CallOutcome for () {
    fn failure(&self) -> Option<(ErrorOrigin, Option<ErrorCode>)> {
        None
    }
}

macro_rules! event {
    ($log:expr, $level:expr, $code:expr, $message:literal) => {
        $log.with_item(|tool, prompt, resource| {
            tracing::event!(
                target: "turms::server",
                $level,
                method = &*$log.method,
                tool,
                prompt,
                resource,
                session = $log.session,
                id = $log.id.as_ref().map(tracing::field::display),
                code = $code,
                $message
            );
        })
    };
}

impl CallLog {
    /// Creates the log of a request. Returns `None` if no subscriber is interested in the events.
    #[inline]
    pub(crate) fn of_request(request: &Request, cx: &turms_core::CallContext) -> Option<Self> {
        is_wanted().then(|| Self::read(request, cx))
    }

    /// Same as [`CallLog::of_request`], for a notification.
    pub(crate) fn of_notification(method: &MethodName, cx: &turms_core::CallContext) -> Option<Self> {
        is_wanted().then(|| Self::new(method.clone(), ItemName::Unknown, cx))
    }

    /// Same as [`CallLog::of_request`], for a tool call.
    pub(crate) fn of_tool(name: &str, cx: &turms_core::CallContext) -> Option<Self> {
        is_wanted().then(|| Self::new(MethodName::from_static(CallTool::NAME), ItemName::Name(name.to_owned()), cx))
    }

    fn new(method: MethodName, item: ItemName, cx: &turms_core::CallContext) -> Self {
        let session = cx.session().map(|session| session.serial());
        Self { method, item, session, id: cx.id().cloned() }
    }

    fn read(request: &Request, cx: &turms_core::CallContext) -> Self {
        let item = match (request.params.as_raw(), request.params.get::<CallToolParams>()) {
            (Some(params), _) => ItemName::Params(params.clone()),
            (None, Some(params)) => ItemName::Name(params.name.clone()),
            (None, None) => ItemName::Unknown,
        };
        Self::new(request.method.clone(), item, cx)
    }

    /// Wraps a call so that its failure is logged. A panic is logged and resumed.
    pub(crate) fn watch<F>(self, call: F) -> LoggedCall<F>
    where
        F: Future + Unpin,
        F::Output: CallOutcome,
    {
        LoggedCall { call, log: self }
    }

    fn panicked(&self) {
        event!(self, Level::ERROR, Some(ErrorCode::INTERNAL_ERROR.0), "a handler panicked");
    }

    fn ended(&self, result: &impl CallOutcome) {
        let Some((origin, code)) = result.failure() else { return };
        let number = code.map(|code| code.0);
        match origin {
            ErrorOrigin::Internal | ErrorOrigin::Panic => event!(self, Level::ERROR, number, "a call failed"),
            ErrorOrigin::RateLimited | ErrorOrigin::Overloaded | ErrorOrigin::TimedOut | ErrorOrigin::Unavailable => {
                event!(self, Level::WARN, number, "a call is not served")
            }
            ErrorOrigin::Forbidden => event!(self, Level::INFO, number, "a caller does not have the scopes of a call"),
            ErrorOrigin::Handler if !code.is_some_and(is_refusal) => {
                event!(self, Level::INFO, number, "a handler failed");
            }
            _ => event!(self, Level::DEBUG, number, "a request is refused"),
        }
    }

    /// Calls `log` with the names of the tool, the prompt and the resource. At most one is set.
    fn with_item(&self, log: impl FnOnce(Option<&str>, Option<&str>, Option<&str>)) {
        let member = |name: &str| match &self.item {
            ItemName::Params(params) => Some(shortened(&params.member(name)?.decode::<String>().ok()?).into_owned()),
            ItemName::Name(name) => Some(shortened(name).into_owned()),
            ItemName::Unknown => None,
        };
        match &*self.method {
            CallTool::NAME => log(member("name").as_deref(), None, None),
            GetPrompt::NAME => log(None, member("name").as_deref(), None),
            ReadResource::NAME => log(None, None, member("uri").as_deref()),
            _ => log(None, None, None),
        }
    }
}

fn is_wanted() -> bool {
    tracing::enabled!(target: "turms::server", Level::ERROR)
}

/// Returns `true` if the code means that the request itself was rejected, so that no handler has failed.
fn is_refusal(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PARSE_ERROR
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::METHOD_NOT_FOUND
            | ErrorCode::INVALID_PARAMS
            | ErrorCode::RESOURCE_NOT_FOUND
    ) || code.is_modern()
}

/// A call with logging of its failure.
pub(crate) struct LoggedCall<F> {
    call: F,
    log: CallLog,
}

impl<F> Future for LoggedCall<F>
where
    F: Future + Unpin,
    F::Output: CallOutcome,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let poll = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut this.call).poll(task)));
        let poll = poll.unwrap_or_else(|panic| {
            this.log.panicked();
            resume_unwind(panic)
        });
        poll.map(|result| {
            this.log.ended(&result);
            result
        })
    }
}
