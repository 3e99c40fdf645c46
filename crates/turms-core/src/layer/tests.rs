use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use turms_proto::types::Meta;

use super::*;
use turms_proto::Notification;

use crate::{CallContext, CallResult, NotifyFuture, Payload, Request, ResponseFuture, Service};

/// Responds at once, never, or when it is notified.
#[derive(Clone)]
enum TestService {
    Echo,
    Never,
    Waits(Arc<Notify>),
}

impl Service for TestService {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        let service = self.clone();
        Box::pin(async move {
            match service {
                Self::Echo => Ok(request.params),
                Self::Never => std::future::pending().await,
                Self::Waits(notify) => {
                    notify.notified().await;
                    Ok(request.params)
                }
            }
        })
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

fn call(service: &impl Service) -> ResponseFuture {
    service.call(Request::raw("test", Payload::default()), CallContext::in_process())
}

fn message(outcome: CallResult) -> String {
    outcome.map(|_| "fine".to_owned()).unwrap_or_else(|error| error.message.clone())
}

#[tokio::test(start_paused = true)]
async fn a_call_times_out() {
    let slow = TimeoutLayer::new(Duration::from_secs(5)).layer(TestService::Never);
    assert_eq!(message(call(&slow).await), "test: no response within 5 s");
    assert_eq!(message(call(&TimeoutLayer::new(Duration::ZERO).layer(TestService::Echo)).await), "fine");
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_refills() {
    let limited = RateLimitLayer::new(2, Duration::from_secs(1)).layer(TestService::Echo);
    assert_eq!(message(call(&limited).await), "fine");
    assert_eq!(message(call(&limited).await), "fine");
    assert_eq!(message(call(&limited).await), "test: too many calls; try again in 500 ms");
    tokio::time::advance(Duration::from_millis(500)).await;
    assert_eq!(message(call(&limited).await), "fine");
    assert_ne!(message(call(&limited).await), "fine");
}

#[tokio::test]
async fn calls_over_the_concurrency_limit_wait() {
    let release = Arc::new(Notify::new());
    let limited = ConcurrencyLimitLayer::new(1).layer(TestService::Waits(release.clone()));
    let (mut first, mut second) = (call(&limited), call(&limited));
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    release.notify_waiters();
    assert_eq!(message(poll(&mut first).expect("the first call is released")), "fine");
    drop(first);
    assert!(poll(&mut second).is_none(), "the second call has just started");
    release.notify_waiters();
    assert_eq!(message(poll(&mut second).expect("the second call is released")), "fine");
}

fn poll(future: &mut ResponseFuture) -> Option<CallResult> {
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut task) {
        std::task::Poll::Ready(outcome) => Some(outcome),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_response_over_the_size_limit_is_refused() {
    let limited = ResponseSizeLimitLayer::new(1).layer(TestService::Echo);
    assert_eq!(message(call(&limited).await), "test: the response has 2 bytes, more than the limit of 1");
    assert_eq!(message(call(&ResponseSizeLimitLayer::new(2).layer(TestService::Echo)).await), "fine");
}

#[tokio::test]
async fn tower_middleware_can_be_a_layer() {
    /// A tower service that refuses every call.
    #[derive(Clone)]
    struct Refuse<S>(S);

    impl<S: tower_service::Service<Call, Response = Payload>> tower_service::Service<Call> for Refuse<S> {
        type Response = Payload;
        type Error = std::io::Error;
        type Future = std::future::Ready<Result<Payload, std::io::Error>>;

        fn poll_ready(&mut self, task: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), std::io::Error>> {
            self.0.poll_ready(task).map_err(|_| std::io::Error::other("not ready"))
        }

        fn call(&mut self, call: Call) -> Self::Future {
            std::future::ready(Err(std::io::Error::other(format!("no {}", call.request.method))))
        }
    }

    struct RefuseLayer;

    impl<S> Layer<S> for RefuseLayer {
        type Service = Refuse<S>;

        fn layer(&self, inner: S) -> Refuse<S> {
            Refuse(inner)
        }
    }

    assert_eq!(message(call(&from_tower(RefuseLayer).layer(TestService::Echo)).await), "no test");
}

/// Stores the fields that are recorded in spans.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<BTreeMap<String, String>>>);

impl Visit for Recorder {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let mut fields = self.0.lock();
        fields.insert(field.name().to_owned(), format!("{value:?}").trim_matches('"').to_owned());
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Recorder {
    fn on_new_span(&self, span: &Attributes<'_>, _: &Id, _: tracing_subscriber::layer::Context<'_, S>) {
        span.record(&mut self.clone());
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        values.record(&mut self.clone());
    }
}

#[tokio::test]
async fn a_span_has_the_attributes_of_open_telemetry() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let recorder = Recorder::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(recorder.clone()));
    let traced = TraceLayer::new().layer(TimeoutLayer::new(Duration::ZERO).layer(TestService::Never));
    let params = r#"{"name":"add","_meta":{"traceparent":"00-1-2-01"}}"#;
    let params = turms_proto::RawJson::parse(params).expect("written above");
    let meta = Meta::of_params(Some(&params));
    let cx = CallContext::in_process().with_id(7.into()).with_meta(meta);
    traced.call(Request::raw("tools/call", Payload::json(params)), cx).await.expect_err("the call times out");
    let fields = recorder.0.lock().clone();
    for (name, value) in [
        ("otel.name", "tools/call add"),
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2026-07-28"),
        ("gen_ai.tool.name", "add"),
        ("jsonrpc.request.id", "7"),
        ("traceparent", "00-1-2-01"),
        ("error.type", "timed out"),
        ("rpc.response.status_code", "-32052"),
    ] {
        assert_eq!(fields.get(name).map(String::as_str), Some(value), "{name}");
    }
}
