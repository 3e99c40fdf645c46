//! How every object of the protocol is written down once: its members, their names on the wire, how it is read, written,
//! built and fitted to a revision.
//!
//! Serde's derive would need `flatten` to keep unknown members, which buffers values and loses their text; and it cannot
//! tell a revision's members from another's. [`object!`] does both with one visitor for all types.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::{Object, ObjectBuilder};

/// A type that is read member by member.
#[expect(unnameable_types, reason = "sealed: only this crate writes types of the protocol")]
pub trait Members: Sized {
    /// What has been read so far.
    type Partial: Default;

    /// What to call the type when something else stands in its place.
    const EXPECTED: &'static str;

    /// Takes the value of the member `name`.
    fn accept<'de, A: MapAccess<'de>>(partial: &mut Self::Partial, name: &str, map: &mut A) -> Result<(), A::Error>;

    /// Makes the value, if nothing is missing.
    fn finish<E: Error>(partial: Self::Partial) -> Result<Self, E>;
}

/// Reads any [`Members`] type from any deserializer.
pub(crate) fn deserialize<'de, T: Members, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(MembersVisitor(PhantomData))
}

struct MembersVisitor<T>(PhantomData<T>);

impl<'de, T: Members> Visitor<'de> for MembersVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        read_rest(map)
    }
}

/// Reads the members that are left in `map` into a `T`.
pub(crate) fn read_rest<'de, T: Members, A: MapAccess<'de>>(mut map: A) -> Result<T, A::Error> {
    let mut partial = T::Partial::default();
    while let Some(name) = map.next_key_seed(Name)? {
        T::accept(&mut partial, &name, &mut map)?;
    }
    T::finish(partial)
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

/// Puts a member's value in its place; a second one is an error, because two readers could see two values.
pub(crate) fn fill<T, E: Error>(slot: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

/// Members that a type does not know, kept as they came.
#[derive(Debug, Default)]
pub(crate) struct Unknown(ObjectBuilder);

impl Unknown {
    pub(crate) fn keep<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        let value = crate::RawJson::from(map.next_value::<Box<RawValue>>()?);
        self.0.push(name, value.as_str());
        Ok(())
    }

    pub(crate) fn into_object(self) -> Object {
        self.0.finish()
    }
}

/// A map whose first members were read ahead, so that the member which says what the object is could be found.
pub(crate) struct Rewound<A> {
    ahead: std::vec::IntoIter<(String, Box<RawValue>)>,
    next: Option<Box<RawValue>>,
    rest: A,
}

impl<A> Rewound<A> {
    pub(crate) fn new(ahead: Vec<(String, Box<RawValue>)>, rest: A) -> Self {
        Self { ahead: ahead.into_iter(), next: None, rest }
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rewound<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        match self.ahead.next() {
            Some((name, value)) => {
                self.next = Some(value);
                seed.deserialize(serde::de::value::StringDeserializer::new(name)).map(Some)
            }
            None => self.rest.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.next.take() {
            // A reader lends nothing out, so what comes from it owns itself, as all our types do.
            Some(value) => seed
                .deserialize(&mut serde_json::Deserializer::from_reader(value.get().as_bytes()))
                .map_err(A::Error::custom),
            None => self.rest.next_value_seed(seed),
        }
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

                fn accept<'de, A: ::serde::de::MapAccess<'de>>(
                    partial: &mut Partial,
                    name: &str,
                    map: &mut A,
                ) -> Result<(), A::Error> {
                    match name {
                        $($tag => $crate::object::expect_tag::<A>($tag, $tag_value, map),)?
                        $($( $rw => $crate::object::fill(&mut partial.$r, $rw, map.next_value()?), )*)?
                        $($( $pw => $crate::object::fill(&mut partial.$p, $pw, map.next_value()?), )*)?
                        $($( $ow => $crate::object::fill(&mut partial.$o, $ow, map.next_value()?), )*)?
                        $($( $aw => $crate::object::fill(&mut partial.$a, $aw, map.next_value()?), )*)?
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
                $crate::object::deserialize(deserializer)
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

/// The member that says what an object is must say this.
pub(crate) fn expect_tag<'de, A: MapAccess<'de>>(
    name: &'static str,
    expected: &'static str,
    map: &mut A,
) -> Result<(), A::Error> {
    let found: Cow<'de, str> = map.next_value_seed(Name)?;
    if found == expected {
        return Ok(());
    }
    Err(A::Error::custom(format_args!("\"{name}\" is \"{found}\", expected \"{expected}\"")))
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

        $crate::revision::opaque!($Name);
    };
}
pub(crate) use string_enum;
