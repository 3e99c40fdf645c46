//! The attribute macros of Turms: `#[tool]`, `#[prompt]`, `#[resource]` and `#[handlers]`.
//!
//! They expand to calls of the builders in `turms-server`. Use them through the `turms` crate: the generated code
//! refers to it, and its documentation has examples.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod argument;
mod description;
mod errors;
mod expansion;
mod function;
mod generics;
mod handlers;
mod item_attribute;
mod parameter;
mod template;

use proc_macro::TokenStream;

use crate::item_attribute::ItemKind;

/// Turns a function into a tool: `fn add(a: f64, b: f64) -> f64` becomes `fn add() -> Tool`, to be passed to
/// `Server::tool`.
///
/// Keys: `name`, `title`, `description` (strings); `read_only`, `idempotent`, `blocking` (flags); `destructive`,
/// `open_world` (flags, optionally with `= true` or `= false`); `task`, `task = "required"`, `task = "deferred"`;
/// `icon`, `meta`, `scopes`, `layer` (expressions); `crate` (a path).
#[proc_macro_attribute]
pub fn tool(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(ItemKind::Tool, attribute.into(), item.into()).into()
}

/// Turns a function into a prompt, to be passed to `Server::prompt`.
///
/// Keys: `name`, `title` and `description` (strings); `icon`, `meta`, `scopes`, `layer` (expressions); `crate` (a path).
#[proc_macro_attribute]
pub fn prompt(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(ItemKind::Prompt, attribute.into(), item.into()).into()
}

/// Turns a function into a resource, or a resource template if the URI has variables, to be passed to
/// `Server::resource`.
///
/// Takes the URI, then the keys `name`, `title`, `description` and `mime_type` (strings); `icon`, `meta`, `scopes`,
/// `layer`, `cache` (expressions); `crate` (a path).
#[proc_macro_attribute]
pub fn resource(attribute: TokenStream, item: TokenStream) -> TokenStream {
    function::expand(ItemKind::Resource, attribute.into(), item.into()).into()
}

/// Registers the methods of an `impl` block that have `#[tool]`, `#[prompt]` or `#[resource(..)]`. Pass the object to
/// `Server::handlers`.
///
/// Keys: `crate` (a path).
#[proc_macro_attribute]
#[doc(alias = "tool_router")]
#[doc(alias = "server_handler")]
pub fn handlers(attribute: TokenStream, item: TokenStream) -> TokenStream {
    handlers::expand(attribute.into(), item.into()).into()
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    #[test]
    fn the_expansion_names_the_crate_by_the_given_path() {
        let item = quote! {
            fn add(a: T, b: Option<u8>, context: Context) -> i64 {}
        };
        for kind in [ItemKind::Tool, ItemKind::Prompt] {
            let renamed = function::expand(kind, quote!(crate = toolkit, icon = "i"), item.clone()).to_string();
            assert!(renamed.contains("toolkit ::") && !renamed.contains("turms"), "{renamed}");
        }
        let block = quote! {
            impl<T: Store> Api<T> {
                #[tool(icon = "i")]
                fn add(&self, a: T, b: Option<u8>) -> i64 {}
            }
        };
        for attribute in [quote!(crate = toolkit), quote!(crate = "toolkit")] {
            let renamed = handlers::expand(attribute, block.clone()).to_string();
            assert!(renamed.contains("toolkit ::") && !renamed.contains("turms"), "{renamed}");
        }
    }
}
