use std::collections::{HashMap, hash_map};
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::{Sleep, sleep};
use turms_proto::Notification;

use super::{RegisterError, Registration, Registry, RegistryError, ServiceCallError, ServiceCallOptions, ServiceName};
use crate::dispatch::{dispatch_in_process, notification_guard};
use crate::{BoxFuture, CallContext, Payload, Request, Service, ServiceError};

/// The registry of one process.
///
/// A call passes the caller's value to the service; nothing is encoded as JSON. A call that is ready when it is first polled needs no
/// timer. Names are locked during the lookup only, not during the call.
///
/// Waiting for a response with a timeout needs the timers of a tokio runtime.
#[derive(Default)]
pub struct LocalRegistry(Arc<ServiceTable>);

impl LocalRegistry {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Registry for LocalRegistry {
    fn register(
        &self,
        name: ServiceName,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'static, Result<Registration, RegisterError>> {
        let services = self.0.clone();
        Box::pin(async move {
            let entry = Arc::new(ServiceEntry { name: name.clone(), service });
            // Weak pointers, because a service can hold its own registration.
            let (table, registered) = (Arc::downgrade(&services), Arc::downgrade(&entry));
            if !services.insert(entry) {
                return Err(RegisterError::Taken { name });
            }
            let own_name = name.clone();
            let unregister = move || {
                if let Some(table) = table.upgrade() {
                    table.remove(&own_name, &registered);
                }
            };
            Ok(Registration::new(name, unregister))
        })
    }

    fn call(
        &self,
        name: &str,
        request: Request,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<Payload, ServiceCallError>> {
        let entry = self.0.get(name);
        Box::pin(async move {
            let entry = entry?;
            let cx = CallContext::in_process().with_meta(options.meta);
            let call = dispatch_in_process(&*entry.service, request, cx);
            entry.wait(call, options.timeout).await?.map_err(|error| entry.failed(error))
        })
    }

    fn notify(
        &self,
        name: &str,
        notification: Notification,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<(), ServiceCallError>> {
        let entry = self.0.get(name);
        Box::pin(async move {
            let entry = entry?;
            let cx = CallContext::in_process().with_meta(options.meta);
            // A handler that panics has handled the notification.
            let _ = entry.wait(notification_guard(&*entry.service, notification, cx), options.timeout).await?;
            Ok(())
        })
    }

    fn names(&self) -> BoxFuture<'static, Result<Vec<ServiceName>, RegistryError>> {
        Box::pin(std::future::ready(Ok(self.0.names())))
    }

    fn check(&self, name: &str) -> BoxFuture<'static, Result<(), ServiceCallError>> {
        Box::pin(std::future::ready(self.0.get(name).map(drop)))
    }
}

impl fmt::Debug for LocalRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalRegistry").field(&self.0.names()).finish()
    }
}

struct ServiceEntry {
    name: ServiceName,
    service: Arc<dyn Service>,
}

impl ServiceEntry {
    fn failed(&self, error: ServiceError) -> ServiceCallError {
        ServiceCallError::Service { name: self.name.to_string(), error: Box::new(error.into_object()) }
    }

    /// Waits for a call. The caller holds the entry, so the service lives until the call has finished.
    ///
    /// The timer is created when the call is pending: many calls are ready when they are first polled.
    async fn wait<T>(
        &self,
        mut call: impl Future<Output = T> + Unpin,
        timeout: Option<Duration>,
    ) -> Result<T, ServiceCallError> {
        let Some(after) = timeout else { return Ok(call.await) };
        let mut timer = pin!(None::<Sleep>);
        poll_fn(move |task| {
            if let Poll::Ready(value) = Pin::new(&mut call).poll(task) {
                return Poll::Ready(Ok(value));
            }
            if timer.is_none() {
                timer.set(Some(sleep(after)));
            }
            let timed_out = timer.as_mut().as_pin_mut().is_some_and(|timer| timer.poll(task).is_ready());
            if timed_out {
                return Poll::Ready(Err(ServiceCallError::TimedOut { name: self.name.to_string(), after }));
            }
            Poll::Pending
        })
        .await
    }
}

/// The registered services by name.
///
/// One lock around one table: it is held for the lookup alone, about 40 ns of a call that takes more than a microsecond.
#[derive(Default)]
struct ServiceTable(RwLock<HashMap<ServiceName, Arc<ServiceEntry>>>);

impl ServiceTable {
    /// Returns the entry of a name. The lock is released: the service may register, unregister and call others.
    fn get(&self, name: &str) -> Result<Arc<ServiceEntry>, ServiceCallError> {
        let entry = self.0.read().get(name).cloned();
        entry.ok_or_else(|| ServiceCallError::NotFound { name: name.to_owned() })
    }

    /// Adds an entry. Returns `false` if its name is taken.
    fn insert(&self, entry: Arc<ServiceEntry>) -> bool {
        match self.0.write().entry(entry.name.clone()) {
            hash_map::Entry::Occupied(_) => false,
            hash_map::Entry::Vacant(vacant) => {
                vacant.insert(entry);
                true
            }
        }
    }

    /// Removes this entry, but not another one that has been registered under the same name since.
    fn remove(&self, name: &ServiceName, entry: &Weak<ServiceEntry>) {
        let mut entries = self.0.write();
        let is_same = entries.get(name).is_some_and(|current| Arc::as_ptr(current) == entry.as_ptr());
        let removed = if is_same { entries.remove(name) } else { None };
        // The service is dropped after the lock is released: its destructor may use this registry.
        drop(entries);
        drop(removed);
    }

    fn names(&self) -> Vec<ServiceName> {
        let mut names: Vec<_> = self.0.read().keys().cloned().collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NotifyFuture, ResponseFuture};

    struct Silent;

    impl Service for Silent {
        fn call(&self, _: Request, _: CallContext) -> ResponseFuture {
            Box::pin(std::future::ready(Err(turms_proto::ErrorObject::internal("silent").into())))
        }

        fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
            Box::pin(async {})
        }
    }

    fn entry(name: &str) -> Arc<ServiceEntry> {
        Arc::new(ServiceEntry { name: name.parse().unwrap(), service: Arc::new(Silent) })
    }

    #[test]
    fn removing_an_entry_leaves_a_later_one_of_the_same_name() {
        let table = ServiceTable::default();
        let (first, second) = (entry("a"), entry("a"));
        let name = first.name.clone();
        assert!(table.insert(first.clone()));
        assert!(!table.insert(second.clone()), "the name was taken");
        table.remove(&name, &Arc::downgrade(&first));
        assert!(table.insert(second.clone()));
        table.remove(&name, &Arc::downgrade(&first));
        assert!(table.get("a").is_ok(), "the later entry was removed");
        table.remove(&name, &Arc::downgrade(&second));
        assert!(table.get("a").is_err());
    }
}
