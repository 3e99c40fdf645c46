//! A connector that prints every request and response (`-vvv`) and records results (`--json`).

use std::sync::Arc;

use turms::jsonrpc::Notification;
use turms::layer::{BoxFuture, CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
use turms::transport::{Channel, ConnectContext, ConnectError, Connector, OpenChannel, OutgoingRequest, PeerError};

use super::recorded_results::{PageKind, RecordedResults};
use crate::printer::{Printer, Verbosity};
use crate::show;
use crate::text::{Style, StyledText};

/// Wraps a connector: prints its messages and records its results.
pub(super) fn traced(connector: Arc<dyn Connector>, printer: Printer, record: RecordedResults) -> Arc<dyn Connector> {
    Arc::new(Traced { inner: connector, printer, record })
}

/// Prints the messages of a connector, channel or service.
#[derive(Clone)]
struct Traced<T> {
    inner: T,
    printer: Printer,
    record: RecordedResults,
}

impl<T> Traced<T> {
    /// Wraps another value with the same printer and record.
    fn wrap<U>(&self, inner: U) -> Traced<U> {
        Traced { inner, printer: self.printer.clone(), record: self.record.clone() }
    }

    fn sent(&self, what: &str, payload: Option<&Payload>) {
        self.print("→", what, payload);
    }

    fn received(&self, what: &str, payload: Option<&Payload>) {
        self.print("←", what, payload);
    }

    fn print(&self, arrow: &str, what: &str, payload: Option<&Payload>) {
        if !self.printer.shows(Verbosity::Trace) {
            return;
        }
        let mut json = Vec::new();
        // A payload that cannot be encoded cannot be sent, and sending it reports the error.
        let _ = payload.map(|payload| payload.write(&mut json));
        let json = String::from_utf8_lossy(&json);
        let text = StyledText::new().with(Style::Hint, arrow).plain(" ").name(what).plain(" ").plain(json);
        self.printer.detail(Verbosity::Trace, text);
    }

    fn print_response(&self, method: &str, outcome: &Result<Payload, PeerError>) {
        match outcome {
            Ok(payload) => self.received(method, Some(payload)),
            Err(error) => self.received(&format!("{method} {error}"), None),
        }
    }
}

impl Connector for Traced<Arc<dyn Connector>> {
    fn connect(&self, mut cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        Box::pin(async move {
            cx.incoming = Arc::new(self.wrap(cx.incoming));
            let OpenChannel { channel, control, negotiated, .. } = self.inner.connect(cx).await?;
            // The handshake is done inside the connector, so only its result is printed.
            let (method, result) = show::handshake_result(&negotiated);
            self.received(method, result.map(Payload::json).as_ref());
            Ok(OpenChannel::new(Arc::new(self.wrap(channel)), control, negotiated))
        })
    }

    fn is_repeatable(&self) -> bool {
        self.inner.is_repeatable()
    }

    fn identity(&self) -> Option<String> {
        self.inner.identity()
    }
}

impl Channel for Traced<Arc<dyn Channel>> {
    fn call(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Payload, PeerError>> {
        Box::pin(async move {
            let (method, page) = (request.method.clone(), PageKind::of(&request.params));
            self.sent(&method, Some(&request.params));
            let outcome = self.inner.call(request).await;
            self.print_response(&method, &outcome);
            if let Ok(result) = &outcome {
                self.record.add(&method, result, page);
            }
            outcome
        })
    }

    fn call_batch(&self, requests: Vec<OutgoingRequest>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        self.inner.call_batch(requests)
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        self.sent(&notification.method, notification.params.clone().map(Payload::json).as_ref());
        self.inner.notify(notification)
    }
}

/// Requests and notifications of the server.
impl Service for Traced<Arc<dyn Service>> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let (traced, method) = (self.clone(), request.method.clone());
        self.received(&method, Some(&request.params));
        let call = self.inner.call(request, cx);
        Box::pin(async move {
            let result = call.await;
            match &result {
                Ok(payload) => traced.sent(&method, Some(payload)),
                Err(error) => traced.sent(&format!("{method} {error}"), None),
            }
            result
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.received(&notification.method, notification.params.clone().map(Payload::json).as_ref());
        self.inner.notify(notification, cx)
    }
}
