//! Load with the rmcp client: `turms-bench-rmcp-client REVISION URL WIDTH SECONDS` makes WIDTH concurrent calls of
//! `echo` from one thread, and prints the CPU time of this process per call.

use std::cell::Cell;
use std::error::Error;
use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rmcp::model::{CallToolRequestParams, ClientConfig, ContentBlock, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _};
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tokio::task::LocalSet;

type Failure = Box<dyn Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [version, url, width, seconds] = arguments.as_slice() else {
        return Err("usage: turms-bench-rmcp-client REVISION URL WIDTH SECONDS".into());
    };
    let version: ProtocolVersion = serde_json::from_value(Value::String(version.clone()))?;
    let lifecycle = if version.has_initialize() {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Discover { preferred_versions: vec![version] }
    };
    let transport = StreamableHttpClientTransport::from_uri(url.as_str());
    let client = Rc::new(ClientConfig::default().serve_with_lifecycle(transport, lifecycle).await?);
    let time = Duration::from_secs_f64(seconds.parse()?);
    // The first quarter is the warm-up and does not count.
    let begin = Instant::now() + time / 4;
    let end = begin + time;
    let (calls, mark) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(None)));
    let (tasks, mut callers) = (LocalSet::new(), Vec::new());
    for _ in 0..width.parse::<usize>()? {
        let (client, calls, mark) = (client.clone(), calls.clone(), mark.clone());
        callers.push(tasks.spawn_local(async move {
            for id in 1.. {
                let now = Instant::now();
                if now >= end {
                    break;
                }
                let text = format!("text {id}");
                let mut params = CallToolRequestParams::new("echo");
                params.arguments = json!({ "text": text }).as_object().cloned();
                let result = client.call_tool(params).await?;
                let answer = result.content.first().and_then(ContentBlock::as_text);
                if answer.map(|answer| answer.text.as_str()) != Some(text.as_str()) {
                    return Err(Failure::from(format!("no answer: {result:?}")));
                }
                if now >= begin {
                    if mark.get().is_none() {
                        mark.set(Some(cpu()));
                    } else {
                        calls.set(calls.get() + 1);
                    }
                }
            }
            Ok(())
        }));
    }
    let ended = async {
        for caller in callers {
            caller.await??;
        }
        Ok::<_, Failure>(())
    };
    tasks.run_until(ended).await?;
    let used = cpu() - mark.get().unwrap_or_default();
    println!("calls={} client_ns={}", calls.get(), used / calls.get().max(1));
    Ok(())
}

/// Returns the CPU time of all threads of this process, in nanoseconds.
fn cpu() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let used = tasks.filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok());
    used.filter_map(|used| used.split(' ').next()?.parse::<u64>().ok()).sum()
}
