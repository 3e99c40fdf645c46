//! Giving up on a request (basic/utilities/cancellation).

use turms_proto_derive::ProtocolObject;

use crate::RequestId;
use crate::json::Object;
use crate::method::notification;
use crate::types::Meta;

/// Which request nobody waits for any more.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CancelledParams {
    /// The request; only 2025-11-25 lets it be absent.
    pub request_id: Option<RequestId>,
    /// Why, for people.
    pub reason: Option<String>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

notification!(
    /// `notifications/cancelled`.
    Cancelled = "notifications/cancelled", CancelledParams
);
