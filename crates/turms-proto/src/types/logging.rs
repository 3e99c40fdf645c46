//! What a server has to say about its work (server/utilities/logging).

use turms_proto_derive::ProtocolObject;

use crate::RawJson;
use crate::json::Object;
use crate::method::{method, notification};
use crate::object::string_enum;
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

/// The parameters of `logging/setLevel`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct SetLevelParams {
    /// The lowest level to be sent.
    pub level: LoggingLevel,
    /// Beside the subject.
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
    /// How grave.
    pub level: LoggingLevel,
    /// What: text or any JSON.
    pub data: RawJson,
    /// Who says it.
    pub logger: Option<String>,
    /// Beside the subject.
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
    Log = "notifications/message", LogMessage
);
