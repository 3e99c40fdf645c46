use std::fmt;

use super::ServiceName;

/// A service's place in a registry, kept for as long as this is.
///
/// Dropping it takes the service out; calls that have begun are finished.
#[must_use = "the service is taken out again when its registration is dropped"]
pub struct Registration {
    name: ServiceName,
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Registration {
    /// A registration that ends with `end`, which must neither block nor panic. For those who make a registry.
    ///
    /// `end` runs where the registration is dropped, which can be anywhere: whoever has to wait spawns a task.
    pub fn new(name: ServiceName, end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { name, end: Some(Box::new(end)) }
    }

    /// The name of the service.
    #[must_use]
    pub fn name(&self) -> &ServiceName {
        &self.name
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.name).finish()
    }
}
