use std::fmt;

use super::ServiceName;

/// The registration of a service. Dropping it unregisters the service; running calls finish.
#[must_use = "the service is unregistered when its registration is dropped"]
pub struct Registration {
    name: ServiceName,
    unregister: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Registration {
    /// Creates a registration that calls `unregister` when it is dropped. For implementations of
    /// [`Registry`](super::Registry).
    ///
    /// `unregister` runs on the thread that drops the registration. It must not block or panic; to wait for something,
    /// spawn a task.
    pub fn new(name: ServiceName, unregister: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { name, unregister: Some(Box::new(unregister)) }
    }

    /// Returns the name of the service.
    #[must_use]
    pub fn name(&self) -> &ServiceName {
        &self.name
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(unregister) = self.unregister.take() {
            unregister();
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.name).finish()
    }
}
