//! `#[server]` on an `impl` block.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, GenericParam, Generics, Ident, ImplItem, ImplItemFn, Item, ItemImpl, Receiver, ReceiverKind,
    Result, WherePredicate,
};

use crate::errors::Errors;
use crate::function::beside;
use crate::generics::{bind, mentions};
use crate::maker::{Maker, Sharing, allowances};
use crate::mark::Mark;
use crate::parameter::Parameter;

/// Removes our attributes from the block, and adds the `impl` that registers its methods.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse2(item) {
        Ok(Item::Impl(block)) => expand_block(attribute, block),
        Ok(item) => beside(&Error::new_spanned(&item, "`#[server]` goes on an `impl` block"), &item),
        Err(error) => error.into_compile_error(),
    }
}

fn expand_block(attribute: TokenStream, mut block: ItemImpl) -> TokenStream {
    if let Some((path, _)) = &block.trait_ {
        let problem = "`#[server]` goes on an inherent `impl` block, not on a trait implementation";
        return beside(&Error::new_spanned(path, problem), &block);
    }
    let mut errors = Errors::default();
    if !attribute.is_empty() {
        errors.add(Error::new_spanned(attribute, "`#[server]` takes no arguments"));
    }
    let mut parts = Vec::new();
    let mut marked = 0;
    let ItemImpl { generics, items, .. } = &mut block;
    for item in items {
        if let ImplItem::Fn(method) = item {
            let part = Part::take(method, generics).transpose();
            marked += usize::from(part.is_some());
            parts.extend(part.and_then(|part| errors.keep(part)));
        }
    }
    if marked == 0 {
        errors.add(nothing_marked(&block));
    }
    let registration = registration(&block, &parts);
    let expanded = quote!(#block #registration);
    match errors.finish() {
        Ok(()) => expanded,
        Err(error) => beside(&error, &expanded),
    }
}

fn nothing_marked(block: &ItemImpl) -> Error {
    let problem = "`#[server]` found no method with `#[tool]`, `#[prompt]` or `#[resource(..)]`";
    Error::new_spanned(&block.self_ty, problem)
}

/// A method with one of our attributes.
struct Part {
    /// `let server = server.tool(..);`
    statement: TokenStream,
    bounds: Vec<WherePredicate>,
}

impl Part {
    /// Parses a method and removes our attributes; `None` if it has none.
    fn take(method: &mut ImplItemFn, generics: &Generics) -> Result<Option<Self>> {
        let mark = match take_mark(&mut method.attrs) {
            Ok(Some(mark)) => mark,
            Ok(None) => return Ok(None),
            Err(error) => {
                Parameter::strip(&mut method.sig);
                return Err(error);
            }
        };
        let maker = Maker::read(&mark, &method.attrs, &mut method.sig, generics)?;
        no_generics(method)?;
        let sharing = method.sig.receiver().map(sharing).transpose()?;
        let ident = &method.sig.ident;
        let path = quote!(Self::#ident);
        let (shared, expression) = match sharing {
            Some(sharing) => {
                let this = Ident::new("this", Span::mixed_site());
                let shared = quote!(let #this = ::std::sync::Arc::clone(&self););
                (Some(shared), maker.of_method(&path, &this, sharing))
            }
            None => (None, maker.of_function(&path)),
        };
        let conditions = method.attrs.iter().filter(|attribute| is_condition(attribute));
        let register = format_ident!("{}", mark.kind.word());
        let definitions = maker.definitions();
        let statement = quote! {
            #(#conditions)*
            let server = server.#register({
                #definitions
                #shared
                #expression
            });
        };
        let allowances = allowances(&method.sig);
        method.attrs.extend(allowances.map(|allow| -> Attribute { syn::parse_quote!(#allow) }));
        Ok(Some(Self { statement, bounds: maker.bounds().to_vec() }))
    }
}

fn take_mark(attributes: &mut Vec<Attribute>) -> Result<Option<Mark>> {
    let mut mark = None;
    let mut errors = Errors::default();
    attributes.retain(|attribute| match Mark::of_attribute(attribute) {
        None => true,
        Some(_) if mark.is_some() => {
            let problem = "a method can have only one of `#[tool]`, `#[prompt]` and `#[resource]`";
            errors.add(Error::new_spanned(attribute, problem));
            false
        }
        Some(read) => {
            mark = errors.keep(read);
            false
        }
    });
    errors.finish()?;
    Ok(mark)
}

fn sharing(receiver: &Receiver) -> Result<Sharing> {
    let problem = match &receiver.kind {
        ReceiverKind::Reference(_, _, None) => return Ok(Sharing::Borrowed),
        ReceiverKind::Reference(..) => {
            "take `&self`: calls run concurrently and share the object; put mutable state behind a lock"
        }
        ReceiverKind::Typed(_, ty) if mentions(ty, "Arc") => return Ok(Sharing::Counted),
        _ => "take `&self` or `self: Arc<Self>`: all calls share the object",
    };
    Err(Error::new_spanned(receiver, problem))
}

fn no_generics(method: &ImplItemFn) -> Result<()> {
    let unknown = method.sig.generics.params.iter().find(|param| !matches!(param, GenericParam::Lifetime(_)));
    match unknown {
        None => Ok(()),
        Some(param) => {
            Err(Error::new_spanned(param, "generic methods are not supported: make the `impl` block generic instead"))
        }
    }
}

fn registration(block: &ItemImpl, parts: &[Part]) -> TokenStream {
    let ItemImpl { attrs, generics, self_ty, .. } = block;
    let conditions = attrs.iter().filter(|attribute| is_condition(attribute));
    let statements = parts.iter().map(|part| &part.statement);
    let mut generics = generics.clone();
    bind(&mut generics, parts.iter().flat_map(|part| part.bounds.iter().cloned()));
    let (declared, _, predicates) = generics.split_for_impl();
    quote! {
        #(#conditions)*
        impl #declared ::turms::ServerParts for #self_ty #predicates {
            fn add_to(self: ::std::sync::Arc<Self>, server: ::turms::Server) -> ::turms::Server {
                #(#statements)*
                server
            }
        }
    }
}

fn is_condition(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}
