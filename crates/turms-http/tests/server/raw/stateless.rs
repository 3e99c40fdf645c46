//! Requests of 2026-07-28 (basic/transports/streamable-http): the order of the checks, errors with their statuses, and results.

use std::time::Duration;

use serde_json::{Value, json};
use turms_core::layer::{RateLimitLayer, TimeoutLayer};
use turms_core::{ErrorOrigin, ServiceError};
use turms_proto::{ErrorObject, RawJson};
use turms_server::{Context, Server, Tool};

use crate::dialog::{
    CAPABILITIES, LOG_LEVEL, NEWEST, NEWEST_OLDER, SERVER_INFO, Session, VERSION, call, mirrored, modern, modern_body,
    modern_call, modern_stream, notification, progress, request,
};
use crate::fixture::Fixture;
use crate::wire::Request;

fn with_version(version: &str) -> Value {
    let mut body = modern_body("q", "tools/list", json!({}));
    body["params"]["_meta"][VERSION] = version.into();
    body
}

fn without_capabilities() -> Value {
    let mut body = modern_body("q", "tools/list", json!({}));
    body["params"]["_meta"].as_object_mut().unwrap().remove(CAPABILITIES);
    body
}

#[tokio::test]
async fn invalid_messages_are_refused_first() {
    let fixture = Fixture::start().await;
    let newest = |body: &str| Request::post(body).version(NEWEST).header("Mcp-Method", "tools/list");
    fixture.send(newest("{")).await.assert_refused(400, -32700, &Value::Null);
    fixture.send(newest("[]")).await.assert_refused(400, -32600, &Value::Null);
    let batch = json!([modern_body(1, "tools/list", json!({}))]).to_string();
    fixture.send(newest(&batch)).await.assert_refused(400, -32600, &Value::Null);
    for odd in ["1", "null", "{}", r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#] {
        fixture.send(newest(odd)).await.assert_refused(400, -32600, &Value::Null);
    }
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let response = fixture.send(newest(&answer.to_string())).await;
    assert_eq!(response.status(), 400, "{response}");
}

/// An error that belongs to no request has no id in this revision.
#[tokio::test]
async fn an_id_that_cannot_be_read_is_left_out() {
    let fixture = Fixture::start().await;
    let response = fixture.send(Request::post("{").version(NEWEST)).await;
    assert!(response.json().get("id").is_none(), "{response}");
}

#[tokio::test]
async fn a_missing_version_header_is_refused_before_all_other_checks() {
    let fixture = Fixture::start().await;
    for body in [modern_body("q", "tools/list", json!({})), with_version("2099-01-01"), without_capabilities()] {
        let request = mirrored(&body).without("MCP-Protocol-Version");
        fixture.send(request).await.assert_refused(400, -32020, &json!("q"));
    }
    let unknown = mirrored(&modern_body("q", "no/such/method", json!({}))).without("MCP-Protocol-Version");
    fixture.send(unknown).await.assert_refused(400, -32020, &json!("q"));
}

#[tokio::test]
async fn an_error_names_the_missing_metadata() {
    let fixture = Fixture::start().await;
    let response = fixture.send(mirrored(&without_capabilities())).await;
    response.assert_refused(400, -32602, &json!("q"));
    assert!(response.json()["error"]["message"].as_str().unwrap().contains(CAPABILITIES), "{response}");

    for odd in [json!(null), json!([]), json!("none"), json!(true)] {
        let mut body = modern_body("q", "tools/list", json!({}));
        body["params"]["_meta"][CAPABILITIES] = odd;
        fixture.send(mirrored(&body)).await.assert_refused(400, -32602, &json!("q"));
    }
    // This check comes before the comparison of the version header with the body.
    let request = mirrored(&without_capabilities()).version("2099-01-01");
    fixture.send(request).await.assert_refused(400, -32602, &json!("q"));
}

#[tokio::test]
async fn the_header_must_name_the_revision_of_the_body_even_if_it_is_unknown() {
    let fixture = Fixture::start().await;
    for (header, body) in
        [(NEWEST, "v999.0.0"), ("2025-11-25", NEWEST), ("2099-01-01", NEWEST), ("nonsense", NEWEST), ("", NEWEST)]
    {
        let response = fixture.send(mirrored(&with_version(body)).version(header)).await;
        response.assert_refused(400, -32020, &json!("q"));
    }
    let twice = mirrored(&with_version(NEWEST)).also("MCP-Protocol-Version", NEWEST);
    fixture.send(twice).await.assert_refused(400, -32020, &json!("q"));
}

#[tokio::test]
async fn an_unsupported_revision_is_refused_with_the_supported_ones() {
    let fixture = Fixture::start().await;
    // Older revisions have no stateless requests.
    for version in ["v999.0.0", "2099-01-01", "2025-11-25", "2024-11-05"] {
        let response = fixture.send(mirrored(&with_version(version))).await;
        response.assert_refused(400, -32022, &json!("q"));
        let data = &response.json()["error"]["data"];
        assert_eq!((&data["requested"], &data["supported"]), (&json!(version), &json!([NEWEST])), "{response}");
    }
    // This check comes before those of the other headers.
    let bare = mirrored(&with_version("2099-01-01")).without("Mcp-Method");
    fixture.send(bare).await.assert_refused(400, -32022, &json!("q"));
}

#[tokio::test]
async fn headers_come_before_methods_and_methods_before_params() {
    let fixture = Fixture::start().await;
    let unknown = modern_body("q", "no/such/method", json!({}));
    fixture.send(mirrored(&unknown)).await.assert_refused(404, -32601, &json!("q"));
    let wrong = mirrored(&unknown).header("Mcp-Method", "tools/list");
    fixture.send(wrong).await.assert_refused(400, -32020, &json!("q"));
    fixture.send(mirrored(&unknown).without("Mcp-Method")).await.assert_refused(400, -32020, &json!("q"));

    for (method, params) in [
        ("tools/call", json!({})),
        ("tools/call", json!({ "name": 1 })),
        ("prompts/get", json!({})),
        ("resources/read", json!({})),
        ("tools/list", json!({ "cursor": 1 })),
        ("subscriptions/listen", json!({})),
    ] {
        let response = fixture.send(modern("q", method, params)).await;
        response.assert_refused(400, -32602, &json!("q"));
    }
    // Valid params that name something unknown are errors with status 200.
    for (method, params) in [
        ("tools/call", json!({ "name": "nobody" })),
        ("tools/list", json!({ "cursor": "elsewhere" })),
        ("prompts/get", json!({ "name": "nobody" })),
    ] {
        let response = fixture.send(modern("q", method, params)).await;
        response.assert_refused(200, -32602, &json!("q"));
    }
}

#[tokio::test]
async fn params_that_are_no_object_are_refused() {
    let fixture = Fixture::start().await;
    for params in [json!([]), json!(1), json!("x")] {
        let body = json!({ "jsonrpc": "2.0", "id": "q", "method": "tools/list", "params": params });
        let response = fixture.send(mirrored(&body)).await;
        assert_eq!(response.status(), 400, "{response}");
        let code = response.json()["error"]["code"].as_i64().unwrap();
        assert!(code == -32602 || code == -32600, "{response}");
    }
    let missing = json!({ "jsonrpc": "2.0", "id": "q", "method": "tools/list" });
    fixture.send(mirrored(&missing)).await.assert_refused(400, -32602, &json!("q"));
}

#[tokio::test]
async fn an_error_names_the_missing_client_capability() {
    let fixture = Fixture::start().await;
    for (tool, capability) in [("greet", "elicitation"), ("think", "sampling")] {
        let mut body = modern_body("q", "tools/call", json!({ "name": tool, "arguments": { "question": "?" } }));
        if tool == "greet" {
            body["params"]["arguments"] = json!({});
        }
        body["params"]["_meta"][CAPABILITIES] = json!({});
        let response = fixture.send(mirrored(&body)).await;
        response.assert_refused(400, -32021, &json!("q"));
        let required = &response.json()["error"]["data"]["requiredCapabilities"];
        assert!(required[capability].is_object(), "{response}");
    }
}

#[tokio::test]
async fn errors_of_handlers_have_the_id_of_the_request() {
    let fixture = Fixture::start().await;
    for (request, code) in [
        (modern_call("q", "no-such-tool", json!({})), -32602),
        (modern("q", "resources/read", json!({ "uri": "memo://nowhere" })), -32602),
        (modern("q", "prompts/get", json!({ "name": "no-such-prompt" })), -32602),
        (modern_call("q", "panic", json!({})), -32603),
    ] {
        let response = fixture.send(request).await;
        assert!(matches!(response.status(), 200 | 400 | 500), "{response}");
        assert_eq!(
            (&response.json()["error"]["code"], &response.json()["id"]),
            (&json!(code), &json!("q")),
            "{response}"
        );
    }
    let missing = fixture.send(modern("q", "resources/read", json!({ "uri": "memo://nowhere" }))).await.json();
    assert_eq!(missing["error"]["data"]["uri"], "memo://nowhere");
}

#[tokio::test]
async fn a_result_is_complete_and_names_the_server() {
    let fixture = Fixture::start().await;
    let response = fixture.send(modern_call("q", "add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(response.json()["id"], "q");
    let result = response.result();
    assert_eq!((&result["resultType"], &result["content"][0]["text"]), (&json!("complete"), &json!("3")));
    assert_eq!(result["_meta"][SERVER_INFO]["name"], "fixture");

    let discovered = fixture.send(modern(1, "server/discover", json!({}))).await.result();
    let versions: Vec<_> = discovered["supportedVersions"].as_array().unwrap().iter().collect();
    assert!(versions.contains(&&json!(NEWEST)), "{discovered}");
    assert!(discovered["ttlMs"].is_u64() && discovered["cacheScope"].is_string(), "{discovered}");
    for (method, params) in [
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "memo://hello" })),
    ] {
        let result = fixture.send(modern(1, method, params)).await.result();
        assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string(), "{method}: {result}");
    }
}

/// Requests of 2026-07-28 have no session, so both headers are ignored.
#[tokio::test]
async fn session_and_event_ids_are_ignored() {
    let fixture = Fixture::start().await;
    let request = modern_call(1, "add", json!({ "a": 1, "b": 2 })).session("whatever").header("Last-Event-ID", "9-9");
    let response = fixture.send(request).await;
    assert_eq!(response.text(), "3");
    assert!(response.header("mcp-session-id").is_none(), "{response}");
    let speaking = modern_stream(1, "count", json!({ "n": 2 })).session("whatever").header("Last-Event-ID", "9-9");
    let response = fixture.send(speaking).await;
    assert_eq!(progress(&response.messages()), [1, 2]);
    assert!(response.header("mcp-session-id").is_none(), "{response}");
}

#[tokio::test]
async fn notifications_are_accepted() {
    let fixture = Fixture::start().await;
    let mut body = notification("notifications/whatever");
    fixture.send(Request::post(&body).version(NEWEST)).await.assert_accepted();
    fixture
        .send(Request::post(&body).version(NEWEST).header("Mcp-Method", "notifications/whatever"))
        .await
        .assert_accepted();
    body["params"] = json!({ "_meta": crate::dialog::meta() });
    fixture.send(Request::post(&body).version(NEWEST)).await.assert_accepted();
}

#[tokio::test]
async fn input_requests_are_results_and_their_responses_come_with_a_new_request() {
    let fixture = Fixture::start().await;
    let asked = fixture.send(modern_call("first", "greet", json!({}))).await;
    let result = asked.result();
    assert_eq!(result["resultType"], "input_required", "{asked}");
    let (key, question) = result["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    assert!(question.get("id").is_none() && question.get("jsonrpc").is_none(), "{question}");
    let answers = json!({ key: { "action": "accept", "content": { "name": "Ann" } } });
    let params = json!({
        "name": "greet", "arguments": {}, "inputResponses": answers, "requestState": result["requestState"]
    });
    let answered = fixture.send(modern("second", "tools/call", params.clone())).await;
    assert_eq!((answered.text().as_str(), &answered.json()["id"]), ("Hello, Ann!", &json!("second")));

    // A modified request state is refused.
    let mut tampered = params;
    let state = format!("{}-TAMPERED", tampered["requestState"].as_str().unwrap());
    tampered["requestState"] = state.into();
    let refused = fixture.send(modern("third", "tools/call", tampered)).await;
    assert_eq!(refused.json()["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn nothing_is_logged_unless_a_request_asks_for_it() {
    let fixture = Fixture::start().await;
    let log = |level: &str| json!({ "name": "log", "arguments": { "text": "hear", "level": level } });
    let silent = fixture.send(modern(1, "tools/call", log("emergency"))).await;
    assert_eq!(silent.json()["result"]["content"][0]["text"], "logged");

    let mut body = modern_body(1, "tools/call", log("warning"));
    body["params"]["_meta"][LOG_LEVEL] = "warning".into();
    let response = fixture.send(mirrored(&body)).await;
    let messages = response.messages();
    let [message, _] = &*messages else { panic!("{response}") };
    assert_eq!((&message["method"], &message["params"]["data"]), (&json!("notifications/message"), &json!("hear")));

    body["params"]["_meta"][LOG_LEVEL] = "error".into();
    assert_eq!(fixture.send(mirrored(&body)).await.messages().len(), 1, "messages below the level are not sent");
    body["params"]["_meta"][LOG_LEVEL] = "loud".into();
    let refused = fixture.send(mirrored(&body)).await;
    assert_eq!(refused.json()["error"]["code"], -32602, "{refused}");
}

#[tokio::test]
async fn many_requests_at_once_are_each_answered() {
    let fixture = Fixture::start().await;
    let calls = (0..30_u64).map(async |n| {
        let response = match n % 3 {
            0 => fixture.send(modern_call(n, "add", json!({ "a": n, "b": 0 }))).await,
            1 => fixture.send(modern_stream(n, "count", json!({ "n": n }))).await,
            _ => fixture.send(modern_call(n, "echo", json!({ "text": "x".repeat(100_000) }))).await,
        };
        let answer = response.answer();
        assert_eq!(answer["id"], n);
        if n % 3 == 1 {
            assert_eq!(progress(&response.messages()), (1..=n).collect::<Vec<_>>());
        }
    });
    let mut calls: Vec<_> = calls.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        calls.retain_mut(|call| call.as_mut().poll(context).is_pending());
        if calls.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// A request that names no revision belongs to an older one, and those need a session.
#[tokio::test]
async fn a_call_that_names_no_revision_is_not_run() {
    let fixture = Fixture::start().await;
    let response = fixture.send(Request::post(call("q", "grow", json!({})))).await;
    assert_eq!(response.status(), 400, "{response}");
    let response = fixture.send(Request::post(request("q", "tools/list", json!({ "_meta": {} })))).await;
    assert_eq!(response.status(), 400, "{response}");
    let listed = fixture.send(modern(1, "tools/list", json!({}))).await.result().to_string();
    assert!(!listed.contains("grown-1"), "{listed}");
}

/// The status follows from the origin of an error, not from its message.
#[tokio::test]
async fn parameters_that_cannot_be_read_are_a_bad_request_and_errors_of_handlers_are_not() {
    #[derive(serde::Deserialize)]
    struct Named {
        #[expect(dead_code, reason = "only decoded")]
        name: String,
    }
    let refuse = |_: Named, _: Context| async move {
        Err::<Value, _>(ErrorObject::invalid_params("params.name: not acceptable"))
    };
    let fixture = Fixture::of(|server| server.method("fixture/refuse", refuse), |service| service).await;
    for (method, params) in [("tools/call", json!({ "name": 1 })), ("fixture/refuse", json!({ "name": 1 }))] {
        let response = fixture.send(mirrored(&modern_body("q", method, params))).await;
        response.assert_refused(400, -32602, &json!("q"));
    }
    let body = modern_body("q", "fixture/refuse", json!({ "name": "a" }));
    let response = fixture.send(mirrored(&body)).await;
    assert_eq!((response.status(), response.json()["error"]["code"].as_i64()), (200, Some(-32602)), "{response}");
}

/// The text of an error does not change its status, whether a tool or a method has returned it.
#[tokio::test]
async fn an_error_whose_text_begins_with_params_has_the_status_of_any_other() {
    let fixture = Fixture::of(
        |server| {
            ["params: missing field \"x\"", "params.x: not acceptable", "it failed"].into_iter().enumerate().fold(
                server,
                |server, (index, text)| {
                    let as_result = move || Err::<String, _>(text.to_owned());
                    let as_error = move || Err::<String, _>(ErrorObject::internal(text));
                    let method =
                        move |_: Value, _: Context| async move { Err::<Value, _>(ErrorObject::internal(text)) };
                    server
                        .tool(Tool::builder(format!("result-{index}")).handler_sync(as_result))
                        .tool(Tool::builder(format!("error-{index}")).handler_sync(as_error))
                        .method(format!("fixture/{index}"), method)
                },
            )
        },
        |service| service,
    )
    .await;
    for index in 0..3 {
        let response = fixture.send(modern_call("q", &format!("result-{index}"), json!({}))).await;
        assert_eq!(response.result()["isError"], true, "{response}");
        let error = modern_call("q", &format!("error-{index}"), json!({}));
        fixture.send(error).await.assert_refused(200, -32603, &json!("q"));
        let method = modern("q", &format!("fixture/{index}"), json!({}));
        fixture.send(method).await.assert_refused(200, -32603, &json!("q"));
    }
}

/// A server whose methods `origin/0` to `origin/8` fail with the errors of `ORIGINS`, and with tools for the errors that the
/// toolkit creates itself.
fn failing(server: Server) -> Server {
    server
        .tool(Tool::builder("limited").layer(RateLimitLayer::new(1, Duration::from_secs(60))).handler_sync(|| "ran"))
        .tool(Tool::builder("slow").layer(TimeoutLayer::new(Duration::ZERO)).handler(std::future::pending::<String>))
        .fallback(|method, _: RawJson, _| {
            let index = method.strip_prefix("origin/").and_then(|index| index.parse::<usize>().ok());
            let error = match index {
                Some(index) => ServiceError::retry_after(ORIGINS[index].0, "as asked", Duration::from_millis(1500)),
                None => ServiceError::method_not_found(&method),
            };
            std::future::ready(Err::<(), _>(error))
        })
}

const ORIGINS: [(ErrorOrigin, u16, i64); 9] = [
    (ErrorOrigin::Params, 400, -32602),
    (ErrorOrigin::MethodNotFound, 404, -32601),
    (ErrorOrigin::Handler, 200, -32603),
    (ErrorOrigin::RateLimited, 429, -32050),
    (ErrorOrigin::Overloaded, 503, -32051),
    (ErrorOrigin::TimedOut, 504, -32052),
    (ErrorOrigin::Unavailable, 503, -32053),
    (ErrorOrigin::Panic, 500, -32603),
    (ErrorOrigin::Internal, 500, -32603),
];

/// Requests whose errors the toolkit creates itself, with the expected status and code.
const CALLS: [(&str, &str, u16, i64); 4] = [
    ("tools/call", "limited", 429, -32050),
    ("tools/call", "slow", 504, -32052),
    ("tools/call", "panic", 500, -32603),
    ("no/such/method", "", 404, -32601),
];

#[tokio::test]
async fn the_status_of_an_error_follows_from_its_origin() {
    let fixture = Fixture::of(failing, |service| service).await;
    for (index, (origin, status, code)) in ORIGINS.into_iter().enumerate() {
        let response = fixture.send(modern("q", &format!("origin/{index}"), json!({}))).await;
        response.assert_refused(status, code, &json!("q"));
        assert_eq!(response.header("retry-after"), (status != 200).then_some("2"), "{origin:?}: {response}");
    }
    assert_eq!(fixture.send(modern_call("q", "limited", json!({}))).await.text(), "ran");
    for (method, name, status, code) in CALLS {
        let response = fixture.send(modern("q", method, json!({ "name": name }))).await;
        response.assert_refused(status, code, &json!("q"));
        let wait = response.json()["error"]["data"]["retryAfterMs"].as_u64();
        assert_eq!(wait.is_some(), status == 429, "{response}");
        let seconds = wait.map(|wait| wait.div_ceil(1000).to_string());
        assert_eq!(response.header("retry-after"), seconds.as_deref(), "{response}");
    }
}

#[tokio::test]
async fn in_a_session_every_error_of_a_call_has_the_status_200() {
    let fixture = Fixture::of(failing, |service| service).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    assert_eq!(session.call(&fixture, "limited", json!({})).await.text(), "ran");
    let origins = ORIGINS.into_iter().enumerate().map(|(index, (.., code))| (format!("origin/{index}"), "", code));
    let calls = CALLS.into_iter().map(|(method, name, _, code)| (method.to_owned(), name, code));
    for (method, name, code) in origins.chain(calls) {
        let response = fixture.send(session.post(request("q", &method, json!({ "name": name })))).await;
        let answer = response.answer();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &json!("q")), "{response}");
        assert_eq!(response.header("retry-after"), None, "{response}");
    }
}
