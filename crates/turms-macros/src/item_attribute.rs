//! Parsing of `#[tool(..)]`, `#[prompt(..)]` and `#[resource(..)]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, Error, Expr, ExprLit, Ident, Lit, LitStr, Meta, Result, Token};

use crate::template::Template;

/// A parsed attribute.
pub(crate) struct ItemAttribute {
    pub(crate) kind: ItemKind,
    /// The URI of a resource.
    pub(crate) uri: Option<Template>,
    entries: Vec<AttributeEntry>,
}

struct AttributeEntry {
    key: Ident,
    value: Option<Lit>,
}

impl ItemAttribute {
    /// Parses the tokens in the parentheses.
    pub(crate) fn parse(kind: ItemKind, tokens: TokenStream) -> Result<Self> {
        (|input: ParseStream<'_>| Self::parse_stream(kind, input)).parse2(tokens)
    }

    /// Parses an attribute of a method; `None` if it is not one of ours.
    pub(crate) fn of_attribute(attribute: &Attribute) -> Option<Result<Self>> {
        let word = &attribute.path().segments.last()?.ident;
        let kind = ItemKind::ALL.into_iter().find(|kind| word == kind.attribute_name())?;
        Some(match &attribute.meta {
            Meta::Path(_) => Self::parse(kind, TokenStream::new()).map_err(|error| at(&error, word.span())),
            Meta::List(list) => Self::parse(kind, list.tokens.clone()),
            Meta::NameValue(pair) => Err(Error::new_spanned(pair, format!("write `#[{word}(..)]`"))),
        })
    }

    fn parse_stream(kind: ItemKind, input: ParseStream<'_>) -> Result<Self> {
        let uri = match kind {
            ItemKind::Resource => Some(Template::parse(&uri(input)?)?),
            ItemKind::Tool | ItemKind::Prompt => None,
        };
        let mut entries: Vec<AttributeEntry> = Vec::new();
        while !input.is_empty() {
            let entry = AttributeEntry::parse(kind, input)?;
            if entries.iter().any(|earlier| earlier.key == entry.key) {
                let problem = format!("`{}` is specified twice", entry.key);
                return Err(Error::new(entry.key.span(), problem));
            }
            entries.push(entry);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self { kind, uri, entries })
    }

    /// Returns the name for clients: from the attribute, else the function name.
    pub(crate) fn name(&self, function: &Ident) -> Result<LitStr> {
        let given = self.entries.iter().find(|entry| entry.key == "name");
        let name = match given.and_then(|entry| entry.value.as_ref()) {
            Some(Lit::Str(name)) => name.clone(),
            _ => LitStr::new(&function.unraw().to_string(), function.span()),
        };
        if self.kind == ItemKind::Tool && !is_tool_name(&name.value()) {
            let problem = format!(
                "{:?} cannot be the name of a tool: a name is 1 to 128 letters (a to z, A to Z), digits, `_`, `-` and \
                 `.`",
                name.value()
            );
            return Err(Error::new(name.span(), problem));
        }
        Ok(name)
    }

    /// Expands to the builder with all keys of the attribute. `documentation` is the description unless the attribute
    /// has one.
    pub(crate) fn builder(&self, name: &LitStr, documentation: Option<&str>) -> TokenStream {
        let path = self.kind.path();
        let begun = match &self.uri {
            Some(template) => {
                let uri = &template.uri;
                quote!(#path::builder(#uri).name(#name))
            }
            None => quote!(#path::builder(#name)),
        };
        let own_description = self.entries.iter().any(|entry| entry.key == "description");
        let description = documentation.filter(|_| !own_description).into_iter();
        let calls = self.entries.iter().filter(|entry| entry.key != "name").map(|entry| {
            let AttributeEntry { key, value } = entry;
            quote!(.#key(#value))
        });
        quote!(#begun #(.description(#description))* #(#calls)*)
    }
}

impl AttributeEntry {
    fn parse(kind: ItemKind, input: ParseStream<'_>) -> Result<Self> {
        let key = input.call(Ident::parse_any)?;
        let known = kind.keys().iter().find(|(name, _)| key == name);
        let Some((_, form)) = known else {
            let names: Vec<_> = kind.keys().iter().map(|(name, _)| format!("`{name}`")).collect();
            let problem =
                format!("unknown key `{key}` in `#[{}]`; expected one of {}", kind.attribute_name(), names.join(", "));
            return Err(Error::new(key.span(), problem));
        };
        let value = if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            Some(input.parse::<Expr>()?)
        } else {
            None
        };
        let value = form.check(&key, value)?;
        Ok(Self { key, value })
    }
}

/// Value of a key.
#[derive(Clone, Copy)]
enum ValueForm {
    /// No value.
    Flag,
    /// No value, or `true` or `false`.
    Choice,
    /// A string.
    Text,
}

impl ValueForm {
    /// Returns the literal to pass to the builder method with the name of the key.
    fn check(self, key: &Ident, value: Option<Expr>) -> Result<Option<Lit>> {
        match (self, value) {
            (Self::Flag, None) => Ok(None),
            (Self::Flag, Some(value)) => {
                Err(Error::new_spanned(value, format!("`{key}` is a flag and takes no value")))
            }
            (Self::Choice, None) => Ok(Some(syn::parse_quote!(true))),
            (Self::Choice, Some(Expr::Lit(ExprLit { lit: Lit::Bool(choice), .. }))) => Ok(Some(Lit::Bool(choice))),
            (Self::Choice, Some(value)) => Err(Error::new_spanned(value, format!("`{key}` takes `true` or `false`"))),
            (Self::Text, Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. }))) => Ok(Some(Lit::Str(text))),
            (Self::Text, Some(value)) => {
                Err(Error::new_spanned(value, format!("`{key}` takes a string literal: `{key} = \"..\"`")))
            }
            (Self::Text, None) => {
                Err(Error::new(key.span(), format!("`{key}` takes a string literal: `{key} = \"..\"`")))
            }
        }
    }
}

/// ItemKind of item that a function is turned into.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemKind {
    Tool,
    Prompt,
    Resource,
}

impl ItemKind {
    const ALL: [Self; 3] = [Self::Tool, Self::Prompt, Self::Resource];

    /// Returns the name of the attribute, which is also the name of the method of `Server`.
    pub(crate) fn attribute_name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }

    /// Returns the type of the item.
    pub(crate) fn path(self) -> TokenStream {
        let name = match self {
            Self::Tool => "Tool",
            Self::Prompt => "Prompt",
            Self::Resource => "Resource",
        };
        let name = format_ident!("{name}");
        quote!(::turms::#name)
    }

    /// Returns the keys of the attribute; each is also a method of the builder.
    fn keys(self) -> &'static [(&'static str, ValueForm)] {
        match self {
            Self::Tool => &[
                ("name", ValueForm::Text),
                ("title", ValueForm::Text),
                ("description", ValueForm::Text),
                ("read_only", ValueForm::Flag),
                ("idempotent", ValueForm::Flag),
                ("blocking", ValueForm::Flag),
                ("task", ValueForm::Flag),
                ("task_required", ValueForm::Flag),
                ("task_deferred", ValueForm::Flag),
                ("destructive", ValueForm::Choice),
                ("open_world", ValueForm::Choice),
            ],
            Self::Prompt => &[("name", ValueForm::Text), ("title", ValueForm::Text), ("description", ValueForm::Text)],
            Self::Resource => &[
                ("name", ValueForm::Text),
                ("title", ValueForm::Text),
                ("description", ValueForm::Text),
                ("mime_type", ValueForm::Text),
            ],
        }
    }
}

fn uri(input: ParseStream<'_>) -> Result<LitStr> {
    let missing = "`#[resource]` needs the URI as a string literal: `#[resource(\"config://app\")]`";
    let uri = input.parse::<LitStr>().map_err(|error| Error::new(error.span(), missing))?;
    if !input.is_empty() {
        input.parse::<Token![,]>()?;
    }
    Ok(uri)
}

fn is_tool_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// Moves an error to another span: a missing value is reported at the attribute of the method, not at `#[server]`.
fn at(error: &Error, span: Span) -> Error {
    Error::new(span, error)
}
