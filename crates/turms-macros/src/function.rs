//! `#[tool]`, `#[prompt]` and `#[resource]` on a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Error, Item, ItemFn, Result};

use crate::description::is_doc;
use crate::expansion::{Expansion, lint_allowances};
use crate::generics::bind;
use crate::item_attribute::{self, ItemAttribute, ItemKind};
use crate::parameter::Parameter;

/// Replaces a function by one that builds the tool, prompt or resource and contains the original function.
pub(crate) fn expand(kind: ItemKind, attribute: TokenStream, item: TokenStream) -> TokenStream {
    let word = kind.attribute_name();
    match syn::parse2(item) {
        Ok(Item::Fn(function)) => match function.sig.receiver() {
            None => expand_function(kind, attribute, function),
            Some(receiver) => {
                let problem = format!("for `#[{word}]` on a method, put `#[handlers]` on the `impl` block");
                let error = Error::new_spanned(receiver, problem);
                let mut method = function;
                Parameter::strip(&mut method.sig);
                error_with(&error, &method)
            }
        },
        Ok(item) => error_with(&Error::new_spanned(&item, format!("`#[{word}]` goes on a function")), &item),
        Err(error) => error.into_compile_error(),
    }
}

fn expand_function(kind: ItemKind, attribute: TokenStream, mut function: ItemFn) -> TokenStream {
    let attribute = match ItemAttribute::parse(kind, attribute) {
        Ok(attribute) => attribute,
        Err(error) => {
            let item_type = kind.path(&item_attribute::default_crate());
            return error_with(&error, &placeholder(&item_type, &function));
        }
    };
    let expanded = expand_to_builder(&attribute, &mut function);
    expanded.unwrap_or_else(|error| error_with(&error, &placeholder(&attribute.item_type(), &function)))
}

/// Emits an error together with code that prevents follow-up errors.
pub(crate) fn error_with(error: &Error, code: &impl ToTokens) -> TokenStream {
    let error = error.to_compile_error();
    quote!(#error #code)
}

/// Expands to the function that builds the tool, prompt or resource.
fn expand_to_builder(attribute: &ItemAttribute, function: &mut ItemFn) -> Result<TokenStream> {
    let generics = function.sig.generics.clone();
    if let Some(lifetime) = generics.lifetimes().next() {
        let problem = "lifetime parameters are not supported: take and return owned values";
        return Err(Error::new_spanned(lifetime, problem));
    }
    let expansion =
        Expansion::read(attribute, &function.attrs, &mut function.sig, &generics, ToTokens::to_token_stream)?;
    let mut outer_generics = generics.clone();
    bind(&mut outer_generics, expansion.bounds().iter().cloned());
    let (declared, _, predicates) = outer_generics.split_for_impl();
    let (_, used, _) = generics.split_for_impl();
    let ItemFn { attrs, vis, sig, block, .. } = &*function;
    let (outer, inner): (Vec<_>, Vec<_>) = attrs.iter().partition(|attribute| is_outer_attribute(attribute));
    let ident = &sig.ident;
    let turbofish = used.as_turbofish();
    let item_type = attribute.item_type();
    let definitions = expansion.definitions();
    let expression = expansion.for_function(&quote!(#ident #turbofish));
    let lint_allowances = lint_allowances(sig);
    Ok(quote! {
        #(#outer)*
        #vis fn #ident #declared () -> #item_type #predicates {
            #(#inner)*
            #lint_allowances
            #sig #block

            #definitions

            #expression
        }
    })
}

/// Creates a placeholder for an invalid function, which prevents further errors where it is used.
fn placeholder(item_type: &TokenStream, function: &ItemFn) -> TokenStream {
    let ItemFn { attrs, vis, sig, .. } = function;
    let outer = attrs.iter().filter(|attribute| is_outer_attribute(attribute));
    let ident = &sig.ident;
    let (declared, _, predicates) = sig.generics.split_for_impl();
    quote! {
        #(#outer)*
        #vis fn #ident #declared () -> #item_type #predicates {
            ::std::unimplemented!()
        }
    }
}

/// Returns `true` for attributes that belong on the generated outer function.
fn is_outer_attribute(attribute: &Attribute) -> bool {
    is_doc(attribute) || ["cfg", "deprecated"].iter().any(|name| attribute.path().is_ident(name))
}
