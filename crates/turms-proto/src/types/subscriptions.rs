//! Listening to changes (basic/utilities/subscriptions, since 2026-07-28).

use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::{method, notification};
use crate::types::{Meta, ResultType};

/// Which changes to hear about.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// Changes of the list of tools.
    pub tools_list_changed: Option<bool>,
    /// Changes of the list of prompts.
    pub prompts_list_changed: Option<bool>,
    /// Changes of the list of resources.
    pub resources_list_changed: Option<bool>,
    /// Changes of these resources.
    pub resource_subscriptions: Option<Vec<String>>,
    /// Changes of these tasks (extension).
    pub task_ids: Option<Vec<String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The parameters of `subscriptions/listen`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ListenParams {
    /// What to hear about.
    pub notifications: SubscriptionFilter,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// How a server ends a subscription.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ListenResult {
    /// What kind of result this is.
    #[object(default = ResultType::Complete)]
    pub result_type: Option<ResultType>,
    /// Beside the subject; says which subscription.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What a server will tell of what it was asked to.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AcknowledgedParams {
    /// What it will tell.
    pub notifications: SubscriptionFilter,
    /// Beside the subject; says which subscription.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `subscriptions/listen`: a request that lasts.
    Listen = "subscriptions/listen", ListenParams => ListenResult
);

notification!(
    /// `notifications/subscriptions/acknowledged`.
    Acknowledged = "notifications/subscriptions/acknowledged", AcknowledgedParams
);
