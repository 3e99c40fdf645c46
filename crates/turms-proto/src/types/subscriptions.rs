//! Subscriptions to changes (basic/utilities/subscriptions, since 2026-07-28).

use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::{method, notification};
use crate::types::{Meta, ResultType};

/// Filter for the notifications of a subscription; at first it has none.
///
/// A URI converts to the filter for changes of that resource. The setters combine several kinds:
/// `SubscriptionFilter::new().tools_list_changed(true)`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct SubscriptionFilter {
    /// Changes of the tool list.
    pub tools_list_changed: Option<bool>,
    /// Changes of the prompt list.
    pub prompts_list_changed: Option<bool>,
    /// Changes of the resource list.
    pub resources_list_changed: Option<bool>,
    /// URIs of resources to watch.
    pub resource_subscriptions: Option<Vec<String>>,
    /// Ids of tasks to watch (extension).
    pub task_ids: Option<Vec<String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A filter for changes of one resource.
impl From<String> for SubscriptionFilter {
    fn from(uri: String) -> Self {
        Self::new().resource_subscriptions([uri])
    }
}

/// A filter for changes of one resource.
impl From<&str> for SubscriptionFilter {
    fn from(uri: &str) -> Self {
        uri.to_owned().into()
    }
}

/// A filter for changes of one resource.
impl From<&String> for SubscriptionFilter {
    fn from(uri: &String) -> Self {
        uri.clone().into()
    }
}

/// The parameters of `subscriptions/listen`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ListenParams {
    /// The notifications to subscribe to.
    pub notifications: SubscriptionFilter,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of `subscriptions/listen`, sent when the server ends the subscription.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct SubscriptionsListenResult {
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete)]
    pub result_type: Option<ResultType>,
    /// Protocol metadata (`_meta`), with the subscription id.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `notifications/subscriptions/acknowledged`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AcknowledgedParams {
    /// The subscribed notifications, as accepted by the server.
    pub notifications: SubscriptionFilter,
    /// Protocol metadata (`_meta`), with the subscription id.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `subscriptions/listen`: a long-running request that ends with the subscription.
    Listen = "subscriptions/listen", ListenParams => SubscriptionsListenResult
);

notification!(
    /// `notifications/subscriptions/acknowledged`.
    SubscriptionsAcknowledgedNotification = "notifications/subscriptions/acknowledged", AcknowledgedParams
);
