//! How every object of the protocol is written down once: its members, their names on the wire, how it is read, written,
//! built and fitted to a revision.
//!
//! Serde's derive would need `flatten` to keep unknown members, which buffers values and loses their text; and it cannot
//! tell a revision's members from another's. [`object!`] does both, with one loop over members for all types
//! ([`crate::json::read`]).

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

use crate::json::decoder::Decoder;
use crate::json::fault::Fault;
use crate::json::read::Read;
use crate::json::{Object, ObjectBuilder};

/// A type that is read member by member.
#[expect(unnameable_types, reason = "sealed: only this crate writes types of the protocol")]
pub trait Members: Sized {
    /// What has been read so far.
    type Partial: Default;

    /// What to call the type when something else stands in its place.
    const EXPECTED: &'static str;

    /// Takes the value of the member `name`.
    fn accept(partial: &mut Self::Partial, name: &str, decoder: &mut Decoder<'_>) -> Result<(), Fault>;

    /// Makes the value, if nothing is missing.
    fn finish(partial: Self::Partial) -> Result<Self, Fault>;
}

/// Reads what has been read when an object is over.
pub(crate) fn read_members<T: Members>(decoder: &mut Decoder<'_>) -> Result<T::Partial, Fault> {
    let mut partial = T::Partial::default();
    decoder.members(T::EXPECTED, &mut |decoder, name| T::accept(&mut partial, name, decoder))?;
    Ok(partial)
}

/// Borrows a key from the text where it can.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

/// Reads a member's value to its place; a second one is an error, because two readers could see two values.
#[inline(never)]
pub(crate) fn fill<T: Read>(slot: &mut Option<T>, name: &'static str, decoder: &mut Decoder<'_>) -> Result<(), Fault> {
    let value = T::read(decoder).map_err(|fault| fault.within(name))?;
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(duplicate(name)),
    }
}

/// A member is there twice.
#[cold]
#[inline(never)]
pub(crate) fn duplicate(name: &'static str) -> Fault {
    Fault::duplicate_field(name)
}

/// One of these members is not there.
#[cold]
#[inline(never)]
pub(crate) fn missing(members: &[(&'static str, bool)]) -> Fault {
    Fault::missing_field(members.iter().find(|(_, is_there)| !is_there).map_or("", |(name, _)| name))
}

/// Members that a type does not know, kept as they came.
#[derive(Debug, Default)]
pub(crate) struct Unknown(ObjectBuilder);

impl Unknown {
    #[inline(never)]
    pub(crate) fn keep(&mut self, name: &str, decoder: &mut Decoder<'_>) -> Result<(), Fault> {
        let value = decoder.skip()?;
        match value.contains(['\n', '\r']) {
            true => self.0.push(name, &value.replace(['\n', '\r'], " ")),
            false => self.0.push(name, value),
        }
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
        #[derive(Debug, PartialEq)]
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
            #[inline(never)]
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
            #[inline(never)]
            #[allow(unused_variables, dead_code, reason = "not every object has members")]
            pub(crate) fn raise_members(&mut self, from: $crate::ProtocolVersion) {
                $($( $crate::revision::Translate::raise(&mut self.$r, from); )*)?
                $($( $crate::revision::Translate::raise(&mut self.$p, from); )*)?
                $($( $crate::revision::Translate::raise(&mut self.$o, from); )*)?
            }
        }

        // What derive makes is copied into whoever clones.
        impl Clone for $Name {
            #[inline(never)]
            fn clone(&self) -> Self {
                Self {
                    $($( $r: self.$r.clone(), )*)?
                    $($( $p: self.$p.clone(), )*)?
                    $($( $o: self.$o.clone(), )*)?
                    $($( $a: self.$a.clone(), )*)?
                    extra: self.extra.clone(),
                }
            }
        }

        $crate::object::object!(@default $Name $($($r)*)?);
        $crate::object::object!(@translate $Name $($custom)?);

        const _: () = {
            #[derive(Debug, Default)]
            #[allow(unnameable_types, reason = "seen through `Members::Partial` alone")]
            pub struct Partial {
                $($( $r: Option<$R>, )*)?
                $($( $p: Option<$P>, )*)?
                $($( $o: Option<Option<$O>>, )*)?
                $($( $a: Option<$crate::RawJson>, )*)?
                unknown: $crate::object::Unknown,
            }

            impl $crate::object::Members for $Name {
                type Partial = Partial;

                const EXPECTED: &'static str = concat!("an object (", stringify!($Name), ")");

                fn accept(
                    partial: &mut Partial,
                    name: &str,
                    decoder: &mut $crate::json::decoder::Decoder<'_>,
                ) -> Result<(), $crate::json::fault::Fault> {
                    match name {
                        $($tag => $crate::object::expect_tag($tag, $tag_value, decoder),)?
                        $($( $rw => $crate::object::fill(&mut partial.$r, $rw, decoder), )*)?
                        $($( $pw => $crate::object::fill(&mut partial.$p, $pw, decoder), )*)?
                        $($( $ow => $crate::object::fill(&mut partial.$o, $ow, decoder), )*)?
                        $($( $aw => $crate::object::fill(&mut partial.$a, $aw, decoder), )*)?
                        _ => partial.unknown.keep(name, decoder),
                    }
                }

                fn finish(partial: Partial) -> Result<Self, $crate::json::fault::Fault> {
                    #[allow(irrefutable_let_patterns, reason = "not every object has members that it needs")]
                    let Partial {
                        $($( $r: Some($r), )*)?
                        $($( $p: Some($p), )*)?
                        $($( $o, )*)?
                        $($( $a, )*)?
                        unknown,
                    } = partial
                    else {
                        return Err($crate::object::missing(&[
                            $($( ($rw, partial.$r.is_some()), )*)?
                            $($( ($pw, partial.$p.is_some()), )*)?
                        ]));
                    };
                    Ok(Self {
                        $($( $r, )*)?
                        $($( $p, )*)?
                        $($( $o: $o.flatten(), )*)?
                        $($( $a, )*)?
                        extra: unknown.into_object(),
                    })
                }
            }
        };

        impl $crate::json::read::Read for $Name {
            #[inline(never)]
            fn read(
                decoder: &mut $crate::json::decoder::Decoder<'_>,
            ) -> Result<Self, $crate::json::fault::Fault> {
                let partial = $crate::object::read_members::<Self>(decoder)?;
                $crate::object::Members::finish(partial)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::json::read::deserialize(deserializer)
            }
        }

        impl ::serde::Serialize for $Name {
            #[inline(never)]
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

/// The member that says what an object is must say this.
pub(crate) fn expect_tag(name: &'static str, expected: &'static str, decoder: &mut Decoder<'_>) -> Result<(), Fault> {
    let found = decoder.string().map_err(|fault| fault.within(name))?;
    if found == expected {
        return Ok(());
    }
    Err(Fault::custom(format_args!("\"{name}\" is \"{found}\", expected \"{expected}\"")))
}

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
            #[inline(never)]
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use ::serde::de::DeserializeSeed as _;
                let text = $crate::object::Name.deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }

        impl $crate::json::read::Read for $Name {
            #[inline(never)]
            fn read(
                decoder: &mut $crate::json::decoder::Decoder<'_>,
            ) -> Result<Self, $crate::json::fault::Fault> {
                ::serde::Deserialize::deserialize(decoder)
            }
        }

        $crate::revision::opaque!($Name);
    };
}
pub(crate) use string_enum;
