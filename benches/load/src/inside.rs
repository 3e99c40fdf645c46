//! Load with the Turms client and server in one process, one call at a time.

use std::time::Instant;

use serde::Serialize;
use turms::Client;

use crate::{Plan, Result};

#[derive(Serialize)]
struct Add {
    a: i64,
    b: i64,
}

/// Number of calls per time measurement. One call is too short compared with reading the clock.
const BATCH: u32 = 1000;

pub(crate) async fn load(plan: &Plan) -> Result<String> {
    let client = Client::builder("load", "1.0.0").connect_service(turms_bench_server::server(2).build()?).await?;
    let begin = Instant::now();
    let mut taken = Vec::new();
    while begin.elapsed() < plan.time {
        let asked = Instant::now();
        for a in 0..i64::from(BATCH) {
            let sum = client.call_tool("add", Add { a, b: 1 }).await?.text();
            if sum.parse() != Ok(a + 1) {
                return Err(format!("no answer: {sum}").into());
            }
        }
        taken.push(asked.elapsed() / BATCH);
    }
    taken.sort_unstable();
    let calls = taken.len() * BATCH as usize;
    let p50 = taken.get(taken.len() / 2).copied().unwrap_or_default();
    Ok(format!("calls={calls} p50_ns={}", p50.as_nanos()))
}
