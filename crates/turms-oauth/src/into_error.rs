//! Conversions of the errors of this crate into [`turms_core::Error`].

turms_core::__internal::into_error! {
    Other: crate::JwsError,
    Setup: crate::KeyError,
}

#[cfg(feature = "fetch")]
turms_core::__internal::into_error! {
    Other: crate::FetchError,
    Other: crate::OAuthError,
    Other: crate::OAuthErrorResponse,
}

#[cfg(feature = "client")]
turms_core::__internal::into_error! {
    Other: crate::InvalidRecordError,
    Other: crate::LoginError,
    Other: crate::StoreError,
}

#[cfg(feature = "guard")]
turms_core::__internal::into_error! {
    Other: crate::ReplayStoreError,
    Other: crate::VerifyError,
    Setup: crate::GuardError,
}

#[cfg(feature = "proxy")]
turms_core::__internal::into_error! {
    Other: crate::proxy::UpstreamError,
}
