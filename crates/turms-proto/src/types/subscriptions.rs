//! Listening to changes (basic/utilities/subscriptions, since 2026-07-28).

use crate::method::{method, notification};
use crate::object::object;
use crate::types::{Meta, ResultType};

object! {
    /// Which changes to hear about.
    pub struct SubscriptionFilter {
        optional {
            /// Changes of the list of tools.
            tools_list_changed: bool => "toolsListChanged",
            /// Changes of the list of prompts.
            prompts_list_changed: bool => "promptsListChanged",
            /// Changes of the list of resources.
            resources_list_changed: bool => "resourcesListChanged",
            /// Changes of these resources.
            resource_subscriptions: Vec<String> => "resourceSubscriptions",
            /// Changes of these tasks (extension).
            task_ids: Vec<String> => "taskIds",
        }
    }
}

object! {
    /// The parameters of `subscriptions/listen`.
    pub struct ListenParams {
        required {
            /// What to hear about.
            notifications: SubscriptionFilter => "notifications",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// How a server ends a subscription.
    pub struct ListenResult {
        optional {
            /// What kind of result this is.
            result_type: ResultType = ResultType::Complete => "resultType",
            /// Beside the subject; says which subscription.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// What a server will tell of what it was asked to.
    pub struct AcknowledgedParams {
        required {
            /// What it will tell.
            notifications: SubscriptionFilter => "notifications",
        }
        optional {
            /// Beside the subject; says which subscription.
            meta: Meta => "_meta",
        }
    }
}

method!(
    /// `subscriptions/listen`: a request that lasts.
    Listen = "subscriptions/listen", ListenParams => ListenResult
);

notification!(
    /// `notifications/subscriptions/acknowledged`.
    Acknowledged = "notifications/subscriptions/acknowledged", AcknowledgedParams
);
