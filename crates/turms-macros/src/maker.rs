//! The expression that makes a tool, a prompt or a resource: its builder, and the handler that calls the function.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, Generics, Ident, Result, ReturnType, Safety, Signature, Type, WherePredicate};

use crate::argument::{Argument, ArgumentStruct};
use crate::description;
use crate::mark::Mark;
use crate::parameter::Parameter;

/// A function that was read, ready to be written as a tool, a prompt or a resource.
pub(crate) struct Maker {
    builder: TokenStream,
    arguments: Option<ArgumentStruct>,
    parameters: Vec<Parameter>,
    /// Where an error about the type of a parameter points.
    input: Span,
    /// Where an error about the return type points.
    output: Span,
    is_async: bool,
}

impl Maker {
    /// Reads a marked function, whose types may use `generics`. What the attributes of its parameters say is taken out of the
    /// signature, even if something is wrong.
    pub(crate) fn read(
        mark: &Mark,
        attributes: &[Attribute],
        signature: &mut Signature,
        generics: &Generics,
    ) -> Result<Self> {
        let parameters = Parameter::take_all(mark, signature)?;
        let name = mark.name(&signature.ident)?;
        if let Safety::Unsafe(token) = &signature.safety {
            let problem = "clients can promise nothing: the function must be safe to call";
            return Err(Error::new(token.span, problem));
        }
        let arguments: Vec<&Argument> = parameters.iter().filter_map(Parameter::as_argument).collect();
        let arguments = ArgumentStruct::new(&signature.ident, &arguments, generics);
        let input = where_types_may_be_wrong(signature, &parameters);
        Ok(Self {
            builder: mark.builder(&name, description::of(attributes).as_deref()),
            arguments,
            parameters,
            input,
            output: match &signature.output {
                ReturnType::Type(_, ty) => ty.span(),
                ReturnType::Default => signature.ident.span(),
            },
            is_async: signature.asyncness.is_some(),
        })
    }

    /// The struct of its arguments.
    pub(crate) fn definitions(&self) -> Option<&TokenStream> {
        self.arguments.as_ref().map(|arguments| &arguments.definition)
    }

    /// What must hold for type parameters.
    pub(crate) fn bounds(&self) -> &[WherePredicate] {
        self.arguments.as_ref().map_or(&[], |arguments| &arguments.bounds)
    }

    /// The expression, for a function to be called by this path.
    pub(crate) fn of_function(&self, path: &TokenStream) -> TokenStream {
        if self.arguments.is_none() {
            return self.handled_by(&moved(path.clone(), self.output));
        }
        let (bindings, values) = self.bindings();
        self.handled_by(&self.closure(None, &bindings, &quote!(#path(#(#values),*))))
    }

    /// The expression, for a method to be called by this path on the object that the variable `this` shares.
    pub(crate) fn of_method(&self, path: &TokenStream, this: &Ident, sharing: Sharing) -> TokenStream {
        let (bindings, values) = self.bindings();
        let receiver = match sharing {
            Sharing::Borrowed => quote!(&#this),
            Sharing::Counted => quote!(#this),
        };
        let call = quote!(#path(#receiver, #(#values),*));
        let share = quote!(let #this = ::std::sync::Arc::clone(&#this););
        let body = match (self.is_async, sharing) {
            // The future borrows the object, so it has a share of its own.
            (true, _) => quote!({ #share async move { #call.await } }),
            (false, Sharing::Counted) => quote!({ #share #call }),
            (false, Sharing::Borrowed) => call,
        };
        self.handled_by(&self.closure(Some(&quote!(move)), &bindings, &body))
    }

    /// A closure: errors about what it takes point at the parameters, others at what the function returns.
    fn closure(&self, captures: Option<&TokenStream>, bindings: &[TokenStream], body: &TokenStream) -> TokenStream {
        let start = moved(quote!(#captures |), self.output);
        let bindings = moved(quote!(#(#bindings),*), self.input);
        let end = moved(quote!(| #body), self.output);
        quote!(#start #bindings #end)
    }

    fn handled_by(&self, handler: &TokenStream) -> TokenStream {
        let builder = &self.builder;
        let types = self.types();
        let types = moved(quote!(::<_, (#(#types,)*)>), self.input);
        // Errors about what cannot be taken point at the method, those about what cannot be returned at the handler.
        let span = Span::call_site().located_at(self.input);
        let method = Ident::new(if self.is_async { "handler" } else { "handler_sync" }, span);
        // With the types said, an error is about the one that cannot be taken rather than about the whole function.
        quote!(#builder.#method #types (#handler))
    }

    /// What the handler takes.
    fn types(&self) -> Vec<TokenStream> {
        let arguments = self.arguments.iter().map(|ArgumentStruct { ty, .. }| quote!(::turms::Arguments<#ty>));
        let extractors = self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Argument(_) => None,
            Parameter::Extractor(ty) => Some(quote!(#ty)),
        });
        arguments.chain(extractors).collect()
    }

    /// The parameters of a closure, and what the function gets of them. The names cannot be seen from outside.
    fn bindings(&self) -> (Vec<TokenStream>, Vec<TokenStream>) {
        let arguments = Ident::new("arguments", Span::mixed_site());
        let mut patterns = Vec::new();
        if self.arguments.is_some() {
            patterns.push(quote!(::turms::Arguments(#arguments)));
        }
        let mut values = Vec::new();
        for parameter in &self.parameters {
            match parameter {
                Parameter::Argument(Argument { ident, .. }) => values.push(quote!(#arguments.#ident)),
                Parameter::Extractor(_) => {
                    let extracted = Ident::new(&format!("extracted{}", patterns.len()), Span::mixed_site());
                    patterns.push(quote!(#extracted));
                    values.push(quote!(#extracted));
                }
            }
        }
        let types = self.types();
        let bindings = patterns.iter().zip(&types).map(|(pattern, ty)| quote!(#pattern: #ty));
        (bindings.collect(), values)
    }
}

/// Where an error about the type of a parameter points: at the type if there is only one that may be wrong, or else at all of them.
fn where_types_may_be_wrong(signature: &Signature, parameters: &[Parameter]) -> Span {
    let suspects: Vec<&Type> = parameters.iter().filter(|it| it.may_be_wrong()).map(Parameter::ty).collect();
    match (suspects.as_slice(), parameters) {
        ([only], _) => only.span(),
        ([], [Parameter::Extractor(first), ..]) => first.span(),
        ([], _) => signature.ident.span(),
        _ => signature.paren_token.span.join(),
    }
}

/// How a method takes the object.
#[derive(Clone, Copy)]
pub(crate) enum Sharing {
    /// `&self`
    Borrowed,
    /// `self: Arc<Self>`
    Counted,
}

/// The same code as if it stood elsewhere. Names mean what they meant.
fn moved(code: TokenStream, to: Span) -> TokenStream {
    let moved = code.into_iter().map(|token| {
        let mut token = match token {
            TokenTree::Group(group) => Group::new(group.delimiter(), moved(group.stream(), to)).into(),
            token => token,
        };
        token.set_span(token.span().located_at(to));
        token
    });
    moved.collect()
}

/// A lint that a function which is not async would break for no fault of its own.
pub(crate) fn allowances(signature: &Signature) -> Option<TokenStream> {
    signature
        .asyncness
        .is_none()
        .then(|| quote!(#[allow(clippy::needless_pass_by_value, reason = "arguments are made for the call")]))
}
