//! Elicitation forms generated from Rust types.
//!
//! A form is a flat object with fields of the few types that the specification allows. `schemars` generates more than
//! that: keywords that add nothing for a client, such as `null` for an optional field, are removed, and a schema that
//! a form cannot express is an error.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use turms_proto::Object;
use turms_proto::types::{Field, FormSchema, StringFormat};

use crate::context::InputError;
use crate::schema;

/// A type that an elicitation form is generated from and that the response is decoded into. Implemented for every type
/// with both derives; the trait exists for its compile error.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an elicitation form",
    label = "not a type that a form can be generated from",
    note = "add `#[derive(serde::Deserialize, schemars::JsonSchema)]` to the type"
)]
pub trait FormType: DeserializeOwned + JsonSchema + 'static {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema + 'static> FormType for T {}

/// Generates the form of a type.
///
/// # Errors
/// If a field has a type that forms do not allow. The error names the field.
pub(crate) fn of<T: JsonSchema>() -> Result<FormSchema, InputError> {
    form(&schema::inlined::<T>()).map_err(|reason| {
        InputError::Schema(format!("`{}` is not a valid elicitation form: {reason}", T::schema_name()))
    })
}

/// Checks the fields of a handwritten form.
///
/// # Errors
/// If a field has a type that forms do not allow. The error names the field.
pub(crate) fn check(form: &FormSchema) -> Result<(), InputError> {
    let refuse = |name: &str, reason: &str| {
        Err(InputError::Schema(format!("not a valid elicitation form: field {name:?}: {reason}")))
    };
    for (name, field) in &form.properties {
        match field {
            Field::Unknown(_) => return refuse(name, ALLOWED_FIELDS),
            Field::String(field) => {
                if let Some(StringFormat::Other(format)) = &field.format {
                    let reason = format!("the format {format:?} is not one of email, uri, date and date-time");
                    return refuse(name, &reason);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes optional fields that are `null` from a response.
pub(crate) fn without_nulls(form: &FormSchema, mut content: Object) -> Object {
    let is_required =
        |name: &str| form.required.as_ref().is_some_and(|required| required.iter().any(|one| one == name));
    let is_null = |name: &str| content.get(name).is_some_and(|value| value.as_str() == "null");
    let omitted: Vec<String> =
        form.properties.keys().filter(|name| is_null(name) && !is_required(name)).cloned().collect();
    omitted.iter().for_each(|name| drop(content.remove(name)));
    content
}

const ALLOWED_FIELDS: &str = "a field is a string, a number, a boolean or a choice of strings";

/// Keywords that restrict values and that form fields do not support.
const UNSUPPORTED_KEYWORDS: [&str; 12] = [
    "pattern",
    "multipleOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "const",
    "enum",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "if",
    "$ref",
];

/// Converts the schema of a struct to a form.
fn form(schema: &Value) -> Result<FormSchema, String> {
    let root = schema.as_object().filter(|root| root.get("type").is_some_and(|kind| kind == "object"));
    let root = root.ok_or("a form is a struct with named fields")?;
    reject_unsupported(root)?;
    let mut form = FormSchema::new();
    for (name, schema) in root.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let field = field(schema).map_err(|reason| format!("field {name:?}: {reason}"))?;
        form.properties.insert(name.clone(), field);
    }
    let required = root.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<_> = required.filter_map(|name| name.as_str().map(str::to_owned)).collect();
    form.required = Some(required).filter(|required| !required.is_empty());
    Ok(form)
}

/// Converts the schema of a member to a field.
fn field(schema: &Value) -> Result<Field, String> {
    let schema = without_null(schema.as_object().cloned().unwrap_or_default());
    let mut field = Map::new();
    if let Some(choices) = Choices::of(&schema) {
        field.insert("type".into(), "string".into());
        choices.write(&mut field, "enum", "oneOf");
        copy(&schema, &mut field, &[]);
    } else {
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => {
                reject_unsupported(&schema)?;
                copy(&schema, &mut field, &["type", "minLength", "maxLength"]);
                let allowed = |format: &&Value| matches!(format.as_str(), Some("email" | "uri" | "date" | "date-time"));
                field.extend(schema.get("format").filter(allowed).map(|format| ("format".into(), format.clone())));
            }
            Some("number" | "integer") => {
                reject_unsupported(&schema)?;
                copy(&schema, &mut field, &["type", "minimum", "maximum"]);
            }
            Some("boolean") => {
                reject_unsupported(&schema)?;
                copy(&schema, &mut field, &["type"]);
            }
            Some("array") => {
                reject_unsupported(&schema)?;
                let choices = schema.get("items").and_then(Value::as_object).and_then(Choices::of);
                let choices = choices.ok_or("an array in a form is a choice of strings: its items must be an enum")?;
                let mut items = Map::new();
                if !choices.are_titled() {
                    items.insert("type".into(), "string".into());
                }
                choices.write(&mut items, "enum", "anyOf");
                copy(&schema, &mut field, &["type", "minItems", "maxItems"]);
                field.insert("items".into(), items.into());
            }
            Some("object") => return Err(format!("nested objects are not allowed, {ALLOWED_FIELDS}")),
            _ => return Err(ALLOWED_FIELDS.into()),
        }
    }
    Object::from(field).decode().map_err(|error| error.to_string())
}

/// Copies the annotations of a field, and `members`.
fn copy(schema: &Map<String, Value>, field: &mut Map<String, Value>, members: &[&str]) {
    for name in members.iter().chain(&["title", "description", "default"]) {
        if let Some(value) = schema.get(*name) {
            field.insert((*name).to_owned(), value.clone());
        }
    }
}

fn reject_unsupported(schema: &Map<String, Value>) -> Result<(), String> {
    match UNSUPPORTED_KEYWORDS.iter().find(|keyword| schema.contains_key(**keyword)) {
        Some(keyword) => Err(format!("a form cannot express {keyword:?}")),
        None => Ok(()),
    }
}

/// Removes `null` from the values that a schema allows: an optional field may be omitted instead.
fn without_null(mut schema: Map<String, Value>) -> Map<String, Value> {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            schema.insert("type".into(), kind);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    for union in ["anyOf", "oneOf"] {
        let Some(Value::Array(schemas)) = schema.get_mut(union) else { continue };
        schemas.retain(|schema| schema.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = schemas.as_slice() {
            let mut only = only.clone();
            schema.remove(union);
            only.extend(schema);
            return without_null(only);
        }
    }
    schema
}

/// The strings of an enum, each with its title.
struct Choices(Vec<(String, Option<String>)>);

impl Choices {
    /// Returns the strings that a schema allows, if it allows only a set of strings.
    fn of(schema: &Map<String, Value>) -> Option<Self> {
        if schema.get("type").is_some_and(|kind| kind != "string") {
            return None;
        }
        if let Some(value) = schema.get("const") {
            return Some(Self(vec![(value.as_str()?.to_owned(), None)]));
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            let choices = values.iter().map(|value| Some((value.as_str()?.to_owned(), None)));
            return choices.collect::<Option<_>>().map(Self);
        }
        let Some(Value::Array(schemas)) = schema.get("oneOf").or_else(|| schema.get("anyOf")) else { return None };
        let choices = schemas.iter().map(|schema| {
            let mut choices = Self::of(schema.as_object()?)?.0;
            if let ([(_, title)], Some(text)) = (choices.as_mut_slice(), schema.get("title").and_then(Value::as_str)) {
                *title = Some(text.to_owned());
            }
            Some(choices)
        });
        Some(Self(choices.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect()))
    }

    fn are_titled(&self) -> bool {
        self.0.iter().any(|(_, title)| title.is_some())
    }

    /// Writes the choices as `plain`, or as `titled` if one of them has a title.
    fn write(self, schema: &mut Map<String, Value>, plain: &str, titled: &str) {
        if self.are_titled() {
            let choices = self.0.into_iter().map(|(value, title)| {
                let title = title.unwrap_or_else(|| value.clone());
                serde_json::json!({ "const": value, "title": title })
            });
            schema.insert(titled.to_owned(), choices.collect());
        } else {
            schema.insert(plain.to_owned(), self.0.into_iter().map(|(value, _)| Value::from(value)).collect());
        }
    }
}
