//! Is anybody there (basic/utilities/ping, until 2025-11-25).

use crate::method::method;
use crate::types::{EmptyParams, EmptyResult};

method!(
    /// `ping`: answered at once with nothing.
    Ping = "ping", EmptyParams => EmptyResult
);
