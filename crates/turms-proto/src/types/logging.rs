//! Log messages of servers (server/utilities/logging).

use turms_proto_derive::ProtocolObject;

use crate::RawJson;
use crate::json::Object;
use crate::method::{method, notification};
use crate::object::string_enum;
use crate::types::{EmptyResult, Meta};

string_enum! {
    /// Severity of a log message, as in RFC 5424; ordered from `Debug` up.
    closed LoggingLevel {
        /// Details for debugging.
        Debug = "debug",
        /// Normal operation.
        Info = "info",
        /// Normal but significant events.
        Notice = "notice",
        /// Warning conditions.
        Warning = "warning",
        /// Error conditions.
        Error = "error",
        /// Failure of a component.
        Critical = "critical",
        /// Immediate action is required.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

/// The parameters of `logging/setLevel`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct SetLevelParams {
    /// The minimum level to send.
    pub level: LoggingLevel,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A log message.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct LogMessage {
    /// Severity of the message.
    pub level: LoggingLevel,
    /// The message: a string or any JSON.
    pub data: RawJson,
    /// Name of the logger.
    pub logger: Option<String>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `logging/setLevel`, until 2025-11-25.
    SetLevel = "logging/setLevel", SetLevelParams => EmptyResult
);

notification!(
    /// `notifications/message`.
    LoggingMessageNotification = "notifications/message", LogMessage
);
