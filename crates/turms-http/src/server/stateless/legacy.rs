//! Clients of older revisions without a session: each message is handled on its own, and the server cannot send
//! requests.

use std::sync::Arc;

use http::StatusCode;
use turms_core::__internal::{dispatch, dispatch_notification, write_response};
use turms_core::{CallContext, Peer, ServiceError};
use turms_proto::method::Method as _;
use turms_proto::revision::{method_info, unexpected_batch, version_for_initialize};
use turms_proto::session::Dialect;
use turms_proto::types::{Initialize, Meta};
use turms_proto::{Ability, ErrorObject, Incoming, Message, MessageError, Notification, ProtocolVersion};

use crate::server::HttpState;
use crate::server::request::context::HttpRequestInfo;
use crate::server::response::{self, HttpResponse};

impl HttpState {
    pub(in crate::server) async fn handle_legacy(
        &self,
        incoming: Incoming,
        named: ProtocolVersion,
        info: &Arc<HttpRequestInfo>,
    ) -> HttpResponse {
        let is_initialize =
            matches!(&incoming, Incoming::One(Message::Request(request)) if &*request.method == Initialize::NAME);
        // Without a header the revision is assumed, and need not be one of the server's.
        if !is_initialize && !self.versions().contains(&named) {
            return self.refuse_version(incoming.request_id(), named.as_str());
        }
        match incoming {
            Incoming::One(Message::Request(request)) => {
                let version = match self.legacy_version(&request, named) {
                    Ok(version) => version,
                    Err(error) => return response::error(StatusCode::OK, Some(&request.id), &error),
                };
                let status = |_: &ServiceError| StatusCode::OK;
                let meta = Meta::of_params(request.params.as_ref());
                self.call(request, Dialect::Handshake(version), meta, info.clone(), status).await
            }
            Incoming::One(Message::Notification(notification)) => {
                self.notify_legacy(notification, named, info).await;
                response::empty(StatusCode::ACCEPTED)
            }
            // The server has sent no requests, so a response has no waiter.
            Incoming::One(Message::Response(_)) => response::empty(StatusCode::ACCEPTED),
            Incoming::Batch(messages) if named.has(Ability::Batching) => self.call_batch(messages, named, info).await,
            Incoming::Batch(_) => response::error(StatusCode::BAD_REQUEST, None, &unexpected_batch()),
        }
    }

    /// Returns the protocol revision of a request.
    fn legacy_version(
        &self,
        request: &turms_proto::Request,
        named: ProtocolVersion,
    ) -> Result<ProtocolVersion, ErrorObject> {
        if &*request.method == Initialize::NAME {
            let params = request.params::<Initialize>()?;
            let version = version_for_initialize(&params.protocol_version, self.versions());
            return Ok(version.unwrap_or(named));
        }
        match method_info(&request.method) {
            Some(method) if !method.is_defined_in(named) => Err(ErrorObject::method_not_found(&request.method)),
            _ => Ok(named),
        }
    }

    async fn notify_legacy(&self, notification: Notification, version: ProtocolVersion, info: &Arc<HttpRequestInfo>) {
        let cx = CallContext::new(Dialect::Handshake(version), Peer::disconnected())
            .with_meta(Meta::of_params(notification.params.as_ref()));
        let cx = cx.with_request_info(info.clone());
        dispatch_notification(&**self.endpoint.service(), notification, cx).await;
    }

    /// Handles the requests of a batch one after the other. Their notifications are dropped.
    async fn call_batch(
        &self,
        messages: Vec<Result<Message, MessageError>>,
        version: ProtocolVersion,
        info: &Arc<HttpRequestInfo>,
    ) -> HttpResponse {
        let mut body = Vec::new();
        for message in messages {
            let start = body.len();
            body.push(if start == 0 { b'[' } else { b',' });
            match message {
                Ok(Message::Request(request)) => self.call_one(request, version, info, &mut body).await,
                Ok(Message::Notification(notification)) => {
                    self.notify_legacy(notification, version, info).await;
                    body.truncate(start);
                }
                Err(invalid) if invalid.expects_response() => match &invalid.id {
                    Some(id) => turms_proto::jsonrpc::encode::failure(&mut body, Some(id), &invalid.error),
                    None => turms_proto::jsonrpc::encode::failure_with_null_id(&mut body, &invalid.error),
                },
                Ok(Message::Response(_)) | Err(_) => body.truncate(start),
            }
        }
        if body.is_empty() {
            return response::empty(StatusCode::ACCEPTED);
        }
        body.push(b']');
        response::json(StatusCode::OK, body)
    }

    async fn call_one(
        &self,
        request: turms_proto::Request,
        version: ProtocolVersion,
        info: &Arc<HttpRequestInfo>,
        body: &mut Vec<u8>,
    ) {
        let id = request.id.clone();
        let result = match self.legacy_version(&request, version) {
            Ok(_) if &*request.method == Initialize::NAME => {
                Err(ErrorObject::invalid_request("initialize cannot be part of a batch").into())
            }
            Ok(_) => {
                let cx = CallContext::new(Dialect::Handshake(version), Peer::disconnected())
                    .with_id(id.clone())
                    .with_meta(Meta::of_params(request.params.as_ref()));
                let cx = cx.with_request_info(info.clone());
                dispatch(&**self.endpoint.service(), request.into(), cx).await
            }
            Err(error) => Err(error.into()),
        };
        write_response(body, &id, result);
    }
}
