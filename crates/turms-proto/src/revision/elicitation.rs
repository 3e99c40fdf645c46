//! Translation of elicitation: forms since 2025-06-18; URLs, defaults and more field types since 2025-11-25.

use std::borrow::Cow;

use super::{Ability, ProtocolVersion, Translate};
use crate::Object;
use crate::types::{ChoiceField, ElicitParams, Field, StringField, TitledChoiceField, TitledValue};

impl Translate for ElicitParams {
    fn lower(&mut self, to: ProtocolVersion) {
        match self {
            Self::Form(form) => form.lower(to),
            Self::Url(url) => url.lower(to),
        }
    }

    fn raise(&mut self, from: ProtocolVersion) {
        match self {
            Self::Form(form) => {
                form.raise_members(from);
                if !from.has(Ability::RichElicitation) {
                    form.mode = Some(crate::types::FormMode::Form);
                    form.requested_schema.properties.values_mut().for_each(raise_field);
                }
            }
            Self::Url(url) => url.raise(from),
        }
    }
}

/// Translates an elicitation request for a client of another revision. `id` creates the id that 2025-11-25 requires
/// for URLs.
///
/// # Errors
/// If the revision does not support the request.
pub fn lower_elicitation(
    params: &mut ElicitParams,
    to: ProtocolVersion,
    id: impl FnOnce() -> String,
) -> Result<(), UnsupportedFeatureError> {
    check_elicitation(params, to)?;
    if let ElicitParams::Url(url) = params
        && to.has(Ability::ElicitationIds)
    {
        url.elicitation_id.get_or_insert_with(id);
    }
    params.lower(to);
    Ok(())
}

/// Error for an elicitation request that a revision does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not supported by clients of {version}: {what}")]
#[non_exhaustive]
pub struct UnsupportedFeatureError {
    /// The client's revision.
    pub version: ProtocolVersion,
    /// The missing feature.
    pub what: Cow<'static, str>,
}

/// Checks that a client of a revision supports the elicitation request.
///
/// # Errors
/// If the revision lacks a feature.
pub fn check_elicitation(params: &ElicitParams, version: ProtocolVersion) -> Result<(), UnsupportedFeatureError> {
    let lacks = |what: &'static str| Err(UnsupportedFeatureError { version, what: what.into() });
    match params {
        _ if !version.has(Ability::FormElicitation) => lacks("it has no elicitation"),
        ElicitParams::Url(_) if !version.has(Ability::UrlElicitation) => lacks("elicitation by URL"),
        ElicitParams::Form(form) if !version.has(Ability::RichElicitation) => {
            let several = |field: &Field| matches!(field, Field::Choices(_) | Field::TitledChoices(_));
            match form.requested_schema.properties.iter().find(|(_, field)| several(field)) {
                Some((name, _)) => {
                    let what = format!("multiple choice in the form field {name:?}").into();
                    Err(UnsupportedFeatureError { version, what })
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Converts a field to the format of older forms.
pub(crate) fn lower_field(field: &mut Field, to: ProtocolVersion) {
    if to.has(Ability::RichElicitation) {
        return;
    }
    let older = match field {
        Field::TitledChoice(choice) => {
            let choice = std::mem::replace(choice, TitledChoiceField::new(Vec::new()));
            let (values, names): (Vec<_>, Vec<_>) =
                choice.one_of.into_iter().map(|value| (value.value, value.title)).unzip();
            let mut older = ChoiceField::new(values).enum_names(names);
            (older.title, older.description, older.default) = (choice.title, choice.description, choice.default);
            older.extra = without(choice.extra, &["enum", "enumNames"]);
            Field::Choice(older)
        }
        Field::Choices(choices) => as_text(&mut choices.title, &mut choices.description),
        Field::TitledChoices(choices) => as_text(&mut choices.title, &mut choices.description),
        _ => return,
    };
    *field = older;
}

/// Removes the unknown members that the new format defines, so that no member is duplicated.
fn without(mut extra: Object, names: &[&str]) -> Object {
    if names.iter().any(|name| extra.contains(name)) {
        extra.retain(|name| !names.contains(&name));
    }
    extra
}

fn as_text(title: &mut Option<String>, description: &mut Option<String>) -> Field {
    let mut field = StringField::new();
    (field.title, field.description) = (title.take(), description.take());
    Field::String(field)
}

/// Converts `enumNames` to titled values, the format of the newest revision.
fn raise_field(field: &mut Field) {
    let Field::Choice(choice) = field else { return };
    let Some(names) = choice.enum_names.take_if(|names| names.len() == choice.values.len()) else {
        return;
    };
    let titled = std::mem::take(&mut choice.values).into_iter().zip(names);
    let values: Vec<_> = titled.map(|(value, title)| TitledValue::new(value, title)).collect();
    let mut newer = TitledChoiceField::new(values);
    (newer.title, newer.description, newer.default) =
        (choice.title.take(), choice.description.take(), choice.default.take());
    newer.extra = without(std::mem::take(&mut choice.extra), &["oneOf"]);
    *field = Field::TitledChoice(newer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_two_shapes_is_lowered_to_one() {
        let text = r#"{"type":"string","enum":["x"],"oneOf":[{"const":"k","title":"K"}]}"#;
        let mut field: Field = crate::decode(text).unwrap();
        field.lower(ProtocolVersion::V2025_06_18);
        let lowered = serde_json::to_string(&field).unwrap();
        assert_eq!(lowered, r#"{"type":"string","enum":["k"],"enumNames":["K"]}"#);
    }

    #[test]
    fn an_unsupported_elicitation_is_an_error() {
        let url = ElicitParams::url("m", "https://a.example");
        let error = check_elicitation(&url, ProtocolVersion::V2025_06_18).unwrap_err();
        assert_eq!(error.to_string(), "not supported by clients of 2025-06-18: elicitation by URL");
        assert!(check_elicitation(&url, ProtocolVersion::V2025_11_25).is_ok());
        assert!(check_elicitation(&url, ProtocolVersion::V2024_11_05).is_err());
    }
}
