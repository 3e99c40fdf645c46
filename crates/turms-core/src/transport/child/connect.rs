use std::sync::Arc;

use turms_proto::session::ConnectionStats;

use super::pipe::ObservedReader;
use super::{Child, ChildCommand};
use crate::channel::{ChannelControl, CloseInfo, ConnectContext, ConnectError, Connector, OpenChannel};
use crate::limits::Limits;
use crate::peer::BoxFuture;
use crate::transport::stream::StreamChannel;

/// Starts the program for each connection.
impl Connector for ChildCommand {
    fn connect(&self, cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        Box::pin(async move {
            let started =
                self.spawn().map_err(|error| ConnectError::unreachable(format!("{:?}", self.program_name()), error))?;
            let (reader, writer, child) = started.into_parts();
            let reader = ObservedReader::new(reader, self.on_stdout.clone());
            cx.initializing();
            let limits = Limits { max_message_bytes: self.max_message_bytes, ..Limits::default() };
            let stream = Arc::new(StreamChannel::open(reader, writer, cx.client, limits, cx.incoming));
            let control = ChildControl { stream: stream.clone(), child };
            match stream.connection.opened().await {
                Ok(opened) => Ok(OpenChannel::new(stream, Arc::new(control), opened)),
                Err(failure) => {
                    let error = match ConnectError::from(failure) {
                        // A process that fails at startup closes its output shortly before it exits. The error contains
                        // its exit status.
                        ConnectError::Closed(_) => {
                            let _ = tokio::time::timeout(EXIT_GRACE_PERIOD, control.child.exited()).await;
                            ConnectError::Closed(control.close_reason())
                        }
                        error => error,
                    };
                    control.close().await;
                    Err(error)
                }
            }
        })
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        Some(self.identity_text())
    }
}

/// The connection to a child process. Closing it ends the process.
#[derive(Debug)]
struct ChildControl {
    stream: Arc<StreamChannel>,
    child: Child,
}

impl ChildControl {
    /// Returns the reason why the connection is closed. A process that still runs has only closed its output.
    fn close_reason(&self) -> CloseInfo {
        let info = CloseInfo::new().stderr(self.child.stderr_tail());
        match self.child.exit_status() {
            Some(exit) => info.how(exit.to_string()),
            None => info.how("closed its standard output"),
        }
    }
}

impl ChannelControl for ChildControl {
    fn stats(&self) -> ConnectionStats {
        self.stream.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stream.close().await;
            self.child.end().await;
        })
    }

    /// Waits until the output ends or the process exits, and then at most [`EXIT_GRACE_PERIOD`] for the other of the two.
    fn closed(&self) -> BoxFuture<'_, CloseInfo> {
        Box::pin(async move {
            tokio::select! {
                _ = self.stream.closed() => {
                    let _ = tokio::time::timeout(EXIT_GRACE_PERIOD, self.child.exited()).await;
                }
                _ = self.child.exited() => {
                    // The rest of the output is still read. Processes that the child has started may keep the pipe open.
                    let _ = tokio::time::timeout(EXIT_GRACE_PERIOD, self.stream.closed()).await;
                    self.stream.connection.shutdown();
                }
            }
            self.close_reason()
        })
    }
}

/// Timeout for the exit of a process that has closed its output, and for the output of a process that has exited.
const EXIT_GRACE_PERIOD: std::time::Duration = std::time::Duration::from_millis(250);
