//! A session of the newest revision with the notebook over stdio.
#![allow(clippy::unwrap_used, reason = "test helpers panic on failure")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

struct NotebookProcess {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
    /// Methods of the notifications received during requests.
    notifications: Vec<String>,
}

impl NotebookProcess {
    fn start() -> Self {
        let mut process =
            Command::new(env!("CARGO_BIN_EXE_notebook")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, input, output, last_id: 0, notifications: Vec::new() }
    }

    fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.last_id += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} }, "sampling": {} },
            "progressToken": "steps",
        });
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        writeln!(self.input.as_mut().unwrap(), "{request}").unwrap();
        self.last_id
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        loop {
            let message = self.receive();
            match message["method"].as_str() {
                Some(method) => self.notifications.push(method.to_owned()),
                None if message["id"] == id => return message["result"].clone(),
                None => panic!("not a response to {id}: {message}"),
            }
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers pass `json!`")]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }
}

#[test]
fn the_notebook_uses_most_features() {
    let mut notebook = NotebookProcess::start();
    let discovered = notebook.request("server/discover", json!({}));
    assert_eq!(discovered["capabilities"]["completions"], json!({}));

    let written = notebook.call("write", json!({ "name": "shopping", "text": "bread" }));
    assert_eq!(written["content"][0]["text"], "note://shopping");
    let rejected = notebook.call("write", json!({ "name": "", "text": "bread" }));
    assert_eq!(
        (&rejected["isError"], &rejected["content"][0]["text"]),
        (&json!(true), &json!("arguments.name: \"\" is shorter than 1 character"))
    );
    assert_eq!(notebook.call("count", json!({}))["structuredContent"], json!({ "notes": 1, "characters": 5 }));

    let index = notebook.request("resources/read", json!({ "uri": "notebook://index" }));
    assert_eq!(index["contents"][0]["text"], "[\"shopping\"]");
    let note = notebook.request("resources/read", json!({ "uri": "note://shopping" }));
    assert_eq!(note["contents"][0], json!({ "uri": "note://shopping", "mimeType": "text/plain", "text": "bread" }));

    let prompt = notebook.request("prompts/get", json!({ "name": "improve", "arguments": { "name": "shopping" } }));
    assert_eq!(prompt["messages"][1]["content"]["text"], "Improve this note:\nbread");
    let reference = json!({ "type": "ref/prompt", "name": "greeting" });
    let completed = notebook
        .request("completion/complete", json!({ "ref": reference, "argument": { "name": "language", "value": "E" } }));
    assert_eq!(completed["completion"]["values"], json!(["English", "Etruscan"]));

    let pending = notebook.call("clear", json!({}));
    assert_eq!(pending["resultType"], "input_required");
    let confirmed = json!({ "elicit-1": { "action": "accept", "content": { "sure": true } } });
    let cleared = notebook.request(
        "tools/call",
        json!({ "name": "clear", "arguments": {}, "inputResponses": confirmed, "requestState": pending["requestState"] }),
    );
    assert_eq!(cleared["content"][0]["text"], "All notes were deleted.");

    let pending = notebook.call("summarize", json!({}));
    assert_eq!(pending["inputRequests"]["sample-1"]["method"], "sampling/createMessage");
    let sampled =
        json!({ "sample-1": { "role": "assistant", "model": "m", "content": { "type": "text", "text": "Nothing." } } });
    let summary = notebook.request(
        "tools/call",
        json!({ "name": "summarize", "arguments": {}, "inputResponses": sampled, "requestState": pending["requestState"] }),
    );
    assert_eq!(summary["content"][0]["text"], "Nothing.");
    assert!(notebook.notifications.contains(&"notifications/progress".to_owned()));

    let listening = notebook.send(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["note://a"] } }),
    );
    assert_eq!(notebook.receive()["method"], "notifications/subscriptions/acknowledged");
    notebook.notifications.clear();
    notebook.call("add_shout", json!({}));
    notebook.call("write", json!({ "name": "a", "text": "b" }));
    assert_eq!(notebook.call("shout", json!({ "text": "quiet" }))["content"][0]["text"], "QUIET");
    // Notifications may arrive after the responses.
    while notebook.notifications.len() < 2 {
        let notification = notebook.receive();
        notebook.notifications.push(notification["method"].as_str().unwrap().to_owned());
    }
    notebook.notifications.sort();
    assert_eq!(notebook.notifications, ["notifications/resources/updated", "notifications/tools/list_changed"]);
    assert!(listening > 0);

    drop(notebook.input.take());
    assert!(notebook.process.wait().unwrap().success());
}
