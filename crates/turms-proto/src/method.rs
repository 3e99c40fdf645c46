//! Methods as types: what a method is called, what it takes, what it gives.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::revision::Translate;

/// A request that MCP defines. The markers stand beside their types, in [`crate::types`].
///
/// Methods nobody here knows go through [`Request::raw`](crate::Request::raw).
pub trait Method {
    /// The name on the wire.
    const NAME: &'static str;
    /// What the request carries.
    type Params: Serialize + DeserializeOwned + Translate + Send + Sync + 'static;
    /// What the answer carries.
    type Result: Serialize + DeserializeOwned + Translate + Send + Sync + 'static;
}

/// A notification that MCP defines.
pub trait Notification {
    /// The name on the wire.
    const NAME: &'static str;
    /// What the notification carries.
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

        impl $crate::method::Notification for $Name {
            const NAME: &'static str = $name;
            type Params = $Params;
        }
    };
}
pub(crate) use notification;
