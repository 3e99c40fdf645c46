//! Load over stdio, with a constant number of calls in flight.

use std::collections::VecDeque;
use std::time::Instant;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::message::{Dialect, INITIALIZE, INITIALIZED, Requests};
use crate::tally::Tally;
use crate::{Plan, Result, Server};

pub(crate) async fn load(plan: &Plan) -> Result<String> {
    let mut server = Server::start(&plan.program)?;
    let mut input = server.child.stdin.take().ok_or("the server has no input")?;
    let output = server.child.stdout.take().ok_or("the server has no output")?;
    let mut output = BufReader::with_capacity(64 * 1024, output);
    let mut line = Vec::new();
    input.write_all(format!("{INITIALIZE}\n").as_bytes()).await?;
    output.read_until(b'\n', &mut line).await?;
    line.clear();
    input.write_all(format!("{INITIALIZED}\n").as_bytes()).await?;

    let requests = Requests::new(plan.payload, Dialect::Session);
    let tally = Tally::new(plan.time);
    let (mut in_flight, mut next, mut text) = (VecDeque::new(), 1, String::new());
    while !tally.is_over() {
        text.clear();
        while in_flight.len() < plan.width {
            requests.write(next, &mut text);
            text.push('\n');
            in_flight.push_back((next, Instant::now()));
            next += 1;
        }
        // Read while writing. If both sides only wrote, both pipes would fill up and deadlock.
        let mut unwritten = text.as_bytes();
        loop {
            // `line` keeps a partly read line when the write branch cancels the read.
            tokio::select! {
                biased;
                written = input.write(unwritten), if !unwritten.is_empty() => {
                    unwritten = &unwritten[written?..];
                    continue;
                }
                read = output.read_until(b'\n', &mut line) => {
                    if read? == 0 {
                        return Err("the server has ended".into());
                    }
                }
            }
            let index = in_flight.iter().position(|(id, _)| requests.is_answered(*id, &line));
            let Some((_, asked)) = index.and_then(|index| in_flight.remove(index)) else {
                return Err(format!("no answer: {}", String::from_utf8_lossy(&line[..line.len().min(300)])).into());
            };
            tally.add(&server, asked);
            line.clear();
            if unwritten.is_empty() && output.buffer().is_empty() {
                break;
            }
        }
    }
    let figures = tally.line(&server);
    drop(input);
    server.end().await?;
    Ok(figures)
}
