//! Tests that every implementation of [`Registry`](super::Registry) must pass.
//!
//! ```
//! # use turms_core as turms;
//! use turms::registry::{ServiceRegistry, contract};
//!
//! # async fn example() {
//! contract::check(&ServiceRegistry::local()).await;
//! contract::check_apart(&ServiceRegistry::local(), &ServiceRegistry::local()).await;
//! # }
//! # std::panic::set_hook(Box::new(|_| {}));
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example());
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use turms_proto::types::{CallToolParams, Meta};
use turms_proto::{ErrorObject, MethodName, Notification, Object, RawJson};

use super::{RegisterError, Registration, ServiceCallError, ServiceName, ServiceRegistry};
use crate::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};

/// Timeout for what a registry may do with a delay.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Checks that a registry keeps the contract of [`Registry`](super::Registry). Names that begin with `contract/` must be free. One of the
/// services panics on purpose, and the process may report that.
///
/// Runs in a tokio runtime with timers. A registry may end registrations and deliver notifications with a delay of up to ten seconds.
///
/// # Panics
/// If the registry violates the contract; the message says how.
pub async fn check(services: &ServiceRegistry) {
    an_unregistered_service_is_not_found(services).await;
    a_registered_service_is_listed_and_responds(services).await;
    names_may_have_all_allowed_characters(services).await;
    a_name_is_registered_once(services).await;
    metadata_reaches_the_service(services).await;
    notifications_reach_the_service(services).await;
    errors_are_those_of_the_service(services).await;
    a_panic_is_an_error_response(services).await;
    a_call_times_out(services).await;
    calls_run_concurrently(services).await;
    dropping_a_registration_unregisters_the_service(services).await;
    a_running_call_finishes_after_its_service_is_unregistered(services).await;
}

/// Checks that two registries do not share names.
///
/// # Panics
/// If they do.
pub async fn check_apart(one: &ServiceRegistry, other: &ServiceRegistry) {
    let (fixture, _received) = ContractService::new();
    let _first = register(one, "contract/apart", &fixture).await;
    assert!(other.check("contract/apart").await.is_err(), "the service of one registry is in the other");
    assert!(!is_listed(other, "contract/apart").await, "the name of one registry is in the other");
    let _second = register(other, "contract/apart", &fixture).await;
}

async fn an_unregistered_service_is_not_found(services: &ServiceRegistry) {
    let too_long = "x".repeat(ServiceName::MAX_LEN + 1);
    for name in ["contract/missing", "", " ", "contract/*", "*", ">", "contract/é", "a\r\nb", &too_long] {
        let not_found = |error: ServiceCallError| {
            assert!(error.is_not_found(), "{name:?} is not registered, but the error is: {error}");
            assert_eq!(error.name(), name, "the error has the name of another service");
        };
        let called = services.call(name, "contract/echo", Payload::default()).await;
        not_found(called.expect_err("an unregistered service responds"));
        let notified = services.notify(name, Notification::raw("contract/notify", None)).await;
        not_found(notified.expect_err("an unregistered service receives a notification"));
        not_found(services.check(name).await.expect_err("an unregistered service passes the check"));
        assert!(!is_listed(services, name).await, "{name:?} is not registered, but listed");
    }
}

async fn a_registered_service_is_listed_and_responds(services: &ServiceRegistry) {
    let (fixture, _received) = ContractService::new();
    let name = "contract/responds";
    let registration = register(services, name, &fixture).await;
    assert_eq!(registration.name().as_str(), name, "a registration has another name");
    services.check(name).await.expect("a registered service passes the check");
    assert!(is_listed(services, name).await, "a registered service is not listed");

    let names = services.names().await.expect("the registry can be reached");
    assert!(names.is_sorted(), "the names are not in order: {names:?}");

    for method in ["contract/echo", "contract/echo-later"] {
        let params = Payload::new(CallToolParams::new("unchanged"));
        let response = services.call(name, method, params).await.expect("a registered service responds");
        let response: CallToolParams = response.take().expect("the response has the type of the service's result");
        assert_eq!(response.name, "unchanged", "{method}: the response is not the result of the service");
    }
}

async fn names_may_have_all_allowed_characters(services: &ServiceRegistry) {
    let (fixture, _received) = ContractService::new();
    let longest = format!("contract/{}", "x".repeat(ServiceName::MAX_LEN - "contract/".len()));
    for name in ["contract/azAZ09_-.:/", "contract/..", "contract//", "contract/a:b/c.d", &longest] {
        let _registration = register(services, name, &fixture).await;
        echo(services, name).await.expect("a service with a valid name responds");
        assert!(is_listed(services, name).await, "{name:?} is not listed as it was registered");
    }
}

async fn a_name_is_registered_once(services: &ServiceRegistry) {
    let name = "contract/once";
    let (fixture, _received) = ContractService::new();
    let _first = register(services, name, &fixture).await;
    match services.register(name, fixture.clone()).await {
        Err(RegisterError::Taken { name: taken }) => {
            assert_eq!(taken.as_str(), name, "the error has the name of another service");
        }
        Err(error) => panic!("the name is taken, but the error is: {error}"),
        Ok(_) => panic!("a name is registered twice"),
    }
    echo(services, name).await.expect("the first service keeps the name");
    assert!(services.register("not a name", fixture).await.is_err(), "an invalid name is registered");
}

async fn metadata_reaches_the_service(services: &ServiceRegistry) {
    let name = "contract/metadata";
    let (fixture, _received) = ContractService::new();
    let _registration = register(services, name, &fixture).await;
    let meta = Object::parse(r#"{"traceparent":"00-1-2-01"}"#).expect("a valid object");
    let response = services.call(name, "contract/meta", Payload::default()).meta(Meta::from(meta.clone())).await;
    let seen: Object = response.expect("the service responds").take().expect("the response is the metadata");
    assert_eq!(seen.get("traceparent"), meta.get("traceparent"), "the service does not see the caller's metadata");
}

async fn notifications_reach_the_service(services: &ServiceRegistry) {
    let name = "contract/notified";
    let (fixture, mut received) = ContractService::new();
    let _registration = register(services, name, &fixture).await;
    let params = RawJson::encode(&7).expect("valid JSON");
    let sent = services.notify(name, Notification::raw("contract/notify", Some(params.clone()))).await;
    sent.expect("a registered service can be notified");
    let (method, seen) =
        timeout(TIMEOUT, received.recv()).await.ok().flatten().expect("the service receives the notification");
    assert_eq!(&*method, "contract/notify", "the service receives another notification");
    assert_eq!(seen, Some(params), "the service receives other parameters");
}

async fn errors_are_those_of_the_service(services: &ServiceRegistry) {
    let name = "contract/errors";
    let (fixture, _received) = ContractService::new();
    let _registration = register(services, name, &fixture).await;
    let error = services.call(name, "contract/fail", Payload::default()).await.expect_err("the service fails");
    assert_eq!(error.service_error(), Some(&expected_error()), "not the error of the service: {error}");
    assert_eq!(error.name(), name, "the error has the name of another service");
}

async fn a_panic_is_an_error_response(services: &ServiceRegistry) {
    let name = "contract/panics";
    let (fixture, _received) = ContractService::new();
    let _registration = register(services, name, &fixture).await;
    for method in ["contract/panic", "contract/panic-later"] {
        let error = services.call(name, method, Payload::default()).await.expect_err("the service panics");
        assert!(error.service_error().is_some(), "a panic is an error response, but the error is: {error}");
    }
    echo(services, name).await.expect("the service responds after a panic");
}

async fn a_call_times_out(services: &ServiceRegistry) {
    let name = "contract/slow";
    let (fixture, _received) = ContractService::new();
    let _registration = register(services, name, &fixture).await;
    let limit = Duration::from_millis(50);
    let call = services.call(name, "contract/wait", Payload::default()).timeout(limit);
    let response = timeout(TIMEOUT, call).await.expect("a call with a timeout ends");
    match response.expect_err("the service does not respond") {
        ServiceCallError::TimedOut { name: slow, after } => assert_eq!((&*slow, after), (name, limit)),
        error => panic!("there is no response in time, but the error is: {error}"),
    }
    echo(services, name).await.expect("the service responds after a timeout");
}

async fn calls_run_concurrently(services: &ServiceRegistry) {
    let name = "contract/busy";
    let (fixture, mut received) = ContractService::new();
    let _registration = register(services, name, &fixture).await;
    let waiting = fixture.begin_waiting(services, name, &mut received).await;
    echo(services, name).await.expect("the service responds while another call runs");
    fixture.release.add_permits(1);
    waiting.await.expect("the caller has not panicked").expect("the first call has a response, too");
}

async fn dropping_a_registration_unregisters_the_service(services: &ServiceRegistry) {
    let name = "contract/ends";
    let (fixture, _received) = ContractService::new();
    for _ in 0..2 {
        drop(register(services, name, &fixture).await);
        let ended = async {
            while services.check(name).await.is_ok() || is_listed(services, name).await {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(TIMEOUT, ended).await.expect("a service is unregistered when its registration is dropped");
        let error = echo(services, name).await.expect_err("an unregistered service does not respond");
        assert!(error.is_not_found(), "the service is unregistered, but the error is: {error}");
    }
}

async fn a_running_call_finishes_after_its_service_is_unregistered(services: &ServiceRegistry) {
    let name = "contract/finishes";
    let (fixture, mut received) = ContractService::new();
    let registration = register(services, name, &fixture).await;
    let waiting = fixture.begin_waiting(services, name, &mut received).await;
    drop(registration);
    fixture.release.add_permits(1);
    waiting.await.expect("the caller has not panicked").expect("a running call finishes");
}

async fn register(services: &ServiceRegistry, name: &str, fixture: &ContractService) -> Registration {
    services.register(name, fixture.clone()).await.expect("a free name can be registered")
}

async fn echo(services: &ServiceRegistry, name: &str) -> Result<Payload, ServiceCallError> {
    services.call(name, "contract/echo", Payload::default()).await
}

async fn is_listed(services: &ServiceRegistry, name: &str) -> bool {
    services.names().await.expect("the registry can be reached").iter().any(|listed| listed.as_str() == name)
}

/// The service of the tests. Each method does what its name says.
#[derive(Clone)]
struct ContractService {
    received: mpsc::UnboundedSender<Received>,
    release: Arc<Semaphore>,
}

/// The method and parameters of a notification or call.
type Received = (MethodName, Option<RawJson>);

impl ContractService {
    fn new() -> (Self, mpsc::UnboundedReceiver<Received>) {
        let (received, receiver) = mpsc::unbounded_channel();
        (Self { received, release: Arc::new(Semaphore::new(0)) }, receiver)
    }

    /// Starts a call that waits, and returns when the service has received it.
    async fn begin_waiting(
        &self,
        services: &ServiceRegistry,
        name: &'static str,
        received: &mut mpsc::UnboundedReceiver<Received>,
    ) -> JoinHandle<Result<Payload, ServiceCallError>> {
        let services = services.clone();
        let call = tokio::spawn(async move { services.call(name, "contract/wait", Payload::default()).await });
        timeout(TIMEOUT, received.recv()).await.ok().flatten().expect("the call reaches the service");
        call
    }
}

impl Service for ContractService {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let this = self.clone();
        match &*request.method {
            "contract/echo" => Box::pin(std::future::ready(Ok(request.params))),
            "contract/echo-later" => Box::pin(async move {
                tokio::task::yield_now().await;
                Ok(request.params)
            }),
            "contract/meta" => {
                let meta = cx.meta().map(RawJson::encode).and_then(Result::ok);
                Box::pin(std::future::ready(Ok(meta.map_or_else(Payload::default, Payload::json))))
            }
            "contract/fail" => Box::pin(std::future::ready(Err(expected_error().into()))),
            "contract/panic" => panic!("expected panic"),
            "contract/panic-later" => Box::pin(async { panic!("expected panic") }),
            "contract/wait" => Box::pin(async move {
                // The test may have dropped the receiver.
                let _ = this.received.send((request.method, None));
                let released = this.release.acquire().await.map(SemaphorePermit::forget);
                released.map_err(|error| ErrorObject::internal(error.to_string()))?;
                Ok(request.params)
            }),
            method => Box::pin(std::future::ready(Err(ErrorObject::method_not_found(method).into()))),
        }
    }

    fn notify(&self, notification: Notification, _: CallContext) -> NotifyFuture {
        // The test may have dropped the receiver.
        let received = self.received.clone();
        Box::pin(async move { drop(received.send((notification.method, notification.params))) })
    }
}

fn expected_error() -> ErrorObject {
    ErrorObject::invalid_params("expected error").data(RawJson::string("some data"))
}
