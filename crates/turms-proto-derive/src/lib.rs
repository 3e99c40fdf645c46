//! `#[derive(ProtocolObject)]` for the object types of `turms-proto`. It has no use outside of that crate: the code that it
//! writes refers to private items there.
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
//! The macro implements `Serialize`, `Deserialize` and `DecodeObject`, `Default` if no field is required, and `Translate`
//! unless the type has `#[object(custom_translate)]`. It writes `new`, and a setter for each field that `new` does not take.
//!
//! | attribute of a field | meaning |
//! |---|---|
//! | `rename = "…"` | the name on the wire, if it is not the field's name in camel case |
//! | `default = …` | the value after `new` |
//! | `since = V…`, `until = V…`, `only = V…` | the revisions that define the member; lowering to another revision drops it |
//! | `required` | an `Option` that is always there, and `null` if it is `None` |
//! | `unknown` | takes the members that the type does not know; every type has one such field |
//!
//! `#[object(tag("type", "text"))]` on the type is a member with a constant value.

mod expand;
mod field;
mod parse;

use proc_macro::TokenStream;

/// Derives the serialization, the constructor and the translation of an object type. See the crate's documentation.
#[proc_macro_derive(ProtocolObject, attributes(object))]
pub fn protocol_object(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    match parse::ObjectType::parse(&input) {
        Ok(object) => expand::expand(&object).into(),
        Err(error) => error.into_compile_error().into(),
    }
}
