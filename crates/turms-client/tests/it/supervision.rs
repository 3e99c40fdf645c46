//! A client that keeps going: what it does about connections that end, servers that hang and calls that are lost, and what it
//! tells of it. Over pairs in memory, with a clock that stands still unless everybody waits.

mod scripted_server;

mod authorize;
mod breaker;
mod end;
mod health;
mod reconnect;
mod restored;
mod retry;
