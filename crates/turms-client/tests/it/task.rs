//! TaskOptions, against servers that are played by hand: the extension of 2026-07-28 and the experimental tasks of 2025-11-25.
//! The clock stands still unless everybody waits.

mod peer;

mod core;
mod handle;
mod waiting;
