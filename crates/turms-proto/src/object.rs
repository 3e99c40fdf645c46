//! Support for the object types of the protocol, which `#[derive(ProtocolObject)]` implements.
//!
//! Serde's derives do not fit. They need `flatten` to keep unknown members, which decodes them: long numbers are
//! rounded and repeated members are lost. They also know no protocol revisions.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor};

use crate::RawJson;
use crate::json::{DecodeError, Object, ObjectBuilder, StringSeed, scanner};

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

/// A member that is stored as text until the type of its object is known.
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
        // Each nested deserializer counts the depth from zero, so a chain of such members needs a limit of its own.
        scanner::check(self.0).map_err(Self::Error::custom)?;
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

/// Decodes the value of a known member. A repeated member is an error, because two readers could see different values.
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

/// Checks a member with a constant value, which distinguishes types of objects.
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

/// Unknown members, kept as received.
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

/// Defines an enum of strings: `closed` enums reject other values, `open` enums keep them in `Other`.
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
            /// All values, in their order.
            pub const ALL: &'static [Self] = &[$( Self::$Variant, )+];

            /// Returns the wire format.
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
            /// A value that is unknown to this crate, kept as received.
            Other(Box<str>),
        }

        impl $Name {
            /// Returns the wire format.
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
