//! What the caller gives, and the struct it is decoded into.

use std::collections::BTreeMap;

use proc_macro2::TokenStream;
use quote::{ToTokens as _, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{Attribute, Generics, Ident, LitStr, Type, WherePredicate, parse_quote};

use crate::generics::{self, mentions};
use crate::parameter::option_of;

/// A parameter that the caller gives by name.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    /// For the derives of the struct.
    pub(crate) attributes: Vec<Attribute>,
    /// The header that repeats it over HTTP.
    pub(crate) header: Option<LitStr>,
}

impl Argument {
    /// Returns `true` if another type or a function decodes or describes it.
    fn is_customized(&self) -> bool {
        const WORDS: [&str; 5] = ["with", "deserialize_with", "schema_with", "skip", "skip_deserializing"];
        self.attributes.iter().any(|attribute| WORDS.iter().any(|word| mentions(&attribute.meta, word)))
    }

    fn field(&self) -> TokenStream {
        let Self { ident, ty, attributes, .. } = self;
        let header = self.header.as_ref().map(|name| header(name, ty));
        quote!(#(#attributes)* #header #ident: #ty)
    }
}

/// The specification allows the annotation on plain types alone, so an optional argument is one that may be left out, rather
/// than one that may be null.
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

/// The struct that holds all arguments of a function.
pub(crate) struct ArgumentStruct {
    pub(crate) definition: TokenStream,
    /// Its type, as the function writes it.
    pub(crate) ty: TokenStream,
    /// What the function's type parameters must be for it to be decoded.
    pub(crate) bounds: Vec<WherePredicate>,
}

impl ArgumentStruct {
    /// Makes it for a function within these generics; none if there are no arguments.
    pub(crate) fn new(function: &Ident, arguments: &[&Argument], generics: &Generics) -> Option<Self> {
        if arguments.is_empty() {
            return None;
        }
        let name = format_ident!("{}Arguments", camel_case(&function.unraw().to_string()));
        let types: Vec<&Type> = arguments.iter().map(|argument| &argument.ty).collect();
        let own = generics::used_by(&types, generics);
        let decoded = decoding_bounds(&types, &own);
        let bound = (!decoded.is_empty()).then(|| {
            let bound = quote!(#(#decoded),*).to_string();
            quote! {
                #[serde(bound(deserialize = #bound))]
                #[schemars(bound = #bound)]
            }
        });
        let fields = arguments.iter().map(|argument| argument.field());
        let mut checked = own.clone();
        generics::bind(&mut checked, argument_bounds(arguments, &own));
        let (declared, used, predicates) = checked.split_for_impl();
        let definition = quote! {
            #[derive(::turms::__private::serde::Deserialize, ::turms::__private::schemars::JsonSchema)]
            #[serde(crate = "::turms::__private::serde")]
            #[schemars(crate = "::turms::__private::schemars")]
            #bound
            struct #name #declared #predicates {
                #(#fields,)*
            }
        };
        let types = own.type_params().map(|param| &param.ident);
        let sendable = types.map(|ty| parse_quote!(#ty: ::std::marker::Send + 'static));
        Some(Self { definition, ty: quote!(#name #used), bounds: decoded.iter().cloned().chain(sendable).collect() })
    }
}

/// That the types of arguments which are not known yet can be decoded and described.
fn decoding_bounds(types: &[&Type], own: &Generics) -> Vec<WherePredicate> {
    let unknown = types.iter().filter(|ty| generics::are_mentioned(own, ty));
    let unknown: BTreeMap<String, &Type> = unknown.map(|ty| (ty.to_token_stream().to_string(), *ty)).collect();
    let bound = |ty: &Type| {
        parse_quote! {
            #ty: ::turms::__private::serde::de::DeserializeOwned + ::turms::__private::schemars::JsonSchema
        }
    };
    unknown.into_values().map(bound).collect()
}

/// That the other types can be, so that a compile error names the type and what to do.
fn argument_bounds(arguments: &[&Argument], own: &Generics) -> Vec<WherePredicate> {
    let known = arguments.iter().filter(|it| !it.is_customized() && !generics::are_mentioned(own, &it.ty));
    known.map(|Argument { ty, .. }| parse_quote!(for<'any> #ty: ::turms::Argument<'any>)).collect()
}

fn camel_case(name: &str) -> String {
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
        };
        let arguments: Vec<Argument> = types.iter().enumerate().map(argument).collect();
        let arguments: Vec<&Argument> = arguments.iter().collect();
        ArgumentStruct::new(&format_ident!("show_all"), &arguments, generics).unwrap()
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
