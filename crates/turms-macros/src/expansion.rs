//! Expansion to the expression that builds a tool, prompt or resource.

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, Generics, Ident, Path, Result, ReturnType, Safety, Signature, Type, WherePredicate};

use crate::argument::{Argument, ArgumentStruct};
use crate::description;
use crate::item_attribute::ItemAttribute;
use crate::parameter::Parameter;

/// A parsed function, ready to be expanded to a tool, prompt or resource.
pub(crate) struct Expansion {
    /// The path of the crate.
    turms: Path,
    builder: TokenStream,
    arguments: Option<ArgumentStruct>,
    parameters: Vec<Parameter>,
    /// Span for errors about parameter types.
    input: Span,
    /// Span for errors about the return type.
    output: Span,
    /// The builder method that takes the handler.
    handler_method: &'static str,
    is_async: bool,
}

impl Expansion {
    /// Parses a function. Its types may use `generics`. Removes our attributes from its parameters, even on errors.
    /// `completer` expands the path of a function that completes an argument.
    pub(crate) fn read(
        attribute: &ItemAttribute,
        attributes: &[Attribute],
        signature: &mut Signature,
        generics: &Generics,
        completer: impl Fn(&Path) -> TokenStream,
    ) -> Result<Self> {
        let parameters = Parameter::take_all(attribute, signature)?;
        let name = attribute.name(&signature.ident)?;
        if let Safety::Unsafe(token) = &signature.safety {
            let problem = "unsafe functions are not supported: clients cannot uphold a safety contract";
            return Err(Error::new(token.span, problem));
        }
        let is_async = signature.asyncness.is_some();
        let handler_method = attribute.handler_method(is_async)?;
        let arguments: Vec<&Argument> = parameters.iter().filter_map(Parameter::as_argument).collect();
        let completions = arguments.iter().filter_map(|argument| {
            let (name, completer) = (argument.wire_name(), completer(argument.completer.as_ref()?));
            Some(quote!(.completion(#name, #completer)))
        });
        let builder = attribute.builder(&name, description::of(attributes).as_deref());
        let builder = quote!(#builder #(#completions)*);
        let turms = attribute.turms();
        let arguments = ArgumentStruct::new(&turms, &signature.ident, &arguments, generics);
        let input = type_error_span(signature, &parameters);
        Ok(Self {
            turms,
            builder,
            arguments,
            parameters,
            input,
            output: match &signature.output {
                ReturnType::Type(_, ty) => ty.span(),
                ReturnType::Default => signature.ident.span(),
            },
            handler_method,
            is_async,
        })
    }

    /// Returns the definition of the argument struct.
    pub(crate) fn definitions(&self) -> Option<&TokenStream> {
        self.arguments.as_ref().map(|arguments| &arguments.definition)
    }

    /// Returns the required bounds on type parameters.
    pub(crate) fn bounds(&self) -> &[WherePredicate] {
        self.arguments.as_ref().map_or(&[], |arguments| &arguments.bounds)
    }

    /// Expands to the expression for a function with this path.
    pub(crate) fn for_function(&self, path: &TokenStream) -> TokenStream {
        if self.arguments.is_none() {
            return self.with_handler(&with_span(path.clone(), self.output));
        }
        let (bindings, values) = self.bindings();
        self.with_handler(&self.closure(None, &bindings, &quote!(#path(#(#values),*))))
    }

    /// Expands to the expression for a method with this path. The variable `this` holds the shared object.
    pub(crate) fn for_method(&self, path: &TokenStream, this: &Ident, sharing: Sharing) -> TokenStream {
        let (bindings, values) = self.bindings();
        let receiver = match sharing {
            Sharing::Borrowed => quote!(&#this),
            Sharing::Counted => quote!(#this),
        };
        let call = quote!(#path(#receiver, #(#values),*));
        let share = quote!(let #this = ::std::sync::Arc::clone(&#this););
        let body = match (self.is_async, sharing) {
            // The future borrows the object, so it needs a clone of its own.
            (true, _) => quote!({ #share async move { #call.await } }),
            (false, Sharing::Counted) => quote!({ #share #call }),
            (false, Sharing::Borrowed) => call,
        };
        self.with_handler(&self.closure(Some(&quote!(move)), &bindings, &body))
    }

    /// Creates a closure. Errors about its parameters point to the parameters, others to the return type.
    fn closure(&self, captures: Option<&TokenStream>, bindings: &[TokenStream], body: &TokenStream) -> TokenStream {
        let start = with_span(quote!(#captures |), self.output);
        let bindings = with_span(quote!(#(#bindings),*), self.input);
        let end = with_span(quote!(| #body), self.output);
        quote!(#start #bindings #end)
    }

    fn with_handler(&self, handler: &TokenStream) -> TokenStream {
        let builder = &self.builder;
        let types = self.types();
        let types = with_span(quote!(::<_, (#(#types,)*)>), self.input);
        // Errors about parameters point to the method name, errors about the return type to the handler.
        let span = Span::call_site().located_at(self.input);
        let method = Ident::new(self.handler_method, span);
        // With explicit types, an error is about the unsupported type instead of the whole function.
        quote!(#builder.#method #types (#handler))
    }

    /// Returns the parameter types of the handler.
    fn types(&self) -> Vec<TokenStream> {
        let turms = &self.turms;
        let arguments = self.arguments.iter().map(|ArgumentStruct { ty, .. }| quote!(#turms::Arguments<#ty>));
        let extractors = self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Argument(_) => None,
            Parameter::Extractor(ty) => Some(quote!(#ty)),
        });
        arguments.chain(extractors).collect()
    }

    /// Returns the parameters of a closure, and the values passed to the function. The names are hygienic.
    fn bindings(&self) -> (Vec<TokenStream>, Vec<TokenStream>) {
        let arguments = Ident::new("arguments", Span::mixed_site());
        let mut patterns = Vec::new();
        if self.arguments.is_some() {
            let turms = &self.turms;
            patterns.push(quote!(#turms::Arguments(#arguments)));
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

/// Returns the span for errors about parameter types: the type if only one can be unsupported, else the parameter
/// list.
fn type_error_span(signature: &Signature, parameters: &[Parameter]) -> Span {
    let suspects: Vec<&Type> = parameters.iter().filter(|it| it.may_cause_type_error()).map(Parameter::ty).collect();
    match (suspects.as_slice(), parameters) {
        ([only], _) => only.span(),
        ([], [Parameter::Extractor(first), ..]) => first.span(),
        ([], _) => signature.ident.span(),
        _ => signature.paren_token.span.join(),
    }
}

/// The receiver of a method.
#[derive(Clone, Copy)]
pub(crate) enum Sharing {
    /// `&self`
    Borrowed,
    /// `self: Arc<Self>`
    Counted,
}

/// Changes the location of code for diagnostics. Name resolution stays the same.
fn with_span(code: TokenStream, to: Span) -> TokenStream {
    let with_span = code.into_iter().map(|token| {
        let mut token = match token {
            TokenTree::Group(group) => Group::new(group.delimiter(), with_span(group.stream(), to)).into(),
            token => token,
        };
        token.set_span(token.span().located_at(to));
        token
    });
    with_span.collect()
}

/// Allows a lint that the expansion of a synchronous function would trigger.
pub(crate) fn lint_allowances(signature: &Signature) -> Option<TokenStream> {
    signature
        .asyncness
        .is_none()
        .then(|| quote!(#[allow(clippy::needless_pass_by_value, reason = "arguments are made for the call")]))
}
