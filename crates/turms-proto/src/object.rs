//! [`object!`]: an object type of the protocol, declared once with its members, their names on the wire and their defaults.
//!
//! The derives of serde would need `flatten` to keep unknown members, which decodes them (so that long numbers are rounded and
//! repeated members are lost), and know no protocol revisions.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};

use crate::RawJson;
use crate::json::{DecodeError, Object, ObjectBuilder, StringSeed, scan};

/// An object type of the protocol, as it is decoded member by member.
#[expect(unnameable_types, reason = "sealed: only this crate declares types of the protocol")]
pub trait DecodeObject: Sized {
    /// The members decoded so far.
    type Partial: Default;

    /// The description of the type in errors.
    const EXPECTED: &'static str;

    /// Decodes the value of the member `name`.
    fn decode_member<'de, A: MapAccess<'de>>(
        partial: &mut Self::Partial,
        name: &str,
        map: &mut A,
    ) -> Result<(), A::Error>;

    /// Creates the value, unless a required member is missing.
    fn finish<E: Error>(partial: Self::Partial) -> Result<Self, E>;
}

/// Decodes the remaining members of an object.
pub(crate) fn decode_members<'de, T: DecodeObject, A: MapAccess<'de>>(
    partial: &mut T::Partial,
    map: &mut A,
) -> Result<(), A::Error> {
    while let Some(name) = map.next_key_seed(StringSeed)? {
        T::decode_member(partial, &name, map)?;
    }
    Ok(())
}

/// A member that is kept as text until the type of its object is known.
pub(crate) type KeptMember<'de> = (Cow<'de, str>, RawJson);

pub(crate) fn decode_kept_members<T: DecodeObject, E: Error>(
    partial: &mut T::Partial,
    members: Vec<KeptMember<'_>>,
) -> Result<(), E> {
    for (name, value) in members {
        T::decode_member(partial, &name, &mut KeptValue(value.as_str()))
            .map_err(|error| E::custom(DecodeError::shape(name.into_owned(), &error)))?;
    }
    Ok(())
}

struct KeptValue<'a>(&'a str);

impl<'de> MapAccess<'de> for KeptValue<'de> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, Self::Error> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        // Another deserializer counts the depth from zero, so a chain of such members needs a limit of its own.
        scan::check(self.0).map_err(Self::Error::custom)?;
        seed.deserialize(&mut serde_json::Deserializer::from_str(self.0))
    }
}

/// Decodes an object of type `T`.
pub(crate) struct ObjectVisitor<T>(pub(crate) PhantomData<T>);

impl<'de, T: DecodeObject> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut partial = T::Partial::default();
        decode_members::<T, A>(&mut partial, &mut map)?;
        T::finish(partial)
    }
}

/// Decodes the value of a known member; a second one is an error, because two readers could see two values.
pub(crate) fn fill<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    name: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    match slot.replace(map.next_value()?) {
        None => Ok(()),
        Some(_) => Err(A::Error::duplicate_field(name)),
    }
}

/// Checks the member that tells the types of objects apart.
pub(crate) fn expect_tag<'de, A: MapAccess<'de>>(
    name: &'static str,
    expected: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    let found = map.next_value_seed(StringSeed)?;
    if found == expected {
        return Ok(());
    }
    Err(A::Error::custom(format_args!("\"{name}\" is \"{found}\", expected \"{expected}\"")))
}

/// Members that a type does not know, kept as they came.
#[derive(Debug, Default)]
pub(crate) struct UnknownMembers(ObjectBuilder);

impl UnknownMembers {
    pub(crate) fn keep<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        self.0.push(name, map.next_value::<RawJson>()?.as_str());
        Ok(())
    }

    pub(crate) fn into_object(self) -> Object {
        self.0.finish()
    }
}

/// Writes down an object type of the protocol. The sections say how a member behaves:
///
/// - `tag "type" = "text";` a member that is always this text;
/// - `required` members are parameters of `new`;
/// - `preset` members are required on the wire, start with a value of ours, and have a setter;
/// - `optional` members are `Option`s with a setter, left out when `None`; they may start with a value;
/// - `any` members are optional JSON of any kind, where `null` is a value.
///
/// Every type keeps the members it does not know in `extra`. `lower` drops the optional members that a revision does not
/// define ([`crate::revision`] has the table); a type marked `(custom)` writes its `Translate` there by hand.
macro_rules! object {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident $(($custom:ident))? {
            $(tag $tag:literal = $tag_value:literal;)?
            $(required { $( $(#[$rmeta:meta])* $r:ident : $R:ty => $rw:literal, )* })?
            $(preset { $( $(#[$pmeta:meta])* $p:ident : $P:ty = $pd:expr => $pw:literal, )* })?
            $(optional { $( $(#[$ometa:meta])* $o:ident : $O:ty $(= $od:expr)? => $ow:literal, )* })?
            $(any { $( $(#[$ameta:meta])* $a:ident => $aw:literal, )* })?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $Name {
            $($( $(#[$rmeta])* pub $r: $R, )*)?
            $($( $(#[$pmeta])* pub $p: $P, )*)?
            $($( $(#[$ometa])* pub $o: Option<$O>, )*)?
            $($( $(#[$ameta])* pub $a: Option<$crate::RawJson>, )*)?
            /// Members that are not ours to know, kept as they came.
            pub extra: $crate::Object,
        }

        impl $Name {
            /// With what is required; setters add the rest.
            #[must_use]
            #[allow(clippy::new_without_default, reason = "Default is there where nothing is required")]
            pub fn new($($( $r: impl Into<$R>, )*)?) -> Self {
                Self {
                    $($( $r: $r.into(), )*)?
                    $($( $p: $pd, )*)?
                    $($( $o: $crate::object::object!(@start $($od)?), )*)?
                    $($( $a: None, )*)?
                    extra: $crate::Object::new(),
                }
            }

            $($(
                #[doc = concat!("Sets `", stringify!($p), "`.")]
                #[must_use]
                pub fn $p(mut self, $p: impl Into<$P>) -> Self {
                    self.$p = $p.into();
                    self
                }
            )*)?
            $($(
                #[doc = concat!("Sets `", stringify!($o), "`.")]
                #[must_use]
                pub fn $o(mut self, $o: impl Into<$O>) -> Self {
                    self.$o = Some($o.into());
                    self
                }
            )*)?
            $($(
                #[doc = concat!("Sets `", stringify!($a), "`.")]
                #[must_use]
                pub fn $a(mut self, $a: impl Into<$crate::RawJson>) -> Self {
                    self.$a = Some($a.into());
                    self
                }
            )*)?

            /// Leaves only the members that `to` defines, in this object and in those within.
            #[allow(unused_variables, dead_code, reason = "not every object has members that come and go")]
            pub(crate) fn lower_members(&mut self, to: $crate::ProtocolVersion) {
                $($( $crate::revision::Translate::lower(&mut self.$r, to); )*)?
                $($( $crate::revision::Translate::lower(&mut self.$p, to); )*)?
                $($(
                    if const { $crate::revision::span(stringify!($Name), $ow) }.contains(to) {
                        $crate::revision::Translate::lower(&mut self.$o, to);
                    } else {
                        self.$o = None;
                    }
                )*)?
                $($(
                    if !const { $crate::revision::span(stringify!($Name), $aw) }.contains(to) {
                        self.$a = None;
                    }
                )*)?
            }

            /// Raises the members, then leaves this object to whoever knows more.
            #[allow(unused_variables, dead_code, reason = "not every object has members")]
            pub(crate) fn raise_members(&mut self, from: $crate::ProtocolVersion) {
                $($( $crate::revision::Translate::raise(&mut self.$r, from); )*)?
                $($( $crate::revision::Translate::raise(&mut self.$p, from); )*)?
                $($( $crate::revision::Translate::raise(&mut self.$o, from); )*)?
            }
        }

        $crate::object::object!(@default $Name $($($r)*)?);
        $crate::object::object!(@translate $Name $($custom)?);

        const _: () = {
            #[derive(Debug, Default)]
            #[allow(unnameable_types, reason = "seen through `DecodeObject::Partial` alone")]
            pub struct Partial {
                $($( $r: Option<$R>, )*)?
                $($( $p: Option<$P>, )*)?
                $($( $o: Option<Option<$O>>, )*)?
                $($( $a: Option<$crate::RawJson>, )*)?
                unknown: $crate::object::UnknownMembers,
            }

            impl $crate::object::DecodeObject for $Name {
                type Partial = Partial;

                const EXPECTED: &'static str = concat!("an object (", stringify!($Name), ")");

                fn decode_member<'de, A: ::serde::de::MapAccess<'de>>(
                    partial: &mut Partial,
                    name: &str,
                    map: &mut A,
                ) -> Result<(), A::Error> {
                    match name {
                        $($tag => $crate::object::expect_tag($tag, $tag_value, map),)?
                        $($( $rw => $crate::object::fill(&mut partial.$r, $rw, map), )*)?
                        $($( $pw => $crate::object::fill(&mut partial.$p, $pw, map), )*)?
                        $($( $ow => $crate::object::fill(&mut partial.$o, $ow, map), )*)?
                        $($( $aw => $crate::object::fill(&mut partial.$a, $aw, map), )*)?
                        _ => partial.unknown.keep(name, map),
                    }
                }

                fn finish<E: ::serde::de::Error>(partial: Partial) -> Result<Self, E> {
                    Ok(Self {
                        $($( $r: partial.$r.ok_or_else(|| E::missing_field($rw))?, )*)?
                        $($( $p: partial.$p.ok_or_else(|| E::missing_field($pw))?, )*)?
                        $($( $o: partial.$o.flatten(), )*)?
                        $($( $a: partial.$a, )*)?
                        extra: partial.unknown.into_object(),
                    })
                }
            }
        };

        impl<'de> ::serde::Deserialize<'de> for $Name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map($crate::object::ObjectVisitor(::std::marker::PhantomData))
            }
        }

        impl ::serde::Serialize for $Name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use ::serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $( map.serialize_entry($tag, $tag_value)?; )?
                $($( map.serialize_entry($rw, &self.$r)?; )*)?
                $($( map.serialize_entry($pw, &self.$p)?; )*)?
                $($( if let Some(value) = &self.$o { map.serialize_entry($ow, value)?; } )*)?
                $($( if let Some(value) = &self.$a { map.serialize_entry($aw, value)?; } )*)?
                if !self.extra.is_empty() {
                    for (name, value) in &self.extra {
                        map.serialize_entry(&name, &value)?;
                    }
                }
                map.end()
            }
        }
    };

    (@start) => { None };
    (@start $value:expr) => { Some($value) };

    (@default $Name:ident) => {
        impl Default for $Name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
    (@default $Name:ident $($required:ident)+) => {};

    (@translate $Name:ident custom) => {};
    (@translate $Name:ident) => {
        impl $crate::revision::Translate for $Name {
            fn lower(&mut self, to: $crate::ProtocolVersion) {
                self.lower_members(to);
            }

            fn raise(&mut self, from: $crate::ProtocolVersion) {
                self.raise_members(from);
            }
        }
    };
}
pub(crate) use object;

/// Writes down an enumeration of strings: `closed` ones refuse other values, `open` ones keep them in `Other`.
macro_rules! string_enum {
    (
        $(#[$meta:meta])*
        closed $Name:ident { $( $(#[$vmeta:meta])* $Variant:ident = $text:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $Name { $( $(#[$vmeta])* $Variant, )+ }

        impl $Name {
            /// As it stands on the wire.
            #[must_use]
            pub fn as_str(&self) -> &'static str {
                match self { $( Self::$Variant => $text, )+ }
            }
        }

        impl ::std::str::FromStr for $Name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $( $text => Ok(Self::$Variant), )+
                    _ => Err(format!(
                        "unknown value {text:?}, expected one of {}",
                        [$( $text ),+].join(", ")
                    )),
                }
            }
        }

        $crate::object::string_enum!(@common $Name);
    };
    (
        $(#[$meta:meta])*
        open $Name:ident { $( $(#[$vmeta:meta])* $Variant:ident = $text:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $Name {
            $( $(#[$vmeta])* $Variant, )+
            /// A value this crate does not know, kept as it came.
            Other(Box<str>),
        }

        impl $Name {
            /// As it stands on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$Variant => $text, )+
                    Self::Other(text) => text,
                }
            }
        }

        impl ::std::str::FromStr for $Name {
            type Err = ::std::convert::Infallible;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Ok(match text {
                    $( $text => Self::$Variant, )+
                    _ => Self::Other(text.into()),
                })
            }
        }

        $crate::object::string_enum!(@common $Name);
    };
    (@common $Name:ident) => {
        impl ::std::fmt::Display for $Name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::serde::Serialize for $Name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use ::serde::de::DeserializeSeed as _;
                let text = $crate::json::StringSeed.deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }

        $crate::revision::opaque!($Name);
    };
}
pub(crate) use string_enum;
