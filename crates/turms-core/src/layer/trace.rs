use tracing::{Instrument as _, Span, field};
use turms_proto::Notification;
use turms_proto::method::Method as _;
use turms_proto::types::{CallTool, GetPrompt, ReadResource, key};

use super::Layer;
use crate::{CallContext, CallResult, NotifyFuture, Request, ResponseFuture, Service};

/// Runs every request in its own span, with OpenTelemetry's attributes for MCP. Notifications have no span.
///
/// The trace context that a caller sends in `_meta` is recorded as `traceparent`, for a subscriber that continues traces.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct TraceLayer;

impl TraceLayer {
    /// Creates the layer.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl<S: Service> Layer<S> for TraceLayer {
    type Service = Trace<S>;

    fn layer(&self, inner: S) -> Trace<S> {
        Trace { inner }
    }
}

/// Service with a span for every request, made by a [`TraceLayer`].
#[derive(Debug, Clone)]
pub struct Trace<S> {
    inner: S,
}

impl<S: Service> Service for Trace<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let span = create_span(&request, &cx);
        if span.is_disabled() {
            return self.inner.call(request, cx);
        }
        let (call, within) = (span.in_scope(|| self.inner.call(request, cx)), span.clone());
        Box::pin(async move { record_error(call.await, &span) }.instrument(within))
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}

fn create_span(request: &Request, cx: &CallContext) -> Span {
    let span = tracing::info_span!(
        "mcp.call",
        otel.name = field::Empty,
        otel.kind = "server",
        mcp.method.name = &*request.method,
        mcp.protocol.version = cx.version().as_str(),
        jsonrpc.request.id = field::Empty,
        gen_ai.tool.name = field::Empty,
        gen_ai.prompt.name = field::Empty,
        mcp.resource.uri = field::Empty,
        traceparent = field::Empty,
        error.type = field::Empty,
        rpc.response.status_code = field::Empty,
    );
    if span.is_disabled() {
        return span;
    }
    if let Some(id) = cx.id() {
        span.record("jsonrpc.request.id", field::display(id));
    }
    if let Some(parent) = cx.meta().and_then(|meta| meta.get_as::<String>(key::TRACEPARENT)).and_then(Result::ok) {
        span.record("traceparent", parent);
    }
    record_target(request, &span);
    span
}

/// Records the tool, prompt or resource, and the name of the span as OpenTelemetry defines it.
fn record_target(request: &Request, span: &Span) {
    let (member, attribute) = match &*request.method {
        CallTool::NAME => ("name", "gen_ai.tool.name"),
        GetPrompt::NAME => ("name", "gen_ai.prompt.name"),
        ReadResource::NAME => ("uri", "mcp.resource.uri"),
        method => {
            span.record("otel.name", method);
            return;
        }
    };
    let target = request.params.as_raw().and_then(|params| params.member(member)?.decode::<String>().ok());
    let target = target.unwrap_or_default();
    span.record("otel.name", format_args!("{} {target}", request.method).to_string());
    span.record(attribute, target);
}

fn record_error(outcome: CallResult, span: &Span) -> CallResult {
    if let Err(error) = &outcome {
        span.record("error.type", error.code.name().unwrap_or("error"));
        span.record("rpc.response.status_code", error.code.0);
    }
    outcome
}
