//! A session with the notebook, as a client of the newest revision has it over a pipe.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

struct Notebook {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
    /// What was told on the way.
    told: Vec<String>,
}

impl Notebook {
    fn start() -> Self {
        let mut process =
            Command::new(env!("CARGO_BIN_EXE_notebook")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
        Self { process, input, output, last_id: 0, told: Vec::new() }
    }

    fn say(&mut self, method: &str, mut params: Value) -> u64 {
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

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.say(method, params);
        loop {
            let message = self.hear();
            match message["method"].as_str() {
                Some(method) => self.told.push(method.to_owned()),
                None if message["id"] == id => return message["result"].clone(),
                None => panic!("not an answer to {id}: {message}"),
            }
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }
}

#[test]
fn the_notebook_has_some_of_everything() {
    let mut notebook = Notebook::start();
    let discovered = notebook.ask("server/discover", json!({}));
    assert_eq!(discovered["capabilities"]["completions"], json!({}));

    let written = notebook.call("write", json!({ "name": "shopping", "text": "bread" }));
    assert_eq!(written["content"][0]["text"], "note://shopping");
    let refused = notebook.call("write", json!({ "name": "", "text": "bread" }));
    assert_eq!(
        (&refused["isError"], &refused["content"][0]["text"]),
        (&json!(true), &json!("arguments.name: \"\" is shorter than 1 character"))
    );
    assert_eq!(notebook.call("count", json!({}))["structuredContent"], json!({ "notes": 1, "characters": 5 }));

    let index = notebook.ask("resources/read", json!({ "uri": "notebook://index" }));
    assert_eq!(index["contents"][0]["text"], "[\"shopping\"]");
    let note = notebook.ask("resources/read", json!({ "uri": "note://shopping" }));
    assert_eq!(note["contents"][0], json!({ "uri": "note://shopping", "mimeType": "text/plain", "text": "bread" }));

    let prompt = notebook.ask("prompts/get", json!({ "name": "improve", "arguments": { "name": "shopping" } }));
    assert_eq!(prompt["messages"][1]["content"]["text"], "Improve this note:\nbread");
    let reference = json!({ "type": "ref/prompt", "name": "greeting" });
    let completed = notebook
        .ask("completion/complete", json!({ "ref": reference, "argument": { "name": "language", "value": "E" } }));
    assert_eq!(completed["completion"]["values"], json!(["English", "Etruscan"]));

    let asked = notebook.call("clear", json!({}));
    assert_eq!(asked["resultType"], "input_required");
    let agreed = json!({ "elicit-1": { "action": "accept", "content": { "sure": true } } });
    let cleared = notebook.ask(
        "tools/call",
        json!({ "name": "clear", "arguments": {}, "inputResponses": agreed, "requestState": asked["requestState"] }),
    );
    assert_eq!(cleared["content"][0]["text"], "All notes are gone.");

    let asked = notebook.call("summarize", json!({}));
    assert_eq!(asked["inputRequests"]["sample-1"]["method"], "sampling/createMessage");
    let said =
        json!({ "sample-1": { "role": "assistant", "model": "m", "content": { "type": "text", "text": "Nothing." } } });
    let summary = notebook.ask(
        "tools/call",
        json!({ "name": "summarize", "arguments": {}, "inputResponses": said, "requestState": asked["requestState"] }),
    );
    assert_eq!(summary["content"][0]["text"], "Nothing.");
    assert!(notebook.told.contains(&"notifications/progress".to_owned()));

    let listening = notebook.say(
        "subscriptions/listen",
        json!({ "notifications": { "toolsListChanged": true, "resourceSubscriptions": ["note://a"] } }),
    );
    assert_eq!(notebook.hear()["method"], "notifications/subscriptions/acknowledged");
    notebook.told.clear();
    notebook.call("learn_to_shout", json!({}));
    notebook.call("write", json!({ "name": "a", "text": "b" }));
    assert_eq!(notebook.call("shout", json!({ "text": "quiet" }))["content"][0]["text"], "QUIET");
    // What is told about changes comes when it comes.
    while notebook.told.len() < 2 {
        let told = notebook.hear();
        notebook.told.push(told["method"].as_str().unwrap().to_owned());
    }
    notebook.told.sort();
    assert_eq!(notebook.told, ["notifications/resources/updated", "notifications/tools/list_changed"]);
    assert!(listening > 0);

    drop(notebook.input.take());
    assert!(notebook.process.wait().unwrap().success());
}
