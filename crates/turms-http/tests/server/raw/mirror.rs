//! Headers that repeat parts of the body since 2026-07-28 (basic/transports/streamable-http, "Request Headers").

use serde_json::{Value, json};

use crate::dialog::{Session, call, modern, modern_call};
use crate::fixture::Fixture;
use crate::wire::Request;

/// A call of `headed` with these arguments and `Mcp-Param-*` headers.
fn headed(arguments: Value, headers: &[(&str, &str)]) -> Request {
    let call = modern_call("q", "headed", arguments);
    headers.iter().fold(call, |call, (name, value)| call.also(&format!("Mcp-Param-{name}"), value))
}

async fn taken(fixture: &Fixture, request: Request) {
    let response = fixture.send(request.clone()).await;
    assert_eq!(response.status(), 200, "{request:?}: {response}");
    assert!(response.json().get("result").is_some(), "{request:?}: {response}");
}

async fn refused(fixture: &Fixture, request: Request) {
    let response = fixture.send(request.clone()).await;
    assert_eq!(response.status(), 400, "{request:?}: {response}");
    response.assert_refused(400, -32020, &json!("q"));
}

#[tokio::test]
async fn the_method_is_repeated_to_the_letter() {
    let fixture = Fixture::start().await;
    let list = modern("q", "tools/list", json!({}));
    taken(&fixture, list.clone()).await;
    for name in ["mcp-method", "MCP-METHOD", "Mcp-Method"] {
        taken(&fixture, list.clone().without("Mcp-Method").also(name, "tools/list")).await;
        taken(&fixture, list.clone().without("Mcp-Method").also(name, "  tools/list \t")).await;
    }
    for wrong in ["", "Tools/List", "TOOLS/LIST", "tools/call", "tools/list/", "tools list", "tools/list, tools/list"] {
        refused(&fixture, list.clone().header("Mcp-Method", wrong)).await;
    }
    refused(&fixture, list.clone().without("Mcp-Method")).await;
    refused(&fixture, list.clone().also("Mcp-Method", "tools/list")).await;
    refused(&fixture, list.header("Mcp-Method", b"tools/list\xff")).await;
}

#[tokio::test]
async fn the_name_of_a_tool_a_prompt_or_a_resource_is_repeated() {
    let fixture = Fixture::start().await;
    let requests = [
        ("add", modern_call("q", "add", json!({ "a": 1, "b": 2 }))),
        ("review", modern("q", "prompts/get", json!({ "name": "review", "arguments": { "code": "x" } }))),
        ("memo://hello", modern("q", "resources/read", json!({ "uri": "memo://hello" }))),
    ];
    for (name, request) in requests {
        taken(&fixture, request.clone()).await;
        taken(&fixture, request.clone().header("mcp-name", format!(" \t{name}  "))).await;
        refused(&fixture, request.clone().without("Mcp-Name")).await;
        refused(&fixture, request.clone().header("Mcp-Name", "other")).await;
        refused(&fixture, request.clone().header("Mcp-Name", name.to_uppercase())).await;
        refused(&fixture, request.clone().header("Mcp-Name", "")).await;
        refused(&fixture, request.clone().also("Mcp-Name", name)).await;
        refused(&fixture, request.header("Mcp-Name", [name.as_bytes(), b"\xe4"].concat())).await;
    }
}

#[tokio::test]
async fn names_may_be_encoded_and_must_be_if_they_do_not_fit() {
    let fixture = Fixture::start().await;
    let add = modern_call("q", "add", json!({ "a": 1, "b": 2 }));
    taken(&fixture, add.clone().header("Mcp-Name", "=?base64?YWRk?=")).await;
    for wrong in [
        "=?base64?YWRk",
        "YWRk?=",
        "YWRk",
        "=?base64?YWRk=?=",
        "=?base64?YW Rk?=",
        "=?base64?!!!?=",
        "=?base64?YWRl?=",
        "=?base64??=",
        "=?BASE64?YWRk?=",
    ] {
        refused(&fixture, add.clone().header("Mcp-Name", wrong)).await;
    }
    // "memo://grüße"
    let read = modern("q", "resources/read", json!({ "uri": "memo://grüße" }));
    taken(&fixture, read.clone().header("Mcp-Name", "=?base64?bWVtbzovL2dyw7zDn2U=?=")).await;
    refused(&fixture, read.clone().header("Mcp-Name", "=?base64?bWVtbzovL2dyw7zDn2U?=")).await;
    // The name as Latin-1 in base64, and as plain UTF-8: both are invalid.
    refused(&fixture, read.clone().header("Mcp-Name", "=?base64?bWVtbzovL2dy/N9l?=")).await;
    refused(&fixture, read.header("Mcp-Name", "memo://grüße")).await;
}

#[tokio::test]
async fn methods_without_a_name_need_none() {
    let fixture = Fixture::start().await;
    for method in ["tools/list", "server/discover", "prompts/list", "resources/list"] {
        taken(&fixture, modern("q", method, json!({}))).await;
    }
}

#[tokio::test]
async fn arguments_are_repeated_as_text() {
    let fixture = Fixture::start().await;
    taken(&fixture, headed(json!({}), &[])).await;
    taken(&fixture, headed(json!({ "plain": "x" }), &[])).await;
    taken(&fixture, headed(json!({ "region": "eu west" }), &[("Region", "eu west")])).await;
    taken(&fixture, headed(json!({ "region": "eu" }), &[("region", "\t eu ")])).await;
    taken(&fixture, headed(json!({ "region": "" }), &[("Region", "")])).await;
    taken(&fixture, headed(json!({ "level": 42 }), &[("Level", "42")])).await;
    taken(&fixture, headed(json!({ "level": 42 }), &[("Level", "42.0")])).await;
    taken(&fixture, headed(json!({ "level": -1 }), &[("Level", "-1")])).await;
    taken(&fixture, headed(json!({ "deep": { "flag": true } }), &[("Flag", "true")])).await;
    taken(&fixture, headed(json!({ "deep": { "flag": false } }), &[("Flag", "false")])).await;
    let all = json!({ "region": "eu", "level": 1, "deep": { "flag": true } });
    taken(&fixture, headed(all, &[("Region", "eu"), ("Level", "1"), ("Flag", "true")])).await;
    // The tool declares no such header, so it is ignored.
    taken(&fixture, headed(json!({}), &[("Unknown", "x")])).await;
}

#[tokio::test]
async fn arguments_and_headers_that_differ_are_refused() {
    let fixture = Fixture::start().await;
    refused(&fixture, headed(json!({ "region": "eu" }), &[])).await;
    refused(&fixture, headed(json!({ "region": "eu" }), &[("Region", "us")])).await;
    refused(&fixture, headed(json!({ "region": "eu" }), &[("Region", "EU")])).await;
    refused(&fixture, headed(json!({ "region": "eu" }), &[("Region", "")])).await;
    refused(&fixture, headed(json!({ "region": "" }), &[])).await;
    refused(&fixture, headed(json!({}), &[("Region", "eu")])).await;
    refused(&fixture, headed(json!({ "level": 42 }), &[])).await;
    refused(&fixture, headed(json!({ "level": 42 }), &[("Level", "43")])).await;
    refused(&fixture, headed(json!({ "level": 42 }), &[("Level", "forty-two")])).await;
    refused(&fixture, headed(json!({ "deep": { "flag": true } }), &[])).await;
    refused(&fixture, headed(json!({ "deep": { "flag": true } }), &[("Flag", "false")])).await;
    refused(&fixture, headed(json!({ "deep": { "flag": true } }), &[("Flag", "True")])).await;
    refused(&fixture, headed(json!({ "deep": {} }), &[("Flag", "true")])).await;
    refused(&fixture, headed(json!({ "region": "eu" }), &[("Region", "eu"), ("Region", "eu")])).await;
    let bytes = headed(json!({ "region": "ä" }), &[]).also("Mcp-Param-Region", "ä");
    refused(&fixture, bytes).await;
}

#[tokio::test]
async fn arguments_may_be_encoded() {
    let fixture = Fixture::start().await;
    taken(&fixture, headed(json!({ "region": "Hello" }), &[("Region", "=?base64?SGVsbG8=?=")])).await;
    taken(&fixture, headed(json!({ "region": "ä\n" }), &[("Region", "=?base64?w6QK?=")])).await;
    taken(&fixture, headed(json!({ "region": " x " }), &[("Region", "=?base64?IHgg?=")])).await;
    // A value that looks encoded has to be encoded itself: "=?base64?eA==?=".
    let odd = "=?base64?eA==?=";
    taken(&fixture, headed(json!({ "region": odd }), &[("Region", "=?base64?PT9iYXNlNjQ/ZUE9PT89?=")])).await;
    refused(&fixture, headed(json!({ "region": odd }), &[("Region", odd)])).await;
    // A value with only one of the two markers is literal.
    for literal in ["=?base64?SGVsbG8=", "SGVsbG8=?=", "base64?SGVsbG8=?="] {
        taken(&fixture, headed(json!({ "region": literal }), &[("Region", literal)])).await;
        refused(&fixture, headed(json!({ "region": "Hello" }), &[("Region", literal)])).await;
    }
    for broken in
        ["=?base64?SGVsbG8?=", "=?base64?SGVsbG8==?=", "=?base64?!!!?=", "=?base64?SGVs bG8=?=", "=?base64?/w==?="]
    {
        refused(&fixture, headed(json!({ "region": "Hello" }), &[("Region", broken)])).await;
    }
}

#[tokio::test]
async fn older_revisions_repeat_nothing() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, "2025-11-25").await;
    let post = session.post(call("q", "headed", json!({ "region": "eu" })));
    taken(&fixture, post.clone()).await;
    taken(&fixture, post.header("Mcp-Param-Region", "us")).await;
}

/// The other arguments are compared even if a number does not fit a native number type.
#[tokio::test]
async fn arguments_beside_a_huge_number_are_compared_with_headers() {
    let fixture = Fixture::start().await;
    for number in ["1e400", "-1e400", "1E+999", "123456789012345678901234567890", "0.1e-999"] {
        let mut request = headed(json!({ "region": "eu", "odd": 0 }), &[]);
        let body = String::from_utf8(request.body.take().unwrap()).unwrap();
        let body = body.replace("\"odd\":0", &format!("\"odd\":{number}"));
        assert!(body.contains(number), "{body}");
        refused(&fixture, request.body(body)).await;
    }
}
