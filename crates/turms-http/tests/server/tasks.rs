//! Tools that run as tasks, over HTTP.
#![cfg(unix)]

use std::process::Stdio;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;
use turms_server::{AskError, Context, Server, Tasks, Tool};

use crate::fixture::Fixture;
use crate::interop::installed;
use crate::soon;

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

fn with_tasks(server: Server) -> Server {
    let slow = Tool::builder("slow").task().handler(|| async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        "slowly done"
    });
    let asking = Tool::builder("asking").task().handler(|context: Context| async move {
        let name = context.elicit::<Name>("Who are you?").await?.accepted();
        Ok::<_, AskError>(name.map_or_else(|| "nobody".to_owned(), |name| format!("Hello, {}!", name.name)))
    });
    let required = Tool::builder("required").task_required().handler(|| async {
        tokio::task::yield_now().await;
        "only as a task"
    });
    let endless = Tool::builder("endless").task().handler(|| async {
        std::future::pending::<()>().await;
        ""
    });
    let tasks = Tasks::new().poll_interval(Duration::from_millis(20));
    [slow, asking, required, endless].into_iter().fold(server, Server::tool).tasks(tasks)
}

#[tokio::test]
async fn the_first_typescript_sdk_runs_tools_as_tasks() {
    installed("node/node_modules/installed");
    let fixture = Fixture::of(with_tasks, |service| service).await;
    let mut command = Command::new("node");
    command.arg(installed("node/client-tasks.mjs")).arg(format!("http://{}/mcp", fixture.address));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = soon("the end of the client", command.output()).await.unwrap();
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
