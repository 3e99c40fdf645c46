//! The cost that the client adds to a call, in process and over an in-memory pipe. Baselines: the bare service, and a
//! bare connection.

use divan::Bencher;
use serde_json::json;
use tokio::runtime::Runtime;
use turms_client::Client;
use turms_core::transport::memory;
use turms_core::{CallContext, Connection, Limits, NotifyFuture, OutgoingRequest, Payload, Request, Service};
use turms_proto::session::{ClientOptions, VersionChoice};
use turms_proto::types::{
    CallTool, CallToolParams, CallToolResult, ClientCapabilities, Implementation, Meta, Outcome, RequestMeta,
};
use turms_proto::{Ability, Notification, Object, ProtocolVersion};
use turms_server::{Args, Router, Server, Tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

fn main() {
    divan::main();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn router() -> Router {
    let add = Tool::builder("add").handler_sync(|Args(add): Args<Add>| add.a + add.b);
    Server::new("bench", "1").tool(add).build().expect("a server")
}

fn arguments() -> Object {
    Object::encode(&json!({ "a": 1, "b": 2 })).expect("an object")
}

/// The in-process baseline: calls the router directly.
#[divan::bench]
fn the_service_alone(bencher: Bencher<'_, '_>) {
    let (runtime, router, arguments) = (runtime(), router(), arguments());
    bencher.bench_local(|| {
        runtime.block_on(async {
            let params = CallToolParams::new("add").arguments(arguments.clone());
            let answer = router.call(Request::new::<CallTool>(params), CallContext::in_process()).await;
            answer.expect("an answer").take::<Outcome<CallToolResult>>().expect("a result")
        })
    });
}

#[divan::bench]
fn a_client_in_process(bencher: Bencher<'_, '_>) {
    let (runtime, router, arguments) = (runtime(), router(), arguments());
    let client = runtime.block_on(Client::builder("c", "1").connect_service(router)).expect("a client");
    bencher.bench_local(|| runtime.block_on(async { client.call_tool("add", &arguments).await.expect("a result") }));
}

/// The baseline over an in-memory pipe: a [`Connection`] without a [`Client`].
#[divan::bench(args = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28])]
fn a_connection_over_a_pair(bencher: Bencher<'_, '_>, version: &ProtocolVersion) {
    struct RejectAll;
    impl Service for RejectAll {
        fn call(&self, request: Request, _: CallContext) -> turms_core::ResponseFuture {
            Box::pin(std::future::ready(Err(turms_proto::ErrorObject::method_not_found(&request.method).into())))
        }

        fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
            Box::pin(async {})
        }
    }
    let (runtime, router, arguments) = (runtime(), router(), arguments());
    let handle = runtime.block_on(async {
        let (near, far) = memory();
        tokio::spawn(async move { router.serve(far.0, far.1).await });
        let options = ClientOptions::new(Implementation::new("c", "1"), ClientCapabilities::new())
            .choice(VersionChoice::Only(*version));
        let (connection, handle) = Connection::client(near.0, near.1, options, Limits::default());
        tokio::spawn(connection.run(RejectAll));
        handle.opened().await.expect("a connection");
        handle
    });
    let meta = version.has(Ability::Stateless).then(|| {
        let meta = RequestMeta::new().protocol_version(version.as_str()).client_capabilities(ClientCapabilities::new());
        Meta::from(&meta)
    });
    bencher.bench_local(|| {
        runtime.block_on(async {
            let params = CallToolParams::new("add").arguments(arguments.clone());
            let request = OutgoingRequest::new("tools/call", Payload::new(params)).meta(meta.clone());
            let answer = handle.call(request).await.expect("an answer");
            answer.decode::<Outcome<CallToolResult>>().expect("a result")
        })
    });
}

#[divan::bench(args = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28])]
fn a_client_over_a_pair(bencher: Bencher<'_, '_>, version: &ProtocolVersion) {
    let (runtime, router, arguments) = (runtime(), router(), arguments());
    let client = runtime
        .block_on(async {
            let (near, far) = memory();
            tokio::spawn(async move { router.serve(far.0, far.1).await });
            Client::builder("c", "1").protocol_version(*version).connect_stream(near.0, near.1).await
        })
        .expect("a client");
    bencher.bench_local(|| runtime.block_on(async { client.call_tool("add", &arguments).await.expect("a result") }));
}
