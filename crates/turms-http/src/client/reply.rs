//! The response to a request: JSON, an event stream, an empty body, or an error.

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use turms_proto::{ErrorObject, Incoming, Message, MessageError};

use super::endpoint::{HttpEndpoint, Response, closed_connection};
use super::error::HttpError;
use super::http_client::ResponseBody;
use super::sent_secrets::SentSecrets;
use crate::sse::{SseDecoder, SseEvent};

/// A decoded HTTP response.
pub(super) enum HttpReply {
    /// Success without a body.
    Nothing,
    /// A JSON body.
    Json(Bytes),
    /// An event stream.
    Events(Box<ResponseEvents>),
    /// An error status with a JSON-RPC error.
    Refused(StatusCode, Box<ErrorObject>),
}

/// Maximum size of an error response.
const REFUSAL_LIMIT: usize = 64 * 1024;

/// Maximum number of characters of a body in an error message.
const MAX_SHOWN_CHARS: usize = 200;

impl HttpReply {
    /// Reads a response: all of it, unless it is an event stream.
    pub(super) async fn read(endpoint: &HttpEndpoint, mut response: Response) -> Result<Self, HttpError> {
        if !response.status().is_success() {
            return Box::pin(refusal(endpoint, response)).await;
        }
        match MediaType::of(&response) {
            MediaType::Events => Ok(Self::Events(Box::new(ResponseEvents::new(endpoint, response)))),
            MediaType::Json => {
                let body = read_body(endpoint, &mut response, endpoint.max_message_bytes).await?;
                let blank = body.iter().all(u8::is_ascii_whitespace);
                Ok(if blank { Self::Nothing } else { Self::Json(body) })
            }
            MediaType::Other => Box::pin(other(endpoint, response)).await,
        }
    }
}

/// Handles a response of another content type.
async fn other(endpoint: &HttpEndpoint, mut response: Response) -> Result<HttpReply, HttpError> {
    let (status, content_type) = (response.status(), media_type(&response).to_ascii_lowercase());
    match read_body(endpoint, &mut response, REFUSAL_LIMIT).await {
        Ok(body) if body.is_empty() => Ok(HttpReply::Nothing),
        // 202 needs no body, but some servers send a text.
        Ok(_) | Err(HttpError::TooLarge(_)) if status == StatusCode::ACCEPTED => Ok(HttpReply::Nothing),
        Ok(_) | Err(HttpError::TooLarge(_)) => Err(HttpError::ContentType { status, content_type }),
        Err(error) => Err(error),
    }
}

async fn refusal(endpoint: &HttpEndpoint, mut response: Response) -> Result<HttpReply, HttpError> {
    let status = response.status();
    let body = match read_body(endpoint, &mut response, REFUSAL_LIMIT).await {
        Ok(body) => body,
        Err(HttpError::TooLarge(_)) => Bytes::new(),
        Err(error) => return Err(error),
    };
    let secrets = sent_secrets(&response);
    if let Ok(Message::Response(response)) = Message::decode(body.clone())
        && let Err(mut error) = response.outcome
    {
        error.message = secrets.hide(error.message);
        return Ok(HttpReply::Refused(status, Box::new(error)));
    }
    Err(HttpError::Status { status, body: truncate(&secrets.hide(String::from_utf8_lossy(&body).into_owned())) })
}

/// Returns the credentials of the request of a response that is no success.
pub(super) fn sent_secrets(response: &Response) -> SentSecrets {
    response.extensions().get().cloned().unwrap_or_default()
}

/// Returns the message of an error response.
pub(super) async fn refusal_text(endpoint: &HttpEndpoint, response: Response) -> String {
    match refusal(endpoint, response).await {
        Ok(HttpReply::Refused(_, error)) => error.message,
        Err(HttpError::Status { body, .. }) => body,
        // The status is enough.
        _ => String::new(),
    }
}

fn truncate(text: &str) -> String {
    let mut shown: String = text.trim().chars().take(MAX_SHOWN_CHARS).collect();
    if shown.len() < text.trim().len() {
        shown.push('…');
    }
    shown
}

async fn read_body(endpoint: &HttpEndpoint, response: &mut Response, limit: usize) -> Result<Bytes, HttpError> {
    let mut body = Bytes::new();
    while let Some(piece) =
        response.body_mut().next().await.map_err(|error| closed_connection(endpoint.server(), error))?
    {
        if body.len() + piece.len() > limit {
            return Err(HttpError::TooLarge(limit));
        }
        // Most responses arrive in one piece, which is not copied.
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

/// Content type of a response.
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

/// Returns the content type without its parameters; empty if there is none.
fn media_type(response: &Response) -> &str {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

/// The event stream of a response.
pub(super) struct ResponseEvents {
    body: ResponseBody,
    decoder: SseDecoder,
    server: String,
}

impl ResponseEvents {
    fn new(endpoint: &HttpEndpoint, response: Response) -> Self {
        Self {
            body: response.into_body(),
            decoder: SseDecoder::new(endpoint.max_message_bytes),
            server: endpoint.server(),
        }
    }

    /// Returns the next event; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<SseEvent>, HttpError> {
        loop {
            if let Some(event) = self.decoder.next_event()? {
                return Ok(Some(event));
            }
            match self.body.next().await {
                Ok(Some(piece)) => self.decoder.push(&piece),
                Ok(None) => return Ok(None),
                Err(error) => return Err(closed_connection(self.server.clone(), error)),
            }
        }
    }
}

/// Returns the messages of an event; `None` if it only has an id or a retry time.
pub(super) fn messages(event: SseEvent, max_batch: usize) -> Option<Result<Incoming, MessageError>> {
    let is_message = event.event.as_deref().is_none_or(|kind| kind == "message");
    (is_message && !event.data.is_empty()).then(|| Incoming::decode(event.data, max_batch))
}
