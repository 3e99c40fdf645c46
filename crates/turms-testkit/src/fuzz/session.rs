//! A client and a server that are connected, and everything that can happen to them.
//!
//! The first line chooses the revisions: one byte for the client, one for the server. Each further line is one thing that
//! happens: a side (`c` or `s`), what it does, and how.
//!
//! | Line | |
//! |---|---|
//! | `c?3p` | asks, with a timeout of 3 s (none without the digit) and wanting progress (`p`) |
//! | `cx0` | gives up its request 0 |
//! | `s=0` | answers request 0 of the peer's with a result |
//! | `s#0` | refuses it |
//! | `s!` | tells something |
//! | `s%0` | reports progress on it |
//! | `c+5` | lets 5 s pass, for both |
//! | `c-` | loses what it says next |
//! | `c.` | closes |
//! | `s{…` and anything else | receives this line, from nowhere |

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use turms_proto::jsonrpc::encode;
use turms_proto::session::{
    Call, ClientOptions, ConnectionStatus, Event, RequestError, RequestOptions, ResponseAction, Session, Ticket,
    VersionChoice,
};
use turms_proto::types::{
    ClientCapabilities, DiscoverResult, Implementation, InitializeResult, Progress, ProgressParams, ServerCapabilities,
};
use turms_proto::{ErrorObject, Incoming, Message, Notification, ProtocolVersion, RawJson, RequestId, Response};

/// Longer inputs say nothing new, only slower.
const MOST_LINES: usize = 200;

/// Nobody panics; every request comes back to its owner once; and nothing is left when all is answered, given up or late.
pub fn session(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut pair = Pair::new(lines.next().unwrap_or_default());
    for line in lines.take(MOST_LINES) {
        pair.perform(line);
        pair.settle();
    }
    pair.client.assert_can_be_emptied();
    pair.server.assert_can_be_emptied();
}

struct Pair {
    client: Peer,
    server: Peer,
}

impl Pair {
    fn new(choice: &[u8]) -> Self {
        let byte = |at: usize| usize::from(choice.get(at).copied().unwrap_or(b'0'));
        let now = start_of_time();
        let mut pair = Self { client: Peer::new(client(byte(0)), now), server: Peer::new(server(byte(1)), now) };
        pair.server.session.open(now);
        pair.client.session.open(now);
        pair
    }

    fn perform(&mut self, line: &[u8]) {
        let (peer, action) = match line.split_first() {
            Some((b's', action)) => (&mut self.server, action),
            Some((b'c', action)) => (&mut self.client, action),
            _ => return self.server.hear(line),
        };
        match action {
            [b'?', how @ ..] => peer.ask(how),
            [b'x', which @ ..] => peer.give_up(number(which)),
            [b'=', which @ ..] => peer.answer(number(which)),
            [b'#', which @ ..] => peer.refuse(number(which)),
            [b'%', which @ ..] => peer.report_progress(number(which)),
            [b'!', ..] => peer.tell(),
            [b'-', ..] => peer.loses_next = true,
            [b'.', ..] => peer.close(),
            [b'+', seconds @ ..] => self.pass(Duration::from_secs(number(seconds) as u64)),
            _ => peer.hear(action),
        }
    }

    fn pass(&mut self, time: Duration) {
        for peer in [&mut self.client, &mut self.server] {
            peer.expire(peer.now + time);
        }
    }

    /// Carries messages to and fro until nobody has anything to say, which must come to pass.
    fn settle(&mut self) {
        for _ in 0..MOST_LINES {
            self.client.take_events();
            self.server.take_events();
            let said = [self.client.take_said(), self.server.take_said()];
            if said.iter().all(VecDeque::is_empty) {
                return;
            }
            let [by_client, by_server] = said;
            by_client.iter().for_each(|bytes| self.server.hear(bytes));
            by_server.iter().for_each(|bytes| self.client.hear(bytes));
        }
        panic!("the two do not stop talking");
    }
}

/// One side, and what it should be holding.
struct Peer {
    session: Session<u32>,
    now: Instant,
    /// The requests it has made, by owner.
    asked: BTreeMap<u32, Asked>,
    last_owner: u32,
    /// The requests it is to answer.
    calls: Vec<Call>,
    /// Those that it need not answer any more.
    finished: Vec<Ticket>,
    /// The answers it has given that have not been said yet, because they wait for the rest of a batch.
    owed: Vec<RequestId>,
    /// How many of its requests it has given up.
    given_up: u64,
    said: VecDeque<Vec<u8>>,
    loses_next: bool,
}

struct Asked {
    id: RequestId,
    /// Before this it cannot be late.
    patient_until: Option<Instant>,
}

impl Peer {
    fn new(session: Session<u32>, now: Instant) -> Self {
        Self {
            session,
            now,
            asked: BTreeMap::new(),
            last_owner: 0,
            calls: Vec::new(),
            finished: Vec::new(),
            owed: Vec::new(),
            given_up: 0,
            said: VecDeque::new(),
            loses_next: false,
        }
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.session.receive(Incoming::decode(bytes.to_vec(), 8), self.now);
    }

    fn expire(&mut self, now: Instant) {
        self.now = now;
        self.session.expire(now);
        assert!(self.session.next_deadline().is_none_or(|deadline| deadline > now));
    }

    fn ask(&mut self, how: &[u8]) {
        let timeout = how.iter().find(|byte| byte.is_ascii_digit());
        let timeout = timeout.map(|digit| Duration::from_secs(u64::from(digit - b'0')));
        let mut options = match timeout {
            Some(timeout) => RequestOptions::default().timeout(timeout),
            None => RequestOptions::default().for_ever(),
        };
        options.progress = how.contains(&b'p');
        let method = if how.contains(&b'!') { "ping" } else { "tools/call" };
        self.last_owner += 1;
        if let Ok(request) = self.session.request(method, None, options, self.last_owner, self.now) {
            let asked = Asked { id: request.id.clone(), patient_until: timeout.map(|timeout| self.now + timeout) };
            self.asked.insert(self.last_owner, asked);
            self.say(&Message::Request(request));
        }
    }

    fn give_up(&mut self, which: usize) {
        let Some((owner, id)) = self.asked.iter().nth(which).map(|(owner, asked)| (*owner, asked.id.clone())) else {
            return;
        };
        assert_eq!(self.session.owner(&id), Some(&owner));
        assert_eq!(self.session.cancel(&id, Some("enough")), Some(owner));
        assert_eq!(self.session.cancel(&id, None), None);
        self.asked.remove(&owner);
        self.given_up += 1;
    }

    fn answer(&mut self, which: usize) {
        if let Some(call) = self.take_call(which) {
            self.session.answer(&call.ticket, Ok(result_for(&call)));
            self.finish(call.ticket);
        }
    }

    /// As a driver does that writes answers straight into its buffer.
    fn refuse(&mut self, which: usize) {
        if let Some(call) = self.take_call(which) {
            let action = self.session.complete(&call.ticket, false);
            let response = Response::new(call.request.id, Err(ErrorObject::internal("no")));
            match action {
                ResponseAction::Send => self.say(&Message::Response(response)),
                ResponseAction::Collect(batch) => self.session.collect(batch, response),
                other => panic!("the request is open, but {other:?}"),
            }
            self.finish(call.ticket);
        }
    }

    fn take_call(&mut self, which: usize) -> Option<Call> {
        let call = (which < self.calls.len()).then(|| self.calls.remove(which))?;
        self.owed.push(call.request.id.clone());
        Some(call)
    }

    /// Another answer to a request that is over goes nowhere, even if a new one has its id.
    fn finish(&mut self, ticket: Ticket) {
        self.finished.push(ticket);
        self.take_events();
        let said = self.said.len();
        for ticket in &self.finished {
            self.session.answer(ticket, Ok(RawJson::NULL));
        }
        self.take_events();
        assert_eq!(self.said.len(), said);
    }

    fn tell(&mut self) {
        if let Ok(notification) = self.session.notify("notifications/mine", None) {
            self.say(&Message::Notification(notification));
        }
    }

    /// The token of our own requests is their id, so this is what a peer of our kind would say.
    fn report_progress(&mut self, which: usize) {
        let Some(call) = self.calls.get(which) else { return };
        let params = ProgressParams::new(call.request.id.clone(), 1);
        let notification = Notification::new::<Progress>(&params).expect("a token and a number are JSON");
        self.say(&Message::Notification(notification));
    }

    fn close(&mut self) {
        self.take_events();
        self.session.close();
        self.calls.clear();
        self.owed.clear();
        let said = self.said.len();
        self.take_events();
        assert_eq!(self.said.len(), said, "what is closed says nothing");
        assert_eq!((self.session.pending(), self.asked.len()), (0, 0));
    }

    fn take_events(&mut self) {
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Send(message) => self.say(&message),
                Event::SendBatch(responses) => self.say_batch(responses),
                Event::Request(call) => self.calls.push(*call),
                Event::Cancelled { ticket, .. } => {
                    self.calls.retain(|call| call.ticket != ticket);
                    self.finished.push(ticket);
                }
                Event::Answered { owner, id, outcome } => self.take_back(owner, &id, outcome.err()),
                // What could not be opened is closed, and forgets what it was asked.
                Event::OpenFailed(_) => {
                    self.calls.clear();
                    self.owed.clear();
                }
                Event::Progress { id, .. } => assert!(self.session.owner(&id).is_some()),
                _ => {}
            }
        }
        self.assert_tables();
    }

    fn take_back(&mut self, owner: u32, id: &RequestId, error: Option<RequestError>) {
        let asked = self.asked.remove(&owner).expect("an owner comes back once");
        assert_eq!(asked.id, *id);
        if error.is_some_and(|error| error.is_timeout()) {
            assert!(asked.patient_until.is_some_and(|time| time <= self.now));
        }
    }

    /// The session holds what it should. Beside the caller's requests there may be some of its own, which open the connection.
    fn assert_tables(&self) {
        assert_eq!(self.session.running(), self.calls.len());
        assert_eq!(self.session.pending_ids().count(), self.session.pending());
        // Two probes and the handshake.
        assert!(self.session.pending().saturating_sub(self.asked.len()) <= 3);
        for (owner, asked) in &self.asked {
            assert_eq!(self.session.owner(&asked.id), Some(owner));
        }
    }

    /// What is said can be read, and reads the same.
    fn say(&mut self, message: &Message) {
        let mut out = Vec::new();
        self.session.encode(message, &mut out);
        assert_eq!(Message::decode(out.clone()).as_ref(), Ok(message));
        self.transmit(out, std::slice::from_ref(message));
    }

    fn say_batch(&mut self, responses: Vec<Response>) {
        assert!(!responses.is_empty());
        let messages: Vec<Message> = responses.into_iter().map(Message::Response).collect();
        let mut out = Vec::new();
        encode::batch(&mut out, &messages);
        self.transmit(out, &messages);
    }

    fn transmit(&mut self, bytes: Vec<u8>, messages: &[Message]) {
        for message in messages {
            if let Message::Response(Response { id: Some(id), .. }) = message
                && let Some(at) = self.owed.iter().position(|owed| owed == id)
            {
                self.owed.swap_remove(at);
            }
        }
        if !std::mem::take(&mut self.loses_next) {
            self.said.push_back(bytes);
        }
    }

    fn take_said(&mut self) -> VecDeque<Vec<u8>> {
        std::mem::take(&mut self.said)
    }

    /// Answers everything, waits for everything that has a deadline, gives up the rest: then nothing is left.
    fn assert_can_be_emptied(&mut self) {
        while !self.calls.is_empty() {
            self.answer(0);
        }
        while let Some(deadline) = self.session.next_deadline() {
            self.expire(deadline.max(self.now));
            self.take_events();
        }
        while !self.asked.is_empty() {
            self.give_up(0);
        }
        self.take_events();
        assert_eq!((self.session.pending(), self.session.running()), (0, 0));
        assert_eq!(self.owed, []);
        self.assert_all_counted();
        self.close();
        assert_eq!(self.session.status(), ConnectionStatus::Closed);
    }

    /// Every request that was sent has ended in one way.
    fn assert_all_counted(&self) {
        let stats = self.session.stats();
        let ended = stats.completed + stats.failed + stats.timed_out + self.given_up;
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

/// What opens a connection is answered well, so that more than the opening gets its turn.
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

/// The number that the text begins with; 0 if there is none, and never a large one.
fn number(text: &[u8]) -> usize {
    let digits = text.iter().take(3).take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

#[expect(clippy::disallowed_methods, reason = "there is no other way to a first instant")]
fn start_of_time() -> Instant {
    Instant::now()
}
