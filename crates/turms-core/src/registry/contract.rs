//! What every registry must do, as tests that any implementation can run.
//!
//! ```
//! use turms_core::registry::{Services, contract};
//!
//! # async fn example() {
//! contract::check(&Services::local()).await;
//! contract::check_apart(&Services::local(), &Services::local()).await;
//! # }
//! # std::panic::set_hook(Box::new(|_| {}));
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example());
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use turms_proto::types::{CallToolParams, Meta};
use turms_proto::{ErrorObject, Notification, Object, RawJson};

use super::{RegisterError, Registration, ServiceCallError, ServiceName, Services};
use crate::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};

/// How long to wait for something that a registry may take its time for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks that a registry does all that [`Registry`](super::Registry) promises. Names that begin with `contract/` must be
/// free. One of the services panics on purpose, and the process may report that.
///
/// Runs in a tokio runtime with timers. A registry may end registrations and deliver notifications a little later; more than
/// ten seconds is not a little.
///
/// # Panics
/// When the registry breaks a promise, saying which.
pub async fn check(services: &Services) {
    what_is_not_registered_is_not_found(services).await;
    what_is_registered_is_listed_and_answers(services).await;
    names_may_have_all_their_characters(services).await;
    a_name_is_given_once(services).await;
    metadata_reaches_the_service(services).await;
    notifications_reach_the_service(services).await;
    errors_are_those_of_the_service(services).await;
    a_panic_is_an_error_and_nothing_else(services).await;
    a_call_that_takes_too_long_is_given_up(services).await;
    calls_do_not_wait_for_each_other(services).await;
    a_registration_ends_with_its_guard(services).await;
    a_call_that_has_begun_is_finished(services).await;
}

/// Checks that two registries know nothing of each other's names.
///
/// # Panics
/// When they do.
pub async fn check_apart(one: &Services, other: &Services) {
    let (fixture, _heard) = Fixture::new();
    let _here = register(one, "contract/apart", &fixture).await;
    assert!(other.check("contract/apart").await.is_err(), "the service of one registry is in the other");
    assert!(!is_listed(other, "contract/apart").await, "the name of one registry is in the other");
    let _there = register(other, "contract/apart", &fixture).await;
}

async fn what_is_not_registered_is_not_found(services: &Services) {
    let too_long = "x".repeat(ServiceName::MAX_LEN + 1);
    for name in ["contract/nobody", "", " ", "contract/*", "*", ">", "contract/é", "a\r\nb", &too_long] {
        let not_found = |error: ServiceCallError| {
            assert!(error.is_not_found(), "{name:?} is not registered, but the error is: {error}");
            assert_eq!(error.name(), name, "an error names another service");
        };
        let called = services.call(name, "contract/echo", Payload::default()).await;
        not_found(called.expect_err("a service that is not registered has answered"));
        let notified = services.notify(name, Notification::raw("contract/told", None)).await;
        not_found(notified.expect_err("a service that is not registered has heard something"));
        not_found(services.check(name).await.expect_err("a service that is not registered is there"));
        assert!(!is_listed(services, name).await, "{name:?} is not registered, but listed");
    }
}

async fn what_is_registered_is_listed_and_answers(services: &Services) {
    let (fixture, _heard) = Fixture::new();
    let name = "contract/answers";
    let registration = register(services, name, &fixture).await;
    assert_eq!(registration.name().as_str(), name, "a registration has another name");
    services.check(name).await.expect("a service that is registered is there");
    assert!(is_listed(services, name).await, "a service that is registered is not listed");

    let names = services.names().await.expect("the registry can be reached");
    assert!(names.is_sorted(), "the names are not in order: {names:?}");

    for method in ["contract/echo", "contract/echo-later"] {
        let params = Payload::new(CallToolParams::new("as it was"));
        let answer = services.call(name, method, params).await.expect("a service that is registered answers");
        let answer: CallToolParams = answer.take().expect("what the service gave arrives");
        assert_eq!(answer.name, "as it was", "{method}: the answer is not what the service gave");
    }
}

async fn names_may_have_all_their_characters(services: &Services) {
    let (fixture, _heard) = Fixture::new();
    let longest = format!("contract/{}", "x".repeat(ServiceName::MAX_LEN - "contract/".len()));
    for name in ["contract/azAZ09_-.:/", "contract/..", "contract//", "contract/a:b/c.d", &longest] {
        let _registration = register(services, name, &fixture).await;
        echo(services, name).await.expect("a service with a valid name answers");
        assert!(is_listed(services, name).await, "{name:?} is not listed as it was registered");
    }
}

async fn a_name_is_given_once(services: &Services) {
    let name = "contract/once";
    let (fixture, _heard) = Fixture::new();
    let _first = register(services, name, &fixture).await;
    match services.register(name, fixture.clone()).await {
        Err(RegisterError::Taken { name: taken }) => assert_eq!(taken.as_str(), name, "an error names another service"),
        Err(error) => panic!("the name is taken, but the error is: {error}"),
        Ok(_) => panic!("a name was given twice"),
    }
    echo(services, name).await.expect("whoever came first keeps the name");
    assert!(services.register("not a name", fixture).await.is_err(), "a name was given that is none");
}

async fn metadata_reaches_the_service(services: &Services) {
    let name = "contract/metadata";
    let (fixture, _heard) = Fixture::new();
    let _registration = register(services, name, &fixture).await;
    let meta = Object::parse(r#"{"traceparent":"00-1-2-01"}"#).expect("that is an object");
    let answer = services.call(name, "contract/meta", Payload::default()).meta(Meta::from(meta.clone())).await;
    let seen: Object = answer.expect("the service answers").take().expect("it answers with its metadata");
    assert_eq!(seen.get("traceparent"), meta.get("traceparent"), "the service has not seen the caller's metadata");
}

async fn notifications_reach_the_service(services: &Services) {
    let name = "contract/notified";
    let (fixture, mut heard) = Fixture::new();
    let _registration = register(services, name, &fixture).await;
    let params = RawJson::encode(&7).expect("that is JSON");
    let told = services.notify(name, Notification::raw("contract/told", Some(params.clone()))).await;
    told.expect("a service that is registered can be told something");
    let (method, told) = timeout(PATIENCE, heard.recv()).await.ok().flatten().expect("the service hears it");
    assert_eq!(&*method, "contract/told", "the service has heard something else");
    assert_eq!(told, Some(params), "the service has heard something else");
}

async fn errors_are_those_of_the_service(services: &Services) {
    let name = "contract/errors";
    let (fixture, _heard) = Fixture::new();
    let _registration = register(services, name, &fixture).await;
    let error = services.call(name, "contract/fail", Payload::default()).await.expect_err("the service fails");
    assert_eq!(error.service_error(), Some(&as_asked()), "that is not the error of the service: {error}");
    assert_eq!(error.name(), name, "an error names another service");
}

async fn a_panic_is_an_error_and_nothing_else(services: &Services) {
    let name = "contract/panics";
    let (fixture, _heard) = Fixture::new();
    let _registration = register(services, name, &fixture).await;
    for method in ["contract/panic", "contract/panic-later"] {
        let error = services.call(name, method, Payload::default()).await.expect_err("the service panics");
        assert!(error.service_error().is_some(), "a panic is an answer of the service, but the error is: {error}");
    }
    echo(services, name).await.expect("a service is still there after a panic");
}

async fn a_call_that_takes_too_long_is_given_up(services: &Services) {
    let name = "contract/slow";
    let (fixture, _heard) = Fixture::new();
    let _registration = register(services, name, &fixture).await;
    let limit = Duration::from_millis(50);
    let call = services.call(name, "contract/wait", Payload::default()).timeout(limit);
    let answer = timeout(PATIENCE, call).await.expect("a call with a timeout ends");
    match answer.expect_err("the service does not answer") {
        ServiceCallError::TimedOut { name: slow, after } => assert_eq!((&*slow, after), (name, limit)),
        error => panic!("there is no answer in time, but the error is: {error}"),
    }
    echo(services, name).await.expect("a service is still there after a call was given up");
}

async fn calls_do_not_wait_for_each_other(services: &Services) {
    let name = "contract/busy";
    let (fixture, mut heard) = Fixture::new();
    let _registration = register(services, name, &fixture).await;
    let waiting = fixture.begin_waiting(services, name, &mut heard).await;
    echo(services, name).await.expect("a service that is busy answers others");
    fixture.release.add_permits(1);
    waiting.await.expect("the caller has not panicked").expect("the first call is answered, too");
}

async fn a_registration_ends_with_its_guard(services: &Services) {
    let name = "contract/ends";
    let (fixture, _heard) = Fixture::new();
    for _ in 0..2 {
        drop(register(services, name, &fixture).await);
        let ended = async {
            while services.check(name).await.is_ok() || is_listed(services, name).await {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, ended).await.expect("a registration ends when its guard is dropped");
        let error = echo(services, name).await.expect_err("a service whose registration has ended does not answer");
        assert!(error.is_not_found(), "the registration has ended, but the error is: {error}");
    }
}

async fn a_call_that_has_begun_is_finished(services: &Services) {
    let name = "contract/finishes";
    let (fixture, mut heard) = Fixture::new();
    let registration = register(services, name, &fixture).await;
    let waiting = fixture.begin_waiting(services, name, &mut heard).await;
    drop(registration);
    fixture.release.add_permits(1);
    waiting.await.expect("the caller has not panicked").expect("a call that has begun is finished");
}

async fn register(services: &Services, name: &str, fixture: &Fixture) -> Registration {
    services.register(name, fixture.clone()).await.expect("a name that is free can be had")
}

async fn echo(services: &Services, name: &str) -> Result<Payload, ServiceCallError> {
    services.call(name, "contract/echo", Payload::default()).await
}

async fn is_listed(services: &Services, name: &str) -> bool {
    services.names().await.expect("the registry can be reached").iter().any(|listed| listed.as_str() == name)
}

/// A service that does what its methods are called.
#[derive(Clone)]
struct Fixture {
    heard: mpsc::UnboundedSender<Heard>,
    release: Arc<Semaphore>,
}

type Heard = (ByteString, Option<RawJson>);

impl Fixture {
    fn new() -> (Self, mpsc::UnboundedReceiver<Heard>) {
        let (heard, receiver) = mpsc::unbounded_channel();
        (Self { heard, release: Arc::new(Semaphore::new(0)) }, receiver)
    }

    /// Calls, and comes back when the service has begun to wait.
    async fn begin_waiting(
        &self,
        services: &Services,
        name: &'static str,
        heard: &mut mpsc::UnboundedReceiver<Heard>,
    ) -> JoinHandle<Result<Payload, ServiceCallError>> {
        let services = services.clone();
        let call = tokio::spawn(async move { services.call(name, "contract/wait", Payload::default()).await });
        timeout(PATIENCE, heard.recv()).await.ok().flatten().expect("the call reaches the service");
        call
    }
}

impl Service for Fixture {
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
            "contract/fail" => Box::pin(std::future::ready(Err(as_asked().into()))),
            "contract/panic" => panic!("as asked"),
            "contract/panic-later" => Box::pin(async { panic!("as asked") }),
            "contract/wait" => Box::pin(async move {
                // Nobody may want to know.
                let _ = this.heard.send((request.method, None));
                let released = this.release.acquire().await.map(SemaphorePermit::forget);
                released.map_err(|error| ErrorObject::internal(error.to_string()))?;
                Ok(request.params)
            }),
            method => Box::pin(std::future::ready(Err(ErrorObject::method_not_found(method).into()))),
        }
    }

    fn notify(&self, notification: Notification, _: CallContext) -> NotifyFuture {
        // Nobody may want to know.
        let heard = self.heard.clone();
        Box::pin(async move { drop(heard.send((notification.method, notification.params))) })
    }
}

fn as_asked() -> ErrorObject {
    ErrorObject::invalid_params("as asked").data(RawJson::string("and why"))
}
