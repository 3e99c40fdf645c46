//! How far a request has come (basic/utilities/progress).

use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::notification;
use crate::types::Meta;
use crate::{Number, ProgressToken};

/// One report of progress.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ProgressParams {
    /// The token that the request carried.
    pub progress_token: ProgressToken,
    /// How far it is; grows with every report.
    pub progress: Number,
    /// How far it will go, if known.
    pub total: Option<Number>,
    /// What is happening, for people.
    #[object(since = V2025_03_26)]
    pub message: Option<String>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

notification!(
    /// `notifications/progress`.
    Progress = "notifications/progress", ProgressParams
);
