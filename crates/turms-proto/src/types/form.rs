//! Schemas of elicitation forms: flat objects of simple fields (client/elicitation, "Requested schema").

use indexmap::IndexMap;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::Number;
use crate::json::{Object, RawJson};
use crate::object::string_enum;

/// Schema of a form.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "object"))]
#[non_exhaustive]
pub struct FormSchema {
    /// The fields, in display order.
    #[object(default = IndexMap::new())]
    pub properties: IndexMap<String, Field>,
    /// Names of the required fields.
    pub required: Option<Vec<String>>,
    /// The dialect of JSON Schema.
    #[object(rename = "$schema", since = V2025_11_25)]
    pub schema: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl FormSchema {
    /// Adds an optional field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        self.properties.insert(name.into(), field.into());
        self
    }

    /// Adds a required field.
    #[must_use]
    pub fn required_field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        let name = name.into();
        self.required.get_or_insert_default().push(name.clone());
        self.field(name, field)
    }
}

string_enum! {
    /// Format of a text field.
    open StringFormat {
        /// An email address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date.
        Date = "date",
        /// A date and time.
        DateTime = "date-time",
    }
}

/// A text field.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "string"))]
#[non_exhaustive]
pub struct StringField {
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Minimum length in characters.
    pub min_length: Option<i64>,
    /// Maximum length in characters.
    pub max_length: Option<i64>,
    /// Format of the text.
    pub format: Option<StringFormat>,
    /// Default value.
    #[object(since = V2025_11_25)]
    pub default: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

string_enum! {
    /// Type of a number field.
    closed NumberKind {
        /// Any number.
        Number = "number",
        /// An integer.
        Integer = "integer",
    }
}

/// A number field.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct NumberField {
    /// Type of the number.
    #[object(rename = "type")]
    pub kind: NumberKind,
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Minimum value.
    pub minimum: Option<Number>,
    /// Maximum value.
    pub maximum: Option<Number>,
    /// Default value.
    #[object(since = V2025_11_25)]
    pub default: Option<Number>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A boolean field.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "boolean"))]
#[non_exhaustive]
pub struct BooleanField {
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Default value.
    pub default: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A single-select field. `enum_names` is the older form of titles.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "string"))]
#[non_exhaustive]
pub struct ChoiceField {
    /// The allowed values.
    #[object(rename = "enum")]
    pub values: Vec<String>,
    /// Display names of the values, in the same order.
    pub enum_names: Option<Vec<String>>,
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Default value.
    #[object(since = V2025_11_25)]
    pub default: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// An allowed value with a title.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct TitledValue {
    /// The value.
    #[object(rename = "const")]
    pub value: String,
    /// Display name.
    pub title: String,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A single-select field with titled values.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "string"))]
#[non_exhaustive]
pub struct TitledChoiceField {
    /// The allowed values.
    pub one_of: Vec<TitledValue>,
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Default value.
    pub default: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Items of a multi-select field.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "string"))]
#[non_exhaustive]
pub struct ChoiceItems {
    /// The allowed values.
    #[object(rename = "enum")]
    pub values: Vec<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A multi-select field.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "array"))]
#[non_exhaustive]
pub struct ChoicesField {
    /// The allowed values.
    pub items: ChoiceItems,
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Minimum number of selected values.
    pub min_items: Option<i64>,
    /// Maximum number of selected values.
    pub max_items: Option<i64>,
    /// Default values.
    pub default: Option<Vec<String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Items of a multi-select field with titled values.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct TitledChoiceItems {
    /// The allowed values.
    pub any_of: Vec<TitledValue>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A multi-select field with titled values.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "array"))]
#[non_exhaustive]
pub struct TitledChoicesField {
    /// The allowed values.
    pub items: TitledChoiceItems,
    /// Display name.
    pub title: Option<String>,
    /// Description of the field.
    pub description: Option<String>,
    /// Minimum number of selected values.
    pub min_items: Option<i64>,
    /// Maximum number of selected values.
    pub max_items: Option<i64>,
    /// Default values.
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
    /// A boolean.
    Boolean(BooleanField),
    /// A single selection.
    Choice(ChoiceField),
    /// A single selection among titled values.
    TitledChoice(TitledChoiceField),
    /// Multiple selections.
    Choices(ChoicesField),
    /// Multiple selections among titled values.
    TitledChoices(TitledChoicesField),
    /// A field of an unknown type, kept as received.
    Unknown(Object),
}

impl Field {
    /// Returns the default value of the field.
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
        let kind = object.get("type").and_then(|kind| kind.shared_text());
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
