//! Conversion of handlers' return values to protocol results.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use turms_core::ServiceError;
use turms_proto::types::{
    CallToolResult, Completion, Content, GetPromptResult, PromptMessage, ReadResourceResult, ResourceContents,
};
use turms_proto::{EncodeError, ErrorObject};

use crate::schema;
use crate::tool_error::ToolError;

/// A structured tool result. Sent as structured content with an output schema, and as JSON text for older clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "a wrapper and nothing else")]
pub struct Json<T>(pub T);

/// Conversion of a tool's return value to a result.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a valid tool result",
    note = "return text, a number, a bool, `Json<T>` where `T` derives `serde::Serialize` and `schemars::JsonSchema`, `Content`, `Vec<Content>`, \
            `CallToolResult`, or a `Result` of one of these whose error implements `std::error::Error` or is text"
)]
pub trait IntoCallToolResult {
    /// Converts the value to a result.
    ///
    /// # Errors
    /// If the request itself fails. A tool that fails returns a result with `isError`.
    fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError>;

    /// Returns the schema of the structured content, if there is any.
    #[must_use]
    fn output_schema() -> Option<Value> {
        None
    }
}

impl IntoCallToolResult for CallToolResult {
    fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
        Ok(self)
    }
}

impl IntoCallToolResult for Content {
    fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
        Ok(CallToolResult::new().with(self))
    }
}

impl IntoCallToolResult for Vec<Content> {
    fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
        Ok(CallToolResult::new().content(self))
    }
}

impl IntoCallToolResult for () {
    fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
        Ok(CallToolResult::new())
    }
}

macro_rules! impl_text_result {
    ($($Type:ty),+) => {$(
        impl IntoCallToolResult for $Type {
            fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
                Ok(CallToolResult::from_text(self.to_string()))
            }
        }
    )+};
}

impl_text_result!(&'static str, bool, char, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize, f32, f64);

impl IntoCallToolResult for String {
    fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
        Ok(CallToolResult::from_text(self))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + JsonSchema> IntoCallToolResult for Json<T> {
    fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
        CallToolResult::from_structured(&self.0).map_err(|error| encode_error(&error).into())
    }

    fn output_schema() -> Option<Value> {
        Some(schema::of::<T>())
    }
}

impl<T: IntoCallToolResult> IntoCallToolResult for Option<T> {
    fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
        self.map_or_else(|| Ok(CallToolResult::new()), T::into_call_tool_result)
    }

    fn output_schema() -> Option<Value> {
        T::output_schema()
    }
}

impl<T: IntoCallToolResult, E: Into<ToolError>> IntoCallToolResult for Result<T, E> {
    fn into_call_tool_result(self) -> Result<CallToolResult, ServiceError> {
        match self {
            Ok(value) => value.into_call_tool_result(),
            Err(error) => error.into().into_call_tool_result(),
        }
    }

    fn output_schema() -> Option<Value> {
        T::output_schema()
    }
}

pub(crate) fn encode_error(error: &EncodeError) -> ErrorObject {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    ErrorObject::internal(format!("the result cannot be written as JSON: {cause}"))
}

/// Conversion of a prompt's return value to a result.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "not a valid prompt result",
    note = "return text, `PromptMessage`, `Vec<PromptMessage>`, `GetPromptResult`, or a `Result` of one of these"
)]
pub trait IntoGetPromptResult {
    /// Converts the value to a result.
    ///
    /// # Errors
    /// If the prompt fails.
    fn into_get_prompt_result(self) -> Result<GetPromptResult, ServiceError>;
}

impl IntoGetPromptResult for GetPromptResult {
    fn into_get_prompt_result(self) -> Result<GetPromptResult, ServiceError> {
        Ok(self)
    }
}

impl IntoGetPromptResult for Vec<PromptMessage> {
    fn into_get_prompt_result(self) -> Result<GetPromptResult, ServiceError> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoGetPromptResult for PromptMessage {
    fn into_get_prompt_result(self) -> Result<GetPromptResult, ServiceError> {
        Ok(GetPromptResult::new([self]))
    }
}

impl IntoGetPromptResult for String {
    fn into_get_prompt_result(self) -> Result<GetPromptResult, ServiceError> {
        PromptMessage::user(self).into_get_prompt_result()
    }
}

impl IntoGetPromptResult for &'static str {
    fn into_get_prompt_result(self) -> Result<GetPromptResult, ServiceError> {
        PromptMessage::user(self).into_get_prompt_result()
    }
}

impl<T: IntoGetPromptResult, E: Into<ToolError>> IntoGetPromptResult for Result<T, E> {
    fn into_get_prompt_result(self) -> Result<GetPromptResult, ServiceError> {
        match self {
            Ok(value) => value.into_get_prompt_result(),
            Err(error) => Err(error.into().into_service_error()),
        }
    }
}

/// Conversion of a resource's return value to a result. A missing URI or MIME type is filled in from the resource.
#[diagnostic::on_unimplemented(
    message = "a resource cannot return `{Self}`",
    label = "not a valid resource result",
    note = "return text, bytes (`Vec<u8>`), `Json<T>`, `ResourceContents`, `Vec<ResourceContents>`, \
            `ReadResourceResult`, or a `Result` or `Option` of one of these"
)]
pub trait IntoReadResourceResult {
    /// Converts the value to the result of reading `uri`.
    ///
    /// # Errors
    /// If reading fails.
    fn into_read_resource_result(self, uri: &str) -> Result<ReadResourceResult, ServiceError>;
}

impl IntoReadResourceResult for ReadResourceResult {
    fn into_read_resource_result(self, _: &str) -> Result<ReadResourceResult, ServiceError> {
        Ok(self)
    }
}

impl IntoReadResourceResult for Vec<ResourceContents> {
    fn into_read_resource_result(self, _: &str) -> Result<ReadResourceResult, ServiceError> {
        Ok(ReadResourceResult::new(self))
    }
}

impl IntoReadResourceResult for ResourceContents {
    fn into_read_resource_result(self, _: &str) -> Result<ReadResourceResult, ServiceError> {
        Ok(ReadResourceResult::new([self]))
    }
}

impl IntoReadResourceResult for String {
    fn into_read_resource_result(self, uri: &str) -> Result<ReadResourceResult, ServiceError> {
        ResourceContents::from_text(uri, self).into_read_resource_result(uri)
    }
}

impl IntoReadResourceResult for &'static str {
    fn into_read_resource_result(self, uri: &str) -> Result<ReadResourceResult, ServiceError> {
        ResourceContents::from_text(uri, self).into_read_resource_result(uri)
    }
}

impl IntoReadResourceResult for Vec<u8> {
    fn into_read_resource_result(self, uri: &str) -> Result<ReadResourceResult, ServiceError> {
        ResourceContents::from_bytes(uri, self).into_read_resource_result(uri)
    }
}

impl<T: Serialize> IntoReadResourceResult for Json<T> {
    fn into_read_resource_result(self, uri: &str) -> Result<ReadResourceResult, ServiceError> {
        let text = serde_json::to_string(&self.0)
            .map_err(|error| ErrorObject::internal(format!("{uri} cannot be written as JSON: {error}")))?;
        ResourceContents::from_text(uri, text).mime_type("application/json").into_read_resource_result(uri)
    }
}

/// Returns a resource-not-found error for `None`.
impl<T: IntoReadResourceResult> IntoReadResourceResult for Option<T> {
    fn into_read_resource_result(self, uri: &str) -> Result<ReadResourceResult, ServiceError> {
        match self {
            Some(value) => value.into_read_resource_result(uri),
            None => Err(ErrorObject::resource_not_found(uri).into()),
        }
    }
}

impl<T: IntoReadResourceResult, E: Into<ToolError>> IntoReadResourceResult for Result<T, E> {
    fn into_read_resource_result(self, uri: &str) -> Result<ReadResourceResult, ServiceError> {
        match self {
            Ok(value) => value.into_read_resource_result(uri),
            Err(error) => Err(error.into().into_service_error()),
        }
    }
}

/// Conversion of a completion handler's return value to a completion.
#[diagnostic::on_unimplemented(
    message = "a completion cannot return `{Self}`",
    note = "return a list of strings or a `Completion`"
)]
pub trait IntoCompletion {
    /// Converts the value to a completion.
    ///
    /// # Errors
    /// If the completion fails.
    fn into_completion(self) -> Result<Completion, ServiceError>;
}

impl IntoCompletion for Completion {
    fn into_completion(self) -> Result<Completion, ServiceError> {
        Ok(self)
    }
}

impl<T: Into<String>> IntoCompletion for Vec<T> {
    fn into_completion(self) -> Result<Completion, ServiceError> {
        Ok(Completion::from_values(self))
    }
}

impl<T: IntoCompletion, E: Into<ToolError>> IntoCompletion for Result<T, E> {
    fn into_completion(self) -> Result<Completion, ServiceError> {
        match self {
            Ok(value) => value.into_completion(),
            Err(error) => Err(error.into().into_service_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_result_unless_it_is_the_protocols() {
        let failed: Result<i32, String> = Err("no luck".into());
        let result = failed.into_call_tool_result().unwrap();
        assert!(result.is_error() && result.text() == "no luck");
        let refused: Result<i32, ErrorObject> = Err(ErrorObject::invalid_params("no"));
        assert_eq!(refused.into_call_tool_result().unwrap_err(), ErrorObject::invalid_params("no").into());
    }

    #[test]
    fn data_comes_with_its_schema_and_as_text() {
        let result = Json(vec![1, 2]).into_call_tool_result().unwrap();
        assert_eq!(result.text(), "[1,2]");
        assert_eq!(result.structured_content.unwrap().as_str(), "[1,2]");
        assert_eq!(<Json<Vec<i32>> as IntoCallToolResult>::output_schema().unwrap()["type"], "array");
        assert!(<Result<f64, String> as IntoCallToolResult>::output_schema().is_none());
    }

    #[test]
    fn a_resource_that_is_not_there_is_an_error() {
        let error = None::<String>.into_read_resource_result("a://b").unwrap_err();
        assert!(error.is_resource_not_found());
    }
}
