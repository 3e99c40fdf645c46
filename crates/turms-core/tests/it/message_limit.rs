//! Messages of a server that are longer than the limit of the connection.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use turms_core::transport::{ChildCommand, StreamConnector, memory};
use turms_core::{
    CallContext, ConnectContext, Connector, Limits, NotifyFuture, OpenChannel, OutgoingRequest, Payload, PeerError,
    Request, ResponseFuture, Service,
};
use turms_proto::session::{ClientOptions, Dialect, RequestOptions};
use turms_proto::types::{ClientCapabilities, Implementation};
use turms_proto::{ErrorObject, Notification, ProtocolVersion};
use turms_testkit::within;

/// The service of a client that supports no requests.
struct NoRequests;

impl Service for NoRequests {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        Box::pin(std::future::ready(Err(ErrorObject::method_not_found(&request.method).into())))
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

const LIMIT: usize = 1000;

/// Opens a connection to a server of 2026-07-28, so that there is no handshake before the first request.
async fn connect(connector: &impl Connector) -> OpenChannel {
    let client = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
    let client = client.known(Dialect::Stateless(ProtocolVersion::LATEST));
    within("a connection", connector.connect(ConnectContext::new(client, Arc::new(NoRequests)))).await.unwrap()
}

/// Sends a request without a timeout, so that it ends only with its response or an error.
async fn request(server: &OpenChannel) -> Result<Payload, PeerError> {
    let request =
        OutgoingRequest::new("tools/list", Payload::default()).options(RequestOptions::default().without_timeout());
    within("a response", server.channel.call_in_time(request)).await
}

fn assert_too_long(outcome: Result<Payload, PeerError>) {
    match outcome {
        Err(error @ PeerError::TooLarge { limit: LIMIT }) => {
            let message = error.to_string();
            assert!(message.contains("limit of 1000 bytes") && message.contains("max_message_bytes"), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_fails_at_once_when_its_response_is_over_the_limit() {
    let long = "x".repeat(2 * LIMIT);
    for response in [
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{long}"}}}}"#),
        format!(r#"{{"result":{{"text":"{long}"}},"jsonrpc":"2.0","id":1}}"#),
        format!(r#"[{{"jsonrpc":"2.0","id":1,"result":{{"text":"{long}"}}}}]"#),
    ] {
        let long = long.clone();
        let (near, mut far) = memory();
        let mut options = Limits::default();
        options.max_message_bytes = LIMIT;
        let server = connect(&StreamConnector::new(near.0, near.1).limits(options)).await;
        tokio::spawn(async move {
            let mut requests = BufReader::new(far.0).lines();
            let log = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"{long}"}}}}"#);
            requests.next_line().await.unwrap();
            far.1.write_all(format!("{log}\n{long}\n{response}\n").as_bytes()).await.unwrap();
            requests.next_line().await.unwrap();
            // A long notification and a long line that is not a message fail no request.
            let response = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
            far.1.write_all(format!("{log}\n{long}\n{response}\n").as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        });
        assert_too_long(request(&server).await);
        assert!(request(&server).await.is_ok(), "the connection is closed");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_limit_of_a_child_process_can_be_set() {
    let script = r#"text=$(printf 'x%.0s' $(seq 2000)); read -r request; printf '{"jsonrpc":"2.0","id":1,"result":{"text":"%s"}}\n' "$text"; cat > /dev/null"#;
    let command = ChildCommand::new("sh").args(["-c", script]);
    let server = connect(&command).await;
    assert!(request(&server).await.is_ok(), "the default limit is 16 MiB");
    server.control.close().await;
    let server = connect(&command.max_message_bytes(LIMIT)).await;
    assert_too_long(request(&server).await);
    server.control.close().await;
}
