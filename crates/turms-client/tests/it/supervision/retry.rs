//! Lost calls, and which of them are retried.

use std::sync::Mutex;

use tokio::time::Instant;
use turms_client::{ConnectionStatus, Delivery, RetryPolicy};
use turms_proto::types::Reference;

use crate::supervision::scripted_server::Reply::*;
use crate::supervision::scripted_server::*;

#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_without_a_connection_waits_for_one() {
    let scripted = ScriptedServer::well(OLD);
    let client = scripted.connect_with(reconnecting()).await;
    scripted.refuse(4);
    scripted.kill();
    settle().await;
    assert_eq!(client.status(), ConnectionStatus::Disconnected);

    let before = Instant::now();
    let calls: Vec<_> = (0..5).map(|_| spawn_call(&client, "pay")).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "from 2");
    }
    assert!(before.elapsed() > 3 * SECOND);
    assert_eq!(scripted.connections_of("tools/call"), [2; 5]);
    assert_eq!(client.status(), ConnectionStatus::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_connection_has_its_timeout() {
    let scripted = ScriptedServer::well(OLD);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    scripted.refuse(usize::MAX);
    scripted.kill();
    until(&mut events, "lost").await;

    let before = Instant::now();
    let error = client.call_tool("pay", ()).timeout(5 * SECOND).await.unwrap_err();
    assert_eq!(before.elapsed().as_secs(), 5);
    assert_eq!(error.to_string(), "tools/call \"pay\": not connected to the server");
    assert_eq!(error.delivery(), Delivery::NotSent);
    assert!(error.is_disconnected() && !error.may_have_run());
    assert!(!so_far(&mut events).await.iter().any(|word| word.starts_with("retrying")));
    assert!(scripted.heard("tools/call").is_empty());
}

#[tokio::test(start_paused = true)]
async fn read_only_requests_are_retried_when_lost() {
    for version in [OLD, NEW] {
        // Every method is lost once.
        let lost = Mutex::new(Vec::new());
        let scripted = ScriptedServer::new(version, move |_, method| {
            let mut lost = lost.lock().unwrap();
            let opening = matches!(method, "open" | "initialize" | "notifications/initialized" | "server/discover");
            if opening || lost.iter().any(|known| known == method) {
                return Well;
            }
            lost.push(method.to_owned());
            Die
        });
        let client = scripted.connect_with(reconnecting()).await;
        client.list_tools().await.unwrap();
        client.list_resources().await.unwrap();
        client.list_resource_templates().await.unwrap();
        client.list_prompts().await.unwrap();
        client.read_resource("a://one").await.unwrap();
        client.get_prompt("p", ()).await.unwrap();
        client.complete(Reference::prompt("p"), "a", "b").await.unwrap();
        if version == OLD {
            client.ping().await.unwrap();
        }
        let repeated = [
            "tools/list",
            "resources/list",
            "resources/templates/list",
            "prompts/list",
            "resources/read",
            "prompts/get",
            "completion/complete",
        ];
        for method in repeated {
            assert_eq!(scripted.heard(method).len(), 2, "{method}");
        }
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn tools_with_an_idempotent_hint_are_retried_when_lost() {
    for tool in ["look", "put"] {
        let scripted = loses_calls(1);
        let client = scripted.connect_with(reconnecting()).await;
        let mut events = client.events();
        client.list_tools().await.unwrap();

        assert_eq!(client.call_tool(tool, ()).await.unwrap().text(), "from 2");
        assert_eq!(scripted.connections_of("tools/call"), [1, 2]);
        let mut seen = so_far(&mut events).await;
        seen.sort_unstable();
        let retrying = format!("retrying tools/call {tool:?} 1");
        assert_eq!(seen, ["connected 2", "lost", "reconnecting 1", &retrying]);
    }
}

#[tokio::test(start_paused = true)]
async fn tools_without_hints_are_not_retried() {
    let scripted = loses_calls(1);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    client.list_tools().await.unwrap();

    let error = client.call_tool("pay", ()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "tools/call \"pay\": the server closed the connection before the response; the call may have run"
    );
    assert!(error.may_have_run() && error.is_disconnected());
    until(&mut events, "connected 2").await;
    assert_eq!(scripted.connections_of("tools/call"), [1]);
}

#[tokio::test(start_paused = true)]
async fn unknown_tools_and_raw_requests_are_not_retried() {
    // The tool was not listed, and a raw request can have any effect.
    for raw in [false, true] {
        let scripted = ScriptedServer::new(OLD, |connection, method| match method {
            "tools/call" | "do/something" if connection == 1 => Die,
            _ => Well,
        });
        let client = scripted.connect_with(reconnecting()).await;
        let error = match raw {
            true => client.request_raw("do/something", ()).await.map(drop).unwrap_err(),
            false => client.call_tool("look", ()).await.map(drop).unwrap_err(),
        };
        assert!(error.may_have_run(), "{error}");
        settle().await;
        assert_eq!(scripted.heard("tools/call").len() + scripted.heard("do/something").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_caller_decides_which_calls_are_idempotent() {
    let scripted = loses_calls(1);
    let client = scripted.connect_with(reconnecting()).await;
    client.list_tools().await.unwrap();
    assert_eq!(client.call_tool("pay", ()).idempotent().await.unwrap().text(), "from 2");

    let scripted = loses_calls(1);
    let client = scripted.connect_with(reconnecting()).await;
    client.list_tools().await.unwrap();
    assert!(client.call_tool("look", ()).without_retry().await.unwrap_err().may_have_run());

    let scripted = ScriptedServer::new(
        OLD,
        |connection, method| if connection == 1 && method == "tools/list" { Die } else { Well },
    );
    let client = scripted.connect_with(reconnecting()).await;
    assert!(client.list_tools().without_retry().await.unwrap_err().may_have_run());
}

#[tokio::test(start_paused = true)]
async fn the_number_of_retries_of_a_call_is_limited() {
    let scripted = loses_calls(usize::MAX);
    let client = scripted.connect_with(reconnecting().retry(RetryPolicy::new().max_retries(3))).await;
    let mut events = client.events();
    client.list_tools().await.unwrap();

    let error = client.call_tool("look", ()).await.unwrap_err();
    assert!(error.may_have_run(), "{error}");
    assert_eq!(scripted.connections_of("tools/call"), [1, 2, 3, 4]);
    let retries: Vec<_> = so_far(&mut events).await.into_iter().filter(|word| word.starts_with("retrying")).collect();
    assert_eq!(retries, [1, 2, 3].map(|number| format!("retrying tools/call \"look\" {number}")));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_run_keeps_that_when_its_retry_is_not_sent() {
    let scripted = loses_calls(1);
    let client = scripted.connect_with(reconnecting()).await;
    scripted.refuse(usize::MAX);
    let error = client.call_tool("pay", ()).idempotent().timeout(5 * SECOND).await.unwrap_err();
    assert!(error.may_have_run() && error.is_disconnected(), "{error}");
    assert_eq!(scripted.connections_of("tools/call"), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_the_next_connection() {
    let scripted = loses_calls(1);
    let client = scripted.connect_with(reconnecting().retry(RetryPolicy::new().max_retries(1))).await;
    let calls: Vec<_> =
        (0..3).map(|_| client.call_tool("pay", ()).idempotent()).map(|call| tokio::spawn(call.into_future())).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().text(), "from 2");
    }
}

#[tokio::test(start_paused = true)]
async fn the_retry_budget_is_spent_and_refilled_by_calls() {
    // The first read on every connection is lost.
    let seen = Mutex::new(Vec::new());
    let scripted = ScriptedServer::new(OLD, move |connection, method| {
        let mut seen = seen.lock().unwrap();
        if method != "resources/read" || seen.contains(&connection) {
            return Well;
        }
        seen.push(connection);
        Die
    });
    let client = scripted.connect_with(reconnecting().retry(RetryPolicy::new().max_retries(5).budget(0.5, 2))).await;
    let mut events = client.events();
    let read = || client.read_resource("a://one").bypass_cache();

    // The budget allows two retries.
    let error = read().await.unwrap_err();
    assert!(error.may_have_run(), "{error}");
    assert_eq!(scripted.heard("resources/read").len(), 3);
    until(&mut events, "connected 4").await;
    // One call earns half a retry, which is not enough.
    assert!(read().await.is_err());
    until(&mut events, "connected 5").await;
    assert_eq!(scripted.heard("resources/read").len(), 4);
    for _ in 0..2 {
        client.ping().await.unwrap();
    }
    // Four calls earn two retries.
    assert!(read().await.is_err());
    assert_eq!(scripted.heard("resources/read").len(), 7);
}

#[tokio::test(start_paused = true)]
async fn without_retries_the_client_still_reconnects() {
    let scripted = ScriptedServer::new(
        OLD,
        |connection, method| if connection == 1 && method == "tools/list" { Die } else { Well },
    );
    let client = scripted.connect_with(reconnecting().without_retry()).await;
    assert!(client.list_tools().await.unwrap_err().may_have_run());
    assert_eq!(client.list_tools().await.unwrap().len(), 3);
    assert_eq!(scripted.connections_of("tools/list"), [1, 2]);
}
