//! Translation of subscriptions: one request per resource until 2025-11-25, one long-running request with a filter
//! since 2026-07-28.

use std::collections::HashSet;

use crate::RequestId;
use crate::json::{Object, RawJson};
use crate::types::{SubscriptionFilter, key};

/// A request that updates the subscriptions at an older server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscriptionChange {
    /// `resources/subscribe` to this URI.
    Subscribe(String),
    /// `resources/unsubscribe` from this URI.
    Unsubscribe(String),
}

/// Returns the requests that change the subscriptions at an older server from one filter to another. Older servers
/// send list changes without a subscription.
#[must_use]
pub fn subscription_changes(from: &SubscriptionFilter, to: &SubscriptionFilter) -> Vec<SubscriptionChange> {
    let old = from.resource_subscriptions.as_deref().unwrap_or_default();
    let new = to.resource_subscriptions.as_deref().unwrap_or_default();
    let (old_set, new_set): (HashSet<&String>, HashSet<&String>) = (old.iter().collect(), new.iter().collect());
    let removed = old.iter().filter(|uri| !new_set.contains(uri)).cloned().map(SubscriptionChange::Unsubscribe);
    let added = new.iter().filter(|uri| !old_set.contains(uri)).cloned().map(SubscriptionChange::Subscribe);
    removed.chain(added).collect()
}

/// Adds the id of a listen request to the `_meta` of notification parameters. Lowering removes it again.
#[must_use]
pub fn tag_subscription(params: Option<&RawJson>, subscription: &RequestId) -> RawJson {
    let mut params = params.and_then(RawJson::as_object).unwrap_or_default();
    let mut meta = params.get("_meta").and_then(|meta| meta.as_object()).unwrap_or_default();
    let id = match subscription {
        RequestId::Number(number) => RawJson::trusted(number.to_string().into()),
        RequestId::String(text) => RawJson::string(text),
    };
    meta.insert_raw(key::SUBSCRIPTION_ID, &id);
    params.insert_raw("_meta", &Object::into(meta));
    params.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_are_requested() {
        let filter = |uris: &[&str]| {
            SubscriptionFilter::new()
                .resource_subscriptions(uris.iter().map(|uri| (*uri).to_owned()).collect::<Vec<_>>())
        };
        let changes = subscription_changes(&filter(&["a", "b"]), &filter(&["b", "c"]));
        assert_eq!(changes, [SubscriptionChange::Unsubscribe("a".into()), SubscriptionChange::Subscribe("c".into())]);
        assert_eq!(subscription_changes(&SubscriptionFilter::new(), &SubscriptionFilter::new()), []);
    }

    #[test]
    fn the_tag_keeps_the_type_of_the_id() {
        let tagged = tag_subscription(Some(&RawJson::parse(r#"{"uri":"a"}"#).unwrap()), &"7".into());
        assert_eq!(tagged.as_str(), r#"{"uri":"a","_meta":{"io.modelcontextprotocol/subscriptionId":"7"}}"#);
        let tagged = tag_subscription(None, &7.into());
        assert_eq!(tagged.as_str(), r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}"#);
    }
}
