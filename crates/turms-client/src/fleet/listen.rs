//! Listening to many servers at once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use futures_util::future::join_all;
use indexmap::IndexMap;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use turms_proto::method::Method as _;
use turms_proto::types::{Listen, SubscriptionFilter};

use super::event::News;
use super::many::Many;
use super::roster::Seat;
use super::route::Home;
use crate::call::error::{CallError, CallErrorKind, NoServerCause};
use crate::event::Event;
use crate::listen::{Change, Subscription};
use crate::options::CallOptions;

/// Listens at every server to changes of its lists, and to changes of resources where they are. Whoever fails to listen is
/// left out, unless all do. Servers that come later are listened to as well.
pub(super) async fn listen(
    many: &Many,
    filter: SubscriptionFilter,
    options: CallOptions,
) -> Result<Subscription, CallError> {
    if filter.task_ids.is_some() {
        return Err(CallError::not_sent(Listen::NAME, CallErrorKind::NoServer(NoServerCause::Several)));
    }
    // First of all, so that nobody who comes in between is missed.
    let news = many.roster.lock().watch();
    let lists = lists_of(&filter);
    let mut parts: IndexMap<u64, Part> = IndexMap::new();
    let (mut unplaced, mut away) = (Vec::new(), Vec::new());
    if lists != SubscriptionFilter::new() {
        let present = many.roster.lock().present();
        for seat in present {
            match seat.is_up {
                true => drop(parts.insert(seat.placed, Part { seat, filter: lists.clone() })),
                false => away.push((seat.placed, seat.name)),
            }
        }
    }
    for uri in filter.resource_subscriptions.unwrap_or_default() {
        match many.home_of_resource(&uri, options.timeout).await {
            Ok(Home::At(seat)) => {
                let part = parts.entry(seat.placed);
                let part = part.or_insert_with(|| Part { seat, filter: SubscriptionFilter::new() });
                part.filter.resource_subscriptions.get_or_insert_default().push(uri);
            }
            Ok(Home::Ask(seats)) => unplaced.push((uri, seats)),
            // It is not acknowledged, then.
            Err(error) => tracing::debug!(target: "turms::client", %error, "the resource cannot be listened to"),
        }
    }
    let mut heard = Vec::new();
    let mut failures = Vec::new();
    for (part, outcome) in join_all(parts.into_values().map(|part| part.listen(&options))).await {
        match outcome {
            Ok(subscription) => heard.push((part, subscription)),
            Err(error) => {
                tracing::warn!(target: "turms::client", server = ?part.seat.name, %error, "the server is not listened to");
                failures.push((part.seat.name.to_string(), error));
            }
        }
    }
    for (uri, seats) in unplaced {
        heard.extend(whoever_agrees(&uri, seats, &options).await);
    }
    if heard.is_empty() && !failures.is_empty() {
        return Err(CallError::of_servers(Listen::NAME, failures));
    }
    let (mut gathering, acknowledged, changes) = Gathering::new(many, lists, heard);
    // Those who are about to be there again are not waited for.
    away.iter().for_each(|(placed, name)| gathering.join(*placed, name));
    Ok(Subscription::new(changes, acknowledged, tokio::spawn(gathering.run(news))))
}

/// What one server is to tell.
struct Part {
    seat: Seat,
    filter: SubscriptionFilter,
}

impl Part {
    async fn listen(self, options: &CallOptions) -> (Self, Result<Subscription, CallError>) {
        let outcome = self.seat.client.engine().listen(self.filter.clone(), options.clone()).await;
        (self, outcome)
    }
}

/// Nobody is known to have the resource, and a server may agree to tell of what it does not have: all that agree are
/// listened to.
async fn whoever_agrees(uri: &str, seats: Vec<Seat>, options: &CallOptions) -> Vec<(Part, Subscription)> {
    let filter = SubscriptionFilter::new().resource_subscriptions([uri.to_owned()]);
    let parts = seats.into_iter().map(|seat| Part { seat, filter: filter.clone() }.listen(options));
    let outcomes = join_all(parts).await.into_iter();
    let agreed = outcomes.filter_map(|(part, outcome)| Some((part, outcome.ok()?)));
    let tells = |subscription: &Subscription| {
        subscription.acknowledged().resource_subscriptions.iter().flatten().any(|told| told == uri)
    };
    agreed.filter(|(_, subscription)| tells(subscription)).collect()
}

/// What goes on while somebody listens. It holds no client, only what they tell.
struct Gathering {
    many: Weak<Many>,
    lists: SubscriptionFilter,
    /// Which resources are listened to at which server, should it come back.
    own: HashMap<Arc<str>, Vec<String>>,
    sender: mpsc::Sender<Change>,
    tasks: JoinSet<()>,
    heard: HashMap<u64, Vec<AbortHandle>>,
}

impl Gathering {
    fn new(
        many: &Many,
        lists: SubscriptionFilter,
        heard: Vec<(Part, Subscription)>,
    ) -> (Self, SubscriptionFilter, mpsc::Receiver<Change>) {
        let (sender, changes) = mpsc::channel(Subscription::CAPACITY);
        let (own, tasks, many) = (HashMap::new(), JoinSet::new(), many.weak());
        let mut gathering = Self { many, lists, own, sender, tasks, heard: HashMap::new() };
        let mut acknowledged = SubscriptionFilter::new();
        for (part, subscription) in heard {
            unite(&mut acknowledged, subscription.acknowledged());
            let uris = part.filter.resource_subscriptions.unwrap_or_default();
            gathering.own.entry(part.seat.name).or_default().extend(uris);
            gathering.hear(part.seat.placed, subscription);
        }
        (gathering, acknowledged, changes)
    }

    async fn run(mut self, mut news: mpsc::UnboundedReceiver<News>) {
        loop {
            tokio::select! {
                news = news.recv() => match news {
                    Some(news) => self.take_note(news),
                    None => return,
                },
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    fn take_note(&mut self, news: News) {
        match news {
            News::Joined { placed, .. } if self.heard.contains_key(&placed) => {}
            News::Joined { placed, name, told, .. } => {
                self.tell(told);
                self.join(placed, &name);
            }
            News::Left { placed, told, .. } => {
                self.heard.remove(&placed).into_iter().flatten().for_each(|task| task.abort());
                self.tell(told);
            }
        }
    }

    /// The lists have changed by who has them now.
    fn tell(&self, told: Vec<Event>) {
        let wanted = |flag: Option<bool>| flag == Some(true);
        for event in told {
            let change = match event {
                Event::ToolsChanged if wanted(self.lists.tools_list_changed) => Change::Tools,
                Event::PromptsChanged if wanted(self.lists.prompts_list_changed) => Change::Prompts,
                Event::ResourcesChanged if wanted(self.lists.resources_list_changed) => Change::Resources,
                _ => continue,
            };
            let _ = self.sender.try_send(change);
        }
    }

    /// Listens to a server that has come.
    fn join(&mut self, placed: u64, name: &Arc<str>) {
        let mut filter = self.lists.clone();
        filter.resource_subscriptions = self.own.get(name).filter(|uris| !uris.is_empty()).cloned();
        if filter == SubscriptionFilter::new() {
            return;
        }
        let (many, sender, name) = (self.many.clone(), self.sender.clone(), name.clone());
        let task = self.tasks.spawn(async move {
            let Some(client) = many.upgrade().and_then(|many| many.roster.lock().client_placed(placed)) else { return };
            match client.engine().listen(filter, CallOptions::default()).await {
                Ok(subscription) => {
                    drop(client);
                    pass_on(subscription, sender).await;
                }
                Err(error) => {
                    tracing::warn!(target: "turms::client", server = ?name, %error, "the server is not listened to");
                }
            }
        });
        self.heard.entry(placed).or_default().push(task);
    }

    fn hear(&mut self, placed: u64, subscription: Subscription) {
        let task = self.tasks.spawn(pass_on(subscription, self.sender.clone()));
        self.heard.entry(placed).or_default().push(task);
    }
}

async fn pass_on(mut subscription: Subscription, sender: mpsc::Sender<Change>) {
    while let Some(change) = subscription.next().await {
        // Whoever does not read in time has to look anew anyway.
        let _ = sender.try_send(change);
    }
}

/// What of a filter is for every server.
fn lists_of(filter: &SubscriptionFilter) -> SubscriptionFilter {
    let mut lists = SubscriptionFilter::new();
    lists.tools_list_changed = filter.tools_list_changed;
    lists.prompts_list_changed = filter.prompts_list_changed;
    lists.resources_list_changed = filter.resources_list_changed;
    lists
}

fn unite(all: &mut SubscriptionFilter, one: &SubscriptionFilter) {
    let flag = |all: &mut Option<bool>, one: Option<bool>| {
        if one == Some(true) {
            *all = one;
        }
    };
    flag(&mut all.tools_list_changed, one.tools_list_changed);
    flag(&mut all.prompts_list_changed, one.prompts_list_changed);
    flag(&mut all.resources_list_changed, one.resources_list_changed);
    if let Some(uris) = &one.resource_subscriptions {
        let all = all.resource_subscriptions.get_or_insert_default();
        for uri in uris {
            if !all.contains(uri) {
                all.push(uri.clone());
            }
        }
    }
}
