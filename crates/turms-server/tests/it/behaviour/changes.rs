//! Session state, notifications of changes, and layers.

use super::*;
use turms_core::{CallContext, NotifyFuture};
use turms_proto::Notification;

#[tokio::test]
async fn sessions_keep_state_and_stateless_requests_do_not() {
    everywhere(|client, router, _| async move {
        if client.version().has(Ability::Handshake) {
            assert_eq!(text_of(&client.call_tool("counter", json!({})).await.unwrap()), "1");
            assert_eq!(text_of(&client.call_tool("counter", json!({})).await.unwrap()), "2");
            assert_eq!(router.handle().sessions().len(), 1);
        } else {
            assert_eq!(client.call_tool("counter", json!({})).await.unwrap_err().server_error().code.0, -32603);
        }
    })
    .await;
}

#[tokio::test]
async fn changes_are_sent_to_subscribed_clients() {
    everywhere(|client, router, _| async move {
        let handle = router.handle();
        let stateless = client.version().has(Ability::ListenStreams);
        if stateless {
            let filter = SubscriptionFilter::new()
                .tools_list_changed(true)
                .resource_subscriptions(vec!["config://app".to_owned()]);
            let listener = client.clone();
            tokio::spawn(async move { listener.request::<Listen>(&ListenParams::new(filter)).await });
            let acknowledged = client.expect_notification::<SubscriptionsAcknowledgedNotification>().await;
            assert_eq!(acknowledged.notifications.tools_list_changed, Some(true));
            assert!(acknowledged.meta.unwrap().subscription_id().unwrap().is_some());
        } else {
            client.request::<Subscribe>(&ResourceParams::new("config://app")).await.unwrap();
        }
        handle.add_tool(Tool::builder("late").handler_sync(|| "here")).unwrap();
        let changed = client.expect_notification::<ToolListChangedNotification>().await;
        assert_eq!(changed.meta.is_some(), stateless);
        assert_eq!(text_of(&client.call_tool("late", json!({})).await.unwrap()), "here");
        assert!(handle.remove_tool("late") && !handle.remove_tool("late"));
        client.expect_notification::<ToolListChangedNotification>().await;
        assert!(client.call_tool("late", json!({})).await.is_err());

        handle.notify_resource_updated("data://blob");
        handle.notify_resource_updated("config://app");
        assert_eq!(client.expect_notification::<ResourceUpdatedNotification>().await.uri, "config://app");
        handle.add_prompt(Prompt::builder("p").handler_sync(|| "hi")).unwrap();
        if stateless {
            handle.notify_resource_updated("config://app");
            client.expect_notification::<ResourceUpdatedNotification>().await;
            assert_eq!(client.notifications(), Vec::<String>::new(), "nothing outside the filter");
        } else {
            client.expect_notification::<PromptListChangedNotification>().await;
            client.request::<Unsubscribe>(&ResourceParams::new("config://app")).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_tool_of_one_session_is_visible_only_there() {
    let router = router();
    let one = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    let session = router.handle().sessions().remove(0);
    let other = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    session.add_tool(Tool::builder("mine").handler_sync(|| "yours")).unwrap();
    one.expect_notification::<ToolListChangedNotification>().await;
    assert_eq!(text_of(&one.call_tool("mine", json!({})).await.unwrap()), "yours");
    let names = |list: ListToolsResult| list.tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    assert!(names(one.request::<ListTools>(&PaginatedParams::new()).await.unwrap()).contains(&"mine".to_owned()));
    assert!(!names(other.request::<ListTools>(&PaginatedParams::new()).await.unwrap()).contains(&"mine".to_owned()));
    assert!(other.call_tool("mine", json!({})).await.is_err());
    assert!(session.remove_tool("mine") && !session.remove_tool("mine"));
    one.expect_notification::<ToolListChangedNotification>().await;
    assert!(one.call_tool("mine", json!({})).await.is_err());
}

#[tokio::test]
async fn a_layer_in_front_of_one_tool_sees_its_call_and_can_add_to_it() {
    #[derive(Clone)]
    struct Stamp(String);
    #[derive(Clone)]
    struct StampLayer;
    struct Stamping(Arc<dyn turms_core::Service>);
    impl turms_core::layer::Layer<Arc<dyn turms_core::Service>> for StampLayer {
        type Service = Stamping;
        fn layer(&self, inner: Arc<dyn turms_core::Service>) -> Stamping {
            Stamping(inner)
        }
    }
    impl turms_core::Service for Stamping {
        fn call(&self, request: turms_core::Request, mut cx: CallContext) -> turms_core::ResponseFuture {
            let seen = request.params.as_raw().and_then(|params| Some(params.member("arguments")?.to_string()));
            cx.insert_extension(Stamp(seen.unwrap_or_default()));
            self.0.call(request, cx)
        }

        fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
            self.0.notify(notification, cx)
        }
    }
    let router = Server::new("s", "1")
        .tool(Tool::builder("stamped").layer(StampLayer).handler(
            |Extension(Stamp(seen)): Extension<Stamp>, Args(add): Args<Add>| async move { format!("{seen} {}", add.a) },
        ))
        .build()
        .unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
    let result = client.call_tool("stamped", json!({ "a": 1, "b": 2 })).await.unwrap();
    assert_eq!(result.text(), r#"{"a":1,"b":2} 1"#);
}

#[tokio::test]
async fn every_change_reaches_a_client_with_a_full_queue() {
    let router = router();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    client.request::<Subscribe>(&ResourceParams::new("data://blob")).await.unwrap();
    client.request::<Subscribe>(&ResourceParams::new("config://app")).await.unwrap();
    // Nothing is sent before this task yields, so the queue is full long before the last one.
    for _ in 0..2000 {
        router.handle().notify_resource_updated("data://blob");
    }
    router.handle().notify_resource_updated("config://app");
    while client.expect_notification::<ResourceUpdatedNotification>().await.uri != "config://app" {}
}

#[tokio::test]
async fn a_blocking_tool_does_not_delay_other_calls() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let router = Server::new("s", "1")
        .tool(Tool::builder("block").handler_blocking(move |Args(add): Args<Add>| {
            gate.lock().unwrap().recv().unwrap();
            add.a
        }))
        .tool(Tool::builder("quick").handler_sync(|| "done"))
        .build()
        .unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
    let blocked = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("block", json!({ "a": 1, "b": 2 })).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(client.call_tool("quick", json!({})).await.unwrap().text(), "done");
    release.send(()).unwrap();
    assert_eq!(blocked.await.unwrap().unwrap().text(), "1");
    assert!(client.call_tool("block", json!({ "a": "x" })).await.unwrap().is_error());
}

#[tokio::test]
async fn the_number_of_subscribed_resources_is_limited() {
    let router = router();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    for id in 0..1024 {
        client.request::<Subscribe>(&ResourceParams::new(format!("users://{id}/profile"))).await.unwrap();
    }
    let error = client.request::<Subscribe>(&ResourceParams::new("config://app")).await.unwrap_err();
    assert_eq!(error.server_error().message, "at most 1024 resources can be watched at once");
    let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
    let uris: Vec<_> = (0..1025).map(|id| format!("users://{id}/profile")).collect();
    let filter = SubscriptionFilter::new().resource_subscriptions(uris);
    assert_eq!(client.request::<Listen>(&ListenParams::new(filter)).await.unwrap_err().server_error().code.0, -32602);
}

#[tokio::test]
async fn a_hidden_tool_is_neither_seen_nor_called() {
    let router = Server::new("s", "1")
        .tool(Tool::builder("open").handler_sync(|| ""))
        .tool(Tool::builder("secret").handler_sync(|| ""))
        .prompt(Prompt::builder("secret").handler_sync(|| ""))
        .resource(Resource::builder("secret://x").handler_sync(|| ""))
        .visible_if(|item, _| !item.name().starts_with("secret"))
        .build()
        .unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
    let list = client.request::<ListTools>(&PaginatedParams::new()).await.unwrap();
    assert_eq!(list.tools.len(), 1);
    assert_eq!(client.call_tool("secret", json!({})).await.unwrap_err().server_error().code.0, -32602);
    assert!(client.request::<ListPrompts>(&PaginatedParams::new()).await.unwrap().prompts.is_empty());
    assert!(client.request::<GetPrompt>(&GetPromptParams::new("secret")).await.is_err());
    assert!(client.request::<ListResources>(&PaginatedParams::new()).await.unwrap().resources.is_empty());
    assert!(client.request::<ReadResource>(&ReadResourceParams::new("secret://x")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn layers_apply_to_the_server_or_to_one_item() {
    let once = || RateLimitLayer::new(1, Duration::from_secs(60));
    let router = Server::new("s", "1")
        .tool(Tool::builder("limited").layer(once()).handler_sync(|| "ran"))
        .tool(Tool::builder("slow").handler(|| async {
            std::future::pending::<()>().await;
            ""
        }))
        .prompt(Prompt::builder("limited").layer(once()).handler_sync(|| "ran"))
        .resource(Resource::builder("x://limited").layer(once()).handler_sync(|| "ran"))
        .resource(Resource::builder("x://free").handler_sync(|| "ran"))
        .layer(TimeoutLayer::new(Duration::from_secs(5)))
        .layer(TraceLayer::new())
        .build()
        .unwrap();
    for version in ProtocolVersion::ALL {
        tokio::time::advance(Duration::from_secs(60)).await;
        let client = TestClient::connect(&router, version).await;
        assert_eq!(client.call_tool("limited", json!({})).await.unwrap().text(), "ran");
        let refused = client.call_tool("limited", json!({})).await.unwrap_err();
        assert!(refused.server_error().message.starts_with("tools/call: too many calls"), "{refused}");
        let get = async || client.request_rounds::<GetPrompt, _>(&GetPromptParams::new("limited")).await;
        assert!(get().await.is_ok() && get().await.is_err());
        let read = async |uri: &str| client.request_rounds::<ReadResource, _>(&ReadResourceParams::new(uri)).await;
        let contents = read("x://limited").await.unwrap().contents;
        assert_eq!((contents[0].uri.as_str(), contents[0].text.as_deref()), ("x://limited", Some("ran")));
        assert!(read("x://limited").await.is_err() && read("x://free").await.is_ok());
        let slow = client.call_tool("slow", json!({})).await.unwrap_err();
        assert_eq!(slow.server_error().message, "tools/call: no response within 5 s");
    }
}

#[cfg(feature = "tracing-subscriber-0_3")]
#[tokio::test]
async fn tracing_events_of_a_handler_reach_its_caller() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let subscriber = tracing_subscriber::registry().with(turms_server::ForwardTracing::new());
    let _guard = tracing::subscriber::set_default(subscriber);
    let router = Server::new("s", "1")
        .forward_tracing()
        .tool(Tool::builder("speak").handler(|| async {
            tracing::info!(target: "speaker", answer = 42, "thinking");
            tokio::task::yield_now().await;
            tracing::warn!("late");
            tracing::trace!("whisper");
            ""
        }))
        .build()
        .unwrap();
    tracing::error!("outside any call");
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect_with(&router, version, person().log_level(LoggingLevel::Info)).await;
        client.call_tool("speak", json!({})).await.unwrap();
        let first = client.expect_notification::<LoggingMessageNotification>().await;
        assert_eq!(first.data.as_str(), r#"{"answer":42,"message":"thinking"}"#);
        assert_eq!((first.level, first.logger.as_deref()), (LoggingLevel::Info, Some("speaker")));
        assert_eq!(client.expect_notification::<LoggingMessageNotification>().await.data.as_str(), "\"late\"");
        assert_eq!(client.notifications(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_server_sends_custom_notifications_to_its_sessions() {
    let router = Server::new("s", "1").build().unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    router.handle().broadcast(
        &Notification::new::<LoggingMessageNotification>(&LogMessage::new(LoggingLevel::Alert, RawJson::NULL)).unwrap(),
    );
    assert_eq!(client.expect_notification::<LoggingMessageNotification>().await.level, LoggingLevel::Alert);
    router.handle().log(LoggingLevel::Debug, "too low");
    router.handle().log(LoggingLevel::Error, "high enough");
    assert_eq!(client.expect_notification::<LoggingMessageNotification>().await.data.as_str(), "\"high enough\"");
}

#[tokio::test]
async fn custom_notifications_are_handled() {
    let counters = Arc::default();
    let router = server_with(&counters).build().unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    let ring = Notification::raw("fixture/ring", None);
    client.connection().peer().notify_raw(ring).await.unwrap();
    within("the notification", counters.reaches("rung", 1)).await;
}

#[tokio::test]
async fn methods_of_undeclared_capabilities_are_unknown() {
    let router = Server::new("s", "1").build().unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        for method in
            ["tools/list", "tools/call", "resources/list", "resources/read", "prompts/list", "completion/complete"]
        {
            let params = Object::encode(&json!({
                "name": "x", "uri": "x", "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "", "value": "" }
            }));
            let error = client.request_raw(method, params.unwrap()).await.unwrap_err();
            assert_eq!(error.server_error().code.0, -32601, "{method}");
        }
    }
}

#[tokio::test]
async fn custom_methods_and_the_fallback_are_called() {
    let router = server_with(&Arc::default())
        .fallback(|method, _: RawJson, _| async move { Ok::<_, turms_proto::ErrorObject>(method) })
        .build()
        .unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        let twice = client.request_raw("fixture/twice", Object::encode(&json!({ "n": 21 })).unwrap()).await.unwrap();
        assert_eq!(twice.member("n").unwrap().as_str(), "42");
        assert_eq!(twice.member("resultType").is_some(), version.has(Ability::ResultType));
        let error = client.request_raw("fixture/twice", Object::new()).await.unwrap_err();
        assert_eq!(error.server_error().message, "params: missing field \"n\"");
        assert_eq!(client.request_raw("mine/else", Object::new()).await.unwrap().as_str(), "\"mine/else\"");
    }
}

#[tokio::test]
async fn hooks_are_called_for_sessions_and_shutdown_ends_them() {
    let (opened, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (open, close) = (opened.clone(), closed.clone());
    let once = std::sync::Mutex::new(false);
    let router = Server::new("s", "1")
        .on_session_start(move |session, context| {
            assert!(!std::mem::replace(&mut *once.lock().unwrap(), true), "a session starts once");
            assert_eq!(session.client_info().unwrap().name, "test-client");
            assert_eq!(context.client_info().unwrap().name, "test-client");
            open.notify_one();
            async { Ok(()) }
        })
        .on_session_end(move |_, reason| {
            assert_eq!(reason, turms_server::CloseReason::Shutdown);
            close.notify_one();
        })
        .build()
        .unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_11_25).await;
    opened.notified().await;
    client.notify::<InitializedNotification>(&EmptyParams::new()).await.unwrap();
    assert_eq!(router.handle().sessions().len(), 1);
    router.handle().shutdown();
    closed.notified().await;
    client.connection().closed().await;
    assert_eq!(router.handle().sessions().len(), 0);
}

#[tokio::test]
async fn an_invalid_item_is_a_build_error() {
    let bad_name = Tool::builder("no spaces").handler_sync(|| "");
    let error = Server::new("s", "1").tool(bad_name).build().unwrap_err();
    assert!(error.to_string().starts_with("cannot build server \"s\": tool \"no spaces\": a name is"), "{error}");
    let remote = Object::encode(&json!({ "type": "object", "$ref": "https://example.com/x.json" })).unwrap();
    let error = Server::new("s", "1").tool(Tool::builder("t").input_schema(remote).handler_sync(|| "")).build();
    assert!(error.unwrap_err().to_string().contains("tool \"t\": invalid input schema: "));
    let error = Server::new("s", "1").resource(Resource::builder("x://{").handler_sync(|| "")).build().unwrap_err();
    assert!(error.to_string().starts_with("cannot build server \"s\": resource \"x://{\":"), "{error}");
}

#[tokio::test]
async fn a_session_stores_one_value_of_each_type() {
    let router = router();
    let _client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    let session = router.handle().sessions().remove(0);
    assert_eq!(session.insert(1_u8), None);
    assert_eq!(session.insert(2_u8).as_deref(), Some(&1));
    assert_eq!(session.insert("text"), None);
    let same = router.handle().sessions().remove(0);
    assert_eq!(same.get::<u8>().as_deref(), Some(&2));
    assert_eq!(*session.get_or_insert_with(|| 3_u8), 2);
    assert_eq!(session.remove::<u8>().as_deref(), Some(&2));
    assert_eq!((session.get::<u8>(), session.remove::<u8>()), (None, None));
    assert_eq!(*session.get_or_insert_with(|| 3_u8), 3);
    assert_eq!(session.get::<u8>().as_deref(), Some(&3));
    assert_eq!(session.get::<&str>().as_deref(), Some(&"text"));
}

#[tokio::test]
async fn a_handler_takes_the_server() {
    let add = |server: turms_server::ServerHandle| {
        server.replace_tool(Tool::builder("added").handler_sync(|| "here")).unwrap();
    };
    let router = Server::new("s", "1").tool(Tool::builder("add").handler_sync(add)).build().unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        client.call_tool("add", json!({})).await.unwrap();
        assert_eq!(text_of(&client.call_tool("added", json!({})).await.unwrap()), "here");
        assert!(router.handle().remove_tool("added"));
    }
}

#[tokio::test]
async fn a_handle_waits_for_the_shutdown() {
    let handle = Server::new("s", "1").handle();
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.wait_for_shutdown().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    handle.shutdown();
    waiting.await.unwrap();
}
