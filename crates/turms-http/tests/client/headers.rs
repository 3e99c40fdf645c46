//! Headers that mirror parts of a request.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn tools(header: &str) -> Value {
    json!({ "resultType": "complete", "tools": [
        { "name": "query", "inputSchema": { "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": header },
            "limit": { "type": "integer", "x-mcp-header": "Limit" },
            "dry": { "type": "boolean", "x-mcp-header": "Dry" } } } },
        { "name": "bad", "inputSchema": { "type": "object", "properties": {
            "ratio": { "type": "number", "x-mcp-header": "Ratio" } } } },
        { "name": "plain", "inputSchema": { "type": "object" } },
    ] })
}

#[tokio::test]
async fn names_and_arguments_are_mirrored_in_headers() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/list" => Reply::json(200, &result(request, &tools("Region"))),
        _ => modern(request),
    })
    .await;
    let client = connect_stateless(&server).await;
    send_request(&client, "tools/list", &json!({})).await.unwrap();
    let arguments = json!({ "region": "zürich", "limit": 42, "dry": true, "other": "x" });
    send_request(&client, "tools/call", &json!({ "name": "query", "arguments": arguments })).await.unwrap();
    let call = server.wait_for("tools/call", 1).await;
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("query"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(call.header("mcp-param-region"), Some("=?base64?esO8cmljaA==?="));
    assert_eq!((call.header("mcp-param-limit"), call.header("mcp-param-dry")), (Some("42"), Some("true")));

    send_request(&client, "tools/call", &json!({ "name": "query", "arguments": { "region": null } })).await.unwrap();
    let call = server.wait_for("tools/call", 2).await;
    assert!(call.headers.keys().all(|name| !name.starts_with("mcp-param-")));
    send_request(&client, "tools/call", &json!({ "name": "bad", "arguments": { "ratio": 1 } })).await.unwrap();
    let call = server.wait_for("tools/call", 3).await;
    assert!(call.headers.keys().all(|name| !name.starts_with("mcp-param-")));

    send_request(&client, "resources/read", &json!({ "uri": "memo://ä" })).await.unwrap();
    let read = server.wait_for("resources/read", 1).await;
    assert_eq!(read.header("mcp-name"), Some("=?base64?bWVtbzovL8Ok?="));
    send_request(&client, "prompts/get", &json!({ "name": " x" })).await.unwrap();
    assert_eq!(server.wait_for("prompts/get", 1).await.header("mcp-name"), Some("=?base64?IHg=?="));
}

/// Starts a server that requires the region in a header, with a name that is on the second page of its tools.
async fn requiring_header(lists: &'static [&'static str], wanted: &'static str) -> FakeHttpServer {
    let listed = AtomicUsize::new(0);
    FakeHttpServer::start(move |request| match request.what() {
        "tools/list" if request.body["params"].get("cursor").is_none() => {
            let mut page = tools("Elsewhere");
            page["tools"] = json!([]);
            page["nextCursor"] = json!("more");
            Reply::json(200, &result(request, &page))
        }
        "tools/list" => {
            let header = lists[listed.fetch_add(1, Ordering::Relaxed).min(lists.len() - 1)];
            Reply::json(200, &result(request, &tools(header)))
        }
        "tools/call" if request.header(wanted).is_none() => Reply::json(400, &failure(request, -32020, None)),
        _ => modern(request),
    })
    .await
}

#[tokio::test]
async fn a_header_mismatch_is_fixed_by_listing_the_tools() {
    let server = requiring_header(&["Region"], "mcp-param-region").await;
    let client = connect_stateless(&server).await;
    let params = json!({ "name": "query", "arguments": { "region": "eu" } });
    send_request(&client, "tools/call", &params).await.unwrap();
    assert_eq!(server.methods(), ["tools/call", "tools/list", "tools/list", "tools/call"]);
    // The header is known now.
    send_request(&client, "tools/call", &params).await.unwrap();
    assert_eq!(server.received().len(), 5);
    let ids: std::collections::HashSet<_> = server.received().iter().map(|it| it.body["id"].to_string()).collect();
    assert_eq!(ids.len(), 5);
}

#[tokio::test]
async fn a_header_mismatch_is_retried_once() {
    let server = requiring_header(&["Region"], "mcp-param-nowhere").await;
    let client = connect_stateless(&server).await;
    let error = send_request(&client, "tools/call", &json!({ "name": "query", "arguments": { "region": "eu" } }))
        .await
        .unwrap_err();
    assert!(chain(&error).contains("-32020"), "{error:?}");
    assert_eq!(server.methods(), ["tools/call", "tools/list", "tools/list", "tools/call"]);
}
