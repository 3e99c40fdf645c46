//! What it costs to call a service by its name, and whether it matters how many there are.
#![allow(clippy::unwrap_used, reason = "a benchmark fails as a test does")]

use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};
use turms_proto::Notification;

use divan::{Bencher, black_box, black_box_drop};
use turms_core::registry::{Registration, ServiceCall, Services};
use turms_core::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
use turms_proto::types::{CallTool, CallToolParams, Outcome, ToolResult};

fn main() {
    divan::main();
}

/// Answers at once, or as soon as it is polled.
#[derive(Clone, Copy)]
enum Greeter {
    Now,
    Later,
}

impl Service for Greeter {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        match self {
            Self::Now => Box::pin(std::future::ready(greet(request))),
            Self::Later => Box::pin(async move { greet(request) }),
        }
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

fn greet(request: Request) -> turms_core::CallResult {
    let params: CallToolParams = request.params.take().unwrap();
    Ok(Payload::new(Outcome::Complete(ToolResult::of_text(params.name))))
}

const SIZES: [usize; 3] = [1, 100, 10_000];

fn services(count: usize, service: Greeter) -> (Services, Vec<Registration>) {
    let services = Services::local();
    let register = |index| ready(services.register(format!("service/{index}"), service)).unwrap();
    let registrations = (0..count).map(register).collect();
    (services, registrations)
}

/// Polls what is known to be ready.
fn ready<F: IntoFuture>(future: F) -> F::Output {
    match pin!(future.into_future()).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

fn greeting<'a>(services: &'a Services, name: &'a str) -> ServiceCall<'a, Outcome<ToolResult>> {
    services.call_method::<CallTool>(name, CallToolParams::new("hello"))
}

/// The same service without a registry: what is not the registry's doing.
#[divan::bench(sample_size = 1000)]
fn without_registry() {
    let request = Request::new::<CallTool>(CallToolParams::new("hello"));
    let answer = ready(black_box(&Greeter::Now).call(request, CallContext::in_process()));
    black_box_drop(answer.unwrap().take::<Outcome<ToolResult>>().unwrap());
}

/// A typed call of a service that has its answer at once, there and back, from one thread and from two.
#[divan::bench(args = SIZES, threads = [1, 2], sample_size = 1000)]
fn call(bencher: Bencher<'_, '_>, count: usize) {
    let (services, _registrations) = services(count, Greeter::Now);
    let name = format!("service/{}", count / 2);
    bencher.bench(|| black_box_drop(ready(greeting(&services, black_box(&name))).unwrap()));
}

/// The same of a service that is asynchronous but need not wait.
#[divan::bench(args = SIZES, sample_size = 1000)]
fn call_async(bencher: Bencher<'_, '_>, count: usize) {
    let (services, _registrations) = services(count, Greeter::Later);
    let name = format!("service/{}", count / 2);
    bencher.bench(|| black_box_drop(ready(greeting(&services, black_box(&name))).unwrap()));
}

/// A call of nobody.
#[divan::bench(args = SIZES, sample_size = 1000)]
fn not_found(bencher: Bencher<'_, '_>, count: usize) {
    let (services, _registrations) = services(count, Greeter::Now);
    bencher.bench(|| black_box_drop(ready(greeting(&services, black_box("nobody"))).unwrap_err()));
}

/// Registering one more service, and ending that.
#[divan::bench(args = SIZES, sample_size = 100)]
fn register(bencher: Bencher<'_, '_>, count: usize) {
    let (services, _registrations) = services(count, Greeter::Now);
    bencher.bench(|| drop(ready(services.register(black_box("one-more"), Greeter::Now)).unwrap()));
}
