//! Number of allocations of a call with credentials. The limit is a measured number; raise it only for a reason.

use std::convert::Infallible;
use std::future::{Ready, ready};

use bytes::Bytes;
use http_body_util::Full;
use turms_http::BearerToken;

use super::*;

const CALLS: u64 = 100;

/// Responds to every request without a socket, with a result that needs one allocation.
#[derive(Clone)]
struct EchoServer;

impl tower_service::Service<http::Request<Bytes>> for EchoServer {
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Bytes>) -> Self::Future {
        assert_eq!(request.headers()["authorization"], "Bearer secret");
        let start = request.body().windows(5).position(|bytes| bytes == b"\"id\":").unwrap() + 5;
        let id = &request.body()[start..];
        let id = std::str::from_utf8(&id[..id.iter().position(|byte| *byte == b',').unwrap()]).unwrap();
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete"}}}}"#);
        let mut response = http::Response::new(Full::new(Bytes::from(body)));
        response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
        ready(Ok(response))
    }
}

/// Returns the allocations of each call.
fn allocations(configure: impl FnOnce(HttpConnector) -> HttpConnector) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connector = HttpConnector::new("http://example.com/mcp").unwrap().http_service(EchoServer);
    let known = options().known(Dialect::Stateless(ProtocolVersion::LATEST));
    let cx = ConnectContext::new(known, Arc::new(RecordingService::default()));
    let client = runtime.block_on(configure(connector).connect(cx)).unwrap();
    let calls = || {
        runtime.block_on(async {
            for _ in 0..CALLS {
                client.channel.call_in_time(OutgoingRequest::new("tools/list", RawJson::NULL)).await.unwrap();
            }
        });
    };
    calls();
    let info = allocation_counter::measure(calls);
    info.count_total / CALLS
}

#[test]
fn a_bearer_token_costs_no_more_than_a_header() {
    let with_header = allocations(|connector| connector.header("authorization", "Bearer secret"));
    let with_token = allocations(|connector| connector.authorizer(BearerToken::new("secret").unwrap()));
    assert!(with_token <= with_header, "{with_token} with a token, {with_header} with a header");
    assert!(with_token <= 17, "{with_token}");
}
