//! Progress of a request (basic/utilities/progress).

use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::notification;
use crate::types::Meta;
use crate::{Number, ProgressToken};

/// Parameters of `notifications/progress`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ProgressParams {
    /// Progress token of the request.
    pub progress_token: ProgressToken,
    /// The progress so far. It increases with every notification.
    pub progress: Number,
    /// The total amount, if known.
    pub total: Option<Number>,
    /// Human-readable message.
    #[object(since = V2025_03_26)]
    pub message: Option<String>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

notification!(
    /// `notifications/progress`.
    ProgressNotification = "notifications/progress", ProgressParams
);
