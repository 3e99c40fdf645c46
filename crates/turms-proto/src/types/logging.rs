//! What a server has to say about its work (server/utilities/logging).

use crate::RawJson;
use crate::method::{method, notification};
use crate::object::{object, string_enum};
use crate::types::{EmptyResult, Meta};

string_enum! {
    /// How grave a log message is, as in RFC 5424; ordered from `Debug` up.
    closed LoggingLevel {
        /// Details for those who look for a fault.
        Debug = "debug",
        /// The usual course of things.
        Info = "info",
        /// Usual but worth knowing.
        Notice = "notice",
        /// Something may go wrong.
        Warning = "warning",
        /// Something went wrong.
        Error = "error",
        /// A part does not work.
        Critical = "critical",
        /// Somebody has to act now.
        Alert = "alert",
        /// Nothing works.
        Emergency = "emergency",
    }
}

object! {
    /// The parameters of `logging/setLevel`.
    pub struct SetLevelParams {
        required {
            /// The lowest level to be sent.
            level: LoggingLevel => "level",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// A log message.
    pub struct LogMessage {
        required {
            /// How grave.
            level: LoggingLevel => "level",
            /// What: text or any JSON.
            data: RawJson => "data",
        }
        optional {
            /// Who says it.
            logger: String => "logger",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

method!(
    /// `logging/setLevel`, until 2025-11-25.
    SetLevel = "logging/setLevel", SetLevelParams => EmptyResult
);

notification!(
    /// `notifications/message`.
    Log = "notifications/message", LogMessage
);
