//! Resources, prompts, events, log levels and input requests of several servers.

use super::*;

#[tokio::test]
async fn resources_prompts_and_completions_find_their_server() {
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("home", local(notes("home")))
        .server("work", over_pipes("work", notes("work").protocol_versions([ProtocolVersion::V2025_06_18])))
        .connect()
        .await;
    let client = group.as_client();
    assert_eq!(text(&client.read_resource("work://index").await.unwrap()), "index of work");
    assert_eq!(text(&client.read_resource("work://note/7").await.unwrap()), "note 7 of work");
    assert_eq!(text(&client.read_resource("home://note/7").await.unwrap()), "note 7 of home");
    let uris: Vec<_> = client.list_resources().await.unwrap().into_iter().map(|resource| resource.uri).collect();
    assert_eq!(uris, ["home://index", "work://index"]);
    let templates = client.list_resource_templates().await.unwrap();
    let forms: Vec<_> = templates.into_iter().map(|template| template.uri_template).collect();
    assert_eq!(forms, ["home://note/{id}", "work://note/{id}"]);
    let error = client.read_resource("nowhere://at/all").await.unwrap_err();
    assert_eq!(error.target(), "resources/read \"nowhere://at/all\"");
    assert!(error.error_response().unwrap().is_resource_not_found());

    let prompts: Vec<_> = client.list_prompts().await.unwrap().into_iter().map(|prompt| prompt.name).collect();
    assert_eq!(prompts, ["home_summary", "work_summary"]);
    let prompt = client.get_prompt("work_summary", json!({ "name": "Ann" })).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("Summarise the notes of work for Ann."));

    let values = client.complete(Reference::prompt("work_summary"), "name", "A").await.unwrap().values;
    assert_eq!(values, ["A-for-work"]);
    let values = client.complete(Reference::resource("home://note/{id}"), "id", "1").await.unwrap().values;
    assert_eq!(values, ["1-home"]);
    let error = client.complete(Reference::prompt("nobody_summary"), "name", "A").await.unwrap_err();
    assert!(error.is_not_found());
}

#[tokio::test]
async fn a_resource_of_two_servers_is_read_from_the_first_and_reported() {
    let group = ClientGroup::builder(app())
        .server("one", local(notes("same")))
        .server("two", local(notes("same")))
        .connect()
        .await;
    let client = group.as_client();
    assert_eq!(client.list_resources().await.unwrap().len(), 1);
    assert_eq!(client.list_resource_templates().await.unwrap().len(), 1);
    let expected = [
        collision(CollisionKind::Resource, "same://index", ["one", "two"]),
        collision(CollisionKind::ResourceTemplate, "same://note/{id}", ["one", "two"]),
    ];
    assert_eq!(told(group.collisions()), expected);
    let before = group.client("two").unwrap().stats().connection.requests_sent;
    client.read_resource("same://index").await.unwrap();
    assert_eq!(group.client("two").unwrap().stats().connection.requests_sent, before);
}

#[tokio::test]
async fn an_unlisted_resource_is_requested_from_every_server() {
    let contents = json!({ "contents": [{ "uri": "hidden://x", "text": "found" }] });
    let group = ClientGroup::builder(app())
        .server("home", local(notes("home")))
        .server(
            "hidden",
            // `resources/templates/list` is an unknown method here.
            table(
                &json!({ "resources": {} }),
                &[("resources/list", json!({ "resources": [] })), ("resources/read hidden://x", contents)],
            ),
        )
        .connect()
        .await;
    let client = group.as_client();
    assert_eq!(text(&client.read_resource("hidden://x").await.unwrap()), "found");
    assert!(group.failures().is_empty(), "{:?}", group.failures());
}

#[tokio::test]
async fn cacheable_results_are_cached() {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = reads.clone();
    let server = Server::new("counting", "1").resource(
        ServerResource::builder("count://x").cache(Duration::from_secs(60), CacheScope::Private).handler_sync(
            move || {
                counted.fetch_add(1, Ordering::SeqCst);
                "x"
            },
        ),
    );
    let group = ClientGroup::builder(app())
        .server("counting", local(server))
        .server("home", local(notes("home")))
        .connect()
        .await;
    let client = group.as_client();
    for _ in 0..3 {
        client.read_resource("count://x").await.unwrap();
    }
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    client.read_resource("count://x").bypass_cache().await.unwrap();
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn events_of_all_servers_come_with_their_names() {
    let home = notes("home").build().unwrap();
    let work = notes("work").protocol_versions([OLDEST]).build().unwrap();
    let group = ClientGroup::builder(app())
        .server("home", LocalConnector::new(home.clone()))
        .server("work", Plug::default().connector("work", work.clone()))
        .connect()
        .await;
    let client = group.as_client();
    let mut named = group.events();
    let mut events = client.events();
    let _subscription = client.subscribe("home://index").await.unwrap();
    let work_changes = client.subscribe("work://index").await.unwrap();
    home.handle().notify_resource_updated("home://index");
    work.handle().notify_resource_updated("work://index");
    let mut heard = Vec::new();
    let mut uris = Vec::new();
    for _ in 0..2 {
        let updated = named.find(|server, event| match event {
            Event::ResourceUpdated { uri } => Some((server.to_owned(), uri)),
            _ => None,
        });
        heard.push(within("an event", updated).await.unwrap());
        let updated = events.find(|event| match event {
            Event::ResourceUpdated { uri } => Some(uri),
            _ => None,
        });
        uris.push(within("an event", updated).await.unwrap());
    }
    heard.sort();
    uris.sort();
    let pair = |server: &str| (server.to_owned(), format!("{server}://index"));
    assert_eq!(heard, [pair("home"), pair("work")]);
    assert_eq!(uris, ["home://index", "work://index"]);

    // The unsubscribe request is sent in the background: updates arrive until the server has processed it.
    drop(work_changes);
    let unsubscribed = async {
        loop {
            work.handle().notify_resource_updated("work://index");
            work.handle().add_tool(ServerTool::builder("extra").handler_sync(|| "")).unwrap();
            let is_update = |server: &str, event: Event| match event {
                Event::ResourceUpdated { .. } => Some(true),
                Event::ToolsChanged if server == "work" => Some(false),
                _ => None,
            };
            // The list change follows the update, on the same connection.
            if !named.find(is_update).await.unwrap() {
                return;
            }
            work.handle().remove_tool("extra");
        }
    };
    within("no update", unsubscribed).await;
    home.handle().notify_resource_updated("home://index");
    let next = named.find(|server, event| match event {
        Event::ResourceUpdated { .. } => Some(server.to_owned()),
        _ => None,
    });
    assert_eq!(within("an event", next).await.unwrap(), "home");
}

#[tokio::test]
async fn a_resource_that_was_subscribed_to_twice_is_unsubscribed() {
    let home = notes("home").protocol_versions([OLDEST]).build().unwrap();
    let group = ClientGroup::builder(app())
        .server("home", Plug::default().connector("home", home.clone()))
        .server("math", local(math()))
        .connect()
        .await;
    let client = group.as_client();
    let mut events = client.events();
    let (one, two) = (client.subscribe("home://index").await.unwrap(), client.subscribe("home://index").await.unwrap());
    let _note = client.subscribe("home://note/1").await.unwrap();
    drop((one, two));
    // The unsubscribe request is sent in the background: updates arrive until the server has processed it.
    let unsubscribed = async {
        loop {
            home.handle().notify_resource_updated("home://index");
            home.handle().notify_resource_updated("home://note/1");
            let updated = |event| match event {
                Event::ResourceUpdated { uri } => Some(uri),
                _ => None,
            };
            if events.find(updated).await.unwrap() == "home://note/1" {
                return;
            }
            events.find(updated).await.unwrap();
        }
    };
    within("no update", unsubscribed).await;
}

#[tokio::test]
async fn a_listen_request_reaches_every_server() {
    let home = notes("home").build().unwrap();
    let work = notes("work").protocol_versions([OLDEST]).build().unwrap();
    let group = ClientGroup::builder(app())
        .server("home", LocalConnector::new(home.clone()))
        .server("work", Plug::default().connector("work", work.clone()))
        .connect()
        .await;
    let filter = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions([
        "home://index".to_owned(),
        "work://note/1".to_owned(),
        "nowhere://x".to_owned(),
    ]);
    let mut listening = within("a change", group.as_client().subscribe(filter).into_future()).await.unwrap();
    let mut acknowledged = listening.acknowledged().clone();
    acknowledged.resource_subscriptions.as_mut().unwrap().sort();
    // A server of the newest revision also acknowledges resources that it does not have.
    let uris = ["home://index", "nowhere://x", "work://note/1"].map(str::to_owned);
    assert_eq!(acknowledged, SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(uris));
    home.handle().notify_resource_updated("nowhere://x");
    assert_eq!(within("a change", listening.next()).await, Some(Change::Resource { uri: "nowhere://x".to_owned() }));
    work.handle().notify_resource_updated("work://note/1");
    assert_eq!(within("a change", listening.next()).await, Some(Change::Resource { uri: "work://note/1".to_owned() }));
    home.handle().notify_resource_updated("home://index");
    assert_eq!(within("a change", listening.next()).await, Some(Change::Resource { uri: "home://index".to_owned() }));
    work.handle().remove_tool("read");
    assert_eq!(within("a change", listening.next()).await, Some(Change::ToolList));
    home.handle().remove_tool("read");
    assert_eq!(within("a change", listening.next()).await, Some(Change::ToolList));
    group.add("math", local(math())).await.unwrap();
    assert_eq!(within("a change", listening.next()).await, Some(Change::ToolList));
    group.remove("math").unwrap();
    assert_eq!(within("a change", listening.next()).await, Some(Change::ToolList));
    drop(group);
    assert_eq!(within("a change", listening.next()).await, None);
}

#[tokio::test]
async fn a_log_level_reaches_servers_with_logging_and_later_servers() {
    let logs = |version| {
        Server::new("logs", "1").protocol_versions([version]).tool(ServerTool::builder("say").handler(
            |context: Context| async move {
                context.log(LoggingLevel::Info, "info").await;
                context.log(LoggingLevel::Error, "error").await;
                "said"
            },
        ))
    };
    let group = ClientGroup::builder(app())
        .server("old", over_pipes("old", logs(ProtocolVersion::V2025_06_18)))
        .server("silent", table(&json!({ "tools": {} }), &[]))
        .server("dead", dead("dead and silent"))
        .connect()
        .await;
    let client = group.as_client();
    client.set_log_level(LoggingLevel::Error).await.unwrap();
    group.add("later", over_pipes("later", logs(ProtocolVersion::V2025_06_18))).await.unwrap();
    group.add("newest", over_pipes("newest", logs(NEWEST))).await.unwrap();
    for server in ["old", "later", "newest"] {
        let mut events = group.events();
        client.call_tool(format!("{server}_say"), ()).await.unwrap();
        let logged = events.find(|server, event| match event {
            Event::Log(message) => Some((server.to_owned(), message.level)),
            _ => None,
        });
        assert_eq!(within("an event", logged).await.unwrap(), (server.to_owned(), LoggingLevel::Error));
    }
}

#[tokio::test]
async fn input_requests_of_servers_go_through_the_group() {
    for version in [ProtocolVersion::V2025_06_18, NEWEST] {
        let app = app().on_elicitation(|_, cx| async move {
            assert!(["local", "pipes"].contains(&cx.server_name()), "{cx:?}");
            Ok(ElicitResult::accept(json!({ "name": "Ann" }))?)
        });
        let group = ClientGroup::builder(app)
            .server("math", local(math()))
            .server("local", local(notes("home").protocol_versions([version])))
            .server("pipes", over_pipes("pipes", notes("home").protocol_versions([version])))
            .connect()
            .await;
        let client = group.as_client();
        for tool in ["local_greet", "pipes_greet"] {
            assert_eq!(client.call_tool(tool, ()).await.unwrap().text(), "Hello, Ann!", "{version}");
        }
        let raw = client.request_raw("tools/call", json!({ "name": "pipes_greet" })).await.unwrap();
        let result: CallToolResult = raw.decode().unwrap();
        assert_eq!(result.text(), "Hello, Ann!");
        // The group uses the newest revision, independent of the servers.
        assert_eq!(result.result_type, Some(ResultType::Complete));
    }
}

#[tokio::test]
async fn output_is_validated_against_the_schema_of_the_tool() {
    let listed = json!({ "tools": [{
        "name": "lie",
        "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object", "required": ["truth"] }
    }]});
    let lie = json!({ "content": [], "structuredContent": { "lie": true }, "resultType": "complete" });
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("liar", table(&json!({ "tools": {} }), &[("tools/list", listed), ("tools/call", lie)]))
        .connect()
        .await;
    let client = group.as_client();
    let error = client.call_tool("liar_lie", ()).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Output(_))), "{error}");
    assert_eq!(error.target(), "tools/call \"liar_lie\"");
}

#[tokio::test]
async fn a_server_with_a_failing_list_is_left_out_and_reported() {
    let broken = table(&json!({ "tools": {} }), &[("tools/list", json!({ "tools": "none" }))]);
    let group = ClientGroup::builder(app()).server("broken", broken).server("math", local(math())).connect().await;
    assert!(group.failures().is_empty());
    assert_eq!(tools_of(&group.as_client()).await, ["math_add", "math_wait"]);
    let failures = group.failures();
    assert!(matches!(failures.as_slice(), [(name, GroupError::List(_))] if name == "broken"), "{failures:?}");
    assert_eq!(group.servers()[0].status, ConnectionStatus::Ready);
}
