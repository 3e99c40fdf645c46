//! Requests to the service without a socket, for tests with a paused clock or with a principal.

use std::pin::{Pin, pin};

use http_body::Body;
use turms_core::Principal;
use turms_http::{HttpBody, HttpService};

use crate::wire::{Head, Request, Response};

/// Sends a request and reads the whole response.
pub(crate) async fn ask(service: &HttpService, request: &Request) -> Response {
    ask_as(service, request, None).await
}

/// Sends a request with a principal of this subject, as an authentication middleware would add it.
pub(crate) async fn ask_as(service: &HttpService, request: &Request, who: Option<&str>) -> Response {
    ask_by(service, request, who.map(Principal::new)).await
}

pub(crate) async fn ask_by(service: &HttpService, request: &Request, who: Option<Principal>) -> Response {
    let (head, body) = open_by(service, request, who).await;
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|task| body.as_mut().poll_frame(task)).await {
        bytes.extend_from_slice(&frame.unwrap().into_data().unwrap_or_default());
    }
    Response { head, body: bytes }
}

/// Sends a request and returns the head of the response and its unread body.
pub(crate) async fn open(service: &HttpService, request: &Request, who: Option<&str>) -> (Head, HttpBody) {
    open_by(service, request, who.map(Principal::new)).await
}

pub(crate) async fn open_by(service: &HttpService, request: &Request, who: Option<Principal>) -> (Head, HttpBody) {
    let mut built = http::Request::builder().method(request.method).uri(&request.path);
    for (name, value) in &request.headers {
        built = built.header(name, value.as_slice());
    }
    let mut request = built.body(HttpBody::whole(request.body.clone().unwrap_or_default())).unwrap();
    if let Some(who) = who {
        request.extensions_mut().insert(who);
    }
    let answer = tower_service::Service::call(&mut service.clone(), request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    (Head::new(parts.status.as_u16(), headers.collect()), body)
}

/// Reads the data of the events in a body.
pub(crate) struct Events {
    body: Pin<Box<HttpBody>>,
    read: String,
}

impl Events {
    pub(crate) fn new(body: HttpBody) -> Self {
        Self { body: Box::pin(body), read: String::new() }
    }

    /// Waits for the next event with data, or the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data:")).map(|data| data.trim().to_owned());
                self.read = rest.to_owned();
                match data.filter(|data| !data.is_empty()) {
                    Some(data) => return Some(data),
                    // A comment, or the event at the start of a stream that only has an id.
                    None => continue,
                }
            }
            let frame = std::future::poll_fn(|task| Body::poll_frame(self.body.as_mut(), task));
            let frame = frame.await?.unwrap();
            self.read.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
    }
}
