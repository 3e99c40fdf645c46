//! Cancellation of requests (basic/utilities/cancellation).

use turms_proto_derive::ProtocolObject;

use crate::RequestId;
use crate::json::Object;
use crate::method::notification;
use crate::types::Meta;

/// Parameters of `notifications/cancelled`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CancelledParams {
    /// Id of the cancelled request. Only 2025-11-25 allows it to be absent.
    pub request_id: Option<RequestId>,
    /// Human-readable reason.
    pub reason: Option<String>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

notification!(
    /// `notifications/cancelled`.
    CancelledNotification = "notifications/cancelled", CancelledParams
);
