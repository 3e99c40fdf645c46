//! Tools that run as tasks, over HTTP.
#![cfg(unix)]

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;
use turms_proto::types::TASKS_EXTENSION;
use turms_server::{Context, InputError, Server, TaskOptions, Tool};
use turms_testkit::tools::Name;
use turms_testkit::{eventually, within};

use crate::dialog::{CAPABILITIES, NEWEST, modern, modern_body};
use crate::fixture::Fixture;
use crate::wire::{Request, Response};

fn with_tasks(server: Server) -> Server {
    let slow = Tool::builder("slow").task().handler(|| async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        "slowly done"
    });
    let asking = Tool::builder("asking").task().handler(|context: Context| async move {
        let name = context.elicit::<Name>("Who are you?").await?.accepted();
        Ok::<_, InputError>(name.map_or_else(|| "nobody".to_owned(), |name| format!("Hello, {}!", name.name)))
    });
    let required = Tool::builder("required").task_required().handler(|| async {
        tokio::task::yield_now().await;
        "only as a task"
    });
    let endless = Tool::builder("endless").task().handler(|| async {
        std::future::pending::<()>().await;
        ""
    });
    let tasks = TaskOptions::new().poll_interval(Duration::from_millis(20));
    [slow, asking, required, endless].into_iter().fold(server, Server::tool).tasks(tasks)
}

/// Adds the metadata of a client that supports the tasks extension.
fn knowing(mut params: Value) -> Value {
    params["_meta"] = json!({ CAPABILITIES: { "elicitation": {}, "extensions": { TASKS_EXTENSION: {} } } });
    params
}

#[tokio::test]
async fn a_client_of_the_newest_revision_polls_its_task() {
    let fixture = Fixture::of(with_tasks, |service| service).await;
    let ask = async |method: &str, params: Value| fixture.send(modern(1, method, knowing(params))).await;
    let begun = ask("tools/call", json!({ "name": "asking" })).await;
    assert_eq!((begun.status(), begun.json()["result"]["resultType"].as_str()), (200, Some("task")));
    let id = begun.json()["result"]["taskId"].as_str().unwrap().to_owned();
    let task = async || ask("tasks/get", json!({ "taskId": id })).await.json()["result"].clone();
    eventually("an input request", async || task().await["status"] == "input_required").await;
    let key = task().await["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({ key: { "action": "accept", "content": { "name": "Ann" } } });
    let updated = ask("tasks/update", json!({ "taskId": id, "inputResponses": answers })).await;
    assert_eq!((updated.status(), updated.json()["result"]["resultType"].as_str()), (200, Some("complete")));
    eventually("a result", async || task().await["status"] == "completed").await;
    assert_eq!(task().await["result"]["content"][0]["text"], "Hello, Ann!");
}

#[tokio::test]
async fn invalid_task_requests_are_refused_with_a_matching_status() {
    let fixture = Fixture::of(with_tasks, |service| service).await;
    let code = |response: Response| (response.status(), response.json()["error"]["code"].as_i64().unwrap());
    for (method, params) in [
        ("tasks/get", json!({})),
        ("tasks/cancel", json!({ "taskId": 5 })),
        ("tasks/update", json!({ "taskId": "x", "inputResponses": 5 })),
    ] {
        let refused = fixture.send(modern(1, method, knowing(params))).await;
        assert_eq!(code(refused), (400, -32602), "{method}");
    }
    let unknown = fixture.send(modern(1, "tasks/get", knowing(json!({ "taskId": "x" })))).await;
    assert_eq!(code(unknown), (200, -32602));
    let undeclared = fixture.send(modern(1, "tasks/get", json!({ "taskId": "x" }))).await;
    assert_eq!(code(undeclared), (400, -32021));
    let body = modern_body(1, "tasks/get", knowing(json!({ "taskId": "x" })));
    let other = Request::post(&body).version(NEWEST).header("Mcp-Method", "tasks/get").header("Mcp-Name", "y");
    assert_eq!(code(fixture.send(other).await), (400, -32020));
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_first_typescript_sdk_runs_tools_as_tasks() {
    let fixture = Fixture::of(with_tasks, |service| service).await;
    let mut command = Command::new(turms_testkit::node());
    command.arg(turms_testkit::peer_file("node/client-tasks.mjs")).arg(format!("http://{}/mcp", fixture.address));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = within("the end of the client", command.output()).await.unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{complained}", output.status);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!({
        "slow": {
            "kinds": ["taskCreated", "taskStatus", "result"], "text": "slowly done", "ttl": 30000, "status": "completed",
        },
        "asking": { "text": "Hello, Ann!", "questions": ["Who are you?"], "related": true },
        "required": "only as a task",
        "listed": 3,
        "cancelled": "cancelled",
    });
    assert_eq!(said, expected);
}
