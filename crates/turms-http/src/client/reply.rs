//! What comes back: one JSON text, an event stream, nothing, or a refusal.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use turms_proto::{ErrorObject, Incoming, InvalidMessage, Message};

use super::endpoint::{Endpoint, Response, broken};
use super::error::HttpError;
use super::http_client::ResponseBody;
use crate::sse::{SseDecoder, SseEvent};

/// What a server made of a request.
pub(super) enum Reply {
    /// It took it, and has nothing to say.
    Nothing,
    /// It answers at once.
    Json(Bytes),
    /// It answers in events.
    Events(Box<EventStream>),
    /// It refuses, in the words of JSON-RPC.
    Refused(StatusCode, Box<ErrorObject>),
}

/// How much of a refusal is read: it is for people, or one small error.
const REFUSAL_LIMIT: usize = 64 * 1024;

/// How much of a refusal is shown.
const MOST_SHOWN: usize = 200;

impl Reply {
    /// Reads a response: all of it, unless it is an event stream.
    pub(super) async fn read(endpoint: &Endpoint, mut response: Response) -> Result<Self, HttpError> {
        if !response.status().is_success() {
            return Box::pin(refusal(endpoint, response)).await;
        }
        match MediaType::of(&response) {
            MediaType::Events => Ok(Self::Events(Box::new(EventStream::new(endpoint, response)))),
            MediaType::Json => {
                let body = read_body(endpoint, &mut response, endpoint.limit).await?;
                let blank = body.iter().all(u8::is_ascii_whitespace);
                Ok(if blank { Self::Nothing } else { Self::Json(body) })
            }
            MediaType::Other => Box::pin(other(endpoint, response)).await,
        }
    }
}

/// What has neither of the two content types that are expected.
async fn other(endpoint: &Endpoint, mut response: Response) -> Result<Reply, HttpError> {
    let (status, content_type) = (response.status(), media_type(&response).to_ascii_lowercase());
    match read_body(endpoint, &mut response, REFUSAL_LIMIT).await {
        Ok(body) if body.is_empty() => Ok(Reply::Nothing),
        // There is nothing to say beside that it was taken, but some say it in words.
        Ok(_) | Err(HttpError::TooLong(_)) if status == StatusCode::ACCEPTED => Ok(Reply::Nothing),
        Ok(_) | Err(HttpError::TooLong(_)) => Err(HttpError::ContentType { status, content_type }),
        Err(error) => Err(error),
    }
}

async fn refusal(endpoint: &Endpoint, mut response: Response) -> Result<Reply, HttpError> {
    let status = response.status();
    let body = match read_body(endpoint, &mut response, REFUSAL_LIMIT).await {
        Ok(body) => body,
        Err(HttpError::TooLong(_)) => Bytes::new(),
        Err(error) => return Err(error),
    };
    if let Ok(Message::Response(answer)) = Message::decode(body.clone())
        && let Err(error) = answer.outcome
    {
        return Ok(Reply::Refused(status, Box::new(error)));
    }
    Err(HttpError::Status { status, body: beginning(&body) })
}

/// What a server says to somebody whom it does not let in, for people.
pub(super) async fn said(endpoint: &Endpoint, response: Response) -> String {
    match refusal(endpoint, response).await {
        Ok(Reply::Refused(_, error)) => error.message,
        Err(HttpError::Status { body, .. }) => body,
        // The status says the most.
        _ => String::new(),
    }
}

fn beginning(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut shown: String = text.trim().chars().take(MOST_SHOWN).collect();
    if shown.len() < text.trim().len() {
        shown.push('…');
    }
    shown
}

async fn read_body(endpoint: &Endpoint, response: &mut Response, limit: usize) -> Result<Bytes, HttpError> {
    let mut body = Bytes::new();
    while let Some(piece) = response.body_mut().next().await.map_err(|error| broken(endpoint.server(), error))? {
        if body.len() + piece.len() > limit {
            return Err(HttpError::TooLong(limit));
        }
        // Most answers come in one piece, which need not be copied.
        if body.is_empty() {
            body = piece;
        } else {
            let mut whole = body.try_into_mut().unwrap_or_else(|body| BytesMut::from(&*body));
            whole.extend_from_slice(&piece);
            body = whole.freeze();
        }
    }
    Ok(body)
}

/// What a body is, as far as it is of interest.
enum MediaType {
    Json,
    Events,
    Other,
}

impl MediaType {
    fn of(response: &Response) -> Self {
        match media_type(response) {
            name if name.eq_ignore_ascii_case("application/json") => Self::Json,
            name if name.eq_ignore_ascii_case("text/event-stream") => Self::Events,
            _ => Self::Other,
        }
    }
}

/// The content type without its parameters; empty if there is none.
fn media_type(response: &Response) -> &str {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// An event stream that is being read.
pub(super) struct EventStream {
    body: ResponseBody,
    decoder: SseDecoder,
    server: String,
}

impl EventStream {
    fn new(endpoint: &Endpoint, response: Response) -> Self {
        Self { body: response.into_body(), decoder: SseDecoder::new(endpoint.limit), server: endpoint.server() }
    }

    /// The next event; `None` when the server has closed the stream.
    pub(super) async fn next(&mut self) -> Result<Option<SseEvent>, HttpError> {
        loop {
            if let Some(event) = self.decoder.next_event()? {
                return Ok(Some(event));
            }
            match self.body.next().await {
                Ok(Some(piece)) => self.decoder.push(&piece),
                Ok(None) => return Ok(None),
                Err(error) => return Err(broken(self.server.clone(), error)),
            }
        }
    }
}

/// The messages of an event, if it carries any: those that only carry an id or a time do not.
pub(super) fn messages(event: SseEvent, max_batch: usize) -> Option<Result<Incoming, InvalidMessage>> {
    let is_message = event.event.as_deref().is_none_or(|kind| kind == "message");
    (is_message && !event.data.is_empty()).then(|| Incoming::decode(event.data, max_batch))
}
