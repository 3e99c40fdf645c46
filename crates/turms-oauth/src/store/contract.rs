//! Tests that every implementation of [`TokenStore`] must pass.
