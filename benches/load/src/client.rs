//! Load by the Turms client, and by the plain hyper-util client that it uses: WIDTH concurrent calls from one thread.

use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector as PlainConnector;
use hyper_util::rt::TokioExecutor;
use tokio::task::LocalSet;
use turms::Client;
use turms::ProtocolVersion;
use turms::http::HttpConnector;

use crate::message::{Dialect, Requests};
use crate::tally::Tally;
use crate::{Failure, Plan, Result, Server};

/// Calls with the Turms client.
pub(crate) async fn load(plan: &Plan, dialect: Dialect) -> Result<String> {
    let server = Server::start(&plan.program)?;
    drop(server.connect()?);
    let connector = HttpConnector::new(url(&server))?;
    let version = match dialect {
        Dialect::Stateless => ProtocolVersion::V2026_07_28,
        Dialect::Session => ProtocolVersion::V2025_11_25,
    };
    let client = Client::builder("load", "1.0.0").protocol_version(version).connect(connector).await?;
    let requests = Rc::new(Requests::new(plan.payload, dialect));
    measure(plan, server, move |id| {
        let (client, text) = (client.clone(), requests.text(id));
        async move {
            let result = client.call_tool("echo", serde_json::json!({ "text": text })).await?;
            if result.text() == text { Ok(()) } else { Err(Failure::from(format!("no answer: {result:?}"))) }
        }
    })
    .await
}

/// Sends the same message again and again with the hyper-util client.
pub(crate) async fn bare(plan: &Plan) -> Result<String> {
    let server = Server::start(&plan.program)?;
    drop(server.connect()?);
    let requests = Requests::new(plan.payload, Dialect::Stateless);
    let mut body = String::new();
    requests.write(1, &mut body);
    let mut request = Request::post(url(&server)).header("content-type", "application/json");
    request = request.header("accept", "application/json, text/event-stream");
    for (name, value) in requests.stateless_head().lines().filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::from(body)))?;
    let client: HyperClient<PlainConnector, Full<Bytes>> = HyperClient::builder(TokioExecutor::new()).build_http();
    measure(plan, server, move |_| {
        let sent = client.request(request.clone());
        async move {
            let response = sent.await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            let is_answered = status.is_success() && body.ends_with(b"}");
            if is_answered { Ok(()) } else { Err(Failure::from(format!("no answer: {status}"))) }
        }
    })
    .await
}

/// Runs the program named by `BENCH_CLIENT` with the arguments REVISION URL WIDTH SECONDS. The program prints the
/// results.
pub(crate) async fn other(plan: &Plan, version: ProtocolVersion) -> Result<String> {
    let server = Server::start(&plan.program)?;
    drop(server.connect()?);
    let program = std::env::var("BENCH_CLIENT").map_err(|_| "BENCH_CLIENT names no client")?;
    let (width, seconds) = (plan.width.to_string(), plan.time.as_secs_f64().to_string());
    let arguments = [version.as_str(), &url(&server), &width, &seconds];
    let output = tokio::process::Command::new(program).args(arguments).output().await?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn url(server: &Server) -> String {
    format!("http://127.0.0.1:{}/mcp", server.port)
}

/// Makes WIDTH concurrent calls until the time is over.
async fn measure<F>(plan: &Plan, server: Server, call: impl Fn(usize) -> F + Clone + 'static) -> Result<String>
where
    F: Future<Output = Result<()>>,
{
    let (server, tally, tasks) = (Rc::new(server), Rc::new(Tally::new(plan.time)), LocalSet::new());
    let mut callers = Vec::new();
    for _ in 0..plan.width {
        let (server, tally, call) = (server.clone(), tally.clone(), call.clone());
        callers.push(tasks.spawn_local(async move {
            for id in 1.. {
                if tally.is_over() {
                    break;
                }
                let asked = Instant::now();
                call(id).await?;
                tally.add(&server, asked);
            }
            Ok::<_, Failure>(())
        }));
    }
    let ended = async {
        for caller in callers {
            caller.await??;
        }
        Ok::<_, Failure>(())
    };
    tasks.run_until(ended).await?;
    drop(tasks);
    Ok(Rc::into_inner(tally).ok_or("a caller has not ended")?.line(&server))
}
