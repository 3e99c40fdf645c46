//! Messages of a server that are longer than the limit of the connection.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use turms_core::transport::{ChildCommand, StreamConnector, memory};
use turms_core::{
    CallContext, Connector, Limits, NotifyFuture, OpenChannel, OutgoingRequest, Payload, PeerError, Request,
    ResponseFuture, Service,
};
use turms_proto::session::{ClientOptions, Dialect, RequestError, RequestOptions};
use turms_proto::types::{ClientCapabilities, Implementation};
use turms_proto::{ErrorObject, Notification, ProtocolVersion};
use turms_testkit::within;

/// The client's side, which answers nothing.
struct Nothing;

impl Service for Nothing {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        Box::pin(std::future::ready(Err(ErrorObject::method_not_found(&request.method).into())))
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

const LIMIT: usize = 1000;

/// A connection to a server that speaks 2026-07-28, so that nothing is asked before the first request.
async fn connect(connector: &impl Connector) -> OpenChannel {
    let client = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
    let client = client.known(Dialect::Stateless(ProtocolVersion::LATEST));
    within("a connection", connector.connect(client, Arc::new(Nothing))).await.unwrap()
}

/// Asks without a timeout, so that nothing but the response or its loss ends the request.
async fn ask(server: &OpenChannel) -> Result<Payload, PeerError> {
    let request = OutgoingRequest::new("tools/list", Payload::default()).options(RequestOptions::default().for_ever());
    within("an outcome", server.channel.call_in_time(request)).await
}

fn assert_too_long(outcome: Result<Payload, PeerError>) {
    match outcome {
        Err(error @ PeerError::Request(RequestError::TooLong { limit: LIMIT })) => {
            let told = error.to_string();
            assert!(told.contains("limit of 1000 bytes") && told.contains("message_limit"), "{told}");
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
        let server = connect(&StreamConnector::new(near.0, near.1).options(options)).await;
        tokio::spawn(async move {
            let mut requests = BufReader::new(far.0).lines();
            let log = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"{long}"}}}}"#);
            requests.next_line().await.unwrap();
            far.1.write_all(format!("{log}\n{long}\n{response}\n").as_bytes()).await.unwrap();
            requests.next_line().await.unwrap();
            // The notification and what is no message fail nothing.
            let answer = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
            far.1.write_all(format!("{log}\n{long}\n{answer}\n").as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        });
        assert_too_long(ask(&server).await);
        assert!(ask(&server).await.is_ok(), "the connection goes on");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_limit_of_a_child_process_can_be_set() {
    let script = r#"text=$(printf 'x%.0s' $(seq 2000)); read -r request; printf '{"jsonrpc":"2.0","id":1,"result":{"text":"%s"}}\n' "$text"; cat > /dev/null"#;
    let command = ChildCommand::new("sh").args(["-c", script]);
    let server = connect(&command).await;
    assert!(ask(&server).await.is_ok(), "the default is 16 MiB");
    server.control.close().await;
    let server = connect(&command.message_limit(LIMIT)).await;
    assert_too_long(ask(&server).await);
    server.control.close().await;
}
