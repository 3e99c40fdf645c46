//! Conversions of the errors of clients into [`turms_core::Error`].

turms_core::__internal::into_error! {
    Connection: crate::GroupError,
    Connection: crate::PoolError,
    Other: crate::CallError,
    Setup: crate::ConfigError,
}

#[cfg(feature = "skills")]
turms_core::__internal::into_error! {
    Other: crate::SkillError,
}
