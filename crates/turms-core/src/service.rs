use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use bytestring::ByteString;
use turms_proto::method::Method;
use turms_proto::{ProtocolVersion, RawJson};

use crate::context::CallContext;
use crate::error::{ErrorOrigin, ServiceError};
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::peer::{BoxFuture, Peer};

/// What is asked of a service.
#[derive(Debug)]
#[non_exhaustive]
pub struct Request {
    /// The method.
    pub method: ByteString,
    /// What it takes.
    pub params: Payload,
}

impl Request {
    /// A request of a known method, with a value of this process.
    #[must_use]
    pub fn new<M: Method>(params: M::Params) -> Self {
        Self { method: ByteString::from_static(M::NAME), params: Payload::new(params) }
    }

    /// A request of any method.
    pub fn raw(method: impl Into<ByteString>, params: impl Into<Payload>) -> Self {
        Self { method: method.into(), params: params.into() }
    }
}

/// Anything that can answer a request: a router, the handle of a connection, an HTTP client, a cache in front of one.
///
/// This is the one seam of Turms. A client is a typed face over a service; a server is whatever feeds one; a gateway is one
/// service calling another.
pub trait Service: Send + Sync + 'static {
    /// Answers a request. Dropping the future gives it up.
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture;

    /// Hears a notification. Services that have no use for any ignore them all.
    fn notify(&self, method: ByteString, params: Option<RawJson>, cx: CallContext) -> NotifyFuture {
        let _ = (method, params, cx);
        NotifyFuture::done()
    }

    /// The service as one connection sees it, for services that remember whom they talk to. `peer` is the other end.
    fn for_connection(&self, peer: &Peer) -> Option<Arc<dyn Service>> {
        let _ = peer;
        None
    }

    /// The revisions that it speaks, oldest first.
    fn versions(&self) -> &[ProtocolVersion] {
        &ProtocolVersion::ALL
    }

    /// Comes when it is to serve nobody any more. Whatever feeds it ends then.
    fn ending(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

impl<S: Service + ?Sized> Service for Arc<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        (**self).call(request, cx)
    }

    fn notify(&self, method: ByteString, params: Option<RawJson>, cx: CallContext) -> NotifyFuture {
        (**self).notify(method, params, cx)
    }

    fn for_connection(&self, peer: &Peer) -> Option<Arc<dyn Service>> {
        (**self).for_connection(peer)
    }

    fn versions(&self) -> &[ProtocolVersion] {
        (**self).versions()
    }

    fn ending(&self) -> BoxFuture<'static, ()> {
        (**self).ending()
    }
}

/// The answer to a call, there already or on its way.
///
/// An answer that is there costs no allocation, which is why this is not simply a boxed future.
pub type ResponseFuture = Ready<Outcome>;

/// The end of hearing a notification.
pub type NotifyFuture = Ready<()>;

/// A value that is there already or on its way.
#[must_use = "futures do nothing unless polled"]
pub struct Ready<T>(State<T>);

enum State<T> {
    Now(Option<T>),
    Later(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> Ready<T> {
    /// A value that is there.
    pub fn now(value: T) -> Self {
        Self(State::Now(Some(value)))
    }

    /// Whether the value is there already.
    #[must_use]
    pub fn is_now(&self) -> bool {
        matches!(self.0, State::Now(_))
    }

    /// A value on its way.
    pub fn later(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self(State::Later(Box::pin(future)))
    }

    /// A value on its way, after its first step. Most values are there then, and whatever is done with them needs no
    /// allocation of its own. A value that is not is asked again by whoever waits for it, so nobody has to be woken yet.
    pub fn begun(future: impl Future<Output = T> + Send + 'static) -> Self {
        let mut future = Box::pin(future);
        match future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(value) => Self::now(value),
            Poll::Pending => Self(State::Later(future)),
        }
    }

    /// The value if it is there already, the same as before if not.
    ///
    /// # Errors
    /// The same as before.
    pub fn try_now(self) -> Result<T, Self> {
        match self.0 {
            State::Now(Some(value)) => Ok(value),
            state => Err(Self(state)),
        }
    }
}

impl<T: Send + Unpin + 'static> Ready<T> {
    /// The same, seen another way; a value that is there stays there.
    pub fn map<U: Send + 'static>(self, map: impl FnOnce(T) -> U + Send + 'static) -> Ready<U> {
        match self.0 {
            State::Now(Some(value)) => Ready::now(map(value)),
            state => Ready::later(async move { map(Self(state).await) }),
        }
    }
}

impl<T: Send + Unpin + 'static> Ready<T> {
    /// The same with a change. One that is there already is changed in its place: large values are not moved.
    pub fn edit(mut self, edit: impl FnOnce(&mut T) + Send + 'static) -> Self {
        match &mut self.0 {
            State::Now(Some(value)) => edit(value),
            _ => {
                return Self::later(async move {
                    let mut value = self.await;
                    edit(&mut value);
                    value
                });
            }
        }
        self
    }
}

impl NotifyFuture {
    /// Nothing to be done.
    pub fn done() -> Self {
        Self::now(())
    }
}

/// A value is never looked at where it stands.
impl<T> Unpin for Ready<T> {}

impl<T> Future for Ready<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Now(value) => match value.take() {
                Some(value) => Poll::Ready(value),
                None => panic!("polled again after the value was taken"),
            },
            State::Later(future) => future.as_mut().poll(task),
        }
    }
}

impl<T> fmt::Debug for Ready<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Now(_) => "Ready::Now",
            State::Later(_) => "Ready::Later",
        })
    }
}

/// A call whose panic is an answer: -32603, and nothing else is disturbed.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Guarded(Option<ResponseFuture>);

impl Guarded {
    /// Makes the call; `call` itself may panic, too.
    pub fn call(call: impl FnOnce() -> ResponseFuture) -> Self {
        let future = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| ResponseFuture::now(Err(panicked())));
        Self(Some(future))
    }

    /// The answer if it is there already, the same as before if not.
    ///
    /// # Errors
    /// The same as before.
    pub fn try_now(self) -> Result<Outcome, Self> {
        match self.0 {
            Some(future) => future.try_now().map_err(|future| Self(Some(future))),
            None => Ok(Err(panicked())),
        }
    }
}

impl Future for Guarded {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Outcome> {
        let Some(future) = &mut self.0 else {
            return Poll::Ready(Err(panicked()));
        };
        match catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(task))) {
            Ok(poll) => poll,
            Err(_) => {
                // What panicked is in no state to be dropped by anybody who does not expect another panic.
                let broken = self.0.take();
                let _ = catch_unwind(AssertUnwindSafe(move || drop(broken)));
                Poll::Ready(Err(panicked()))
            }
        }
    }
}

/// Hearing a notification without coming to harm by a panic.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct GuardedNotify(Option<NotifyFuture>);

impl GuardedNotify {
    /// Hears it; `notify` itself may panic, too.
    pub fn new(notify: impl FnOnce() -> NotifyFuture) -> Self {
        Self(catch_unwind(AssertUnwindSafe(notify)).ok())
    }

    /// Nothing if it is done already, the same as before if not.
    ///
    /// # Errors
    /// The same as before.
    pub fn try_now(self) -> Result<(), Self> {
        match self.0 {
            Some(future) => future.try_now().map_err(|future| Self(Some(future))),
            None => Ok(()),
        }
    }
}

impl Future for GuardedNotify {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<()> {
        let Some(future) = &mut self.0 else { return Poll::Ready(()) };
        match catch_unwind(AssertUnwindSafe(|| Pin::new(future).poll(task))) {
            Ok(poll) => poll,
            Err(_) => {
                let broken = self.0.take();
                let _ = catch_unwind(AssertUnwindSafe(move || drop(broken)));
                Poll::Ready(())
            }
        }
    }
}

fn panicked() -> ServiceError {
    ServiceError::internal(ErrorOrigin::Panic, "the handler panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(future: Guarded) -> Poll<Outcome> {
        std::pin::pin!(future).poll(&mut TaskContext::from_waker(Waker::noop()))
    }

    #[test]
    fn a_panic_is_an_internal_error() {
        let at_once = Guarded::call(|| panic!("at once"));
        let later = Guarded::call(|| ResponseFuture::later(async { panic!("later") }));
        for future in [at_once, later] {
            let Poll::Ready(Err(error)) = poll(future) else { panic!() };
            assert_eq!((error.origin(), error.message.as_str()), (ErrorOrigin::Panic, "the handler panicked"));
            assert_eq!(error.code, turms_proto::ErrorCode::INTERNAL_ERROR);
        }
    }

    #[test]
    fn what_is_there_after_the_first_step_is_there() {
        assert!(Ready::begun(async { 1 }).is_now());
        let mut steps = 0;
        let slow = std::future::poll_fn(move |_| {
            steps += 1;
            if steps == 2 { Poll::Ready(steps) } else { Poll::Pending }
        });
        let slow = Ready::begun(slow);
        assert!(!slow.is_now());
        let value = std::pin::pin!(slow).poll(&mut TaskContext::from_waker(Waker::noop()));
        assert_eq!(value, Poll::Ready(2));
    }

    #[test]
    fn a_value_is_changed_whether_it_is_there_or_not() {
        assert!(Ready::now(1).edit(|value| *value += 1).is_now());
        for value in [Ready::now(1), Ready::later(async { 1 })] {
            let changed = std::pin::pin!(value.edit(|value| *value += 1));
            assert_eq!(changed.poll(&mut TaskContext::from_waker(Waker::noop())), Poll::Ready(2));
        }
    }

    #[test]
    fn an_answer_that_is_there_is_given_at_once() {
        let Poll::Ready(Ok(payload)) = poll(Guarded::call(|| ResponseFuture::now(Ok(Payload::default())))) else {
            panic!()
        };
        assert_eq!(format!("{payload:?}"), "{}");
    }
}
