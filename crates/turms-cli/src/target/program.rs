//! A program as a server. What it writes between its messages is overheard, because it is why many servers do not work.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Handle;
use turms::core::transport::{Child, ChildCommand, ChildReader, StreamConnector};
use turms::core::{
    BoxFuture, Channel, ConnectError, Connector, Ended, Established, Outgoing, Payload, PeerError, Service,
};
use turms::proto::Notification;
use turms::proto::session::{ClientOptions, Stats};

use super::overheard::Overheard;

/// How long a program that has closed its output may take to end, so that it can be said how.
const LAST_MOMENT: Duration = Duration::from_millis(250);

/// Starts a program for each connection.
pub(super) struct Program {
    pub(super) command: ChildCommand,
    pub(super) overheard: Overheard,
}

impl Connector for Program {
    fn connect(
        &self,
        client: ClientOptions,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'_, Result<Established, ConnectError>> {
        Box::pin(async move {
            let started = self.command.spawn().map_err(|error| ConnectError::unreachable("the program", error))?;
            let (reader, writer, child) = started.into_parts();
            let reader = Listener { inner: Some(reader), overheard: self.overheard.clone() };
            match StreamConnector::new(reader, writer).connect(client, service).await {
                Ok(Established { channel, opened, .. }) => {
                    Ok(Established::new(Arc::new(ProgramChannel { inner: channel, child }), opened))
                }
                Err(ConnectError::Ended(_)) => {
                    let _ = tokio::time::timeout(LAST_MOMENT, child.exited()).await;
                    let ended = ended(&child);
                    child.end().await;
                    Err(ConnectError::Ended(ended))
                }
                Err(error) => {
                    child.end().await;
                    Err(error)
                }
            }
        })
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        self.command.identity()
    }
}

/// How a program ended; one that still runs has only closed its output.
fn ended(child: &Child) -> Ended {
    let ended = Ended::new().stderr(child.stderr_tail());
    match child.exit_status() {
        Some(exit) => ended.how(exit.to_string()),
        None => ended.how("closed its standard output"),
    }
}

/// A channel to a program, which ends with it.
struct ProgramChannel {
    inner: Arc<dyn Channel>,
    child: Child,
}

impl Channel for ProgramChannel {
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<Payload, PeerError>> {
        self.inner.request(request)
    }

    fn batch(&self, requests: Vec<Outgoing>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        self.inner.batch(requests)
    }

    fn is_ordered(&self) -> bool {
        self.inner.is_ordered()
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        self.inner.notify(notification)
    }

    fn unheard(&self) -> BoxFuture<'_, PeerError> {
        self.inner.unheard()
    }

    fn heard(&self) -> BoxFuture<'_, ()> {
        self.inner.heard()
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.inner.close().await;
            self.child.end().await;
        })
    }

    fn closed(&self) -> BoxFuture<'_, Ended> {
        Box::pin(async move {
            tokio::select! {
                _ = self.inner.closed() => {
                    let _ = tokio::time::timeout(LAST_MOMENT, self.child.exited()).await;
                }
                _ = self.child.exited() => {
                    // What it wrote before it went may still be read; something it left behind must not keep us.
                    if tokio::time::timeout(LAST_MOMENT, self.inner.closed()).await.is_err() {
                        self.inner.close().await;
                    }
                }
            }
            ended(&self.child)
        })
    }
}

/// Reads what a program writes, and overhears what is no message.
struct Listener {
    /// There until it is dropped.
    inner: Option<ChildReader>,
    overheard: Overheard,
}

impl AsyncRead for Listener {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Task<'_>, buffer: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let Some(inner) = &mut self.inner else { return Poll::Ready(Ok(())) };
        let read = Pin::new(inner).poll_read(task, buffer);
        if read.is_ready() {
            self.overheard.hear(&buffer.filled()[before..]);
        }
        read
    }
}

/// A program that still writes while it is being told to end must not fail because nobody reads: many would say so at length.
impl Drop for Listener {
    fn drop(&mut self) {
        if let (Some(mut reader), Ok(runtime)) = (self.inner.take(), Handle::try_current()) {
            runtime.spawn(async move { tokio::io::copy(&mut reader, &mut tokio::io::sink()).await });
        }
    }
}
