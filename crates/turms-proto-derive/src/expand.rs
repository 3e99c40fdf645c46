//! The generated code.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::field::{Member, Shape};
use crate::parse::ObjectType;

pub(crate) fn expand(object: &ObjectType<'_>) -> TokenStream {
    let parts = [
        constructor(object),
        default(object).unwrap_or_default(),
        decode(object),
        serialize(object),
        member_table(object),
        translation(object),
    ];
    quote! { #(#parts)* }
}

/// Generates `new`, and a setter for each field that is not a parameter of `new`.
fn constructor(object: &ObjectType<'_>) -> TokenStream {
    let ObjectType { ident, members, unknown, .. } = object;
    let parameters = members.iter().filter(|member| member.is_parameter()).map(|member| {
        let (name, ty) = (member.ident, member.shape.value_type());
        quote! { #name: impl Into<#ty> }
    });
    let values = members.iter().map(|member| {
        let name = member.ident;
        match (&member.shape, &member.default) {
            (Shape::Required(_), None) => quote! { #name: #name.into() },
            (Shape::Required(_), Some(default)) => quote! { #name: #default },
            (_, None) => quote! { #name: None },
            (_, Some(default)) => quote! { #name: Some(#default) },
        }
    });
    let setters = members.iter().filter(|member| !member.is_parameter()).map(|member| {
        let (name, ty) = (member.ident, member.shape.value_type());
        let value = match member.shape {
            Shape::Required(_) => quote! { #name.into() },
            Shape::Optional(_) | Shape::Any(_) => quote! { Some(#name.into()) },
        };
        let doc = format!("Sets `{name}`.");
        // A field `is_…` has the setter `with_is_…`: a method `is_…` is a getter by convention.
        let name_of_setter =
            if name.to_string().starts_with("is_") { format_ident!("with_{name}") } else { name.clone() };
        quote! {
            #[doc = #doc]
            #[must_use]
            pub fn #name_of_setter(mut self, #name: impl Into<#ty>) -> Self {
                self.#name = #value;
                self
            }
        }
    });
    quote! {
        impl #ident {
            /// Creates a value with the required members; setters add the others.
            #[must_use]
            pub fn new(#(#parameters),*) -> Self {
                Self { #(#values,)* #unknown: crate::Object::new() }
            }

            #(#setters)*
        }
    }
}

fn default(object: &ObjectType<'_>) -> Option<TokenStream> {
    let ident = object.ident;
    (!object.members.iter().any(Member::is_parameter)).then(|| {
        quote! {
            impl Default for #ident {
                fn default() -> Self {
                    Self::new()
                }
            }
        }
    })
}

/// Generates `Deserialize` and `DecodeObject`, with the struct for the members decoded so far.
fn decode(object: &ObjectType<'_>) -> TokenStream {
    let ObjectType { ident, members, unknown, .. } = object;
    let partial = format_ident!("Partial{ident}");
    let expected = format!("an object ({ident})");
    let fields = members.iter().map(|member| {
        let (name, ty) = (member.ident, member.shape.value_type());
        match member.shape {
            // The outer `None` means that the member was not seen yet, the inner one that it is `null`.
            Shape::Optional(_) => quote! { pub(crate) #name: Option<Option<#ty>> },
            Shape::Required(_) | Shape::Any(_) => quote! { pub(crate) #name: Option<#ty> },
        }
    });
    let tag = object.tag.iter().map(|(name, value)| quote! { #name => crate::object::expect_tag(#name, #value, map), });
    let arms = members.iter().map(|Member { ident, name, .. }| {
        quote! { #name => crate::object::fill(&mut partial.#ident, #name, map), }
    });
    let values = members.iter().map(|member| {
        let Member { ident, name, shape, .. } = member;
        match shape {
            Shape::Required(_) => {
                quote! { #ident: partial.#ident.ok_or_else(|| serde::de::Error::missing_field(#name))? }
            }
            Shape::Optional(_) => quote! { #ident: partial.#ident.flatten() },
            Shape::Any(_) => quote! { #ident: partial.#ident },
        }
    });
    quote! {
        #[derive(Debug, Default)]
        #[allow(unnameable_types, reason = "used only as `DecodeObject::Partial`")]
        #[doc(hidden)]
        pub struct #partial {
            #(#fields,)*
            pub(crate) #unknown: crate::object::UnknownMembers,
        }

        impl crate::object::DecodeObject for #ident {
            type Partial = #partial;

            const EXPECTED: &'static str = #expected;

            fn decode_member<'de, A: serde::de::MapAccess<'de>>(
                partial: &mut #partial,
                name: &str,
                map: &mut A,
            ) -> Result<(), A::Error> {
                match name {
                    #(#tag)*
                    #(#arms)*
                    _ => partial.#unknown.keep(name, map),
                }
            }

            fn finish<E: serde::de::Error>(partial: #partial) -> Result<Self, E> {
                Ok(Self { #(#values,)* #unknown: partial.#unknown.into_object() })
            }
        }

        impl<'de> serde::Deserialize<'de> for #ident {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(crate::object::ObjectVisitor(std::marker::PhantomData))
            }
        }
    }
}

fn serialize(object: &ObjectType<'_>) -> TokenStream {
    let ObjectType { ident, members, unknown, .. } = object;
    let tag = object.tag.iter().map(|(name, value)| quote! { map.serialize_entry(#name, #value)?; });
    let entries = members.iter().map(|Member { ident, name, shape, .. }| match shape {
        Shape::Required(_) => quote! { map.serialize_entry(#name, &self.#ident)?; },
        Shape::Optional(_) | Shape::Any(_) => quote! {
            if let Some(value) = &self.#ident {
                map.serialize_entry(#name, value)?;
            }
        },
    });
    quote! {
        impl serde::Serialize for #ident {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                #(#tag)*
                #(#entries)*
                if !self.#unknown.is_empty() {
                    for (name, value) in &self.#unknown {
                        map.serialize_entry(&name, &value)?;
                    }
                }
                map.end()
            }
        }
    }
}

/// Generates the table of wire names, with the revisions that define them.
fn member_table(object: &ObjectType<'_>) -> TokenStream {
    let (ident, name) = (object.ident, object.ident.to_string());
    let row = |member: &str, range: TokenStream| {
        quote! { crate::revision::MemberRange { object: #name, member: #member, range: #range } }
    };
    let tag = object.tag.iter().map(|(name, _)| row(&name.value(), quote! { crate::revision::VersionRange::ALL }));
    let rows = object.members.iter().map(|member| row(&member.name, member.range()));
    quote! {
        impl #ident {
            #[allow(dead_code, reason = "used by the table of all members")]
            pub(crate) const MEMBERS: &'static [crate::revision::MemberRange] = &[#(#tag,)* #(#rows,)*];
        }
    }
}

/// Generates `lower_members`, `raise_members` and `Translate`.
fn translation(object: &ObjectType<'_>) -> TokenStream {
    let ObjectType { ident, members, custom_translate, .. } = object;
    let lower = members.iter().map(|member| {
        let name = member.ident;
        let lower = quote! { crate::revision::Translate::lower(&mut self.#name, to); };
        if member.has_range() {
            let range = member.range();
            quote! { if const { #range }.contains(to) { #lower } else { self.#name = None; } }
        } else {
            lower
        }
    });
    let raise = members.iter().map(|member| {
        let name = member.ident;
        quote! { crate::revision::Translate::raise(&mut self.#name, from); }
    });
    let translate = (!custom_translate).then(|| {
        quote! {
            impl crate::revision::Translate for #ident {
                fn lower(&mut self, to: crate::ProtocolVersion) {
                    self.lower_members(to);
                }

                fn raise(&mut self, from: crate::ProtocolVersion) {
                    self.raise_members(from);
                }
            }
        }
    });
    quote! {
        impl #ident {
            /// Drops the members that `to` does not define, recursively.
            #[allow(unused_variables, dead_code, reason = "not every object has members that differ")]
            pub(crate) fn lower_members(&mut self, to: crate::ProtocolVersion) {
                #(#lower)*
            }

            /// Adds the values that the newest revision requires, in each member.
            #[allow(unused_variables, dead_code, reason = "not every object has members")]
            pub(crate) fn raise_members(&mut self, from: crate::ProtocolVersion) {
                #(#raise)*
            }
        }

        #translate
    }
}

impl Shape<'_> {
    /// Returns the type of the value, without the `Option`.
    fn value_type(&self) -> &syn::Type {
        match self {
            Self::Required(ty) | Self::Optional(ty) | Self::Any(ty) => ty,
        }
    }
}

impl Member<'_> {
    fn range(&self) -> TokenStream {
        let range = quote! { crate::revision::VersionRange };
        let version = quote! { crate::ProtocolVersion };
        match (&self.range.since, &self.range.until) {
            (None, None) => quote! { #range::ALL },
            (Some(since), None) => quote! { #range::since(#version::#since) },
            (None, Some(until)) => quote! { #range::until(#version::#until) },
            (Some(since), Some(until)) => quote! { #range::between(#version::#since, #version::#until) },
        }
    }
}
