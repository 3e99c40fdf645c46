//! Tools that several fixture servers share, and their arguments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turms_proto::types::{Content, CreateMessageResult};
use turms_server::{Args, Tool};

/// Arguments of tools that add two numbers.
#[derive(Serialize, Deserialize, JsonSchema, Debug)]
pub struct Add {
    /// the first number
    pub a: f64,
    /// the second number
    pub b: f64,
}

/// The form that elicits a name.
#[derive(Deserialize, JsonSchema, Debug)]
pub struct Name {
    /// The name.
    pub name: String,
}

#[derive(Deserialize, JsonSchema)]
struct EchoArguments {
    text: String,
}

/// The tool `echo`: it returns its argument `text`.
pub fn echo() -> Tool {
    Tool::builder("echo").handler_sync(|Args(arguments): Args<EchoArguments>| arguments.text)
}

/// The tool `panic`: its handler panics.
pub fn panic() -> Tool {
    Tool::builder("panic").handler_sync(|| -> String { panic!("as asked") })
}

/// Returns the text of a sampling result.
pub(crate) fn text_of(result: &CreateMessageResult) -> String {
    result.content.as_slice().iter().filter_map(Content::as_text).collect::<Vec<_>>().join(" ")
}
