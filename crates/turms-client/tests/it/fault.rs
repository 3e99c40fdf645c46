//! Real servers that exit, stop responding, send invalid messages or do not exit. Calls fail in bounded time with the
//! cause, a supervised client reconnects, and no process is left behind.

use std::error::Error as _;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use turms_client::{
    Backoff, CallError, CallErrorKind, ChildCommand, Client, ClientBuilder, ClosedCause, ConnectError, ConnectionEvent,
    ConnectionStatus, DecodeCause, Delivery, Event, Events, HealthCheck, TimeoutCause, VersionCache,
};
use turms_proto::ProtocolVersion;
use turms_testkit::misbehaving_server::MisbehavingServer;
use turms_testkit::{TIMEOUT, eventually, within};

/// Timeout of calls that are expected to time out.
const SHORT: Duration = Duration::from_millis(300);
/// Maximum duration of what must not wait for a default timeout, which is much longer.
const BOUND: Duration = Duration::from_secs(10);

fn builder() -> ClientBuilder {
    Client::builder("test", "1").timeout(TIMEOUT).version_cache(VersionCache::new())
}

fn reconnecting() -> ClientBuilder {
    builder().reconnect(Backoff::new().initial_delay(Duration::from_millis(10)))
}

async fn connect_with(builder: ClientBuilder, odd: &MisbehavingServer) -> Client {
    within("a connection", builder.connect_command(odd.command.clone())).await.unwrap()
}

async fn connect(odd: &MisbehavingServer) -> Client {
    connect_with(builder(), odd).await
}

async fn refused(builder: ClientBuilder, odd: &MisbehavingServer) -> ConnectError {
    within("a connection", builder.connect_command(odd.command.clone())).await.unwrap_err()
}

/// Calls the tool that misbehaves in a way of its own in each mode; the call must fail.
async fn fails(client: &Client) -> CallError {
    let before = Instant::now();
    let error = within("an answer", client.call_tool("odd", ())).await.unwrap_err();
    assert!(before.elapsed() < BOUND, "{error} after {:?}", before.elapsed());
    error
}

/// Calls as [`fails`] does; the call must time out.
async fn times_out(client: &Client) -> CallError {
    let before = Instant::now();
    let error = within("an answer", client.call_tool("odd", ()).timeout(SHORT)).await.unwrap_err();
    assert!(before.elapsed() < BOUND, "{error} after {:?}", before.elapsed());
    assert!(error.is_timeout() && error.may_have_run(), "{error}");
    error
}

/// Calls the tool that works in every mode.
async fn echo(client: &Client) -> Result<String, CallError> {
    within("an answer", client.call_tool("echo", json!({ "text": "hello" }))).await.map(|result| result.text())
}

#[track_caller]
fn assert_works(echoed: Result<String, CallError>) {
    assert_eq!(echoed.unwrap(), "hello");
}

async fn close(client: Client, odd: &MisbehavingServer) {
    within("the end of the client", client.close()).await;
    odd.assert_gone();
}

async fn next_connection_event(events: &mut Events) -> ConnectionEvent {
    let found = events.find(|event| match event {
        Event::Connection(event) => Some(event),
        _ => None,
    });
    within("an event", found).await.unwrap()
}

async fn connected_again(events: &mut Events) {
    while !matches!(next_connection_event(events).await, ConnectionEvent::Connected { .. }) {}
}

#[tokio::test]
async fn a_server_that_exits_on_the_probe_is_started_again_in_an_older_revision() {
    let odd = MisbehavingServer::new("dies_when_probed", "old");
    let client = connect(&odd).await;

    assert_eq!(client.protocol_version(), Some(ProtocolVersion::LATEST_WITH_HANDSHAKE));
    assert_eq!(odd.started().len(), 2);
    assert_works(echo(&client).await);
    close(client, &odd).await;
}

#[tokio::test]
async fn the_revision_of_a_server_that_exits_on_the_probe_is_cached() {
    let odd = MisbehavingServer::new("dies_when_probed", "old");
    let memory = VersionCache::new();
    for starts in [2, 3, 4] {
        let client = connect_with(builder().version_cache(memory.clone()), &odd).await;
        assert_eq!(odd.started().len(), starts);
        close(client, &odd).await;
    }
}

#[tokio::test]
async fn the_error_of_an_early_exit_has_the_status_and_stderr() {
    let odd = MisbehavingServer::new("exits_at_once", "old");
    let error = refused(builder(), &odd).await;

    assert_eq!(
        error.to_string(),
        "the server exited with status 78 before the connection was open; last line of stderr: \"no such file: odd.toml\""
    );
    let ConnectError::Closed(ended) = error else { panic!("{error:?}") };
    assert_eq!(ended.stderr, ["reading the configuration", "no such file: odd.toml"]);
    odd.assert_gone();
}

#[tokio::test]
async fn a_supervised_client_does_not_retry_an_early_exit_of_its_first_server() {
    let odd = MisbehavingServer::new("exits_at_once", "old");
    refused(reconnecting(), &odd).await;

    // Two starts: with a probe, and without one in case the probe ended the server.
    assert_eq!(odd.started().len(), 2);
    odd.assert_gone();
}

#[tokio::test]
async fn an_orphaned_grandchild_does_not_delay_the_connect_error() {
    let odd = MisbehavingServer::new("leaves_child_at_once", "old");
    let error = refused(builder(), &odd).await;

    assert!(error.to_string().starts_with("the server exited with status 4 "), "{error}");
    assert_eq!(odd.started().len(), 4);
    odd.assert_gone();
}

#[tokio::test]
async fn the_error_of_a_missing_program_names_it() {
    let command = ChildCommand::new("/no/such/program");
    let error = within("a connection", builder().connect_command(command)).await.unwrap_err();

    assert_eq!(error.to_string(), "cannot reach \"/no/such/program\"");
    assert_eq!(error.source().unwrap().to_string(), "cannot start \"/no/such/program\": program not found");
}

#[tokio::test]
async fn a_server_without_a_handshake_response_is_a_timeout() {
    let odd = MisbehavingServer::new("mute", "old");
    let error = refused(builder().probe_timeout(SHORT).handshake_timeout(SHORT), &odd).await;

    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(error.to_string(), "no response to the handshake within its timeout");
    odd.assert_gone();
}

#[tokio::test]
async fn a_cancelled_connect_leaves_no_process() {
    let odd = MisbehavingServer::new("mute", "old");
    let connecting = tokio::spawn(builder().connect_command(odd.command.clone()));
    eventually("it is started", async || !odd.started().is_empty()).await;

    connecting.abort();
    assert!(connecting.await.unwrap_err().is_cancelled());
    odd.all_gone().await;
}

#[tokio::test]
async fn the_error_of_an_exit_during_a_call_has_the_status_and_stderr() {
    let odd = MisbehavingServer::new("exits_mid_call", "old");
    let client = connect(&odd).await;

    let error = fails(&client).await;
    assert_eq!(
        error.to_string(),
        "tools/call \"odd\": the server exited with status 3 before the response; last line of stderr: \"out of cheese\"; \
         the call may have run"
    );
    let CallErrorKind::Closed(ClosedCause::Lost(ended)) = error.kind() else { panic!("{error:?}") };
    assert_eq!(ended.how.as_deref(), Some("exited with status 3"));
    assert_eq!(ended.stderr, ["working", "out of cheese"]);
    assert!(error.may_have_run() && error.is_disconnected());
    close(client, &odd).await;
}

#[tokio::test]
async fn a_call_after_the_exit_is_not_sent_and_its_error_has_the_cause() {
    let odd = MisbehavingServer::new("exits_mid_call", "new");
    let client = connect(&odd).await;
    fails(&client).await;

    let error = echo(&client).await.unwrap_err();
    assert_eq!(error.to_string(), "tools/call \"echo\": not connected to the server");
    assert_eq!(error.delivery(), Delivery::NotSent);
    assert_eq!(
        error.source().unwrap().to_string(),
        "connection closed: the server exited with status 3; last line of stderr: \"out of cheese\""
    );
    assert_eq!(client.status(), ConnectionStatus::Closed);
    assert_eq!(odd.started().len(), 1);
    close(client, &odd).await;
}

#[tokio::test]
async fn the_error_of_a_killed_server_has_the_signal() {
    let odd = MisbehavingServer::new("never_answers_calls", "old");
    let client = connect(&odd).await;
    let calling = tokio::spawn({
        let client = client.clone();
        async move { fails(&client).await }
    });
    eventually("the call is on its way", async || client.pending_calls().len() == 1).await;

    assert!(Command::new("kill").args(["-KILL", &odd.started()[0].to_string()]).status().unwrap().success());
    let error = within("an answer", calling).await.unwrap();
    assert_eq!(
        error.to_string(),
        "tools/call \"odd\": the server was killed by signal 9 before the response; the call may have run"
    );
    close(client, &odd).await;
}

#[tokio::test]
async fn a_supervised_client_reconnects_after_an_exit_during_a_call() {
    for era in ["old", "new"] {
        let odd = MisbehavingServer::new("exits_mid_call,polite", era);
        let client = connect_with(reconnecting(), &odd).await;
        let mut events = client.events();

        let error = fails(&client).await;
        assert!(error.may_have_run(), "{error}");
        assert_works(echo(&client).await);
        let ConnectionEvent::Lost(ended) = next_connection_event(&mut events).await else { panic!() };
        assert_eq!(ended.how.as_deref(), Some("exited with status 3"));
        let reconnecting = next_connection_event(&mut events).await;
        assert!(matches!(reconnecting, ConnectionEvent::Reconnecting { attempt: 1, .. }), "{reconnecting:?}");
        let connected = next_connection_event(&mut events).await;
        assert!(matches!(connected, ConnectionEvent::Connected { generation: 2, .. }), "{connected:?}");
        assert_eq!(odd.started().len(), 2);
        close(client, &odd).await;
    }
}

#[tokio::test]
async fn an_idempotent_call_is_repeated_after_an_exit() {
    for era in ["old", "new"] {
        let odd = MisbehavingServer::new("exits_mid_call,exits_mid_call,polite", era);
        let client = connect_with(reconnecting(), &odd).await;

        let result = within("an answer", client.call_tool("odd", ()).idempotent()).await.unwrap();
        assert_eq!(result.text(), "odd, but well");
        assert_eq!(odd.started().len(), 3);
        close(client, &odd).await;
    }
}

#[tokio::test]
async fn a_supervised_client_retries_a_server_that_fails_to_start() {
    let odd = MisbehavingServer::new("exits_mid_call,exits_at_once,exits_at_once,exits_at_once,polite", "old");
    let client = connect_with(reconnecting(), &odd).await;
    let mut events = client.events();

    fails(&client).await;
    assert_works(echo(&client).await);
    let failed = events.find(|event| match event {
        Event::Connection(ConnectionEvent::ConnectFailed(error)) => Some(error),
        _ => None,
    });
    let failed = within("an answer", failed).await.unwrap();
    assert!(failed.to_string().contains("exited with status 78"), "{failed}");
    close(client, &odd).await;
}

#[tokio::test]
async fn the_error_after_the_last_reconnect_attempt_has_the_cause() {
    let odd = MisbehavingServer::new("exits_mid_call,exits_at_once", "old");
    let backoff = Backoff::new().initial_delay(Duration::from_millis(10)).max_attempts(2);
    let client = connect_with(builder().reconnect(backoff), &odd).await;
    let mut events = client.events();

    fails(&client).await;
    while !matches!(next_connection_event(&mut events).await, ConnectionEvent::ReconnectFailed) {}
    let error = echo(&client).await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::NotSent);
    assert!(error.source().unwrap().to_string().contains("no such file: odd.toml"), "{:?}", error.source());
    close(client, &odd).await;
}

#[tokio::test]
async fn an_exit_in_the_middle_of_a_line_is_a_lost_connection() {
    let odd = MisbehavingServer::new("half_line_then_exit,polite", "old");
    let client = connect_with(reconnecting(), &odd).await;

    let error = fails(&client).await;
    assert_eq!(
        error.to_string(),
        "tools/call \"odd\": the server exited with status 0 before the response; the call may have run"
    );
    assert_works(echo(&client).await);
    close(client, &odd).await;
}

#[tokio::test]
async fn an_unfinished_line_is_a_timeout_and_spoils_the_next_response() {
    let odd = MisbehavingServer::new("half_line_then_hang", "old");
    let client = connect(&odd).await;

    let error = times_out(&client).await;
    assert!(error.to_string().starts_with("tools/call \"odd\": no response within 3"), "{error}");
    assert!(error.to_string().ends_with("; the call may have run"), "{error}");
    // The next response completes the unfinished line, and is lost with it.
    let spoiled = client.call_tool("echo", ()).timeout(SHORT).await.unwrap_err();
    assert!(spoiled.is_timeout(), "{spoiled}");
    assert_works(echo(&client).await);
    close(client, &odd).await;
}

#[tokio::test]
async fn lines_that_are_not_messages_are_ignored() {
    for era in ["old", "new"] {
        for mode in ["garbage", "binary"] {
            let odd = MisbehavingServer::new(mode, era);
            let client = connect(&odd).await;

            assert_eq!(within("an answer", client.list_tools()).await.unwrap().len(), 2);
            assert_works(echo(&client).await);
            assert_eq!(within("an answer", client.call_tool("odd", ())).await.unwrap().text(), "odd, but well");
            assert!(client.stats().connection.parse_errors >= 3, "{:?}", client.stats());
            close(client, &odd).await;
        }
    }
}

#[tokio::test]
async fn a_line_over_the_limit_fails_only_its_own_call() {
    let odd = MisbehavingServer::new("long_line", "old");
    let client = connect(&odd).await;

    let error = fails(&client).await;
    assert!(error.to_string().contains("the response is larger than") && error.may_have_run(), "{error}");
    assert_works(echo(&client).await);
    close(client, &odd).await;
}

#[tokio::test]
async fn a_huge_result_within_the_limit_arrives_whole() {
    let odd = MisbehavingServer::new("huge_result", "new");
    let client = connect(&odd).await;

    assert_eq!(within("an answer", client.call_tool("odd", ())).await.unwrap().text().len(), 8 * 1024 * 1024);
    close(client, &odd).await;
}

#[tokio::test]
async fn a_large_request_and_a_large_response_do_not_block_each_other() {
    let odd = MisbehavingServer::new("huge_result", "old");
    let client = connect(&odd).await;
    let much = "x".repeat(4 * 1024 * 1024);
    let answered = tokio::spawn(client.call_tool("odd", ()).into_future());
    let asked = tokio::spawn(client.call_tool("echo", json!({ "text": much })).into_future());

    assert_eq!(within("an answer", answered).await.unwrap().unwrap().text().len(), 8 * 1024 * 1024);
    assert_eq!(within("an answer", asked).await.unwrap().unwrap().text(), much);
    close(client, &odd).await;
}

async fn floods(mode: &str, era: &str) {
    let odd = MisbehavingServer::new(mode, era);
    let client = connect(&odd).await;

    times_out(&client).await;
    for _ in 0..10 {
        assert_works(echo(&client).await);
    }
    let before = Instant::now();
    close(client, &odd).await;
    assert!(before.elapsed() < BOUND);
}

#[tokio::test]
async fn a_flood_of_notifications_does_not_block_calls() {
    floods("floods_notifications", "old").await;
    floods("floods_notifications", "new").await;
}

#[tokio::test]
async fn a_flood_of_invalid_lines_does_not_block_calls() {
    floods("floods_garbage", "old").await;
    floods("floods_garbage", "new").await;
}

#[tokio::test]
async fn a_flood_on_standard_error_does_not_block_calls() {
    let odd = MisbehavingServer::new("floods_stderr", "old");
    let client = connect(&odd).await;
    for _ in 0..10 {
        assert_works(echo(&client).await);
    }
    close(client, &odd).await;
}

#[tokio::test]
async fn a_call_without_a_response_times_out_and_keeps_the_connection() {
    let odd = MisbehavingServer::new("never_answers_calls", "old");
    let client = connect_with(reconnecting(), &odd).await;

    let error = times_out(&client).await;
    assert!(
        matches!(error.kind(), CallErrorKind::Timeout(TimeoutCause::Response(after)) if *after >= SHORT),
        "{error}"
    );
    assert_eq!(client.status(), ConnectionStatus::Ready);
    assert_works(echo(&client).await);
    assert_eq!(odd.started().len(), 1);
    close(client, &odd).await;
}

#[tokio::test]
async fn a_server_that_fails_its_health_checks_is_restarted() {
    let odd = MisbehavingServer::new("never_answers_calls,polite", "old");
    let check = HealthCheck::every(Duration::from_millis(50)).timeout(Duration::from_millis(100)).max_failures(2);
    let client = connect_with(reconnecting().health_check(check), &odd).await;
    let mut events = client.events();

    let error = fails(&client).await;
    assert_eq!(
        error.to_string(),
        "tools/call \"odd\": the server did not respond to health checks before the response; the call may have run"
    );
    connected_again(&mut events).await;
    assert_works(echo(&client).await);
    assert_eq!(odd.started().len(), 2);
    close(client, &odd).await;
}

fn stubborn() -> MisbehavingServer {
    MisbehavingServer::new("stubborn", "old").with_time_to_leave(SHORT)
}

#[tokio::test]
async fn closing_kills_a_server_that_does_not_exit() {
    let odd = stubborn();
    let client = connect(&odd).await;
    assert_works(echo(&client).await);

    let before = Instant::now();
    close(client, &odd).await;
    assert!(before.elapsed() >= 2 * SHORT && before.elapsed() < BOUND, "{:?}", before.elapsed());
}

#[tokio::test]
async fn every_concurrent_close_waits_for_the_exit() {
    let odd = stubborn();
    let client = connect(&odd).await;
    let closing: Vec<_> = (0..3)
        .map(|_| client.clone())
        .map(|client| {
            tokio::spawn(async move {
                client.close().await;
                Instant::now()
            })
        })
        .collect();

    let before = Instant::now();
    for closing in closing {
        assert!(within("the end of the client", closing).await.unwrap() >= before + 2 * SHORT);
        odd.assert_gone();
    }
}

#[tokio::test]
async fn dropping_the_client_kills_a_server_that_does_not_exit() {
    let odd = stubborn();
    let client = connect(&odd).await;
    assert_works(echo(&client).await);

    drop(client);
    odd.all_gone().await;
}

#[tokio::test]
async fn closing_waits_for_a_server_that_failed_its_health_checks() {
    let odd = MisbehavingServer::new("stubborn_and_mute,polite", "old").with_time_to_leave(SHORT);
    let check = HealthCheck::every(Duration::from_millis(20)).timeout(Duration::from_millis(50)).max_failures(1);
    let client = connect_with(reconnecting().health_check(check), &odd).await;
    let mut events = client.events();

    connected_again(&mut events).await;
    close(client, &odd).await;
}

#[tokio::test]
async fn an_orphaned_grandchild_does_not_delay_the_error_of_a_call() {
    let odd = MisbehavingServer::new("leaves_child,polite", "old");
    let client = connect_with(reconnecting(), &odd).await;

    let error = fails(&client).await;
    assert_eq!(
        error.to_string(),
        "tools/call \"odd\": the server exited with status 5 before the response; the call may have run"
    );
    assert_works(echo(&client).await);
    close(client, &odd).await;
}

#[tokio::test]
async fn a_server_that_closes_its_output_is_ended_and_replaced() {
    let odd = MisbehavingServer::new("closes_stdout,polite", "old").with_time_to_leave(SHORT);
    let client = connect_with(reconnecting(), &odd).await;

    let error = fails(&client).await;
    assert_eq!(
        error.to_string(),
        "tools/call \"odd\": the server closed its standard output before the response; the call may have run"
    );
    assert_works(echo(&client).await);
    close(client, &odd).await;
}

#[tokio::test]
async fn the_stdout_callback_gets_all_output() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = heard.clone();
    let command = ChildCommand::new("sh").args(["-c", "echo Welcome!; exec sleep 1000 >&-"]).exit_timeout(SHORT);
    let command = command.on_stdout(move |bytes| ear.lock().unwrap().extend_from_slice(bytes));

    let error = within("a connection", builder().connect_command(command)).await.unwrap_err();
    assert_eq!(error.to_string(), "the server closed its standard output before the connection was open");
    assert!(heard.lock().unwrap().starts_with(b"Welcome!\n"));
}

/// The server writes more than a pipe holds after its input has ended.
#[tokio::test]
async fn a_server_that_writes_while_it_exits_can_finish() {
    let (tell, told) = std::sync::mpsc::channel();
    let script = "cat >/dev/null; yes | head -c 1000000 && echo done >&2";
    let command = ChildCommand::new("sh").args(["-c", script]).exit_timeout(TIMEOUT);
    let command = command.on_stderr(move |line| tell.send(line.to_owned()).unwrap());

    let builder = builder().probe_timeout(SHORT).handshake_timeout(SHORT);
    within("a connection", builder.connect_command(command)).await.unwrap_err();
    assert_eq!(told.recv().unwrap(), "done");
}

#[tokio::test]
async fn responses_with_unknown_ids_are_ignored() {
    let odd = MisbehavingServer::new("wrong_ids", "old");
    let client = connect(&odd).await;

    assert_eq!(within("an answer", client.call_tool("odd", ())).await.unwrap().text(), "right");
    assert_works(echo(&client).await);
    assert!(client.stats().connection.ignored >= 3, "{:?}", client.stats());
    close(client, &odd).await;
}

#[tokio::test]
async fn the_first_of_several_responses_is_used() {
    let odd = MisbehavingServer::new("duplicates", "old");
    let client = connect(&odd).await;

    assert_eq!(within("an answer", client.call_tool("odd", ())).await.unwrap().text(), "first");
    assert_works(echo(&client).await);
    assert_eq!(within("an answer", client.call_tool("odd", ())).await.unwrap().text(), "first");
    close(client, &odd).await;
}

#[tokio::test]
async fn an_error_with_a_null_id_completes_no_call() {
    let odd = MisbehavingServer::new("null_id", "old");
    let client = connect(&odd).await;

    times_out(&client).await;
    assert_works(echo(&client).await);
    close(client, &odd).await;
}

#[tokio::test]
async fn a_response_without_result_and_error_fails_its_call() {
    let odd = MisbehavingServer::new("no_outcome", "old");
    let client = connect(&odd).await;

    let error = fails(&client).await;
    assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Invalid(_))), "{error:?}");
    assert_works(echo(&client).await);
    close(client, &odd).await;
}

#[tokio::test]
async fn requests_for_undeclared_capabilities_are_refused() {
    let odd = MisbehavingServer::new("asks_undeclared", "old");
    let client = connect(&odd).await;

    let told = within("an answer", client.call_tool("odd", ())).await.unwrap().text();
    let mut told: Vec<_> = told.lines().collect();
    told.sort_unstable();
    let refused = [
        "\"elicitation/create\" -32601",
        "\"no/such/method\" -32601",
        "\"roots/list\" -32601",
        "\"sampling/createMessage\" -32601",
        "\"tools/list\" -32601",
    ];
    assert_eq!(told, refused);
    close(client, &odd).await;
}

#[tokio::test]
async fn requests_before_the_handshake_do_not_break_it() {
    let odd = MisbehavingServer::new("asks_early", "old");
    let client = connect(&odd).await;

    let heard = within("an answer", client.call_tool("odd", ())).await.unwrap().text();
    let heard: Vec<Value> = serde_json::from_str(&heard).unwrap();
    assert_eq!(heard, [json!({ "jsonrpc": "2.0", "id": "early-ping", "result": {} })]);
    close(client, &odd).await;
}

#[tokio::test]
async fn calls_to_a_server_that_does_not_read_time_out() {
    let odd = MisbehavingServer::new("never_reads_again", "old");
    let client = connect(&odd).await;
    times_out(&client).await;

    let before = Instant::now();
    let much = json!({ "text": "x".repeat(3 * 1024 * 1024) });
    let error = within("an answer", client.call_tool("echo", much).timeout(SHORT)).await.unwrap_err();
    assert!(error.is_timeout() && error.may_have_run(), "{error}");
    // The pipe is full, so this request cannot be written.
    let error = within("an answer", client.call_tool("echo", ()).timeout(SHORT)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(before.elapsed() < BOUND, "{:?}", before.elapsed());
    close(client, &odd).await;
}

/// The modes in which a client can connect.
const MODES: [&str; 24] = [
    "polite",
    "dies_when_probed",
    "exits_mid_call",
    "half_line_then_exit",
    "half_line_then_hang",
    "garbage",
    "binary",
    "long_line",
    "huge_result",
    "floods_notifications",
    "floods_garbage",
    "floods_stderr",
    "never_answers_calls",
    "never_reads_again",
    "stubborn",
    "stubborn_and_mute",
    "leaves_child",
    "closes_stdout",
    "wrong_ids",
    "duplicates",
    "null_id",
    "no_outcome",
    "asks_undeclared",
    "asks_early",
];

/// Connects a client and starts a call, which gets 50 ms to progress.
async fn with_a_call(index: usize, mode: &str) -> (MisbehavingServer, Client, JoinHandle<()>) {
    let only_old = mode.starts_with("asks") || mode == "dies_when_probed";
    let era = if only_old || index.is_multiple_of(2) { "old" } else { "new" };
    let odd = MisbehavingServer::new(mode, era).with_time_to_leave(Duration::from_millis(50));
    let builder = if index.is_multiple_of(3) { reconnecting() } else { builder() };
    let client = connect_with(builder, &odd).await;
    let call = client.call_tool("odd", ());
    let mut calling = tokio::spawn(async move { drop(call.await) });
    let _ = timeout(Duration::from_millis(50), &mut calling).await;
    (odd, client, calling)
}

#[tokio::test]
async fn closing_leaves_no_process_in_any_mode() {
    for (index, mode) in MODES.into_iter().enumerate() {
        let (odd, client, _calling) = with_a_call(index, mode).await;

        let before = Instant::now();
        within("the end of the client", client.close()).await;
        assert!(before.elapsed() < BOUND, "{mode} {:?}", before.elapsed());
        // A server that was being started is killed, and is reaped later.
        odd.all_gone().await;
    }
}

#[tokio::test]
async fn dropping_leaves_no_process_in_any_mode() {
    for (index, mode) in MODES.into_iter().rev().enumerate() {
        let (odd, client, calling) = with_a_call(index, mode).await;
        let _events = client.events();

        calling.abort();
        drop(client);
        odd.all_gone().await;
    }
}

#[tokio::test]
async fn closing_during_a_restart_leaves_no_process() {
    let odd = MisbehavingServer::new("exits_mid_call,mute", "old");
    let client = connect_with(reconnecting(), &odd).await;
    fails(&client).await;
    eventually("another is started", async || odd.started().len() == 2).await;

    within("the end of the client", client.close()).await;
    odd.all_gone().await;
    assert_eq!(odd.started().len(), 2);
}

#[tokio::test]
async fn dropping_during_a_restart_leaves_no_process() {
    let odd = MisbehavingServer::new("exits_mid_call,mute", "old");
    let client = connect_with(reconnecting(), &odd).await;
    fails(&client).await;
    eventually("another is started", async || odd.started().len() == 2).await;

    drop(client);
    odd.all_gone().await;
    assert_eq!(odd.started().len(), 2);
}

#[tokio::test]
async fn the_end_of_the_runtime_leaves_no_process() {
    let odd = stubborn();
    let started = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let client = runtime.block_on(connect(&odd));
            drop(runtime);
            client
        });
        running.join().unwrap()
    });

    odd.all_gone().await;
    assert!(within("a failed ping", started.ping()).await.is_err());
}
