//! The cost of calling a service by name, with 1 to 10 000 services.
#![allow(clippy::unwrap_used, reason = "a benchmark fails as a test does")]

use std::pin::pin;
use std::task::{Context as TaskContext, Poll, Waker};
use turms_proto::Notification;

use divan::{Bencher, black_box, black_box_drop};
use turms_core::registry::{Registration, ServiceCall, ServiceRegistry};
use turms_core::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
use turms_proto::types::{CallTool, CallToolParams, CallToolResult, Outcome};

fn main() {
    divan::main();
}

/// Responds at once, by a ready future or by an `async` block.
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
    Ok(Payload::new(Outcome::Complete(CallToolResult::from_text(params.name))))
}

const SIZES: [usize; 3] = [1, 100, 10_000];

fn services(count: usize, service: Greeter) -> (ServiceRegistry, Vec<Registration>) {
    let services = ServiceRegistry::local();
    let register = |index| ready(services.register(format!("service/{index}"), service)).unwrap();
    let registrations = (0..count).map(register).collect();
    (services, registrations)
}

/// Polls a future that is ready.
fn ready<F: IntoFuture>(future: F) -> F::Output {
    match pin!(future.into_future()).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("all futures here are ready"),
    }
}

fn greeting<'a>(services: &'a ServiceRegistry, name: &'a str) -> ServiceCall<'a, Outcome<CallToolResult>> {
    services.call_method::<CallTool>(name, CallToolParams::new("hello"))
}

/// The same service without a registry, for comparison.
#[divan::bench(sample_size = 1000)]
fn without_registry() {
    let request = Request::new::<CallTool>(CallToolParams::new("hello"));
    let response = ready(black_box(&Greeter::Now).call(request, CallContext::in_process()));
    black_box_drop(response.unwrap().take::<Outcome<CallToolResult>>().unwrap());
}

/// A typed call of a service with a ready future, from one thread and from two.
#[divan::bench(args = SIZES, threads = [1, 2], sample_size = 1000)]
fn call(bencher: Bencher<'_, '_>, count: usize) {
    let (services, _registrations) = services(count, Greeter::Now);
    let name = format!("service/{}", count / 2);
    bencher.bench(|| black_box_drop(ready(greeting(&services, black_box(&name))).unwrap()));
}

/// A typed call of a service with an `async` block.
#[divan::bench(args = SIZES, sample_size = 1000)]
fn call_async(bencher: Bencher<'_, '_>, count: usize) {
    let (services, _registrations) = services(count, Greeter::Later);
    let name = format!("service/{}", count / 2);
    bencher.bench(|| black_box_drop(ready(greeting(&services, black_box(&name))).unwrap()));
}

/// A call of an unregistered service.
#[divan::bench(args = SIZES, sample_size = 1000)]
fn not_found(bencher: Bencher<'_, '_>, count: usize) {
    let (services, _registrations) = services(count, Greeter::Now);
    bencher.bench(|| black_box_drop(ready(greeting(&services, black_box("missing"))).unwrap_err()));
}

/// Registering and unregistering one more service.
#[divan::bench(args = SIZES, sample_size = 100)]
fn register(bencher: Bencher<'_, '_>, count: usize) {
    let (services, _registrations) = services(count, Greeter::Now);
    bencher.bench(|| drop(ready(services.register(black_box("one-more"), Greeter::Now)).unwrap()));
}
