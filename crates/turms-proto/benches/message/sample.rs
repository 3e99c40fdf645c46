//! Sample messages for the benchmarks of time (`benches/message.rs`) and allocations (`tests/allocation.rs`).

#![allow(dead_code, reason = "each of the two that include this file uses a part of it")]

use serde::Deserialize;
use serde::de::DeserializeOwned;
use turms_proto::jsonrpc::encode;
use turms_proto::types::{CallTool, CallToolParams, CallToolResult, ListToolsResult, Tool, ToolAnnotations};
use turms_proto::{Message, Object, Request, RequestId, Response};

/// Length of the text in a large message, in bytes.
pub(crate) const LARGE: usize = 100 * 1024;

/// Number of tools in the list.
pub(crate) const TOOLS: usize = 100;

/// A sample message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sample {
    /// `tools/call` of a 2026-07-28 client, with all required metadata.
    SmallCall,
    /// `tools/call` with an argument of 100 KiB.
    LargeCall,
    /// A result of `tools/call` with a line of text.
    SmallResult,
    /// A result of `tools/call` with 100 KiB of text.
    LargeResult,
    /// A result of `tools/list` with 100 tools and their schemas.
    ToolList,
}

impl Sample {
    pub(crate) const ALL: [Self; 5] =
        [Self::SmallCall, Self::LargeCall, Self::SmallResult, Self::LargeResult, Self::ToolList];
    pub(crate) const CALLS: [Self; 2] = [Self::SmallCall, Self::LargeCall];
    pub(crate) const RESULTS: [Self; 3] = [Self::SmallResult, Self::LargeResult, Self::ToolList];

    /// Returns the encoded message.
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::SmallCall => SMALL_CALL.into(),
            Self::LargeCall => call_with(&text_of_lines()),
            Self::SmallResult => success(&CallToolResult::from_text(FORECAST)),
            Self::LargeResult => success(&CallToolResult::from_text(text_of_lines())),
            Self::ToolList => success(&ListToolsResult::new((0..TOOLS).map(tool).collect::<Vec<_>>())),
        }
    }
}

/// Arguments of the tool in [`Sample::SmallCall`].
#[derive(Debug, Deserialize)]
pub(crate) struct Forecast {
    pub(crate) city: String,
    pub(crate) days: u8,
    pub(crate) metric: bool,
}

/// Arguments of the tool in [`Sample::LargeCall`].
#[derive(Debug, Deserialize)]
pub(crate) struct Note {
    pub(crate) text: String,
}

/// Decodes the parameters of a call.
pub(crate) fn params(bytes: Vec<u8>) -> CallToolParams {
    match Message::decode(bytes) {
        Ok(Message::Request(request)) => request.params::<CallTool>().expect("a sample is a good call"),
        other => panic!("the sample is no request: {other:?}"),
    }
}

/// Decodes the arguments of a call.
pub(crate) fn arguments<T: DeserializeOwned>(bytes: Vec<u8>) -> T {
    let arguments = params(bytes).arguments.expect("a sample has arguments");
    arguments.decode().expect("they are what the tool takes")
}

/// Decodes a result.
pub(crate) fn result<T: DeserializeOwned>(bytes: Vec<u8>) -> T {
    match Message::decode(bytes) {
        Ok(Message::Response(Response { outcome: Ok(result), .. })) => {
            result.decode().expect("the sample is a result of this method")
        }
        other => panic!("the sample is no result: {other:?}"),
    }
}

/// Creates a tool call with one string argument.
pub(crate) fn call_with(text: &str) -> Vec<u8> {
    let mut arguments = Object::new();
    arguments.insert("text", text).expect("a string is JSON");
    let params = CallToolParams::new("store").arguments(arguments);
    let mut bytes = Vec::new();
    Request::new::<CallTool>(17, &params).expect("parameters of ours are JSON").encode(&mut bytes);
    bytes
}

/// Creates a response with this result.
pub(crate) fn success(result: &impl serde::Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode::success(&mut bytes, &RequestId::from(17), result).expect("a result of ours is JSON");
    bytes
}

/// Text with line breaks, which are escaped in JSON.
pub(crate) fn text_of_lines() -> String {
    large_text("The quick brown fox jumps over the lazy dog, and so on to the end.\n")
}

/// Text without characters that are escaped in JSON.
pub(crate) fn plain_text() -> String {
    large_text("The quick brown fox jumps over the lazy dog, and so on to the end. ")
}

fn large_text(line: &str) -> String {
    line.chars().cycle().take(LARGE).collect()
}

fn tool(number: usize) -> Tool {
    Tool::new(format!("search_issues_{number}"))
        .title(format!("Search issues {number}"))
        .description(
            "Searches the issues of a repository. Words are matched in title and body; \"label:bug\" restricts to a label. \
             Results come newest first, at most `limit` of them, with a cursor for the rest.",
        )
        .input_schema(Object::parse(INPUT_SCHEMA).expect("the schema is an object"))
        .output_schema(Object::parse(OUTPUT_SCHEMA).expect("the schema is an object"))
        .annotations(ToolAnnotations::new().read_only_hint(true).open_world_hint(false))
}

const SMALL_CALL: &str = concat!(
    r#"{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"forecast","#,
    r#""arguments":{"city":"Vienna","days":3,"metric":true},"#,
    r#""_meta":{"progressToken":"p17","io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"#,
    r#""io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}"#
);

const FORECAST: &str = "Vienna: 21 °C on Monday, 24 °C on Tuesday, 19 °C and rain on Wednesday.";

const INPUT_SCHEMA: &str = concat!(
    r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"#,
    r#""repository":{"type":"string","description":"Owner and name, such as rust-lang/rust","pattern":"^[^/]+/[^/]+$"},"#,
    r#""query":{"type":"string","description":"What to look for","minLength":1,"maxLength":256},"#,
    r#""state":{"type":"string","enum":["open","closed","all"],"default":"open"},"#,
    r#""labels":{"type":"array","items":{"type":"string"},"uniqueItems":true,"maxItems":10},"#,
    r#""since":{"type":"string","format":"date-time"},"#,
    r#""limit":{"type":"integer","minimum":1,"maximum":100,"default":20}},"#,
    r#""required":["repository","query"],"additionalProperties":false}"#
);

const OUTPUT_SCHEMA: &str = concat!(
    r#"{"type":"object","properties":{"issues":{"type":"array","items":{"type":"object","properties":{"#,
    r#""number":{"type":"integer"},"title":{"type":"string"},"url":{"type":"string","format":"uri"},"#,
    r#""author":{"type":"string"}},"required":["number","title","url"]}},"cursor":{"type":"string"}},"#,
    r#""required":["issues"]}"#
);
