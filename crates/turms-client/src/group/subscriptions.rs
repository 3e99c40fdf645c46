//! Subscriptions to several servers at once.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use indexmap::IndexMap;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use turms_proto::method::Method as _;
use turms_proto::types::{Listen, SubscriptionFilter};

use super::backend::GroupShared;
use super::capabilities::merge_flags;
use super::events::MembershipChange;
use super::member::MemberRef;
use super::routing::Location;
use crate::call::error::{CallError, CallErrorKind, NoServerCause};
use crate::call::options::CallOptions;
use crate::event::Event;
use crate::members;
use crate::subscription::{Change, Subscription};

/// Subscribes to the lists of all servers, and to each resource at its server. A server that fails is left out; the
/// call fails only if all servers fail. Servers that are added later are included.
pub(super) async fn listen(
    shared: &Arc<GroupShared>,
    filter: SubscriptionFilter,
    options: &CallOptions,
) -> Result<Subscription, CallError> {
    if filter.task_ids.is_some() {
        return Err(CallError::not_sent(Listen::NAME, CallErrorKind::NoServer(NoServerCause::Several)));
    }
    // Watch the membership first, so that a server that joins meanwhile is not missed.
    let changes = shared.members.lock().watch();
    let lists = lists_of(&filter);
    let mut parts: IndexMap<u64, Part> = IndexMap::new();
    let (mut unlocated, mut away) = (Vec::new(), Vec::new());
    if lists != SubscriptionFilter::new() {
        let present = shared.members.lock().present();
        for member in present {
            match member.is_up {
                true => drop(parts.insert(member.client_id, Part { member, filter: lists.clone() })),
                false => away.push((member.client_id, member.name)),
            }
        }
    }
    for uri in filter.resource_subscriptions.unwrap_or_default() {
        match shared.locate_resource(&uri, options.timeout).await {
            Ok(Location::At(member)) => {
                let part = parts.entry(member.client_id);
                let part = part.or_insert_with(|| Part { member: *member, filter: SubscriptionFilter::new() });
                part.filter.resource_subscriptions.get_or_insert_default().push(uri);
            }
            Ok(Location::AnyOf(members)) => unlocated.push((uri, members)),
            // The resource is missing from the acknowledged filter.
            Err(error) => tracing::debug!(target: "turms::client", %error, "the resource cannot be watched"),
        }
    }
    let mut open = Vec::new();
    let mut failures = Vec::new();
    for (part, outcome) in join_all(parts.into_values().map(|part| part.listen(options))).await {
        match outcome {
            Ok(subscription) => open.push((part, subscription)),
            Err(error) => {
                tracing::warn!(target: "turms::client", server = ?part.member.name, %error, "the server is left out");
                failures.push((part.member.name.to_string(), error));
            }
        }
    }
    for (uri, members) in unlocated {
        open.extend(listen_to_all(&uri, members, options).await);
    }
    if open.is_empty() && !failures.is_empty() {
        return Err(CallError::of_servers(Listen::NAME, failures));
    }
    let (mut merged, acknowledged, receiver) = MergedSubscription::new(shared, lists, open);
    // Subscribe at servers that are reconnecting in a task, without waiting for them.
    away.iter().for_each(|(client_id, name)| merged.join(*client_id, name));
    let task = shared.lifetime.spawn(merged.run(changes));
    Ok(Subscription::new(receiver, acknowledged, task))
}

/// The part of a filter that one server gets.
struct Part {
    member: MemberRef,
    filter: SubscriptionFilter,
}

impl Part {
    async fn listen(self, options: &CallOptions) -> (Self, Result<Subscription, CallError>) {
        let outcome = members::listen(&self.member.client, self.filter.clone(), options).await;
        (self, outcome)
    }
}

/// Subscribes to a resource of an unknown server, at all servers that acknowledge it.
async fn listen_to_all(uri: &str, members: Vec<MemberRef>, options: &CallOptions) -> Vec<(Part, Subscription)> {
    let filter = SubscriptionFilter::new().resource_subscriptions([uri.to_owned()]);
    let parts = members.into_iter().map(|member| Part { member, filter: filter.clone() }.listen(options));
    let outcomes = join_all(parts).await.into_iter();
    let accepted = outcomes.filter_map(|(part, outcome)| Some((part, outcome.ok()?)));
    let acknowledges = |subscription: &Subscription| {
        subscription.acknowledged().resource_subscriptions.iter().flatten().any(|known| known == uri)
    };
    accepted.filter(|(_, subscription)| acknowledges(subscription)).collect()
}

/// The subscriptions to the servers of a group, merged into one. It holds no client, so that it does not keep
/// connections open.
struct MergedSubscription {
    shared: Arc<GroupShared>,
    lists: SubscriptionFilter,
    /// The resources of each server, to subscribe again after a reconnect.
    resources: HashMap<Arc<str>, Vec<String>>,
    sender: mpsc::Sender<Change>,
    tasks: JoinSet<()>,
    open: HashMap<u64, Vec<AbortHandle>>,
}

impl MergedSubscription {
    fn new(
        shared: &Arc<GroupShared>,
        lists: SubscriptionFilter,
        open: Vec<(Part, Subscription)>,
    ) -> (Self, SubscriptionFilter, mpsc::Receiver<Change>) {
        let (sender, changes) = mpsc::channel(Subscription::CAPACITY);
        let (resources, tasks) = (HashMap::new(), JoinSet::new());
        let mut merged = Self { shared: shared.clone(), lists, resources, sender, tasks, open: HashMap::new() };
        let mut acknowledged = SubscriptionFilter::new();
        for (part, subscription) in open {
            merge(&mut acknowledged, subscription.acknowledged());
            let uris = part.filter.resource_subscriptions.unwrap_or_default();
            merged.resources.entry(part.member.name).or_default().extend(uris);
            merged.forward(part.member.client_id, subscription);
        }
        (merged, acknowledged, changes)
    }

    async fn run(mut self, mut changes: mpsc::UnboundedReceiver<MembershipChange>) {
        loop {
            tokio::select! {
                change = changes.recv() => match change {
                    Some(change) => self.apply(change),
                    None => return,
                },
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    fn apply(&mut self, change: MembershipChange) {
        match change {
            MembershipChange::Joined { client_id, .. } if self.open.contains_key(&client_id) => {}
            MembershipChange::Joined { client_id, name, announce, .. } => {
                self.announce(&announce);
                self.join(client_id, &name);
            }
            MembershipChange::Left { client_id, announce, .. } => {
                self.open.remove(&client_id).into_iter().flatten().for_each(|task| task.abort());
                self.announce(&announce);
            }
        }
    }

    /// Sends the changes of the merged lists when a server joins or leaves.
    fn announce(&self, events: &[Event]) {
        for change in events.iter().filter_map(|event| Change::of_list(event, &self.lists)) {
            let _ = self.sender.try_send(change);
        }
    }

    /// Subscribes at a server that has joined, in a task.
    fn join(&mut self, client_id: u64, name: &Arc<str>) {
        let mut filter = self.lists.clone();
        filter.resource_subscriptions = self.resources.get(name).filter(|uris| !uris.is_empty()).cloned();
        if filter == SubscriptionFilter::new() {
            return;
        }
        let (shared, sender, name) = (self.shared.clone(), self.sender.clone(), name.clone());
        let task = self.tasks.spawn(async move {
            let Some(client) = shared.members.lock().client_by_id(client_id) else { return };
            match members::listen(&client, filter, &CallOptions::default()).await {
                Ok(subscription) => {
                    drop(client);
                    forward(subscription, sender).await;
                }
                Err(error) => {
                    tracing::warn!(target: "turms::client", server = ?name, %error, "the server is left out");
                }
            }
        });
        self.open.entry(client_id).or_default().push(task);
    }

    fn forward(&mut self, client_id: u64, subscription: Subscription) {
        let task = self.tasks.spawn(forward(subscription, self.sender.clone()));
        self.open.entry(client_id).or_default().push(task);
    }
}

async fn forward(mut subscription: Subscription, sender: mpsc::Sender<Change>) {
    while let Some(change) = subscription.next().await {
        // If the buffer is full, the change is dropped, as documented at `Subscription`.
        let _ = sender.try_send(change);
    }
}

/// Returns the part of a filter that all servers get: the changes of lists.
fn lists_of(filter: &SubscriptionFilter) -> SubscriptionFilter {
    let mut lists = SubscriptionFilter::new();
    lists.tools_list_changed = filter.tools_list_changed;
    lists.prompts_list_changed = filter.prompts_list_changed;
    lists.resources_list_changed = filter.resources_list_changed;
    lists
}

fn merge(all: &mut SubscriptionFilter, one: &SubscriptionFilter) {
    merge_flags(&mut all.tools_list_changed, one.tools_list_changed);
    merge_flags(&mut all.prompts_list_changed, one.prompts_list_changed);
    merge_flags(&mut all.resources_list_changed, one.resources_list_changed);
    if let Some(uris) = &one.resource_subscriptions {
        let all = all.resource_subscriptions.get_or_insert_default();
        for uri in uris {
            if !all.contains(uri) {
                all.push(uri.clone());
            }
        }
    }
}
