use std::collections::BTreeMap;

use crate::{RequestId, Response};

/// Requests from the peer that are running.
#[derive(Debug, Default)]
pub(super) struct RunningRequests {
    /// The most recent request. Most requests complete before the next one arrives, so the map stays empty.
    newest: Option<(RequestId, RunningRequest)>,
    /// Earlier requests.
    entries: BTreeMap<RequestId, RunningRequest>,
    /// Batches; there are few at a time.
    batches: Vec<(u64, RunningBatch)>,
    last_serial: u64,
}

#[derive(Debug)]
struct RunningRequest {
    serial: u64,
    kind: RequestKind,
    /// `true` if the request ends with the session; stateless requests do not.
    in_session: bool,
    batch: Option<u64>,
}

/// RequestKind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// An ordinary request.
    Ordinary,
    /// `initialize`, which cannot be cancelled.
    Handshake,
    /// `subscriptions/listen`, which ends only with the subscription.
    Listen,
}

/// Requests that were received in one array and are answered in one.
#[derive(Debug, Default)]
struct RunningBatch {
    open: usize,
    /// `true` while more requests of the array may be added.
    reading: bool,
    responses: Vec<Response>,
}

/// Identifies a request on a connection, also among requests with the same id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    id: RequestId,
    serial: u64,
}

impl Ticket {
    /// Returns the id of the request.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.id
    }
}

impl RunningRequests {
    pub(super) fn shrink(&mut self) {
        if self.entries.is_empty() {
            self.entries = BTreeMap::new();
        }
    }

    pub(super) fn contains(&self, id: &RequestId) -> bool {
        self.get(id).is_some()
    }

    /// Returns `true` if the request ends with the session.
    pub(super) fn is_in_session(&self, id: &RequestId) -> bool {
        self.get(id).is_some_and(|entry| entry.in_session)
    }

    pub(super) fn contains_ticket(&self, ticket: &Ticket) -> bool {
        self.get(&ticket.id).is_some_and(|entry| entry.serial == ticket.serial)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() + usize::from(self.newest.is_some())
    }

    pub(super) fn insert(&mut self, id: RequestId, kind: RequestKind, in_session: bool, batch: Option<u64>) -> Ticket {
        self.last_serial += 1;
        let serial = self.last_serial;
        if let Some(batch) = batch.and_then(|batch| self.batch(batch)) {
            batch.open += 1;
        }
        if let Some((id, entry)) = self.newest.replace((id.clone(), RunningRequest { serial, kind, in_session, batch }))
        {
            self.entries.insert(id, entry);
        }
        Ticket { id, serial }
    }

    /// Removes a completed request; `None` if it is no longer running.
    pub(super) fn finish(&mut self, ticket: &Ticket) -> Option<(RequestKind, Option<u64>)> {
        // Another request may have the same id if the first one was cancelled.
        let entry = if self.contains_ticket(ticket) { self.take(&ticket.id)? } else { return None };
        Some((entry.kind, entry.batch))
    }

    /// Removes a cancelled request, unless it is the handshake, and returns its batch.
    pub(super) fn cancel(&mut self, id: &RequestId) -> Option<(Ticket, Option<u64>)> {
        self.get(id).filter(|entry| entry.kind != RequestKind::Handshake)?;
        let entry = self.take(id)?;
        if let Some(batch) = entry.batch {
            self.leave_batch(batch, None);
        }
        Some((Ticket { id: id.clone(), serial: entry.serial }, entry.batch))
    }

    /// Removes and returns the subscriptions.
    pub(super) fn take_subscriptions(&mut self) -> Vec<Ticket> {
        self.take_where(|entry| entry.kind == RequestKind::Listen).into_iter().map(|(ticket, _)| ticket).collect()
    }

    /// Removes and returns the requests of the session, each with its batch.
    pub(super) fn take_session(&mut self) -> Vec<(Ticket, Option<u64>)> {
        self.take_where(|entry| entry.in_session)
    }

    fn take_where(&mut self, is_wanted: impl Fn(&RunningRequest) -> bool) -> Vec<(Ticket, Option<u64>)> {
        let newest = self.newest.take_if(|(_, entry)| is_wanted(entry));
        let mut taken = Vec::new();
        self.entries.retain(|id, entry| {
            let is_wanted = is_wanted(entry);
            if is_wanted {
                taken.push((Ticket { id: id.clone(), serial: entry.serial }, entry.batch));
            }
            !is_wanted
        });
        taken.extend(newest.map(|(id, entry)| (Ticket { id, serial: entry.serial }, entry.batch)));
        taken
    }

    fn get(&self, id: &RequestId) -> Option<&RunningRequest> {
        match &self.newest {
            Some((newest, entry)) if newest == id => Some(entry),
            _ if self.entries.is_empty() => None,
            _ => self.entries.get(id),
        }
    }

    fn take(&mut self, id: &RequestId) -> Option<RunningRequest> {
        match self.newest.take_if(|(newest, _)| newest == id) {
            Some((_, entry)) => Some(entry),
            None => self.entries.remove(id),
        }
    }

    fn batch(&mut self, batch: u64) -> Option<&mut RunningBatch> {
        self.batches.iter_mut().find(|(serial, _)| *serial == batch).map(|(_, batch)| batch)
    }

    pub(super) fn open_batch(&mut self) -> u64 {
        self.last_serial += 1;
        self.batches.push((self.last_serial, RunningBatch { reading: true, ..RunningBatch::default() }));
        self.last_serial
    }

    pub(super) fn close_batch(&mut self, batch: u64) -> Option<Vec<Response>> {
        self.batch(batch)?.reading = false;
        self.take_complete(batch)
    }

    /// Adds a response to a batch. `answered` is `true` if it belongs to a request of the batch.
    pub(super) fn collect(&mut self, batch: u64, response: Response, answered: bool) {
        if let Some(batch) = self.batch(batch) {
            batch.open -= usize::from(answered);
            batch.responses.push(response);
        }
    }

    /// Removes a request from its batch, and adds its response if there is one.
    pub(super) fn leave_batch(&mut self, batch: u64, response: Option<Response>) {
        if let Some(batch) = self.batch(batch) {
            batch.open -= 1;
            batch.responses.extend(response);
        }
    }

    /// Returns the responses of a batch if it is complete.
    pub(super) fn take_complete(&mut self, batch: u64) -> Option<Vec<Response>> {
        let place = self.batches.iter().position(|(serial, _)| *serial == batch)?;
        let (_, batch) = &self.batches[place];
        if batch.open > 0 || batch.reading {
            return None;
        }
        let (_, batch) = self.batches.swap_remove(place);
        Some(batch.responses).filter(|responses| !responses.is_empty())
    }

    pub(super) fn clear(&mut self) {
        self.newest = None;
        self.entries.clear();
        self.batches.clear();
    }
}
