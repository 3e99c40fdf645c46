//! Translation by method name, for code that forwards messages without decoding them.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Ability, MethodKind, ProtocolVersion, Translate, method_info};
use crate::json::{DecodeError, RawJson};

/// Lowers the parameters of a request from the newest revision. Parameters of unknown methods stay unchanged.
///
/// # Errors
/// If the parameters are invalid for the method.
pub fn lower_params(method: &str, params: &RawJson, to: ProtocolVersion) -> Result<RawJson, DecodeError> {
    params_of(method, params, TranslationStep::Lower(to))
}

/// Raises the parameters of a request to the newest revision.
///
/// # Errors
/// If the parameters are invalid for the method.
pub fn raise_params(method: &str, params: &RawJson, from: ProtocolVersion) -> Result<RawJson, DecodeError> {
    params_of(method, params, TranslationStep::Raise(from))
}

/// Lowers the result of a request from the newest revision.
///
/// # Errors
/// If the result is invalid for the method, or asks for input although the revision uses server requests for that.
pub fn lower_result(method: &str, result: &RawJson, to: ProtocolVersion) -> Result<RawJson, DecodeError> {
    let needs_input = result.member("resultType").is_some_and(|kind| kind.as_str() == "\"input_required\"");
    if needs_input && !to.has(Ability::InputRequired) {
        return Err(DecodeError::custom(format_args!(
            "clients of {to} get input requests as requests, not in a result"
        )));
    }
    result_of(method, result, TranslationStep::Lower(to))
}

/// Raises the result of a request to the newest revision.
///
/// # Errors
/// If the result is invalid for the method.
pub fn raise_result(method: &str, result: &RawJson, from: ProtocolVersion) -> Result<RawJson, DecodeError> {
    result_of(method, result, TranslationStep::Raise(from))
}

/// Lowers the parameters of a notification from the newest revision.
///
/// # Errors
/// If the parameters are invalid for the notification.
pub fn lower_notification(method: &str, params: &RawJson, to: ProtocolVersion) -> Result<RawJson, DecodeError> {
    notification_of(method, params, TranslationStep::Lower(to))
}

/// Raises the parameters of a notification to the newest revision.
///
/// # Errors
/// If the parameters are invalid for the notification.
pub fn raise_notification(method: &str, params: &RawJson, from: ProtocolVersion) -> Result<RawJson, DecodeError> {
    notification_of(method, params, TranslationStep::Raise(from))
}

/// Direction of a translation, with the other revision.
#[derive(Clone, Copy)]
pub(super) enum TranslationStep {
    Lower(ProtocolVersion),
    Raise(ProtocolVersion),
}

impl TranslationStep {
    pub(super) fn apply<T: Translate + Serialize + DeserializeOwned>(self, raw: &RawJson) -> Translated {
        let mut value: T = raw.decode()?;
        match self {
            Self::Lower(to) => value.lower(to),
            Self::Raise(from) => value.raise(from),
        }
        Ok(RawJson::encode(&value).unwrap_or_else(|_| raw.clone()))
    }

    /// Returns the value unchanged.
    pub(super) fn skip(self, raw: &RawJson) -> Translated {
        Ok(raw.clone())
    }
}

type Translated = Result<RawJson, DecodeError>;

/// Functions that translate the parameters and the result of a method.
#[derive(Clone, Copy, Debug)]
pub(super) struct Translation {
    pub(super) params: fn(TranslationStep, &RawJson) -> Translated,
    pub(super) result: fn(TranslationStep, &RawJson) -> Translated,
}

fn translation_of(name: &str, kind: MethodKind) -> Option<Translation> {
    method_info(name).filter(|method| method.kind == kind).map(|method| method.translation)
}

fn params_of(method: &str, params: &RawJson, step: TranslationStep) -> Translated {
    match translation_of(method, MethodKind::Request) {
        Some(translation) => (translation.params)(step, params),
        None => step.skip(params),
    }
}

fn result_of(method: &str, result: &RawJson, step: TranslationStep) -> Translated {
    match translation_of(method, MethodKind::Request) {
        Some(translation) => (translation.result)(step, result),
        None => step.skip(result),
    }
}

fn notification_of(method: &str, params: &RawJson, step: TranslationStep) -> Translated {
    match translation_of(method, MethodKind::Notification) {
        Some(translation) => (translation.params)(step, params),
        None => step.skip(params),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProtocolVersion::*;
    use super::*;

    #[test]
    fn a_call_is_fitted_by_its_name() {
        let params = r#"{"name":"a","arguments":{},"requestState":"s","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","mine":1}}"#;
        let lowered = lower_params("tools/call", &RawJson::parse(params).unwrap(), V2025_11_25).unwrap();
        assert_eq!(lowered.as_str(), r#"{"name":"a","arguments":{},"_meta":{"mine":1}}"#);
        let result = RawJson::parse(r#"{"tools":[]}"#).unwrap();
        assert_eq!(
            raise_result("tools/list", &result, V2024_11_05).unwrap().as_str(),
            r#"{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#
        );
    }

    #[test]
    fn a_task_result_and_an_unknown_method_pass_as_they_are() {
        let raw = RawJson::parse(r#"{"taskId":"a","mine":1}"#).unwrap();
        assert_eq!(lower_result("tasks/get", &raw, V2025_11_25).unwrap(), raw);
        assert_eq!(lower_params("notifications/progress", &raw, V2025_11_25).unwrap(), raw);
        assert_eq!(lower_notification("notifications/mine", &raw, V2025_11_25).unwrap(), raw);
        assert!(lower_notification("notifications/progress", &raw, V2025_11_25).is_err());
    }

    #[test]
    fn input_requests_are_not_sent_to_revisions_without_them() {
        let round = RawJson::parse(r#"{"resultType":"input_required","requestState":"s"}"#).unwrap();
        assert!(lower_result("tools/call", &round, V2026_07_28).is_ok());
        let error = lower_result("tools/call", &round, V2025_11_25).unwrap_err();
        assert_eq!(error.to_string(), "clients of 2025-11-25 get input requests as requests, not in a result");
    }

    #[test]
    fn unknown_methods_pass_as_they_are() {
        let params = RawJson::parse(r#"{"a":1}"#).unwrap();
        assert_eq!(lower_params("mine/method", &params, V2024_11_05).unwrap(), params);
        assert!(lower_params("tools/call", &params, V2024_11_05).is_err());
    }
}
