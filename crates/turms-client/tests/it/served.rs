//! A client that is served: what its callers send and get passes through it.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::json;
use turms_client::{Change, Client, ClientBuilder, VersionChoice, VersionMemory};
use turms_core::{CallContext, Request, Service as _};
use turms_proto::ProtocolVersion;
use turms_proto::types::{
    ElicitResult, EmptyParams, LoggingLevel, Ping, ResourceParams, SetLevel, SetLevelParams, Subscribe,
    SubscriptionFilter, Unsubscribe,
};
use turms_server::{Context, Elicited, Progress, Resource, Server, ServerHandle, Tool};

fn builder() -> ClientBuilder {
    Client::builder("test", "1").version_memory(VersionMemory::new())
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Name {
    name: String,
}

fn server() -> (Server, ServerHandle) {
    let walk = Tool::builder("walk").handler(|progress: Progress| async move {
        for step in 1..=3 {
            progress.report(step).await;
        }
        "there"
    });
    let greet = Tool::builder("greet").handler(|context: Context| async move {
        match context.elicit::<Name>("Who?").await {
            Ok(Elicited::Accepted(Name { name })) => Ok(format!("Hello, {name}!")),
            Ok(_) => Ok("Hello!".to_owned()),
            Err(error) => Err(error),
        }
    });
    let notes = Resource::builder("memo://notes").handler_sync(|| "milk");
    let server = Server::new("upstream", "1").tool(walk).tool(greet).resource(notes);
    let handle = server.handle();
    (server, handle)
}

/// A caller of a served client of a server in this process.
async fn caller(configure: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Client, ServerHandle) {
    let (server, handle) = server();
    let served = builder().connect_service(server.build().unwrap()).await.unwrap();
    (configure(builder()).connect_service(served).await.unwrap(), handle)
}

#[tokio::test]
async fn calls_that_differ_by_era_are_forwarded_to_servers_of_every_era() {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25, ProtocolVersion::LATEST] {
        let (server, _) = server();
        let builder = builder().versions(VersionChoice::Only(version));
        let client = builder.connect_service(server.build().unwrap()).await.unwrap();
        let resource = || ResourceParams::new("memo://notes");
        let requests = [
            Request::new::<Ping>(EmptyParams::new()),
            Request::new::<SetLevel>(SetLevelParams::new(LoggingLevel::Error)),
            Request::new::<Subscribe>(resource()),
            Request::new::<Unsubscribe>(resource()),
        ];
        for request in requests {
            let method = request.method.clone();
            let response = client.call(request, CallContext::in_process()).await;
            assert!(response.is_ok(), "{method} of {version}: {response:?}");
        }
    }
}

#[tokio::test]
async fn progress_reaches_the_caller_with_its_own_token() {
    let (caller, _handle) = caller(|builder| builder).await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = reports.clone();
    let call =
        caller.call_tool("walk", ()).on_progress(move |report| seen.lock().unwrap().push(report.progress.clone()));
    assert_eq!(call.await.unwrap().text(), "there");
    assert_eq!(reports.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn input_requests_reach_a_caller_that_gives_input() {
    let person = |_| async { ElicitResult::accept(turms_proto::Object::encode(&json!({ "name": "Ann" })).unwrap()) };
    let (caller, _handle) = caller(|builder| builder.on_elicitation(person)).await;
    assert_eq!(caller.call_tool("greet", ()).await.unwrap().text(), "Hello, Ann!");
}

#[tokio::test]
async fn changes_reach_the_subscriptions_of_the_caller() {
    let (caller, handle) = caller(|builder| builder).await;
    let filter = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(["memo://notes".to_owned()]);
    let mut changes = caller.listen(filter.clone()).await.unwrap();
    assert_eq!(*changes.acknowledged(), filter);
    handle.resource_updated("memo://notes");
    assert_eq!(changes.next().await, Some(Change::Resource { uri: "memo://notes".to_owned() }));
    caller.subscribe("memo://notes").await.unwrap();
    caller.unsubscribe("memo://notes").await.unwrap();
}
