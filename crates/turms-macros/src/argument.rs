//! Arguments of a function, and the struct that they are decoded into.

use std::collections::BTreeMap;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::token::Paren;
use syn::{Attribute, Generics, Ident, LitStr, Path, Type, WherePredicate, parse_quote};

use crate::generics::{self, mentions};
use crate::parameter::option_of;

/// A parameter that clients pass by name.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// Attributes for the field of the argument struct.
    pub(crate) attributes: Vec<Attribute>,
    /// The header that mirrors the argument over HTTP.
    pub(crate) header: Option<LitStr>,
    /// The function that completes the argument.
    pub(crate) completer: Option<Path>,
}

impl Argument {
    /// Returns `true` if a custom type or function decodes or describes the argument.
    fn is_customized(&self) -> bool {
        const KEYS: [&str; 5] = ["with", "deserialize_with", "schema_with", "skip", "skip_deserializing"];
        self.attributes.iter().any(|attribute| KEYS.iter().any(|key| mentions(&attribute.meta, key)))
    }

    /// Returns the name that clients use.
    pub(crate) fn wire_name(&self) -> String {
        let mut name = self.ident.unraw().to_string();
        for attribute in self.attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
            // Other entries are parsed, and reported if they are wrong, by the derive.
            let _ = attribute.parse_nested_meta(|meta| {
                let is_rename = meta.path.is_ident("rename");
                if meta.input.peek(Paren) {
                    // `rename(serialize = "..", deserialize = "..")`: the name in requests is the second.
                    return meta.parse_nested_meta(|part| {
                        let value: LitStr = part.value()?.parse()?;
                        if is_rename && part.path.is_ident("deserialize") {
                            name = value.value();
                        }
                        Ok(())
                    });
                }
                let value = meta.value().and_then(|value| value.parse::<LitStr>());
                if let (true, Ok(value)) = (is_rename, value) {
                    name = value.value();
                }
                Ok(())
            });
        }
        name
    }

    fn field(&self) -> TokenStream {
        let Self { ident, ty, attributes, .. } = self;
        let header = self.header.as_ref().map(|name| header(name, ty));
        quote!(#(#attributes)* #header #ident: #ty)
    }
}

/// Creates the attributes for a mirrored argument. The specification allows the annotation only on strings, integers and
/// booleans, so an optional argument may be omitted but not null.
fn header(name: &LitStr, ty: &Type) -> TokenStream {
    let annotation = quote!(#[schemars(extend("x-mcp-header" = #name))]);
    match option_of(ty) {
        Some(ty) => {
            let ty = ty.to_token_stream().to_string();
            quote! {
                #annotation
                #[schemars(with = #ty)]
                #[serde(default, skip_serializing_if = "::std::option::Option::is_none")]
            }
        }
        None => annotation,
    }
}

/// The struct with all arguments of a function.
pub(crate) struct ArgumentStruct {
    pub(crate) definition: TokenStream,
    /// The type of the struct, as used in the function.
    pub(crate) ty: TokenStream,
    /// Bounds on the type parameters of the function, required for decoding.
    pub(crate) bounds: Vec<WherePredicate>,
}

impl ArgumentStruct {
    /// Creates the struct for a function with these generics; `None` if there are no arguments. `turms` is the path of
    /// the crate.
    pub(crate) fn new(turms: &Path, function: &Ident, arguments: &[&Argument], generics: &Generics) -> Option<Self> {
        if arguments.is_empty() {
            return None;
        }
        let name = format_ident!("{}Arguments", upper_camel_case(&function.unraw().to_string()));
        let types: Vec<&Type> = arguments.iter().map(|argument| &argument.ty).collect();
        let own = generics::used_by(&types, generics);
        let decoding = decoding_bounds(turms, &types, &own);
        // The derived implementations need the bounds of `Self::bounds`, instead of those that the derives infer.
        let bound_attributes = (!decoding.is_empty()).then(|| {
            let bounds = quote!(#(#decoding),*).to_string();
            quote! {
                #[serde(bound(deserialize = #bounds))]
                #[schemars(bound = #bounds)]
            }
        });
        let fields = arguments.iter().map(|argument| argument.field());
        let mut bounded = own.clone();
        generics::bind(&mut bounded, argument_bounds(turms, arguments, &own));
        let (declared, used, predicates) = bounded.split_for_impl();
        let path_of = |name: &str| {
            let name = Ident::new(name, Span::call_site());
            quote!(#turms::__private::#name).to_string()
        };
        let (serde, schemars) = (path_of("serde"), path_of("schemars"));
        let definition = quote! {
            #[derive(#turms::__private::serde::Deserialize, #turms::__private::schemars::JsonSchema)]
            #[serde(crate = #serde)]
            #[schemars(crate = #schemars)]
            #bound_attributes
            struct #name #declared #predicates {
                #(#fields,)*
            }
        };
        let params = own.type_params().map(|param| &param.ident);
        let send = params.map(|param| parse_quote!(#param: ::std::marker::Send + 'static));
        let ty = quote!(#name #used);
        Some(Self { definition, ty, bounds: decoding.into_iter().chain(send).collect() })
    }
}

/// Returns bounds which require that generic argument types can be decoded and described.
fn decoding_bounds(turms: &Path, types: &[&Type], own: &Generics) -> Vec<WherePredicate> {
    let generic = types.iter().filter(|ty| generics::are_mentioned(own, ty));
    // A type that several arguments have needs one bound.
    let generic: BTreeMap<String, &Type> = generic.map(|ty| (ty.to_token_stream().to_string(), *ty)).collect();
    let bound = |ty: &Type| {
        parse_quote! {
            #ty: #turms::__private::serde::de::DeserializeOwned + #turms::__private::schemars::JsonSchema
        }
    };
    generic.into_values().map(bound).collect()
}

/// Returns bounds for the argument types that are not generic, so that a compile error names the type and the solution.
/// Bounds for every lifetime are checked where the struct is used, so the derived implementations repeat no errors.
fn argument_bounds(turms: &Path, arguments: &[&Argument], own: &Generics) -> Vec<WherePredicate> {
    let concrete = arguments.iter().filter(|it| !it.is_customized() && !generics::are_mentioned(own, &it.ty));
    concrete.map(|Argument { ty, .. }| parse_quote!(for<'any> #ty: #turms::Argument<'any>)).collect()
}

fn upper_camel_case(name: &str) -> String {
    let capitalized = |word: &str| {
        let mut chars = word.chars();
        chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
    };
    name.split('_').map(capitalized).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(generics: &Generics, types: &[Type]) -> ArgumentStruct {
        let argument = |(i, ty): (usize, &Type)| Argument {
            ident: format_ident!("a{i}"),
            ty: ty.clone(),
            attributes: Vec::new(),
            header: None,
            completer: None,
        };
        let arguments: Vec<Argument> = types.iter().enumerate().map(argument).collect();
        let arguments: Vec<&Argument> = arguments.iter().collect();
        ArgumentStruct::new(&parse_quote!(::turms), &format_ident!("show_all"), &arguments, generics).unwrap()
    }

    #[test]
    fn the_name_in_requests_follows_serde() {
        let argument = |attribute: Attribute| Argument {
            ident: format_ident!("r#type"),
            ty: parse_quote!(String),
            attributes: vec![attribute],
            header: None,
            completer: None,
        };
        let name = |attribute| argument(attribute).wire_name();
        assert_eq!(name(parse_quote!(#[schemars(length(min = 1))])), "type");
        assert_eq!(name(parse_quote!(#[serde(default, rename = "kind")])), "kind");
        assert_eq!(name(parse_quote!(#[serde(rename(serialize = "a", deserialize = "b"))])), "b");
        assert_eq!(name(parse_quote!(#[serde(bound(deserialize = "T: A"), rename = "kind")])), "kind");
    }

    #[test]
    fn the_struct_has_the_generics_that_its_fields_use() {
        let made = arguments(&parse_quote!(<T: Store, U>), &[parse_quote!(T), parse_quote!(T), parse_quote!(u8)]);
        assert_eq!(made.ty.to_string(), "ShowAllArguments < T >");
        let definition = made.definition.to_string();
        let checked = "where for < 'any > u8 : :: turms :: Argument < 'any >";
        assert!(definition.contains(&format!("struct ShowAllArguments < T : Store > {checked} {{")), "{definition}");
        let bounds: Vec<String> = made.bounds.iter().map(|bound| bound.to_token_stream().to_string()).collect();
        let [decoded, sendable] = bounds.as_slice() else { panic!("{bounds:?}") };
        assert!(decoded.starts_with("T : ") && decoded.ends_with("JsonSchema"), "{decoded}");
        assert_eq!(sendable, "T : :: std :: marker :: Send + 'static");
    }

    #[test]
    fn without_generics_nothing_is_bound() {
        let made = arguments(&parse_quote!(<T>), &[parse_quote!(String)]);
        assert_eq!(made.ty.to_string(), "ShowAllArguments");
        assert!(made.bounds.is_empty());
    }
}
