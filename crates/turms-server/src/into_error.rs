//! Conversions of the errors of servers into [`turms_core::Error`].

turms_core::__internal::into_error! {
    Build: crate::BuildError,
    Build: crate::ComponentError,
    Build: crate::RegistrationError,
    Other: crate::InputError,
    Other: crate::Rejection,
}

impl From<crate::ToolError> for turms_core::Error {
    fn from(error: crate::ToolError) -> Self {
        Self::new(turms_core::ErrorKind::Other, error.into_boxed())
    }
}

#[cfg(feature = "skills")]
turms_core::__internal::into_error! {
    Setup: crate::SkillError,
}
