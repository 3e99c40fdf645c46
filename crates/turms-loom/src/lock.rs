//! A mutex and a cell that loom schedules inside of a model.

use std::ops::{Deref, DerefMut};

use crate::is_model;

/// A `parking_lot::Mutex`, or loom's if it is created inside of a model.
#[derive(Debug)]
pub struct Mutex<T>(MutexKind<T>);

#[derive(Debug)]
enum MutexKind<T> {
    Plain(parking_lot::Mutex<T>),
    Model(Box<loom::sync::Mutex<T>>),
}

impl<T> Mutex<T> {
    /// Creates a mutex.
    pub fn new(value: T) -> Self {
        Self(match is_model() {
            true => MutexKind::Model(Box::new(loom::sync::Mutex::new(value))),
            false => MutexKind::Plain(parking_lot::Mutex::new(value)),
        })
    }

    /// Acquires the lock. Blocks while another thread holds it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(match &self.0 {
            MutexKind::Plain(mutex) => GuardKind::Plain(mutex.lock()),
            MutexKind::Model(mutex) => {
                GuardKind::Model(mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
            }
        })
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// The guard of a [`Mutex`]. Dropping it releases the lock.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(GuardKind<'a, T>);

#[derive(Debug)]
enum GuardKind<'a, T> {
    Plain(parking_lot::MutexGuard<'a, T>),
    Model(loom::sync::MutexGuard<'a, T>),
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            GuardKind::Plain(guard) => guard,
            GuardKind::Model(guard) => guard,
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            GuardKind::Plain(guard) => guard,
            GuardKind::Model(guard) => guard,
        }
    }
}

/// A `std::sync::OnceLock`. Inside of a model, loom schedules each access.
#[derive(Debug)]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    access: Mutex<()>,
}

impl<T> OnceLock<T> {
    /// Creates an empty cell.
    #[must_use]
    pub fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), access: Mutex::default() }
    }

    /// Returns the value, if it is set.
    pub fn get(&self) -> Option<&T> {
        let _access = self.access.lock();
        self.value.get()
    }

    /// Sets the value.
    ///
    /// # Errors
    /// Returns the value if the cell is already set.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _access = self.access.lock();
        self.value.set(value)
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_a_model_the_locks_are_plain() {
        let (mutex, cell) = (Mutex::new(1), OnceLock::new());
        *mutex.lock() += 1;
        assert_eq!(*mutex.lock(), 2);
        assert_eq!((cell.get(), cell.set(3), cell.set(4), cell.get()), (None, Ok(()), Err(4), Some(&3)));
    }
}
