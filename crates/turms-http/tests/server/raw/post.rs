//! POST requests of the older revisions (basic/transports, "Sending Messages to the Server") and their JSON-RPC messages.

use serde_json::{Value, json};

use crate::dialog::{
    NEWEST_OLDER, SESSIONS, Session, call, cancelled, initialize, notification, request, with_progress,
};
use crate::fixture::Fixture;
use crate::wire::Request;

#[tokio::test]
async fn notifications_and_responses_are_accepted_without_a_body() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        for body in [
            notification("notifications/initialized"),
            notification("notifications/roots/list_changed"),
            notification("notifications/nobody/knows"),
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 99 } }),
            json!({ "jsonrpc": "2.0", "id": 99, "result": {} }),
            json!({ "jsonrpc": "2.0", "id": "99", "error": { "code": -1, "message": "no" } }),
        ] {
            fixture.send(session.post(&body)).await.assert_accepted();
        }
    }
}

#[tokio::test]
async fn a_request_without_notifications_is_answered_with_json() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let response = session.call(&fixture, "add", json!({ "a": 1, "b": 2 })).await;
        assert_eq!(response.json()["id"], 7);
        assert_eq!(response.text(), "3");
        let pong = fixture.send(session.post(request(8, "ping", None))).await;
        assert_eq!(pong.json(), json!({ "jsonrpc": "2.0", "id": 8, "result": {} }));
    }
}

#[tokio::test]
async fn a_request_with_notifications_is_answered_with_a_stream_that_ends_with_the_response() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let response = fixture.send(session.post(with_progress(call(7, "count", json!({ "n": 3 })), "t"))).await;
        assert!(response.head.is_stream(), "{response}");
        let messages = response.messages();
        let [one, two, three, answer] = &*messages else { panic!("{response}") };
        for (message, step) in [(one, 1.0), (two, 2.0), (three, 3.0)] {
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"]["progressToken"], "t");
            assert_eq!(message["params"]["progress"].as_f64(), Some(step));
        }
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!("counted to 3")));
    }
}

#[tokio::test]
async fn ids_come_back_as_they_were() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for id in [json!(0), json!(1), json!("1"), json!(""), json!(-7), json!(9_007_199_254_740_991_i64), json!("ä\"\n")]
    {
        let response = fixture.send(session.post(request(id.clone(), "ping", None))).await;
        assert_eq!(response.json()["id"], id);
        let error = fixture.send(session.post(request(id.clone(), "no/such/method", None))).await;
        assert_eq!(error.answer()["id"], id);
    }
}

/// Errors have status 200 in a session: a 404 would mean that the session has ended.
#[tokio::test]
async fn errors_are_responses_like_any_other() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        for (body, code) in [
            (request(2, "no/such/method", None), -32601),
            (request(3, "tools/call", json!({ "name": "no-such-tool" })), -32602),
            (request(4, "tools/call", json!({})), -32602),
            (request(5, "resources/read", json!({ "uri": "memo://nowhere" })), -32002),
            (request(6, "prompts/get", json!({ "name": "no-such-prompt" })), -32602),
            (call(7, "panic", json!({})), -32603),
        ] {
            let answer = fixture.send(session.post(&body)).await.answer();
            assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &body["id"]), "{version}: {answer}");
        }
        let failed = session.call(&fixture, "fail", json!({})).await.result();
        assert_eq!((&failed["isError"], &failed["content"][0]["text"]), (&json!(true), &json!("it failed, as asked")));
    }
}

#[tokio::test]
async fn invalid_json_is_a_parse_error() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        for body in ["", "{", "nonsense", "{\"jsonrpc\":\"2.0\",}", "\"\u{1}\""] {
            let response = fixture.send(session.post(body)).await;
            response.assert_refused(400, -32700, &Value::Null);
            // In 2025-11-25, an error that belongs to no request has no id.
            assert!(version != NEWEST_OLDER || response.json().get("id").is_none(), "{version}: {response}");
        }
    }
    fixture.send(Request::post("{")).await.assert_refused(400, -32700, &Value::Null);
    let broken = Request::post("").body(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}".to_vec());
    fixture.send(broken).await.assert_refused(400, -32700, &Value::Null);
}

#[tokio::test]
async fn json_that_is_no_message_is_invalid() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for body in [
        json!({}),
        json!(1),
        json!("ping"),
        json!(null),
        json!({ "id": 1, "method": "ping" }),
        json!({ "jsonrpc": "1.0", "id": 1, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "id": null, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "id": {}, "method": "ping" }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": 2 }),
        json!({ "jsonrpc": "2.0", "id": 1 }),
    ] {
        let response = fixture.send(session.post(&body)).await;
        assert_eq!(response.status(), 400, "{body}: {response}");
        assert_eq!(response.json()["error"]["code"], -32600, "{body}: {response}");
    }
}

#[tokio::test]
async fn a_batch_is_answered_in_2025_03_26() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, "2025-03-26").await;
    let batch = json!([
        request(1, "ping", None),
        notification("notifications/x"),
        call("two", "add", json!({ "a": 1, "b": 1 }))
    ]);
    let response = fixture.send(session.post(&batch)).await;
    assert_eq!(response.status(), 200, "{response}");
    let messages = response.messages();
    let mut answers: Vec<_> = messages
        .iter()
        .flat_map(|message| message.as_array().cloned().unwrap_or_else(|| vec![message.clone()]))
        .map(|answer| (answer["id"].to_string(), answer["result"].clone()))
        .collect();
    answers.sort_by(|one, two| one.0.cmp(&two.0));
    let [two, one] = &*answers else { panic!("{response}") };
    assert_eq!((one.0.as_str(), &one.1), ("1", &json!({})));
    assert_eq!((two.0.as_str(), &two.1["content"][0]["text"]), ("\"two\"", &json!("2")));

    let silent = json!([notification("notifications/x"), { "jsonrpc": "2.0", "id": 5, "result": {} }]);
    fixture.send(session.post(&silent)).await.assert_accepted();
}

#[tokio::test]
async fn a_batch_may_send_notifications() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, "2025-03-26").await;
    let batch = json!([
        with_progress(call(1, "count", json!({ "n": 2 })), "a"),
        with_progress(call(2, "count", json!({ "n": 2 })), "b"),
    ]);
    let response = fixture.send(session.post(&batch)).await;
    assert!(response.head.is_stream(), "{response}");
    let messages: Vec<_> = response
        .messages()
        .into_iter()
        .flat_map(|message| message.as_array().cloned().unwrap_or_else(|| vec![message]))
        .collect();
    for (id, token) in [(1, "a"), (2, "b")] {
        let own = messages.iter().filter(|message| message["params"]["progressToken"] == token || message["id"] == id);
        let own: Vec<_> = own.map(|message| message["params"]["progress"].as_f64()).collect();
        assert_eq!(own, [Some(1.0), Some(2.0), None], "{response}");
    }
}

#[tokio::test]
async fn an_error_in_a_batch_is_sent_to_the_client_of_that_batch() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, "2025-03-26").await;
    let steps = json!({ "n": 1 });
    let stream = fixture.stream(session.post(json!([call(1, "steps", steps.clone()), call(2, "steps", steps)]))).await;
    // This batch cancels a call of the first batch.
    let other = json!([cancelled(1), request(9, "server/discover", None)]);
    let refused = fixture.send(session.post(other)).await;
    assert_eq!(refused.status(), 200, "{refused}");
    let answers = refused.json();
    assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&json!(9), &json!(-32601)), "{refused}");
    assert_eq!(answers.as_array().map(Vec::len), Some(1), "{refused}");
    fixture.traces.steps.add_permits(2);
    let rest = stream.rest().await;
    let [answer] = &*rest else { panic!("{rest:?}") };
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(2), &json!("counted to 1")));
}

#[tokio::test]
async fn a_batch_whose_calls_are_all_cancelled_ends() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, "2025-03-26").await;
    let batch = json!([call(1, "wait", json!({})), call(2, "wait", json!({}))]);
    let stream = fixture.stream(session.post(batch)).await;
    fixture.send(session.post(cancelled(1))).await.assert_accepted();
    fixture.send(session.post(cancelled(2))).await.assert_accepted();
    assert!(stream.rest().await.is_empty());
    assert_eq!(fixture.send(session.post(request(3, "ping", None))).await.result(), json!({}));
}

/// JSON-RPC requires a null id if the id could not be read; the schema of 2025-11-25 requires no id.
#[tokio::test]
async fn an_error_without_a_request_has_the_id_that_its_revision_requires() {
    let fixture = Fixture::start().await;
    let first = Session::begin(&fixture, "2025-03-26").await;
    let stream = fixture.stream(first.post(json!([call(1, "steps", json!({ "n": 1 })), 5]))).await;
    fixture.traces.steps.add_permits(1);
    let streamed = stream.rest().await;
    let at_once = fixture.send(first.post(json!([request(1, "ping", None), 5]))).await.json();
    for answers in [streamed, at_once.as_array().unwrap().clone()] {
        let error = answers.iter().find(|answer| answer.get("error").is_some()).expect("an error");
        assert_eq!(error.get("id"), Some(&Value::Null), "{error}");
    }
    for (version, id) in [("2025-06-18", Some(&Value::Null)), ("2025-11-25", None)] {
        let session = Session::begin(&fixture, version).await;
        let refused = fixture.send(session.post(json!([request(1, "ping", None)]))).await;
        assert_eq!(refused.json().get("id"), id, "{version}: {refused}");
    }
}

#[tokio::test]
async fn a_batch_with_a_handshake_or_without_messages_is_refused() {
    let fixture = Fixture::start().await;
    let inside = fixture.send(Request::post(json!([initialize("2025-03-26")]))).await;
    assert_eq!(inside.status(), 400, "{inside}");
    let session = Session::begin(&fixture, "2025-03-26").await;
    fixture.send(session.post("[]")).await.assert_refused(400, -32600, &Value::Null);
    let stream = fixture.stream(session.post(call(7, "steps", json!({ "n": 1 })))).await;
    let inside = fixture.send(session.post(json!([initialize("2025-03-26"), request(2, "ping", None)]))).await;
    let answers = inside.json();
    let answer = |id: i64| answers.as_array().unwrap().iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answer(1)["error"]["code"], -32600, "{inside}");
    assert_eq!(answer(2)["result"], json!({}), "{inside}");
    fixture.traces.steps.add_permits(1);
    let rest = stream.rest().await;
    assert_eq!(rest[0]["result"]["content"][0]["text"], "counted to 1", "the call continues: {rest:?}");
}

#[tokio::test]
async fn a_batch_is_invalid_since_2025_06_18() {
    let fixture = Fixture::start().await;
    for version in ["2025-06-18", "2025-11-25"] {
        let session = Session::begin(&fixture, version).await;
        for batch in [json!([]), json!([request(1, "ping", None)]), json!([notification("notifications/x")])] {
            fixture.send(session.post(&batch)).await.assert_refused(400, -32600, &Value::Null);
        }
    }
}

#[tokio::test]
async fn requests_of_a_tool_are_sent_on_its_own_stream_and_answered_by_a_post() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let mut stream = fixture.stream(session.post(call(7, "think", json!({ "question": "The capital?" })))).await;
        let question = stream.message().await;
        assert_eq!(question["method"], "sampling/createMessage");
        let content = json!({ "type": "text", "text": "Paris" });
        let result = json!({ "role": "assistant", "model": "parrot", "content": content });
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": result });
        fixture.send(session.post(&answer)).await.assert_accepted();
        let messages = stream.rest().await;
        let [answer] = &*messages else { panic!("{messages:?}") };
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!("parrot: Paris")));
    }
}

#[tokio::test]
async fn other_methods_of_http_are_not_allowed() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for method in ["PUT", "PATCH"] {
        let response = fixture.send(Request::new(method).session(&session.id).body("{}")).await;
        assert_eq!(response.status(), 405, "{response}");
        let allowed = response.header("allow").expect("an allow header");
        for method in ["GET", "POST", "DELETE"] {
            assert!(allowed.contains(method), "{allowed}");
        }
    }
}

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut connection = fixture.connect().await;
    for id in 0..20 {
        connection.send(&session.post(request(id, "ping", None))).await;
        assert_eq!(connection.response().await.json()["id"], id);
        connection.send(&session.post(notification("notifications/x"))).await;
        connection.response().await.assert_accepted();
        connection.send(&session.post(with_progress(call(id, "count", json!({ "n": 2 })), id))).await;
        assert_eq!(connection.response().await.text(), "counted to 2");
        connection.send(&session.post("{")).await;
        assert_eq!(connection.response().await.status(), 400);
    }
}

#[tokio::test]
async fn a_body_in_chunks_is_a_body() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut connection = fixture.connect().await;
    let head = session.post("").bytes();
    let head = String::from_utf8(head).unwrap().replace("Content-Length: 0", "Transfer-Encoding: chunked");
    connection.write(head.as_bytes()).await;
    for piece in request(1, "ping", None).to_string().as_bytes().chunks(5) {
        connection.write(format!("{:x}\r\n", piece.len()).as_bytes()).await;
        connection.write(piece).await;
        connection.write(b"\r\n").await;
    }
    connection.write(b"0\r\n\r\n").await;
    assert_eq!(connection.response().await.json()["result"], json!({}));
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let bytes = session.post(request(1, "ping", None)).header("Expect", "100-continue").bytes();
    let body = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let mut connection = fixture.connect().await;
    connection.write(&bytes[..body]).await;
    assert_eq!(connection.head().await.status, 100);
    connection.write(&bytes[body..]).await;
    assert_eq!(connection.response().await.json()["result"], json!({}));
}

/// Revision 2024-11-05 defines HTTP+SSE, but some of its clients use Streamable HTTP.
#[tokio::test]
async fn the_first_revision_is_served_as_those_after_it() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, "2024-11-05").await;
    let counted = fixture.send(session.post(with_progress(call(7, "count", json!({ "n": 3 })), 7))).await;
    assert_eq!(counted.text(), "counted to 3");
}
