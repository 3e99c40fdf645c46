//! Conversions of the errors of servers into [`turms_core::Error`].

turms_core::__internal::into_error! {
    Build: crate::BuildError,
    Build: crate::RegistrationError,
    Other: crate::InputError,
    Other: crate::testing::TestError,
}

#[cfg(feature = "skills")]
turms_core::__internal::into_error! {
    Setup: crate::SkillError,
}
