use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};
use tokio::task::JoinSet;

use crate::service::WsService;

/// A [`WsService`] that listens by itself.
///
/// It speaks HTTP/1.1 without TLS: beyond this machine it belongs behind something that has it.
#[derive(Debug)]
#[must_use = "it accepts nobody until it serves"]
pub struct WsListener {
    listener: TcpListener,
    service: WsService,
}

/// How long a client may take to say what it wants.
const HEADERS: Duration = Duration::from_secs(10);

/// How long to wait when no connection can be accepted, as when there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// How long an answer may take to leave when nobody else is served any more.
const LAST_MOMENT: Duration = Duration::from_millis(250);

impl WsListener {
    pub(crate) async fn bind(service: WsService, address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(address).await?, service })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves whoever comes until the server is shut down, and then until every connection has ended.
    ///
    /// Dropping the future stops listening; clients that are connected stay so until the server is shut down.
    ///
    /// # Errors
    /// None so far: what goes wrong with one client is no reason not to serve the others.
    pub async fn serve(self) -> io::Result<()> {
        let Self { listener, service } = self;
        let mut ending = pin!(service.service().ending());
        let mut asking = JoinSet::new();
        loop {
            // Those who have not said what they want yet count as well, or they could be any number.
            let is_full = asking.len() > service.most_connections() as usize;
            tokio::select! {
                biased;
                () = &mut ending => break,
                Some(_) = asking.join_next() => {}
                accepted = listener.accept(), if !is_full => match accepted {
                    Ok((stream, _)) => drop(asking.spawn(hear(stream, service.clone()))),
                    Err(error) => {
                        tracing::warn!(target: "turms::server", %error, "cannot accept a connection");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        // Whoever is being answered by now gets the answer. Who has not asked yet need not be waited for.
        let _ = tokio::time::timeout(LAST_MOMENT, async { while asking.join_next().await.is_some() {} }).await;
        drop(asking);
        service.idle().await;
        Ok(())
    }
}

/// Hears what a client wants. A connection that is upgraded goes on elsewhere.
async fn hear(stream: TcpStream, service: WsService) {
    // Messages are written whole: to wait for more of them only makes them late.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(service);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(target: "turms::server", error = &error as &dyn std::error::Error, "a request was not understood");
    }
}
