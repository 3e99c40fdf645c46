//! The attributes of Turms: `#[tool]`, `#[prompt]`, `#[resource]` and `#[server]`.
//!
//! They are sugar over the builders of `turms-server`: whatever they write could be written by hand. Use them through the
//! `turms` crate, whose documentation has the examples; what they write names that crate.

mod argument;
mod description;
mod errors;
mod function;
mod generics;
mod maker;
mod mark;
mod parameter;
mod server;
mod template;

use proc_macro::TokenStream;

use crate::mark::Kind;

/// Makes a tool of a function: `fn add(a: f64, b: f64) -> f64` becomes `fn add() -> Tool`, to be given to `Server::tool`.
///
/// It takes `name`, `title`, `description` (texts), `read_only`, `idempotent`, `blocking`, and `destructive`, `open_world` (alone or
/// with `= true` or `= false`).
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(Kind::Tool, attribute.into(), item.into()).into()
}

/// Makes a prompt of a function, to be given to `Server::prompt`.
///
/// It takes `name`, `title` and `description`.
#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(Kind::Prompt, attribute.into(), item.into()).into()
}

/// Makes a resource of a function, or a family of them if there are variables in its URI; to be given to
/// `Server::resource`.
///
/// It takes the URI, then `name`, `title`, `description` and `mime_type`.
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(Kind::Resource, attribute.into(), item.into()).into()
}

/// Makes a service object of a type: the methods of this `impl` block that are marked `#[tool]`, `#[prompt]` or
/// `#[resource(..)]` are registered by `Server::service`.
#[proc_macro_attribute]
pub fn server(attribute: TokenStream, item: TokenStream) -> TokenStream {
    server::expand(attribute.into(), item.into()).into()
}
