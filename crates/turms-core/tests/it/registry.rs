//! Services by name, in the local registry and in another implementation.

use std::error::Error as _;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::Duration;

use turms_core::registry::{
    LocalRegistry, RegisterError, Registration, Registry, RegistryError, ServiceCallError, ServiceCallOptions,
    ServiceName, ServiceRegistry, contract,
};
use turms_core::{BoxFuture, CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
use turms_proto::types::{CallTool, CallToolParams, CallToolResult, Meta, Outcome, Ping};
use turms_proto::{ErrorObject, MethodName, Notification, RawJson};

/// A service made of a function.
struct FunctionService<F>(F);

impl<F: Fn(Request, CallContext) -> ResponseFuture + Send + Sync + 'static> Service for FunctionService<F> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        (self.0)(request, cx)
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

fn function<F: Fn(Request, CallContext) -> ResponseFuture + Send + Sync + 'static>(function: F) -> FunctionService<F> {
    FunctionService(function)
}

/// Responds with the parameters.
fn echo() -> impl Service {
    function(|request, _| Box::pin(std::future::ready(Ok(request.params))))
}

/// Never responds.
fn never() -> impl Service {
    function(|_, _| Box::pin(pending()))
}

/// Returns the output of a future that is ready.
fn now<F: IntoFuture>(future: F) -> F::Output {
    match pin!(future.into_future()).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}

fn register(services: &ServiceRegistry, name: &str, service: impl Service) -> Registration {
    now(services.register(name, service)).unwrap()
}

#[tokio::test]
async fn the_local_registry_keeps_the_contract() {
    contract::check(&ServiceRegistry::local()).await;
    contract::check_apart(&ServiceRegistry::local(), &ServiceRegistry::local()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_local_registry_keeps_the_contract_on_many_threads() {
    contract::check(&ServiceRegistry::default()).await;
}

#[tokio::test]
async fn a_remote_registry_keeps_the_contract() {
    contract::check(&ServiceRegistry::new(RemoteRegistry::default())).await;
    contract::check_apart(
        &ServiceRegistry::new(RemoteRegistry::default()),
        &ServiceRegistry::new(RemoteRegistry::default()),
    )
    .await;
}

#[test]
fn values_are_moved_to_the_service_and_back() {
    let services = ServiceRegistry::local();
    let seen = Arc::new(Mutex::new(None));
    let _greeter = register(&services, "greeter", {
        let seen = seen.clone();
        function(move |request, _| {
            let params: CallToolParams = request.params.take().unwrap();
            *seen.lock().unwrap() = Some(params.name.as_ptr() as usize);
            Box::pin(std::future::ready(Ok(Payload::new(params))))
        })
    });

    let text = "long enough to live on the heap".to_owned();
    let address = text.as_ptr() as usize;
    let params = Payload::new(CallToolParams::new(text));
    let response: CallToolParams = now(services.call("greeter", "greet", params)).unwrap().take().unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(address));
    assert_eq!(response.name.as_ptr() as usize, address);
}

#[test]
fn a_known_method_is_called_with_its_types() {
    let services = ServiceRegistry::local();
    let _tools = register(
        &services,
        "tools",
        function(|request, _| {
            assert_eq!(&*request.method, "tools/call");
            let params: CallToolParams = request.params.take().unwrap();
            Box::pin(std::future::ready(Ok(Payload::new(Outcome::Complete(CallToolResult::from_text(params.name))))))
        }),
    );
    let response = now(services.call_method::<CallTool>("tools", CallToolParams::new("add"))).unwrap();
    assert_eq!(response.complete().unwrap().text(), "add");
}

#[test]
fn a_response_of_another_type_is_an_error() {
    let services = ServiceRegistry::local();
    let _odd =
        register(&services, "odd", function(|_, _| Box::pin(std::future::ready(Ok(RawJson::string("what").into())))));
    let error = now(services.call_method::<Ping>("odd", Default::default())).unwrap_err();
    assert_eq!(error.to_string(), r#"service "odd": invalid response"#);
    assert!(error.source().is_some());
}

#[test]
fn a_call_that_is_ready_needs_neither_a_timer_nor_a_runtime() {
    let services = ServiceRegistry::local();
    let _echo = register(&services, "echo", echo());
    let _later = register(&services, "later", function(|request, _| Box::pin(async { Ok(request.params) })));
    let call = |name| services.registry().call(name, Request::raw("a", Payload::default()), Default::default());
    // Creating a timer would panic without a runtime.
    now(call("echo")).unwrap();
    now(call("later")).unwrap();
}

#[test]
fn a_call_allocates_one_future_in_addition_to_that_of_the_service() {
    let services = ServiceRegistry::local();
    let _echo = register(&services, "echo", echo());
    let params = || Payload::json(RawJson::default());
    let method = MethodName::from_static("a");
    let allocations = allocation_counter::measure(|| {
        now(services.call("echo", method, params())).unwrap();
    });
    assert_eq!(allocations.count_total, 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_times_out() {
    let services = ServiceRegistry::local();
    let _clock = register(&services, "clock", never());
    let start = tokio::time::Instant::now();
    let error = services.call("clock", "now", Payload::default()).timeout(Duration::from_secs(2)).await.unwrap_err();
    assert!(error.is_timeout());
    assert_eq!(error.to_string(), r#"service "clock": no response within 2 s"#);
    assert_eq!(start.elapsed().as_secs(), 2);

    let error = services.call("clock", "now", Payload::default()).await.unwrap_err();
    assert_eq!(error.to_string(), r#"service "clock": no response within 30 s"#);
    assert_eq!(start.elapsed().as_secs(), 32);

    let untimed = services.call("clock", "now", Payload::default()).timeout(None);
    let hour = Duration::from_secs(3600);
    assert!(tokio::time::timeout(hour, untimed).await.is_err(), "a call without a timeout has ended");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_dropped() {
    let services = ServiceRegistry::local();
    let held = Arc::new(());
    let _clock = register(&services, "clock", {
        let held = held.clone();
        function(move |_, _| {
            let held = held.clone();
            Box::pin(async move {
                let _held = held;
                pending().await
            })
        })
    });
    services.call("clock", "now", Payload::default()).await.unwrap_err();
    assert_eq!(Arc::strong_count(&held), 2, "a call that has timed out still runs");
    let mut call = Box::pin(services.call("clock", "now", Payload::default()).into_future());
    assert!(call.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    assert_eq!(Arc::strong_count(&held), 3);
    drop(call);
    assert_eq!(Arc::strong_count(&held), 2, "a dropped call still runs");
}

#[test]
fn metadata_is_in_the_context_and_not_in_the_parameters() {
    let services = ServiceRegistry::local();
    let _meta = register(
        &services,
        "meta",
        function(|request, cx| {
            assert_eq!(format!("{:?}", request.params), "{}");
            let caller = cx.meta().and_then(|meta| meta.get("caller"));
            Box::pin(std::future::ready(Ok(caller.unwrap_or_else(|| RawJson::string("none")).into())))
        }),
    );
    let meta = Meta::new().with("caller", "test").unwrap();
    let call = || services.call("meta", "a", Payload::default());
    assert_eq!(now(call()).unwrap().take::<String>().unwrap(), "none");
    assert_eq!(now(call().meta(meta.clone())).unwrap().take::<String>().unwrap(), "test");
    let options = ServiceCallOptions::default().timeout(Duration::ZERO).meta(meta);
    assert_eq!(now(call().options(options)).unwrap().take::<String>().unwrap(), "test");
}

/// Records notifications; the method determines how each one is handled.
#[derive(Clone, Default)]
struct NotificationRecorder {
    received: Arc<Mutex<Vec<String>>>,
}

impl Service for NotificationRecorder {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        Box::pin(std::future::ready(Err(ErrorObject::method_not_found(&request.method).into())))
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        let meta = cx.meta().map(|meta| meta.as_str().to_owned()).unwrap_or_default();
        let Notification { method, params, .. } = notification;
        let params = params.map(|params| params.to_string()).unwrap_or_default();
        self.received.lock().unwrap().push(format!("{method}{params}{meta}"));
        match &*method {
            "panic" => panic!("expected panic"),
            "panic-later" => Box::pin(async { panic!("expected panic") }),
            "never" => Box::pin(pending()),
            "later" => Box::pin(async {}),
            _ => Box::pin(async {}),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn notifications_are_handled() {
    let services = ServiceRegistry::local();
    let recorder = NotificationRecorder::default();
    let _recorder = register(&services, "recorder", recorder.clone());
    let notify = |method: &'static str| services.notify("recorder", Notification::raw(method, None));
    now(notify("now")).unwrap();
    for method in ["later", "panic", "panic-later"] {
        notify(method).await.unwrap();
    }
    assert!(notify("never").await.unwrap_err().is_timeout());

    let options = ServiceCallOptions::default().meta(Meta::new().with("a", &1).unwrap());
    let notification = Notification::raw("params", Some(RawJson::encode(&[7]).unwrap()));
    services.registry().notify("recorder", notification, options).await.unwrap();
    let received = recorder.received.lock().unwrap().join(" ");
    assert_eq!(received, r#"now later panic panic-later never params[7]{"a":1}"#);
}

#[test]
fn errors_name_the_service() {
    let services = ServiceRegistry::local();
    let _broken = register(
        &services,
        "broken",
        function(|_, _| Box::pin(std::future::ready(Err(ErrorObject::internal("no").into())))),
    );
    let error = |name| now(services.call(name, "a", Payload::default())).unwrap_err();
    assert_eq!(error("clock").to_string(), r#"service "clock": not registered"#);
    let broken = error("broken");
    assert_eq!(broken.to_string(), r#"service "broken": error response"#);
    assert_eq!(broken.source().unwrap().to_string(), broken.service_error().unwrap().to_string());
    assert_eq!(broken.name(), "broken");

    let taken = now(services.register("broken", echo())).unwrap_err();
    assert!(taken.is_taken());
    assert_eq!(taken.to_string(), r#"service "broken": the name is already registered"#);
    let invalid = now(services.register("a clock", echo())).unwrap_err();
    assert!(matches!(invalid, RegisterError::Name(_)), "{invalid}");
}

#[test]
fn names_are_listed_in_order() {
    let services = ServiceRegistry::local();
    let names = |services: &ServiceRegistry| now(services.names()).unwrap().iter().map(ToString::to_string).collect();
    let _registrations: Vec<_> =
        (0..1000).rev().map(|index| register(&services, &format!("{index:03}"), echo())).collect();
    let listed: Vec<String> = names(&services);
    assert_eq!(listed, (0..1000).map(|index| format!("{index:03}")).collect::<Vec<_>>());
    for name in &listed {
        now(services.call(name, "a", Payload::default())).unwrap();
    }
    assert_eq!(names(&ServiceRegistry::local()), Vec::<String>::new());
}

#[test]
fn dropping_a_registration_drops_the_service() {
    let registry = LocalRegistry::new();
    let name = ServiceName::new("echo").unwrap();
    let service: Arc<dyn Service> = Arc::new(echo());
    for _ in 0..2 {
        let registration = now(registry.register(name.clone(), service.clone())).unwrap();
        assert_eq!(format!("{registration:?} {registry:?}"), r#"Registration("echo") LocalRegistry(["echo"])"#);
        assert_eq!(Arc::strong_count(&service), 2);
        drop(registration);
        assert_eq!(Arc::strong_count(&service), 1);
        assert!(now(registry.check("echo")).unwrap_err().is_not_found());
    }
}

#[test]
fn a_registration_may_outlive_its_registry() {
    let services = ServiceRegistry::local();
    let service: Arc<dyn Service> = Arc::new(echo());
    let registration = register(&services, "echo", service.clone());
    drop(services);
    assert_eq!(Arc::strong_count(&service), 1);
    drop(registration);
}

#[test]
fn a_service_may_use_the_registry_while_it_is_called_or_dropped() {
    let services = ServiceRegistry::local();
    let inner = register(&services, "inner", echo());
    let outer = register(&services, "outer", {
        let (services, inner) = (services.clone(), Mutex::new(Some(inner)));
        function(move |request, _| {
            let extra = register(&services, "extra", echo());
            let response = now(services.call("inner", "a", request.params)).unwrap();
            now(services.call("extra", "a", response)).unwrap();
            drop(extra);
            Box::pin(std::future::ready(Ok(RawJson::encode(&inner.lock().unwrap().is_some()).unwrap().into())))
        })
    });
    assert!(now(services.call("outer", "a", Payload::default())).unwrap().take::<bool>().unwrap());
    drop(outer);
    assert!(
        now(services.names()).unwrap().is_empty(),
        "the registration that the service holds was not dropped with it"
    );
}

#[test]
fn a_service_may_drop_its_own_registration() {
    let services = ServiceRegistry::local();
    let own = Arc::new(Mutex::new(None));
    let service = function({
        let own = own.clone();
        move |request, _| {
            drop(own.lock().unwrap().take());
            Box::pin(std::future::ready(Ok(request.params)))
        }
    });
    *own.lock().unwrap() = Some(register(&services, "once", service));
    now(services.call("once", "a", Payload::default())).unwrap();
    assert!(now(services.call("once", "a", Payload::default())).unwrap_err().is_not_found());
}

#[test]
fn services_can_be_registered_and_unregistered_during_calls() {
    const ROUNDS: usize = 2000;
    let services = ServiceRegistry::local();
    let _steady: Vec<_> = (0..500).map(|index| register(&services, &format!("steady/{index}"), echo())).collect();
    let (holders, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let registrars: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        if let Ok(registration) = now(services.register("fleeting", echo())) {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "a name is registered twice");
                            now(services.call("fleeting", "a", Payload::default())).unwrap();
                            holders.fetch_sub(1, Ordering::SeqCst);
                            drop(registration);
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    now(services.call("steady/7", "a", Payload::default())).unwrap();
                    if let Err(error) = now(services.call("fleeting", "a", Payload::default())) {
                        assert!(error.is_not_found(), "{error}");
                    }
                }
            });
        }
        let ended: Vec<_> = registrars.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert!(now(services.check("fleeting")).unwrap_err().is_not_found());
    assert_eq!(now(services.names()).unwrap().len(), 500);
}

#[tokio::test]
async fn errors_of_an_unreachable_registry_have_their_cause() {
    let remote = RemoteRegistry::default();
    remote.is_down.store(true, Ordering::Relaxed);
    let services = ServiceRegistry::new(Arc::new(remote));
    let error = services.call("clock", "now", Payload::default()).await.unwrap_err();
    assert!(error.is_unreachable());
    assert_eq!(error.to_string(), r#"service "clock": cannot be reached"#);
    let registry = error.source().unwrap();
    assert_eq!(registry.to_string(), "the registry cannot be reached");
    assert_eq!(registry.source().unwrap().to_string(), "the network is down");
    let error = services.register("clock", echo()).await.unwrap_err();
    assert_eq!(error.to_string(), r#"service "clock": cannot be registered"#);
    assert_eq!(services.names().await.unwrap_err().to_string(), "the registry cannot be reached");
}

#[test]
fn public_types_are_send_and_sync() {
    fn assert_send_and_sync<T: Send + Sync>() {}
    fn assert_send<T: Send>(_: &T) {}
    assert_send_and_sync::<ServiceRegistry>();
    assert_send_and_sync::<LocalRegistry>();
    assert_send_and_sync::<Registration>();
    assert_send_and_sync::<ServiceCallError>();
    let services = ServiceRegistry::local();
    assert_send(&services.call_method::<Ping>("a", Default::default()).into_future());
}

/// A registry that simulates a network: futures are pending at first, and values are encoded as JSON.
#[derive(Clone, Default)]
struct RemoteRegistry {
    remote: ServiceRegistry,
    is_down: Arc<AtomicBool>,
}

impl RemoteRegistry {
    async fn connect(&self) -> Result<(), RegistryError> {
        tokio::task::yield_now().await;
        if self.is_down.load(Ordering::Relaxed) { Err(RegistryError::new("the network is down")) } else { Ok(()) }
    }

    async fn connect_to(&self, name: &str) -> Result<(), ServiceCallError> {
        self.connect().await.map_err(|source| ServiceCallError::Unreachable { name: name.to_owned(), source })
    }
}

impl Registry for RemoteRegistry {
    fn register(
        &self,
        name: ServiceName,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'static, Result<Registration, RegisterError>> {
        let this = self.clone();
        Box::pin(async move {
            let unreachable = |source| RegisterError::Unreachable { name: name.clone(), source };
            this.connect().await.map_err(unreachable)?;
            let registration = this.remote.registry().register(name.clone(), service).await?;
            Ok(Registration::new(name, move || {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    drop(registration);
                });
            }))
        })
    }

    fn call(
        &self,
        name: &str,
        request: Request,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<Payload, ServiceCallError>> {
        let (this, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            this.connect_to(&name).await?;
            let request = Request::raw(request.method, request.params.into_raw().unwrap());
            let response = this.remote.registry().call(&name, request, options).await?;
            Ok(response.into_raw().unwrap().into())
        })
    }

    fn notify(
        &self,
        name: &str,
        notification: Notification,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<(), ServiceCallError>> {
        let (this, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            this.connect_to(&name).await?;
            this.remote.registry().notify(&name, notification, options).await
        })
    }

    fn names(&self) -> BoxFuture<'static, Result<Vec<ServiceName>, RegistryError>> {
        let this = self.clone();
        Box::pin(async move {
            this.connect().await?;
            this.remote.names().await
        })
    }

    fn check(&self, name: &str) -> BoxFuture<'static, Result<(), ServiceCallError>> {
        let (this, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            this.connect_to(&name).await?;
            this.remote.check(&name).await
        })
    }
}
