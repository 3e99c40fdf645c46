//! `#[handlers]` on an `impl` block.

use std::collections::HashMap;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{
    Attribute, Error, FnArg, GenericParam, Generics, Ident, ImplItem, ImplItemFn, Item, ItemImpl, Path, Receiver,
    ReceiverKind, Result, Signature, Type, WherePredicate,
};

use crate::errors::Errors;
use crate::expansion::{Expansion, Sharing, lint_allowances};
use crate::function::error_with;
use crate::generics::{bind, mentions};
use crate::item_attribute::{ItemAttribute, default_crate, parse_crate};
use crate::parameter::Parameter;

/// Removes the attributes of this crate from the block, and adds the `impl Handlers` that registers its methods.
pub(crate) fn expand(attribute: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse2(item) {
        Ok(Item::Impl(block)) => expand_block(attribute, block),
        Ok(item) => error_with(&Error::new_spanned(&item, "`#[handlers]` goes on an `impl` block"), &item),
        Err(error) => error.into_compile_error(),
    }
}

fn expand_block(attribute: TokenStream, mut block: ItemImpl) -> TokenStream {
    if let Some((path, _)) = &block.trait_ {
        let problem = "`#[handlers]` goes on an inherent `impl` block, not on a trait implementation";
        return error_with(&Error::new_spanned(path, problem), &block);
    }
    let mut errors = Errors::default();
    let turms = errors.ok_or_add(parse_crate(attribute)).unwrap_or_else(default_crate);
    let completers = Completers::new(&block);
    let mut methods = Vec::new();
    let mut has_marked = false;
    let ItemImpl { generics, items, .. } = &mut block;
    for item in items {
        if let ImplItem::Fn(method) = item {
            let method = MarkedMethod::take(method, generics, &turms, &completers).transpose();
            has_marked |= method.is_some();
            methods.extend(method.and_then(|method| errors.ok_or_add(method)));
        }
    }
    if !has_marked {
        errors.add(no_methods(&block));
    }
    let registration = registration(&turms, &block, &methods);
    let expanded = quote!(#block #registration);
    match errors.finish() {
        Ok(()) => expanded,
        Err(error) => error_with(&error, &expanded),
    }
}

fn no_methods(block: &ItemImpl) -> Error {
    let problem = "`#[handlers]` found no method with `#[tool]`, `#[prompt]` or `#[resource(..)]`";
    Error::new_spanned(&block.self_ty, problem)
}

/// A method with one of the attributes of this crate.
struct MarkedMethod {
    /// `let server = server.tool(..);`
    statement: TokenStream,
    bounds: Vec<WherePredicate>,
}

impl MarkedMethod {
    /// Parses a method and removes the attributes of this crate; `None` if it has none.
    fn take(
        method: &mut ImplItemFn,
        generics: &Generics,
        turms: &Path,
        completers: &Completers,
    ) -> Result<Option<Self>> {
        let mut attribute = match take_attribute(&mut method.attrs) {
            Ok(Some(attribute)) => attribute,
            Ok(None) => return Ok(None),
            Err(error) => {
                Parameter::strip(&mut method.sig);
                return Err(error);
            }
        };
        attribute.set_default_crate(turms.clone());
        let complete = |path: &Path| completers.expand(path);
        let expansion = Expansion::read(&attribute, &method.attrs, &mut method.sig, generics, complete)?;
        check_no_generics(method)?;
        let sharing = method.sig.receiver().map(sharing).transpose()?;
        let ident = &method.sig.ident;
        let path = quote!(Self::#ident);
        let (shared, expression) = match sharing {
            Some(sharing) => {
                let this = Ident::new("this", Span::mixed_site());
                let shared = quote!(let #this = ::std::sync::Arc::clone(&self););
                (Some(shared), expansion.for_method(&path, &this, sharing))
            }
            None => (None, expansion.for_function(&path)),
        };
        let cfgs = method.attrs.iter().filter(|attribute| is_cfg(attribute));
        let register = format_ident!("{}", attribute.kind.attribute_name());
        let definitions = expansion.definitions();
        let statement = quote! {
            #(#cfgs)*
            let server = server.#register({
                #definitions
                #shared
                #expression
            });
        };
        let lint_allowances = lint_allowances(&method.sig);
        method.attrs.extend(lint_allowances.map(|allow| -> Attribute { syn::parse_quote!(#allow) }));
        Ok(Some(Self { statement, bounds: expansion.bounds().to_vec() }))
    }
}

fn take_attribute(attributes: &mut Vec<Attribute>) -> Result<Option<ItemAttribute>> {
    let mut found = None;
    let mut errors = Errors::default();
    attributes.retain(|attribute| match ItemAttribute::of_attribute(attribute) {
        None => true,
        Some(_) if found.is_some() => {
            let problem = "a method can have only one of `#[tool]`, `#[prompt]` and `#[resource]`";
            errors.add(Error::new_spanned(attribute, problem));
            false
        }
        Some(read) => {
            found = errors.ok_or_add(read);
            false
        }
    });
    errors.finish()?;
    Ok(found)
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

fn check_no_generics(method: &ImplItemFn) -> Result<()> {
    let unsupported = method.sig.generics.params.iter().find(|param| !matches!(param, GenericParam::Lifetime(_)));
    match unsupported {
        None => Ok(()),
        Some(param) => {
            Err(Error::new_spanned(param, "generic methods are not supported: make the `impl` block generic instead"))
        }
    }
}

/// The methods of the block. `#[complete(Self::method)]` may name any of them.
struct Completers {
    /// The name of the type, if it is a path.
    self_type: Option<Ident>,
    methods: HashMap<Ident, Signature>,
}

impl Completers {
    fn new(block: &ItemImpl) -> Self {
        let methods = block.items.iter().filter_map(|item| match item {
            ImplItem::Fn(method) => Some((method.sig.ident.clone(), method.sig.clone())),
            _ => None,
        });
        let self_type = match &*block.self_ty {
            Type::Path(ty) => ty.path.segments.last().map(|last| last.ident.clone()),
            _ => None,
        };
        Self { self_type, methods: methods.collect() }
    }

    /// Expands to the completion handler. A method of the block is called on the shared object; any other path names an
    /// async function.
    fn expand(&self, path: &Path) -> TokenStream {
        let owner = path.segments.iter().rev().nth(1).map(|segment| &segment.ident);
        let Some(method) = path.segments.last().and_then(|last| self.methods.get(&last.ident)) else {
            return quote!(#path);
        };
        if path.segments.len() == 2 && owner.is_some_and(|owner| owner == "Self") {
            return completer(path, method);
        }
        // A function of the same name that takes the same is unlikely.
        let is_bare = owner.is_none() && method.inputs.iter().any(takes_completion_request);
        if method.receiver().is_some() && (is_bare || owner.is_some() && owner == self.self_type.as_ref()) {
            let name = &method.ident;
            let problem = format!("`{name}` is a method: write `#[complete(Self::{name})]`");
            return Error::new_spanned(path, problem).into_compile_error();
        }
        quote!(#path)
    }
}

fn takes_completion_request(input: &FnArg) -> bool {
    matches!(input, FnArg::Typed(typed) if mentions(&typed.ty, "CompletionRequest"))
}

fn completer(path: &Path, method: &Signature) -> TokenStream {
    let types = method.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(&typed.ty),
        FnArg::Receiver(_) => None,
    });
    let (names, bindings): (Vec<_>, Vec<_>) = types
        .enumerate()
        .map(|(index, ty)| {
            let name = Ident::new(&format!("extracted{index}"), Span::mixed_site());
            (name.clone(), quote!(#name: #ty))
        })
        .unzip();
    let dot_await = method.asyncness.is_some().then(|| quote!(.await));
    let this = Ident::new("this", Span::mixed_site());
    let share = |from: &TokenStream| quote!(let #this = ::std::sync::Arc::clone(&#from););
    match method.receiver().and_then(|receiver| sharing(receiver).ok()) {
        None => quote!(|#(#bindings),*| async move { #path(#(#names),*) #dot_await }),
        Some(sharing) => {
            let receiver = match sharing {
                Sharing::Borrowed => quote!(&#this),
                Sharing::Counted => quote!(#this),
            };
            // The closure keeps a clone of the `Arc`, and each of its futures another.
            let (outer, inner) = (share(&quote!(self)), share(&quote!(#this)));
            quote!({
                #outer
                move |#(#bindings),*| {
                    #inner
                    async move { #path(#receiver, #(#names),*) #dot_await }
                }
            })
        }
    }
}

fn registration(turms: &Path, block: &ItemImpl, methods: &[MarkedMethod]) -> TokenStream {
    let ItemImpl { attrs, generics, self_ty, .. } = block;
    let cfgs = attrs.iter().filter(|attribute| is_cfg(attribute));
    let statements = methods.iter().map(|method| &method.statement);
    let mut generics = generics.clone();
    bind(&mut generics, methods.iter().flat_map(|method| method.bounds.iter().cloned()));
    let (declared, _, predicates) = generics.split_for_impl();
    quote! {
        #(#cfgs)*
        impl #declared #turms::Handlers for #self_ty #predicates {
            fn register(self: ::std::sync::Arc<Self>, server: #turms::Server) -> #turms::Server {
                #(#statements)*
                server
            }
        }
    }
}

fn is_cfg(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}
