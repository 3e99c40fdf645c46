//! One connection that blocks: one write and, as a rule, one read for each call. No client costs less.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::http::request;
use crate::message::{Dialect, Requests};
use crate::tally::Tally;
use crate::{Plan, Result, Server};

pub(crate) fn load(plan: &Plan) -> Result<String> {
    let server = Server::start(&plan.program)?;
    let mut stream = server.connect()?;
    stream.set_nodelay(true)?;
    let requests = Requests::new(plan.payload, Dialect::Stateless);
    let head = requests.stateless_head();
    let (mut body, mut buffer) = (String::new(), vec![0; 256 * 1024]);
    let tally = Tally::new(plan.time);
    for id in 1.. {
        if tally.is_over() {
            break;
        }
        let asked = Instant::now();
        body.clear();
        requests.write(id, &mut body);
        stream.write_all(request(&head, &body).as_bytes())?;
        let answer = answer(&mut stream, &mut buffer)?;
        if !requests.is_answered(id, answer) {
            return Err(format!("no answer: {}", String::from_utf8_lossy(&answer[..answer.len().min(300)])).into());
        }
        tally.add(&server, asked);
    }
    Ok(tally.line(&server))
}

/// Reads an answer that says how long it is.
fn answer<'a>(stream: &mut TcpStream, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let (mut filled, mut whole) = (0, None);
    loop {
        let count = stream.read(&mut buffer[filled..])?;
        if count == 0 {
            return Err("the server has closed the connection".into());
        }
        filled += count;
        if whole.is_none() {
            whole = extent(&buffer[..filled]);
        }
        match whole {
            Some((head, end)) if filled >= end => return Ok(&buffer[head..end]),
            Some((_, end)) if end > buffer.len() => buffer.resize(end, 0),
            _ => {}
        }
    }
}

/// Where the body begins and ends, once the head is there.
fn extent(read: &[u8]) -> Option<(usize, usize)> {
    let head = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let lines = std::str::from_utf8(&read[..head]).ok()?;
    let length = lines.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
    })?;
    Some((head, head + length))
}
