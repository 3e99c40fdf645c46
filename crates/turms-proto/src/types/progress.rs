//! How far a request has come (basic/utilities/progress).

use crate::method::notification;
use crate::object::object;
use crate::types::Meta;
use crate::{Number, ProgressToken};

object! {
    /// One report of progress.
    pub struct ProgressParams {
        required {
            /// The token that the request carried.
            progress_token: ProgressToken => "progressToken",
            /// How far it is; grows with every report.
            progress: Number => "progress",
        }
        optional {
            /// How far it will go, if known.
            total: Number => "total",
            /// What is happening, for people.
            message: String => "message",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

notification!(
    /// `notifications/progress`.
    Progress = "notifications/progress", ProgressParams
);
