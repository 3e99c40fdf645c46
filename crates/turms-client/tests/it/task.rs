//! Tasks with scripted servers: the extension of 2026-07-28 and the experimental tasks of 2025-11-25. The clock is
//! paused.

mod peer;

mod core;
mod handle;
mod waiting;
