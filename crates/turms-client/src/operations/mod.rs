//! The typed operations of a client.

mod prompts;
mod resources;
mod tools;
mod utilities;
