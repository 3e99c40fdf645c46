//! Elicitation: forms since 2025-06-18; pages, defaults and richer choices since 2025-11-25.

use super::{Ability, ProtocolVersion, Translate};
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

/// A question that a revision has no words for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a client of {version} cannot be asked this: {what}")]
#[non_exhaustive]
pub struct CannotExpress {
    /// The client's revision.
    pub version: ProtocolVersion,
    /// What it lacks.
    pub what: &'static str,
}

/// Whether a client of a revision can be asked this and give an answer of the expected shape.
///
/// # Errors
/// Saying what the revision lacks.
pub fn check_elicitation(params: &ElicitParams, version: ProtocolVersion) -> Result<(), CannotExpress> {
    let lacks = |what| Err(CannotExpress { version, what });
    match params {
        _ if !version.has(Ability::FormElicitation) => lacks("it has no elicitation"),
        ElicitParams::Url(_) if !version.has(Ability::UrlElicitation) => lacks("it cannot be sent to a URL"),
        ElicitParams::Form(form) if !version.has(Ability::RichElicitation) => {
            let several = |field: &Field| matches!(field, Field::Choices(_) | Field::TitledChoices(_));
            if form.requested_schema.properties.values().any(several) {
                return lacks("its forms have no fields with several choices");
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Gives a field the shape that an older form has.
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
            older.extra = choice.extra;
            Field::Choice(older)
        }
        Field::Choices(choices) => as_text(&mut choices.title, &mut choices.description),
        Field::TitledChoices(choices) => as_text(&mut choices.title, &mut choices.description),
        _ => return,
    };
    *field = older;
}

fn as_text(title: &mut Option<String>, description: &mut Option<String>) -> Field {
    let mut field = StringField::new();
    (field.title, field.description) = (title.take(), description.take());
    Field::String(field)
}

/// Names beside values become titled values, as the newest revision writes them.
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
    newer.extra = std::mem::take(&mut choice.extra);
    *field = Field::TitledChoice(newer);
}
