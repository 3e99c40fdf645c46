//! Supervised clients: lost connections, hanging servers and lost calls, and the events about them. The servers are
//! scripted, in memory, and the clock is paused.

mod scripted_server;

mod authorize;
mod breaker;
mod end;
mod health;
mod reconnect;
mod restored;
mod retry;
