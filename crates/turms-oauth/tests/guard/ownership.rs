//! Sessions, streams, tasks, calls and request state belong to a principal: the issuer and the subject. To others they are unknown.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use turms_oauth::{Introspection, Issuer, Secret, VerifyError};
use turms_proto::types::TASKS_EXTENSION;
use turms_testkit::eventually;
use turms_testkit::messages::{
    CAPABILITIES, call, cancelled, modern, modern_call, notification, request, with_progress,
};
use turms_testkit::raw_http::{Request, Response};

use crate::fixture::{GuardedServer, Mount, Session, bearer, guard_for};
use crate::issuer::TestIssuer;
use crate::tokens::now;

/// A server with two issuers: its owner `ann`, and strangers, among them an `ann` of the other issuer.
struct Setting {
    server: GuardedServer,
    _issuers: [TestIssuer; 2],
    ann: String,
    strangers: Vec<(&'static str, String)>,
}

impl Setting {
    async fn start(mount: Mount) -> Self {
        let issuers = [TestIssuer::start().await, TestIssuer::start().await];
        // A subject without an issuer that has the form of the key of another principal.
        let composed = json!([issuers[0].identifier, "ann"]).to_string();
        let verifier = move |_: Secret| {
            let claims = json!({ "sub": composed, "aud": mount.resource(), "exp": now() + 600, "scope": "notes:read" });
            async move { Ok::<_, VerifyError>(Introspection::active(claims.as_object().unwrap().clone())) }
        };
        let guard = guard_for(&issuers[0], mount)
            .issuer(Issuer::discover(&issuers[1].identifier))
            .issuer(Issuer::without_identifier(verifier));
        let server = GuardedServer::start(mount, guard.build().unwrap()).await;
        let of = |issuer: &TestIssuer, sub: Value| issuer.token(mount.resource(), json!({ "sub": sub }));
        let ann = of(&issuers[0], json!("ann"));
        let strangers = vec![
            ("another subject", of(&issuers[0], json!("bob"))),
            ("the same subject at another issuer", of(&issuers[1], json!("ann"))),
            ("a composed subject", "opaque".to_owned()),
            ("a subject in upper case", of(&issuers[0], json!("ANN"))),
        ];
        Self { server, _issuers: issuers, ann, strangers }
    }

    async fn ask(&self, token: &str, request: Request) -> Response {
        self.server.send(bearer(request, token)).await
    }
}

#[tokio::test]
async fn a_session_of_another_principal_is_unknown() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let session = setting.server.session(&setting.ann).await;
        let unknown = Session { id: "A".repeat(session.id.len()) };
        let requests = |session: &Session| {
            [
                session.post(call(1, "whoami", json!({}))),
                session.post(notification("notifications/roots/list_changed")),
                session.get(),
                session.get().header("Last-Event-ID", "1-1"),
                session.delete(),
            ]
        };
        for (who, stranger) in &setting.strangers {
            for (stolen, unknown) in requests(&session).into_iter().zip(requests(&unknown)) {
                let method = stolen.method;
                let (stolen, unknown) = (setting.ask(stranger, stolen).await, setting.ask(stranger, unknown).await);
                assert_eq!(stolen.status(), 404, "{who}, {method}: {stolen}");
                assert_eq!((stolen.status(), &stolen.body), (unknown.status(), &unknown.body), "{who}, {method}");
            }
        }
        let response = setting.ask(&setting.ann, session.post(call(1, "whoami", json!({})))).await;
        assert_eq!(response.status(), 200, "the session is still there");
    }
}

#[tokio::test]
async fn a_call_of_another_principal_cannot_be_cancelled() {
    let setting = Setting::start(Mount::Listener).await;
    let server = &setting.server;
    let session = server.session(&setting.ann).await;
    let wait = session.post(with_progress(call(5, "wait", json!({})), 5));
    let mut of_session = server.stream(bearer(wait, &setting.ann)).await;
    let mut pair = server.initialized_pair(&setting.ann).await;
    let wait = with_progress(call(5, "wait", json!({})), 5);
    setting.ask(&setting.ann, pair.post(wait)).await.assert_accepted();
    let stateless = turms_testkit::messages::modern_stream(5, "wait", json!({}));
    let mut of_post = server.stream(bearer(stateless, &setting.ann)).await;
    for stream in [&mut of_session, &mut pair.stream, &mut of_post] {
        assert_eq!(stream.message().await["method"], "notifications/progress");
    }
    for (who, stranger) in &setting.strangers {
        let own = server.session(stranger).await;
        let own_pair = server.initialized_pair(stranger).await;
        let mut own_socket = server.socket(stranger).await;
        assert_eq!(setting.ask(stranger, session.post(cancelled(5))).await.status(), 404, "{who}");
        assert_eq!(setting.ask(stranger, pair.post(cancelled(5))).await.status(), 404, "{who}");
        // The id of a request is one of its session.
        setting.ask(stranger, own.post(cancelled(5))).await.assert_accepted();
        setting.ask(stranger, own_pair.post(cancelled(5))).await.assert_accepted();
        own_socket.text(&cancelled(5).to_string()).await;
        own_socket.text(&request(6, "ping", None).to_string()).await;
        own_socket.message().await;
        let stateless = Request::post(cancelled(5))
            .version(turms_testkit::messages::NEWEST)
            .header("Mcp-Method", "notifications/cancelled");
        let _ = setting.ask(stranger, stateless).await;
    }
    assert_eq!(server.traces.ended.load(Ordering::SeqCst), 0, "all three still run");
    setting.ask(&setting.ann, session.post(cancelled(5))).await.assert_accepted();
    setting.ask(&setting.ann, pair.post(cancelled(5))).await.assert_accepted();
    drop(of_post);
    eventually("the end of the calls", async || server.traces.ended.load(Ordering::SeqCst) == 3).await;
}

#[tokio::test]
async fn the_events_of_another_principal_cannot_be_resumed() {
    let setting = Setting::start(Mount::Listener).await;
    let session = setting.server.session(&setting.ann).await;
    let count = session.post(with_progress(call(5, "count", json!({ "n": 3 })), 5));
    let response = setting.ask(&setting.ann, count).await;
    let event = response.events().into_iter().find_map(|event| event.id).unwrap();
    let resume = |session: &Session| session.get().header("Last-Event-ID", &event);
    for (who, stranger) in &setting.strangers {
        assert_eq!(setting.ask(stranger, resume(&session)).await.status(), 404, "{who}");
        // Nor in a session of their own.
        let own = setting.server.session(stranger).await;
        let refused = setting.ask(stranger, resume(&own)).await;
        assert!((400..500).contains(&refused.status()), "{who}: {refused}");
    }
    let resumed = setting.ask(&setting.ann, resume(&session)).await;
    assert!(String::from_utf8_lossy(&resumed.body).contains("counted to 3"), "{resumed}");
}

#[tokio::test]
async fn a_pair_of_another_principal_is_unknown() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let mut pair = setting.server.initialized_pair(&setting.ann).await;
        let (path, _) = pair.endpoint.split_once('=').unwrap();
        let unknown =
            Request::post(request(2, "ping", None)).path(format!("{path}={}", "A".repeat(22))).without("Accept");
        for (who, stranger) in &setting.strangers {
            let stolen = setting.ask(stranger, pair.post(request(2, "ping", None))).await;
            let unknown = setting.ask(stranger, unknown.clone()).await;
            assert_eq!(stolen.status(), 404, "{who}: {stolen}");
            assert_eq!((stolen.status(), &stolen.body), (unknown.status(), &unknown.body), "{who}");
        }
        setting.ask(&setting.ann, pair.post(request(3, "ping", None))).await.assert_accepted();
        assert_eq!(pair.stream.message().await["id"], 3, "nothing of the others has arrived");
    }
}

/// Adds the capability to poll tasks.
fn with_tasks(mut params: Value) -> Value {
    params["_meta"] = json!({ CAPABILITIES: { "elicitation": {}, "extensions": { TASKS_EXTENSION: {} } } });
    params
}

/// Returns the error of a response without the id of a task.
fn error_without(response: &Response, task: &str) -> (u16, String) {
    (response.status(), response.json()["error"].to_string().replace(task, "?"))
}

#[tokio::test]
async fn a_task_of_another_principal_is_unknown() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let begun = setting.ask(&setting.ann, modern(1, "tools/call", with_tasks(json!({ "name": "later" })))).await;
        let task = begun.json()["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
        let unknown = "A".repeat(task.len());
        let requests = |id: &str| {
            [
                modern(1, "tasks/get", with_tasks(json!({ "taskId": id }))),
                modern(1, "tasks/update", with_tasks(json!({ "taskId": id, "inputResponses": {} }))),
                modern(1, "tasks/cancel", with_tasks(json!({ "taskId": id }))),
            ]
        };
        for (who, stranger) in &setting.strangers {
            for (stolen, other) in requests(&task).into_iter().zip(requests(&unknown)) {
                let (stolen, other) = (setting.ask(stranger, stolen).await, setting.ask(stranger, other).await);
                assert_eq!(stolen.json()["error"]["code"], -32602, "{who}: {stolen}");
                assert_eq!(error_without(&stolen, &task), error_without(&other, &unknown), "{who}");
            }
            let listen = with_tasks(json!({ "notifications": { "toolsListChanged": true, "taskIds": [task] } }));
            let mut stream = setting.server.stream(bearer(modern(2, "subscriptions/listen", listen), stranger)).await;
            let honoured = stream.message().await["params"]["notifications"].clone();
            assert_eq!(honoured.get("taskIds"), None, "{who}: {honoured}");
            // Nor by the requests of 2025-11-25.
            let session = setting.server.session(stranger).await;
            for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
                let stolen = setting.ask(stranger, session.post(request(3, method, json!({ "taskId": task })))).await;
                assert_eq!(stolen.messages().pop().unwrap()["error"]["code"], -32602, "{who}, {method}: {stolen}");
            }
            let listed = setting.ask(stranger, session.post(request(4, "tasks/list", json!({})))).await;
            assert!(!String::from_utf8_lossy(&listed.body).contains(&task), "{who}: {listed}");
        }
        let get = || modern(1, "tasks/get", with_tasks(json!({ "taskId": task })));
        assert_eq!(setting.ask(&setting.ann, get()).await.result()["status"], "working");
        setting.server.later.add_permits(1);
        eventually("the end of the task", async || {
            setting.ask(&setting.ann, get()).await.result()["status"] == "completed"
        })
        .await;
    }
}

#[tokio::test]
async fn request_state_of_another_principal_is_invalid() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let asked = setting.ask(&setting.ann, modern_call(1, "greet", json!({}))).await.result();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let again = json!({
            "name": "greet", "arguments": {}, "requestState": asked["requestState"],
            "inputResponses": { key: { "action": "accept", "content": { "name": "Ann" } } },
        });
        let mut forged = again.clone();
        forged["requestState"] = format!("{}A", asked["requestState"].as_str().unwrap()).into();
        for (who, stranger) in &setting.strangers {
            let stolen = setting.ask(stranger, modern(2, "tools/call", again.clone())).await;
            assert_eq!(stolen.json()["error"]["code"], -32602, "{who}: {stolen}");
            let forged = setting.ask(stranger, modern(2, "tools/call", forged.clone())).await;
            assert_eq!((stolen.status(), &stolen.body), (forged.status(), &forged.body), "{who}");
        }
        let answered = setting.ask(&setting.ann, modern(2, "tools/call", again)).await;
        assert_eq!(answered.text(), "Hello, Ann!");
    }
}

#[tokio::test]
async fn a_principal_uses_its_sessions_and_tasks_with_any_of_its_tokens() {
    let issuer = TestIssuer::start().await;
    let server = GuardedServer::start(Mount::Listener, guard_for(&issuer, Mount::Listener).build().unwrap()).await;
    let resource = Mount::Listener.resource();
    let one = issuer.token(resource, json!({}));
    let two = issuer.token(resource, json!({ "jti": "2", "scope": "notes:write", "client_id": "other" }));
    let session = server.session(&one).await;
    assert_eq!(server.send(bearer(session.post(call(1, "write", json!({}))), &two)).await.text(), "written");
    let begun = server.send(bearer(modern(1, "tools/call", with_tasks(json!({ "name": "later" }))), &one)).await;
    let task = begun.json()["result"]["taskId"].as_str().unwrap().to_owned();
    let get = modern(1, "tasks/get", with_tasks(json!({ "taskId": task })));
    assert_eq!(server.send(bearer(get, &two)).await.result()["status"], "working");
}
