//! Giving up on a request (basic/utilities/cancellation).

use crate::RequestId;
use crate::method::notification;
use crate::object::object;
use crate::types::Meta;

object! {
    /// Which request nobody waits for any more.
    pub struct CancelledParams {
        optional {
            /// The request; only 2025-11-25 lets it be absent.
            request_id: RequestId => "requestId",
            /// Why, for people.
            reason: String => "reason",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

notification!(
    /// `notifications/cancelled`.
    Cancelled = "notifications/cancelled", CancelledParams
);
