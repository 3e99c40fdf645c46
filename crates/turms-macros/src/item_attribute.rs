//! Parsing of `#[tool(..)]`, `#[prompt(..)]` and `#[resource(..)]`.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::{Attribute, Error, Expr, ExprLit, Ident, Lit, LitBool, LitStr, Meta, Path, Result, Token};

use crate::template::Template;

/// A parsed `#[tool(..)]`, `#[prompt(..)]` or `#[resource(..)]`.
pub(crate) struct ItemAttribute {
    pub(crate) kind: ItemKind,
    /// The URI of a resource.
    pub(crate) uri: Option<Template>,
    entries: Vec<AttributeEntry>,
}

struct AttributeEntry {
    key: Ident,
    value: EntryValue,
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
            // A component may have icons of several sizes, and several layers.
            let is_repeatable = entry.key == "icon" || entry.key == "layer";
            if !is_repeatable && entries.iter().any(|earlier| earlier.key == entry.key) {
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
        let name = match given.map(|entry| &entry.value) {
            Some(EntryValue::Text(name)) => name.clone(),
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
        let path = self.item_type();
        let new_builder = match &self.uri {
            Some(template) => {
                let uri = &template.uri;
                quote!(#path::builder(#uri).name(#name))
            }
            None => quote!(#path::builder(#name)),
        };
        let own_description = self.entries.iter().any(|entry| entry.key == "description");
        let description = documentation.filter(|_| !own_description).into_iter();
        let turms = self.turms();
        let calls = self.entries.iter().filter_map(|entry| entry.call(&turms));
        quote!(#new_builder #(.description(#description))* #(#calls)*)
    }

    /// Returns the builder method that takes the handler.
    pub(crate) fn handler_method(&self, is_async: bool) -> Result<&'static str> {
        let blocking = self.entries.iter().find(|entry| entry.key == "blocking");
        match (blocking, is_async) {
            (None, true) => Ok("handler"),
            (None, false) => Ok("handler_sync"),
            (Some(_), false) => Ok("handler_blocking"),
            (Some(entry), true) => {
                Err(Error::new(entry.key.span(), "`blocking` is for functions that are not `async`"))
            }
        }
    }

    /// Returns the path of the crate: from the attribute, else `::turms`.
    pub(crate) fn turms(&self) -> Path {
        let own = self.entries.iter().find_map(|entry| match &entry.value {
            EntryValue::Path(path) => Some(path.clone()),
            _ => None,
        });
        own.unwrap_or_else(default_crate)
    }

    /// Sets the path of the crate, unless the attribute has one.
    pub(crate) fn set_default_crate(&mut self, path: Path) {
        if !self.entries.iter().any(|entry| entry.key == "crate") {
            let key = Ident::new("crate", Span::call_site());
            self.entries.push(AttributeEntry { key, value: EntryValue::Path(path) });
        }
    }

    /// Returns the type that the generated function returns, such as `::turms::Tool`.
    pub(crate) fn item_type(&self) -> TokenStream {
        self.kind.path(&self.turms())
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
        let value = form.parse(&key, value)?;
        Ok(Self { key, value })
    }

    /// Expands to the call of the builder method; `None` for keys that are not settings of the builder.
    fn call(&self, turms: &Path) -> Option<TokenStream> {
        let Self { key, value } = self;
        if key == "name" || key == "blocking" {
            return None;
        }
        match value {
            EntryValue::None => Some(quote!(.#key())),
            EntryValue::Choice(choice) => Some(quote!(.#key(#choice))),
            EntryValue::Text(text) => Some(quote!(.#key(#text))),
            EntryValue::Task(method) => Some(quote!(.#method())),
            EntryValue::Icon(Expr::Lit(ExprLit { lit: Lit::Str(uri), .. })) => {
                Some(quote!(.icon(#turms::types::Icon::new(#uri))))
            }
            EntryValue::Icon(value) | EntryValue::Value(value) => Some(quote!(.#key(#value))),
            EntryValue::Cache(ttl, scope) => Some(quote!(.cache(#ttl, #scope))),
            EntryValue::Path(_) => None,
        }
    }
}

/// The parsed value of a key.
enum EntryValue {
    None,
    /// `true` or `false`.
    Choice(LitBool),
    Text(LitStr),
    /// The builder method: `task`, `task_required` or `task_deferred`.
    Task(Ident),
    Icon(Expr),
    Value(Expr),
    /// The time to live and the scope.
    Cache(Expr, Expr),
    /// The path of the crate, of the key `crate`.
    Path(Path),
}

/// Parses `crate = path` or `crate = "path"`.
fn crate_path(value: &Expr) -> Result<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path.clone()),
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.parse(),
        value => Err(Error::new_spanned(value, "`crate` takes the path of the crate: `crate = my_turms`")),
    }
}

/// Parses the arguments of `#[handlers(..)]`: only `crate`.
pub(crate) fn parse_crate(tokens: TokenStream) -> Result<Path> {
    let parse = |input: ParseStream<'_>| {
        if input.is_empty() {
            return Ok(default_crate());
        }
        let key = input.call(Ident::parse_any)?;
        if key != "crate" {
            return Err(Error::new(key.span(), format!("unknown key `{key}` in `#[handlers]`; expected `crate`")));
        }
        input.parse::<Token![=]>()?;
        let path = crate_path(&input.parse()?)?;
        input.parse::<Option<Token![,]>>()?;
        Ok(path)
    };
    parse.parse2(tokens)
}

/// The path of the crate unless it is renamed.
pub(crate) fn default_crate() -> Path {
    syn::parse_quote!(::turms)
}

/// The form of the value that a key takes.
#[derive(Clone, Copy)]
enum ValueForm {
    /// No value.
    Flag,
    /// No value, or `true` or `false`.
    Choice,
    /// A string.
    Text,
    /// No value, or `"required"` or `"deferred"`.
    Task,
    /// A URI, or an expression of type `Icon`.
    Icon,
    /// An expression.
    Value,
    /// A list of strings.
    Scopes,
    /// A time to live and a scope.
    Cache,
    /// A path.
    Path,
}

impl ValueForm {
    /// Parses the value of a key.
    fn parse(self, key: &Ident, value: Option<Expr>) -> Result<EntryValue> {
        match (self, value) {
            (Self::Flag, None) => Ok(EntryValue::None),
            (Self::Flag, Some(value)) => {
                Err(Error::new_spanned(value, format!("`{key}` is a flag and takes no value")))
            }
            (Self::Choice, None) => Ok(EntryValue::Choice(syn::parse_quote!(true))),
            (Self::Choice, Some(Expr::Lit(ExprLit { lit: Lit::Bool(choice), .. }))) => Ok(EntryValue::Choice(choice)),
            (Self::Choice, Some(value)) => Err(Error::new_spanned(value, format!("`{key}` takes `true` or `false`"))),
            (Self::Text, Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. }))) => Ok(EntryValue::Text(text)),
            (Self::Text, Some(value)) => {
                Err(Error::new_spanned(value, format!("`{key}` takes a string literal: `{key} = \"..\"`")))
            }
            (Self::Text, None) => {
                Err(Error::new(key.span(), format!("`{key}` takes a string literal: `{key} = \"..\"`")))
            }
            (Self::Task, None) => Ok(EntryValue::Task(key.clone())),
            (Self::Task, Some(Expr::Lit(ExprLit { lit: Lit::Str(mode), .. })))
                if matches!(mode.value().as_str(), "required" | "deferred") =>
            {
                Ok(EntryValue::Task(Ident::new(&format!("task_{}", mode.value()), mode.span())))
            }
            (Self::Task, Some(value)) => {
                Err(Error::new_spanned(value, "`task` takes no value, `\"required\"` or `\"deferred\"`"))
            }
            (Self::Icon, Some(value)) => Ok(EntryValue::Icon(value)),
            (Self::Icon, None) => {
                Err(Error::new(key.span(), "`icon` takes the URI of an image: `icon = \"https://..\"`"))
            }
            (Self::Value, Some(value)) => Ok(EntryValue::Value(value)),
            (Self::Value, None) => Err(Error::new(key.span(), format!("`{key}` takes a value: `{key} = ..`"))),
            (Self::Scopes, Some(value)) if !matches!(value, Expr::Lit(_)) => Ok(EntryValue::Value(value)),
            (Self::Scopes, value) => {
                let problem = format!("`{key}` takes a list of strings: `{key} = [\"notes:read\"]`");
                Err(value.map_or_else(|| Error::new(key.span(), &problem), |value| Error::new_spanned(value, &problem)))
            }
            (Self::Cache, value) => match value {
                Some(Expr::Tuple(pair)) if pair.elems.len() == 2 => {
                    Ok(EntryValue::Cache(pair.elems[0].clone(), pair.elems[1].clone()))
                }
                value => {
                    let problem = "`cache` takes a time to live and a scope: `cache = (Duration::from_secs(60), \
                                   CacheScope::Public)`";
                    Err(value
                        .map_or_else(|| Error::new(key.span(), problem), |value| Error::new_spanned(value, problem)))
                }
            },
            (Self::Path, Some(value)) => crate_path(&value).map(EntryValue::Path),
            (Self::Path, None) => {
                Err(Error::new(key.span(), "`crate` takes the path of the crate: `crate = my_turms`"))
            }
        }
    }
}

/// The kind of component that a function is turned into.
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
    pub(crate) fn path(self, turms: &Path) -> TokenStream {
        let name = match self {
            Self::Tool => "Tool",
            Self::Prompt => "Prompt",
            Self::Resource => "Resource",
        };
        let name = format_ident!("{name}");
        quote!(#turms::#name)
    }

    /// Returns the keys of the attribute.
    fn keys(self) -> &'static [(&'static str, ValueForm)] {
        match self {
            Self::Tool => &[
                ("name", ValueForm::Text),
                ("title", ValueForm::Text),
                ("description", ValueForm::Text),
                ("read_only", ValueForm::Flag),
                ("idempotent", ValueForm::Flag),
                ("blocking", ValueForm::Flag),
                ("task", ValueForm::Task),
                ("destructive", ValueForm::Choice),
                ("open_world", ValueForm::Choice),
                ("icon", ValueForm::Icon),
                ("meta", ValueForm::Value),
                ("scopes", ValueForm::Scopes),
                ("layer", ValueForm::Value),
                ("crate", ValueForm::Path),
            ],
            Self::Prompt => &[
                ("name", ValueForm::Text),
                ("title", ValueForm::Text),
                ("description", ValueForm::Text),
                ("icon", ValueForm::Icon),
                ("meta", ValueForm::Value),
                ("scopes", ValueForm::Scopes),
                ("layer", ValueForm::Value),
                ("crate", ValueForm::Path),
            ],
            Self::Resource => &[
                ("name", ValueForm::Text),
                ("title", ValueForm::Text),
                ("description", ValueForm::Text),
                ("mime_type", ValueForm::Text),
                ("icon", ValueForm::Icon),
                ("meta", ValueForm::Value),
                ("scopes", ValueForm::Scopes),
                ("layer", ValueForm::Value),
                ("cache", ValueForm::Cache),
                ("crate", ValueForm::Path),
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

/// Moves an error to another span: a missing value is reported at the attribute of the method, not at `#[handlers]`.
fn at(error: &Error, span: Span) -> Error {
    Error::new(span, error)
}
