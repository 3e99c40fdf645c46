//! The forms that elicitation shows: flat objects of simple fields (client/elicitation, "Requested schema").

use indexmap::IndexMap;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::Number;
use crate::json::{Object, RawJson};
use crate::object::string_enum;

/// A form.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "object"))]
#[non_exhaustive]
pub struct FormSchema {
    /// The fields, in the order in which to show them.
    #[object(default = IndexMap::new())]
    pub properties: IndexMap<String, Field>,
    /// The fields that must be filled in.
    pub required: Option<Vec<String>>,
    /// The dialect of JSON Schema.
    #[object(rename = "$schema", since = V2025_11_25)]
    pub schema: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl FormSchema {
    /// One more field, which may stay empty.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        self.properties.insert(name.into(), field.into());
        self
    }

    /// One more field, which must be filled in.
    #[must_use]
    pub fn required_field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        let name = name.into();
        self.required.get_or_insert_default().push(name.clone());
        self.field(name, field)
    }
}

string_enum! {
    /// What kind of text a field wants.
    open StringFormat {
        /// A mail address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A day.
        Date = "date",
        /// A moment.
        DateTime = "date-time",
    }
}

/// A field for text.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "string"))]
#[non_exhaustive]
pub struct StringField {
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// How long the text must be.
    pub min_length: Option<i64>,
    /// How long it may be.
    pub max_length: Option<i64>,
    /// What kind of text.
    pub format: Option<StringFormat>,
    /// What stands there at first.
    #[object(since = V2025_11_25)]
    pub default: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

string_enum! {
    /// What kind of number a field wants.
    closed NumberKind {
        /// Any.
        Number = "number",
        /// A whole one.
        Integer = "integer",
    }
}

/// A field for a number.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct NumberField {
    /// What kind of number.
    #[object(rename = "type")]
    pub kind: NumberKind,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// The least it may be.
    pub minimum: Option<Number>,
    /// The most it may be.
    pub maximum: Option<Number>,
    /// What stands there at first.
    #[object(since = V2025_11_25)]
    pub default: Option<Number>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A field for yes or no.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "boolean"))]
#[non_exhaustive]
pub struct BooleanField {
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What stands there at first.
    pub default: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// One choice among values; with `enum_names`, the older way to give them titles.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "string"))]
#[non_exhaustive]
pub struct ChoiceField {
    /// The values.
    #[object(rename = "enum")]
    pub values: Vec<String>,
    /// Their names for people, in the same order.
    pub enum_names: Option<Vec<String>>,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What is chosen at first.
    #[object(since = V2025_11_25)]
    pub default: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A value with a title.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct TitledValue {
    /// The value.
    #[object(rename = "const")]
    pub value: String,
    /// Its name for people.
    pub title: String,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// One choice among titled values.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "string"))]
#[non_exhaustive]
pub struct TitledChoiceField {
    /// The values.
    pub one_of: Vec<TitledValue>,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What is chosen at first.
    pub default: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The values of a field with several choices.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "string"))]
#[non_exhaustive]
pub struct ChoiceItems {
    /// The values.
    #[object(rename = "enum")]
    pub values: Vec<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Several choices among values.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "array"))]
#[non_exhaustive]
pub struct ChoicesField {
    /// The values.
    pub items: ChoiceItems,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// How many must be chosen.
    pub min_items: Option<i64>,
    /// How many may be chosen.
    pub max_items: Option<i64>,
    /// What is chosen at first.
    pub default: Option<Vec<String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The titled values of a field with several choices.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct TitledChoiceItems {
    /// The values.
    pub any_of: Vec<TitledValue>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Several choices among titled values.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "array"))]
#[non_exhaustive]
pub struct TitledChoicesField {
    /// The values.
    pub items: TitledChoiceItems,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// How many must be chosen.
    pub min_items: Option<i64>,
    /// How many may be chosen.
    pub max_items: Option<i64>,
    /// What is chosen at first.
    pub default: Option<Vec<String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A field of a form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Field {
    /// Text.
    String(StringField),
    /// A number.
    Number(NumberField),
    /// Yes or no.
    Boolean(BooleanField),
    /// One choice.
    Choice(ChoiceField),
    /// One choice among titled values.
    TitledChoice(TitledChoiceField),
    /// Several choices.
    Choices(ChoicesField),
    /// Several choices among titled values.
    TitledChoices(TitledChoicesField),
    /// A kind of field that this crate does not know, kept as it came.
    Unknown(Object),
}

impl Field {
    /// What stands in the field at first.
    #[must_use]
    pub fn default_value(&self) -> Option<RawJson> {
        let encoded = match self {
            Self::String(field) => field.default.as_ref().map(RawJson::encode),
            Self::Number(field) => field.default.as_ref().map(RawJson::encode),
            Self::Boolean(field) => field.default.as_ref().map(RawJson::encode),
            Self::Choice(field) => field.default.as_ref().map(RawJson::encode),
            Self::TitledChoice(field) => field.default.as_ref().map(RawJson::encode),
            Self::Choices(field) => field.default.as_ref().map(RawJson::encode),
            Self::TitledChoices(field) => field.default.as_ref().map(RawJson::encode),
            Self::Unknown(object) => return object.get("default"),
        };
        encoded.and_then(Result::ok)
    }
}

macro_rules! fields {
    ($($Variant:ident($Field:ident)),+) => {
        $(
            impl From<$Field> for Field {
                fn from(field: $Field) -> Self {
                    Self::$Variant(field)
                }
            }
        )+

        impl Serialize for Field {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $( Self::$Variant(field) => field.serialize(serializer), )+
                    Self::Unknown(object) => object.serialize(serializer),
                }
            }
        }

        impl crate::revision::Translate for Field {
            fn lower(&mut self, to: crate::ProtocolVersion) {
                crate::revision::lower_field(self, to);
                match self {
                    $( Self::$Variant(field) => field.lower_members(to), )+
                    Self::Unknown(_) => {}
                }
            }

            fn raise(&mut self, _: crate::ProtocolVersion) {}
        }
    };
}

fields!(
    String(StringField),
    Number(NumberField),
    Boolean(BooleanField),
    Choice(ChoiceField),
    TitledChoice(TitledChoiceField),
    Choices(ChoicesField),
    TitledChoices(TitledChoicesField)
);

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Object::deserialize(deserializer)?;
        let kind = object.get("type").and_then(|kind| kind.text());
        let has = |name| object.contains(name);
        let field = match kind.as_deref() {
            Some("boolean") => object.decode().map(Self::Boolean),
            Some("number" | "integer") => object.decode().map(Self::Number),
            Some("string") if has("oneOf") => object.decode().map(Self::TitledChoice),
            Some("string") if has("enum") => object.decode().map(Self::Choice),
            Some("string") => object.decode().map(Self::String),
            Some("array") => match object.get("items") {
                Some(items) if items.member("anyOf").is_some() => object.decode().map(Self::TitledChoices),
                Some(items) if items.member("enum").is_some() => object.decode().map(Self::Choices),
                _ => Ok(Self::Unknown(object.clone())),
            },
            _ => Ok(Self::Unknown(object.clone())),
        };
        field.map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_apart_by_their_members() {
        for (text, expected) in [
            (r#"{"type":"string","format":"email"}"#, "String"),
            (r#"{"type":"integer","default":30}"#, "Number"),
            (r#"{"type":"boolean"}"#, "Boolean"),
            (r#"{"type":"string","enum":["a"],"enumNames":["A"]}"#, "Choice"),
            (r#"{"type":"string","oneOf":[{"const":"a","title":"A"}]}"#, "TitledChoice"),
            (r#"{"type":"array","items":{"type":"string","enum":["a"]}}"#, "Choices"),
            (r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}"#, "TitledChoices"),
            (r#"{"type":"array","items":{"type":"object"}}"#, "Unknown"),
            (r#"{"$ref":"somewhere"}"#, "Unknown"),
        ] {
            let field: Field = crate::decode(text).unwrap();
            assert!(format!("{field:?}").starts_with(expected), "{text}: {field:?}");
            assert_eq!(serde_json::to_string(&field).unwrap(), text);
        }
    }

    #[test]
    fn a_field_is_told_by_its_type_however_it_is_spelled() {
        let field: Field = crate::decode(r#"{"type":"\u0062oolean"}"#).unwrap();
        assert_eq!(field, Field::Boolean(BooleanField::new()));
    }

    #[test]
    fn a_form_is_built_in_the_order_of_its_fields() {
        let form = FormSchema::new()
            .required_field("name", StringField::new().default("Ann"))
            .field("age", NumberField::new(NumberKind::Integer));
        assert_eq!(
            serde_json::to_string(&form).unwrap(),
            r#"{"type":"object","properties":{"name":{"type":"string","default":"Ann"},"age":{"type":"integer"}},"required":["name"]}"#
        );
        assert_eq!(form.properties["name"].default_value().unwrap().as_str(), "\"Ann\"");
        assert_eq!(form.properties["age"].default_value(), None);
    }
}
