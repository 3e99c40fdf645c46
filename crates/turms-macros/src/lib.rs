//! The attributes of Turms: `#[tool]`, `#[prompt]`, `#[resource]` and `#[server]`.
//!
//! They expand to calls of the builders in `turms-server`, which can also be written by hand. Use them through the
//! `turms` crate: the expansion refers to it, and its documentation has examples.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod argument;
mod description;
mod errors;
mod expansion;
mod function;
mod generics;
mod item_attribute;
mod parameter;
mod server;
mod template;

use proc_macro::TokenStream;

use crate::item_attribute::ItemKind;

/// Turns a function into a tool: `fn add(a: f64, b: f64) -> f64` becomes `fn add() -> Tool`, to be passed to
/// `Server::tool`.
///
/// Keys: `name`, `title`, `description` (strings); `read_only`, `idempotent`, `blocking`, `task`, `task_required`,
/// `task_deferred` (flags); `destructive`, `open_world` (flags, optionally with `= true` or `= false`).
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(ItemKind::Tool, attribute.into(), item.into()).into()
}

/// Turns a function into a prompt, to be passed to `Server::prompt`.
///
/// Keys: `name`, `title` and `description` (strings).
#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(ItemKind::Prompt, attribute.into(), item.into()).into()
}

/// Turns a function into a resource, or a resource template if the URI has variables, to be passed to
/// `Server::resource`.
///
/// Takes the URI, then the keys `name`, `title`, `description` and `mime_type` (strings).
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(ItemKind::Resource, attribute.into(), item.into()).into()
}

/// Registers the methods of an `impl` block that have `#[tool]`, `#[prompt]` or `#[resource(..)]`. Pass the object to
/// `Server::service`.
#[proc_macro_attribute]
pub fn server(attribute: TokenStream, item: TokenStream) -> TokenStream {
    server::expand(attribute.into(), item.into()).into()
}
