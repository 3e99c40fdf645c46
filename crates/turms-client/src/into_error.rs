//! Conversions of the errors of clients into [`turms_core::Error`].

turms_core::__internal::into_error! {
    Connection: crate::GroupError,
    Connection: crate::PoolError,
    Other: crate::CallError,
    Setup: crate::ConfigError,
    Setup: crate::EntryError,
}

impl From<crate::HandlerError> for turms_core::Error {
    fn from(error: crate::HandlerError) -> Self {
        Self::new(turms_core::ErrorKind::Other, error.into_boxed())
    }
}

#[cfg(feature = "skills")]
turms_core::__internal::into_error! {
    Other: crate::SkillError,
}
