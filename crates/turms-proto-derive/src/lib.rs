//! `#[derive(ProtocolObject)]` for the object types of `turms-proto`. It cannot be used in other crates, because the
//! generated code refers to private items.
//!
//! ```ignore
//! /// A tool.
//! #[derive(Debug, Clone, PartialEq, ProtocolObject)]
//! #[non_exhaustive]
//! pub struct Tool {
//!     /// Required: a parameter of `new`.
//!     pub name: String,
//!     /// Required on the wire, but `new` sets a default.
//!     #[object(default = Object::new())]
//!     pub input_schema: Object,
//!     /// Optional, and only defined by some revisions.
//!     #[object(since = V2025_06_18)]
//!     pub title: Option<String>,
//!     /// The members that the type does not know.
//!     #[object(unknown)]
//!     pub extra: Object,
//! }
//! ```
//!
//! The macro implements `Serialize`, `Deserialize` and `DecodeObject`, `Default` if no field is required, and
//! `Translate` unless the type has `#[object(custom_translate)]`. It generates `new`, and a setter for each field that
//! is not a parameter of `new`.
//!
//! | attribute of a field | meaning |
//! |---|---|
//! | `rename = "…"` | the wire name, if it is not the field name in camel case |
//! | `default = …` | the value after `new` |
//! | `since = V…`, `until = V…`, `only = V…` | the revisions that define the member; lowering to another revision drops it |
//! | `required` | an `Option` that is always present, and `null` if it is `None` |
//! | `unknown` | holds the unknown members; every type has one such field |
//!
//! `#[object(tag("type", "text"))]` on the type adds a member with a constant value.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod expand;
mod field;
mod parse;

use proc_macro::TokenStream;

/// Derives serialization, the constructor, setters and translation of an object type. See the crate documentation.
#[proc_macro_derive(ProtocolObject, attributes(object))]
pub fn protocol_object(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    match parse::ObjectType::parse(&input) {
        Ok(object) => expand::expand(&object).into(),
        Err(error) => error.into_compile_error().into(),
    }
}
