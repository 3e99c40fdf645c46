use std::sync::Arc;

use turms_proto::session::ConnectionStats;

use super::pipe::Overheard;
use super::{Child, ChildCommand};
use crate::channel::{ChannelControl, ConnectContext, ConnectError, Connector, Ended, OpenChannel};
use crate::limits::Limits;
use crate::peer::BoxFuture;
use crate::transport::stream::StreamChannel;

/// Starts the program anew for every connection.
impl Connector for ChildCommand {
    fn connect(&self, cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        Box::pin(async move {
            let started =
                self.spawn().map_err(|error| ConnectError::unreachable(format!("{:?}", self.program_name()), error))?;
            let (reader, writer, child) = started.into_parts();
            let reader = Overheard::new(reader, self.overhear.clone());
            cx.initializing();
            let options = Limits { max_message_bytes: self.message_limit, ..Limits::default() };
            let stream = Arc::new(StreamChannel::open(reader, writer, cx.client, options, cx.incoming));
            let control = ChildControl { stream: stream.clone(), child };
            match stream.connection.opened().await {
                Ok(opened) => Ok(OpenChannel::new(stream, Arc::new(control), opened)),
                Err(failure) => {
                    let error = match ConnectError::from(failure) {
                        // How it ended is not how it will be ended.
                        ConnectError::Ended(_) => {
                            let _ = tokio::time::timeout(LAST_MOMENT, control.child.exited()).await;
                            ConnectError::Ended(control.ended())
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

/// The connection to a process, which ends with it.
#[derive(Debug)]
struct ChildControl {
    stream: Arc<StreamChannel>,
    child: Child,
}

impl ChildControl {
    /// One that still runs has only closed its output.
    fn ended(&self) -> Ended {
        let ended = Ended::new().stderr(self.child.stderr_tail());
        match self.child.exit_status() {
            Some(exit) => ended.how(exit.to_string()),
            None => ended.how("closed its standard output"),
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

    /// A process that has closed its output is not yet one that has ended; a moment later it often is.
    fn closed(&self) -> BoxFuture<'_, Ended> {
        Box::pin(async move {
            tokio::select! {
                _ = self.stream.closed() => {
                    let _ = tokio::time::timeout(LAST_MOMENT, self.child.exited()).await;
                }
                _ = self.child.exited() => {
                    // What it wrote before it went may still be read; something it left behind must not keep us.
                    let _ = tokio::time::timeout(LAST_MOMENT, self.stream.closed()).await;
                    self.stream.connection.shutdown();
                }
            }
            self.ended()
        })
    }
}

const LAST_MOMENT: std::time::Duration = std::time::Duration::from_millis(250);
