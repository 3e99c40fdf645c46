//! The cost of a call within one process, and its dependence on the number of registered items.
#![allow(clippy::unwrap_used, reason = "a benchmark fails as a test does")]

use std::task::{Context as TaskContext, Poll, Waker};

use divan::{Bencher, black_box};
use schemars::JsonSchema;
use serde::Deserialize;
use turms_core::{CallContext, CallResult, Payload, Request, Service};
use turms_proto::types::{CallTool, CallToolParams, CallToolResult, ListTools, Outcome as Rounds, PaginatedParams};
use turms_proto::{Object, RawJson};
use turms_server::{Args, Router, Server, Tool};

fn main() {
    divan::main();
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

fn server(tools: usize) -> Router {
    let mut server = Server::new("bench", "1")
        .tool(Tool::builder("add").description("Adds.").handler_sync(|Args(add): Args<Add>| add.a + add.b))
        .tool(
            Tool::builder("add_async")
                .description("Adds.")
                .handler(|Args(add): Args<Add>| async move { add.a + add.b }),
        );
    for index in 2..tools {
        let name = format!("tool_{index}");
        server =
            server.tool(Tool::builder(name).description("One of many.").handler_sync(|Args(add): Args<Add>| add.a));
    }
    server.build().unwrap()
}

/// Polls a call that is known to be ready.
fn answer(service: &impl Service, request: Request) -> CallResult {
    let call = service.call(request, CallContext::in_process());
    match std::pin::pin!(call).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => unreachable!("these tools answer at once"),
    }
}

fn arguments() -> Object {
    Object::parse(r#"{"a":1.5,"b":2.5}"#).unwrap()
}

fn call_typed(service: &impl Service, tool: &str, arguments: Object) -> CallToolResult {
    let params = CallToolParams::new(tool).arguments(arguments);
    let outcome: Rounds<CallToolResult> = answer(service, Request::new::<CallTool>(params)).unwrap().take().unwrap();
    outcome.complete().unwrap()
}

/// A typed call within this process.
#[divan::bench(args = [2, 1000], sample_size = 1000)]
fn in_process_sync(bencher: Bencher<'_, '_>, tools: usize) {
    let server = server(tools);
    let arguments = arguments();
    bencher.bench_local(|| call_typed(&server, black_box("add"), arguments.clone()));
}

/// A typed call of an async tool.
#[divan::bench(args = [2, 1000], sample_size = 1000)]
fn in_process_async(bencher: Bencher<'_, '_>, tools: usize) {
    let server = server(tools);
    let arguments = arguments();
    bencher.bench_local(|| call_typed(&server, black_box("add_async"), arguments.clone()));
}

/// A call that is decoded from text and encoded to text, as over a transport.
#[divan::bench(args = [2, 1000], sample_size = 1000)]
fn as_text(bencher: Bencher<'_, '_>, tools: usize) {
    let server = server(tools);
    let params = RawJson::parse(r#"{"name":"add","arguments":{"a":1.5,"b":2.5},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}"#).unwrap();
    let mut out = Vec::with_capacity(4096);
    bencher.bench_local(|| {
        out.clear();
        let request = Request::raw("tools/call", Payload::json(params.clone()));
        answer(&server, request).unwrap().write(&mut out).unwrap();
        out.len()
    });
}

/// A list that is already encoded.
#[divan::bench(args = [10, 1000], sample_size = 1000)]
fn list(bencher: Bencher<'_, '_>, tools: usize) {
    let server = server(tools);
    bencher.bench_local(|| answer(&server, Request::new::<ListTools>(PaginatedParams::new())).unwrap());
}
