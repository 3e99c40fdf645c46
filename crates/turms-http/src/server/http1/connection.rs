//! One connection: its requests and their answers, in order.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::{Method, Response};
use tokio::io::{AsyncRead, AsyncWrite};

use super::head::{self, BadHead, Begun, Search, WireHead};
use super::idle_timer::Patience;
use super::io::Io;
use super::response::Rules;
use super::rewind::Rewind;
use crate::framing::Framing;
use crate::server::handler::{Served, WantedBody};
use crate::server::listener::Bounds;
use crate::server::request::RequestHead;
use crate::server::request::body::BodyProblem;
use crate::server::response::HttpBody;
use crate::server::{PeerAddress, response as refusal};

/// What a connection of HTTP/2 begins with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Answers the requests of one connection until it ends. Gives it back if it speaks HTTP/2 and that is wanted.
pub(in crate::server) async fn converse<S, I>(
    io: I,
    service: &S,
    peer: Option<PeerAddress>,
    bounds: &Bounds,
) -> Option<Rewind<I>>
where
    S: Served,
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let patience = Patience::new(bounds.header);
    let mut connection = Connection { io: Io::new(io, bounds.write), patience, is_first: true, bounds };
    loop {
        let last = match connection.next().await {
            Next::Request(begun) => match connection.exchange(begun, service, peer).await {
                Ok(Then::GoOn) => continue,
                Ok(last) => last,
                Err(error) => {
                    // Clients that go away, or speak something else, are none of our concern.
                    tracing::debug!(%error, "a connection ended");
                    return None;
                }
            },
            Next::Bad(bad) => connection.refuse(bad).await.unwrap_or(Then::End),
            Next::Http2 => return Some(connection.io.rewound()),
            Next::End => Then::End,
        };
        connection.io.hang_up(last == Then::Drain).await;
        return None;
    }
}

pub(super) struct Connection<'a, I> {
    pub(super) io: Io<I>,
    patience: Patience,
    is_first: bool,
    bounds: &'a Bounds,
}

/// What comes next on a connection.
enum Next {
    Request(Begun),
    Bad(BadHead),
    Http2,
    End,
}

/// What becomes of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    /// It ends.
    End,
    /// It ends, and the client may still be sending what nobody wants.
    Drain,
}

impl<I: AsyncRead + AsyncWrite + Send + Unpin> Connection<'_, I> {
    /// Waits for the next head, but not for ever.
    async fn next(&mut self) -> Next {
        let mut search = Search::default();
        poll_fn(|task| {
            loop {
                if let Some(next) = self.look(&mut search) {
                    return Poll::Ready(next);
                }
                match self.io.poll_fill(task) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(Next::End),
                    Poll::Pending if self.bounds.ward.is_ending() && self.io.input.is_empty() => {
                        return Poll::Ready(Next::End);
                    }
                    Poll::Pending => return self.patience.poll(task).map(|()| Next::End),
                }
            }
        })
        .await
    }

    /// Looks whether what has come so far is enough.
    fn look(&mut self, search: &mut Search) -> Option<Next> {
        let input = &mut self.io.input;
        if input.is_empty() {
            return None;
        }
        if self.is_first && cfg!(feature = "http2") {
            if input.starts_with(PREFACE) {
                return Some(Next::Http2);
            }
            if PREFACE.starts_with(input) {
                return None;
            }
            self.is_first = false;
        }
        // Some clients end a body with a line break that is no part of it (RFC 9112, 2.2).
        while search.is_fresh() && input.starts_with(b"\r") {
            match input.get(1) {
                Some(b'\n') => input.advance(2),
                Some(_) => break,
                None => return None,
            }
        }
        let glanced = if search.is_fresh() { head::glance(input) } else { None };
        let begun = glanced.or_else(|| match search.find(input) {
            Ok(None) => None,
            Ok(Some(end)) => Some(head::parse(&input[..end])),
            Err(bad) => Some(Err(bad)),
        })?;
        Some(begun.map_or_else(Next::Bad, Next::Request))
    }

    async fn refuse(&mut self, bad: BadHead) -> std::io::Result<Then> {
        tracing::debug!(%bad, "what came is no request");
        let answer = refusal::refuse(bad.status(), bad.to_string());
        self.write(answer, Rules { is_head: false, is_old: false, keeps_alive: false }).await?;
        Ok(Then::Drain)
    }

    /// Answers one request.
    async fn exchange<S: Served>(
        &mut self,
        begun: Begun,
        service: &S,
        peer: Option<PeerAddress>,
    ) -> std::io::Result<Then> {
        let Begun { method, framing, keeps_alive, awaits_continue, is_old, outline } = begun;
        let head = WireHead::new(self.io.input.split_to(outline.length).freeze(), outline);
        let is_head = method == Method::HEAD;
        let head = RequestHead::of_wire(method, head, peer);
        let (mut is_read, mut is_begun) = (false, false);
        let answer = match service.admit(&head) {
            Err(refusal) => *refusal,
            Ok(WantedBody(wanted)) => {
                let body = match wanted {
                    Some((limit, timeout)) => {
                        let body = match self.body_that_is_here(framing, limit) {
                            Some(body) => body,
                            None => {
                                is_begun = true;
                                Box::pin(self.body(framing, limit, timeout, awaits_continue)).await?
                            }
                        };
                        is_read = body.is_ok();
                        body
                    }
                    None => Ok(Bytes::new()),
                };
                let answering = pin!(service.respond(head, body));
                match self.unless_gone(answering).await {
                    Some(answer) => answer,
                    None => return Ok(Then::End),
                }
            }
        };
        // What is left of a body of which some was read is not to be taken for all of it.
        let is_in_order = !self.io.has_dropped_input && (is_read || (!is_begun && self.pass_over(framing)));
        let keeps_alive = keeps_alive && is_in_order && !self.bounds.ward.is_ending();
        let goes_on = self.write(answer, Rules { is_head, is_old, keeps_alive }).await?;
        self.io.release();
        self.patience.renew();
        Ok(match (goes_on, is_in_order && !self.io.has_dropped_input) {
            (true, true) => Then::GoOn,
            (false, true) => Then::End,
            (_, false) => Then::Drain,
        })
    }

    /// What somebody does, unless the client goes away meanwhile.
    async fn unless_gone<F>(&mut self, mut work: Pin<&mut F>) -> Option<Response<HttpBody>>
    where
        F: Future<Output = Response<HttpBody>>,
    {
        poll_fn(|task| match work.as_mut().poll(task) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => self.io.poll_gone(task).map(|()| None),
        })
        .await
    }

    /// A body of which all is here already, as most are, or which need not be waited for.
    fn body_that_is_here(&mut self, framing: Framing, limit: usize) -> Option<Result<Bytes, BodyProblem>> {
        match framing {
            Framing::Length(0) => Some(Ok(Bytes::new())),
            Framing::Length(length) if length > limit as u64 => Some(Err(BodyProblem::TooLong(limit))),
            Framing::Length(length) if length <= self.io.input.len() as u64 => {
                Some(Ok(self.io.input.split_to(length as usize).freeze()))
            }
            _ => None,
        }
    }

    /// A body that is yet to come.
    async fn body(
        &mut self,
        framing: Framing,
        limit: usize,
        timeout: Duration,
        awaits_continue: bool,
    ) -> std::io::Result<Result<Bytes, BodyProblem>> {
        if awaits_continue && self.io.input.is_empty() {
            self.io.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let reading = async {
            match framing {
                Framing::Length(length) => self.io.read_exactly(length as usize).await,
                Framing::Chunked => self.io.read_chunks(limit).await,
            }
        };
        Ok(tokio::time::timeout(timeout, reading).await.unwrap_or(Err(BodyProblem::TooSlow(timeout))))
    }

    /// Skips a body that nobody wants, if all of it is here. Else the connection cannot go on.
    fn pass_over(&mut self, framing: Framing) -> bool {
        match framing {
            Framing::Length(length) if length <= self.io.input.len() as u64 => {
                self.io.input.advance(length as usize);
                true
            }
            _ => false,
        }
    }
}
