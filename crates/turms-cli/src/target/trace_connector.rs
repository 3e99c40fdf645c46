//! A connector that tells of every request and every answer, and writes answers down.

use std::sync::Arc;

use turms::core::{
    BoxFuture, CallContext, Channel, ConnectError, Connector, NotifyFuture, OpenChannel, OutgoingRequest, Payload,
    PeerError, Request, ResponseFuture, Service,
};
use turms::proto::Notification;
use turms::proto::session::ClientOptions;

use super::recorded_results::{Page, Record};
use crate::printer::{Printer, Verbosity};
use crate::show;
use crate::text::{Style, Text};

/// The same connector, every request and answer of which is told to those who want to know, and written down.
pub(super) fn watched(connector: Arc<dyn Connector>, printer: Printer, record: Record) -> Arc<dyn Connector> {
    Arc::new(Spy { inner: connector, printer, record })
}

/// Something, and where to tell of it.
#[derive(Clone)]
struct Spy<T> {
    inner: T,
    printer: Printer,
    record: Record,
}

impl<T> Spy<T> {
    /// The same of something else.
    fn on<U>(&self, inner: U) -> Spy<U> {
        Spy { inner, printer: self.printer.clone(), record: self.record.clone() }
    }

    fn sent(&self, what: &str, payload: Option<&Payload>) {
        self.tell("→", what, payload);
    }

    fn received(&self, what: &str, payload: Option<&Payload>) {
        self.tell("←", what, payload);
    }

    fn tell(&self, arrow: &str, what: &str, payload: Option<&Payload>) {
        if !self.printer.tells(Verbosity::Trace) {
            return;
        }
        let mut json = Vec::new();
        // What cannot be written cannot be sent either, and is told as an error where it is sent.
        let _ = payload.map(|payload| payload.write(&mut json));
        let json = String::from_utf8_lossy(&json);
        let text = Text::new().with(Style::Hint, arrow).plain(" ").name(what).plain(" ").plain(json);
        self.printer.detail(Verbosity::Trace, text);
    }

    fn answered(&self, method: &str, outcome: &Result<Payload, PeerError>) {
        match outcome {
            Ok(payload) => self.received(method, Some(payload)),
            Err(error) => self.received(&format!("{method} {error}"), None),
        }
    }
}

impl Connector for Spy<Arc<dyn Connector>> {
    fn connect(
        &self,
        client: ClientOptions,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        Box::pin(async move {
            let service = Arc::new(self.on(service));
            let OpenChannel { channel, control, negotiated, .. } = self.inner.connect(client, service).await?;
            // The greeting itself is made below, where nobody can listen.
            let (method, greeting) = show::greeting(&negotiated);
            self.received(method, greeting.map(Payload::json).as_ref());
            Ok(OpenChannel::new(Arc::new(self.on(channel)), control, negotiated))
        })
    }

    fn is_repeatable(&self) -> bool {
        self.inner.is_repeatable()
    }

    fn identity(&self) -> Option<String> {
        self.inner.identity()
    }
}

impl Channel for Spy<Arc<dyn Channel>> {
    fn call(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Payload, PeerError>> {
        Box::pin(async move {
            let (method, page) = (request.method.clone(), Page::of(&request.params));
            self.sent(&method, Some(&request.params));
            let outcome = self.inner.call(request).await;
            self.answered(&method, &outcome);
            if let Ok(result) = &outcome {
                self.record.take(&method, result, page);
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

/// What the server asks and tells.
impl Service for Spy<Arc<dyn Service>> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let (spy, method) = (self.clone(), request.method.clone());
        self.received(&method, Some(&request.params));
        let call = self.inner.call(request, cx);
        Box::pin(async move {
            let result = call.await;
            match &result {
                Ok(payload) => spy.sent(&method, Some(payload)),
                Err(error) => spy.sent(&format!("{method} {error}"), None),
            }
            result
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.received(&notification.method, notification.params.clone().map(Payload::json).as_ref());
        self.inner.notify(notification, cx)
    }
}
