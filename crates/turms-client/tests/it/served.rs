//! A client as a service: the messages of its callers pass through it.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::json;
use turms_client::{CancellationToken, Change, Client, ClientBuilder, Event, VersionCache, VersionChoice};
use turms_core::{
    CallContext, ClientRecord, Connection, Limits, NotifyFuture, Payload, Request, ResponseFuture, Service,
};
use turms_proto::method::Method as _;
use turms_proto::types::{
    Discover, ElicitResult, EmptyParams, Implementation, Initialize, InitializeParams, InitializeResult, LoggingLevel,
    Ping, ResourceParams, ServerCapabilities, SetLevel, SetLevelParams, Subscribe, SubscriptionFilter, Unsubscribe,
};
use turms_proto::{ErrorObject, Notification, ProtocolVersion};
use turms_server::{Context, Elicited, Progress, Resource, Server, ServerHandle, Tool};

fn builder() -> ClientBuilder {
    Client::builder("test", "1").version_cache(VersionCache::new())
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
    let warn = Tool::builder("warn").handler(|context: Context| async move {
        context.log(LoggingLevel::Info, "lower than wanted").await;
        context.log(LoggingLevel::Warning, "low").await;
    });
    let notes = Resource::builder("memo://notes").handler_sync(|| "milk");
    let server = Server::new("upstream", "1").tool(walk).tool(greet).tool(warn).resource(notes);
    let handle = server.handle();
    (server, handle)
}

/// Connects a caller to a client that is a service for a server in the same process.
async fn caller(configure: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Client, ServerHandle) {
    let (server, handle) = server();
    let served = builder().connect_service(server.build().unwrap()).await.unwrap();
    (configure(builder()).connect_service(served).await.unwrap(), handle)
}

#[tokio::test]
async fn calls_that_differ_by_era_are_forwarded_to_servers_of_every_era() {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25, ProtocolVersion::LATEST] {
        let (server, _) = server();
        let builder = builder().protocol_versions(VersionChoice::Only(version));
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
    let person = |_, _| async { Ok(ElicitResult::accept(json!({ "name": "Ann" }))?) };
    let (caller, _handle) = caller(|builder| builder.on_elicitation(person)).await;
    assert_eq!(caller.call_tool("greet", ()).await.unwrap().text(), "Hello, Ann!");
}

#[tokio::test]
async fn changes_reach_the_subscriptions_of_the_caller() {
    let (caller, handle) = caller(|builder| builder).await;
    let filter = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(["memo://notes".to_owned()]);
    let mut changes = caller.subscribe(filter.clone()).await.unwrap();
    assert_eq!(*changes.acknowledged(), filter);
    handle.notify_resource_updated("memo://notes");
    assert_eq!(changes.next().await, Some(Change::Resource { uri: "memo://notes".to_owned() }));
    let _subscription = caller.subscribe("memo://notes").await.unwrap();
}

#[tokio::test]
async fn log_messages_reach_the_caller_whose_call_they_belong_to() {
    let logs = |builder: ClientBuilder| builder.log_level(LoggingLevel::Warning);
    let (caller, _handle) = caller(logs).await;
    let mut events = caller.events();
    caller.call_tool("warn", ()).await.unwrap();
    loop {
        if let Some(Event::Log(message)) = events.next().await {
            assert_eq!((message.level, message.data.as_str()), (LoggingLevel::Warning, "\"low\""));
            return;
        }
    }
}

#[tokio::test]
async fn the_reason_of_a_cancellation_reaches_the_server() {
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::LATEST] {
        let (reasons, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let (started, mut running) = tokio::sync::mpsc::unbounded_channel();
        let wait = move |token: CancellationToken| {
            let (reasons, started) = (reasons.clone(), started.clone());
            async move {
                tokio::spawn(async move {
                    token.cancelled().await;
                    reasons.send(token.reason().map(str::to_owned)).unwrap();
                });
                started.send(()).unwrap();
                std::future::pending::<()>().await
            }
        };
        // Over byte streams, where a cancellation is a message.
        let router = Server::new("upstream", "1").tool(Tool::builder("wait").handler(wait)).build().unwrap();
        let (here, there) = tokio::io::duplex(4096);
        let (reader, writer) = tokio::io::split(there);
        tokio::spawn(Connection::server(reader, writer, &ProtocolVersion::ALL, Limits::default()).0.run(router));
        let (reader, writer) = tokio::io::split(here);
        let served = builder().protocol_version(version).connect_stream(reader, writer).await.unwrap();
        let (here, there) = tokio::io::duplex(4096);
        let (reader, writer) = tokio::io::split(there);
        tokio::spawn(Connection::server(reader, writer, &[ProtocolVersion::LATEST], Limits::default()).0.run(served));
        let (reader, writer) = tokio::io::split(here);
        let caller = builder().protocol_version(ProtocolVersion::LATEST).connect_stream(reader, writer).await.unwrap();

        let token = CancellationToken::new();
        let call = caller.call_tool("wait", ()).cancellation_token(&token);
        let cancelled = async {
            running.recv().await.unwrap();
            token.cancel_with_reason("the user pressed Escape");
        };
        let (outcome, ()) = tokio::join!(call, cancelled);
        assert!(outcome.unwrap_err().is_cancelled(), "{version}");
        assert_eq!(seen.recv().await.unwrap().as_deref(), Some("the user pressed Escape"), "{version}");
    }
}

#[tokio::test]
async fn input_requests_of_an_older_server_reach_the_caller_of_the_call() {
    let person = |_, _| async { Ok(ElicitResult::accept(json!({ "name": "Ann" }))?) };
    let (server, _handle) = server();
    let own = |_, _| async { Ok(ElicitResult::decline()) };
    let older = builder().protocol_version(ProtocolVersion::V2025_11_25).on_elicitation(own);
    let served = older.connect_service(server.build().unwrap()).await.unwrap();
    // The client as a service does not respond to `initialize`, so `Handshake` creates the session.
    let service = Handshake(served);
    let caller = builder().protocol_version(ProtocolVersion::V2025_06_18).on_elicitation(person);
    let caller = caller.connect_service(service).await.unwrap();
    assert_eq!(caller.call_tool("greet", ()).await.unwrap().text(), "Hello, Ann!");
}

/// A client as a service, with a handshake in front.
struct Handshake(Client);

impl Service for Handshake {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        match &*request.method {
            Initialize::NAME => {}
            Discover::NAME => {
                let error = ErrorObject::method_not_found(&request.method);
                return Box::pin(std::future::ready(Err(error.into())));
            }
            _ => return self.0.call(request, cx),
        }
        Box::pin(async move {
            let params: InitializeParams = request.params.take().unwrap();
            let session = cx.session().unwrap();
            session.set_client(Arc::new(ClientRecord::new(params.client_info, params.capabilities)));
            let info = Implementation::new("served", "1");
            Ok(Payload::new(InitializeResult::new(cx.version().as_str(), ServerCapabilities::new(), info)))
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        Service::notify(&self.0, notification, cx)
    }
}
