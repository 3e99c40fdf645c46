use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::revision::ProtocolVersion::*;
use crate::types::{ClientCapabilities, DiscoverResult, Implementation, InitializeResult, ServerCapabilities};

const SECOND: Duration = Duration::from_secs(1);

/// A client and a server connected in memory, with a manual clock.
struct Pair {
    client: Session<&'static str>,
    server: Session<&'static str>,
    now: Instant,
    server_versions: Vec<ProtocolVersion>,
    /// Dialects that the client negotiated, or errors.
    opened: Vec<Result<Dialect, OpenError>>,
    /// Requests that wait for a response of the server.
    calls: Vec<Call>,
    cancelled: Vec<RequestId>,
    /// Outcomes of requests, on either side.
    answers: Vec<(&'static str, Result<RawJson, RequestError>)>,
    progress: Vec<f64>,
    /// Number of notifications that the client received.
    notifications: usize,
    client_calls: Vec<Call>,
    /// `true` if the server receives no messages of the client.
    deaf_server: bool,
}

impl Pair {
    fn new(options: ClientOptions, server_versions: &[ProtocolVersion]) -> Self {
        Self {
            client: Session::client(options),
            server: Session::server(server_versions),
            now: start_of_time(),
            server_versions: server_versions.to_vec(),
            opened: Vec::new(),
            calls: Vec::new(),
            cancelled: Vec::new(),
            answers: Vec::new(),
            progress: Vec::new(),
            notifications: 0,
            client_calls: Vec::new(),
            deaf_server: false,
        }
    }

    /// Creates a pair that is open in the given revision.
    fn ready(version: ProtocolVersion) -> Self {
        let mut pair = Self::new(options().choice(VersionChoice::Only(version)), &ProtocolVersion::ALL);
        pair.open();
        assert_eq!(pair.client.dialect().map(Dialect::version), Some(version));
        assert_eq!((pair.client.status(), pair.server.status()), (ConnectionStatus::Ready, ConnectionStatus::Ready));
        pair
    }

    fn open(&mut self) {
        self.server.open(self.now);
        self.client.open(self.now);
        self.settle();
    }

    /// Delivers messages in both directions until there are none.
    fn settle(&mut self) {
        loop {
            let from_client: Vec<_> = std::iter::from_fn(|| self.client.next_event()).collect();
            let from_server: Vec<_> = std::iter::from_fn(|| self.server.next_event()).collect();
            if from_client.is_empty() && from_server.is_empty() {
                return;
            }
            from_client.into_iter().for_each(|event| self.on_client(event));
            from_server.into_iter().for_each(|event| self.on_server(event));
        }
    }

    fn on_client(&mut self, event: Event<&'static str>) {
        match event {
            Event::Send(message) => self.carry(&message),
            Event::Opened(opened) => self.opened.push(Ok(opened.dialect)),
            Event::OpenFailed(error) => self.opened.push(Err(error)),
            Event::Answered { owner, outcome, .. } => self.answers.push((owner, outcome)),
            Event::Progress { params, .. } => self.progress.push(params.progress.as_f64()),
            Event::Request(call) => self.client_calls.push(*call),
            Event::Notification(_) => self.notifications += 1,
            other => panic!("{other:?}"),
        }
    }

    fn on_server(&mut self, event: Event<&'static str>) {
        match event {
            Event::Send(message) => {
                let mut out = Vec::new();
                self.server.encode(&message, &mut out);
                self.client.receive(Incoming::decode(out, 10), self.now);
            }
            Event::SendBatch(responses) => {
                let mut out = Vec::new();
                let messages: Vec<_> = responses.into_iter().map(Message::Response).collect();
                encode::batch(&mut out, &messages);
                self.client.receive(Incoming::decode(out, 10), self.now);
            }
            Event::Request(call) => self.serve(*call),
            Event::Cancelled { ticket, .. } => self.cancelled.push(ticket.id().clone()),
            Event::Answered { owner, outcome, .. } => self.answers.push((owner, outcome)),
            Event::Notification(_) => {}
            other => panic!("{other:?}"),
        }
    }

    /// Responds to discovery and the handshake; other requests wait for the test.
    fn serve(&mut self, call: Call) {
        let server = Implementation::new("server", "1");
        let capabilities = ServerCapabilities::new();
        let result = match &*call.request.method {
            "initialize" => {
                RawJson::encode(&InitializeResult::new(call.dialect.version().as_str(), capabilities, server))
            }
            "server/discover" => {
                let versions: Vec<_> = self.server_versions.iter().map(ToString::to_string).collect();
                RawJson::encode(&DiscoverResult::new(versions, capabilities))
            }
            _ => return self.calls.push(call),
        };
        self.server.answer(&call.ticket, Ok(result.unwrap()));
    }

    fn carry(&mut self, message: &Message) {
        let mut out = Vec::new();
        self.client.encode(message, &mut out);
        if !self.deaf_server {
            self.server.receive(Incoming::decode(out, 10), self.now);
        }
    }

    fn call(&mut self, owner: &'static str, options: RequestOptions) -> RequestId {
        let version = self.client.dialect().unwrap().version();
        let params = version.has(Ability::Stateless).then(|| RawJson::parse(MODERN_PARAMS).unwrap());
        let request = self.client.request("tools/call", params, options, owner, self.now).unwrap();
        let id = request.id.clone();
        self.carry(&Message::Request(request));
        self.settle();
        id
    }

    fn answer_all(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            self.server.answer(&call.ticket, Ok(RawJson::NULL));
        }
        self.settle();
    }

    /// Returns the responses of the server to a line.
    fn say(&mut self, line: &str) -> Vec<String> {
        self.server.receive(Incoming::decode(line.to_owned(), 10), self.now);
        let mut replies = Vec::new();
        while let Some(event) = self.server.next_event() {
            match event {
                Event::Send(message) => {
                    let mut out = Vec::new();
                    self.server.encode(&message, &mut out);
                    replies.push(String::from_utf8(out).unwrap());
                }
                Event::SendBatch(responses) => {
                    let mut out = Vec::new();
                    let messages: Vec<_> = responses.into_iter().map(Message::Response).collect();
                    encode::batch(&mut out, &messages);
                    replies.push(String::from_utf8(out).unwrap());
                }
                Event::Request(call) => self.serve(*call),
                Event::Cancelled { ticket, .. } => self.cancelled.push(ticket.id().clone()),
                _ => {}
            }
        }
        replies
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.client.expire(self.now);
        self.server.expire(self.now);
        self.settle();
    }
}

const MODERN_PARAMS: &str = r#"{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;

#[expect(clippy::disallowed_methods, reason = "a moment to count from; no test depends on which")]
fn start_of_time() -> Instant {
    Instant::now()
}

fn options() -> ClientOptions {
    ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new())
}

fn code_of(line: &str) -> i64 {
    let Message::Response(response) = Message::decode(line.to_owned()).unwrap() else { panic!("{line}") };
    response.outcome.unwrap_err().code.0
}

#[test]
fn two_peers_with_all_revisions_use_the_newest_without_a_handshake() {
    let mut pair = Pair::new(options(), &ProtocolVersion::ALL);
    assert_eq!(pair.client.status(), ConnectionStatus::Disconnected);
    pair.open();
    assert_eq!(pair.opened, [Ok(Dialect::Stateless(V2026_07_28))]);
    pair.call("a", RequestOptions::default());
    pair.answer_all();
    assert_eq!(pair.answers, [("a", Ok(RawJson::NULL))]);
}

#[test]
fn an_older_server_gets_a_handshake_in_its_newest_revision() {
    for newest in ProtocolVersion::with_handshake() {
        let mut pair = Pair::new(options(), &[newest]);
        pair.open();
        assert_eq!(pair.opened, [Ok(Dialect::Handshake(newest))]);
        assert_eq!(pair.server.status(), ConnectionStatus::Ready);
    }
}

#[test]
fn a_silent_probe_means_an_older_server_and_a_late_response_is_ignored() {
    let mut pair = Pair::new(options(), &[V2025_06_18]);
    pair.deaf_server = true;
    pair.open();
    assert_eq!(pair.client.status(), ConnectionStatus::Initializing);
    pair.deaf_server = false;
    pair.pass(3 * SECOND);
    assert_eq!(pair.opened, [Ok(Dialect::Handshake(V2025_06_18))]);
    let late = Incoming::decode(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":""}}"#, 1);
    pair.client.receive(late, pair.now);
    assert_eq!(pair.client.stats().ignored, 1);
    assert!(pair.client.next_event().is_none());
}

#[test]
fn a_silent_server_is_a_timeout() {
    let mut pair = Pair::new(options(), &[V2025_06_18]);
    pair.deaf_server = true;
    pair.open();
    pair.pass(3 * SECOND);
    assert_eq!(pair.opened, []);
    pair.pass(30 * SECOND);
    assert_eq!(pair.opened, [Err(OpenError::TimedOut)]);
    assert_eq!((pair.client.status(), pair.client.pending()), (ConnectionStatus::Closed, 0));
}

#[test]
fn a_refused_but_supported_version_is_probed_a_limited_number_of_times() {
    let mut client = Session::<()>::client(options());
    let now = start_of_time();
    client.open(now);
    for round in 1..=3 {
        let Some(Event::Send(Message::Request(probe))) = client.next_event() else { panic!("round {round}") };
        assert_eq!(&*probe.method, "server/discover");
        let refusal = format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32022,"message":"no","data":{{"supported":["2026-07-28"],"requested":"2026-07-28"}}}}}}"#,
            probe.id
        );
        client.receive(Incoming::decode(refusal, 1), now);
    }
    assert!(matches!(client.next_event(), Some(Event::OpenFailed(OpenError::Refused(_)))));
}

#[test]
fn a_version_choice_excludes_other_versions() {
    let mut pair = Pair::new(options().choice(VersionChoice::Stateless), &[V2025_11_25]);
    pair.open();
    let Err(error) = &pair.opened[0] else { panic!() };
    assert_eq!(error.to_string(), "the server supports only older revisions, and this client is set to 2026-07-28");

    let mut pair = Pair::new(options().choice(VersionChoice::Handshake), &ProtocolVersion::ALL);
    pair.open();
    assert_eq!(pair.opened, [Ok(Dialect::Handshake(V2025_11_25))]);

    let mut pair = Pair::new(options().choice(VersionChoice::Only(V2025_03_26)), &[V2025_11_25]);
    pair.open();
    let Err(error) = &pair.opened[0] else { panic!() };
    assert_eq!(error.to_string(), "no common protocol version: the server supports 2025-11-25, this client 2025-03-26");

    let mut pair = Pair::new(options().choice(VersionChoice::Handshake), &[V2026_07_28]);
    pair.open();
    let Err(error) = &pair.opened[0] else { panic!() };
    assert!(error.to_string().starts_with("no common protocol version: the server supports 2026-07-28"), "{error}");
}

#[test]
fn a_refused_handshake_of_a_known_version_is_followed_by_a_probe() {
    let mut pair = Pair::new(options().known(Dialect::Handshake(V2025_11_25)), &[V2026_07_28]);
    pair.open();
    assert_eq!(pair.opened, [Ok(Dialect::Stateless(V2026_07_28))]);
}

#[test]
fn notifications_of_a_listen_request_have_its_id() {
    let mut client = Session::client(options().known(Dialect::Stateless(V2026_07_28)));
    let now = start_of_time();
    client.open(now);
    assert!(matches!(client.next_event(), Some(Event::Opened(_))));
    let listen = client.request("subscriptions/listen", None, RequestOptions::default().without_timeout(), "mine", now);
    let id = listen.unwrap().id;
    let mut tell = |tag: &str| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{tag}}}}}}}"#
        );
        client.receive(Incoming::decode(line, 1), now);
        client.next_event().unwrap()
    };
    assert!(matches!(tell(&id.to_string()), Event::SubscriptionNotification { id: told, .. } if told == id));
    assert!(matches!(tell("77"), Event::Notification(_)));
}

#[test]
fn requests_are_encoded_as_a_batch_only_in_revisions_with_batches() {
    let now = start_of_time();
    for (version, together) in [(V2025_03_26, true), (V2025_11_25, false)] {
        let mut pair = Pair::new(options().choice(VersionChoice::Only(version)), &[version]);
        pair.open();
        let requests = ["ping", "ping"]
            .map(|method| pair.client.request(method, None, RequestOptions::default(), "", now).unwrap());
        let mut out = Vec::new();
        assert_eq!(pair.client.encode_requests(&requests, &mut out), together, "{version}");
        assert_eq!(out.starts_with(b"[{") && out.ends_with(b"}]"), together);
    }
}

#[test]
fn a_known_dialect_is_not_negotiated() {
    let mut pair = Pair::new(options().known(Dialect::Stateless(V2026_07_28)), &ProtocolVersion::ALL);
    pair.open();
    assert_eq!(pair.opened, [Ok(Dialect::Stateless(V2026_07_28))]);
    assert_eq!(pair.client.stats().requests_sent, 0);

    let mut pair = Pair::new(options().known(Dialect::Handshake(V2025_06_18)), &ProtocolVersion::ALL);
    pair.open();
    assert_eq!(pair.client.stats().requests_sent, 1);
    assert_eq!(pair.opened, [Ok(Dialect::Handshake(V2025_06_18))]);
}

#[test]
fn before_the_handshake_only_ping_is_answered() {
    let mut pair = Pair::new(options(), &ProtocolVersion::ALL);
    assert_eq!(code_of(&pair.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)[0]), -32600);
    assert_eq!(code_of(&pair.say(r#"{"jsonrpc":"2.0","id":2,"method":"server/discover"}"#)[0]), -32602);
    assert!(pair.say(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#).is_empty());
    assert_eq!(&*pair.calls[0].request.method, "ping");
    let session = &mut pair.server;
    let refused = session.request("roots/list", None, RequestOptions::default(), "", pair.now);
    assert_eq!(refused.unwrap_err(), SessionError::NotReady);
}

#[test]
fn both_dialects_are_served_on_one_connection() {
    let mut pair = Pair::ready(V2025_06_18);
    let modern = format!(r#"{{"jsonrpc":"2.0","id":"m","method":"tools/call","params":{MODERN_PARAMS}}}"#);
    assert!(pair.say(&modern).is_empty());
    assert!(pair.say(r#"{"jsonrpc":"2.0","id":"o","method":"tools/call"}"#).is_empty());
    let dialects: Vec<_> = pair.calls.iter().map(|call| call.dialect).collect();
    assert_eq!(dialects, [Dialect::Stateless(V2026_07_28), Dialect::Handshake(V2025_06_18)]);
}

#[test]
fn a_stateless_request_has_all_required_metadata() {
    let mut pair = Pair::new(options(), &ProtocolVersion::ALL);
    let say = |pair: &mut Pair, method: &str, meta: &str| {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{{meta}}}}}}}"#);
        pair.say(&line).first().cloned().unwrap_or_default()
    };
    let version = |v: &str| format!(r#""io.modelcontextprotocol/protocolVersion":{v}"#);
    let full = |v: &str| format!(r#"{},"io.modelcontextprotocol/clientCapabilities":{{}}"#, version(v));
    assert_eq!(code_of(&say(&mut pair, "tools/list", &version("7"))), -32602);
    let missing = say(&mut pair, "tools/list", &version("\"2026-07-28\""));
    assert!(missing.contains("clientCapabilities") && code_of(&missing) == -32602, "{missing}");
    let unknown = say(&mut pair, "tools/list", &full("\"v999.0.0\""));
    assert!(unknown.contains(r#""data":{"supported":["2026-07-28"],"requested":"v999.0.0"}"#), "{unknown}");
    assert_eq!(code_of(&unknown), -32022);
    assert_eq!(code_of(&say(&mut pair, "tools/list", &full("\"2025-06-18\""))), -32022);
    for removed in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        assert_eq!(code_of(&say(&mut pair, removed, &full("\"2026-07-28\""))), -32601, "{removed}");
    }
    assert_eq!(say(&mut pair, "tools/list", &full("\"2026-07-28\"")), "");
}

#[test]
fn only_2025_03_26_takes_batches_and_answers_them_in_one() {
    let batch = r#"[{"jsonrpc":"2.0","id":"a","method":"tools/call"},{"jsonrpc":"2.0","method":"notifications/x"},7,{"jsonrpc":"2.0","id":"b","method":"tools/call"},{"jsonrpc":"2.0","id":"i","method":"initialize"}]"#;
    let mut pair = Pair::ready(V2025_06_18);
    assert_eq!(
        pair.say(batch),
        [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches exist in revision 2025-03-26 only: send one message at a time"}}"#
        ]
    );
    let mut pair = Pair::ready(V2025_03_26);
    assert!(pair.say(batch).is_empty());
    let calls = std::mem::take(&mut pair.calls);
    pair.server.answer(&calls[1].ticket, Ok(RawJson::NULL));
    assert!(pair.server.next_event().is_none());
    pair.server.answer(&calls[0].ticket, Ok(RawJson::NULL));
    let Some(Event::SendBatch(responses)) = pair.server.next_event() else { panic!() };
    let ids: Vec<_> = responses.iter().map(|response| response.id.clone()).collect();
    assert_eq!(ids, [None, Some("i".into()), Some("b".into()), Some("a".into())]);
}

#[test]
fn cancelling_the_last_request_of_a_batch_completes_it() {
    let mut pair = Pair::ready(V2025_03_26);
    pair.say(r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"},{"jsonrpc":"2.0","id":2,"method":"tools/call"}]"#);
    let calls = std::mem::take(&mut pair.calls);
    pair.server.answer(&calls[0].ticket, Ok(RawJson::NULL));
    let replies = pair.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    assert_eq!(replies, [r#"[{"jsonrpc":"2.0","id":1,"result":null}]"#]);
    pair.server.answer(&calls[1].ticket, Ok(RawJson::NULL));
    assert!(pair.server.next_event().is_none());
    assert_eq!(pair.server.running(), 0);
}

#[test]
fn a_cancelled_request_gets_no_response_and_a_late_one_is_ignored() {
    for version in ProtocolVersion::ALL {
        let mut pair = Pair::ready(version);
        let id = pair.call("a", RequestOptions::default());
        assert_eq!(pair.client.cancel(&id, Some("enough")), Some("a"));
        assert_eq!(pair.client.cancel(&id, None), None);
        pair.settle();
        assert_eq!(pair.cancelled, std::slice::from_ref(&id));
        pair.answer_all();
        let late = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        pair.client.receive(Incoming::decode(late, 1), pair.now);
        assert_eq!((pair.answers.len(), pair.client.pending(), pair.server.running()), (0, 0, 0));
    }
}

#[test]
fn cancelling_something_unknown_or_the_handshake_does_nothing() {
    let mut pair = Pair::ready(V2025_11_25);
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
    ] {
        assert!(pair.say(line).is_empty(), "{line}");
    }
    assert_eq!(pair.server.stats().ignored, 4);

    let mut server = Session::<()>::server(&ProtocolVersion::ALL);
    let now = start_of_time();
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"","version":""}}}"#;
    server.receive(Incoming::decode(initialize, 1), now);
    let Some(Event::Request(call)) = server.next_event() else { panic!() };
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    server.receive(Incoming::decode(cancel, 1), now);
    assert!(server.next_event().is_none());
    assert_eq!(server.complete(&call.ticket, true), ResponseAction::Send);
}

#[test]
fn a_refused_handshake_may_be_tried_again() {
    let mut server = Session::<()>::server(&ProtocolVersion::ALL);
    let now = start_of_time();
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"","version":""}}}"#;
    for _ in 0..2 {
        server.receive(Incoming::decode(initialize, 1), now);
        let Some(Event::Request(call)) = server.next_event() else { panic!() };
        assert_eq!(server.status(), ConnectionStatus::Initializing);
        server.answer(&call.ticket, Err(ErrorObject::internal("not today")));
        assert!(matches!(server.next_event(), Some(Event::Send(_))));
        assert_eq!(server.status(), ConnectionStatus::Connecting);
    }
}

#[test]
fn an_id_in_flight_is_refused() {
    let mut pair = Pair::ready(V2025_06_18);
    let line = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call"}"#;
    assert!(pair.say(line).is_empty());
    assert_eq!(code_of(&pair.say(line)[0]), -32600);
    pair.answer_all();
    assert!(pair.say(line).is_empty());
}

#[test]
fn a_stale_ticket_does_not_answer_a_new_request_of_the_same_id() {
    let mut pair = Pair::ready(V2025_06_18);
    let line = r#"{"jsonrpc":"2.0","id":"x","method":"tools/call"}"#;
    pair.say(line);
    pair.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}"#);
    pair.say(line);
    let stale = pair.calls.remove(0);
    assert_eq!(pair.server.complete(&stale.ticket, true), ResponseAction::Drop);
    assert_eq!(pair.server.complete(&pair.calls[0].ticket, true), ResponseAction::Send);
}

#[test]
fn a_request_that_times_out_is_cancelled_at_the_server() {
    let mut pair = Pair::ready(V2025_06_18);
    let id = pair.call("slow", RequestOptions::default().timeout(5 * SECOND));
    pair.call("patient", RequestOptions::default().without_timeout());
    assert_eq!(pair.client.next_deadline(), Some(pair.now + 5 * SECOND));
    pair.pass(4 * SECOND);
    assert_eq!(pair.answers, []);
    pair.pass(SECOND);
    assert_eq!(pair.answers, [("slow", Err(RequestError::TimedOut(5 * SECOND)))]);
    assert_eq!(pair.cancelled, [id]);
    assert_eq!((pair.client.next_deadline(), pair.client.pending()), (None, 1));
    assert_eq!(pair.client.stats().timed_out, 1);
}

#[test]
fn progress_extends_the_timeout_up_to_a_limit() {
    let mut pair = Pair::ready(V2026_07_28);
    let options = RequestOptions::default().timeout(5 * SECOND).max_timeout(12 * SECOND).with_progress();
    let id = pair.call("a", options);
    let params = pair.calls[0].request.params.as_ref().unwrap();
    let token = params.member("_meta").unwrap().member("progressToken").unwrap();
    assert_eq!(token.as_str(), id.to_string());
    for progress in 1..=3 {
        pair.pass(4 * SECOND);
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":{progress}}}}}"#
        );
        pair.client.receive(Incoming::decode(line, 1), pair.now);
        pair.settle();
    }
    assert_eq!(pair.progress, [1.0, 2.0]);
    assert_eq!(pair.answers, [("a", Err(RequestError::MaxDuration(12 * SECOND)))]);
}

#[test]
fn the_maximum_duration_applies_without_progress() {
    let mut pair = Pair::ready(V2025_06_18);
    pair.call("a", RequestOptions::default().max_timeout(5 * SECOND));
    pair.call("b", RequestOptions::default().timeout(None).max_timeout(6 * SECOND));
    assert_eq!(pair.client.next_deadline(), Some(pair.now + 5 * SECOND));
    pair.pass(6 * SECOND);
    let over = |owner| (owner, Err(RequestError::MaxDuration(6 * SECOND)));
    assert_eq!(pair.answers, [over("a"), over("b")]);
}

#[test]
fn unrequested_progress_is_a_notification() {
    let mut pair = Pair::ready(V2025_06_18);
    let id = pair.call("a", RequestOptions::default());
    for token in [id.to_string(), "\"x\"".into(), "null".into()] {
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        );
        pair.client.receive(Incoming::decode(line, 1), pair.now);
    }
    pair.settle();
    // They may belong to a task, or to a token that the caller chose.
    assert_eq!((pair.progress.len(), pair.notifications), (0, 3));
}

#[test]
fn a_server_sends_requests_only_after_a_handshake() {
    let mut pair = Pair::ready(V2025_06_18);
    let request = pair.server.request("roots/list", None, RequestOptions::default(), "roots", pair.now).unwrap();
    pair.client.receive(Ok(Incoming::One(Message::Request(request))), pair.now);
    pair.settle();
    let call = pair.client_calls.remove(0);
    pair.client.answer(&call.ticket, Ok(RawJson::NULL));
    pair.settle();
    assert_eq!(pair.answers, [("roots", Ok(RawJson::NULL))]);

    let mut pair = Pair::ready(V2026_07_28);
    let refused = pair.server.request("roots/list", None, RequestOptions::default(), "", pair.now);
    assert_eq!(refused.unwrap_err(), SessionError::NoServerRequests);
    let asked = Request::raw("x", "roots/list", None);
    pair.client.receive(Ok(Incoming::One(Message::Request(asked))), pair.now);
    assert!(pair.client.next_event().is_none(), "a client without a handshake writes no responses");
    pair.client.receive(Incoming::decode("a stray line", 1), pair.now);
    assert!(pair.client.next_event().is_none());
    assert_eq!(pair.client.stats().ignored, 2);
}

#[test]
fn a_server_without_a_handshake_requires_the_request_metadata() {
    let mut pair = Pair::new(options(), &[V2026_07_28]);
    for method in ["tools/list", "ping"] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        assert_eq!(code_of(&pair.say(&line)[0]), -32602, "{method}");
    }
    let mut pair = Pair::new(options(), &[V2024_11_05]);
    pair.say(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(pair.calls[0].dialect, Dialect::Handshake(V2024_11_05));
}

#[test]
fn closing_while_opening_is_an_open_error() {
    let mut pair = Pair::new(options(), &[V2025_06_18]);
    pair.deaf_server = true;
    pair.open();
    pair.client.close();
    pair.settle();
    assert_eq!(pair.opened, [Err(OpenError::Closed)]);
}

#[test]
fn closing_fails_all_pending_requests() {
    let mut pair = Pair::ready(V2025_06_18);
    pair.call("a", RequestOptions::default());
    pair.client.close();
    pair.settle();
    assert_eq!(pair.answers, [("a", Err(RequestError::Closed))]);
    assert_eq!(
        (pair.client.status(), pair.client.pending(), pair.client.next_deadline()),
        (ConnectionStatus::Closed, 0, None)
    );
    let refused = pair.client.request("ping", None, RequestOptions::default(), "", pair.now);
    assert_eq!(refused.unwrap_err(), SessionError::Closed);
    assert_eq!(pair.client.notify("x", None).unwrap_err(), SessionError::Closed);
}

#[test]
fn an_invalid_message_has_the_error_response_of_the_revision() {
    let mut pair = Pair::ready(V2025_03_26);
    assert!(pair.say("{nonsense")[0].contains(r#""id":null"#));
    let mut pair = Pair::ready(V2025_11_25);
    assert!(!pair.say("{nonsense")[0].contains("\"id\""));
    assert!(pair.say(r#"{"jsonrpc":"2.0","method":5}"#).is_empty());
    assert_eq!(pair.server.stats().parse_errors, 2);
}

#[test]
fn an_invalid_response_fails_its_request() {
    let mut pair = Pair::ready(V2025_11_25);
    let id = pair.call("a", RequestOptions::default());
    let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1,"error":{{}}}}"#);
    pair.client.receive(Incoming::decode(line, 1), pair.now);
    pair.settle();
    assert!(matches!(pair.answers[0], ("a", Err(RequestError::Invalid(_)))));
    assert_eq!(pair.client.pending(), 0);
}

#[test]
fn a_response_without_a_result_fails_its_request_and_gets_no_response() {
    for version in [V2025_06_18, V2026_07_28] {
        let mut pair = Pair::ready(version);
        let id = pair.call("a", RequestOptions::default());
        pair.client.receive(Incoming::decode(format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#), 1), pair.now);
        let Some(Event::Answered { owner: "a", outcome: Err(RequestError::Invalid(_)), .. }) = pair.client.next_event()
        else {
            panic!("the request has not failed")
        };
        assert!(pair.client.next_event().is_none());
    }
}

#[test]
fn a_client_sends_no_response_to_an_invalid_message() {
    for version in [V2025_03_26, V2025_11_25, V2026_07_28] {
        let mut pair = Pair::ready(version);
        for line in ["listening on stdio", "{\"level\":\"info\"}", "[1,2", "[]", "null", "42"] {
            pair.client.receive(Incoming::decode(line, 1), pair.now);
        }
        assert_eq!(pair.client.stats().parse_errors, 6);
        assert!(pair.client.next_event().is_none());
    }
}

#[test]
fn the_largest_timeouts_do_not_overflow() {
    let mut pair = Pair::ready(V2025_06_18);
    let for_ever = RequestOptions::default().timeout(Duration::MAX).max_timeout(Duration::MAX).with_progress();
    let id = pair.call("a", for_ever);
    pair.call("b", RequestOptions::default().max_timeout(Duration::MAX).with_progress());
    let line = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{id},"progress":1}}}}"#
    );
    pair.client.receive(Incoming::decode(line, 1), pair.now);
    pair.pass(31 * SECOND);
    assert_eq!(pair.answers, [("b", Err(RequestError::TimedOut(31 * SECOND)))]);
}

#[test]
fn a_session_that_failed_to_open_stays_closed() {
    let mut pair = Pair::new(options().choice(VersionChoice::Stateless), &[V2025_11_25]);
    pair.deaf_server = true;
    pair.open();
    let ping = pair.client.request("ping", None, RequestOptions::default().without_timeout(), "ping", pair.now);
    assert!(ping.is_ok());
    pair.pass(3 * SECOND);
    assert_eq!(pair.opened, [], "a probe timeout does not decide the version");
    pair.pass(30 * SECOND);
    assert_eq!(pair.opened, [Err(OpenError::TimedOut)]);
    assert_eq!(pair.answers, [("ping", Err(RequestError::Closed))]);
    pair.client.open(pair.now);
    assert_eq!((pair.client.status(), pair.client.pending()), (ConnectionStatus::Closed, 0));
}

#[test]
fn a_listen_request_ends_with_its_result_or_a_cancellation() {
    let listen = |pair: &mut Pair, owner| {
        let params = RawJson::parse(MODERN_PARAMS).unwrap();
        let options = RequestOptions::default().without_timeout();
        let request = pair.client.request("subscriptions/listen", Some(params), options, owner, pair.now).unwrap();
        let id = request.id.clone();
        pair.carry(&Message::Request(request));
        pair.settle();
        id
    };
    let mut pair = Pair::ready(V2026_07_28);
    listen(&mut pair, "result");
    let call = pair.calls.remove(0);
    pair.server.answer(&call.ticket, Ok(RawJson::NULL));
    let said: Vec<_> = std::iter::from_fn(|| pair.server.next_event()).collect();
    assert!(matches!(&said[..], [Event::Send(Message::Response(_)), Event::Send(Message::Notification(_))]));
    said.into_iter().for_each(|event| pair.on_server(event));
    pair.settle();
    assert_eq!(pair.answers, [("result", Ok(RawJson::NULL))]);

    let id = listen(&mut pair, "notification");
    let waiting = pair.calls.remove(0);
    let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
    pair.client.receive(Incoming::decode(line, 1), pair.now);
    pair.settle();
    assert!(matches!(pair.answers[1], ("notification", Ok(_))));
    assert_eq!(pair.client.pending(), 0);

    pair.server.peer_has_gone();
    pair.settle();
    assert_eq!(pair.cancelled, std::slice::from_ref(waiting.ticket.id()));
    assert_eq!(pair.server.running(), 0);
}

#[test]
fn everything_is_counted() {
    let mut pair = Pair::ready(V2025_06_18);
    pair.call("a", RequestOptions::default());
    pair.answer_all();
    let client = *pair.client.stats();
    // A failed probe would count as a failed request; with a fixed older revision there is none.
    assert_eq!((client.requests_sent, client.completed, client.failed), (2, 2, 0));
    assert_eq!((client.notifications_sent, pair.server.stats().notifications_received), (1, 1));
    assert_eq!(pair.server.stats().requests_received, 2);
    assert!(client.bytes_sent > 0);
    pair.client.count_received(7);
    assert_eq!(pair.client.stats().bytes_received, 7);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_request_is_pending_when_all_are_answered_cancelled_or_late(
        steps in prop::collection::vec((0_u8..6, 0_usize..8), 0..60),
        version in prop::sample::select(ProtocolVersion::ALL.to_vec()),
    ) {
        let mut pair = Pair::ready(version);
        let mut made = Vec::new();
        for (step, which) in steps {
            match step {
                0 | 1 => made.push(pair.call("a", RequestOptions::default().timeout(5 * SECOND))),
                2 if !pair.calls.is_empty() => {
                    let call = pair.calls.remove(which % pair.calls.len());
                    pair.server.answer(&call.ticket, Ok(RawJson::NULL));
                }
                3 if !made.is_empty() => {
                    pair.client.cancel(&made[which % made.len()], None);
                }
                4 => pair.pass(SECOND),
                5 if !made.is_empty() => {
                    let id = &made[which % made.len()];
                    let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
                    pair.client.receive(Incoming::decode(line, 1), pair.now);
                }
                _ => {}
            }
            pair.settle();
        }
        pair.answer_all();
        prop_assert_eq!((pair.client.pending(), pair.server.running()), (0, 0));
        prop_assert_eq!(pair.client.next_deadline(), None);
        let stats = pair.client.stats();
        prop_assert_eq!(stats.requests_sent, stats.completed + stats.failed + stats.timed_out + stats.cancelled);
    }
}

/// Returns a second `initialize` with this id.
fn initialize_again(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"2025-03-26","capabilities":{{}},"clientInfo":{{"name":"second","version":"1"}}}}}}"#
    )
}

#[test]
fn a_second_initialize_ends_the_session_and_begins_another() {
    let mut pair = Pair::ready(V2025_11_25);
    let request =
        pair.server.request("ping", None, RequestOptions::default().without_timeout(), "ours", pair.now).unwrap();
    pair.say(r#"{"jsonrpc":"2.0","id":"old","method":"tools/call","params":{"name":"t"}}"#);
    pair.say(r#"{"jsonrpc":"2.0","id":"reused","method":"tools/call","params":{"name":"t"}}"#);
    let modern = format!(r#"{{"jsonrpc":"2.0","id":"modern","method":"tools/call","params":{MODERN_PARAMS}}}"#);
    pair.say(&modern);
    assert_eq!(pair.server.running(), 3);

    pair.server.receive(Incoming::decode(initialize_again(r#""reused""#), 10), pair.now);
    let events: Vec<_> = std::iter::from_fn(|| pair.server.next_event()).collect();
    let ended = events.iter().position(|event| matches!(event, Event::SessionEnded)).unwrap();
    assert!(matches!(&events[ended + 1..], [Event::Request(call)] if &*call.request.method == "initialize"));
    let mut cancelled = Vec::new();
    let mut refused = Vec::new();
    for event in &events[..ended] {
        match event {
            Event::Cancelled { ticket, .. } => cancelled.push(ticket.id().to_string()),
            Event::Send(Message::Response(response)) => {
                assert!(response.outcome.as_ref().unwrap_err().message.contains("the session has ended"));
                refused.push(response.id.as_ref().unwrap().to_string());
            }
            Event::Answered { owner: "ours", outcome: Err(RequestError::Closed), .. } => {}
            other => panic!("{other:?}"),
        }
    }
    cancelled.sort();
    assert_eq!(cancelled, [r#""old""#, r#""reused""#]);
    assert_eq!(refused, [r#""old""#], "the id of the new initialize must not be answered for the earlier request");
    assert_eq!((pair.server.pending(), pair.server.running()), (0, 2));
    assert_eq!(pair.server.agreed(), Some(V2025_03_26));
    assert_eq!(pair.server.status(), ConnectionStatus::Initializing);

    let [.., Event::Request(call)] = events.as_slice() else { panic!() };
    pair.server.answer(&call.ticket, Ok(RawJson::NULL));
    pair.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(pair.server.status(), ConnectionStatus::Ready);
    let late = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, request.id);
    let ignored = pair.server.stats().ignored;
    assert_eq!(pair.say(&late), [""; 0]);
    assert_eq!(pair.server.stats().ignored, ignored + 1);
}

#[test]
fn a_second_initialize_completes_the_batches_of_the_session() {
    let mut pair = Pair::ready(V2025_03_26);
    pair.say(r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call"},{"jsonrpc":"2.0","id":2,"method":"tools/call"}]"#);
    let first = pair.calls.remove(0);
    pair.server.answer(&first.ticket, Ok(RawJson::NULL));
    let said = pair.say(&initialize_again("2"));
    assert_eq!(said[0], r#"[{"jsonrpc":"2.0","id":1,"result":null}]"#);
    assert!(said[1].starts_with(r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-03-26""#), "{said:?}");
}

#[test]
fn an_initialize_that_is_refused_ends_nothing() {
    let mut pair = Pair::ready(V2025_06_18);
    pair.call("kept", RequestOptions::default());
    let modern = format!(r#"{{"jsonrpc":"2.0","id":"m","method":"tools/call","params":{MODERN_PARAMS}}}"#);
    pair.say(&modern);
    let no_params = r#"{"jsonrpc":"2.0","id":"i","method":"initialize"}"#;
    assert_eq!(code_of(&pair.say(no_params)[0]), -32602);
    // The id is in use by a stateless request.
    assert_eq!(code_of(&pair.say(&initialize_again(r#""m""#))[0]), -32600);
    let batch = format!("[{}]", initialize_again("7"));
    assert_eq!(code_of(&pair.say(&batch)[0]), -32600);
    assert_eq!(pair.server.running(), 2);
    pair.answer_all();
    assert_eq!(pair.answers, [("kept", Ok(RawJson::NULL))]);
}

#[test]
fn a_message_over_the_limit_fails_the_requests_that_it_may_answer() {
    let too_long = |line: &str| {
        let mut lines = crate::Lines::new(40);
        lines.buffer().extend_from_slice(line.as_bytes());
        lines.buffer().extend_from_slice(b"\n");
        lines.next_line().unwrap().unwrap_err()
    };
    let long = "x".repeat(100);
    let mut pair = Pair::ready(V2025_11_25);
    let first = pair.call("first", RequestOptions::default().without_timeout());
    pair.call("second", RequestOptions::default().without_timeout());
    pair.call("third", RequestOptions::default().without_timeout());
    let failed = || Err(RequestError::TooLong { limit: 40 });

    let notification = format!(r#"{{"method":"notifications/message","params":"{long}"}}"#);
    pair.client.receive_too_long(too_long(&notification), pair.now);
    pair.client.receive_too_long(too_long(&long), pair.now);
    pair.settle();
    assert_eq!(pair.answers, []);

    let attributed = format!(r#"{{"jsonrpc":"2.0","result":"{long}","id":{first}}}"#);
    pair.client.receive_too_long(too_long(&attributed), pair.now);
    pair.settle();
    assert_eq!(pair.answers, [("first", failed())]);
    pair.client.receive_too_long(too_long(&format!(r#"{{"result":"{long}","x":1}}"#)), pair.now);
    pair.settle();
    pair.answers.sort_by_key(|(owner, _)| *owner);
    assert_eq!(pair.answers, [("first", failed()), ("second", failed()), ("third", failed())]);
    assert_eq!(pair.client.status(), ConnectionStatus::Ready);

    // The server rejects a request by its id.
    let request = format!(r#"{{"method":"tools/call","params":{{"a":"{long}"}},"id":"q"}}"#);
    pair.server.receive_too_long(too_long(&request), pair.now);
    let Some(Event::Send(Message::Response(refused))) = pair.server.next_event() else { panic!() };
    assert_eq!(refused.id, Some("q".into()));
    assert!(refused.outcome.unwrap_err().message.contains("longer than the limit of 40 bytes"));
}
