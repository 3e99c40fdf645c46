//! Methods as types: the name of a method, its parameters and its result.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::revision::Translate;

/// A request method of MCP. The markers are in [`crate::types`], next to their types.
///
/// For methods without a marker, use [`Request::raw`](crate::Request::raw).
pub trait Method {
    /// The method name.
    const NAME: &'static str;
    /// Parameters of the request.
    type Params: Serialize + DeserializeOwned + Translate + Send + Sync + 'static;
    /// Result of the request.
    type Result: Serialize + DeserializeOwned + Translate + Send + Sync + 'static;
}

/// A notification of MCP.
pub trait NotificationMethod {
    /// The method name.
    const NAME: &'static str;
    /// Parameters of the notification.
    type Params: Serialize + DeserializeOwned + Translate + Send + Sync + 'static;
}

macro_rules! method {
    ($(#[$meta:meta])* $Name:ident = $name:literal, $Params:ty => $Result:ty) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        #[non_exhaustive]
        pub struct $Name;

        impl $crate::method::Method for $Name {
            const NAME: &'static str = $name;
            type Params = $Params;
            type Result = $Result;
        }
    };
}
pub(crate) use method;

macro_rules! notification {
    ($(#[$meta:meta])* $Name:ident = $name:literal, $Params:ty) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy)]
        #[non_exhaustive]
        pub struct $Name;

        impl $crate::method::NotificationMethod for $Name {
            const NAME: &'static str = $name;
            type Params = $Params;
        }
    };
}
pub(crate) use notification;
