//! A connected client and server, and a sequence of actions.
//!
//! The first line chooses the revisions: one byte for the client, one for the server. Each further line is one action: a side (`c` or
//! `s`), the action, and its options.
//!
//! | Line | |
//! |---|---|
//! | `c?3p` | sends a request, with a timeout of 3 s (none without the digit) and progress (`p`) |
//! | `cx0` | cancels its request 0 |
//! | `s=0` | responds to request 0 of the peer with a result |
//! | `s#0` | responds to it with an error |
//! | `s!` | sends a notification |
//! | `s%0` | reports progress of it |
//! | `c+5` | lets 5 s pass, for both |
//! | `c-` | drops its next message |
//! | `c.` | closes |
//! | `s{…` and anything else | receives this line |

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use turms_proto::jsonrpc::encode;
use turms_proto::session::{
    Call, ClientOptions, ConnectionStatus, Event, RequestError, RequestOptions, ResponseAction, Session, Ticket,
    VersionChoice,
};
use turms_proto::types::{
    ClientCapabilities, DiscoverResult, Implementation, InitializeResult, ProgressNotification, ProgressParams,
    ServerCapabilities,
};
use turms_proto::{ErrorObject, Incoming, Message, Notification, ProtocolVersion, RawJson, RequestId, Response};

/// Maximum number of lines of an input. Longer inputs only take longer.
const MAX_LINES: usize = 200;

/// Fuzz target for sessions: there is no panic, every request returns to its owner once, and no state is left after all requests have a
/// response, are cancelled or have timed out.
pub fn session(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut pair = SessionPair::new(lines.next().unwrap_or_default());
    for line in lines.take(MAX_LINES) {
        pair.perform(line);
        pair.deliver_all();
    }
    pair.client.assert_can_be_emptied();
    pair.server.assert_can_be_emptied();
}

struct SessionPair {
    client: FuzzPeer,
    server: FuzzPeer,
}

impl SessionPair {
    fn new(choice: &[u8]) -> Self {
        let byte = |at: usize| usize::from(choice.get(at).copied().unwrap_or(b'0'));
        let now = start_time();
        let mut pair =
            Self { client: FuzzPeer::new(client(byte(0)), now), server: FuzzPeer::new(server(byte(1)), now) };
        pair.server.session.open(now);
        pair.client.session.open(now);
        pair
    }

    fn perform(&mut self, line: &[u8]) {
        let (peer, action) = match line.split_first() {
            Some((b's', action)) => (&mut self.server, action),
            Some((b'c', action)) => (&mut self.client, action),
            _ => return self.server.receive(line),
        };
        match action {
            [b'?', flags @ ..] => peer.send_request(flags),
            [b'x', index @ ..] => peer.cancel(number(index)),
            [b'=', index @ ..] => peer.respond(number(index)),
            [b'#', index @ ..] => peer.refuse(number(index)),
            [b'%', index @ ..] => peer.report_progress(number(index)),
            [b'!', ..] => peer.notify(),
            [b'-', ..] => peer.drops_next = true,
            [b'.', ..] => peer.close(),
            [b'+', seconds @ ..] => self.advance(Duration::from_secs(number(seconds) as u64)),
            _ => peer.receive(action),
        }
    }

    fn advance(&mut self, time: Duration) {
        for peer in [&mut self.client, &mut self.server] {
            peer.expire(peer.now + time);
        }
    }

    /// Delivers messages until neither side sends more, which must happen.
    fn deliver_all(&mut self) {
        for _ in 0..MAX_LINES {
            self.client.take_events();
            self.server.take_events();
            let sent = [self.client.take_sent(), self.server.take_sent()];
            if sent.iter().all(VecDeque::is_empty) {
                return;
            }
            let [by_client, by_server] = sent;
            by_client.iter().for_each(|bytes| self.server.receive(bytes));
            by_server.iter().for_each(|bytes| self.client.receive(bytes));
        }
        panic!("the sides do not stop sending");
    }
}

/// One side, with the state that its session should have.
struct FuzzPeer {
    session: Session<u32>,
    now: Instant,
    /// Its requests without a response, by owner.
    requests: BTreeMap<u32, SentRequest>,
    last_owner: u32,
    /// The requests of the peer without a response.
    calls: Vec<Call>,
    /// The requests of the peer that are finished or cancelled.
    finished: Vec<Ticket>,
    /// Its responses that are not sent yet, because they wait for the rest of a batch.
    unsent: Vec<RequestId>,
    /// Number of its requests that it has cancelled.
    cancelled: u64,
    sent: VecDeque<Vec<u8>>,
    drops_next: bool,
}

struct SentRequest {
    id: RequestId,
    deadline: Option<Instant>,
}

impl FuzzPeer {
    fn new(session: Session<u32>, now: Instant) -> Self {
        Self {
            session,
            now,
            requests: BTreeMap::new(),
            last_owner: 0,
            calls: Vec::new(),
            finished: Vec::new(),
            unsent: Vec::new(),
            cancelled: 0,
            sent: VecDeque::new(),
            drops_next: false,
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.session.receive(Incoming::decode(bytes.to_vec(), 8), self.now);
    }

    fn expire(&mut self, now: Instant) {
        self.now = now;
        self.session.expire(now);
        assert!(self.session.next_deadline().is_none_or(|deadline| deadline > now));
    }

    fn send_request(&mut self, flags: &[u8]) {
        let timeout = flags.iter().find(|byte| byte.is_ascii_digit());
        let timeout = timeout.map(|digit| Duration::from_secs(u64::from(digit - b'0')));
        let mut options = match timeout {
            Some(timeout) => RequestOptions::default().timeout(timeout),
            None => RequestOptions::default().without_timeout(),
        };
        options.progress = flags.contains(&b'p');
        let method = if flags.contains(&b'!') { "ping" } else { "tools/call" };
        self.last_owner += 1;
        if let Ok(request) = self.session.request(method, None, options, self.last_owner, self.now) {
            let sent = SentRequest { id: request.id.clone(), deadline: timeout.map(|timeout| self.now + timeout) };
            self.requests.insert(self.last_owner, sent);
            self.send(&Message::Request(request));
        }
    }

    fn cancel(&mut self, index: usize) {
        let Some((owner, id)) = self.requests.iter().nth(index).map(|(owner, sent)| (*owner, sent.id.clone())) else {
            return;
        };
        assert_eq!(self.session.owner(&id), Some(&owner));
        assert_eq!(self.session.cancel(&id, Some("enough")), Some(owner));
        assert_eq!(self.session.cancel(&id, None), None);
        self.requests.remove(&owner);
        self.cancelled += 1;
    }

    fn respond(&mut self, index: usize) {
        if let Some(call) = self.take_call(index) {
            self.session.answer(&call.ticket, Ok(result_for(&call)));
            self.finish(call.ticket);
        }
    }

    /// Refuses a request, as a driver does that writes responses directly into its buffer.
    fn refuse(&mut self, index: usize) {
        if let Some(call) = self.take_call(index) {
            let action = self.session.complete(&call.ticket, false);
            let response = Response::new(call.request.id, Err(ErrorObject::internal("no")));
            match action {
                ResponseAction::Send => self.send(&Message::Response(response)),
                ResponseAction::Collect(batch) => self.session.collect(batch, response),
                other => panic!("the request has no response, but the action is {other:?}"),
            }
            self.finish(call.ticket);
        }
    }

    fn take_call(&mut self, index: usize) -> Option<Call> {
        let call = (index < self.calls.len()).then(|| self.calls.remove(index))?;
        self.unsent.push(call.request.id.clone());
        Some(call)
    }

    /// Finishes a request. Another response to it is not sent, even if a new request has its id.
    fn finish(&mut self, ticket: Ticket) {
        self.finished.push(ticket);
        self.take_events();
        let sent = self.sent.len();
        for ticket in &self.finished {
            self.session.answer(ticket, Ok(RawJson::NULL));
        }
        self.take_events();
        assert_eq!(self.sent.len(), sent);
    }

    fn notify(&mut self) {
        if let Ok(notification) = self.session.notify("notifications/mine", None) {
            self.send(&Message::Notification(notification));
        }
    }

    /// Reports progress. The token of our requests is their id.
    fn report_progress(&mut self, index: usize) {
        let Some(call) = self.calls.get(index) else { return };
        let params = ProgressParams::new(call.request.id.clone(), 1);
        let notification = Notification::new::<ProgressNotification>(&params).expect("a token and a number are JSON");
        self.send(&Message::Notification(notification));
    }

    fn close(&mut self) {
        self.take_events();
        self.session.close();
        self.calls.clear();
        self.unsent.clear();
        let sent = self.sent.len();
        self.take_events();
        assert_eq!(self.sent.len(), sent, "a closed session sends messages");
        assert_eq!((self.session.pending(), self.requests.len()), (0, 0));
    }

    fn take_events(&mut self) {
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Send(message) => self.send(&message),
                Event::SendBatch(responses) => self.send_batch(responses),
                Event::Request(call) => self.calls.push(*call),
                Event::Cancelled { ticket, .. } => {
                    self.calls.retain(|call| call.ticket != ticket);
                    self.finished.push(ticket);
                }
                Event::Answered { owner, id, outcome } => self.finish_request(owner, &id, outcome.err()),
                // A session that cannot be opened is closed, and its calls are dropped.
                Event::OpenFailed(_) => {
                    self.calls.clear();
                    self.unsent.clear();
                }
                Event::Progress { id, .. } => assert!(self.session.owner(&id).is_some()),
                _ => {}
            }
        }
        self.assert_tables();
    }

    fn finish_request(&mut self, owner: u32, id: &RequestId, error: Option<RequestError>) {
        let request = self.requests.remove(&owner).expect("an owner is returned once");
        assert_eq!(request.id, *id);
        if error.is_some_and(|error| error.is_timeout()) {
            assert!(request.deadline.is_some_and(|deadline| deadline <= self.now));
        }
    }

    /// Asserts that the session has the expected requests. In addition, it may have requests of its own handshake.
    fn assert_tables(&self) {
        assert_eq!(self.session.running(), self.calls.len());
        assert_eq!(self.session.pending_ids().count(), self.session.pending());
        // Two probes and `initialize`.
        assert!(self.session.pending().saturating_sub(self.requests.len()) <= 3);
        for (owner, request) in &self.requests {
            assert_eq!(self.session.owner(&request.id), Some(owner));
        }
    }

    /// Sends a message. Decoding it gives the same message.
    fn send(&mut self, message: &Message) {
        let mut out = Vec::new();
        self.session.encode(message, &mut out);
        assert_eq!(Message::decode(out.clone()).as_ref(), Ok(message));
        self.transmit(out, std::slice::from_ref(message));
    }

    fn send_batch(&mut self, responses: Vec<Response>) {
        assert!(!responses.is_empty());
        let messages: Vec<Message> = responses.into_iter().map(Message::Response).collect();
        let mut out = Vec::new();
        encode::batch(&mut out, &messages);
        self.transmit(out, &messages);
    }

    fn transmit(&mut self, bytes: Vec<u8>, messages: &[Message]) {
        for message in messages {
            if let Message::Response(Response { id: Some(id), .. }) = message
                && let Some(index) = self.unsent.iter().position(|unsent| unsent == id)
            {
                self.unsent.swap_remove(index);
            }
        }
        if !std::mem::take(&mut self.drops_next) {
            self.sent.push_back(bytes);
        }
    }

    fn take_sent(&mut self) -> VecDeque<Vec<u8>> {
        std::mem::take(&mut self.sent)
    }

    /// Responds to all requests, lets those with a deadline time out, and cancels the rest. Then no state is left.
    fn assert_can_be_emptied(&mut self) {
        while !self.calls.is_empty() {
            self.respond(0);
        }
        while let Some(deadline) = self.session.next_deadline() {
            self.expire(deadline.max(self.now));
            self.take_events();
        }
        while !self.requests.is_empty() {
            self.cancel(0);
        }
        self.take_events();
        assert_eq!((self.session.pending(), self.session.running()), (0, 0));
        assert_eq!(self.unsent, []);
        self.assert_all_counted();
        self.close();
        assert_eq!(self.session.status(), ConnectionStatus::Closed);
    }

    /// Asserts that every sent request is counted once.
    fn assert_all_counted(&self) {
        let stats = self.session.stats();
        let ended = stats.completed + stats.failed + stats.timed_out + self.cancelled;
        assert_eq!(stats.requests_sent, ended, "{stats:?}");
    }
}

fn client(choice: usize) -> Session<u32> {
    let choices = [VersionChoice::Auto, VersionChoice::Stateless, VersionChoice::Handshake];
    let only = ProtocolVersion::ALL.map(VersionChoice::Only);
    let choices = [choices.as_slice(), &only].concat();
    let options = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
    Session::client(options.choice(choices[choice % choices.len()]))
}

fn server(choice: usize) -> Session<u32> {
    let versions = ProtocolVersion::ALL;
    match choice % (versions.len() + 1) {
        0 => Session::server(&versions),
        only => Session::server(&versions[only - 1..only]),
    }
}

/// Returns a valid result for requests of the handshake, so that inputs get beyond it.
fn result_for(call: &Call) -> RawJson {
    let version = call.dialect.version().as_str();
    let capabilities = ServerCapabilities::new();
    let result = match &*call.request.method {
        "initialize" => {
            let server = Implementation::new("server", "1");
            RawJson::encode(&InitializeResult::new(version, capabilities, server))
        }
        "server/discover" => RawJson::encode(&DiscoverResult::new(vec![version.to_owned()], capabilities)),
        _ => Ok(RawJson::from(turms_proto::Object::new())),
    };
    result.expect("types of the protocol are JSON")
}

/// Parses the number of up to three digits that the text begins with; 0 if there is none.
fn number(text: &[u8]) -> usize {
    let digits = text.iter().take(3).take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

#[expect(clippy::disallowed_methods, reason = "there is no other way to create an instant")]
fn start_time() -> Instant {
    Instant::now()
}
