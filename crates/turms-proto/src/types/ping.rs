//! Liveness check (basic/utilities/ping, until 2025-11-25).

use crate::method::method;
use crate::types::{EmptyParams, EmptyResult};

method!(
    /// `ping`: has an empty result.
    Ping = "ping", EmptyParams => EmptyResult
);
