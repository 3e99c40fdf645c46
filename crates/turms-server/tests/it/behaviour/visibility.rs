//! Hidden items are invisible to every method.

use std::sync::atomic::AtomicBool;

use super::*;

#[derive(Deserialize, JsonSchema)]
struct UserId {
    id: u32,
}

/// A server that hides items with "secret" in their names while `hidden` is set.
fn hiding(hidden: &Arc<AtomicBool>) -> Router {
    let hidden = hidden.clone();
    Server::new("s", "1")
        .tool(Tool::builder("open").handler_sync(|| ""))
        .tool(Tool::builder("secret").handler_sync(|| ""))
        .prompt(
            Prompt::builder("secret")
                .completion("name", |_: CompletionRequest| async { vec!["completed".to_owned()] })
                .handler_sync(|Args(name): Args<Name>| name.name),
        )
        .resource(Resource::builder("open://x").handler_sync(|| ""))
        .resource(Resource::builder("secret://x").handler_sync(|| ""))
        .resource(
            Resource::builder("secret-users://{id}")
                .completion("id", |_: CompletionRequest| async { vec!["completed".to_owned()] })
                .handler_sync(|Args(user): Args<UserId>| user.id.to_string()),
        )
        .cache(Duration::from_secs(60), CacheScope::Public)
        .visible_if(move |item, context| {
            // A visibility check can always read the client info.
            let is_known = context.client_info().is_some_and(|client| client.name == "test-client");
            !item.name().contains("secret") || is_known && !hidden.load(Ordering::SeqCst)
        })
        .build()
        .unwrap()
}

async fn listen(client: &TestClient, uris: &[&str]) -> Vec<String> {
    let uris: Vec<_> = uris.iter().map(|uri| (*uri).to_owned()).collect();
    let filter = SubscriptionFilter::new().resource_subscriptions(uris);
    let listener = client.clone();
    tokio::spawn(async move { listener.request::<Listen>(&ListenParams::new(filter)).await });
    client
        .expect_notification::<SubscriptionsAcknowledgedNotification>()
        .await
        .notifications
        .resource_subscriptions
        .unwrap_or_default()
}

#[tokio::test]
async fn a_hidden_resource_can_be_neither_subscribed_to_nor_completed() {
    let router = hiding(&Arc::new(AtomicBool::new(true)));
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        if version.has(Ability::ListenStreams) {
            // Hidden items are indistinguishable from missing ones.
            let asked = ["secret://x", "open://x", "secret-users://1", "nothing://x"];
            assert_eq!(listen(&client, &asked).await, ["open://x"]);
        } else {
            for uri in ["secret://x", "secret-users://1"] {
                let error = client.request::<Subscribe>(&ResourceParams::new(uri)).await.unwrap_err();
                let unknown = client.request::<Subscribe>(&ResourceParams::new("nothing://x")).await.unwrap_err();
                assert_eq!(error.server_error().code, unknown.server_error().code, "{version} {uri}");
            }
            client.request::<Subscribe>(&ResourceParams::new("open://x")).await.unwrap();
        }
        for uri in ["secret://x", "secret-users://1", "open://x"] {
            router.handle().notify_resource_updated(uri);
        }
        assert_eq!(client.expect_notification::<ResourceUpdatedNotification>().await.uri, "open://x", "{version}");
        for reference in [
            json!({ "type": "ref/prompt", "name": "secret" }),
            json!({ "type": "ref/resource", "uri": "secret-users://{id}" }),
        ] {
            let params = json!({ "ref": reference, "argument": { "name": "id", "value": "" } });
            let error = client.request_raw("completion/complete", Object::encode(&params).unwrap()).await.unwrap_err();
            assert!(matches!(error.server_error().code.0, -32602 | -32002), "{version} {reference}: {error}");
        }
    }
}

#[tokio::test]
async fn updates_of_what_has_become_hidden_are_not_delivered() {
    for version in ProtocolVersion::ALL {
        let hidden = Arc::new(AtomicBool::new(false));
        let router = hiding(&hidden);
        let client = TestClient::connect(&router, version).await;
        let uris = ["secret://x", "secret-users://1", "open://x"];
        if version.has(Ability::ListenStreams) {
            assert_eq!(listen(&client, &uris).await, uris);
        } else {
            for uri in uris {
                client.request::<Subscribe>(&ResourceParams::new(uri)).await.unwrap();
            }
        }
        router.handle().notify_resource_updated("secret://x");
        assert_eq!(client.expect_notification::<ResourceUpdatedNotification>().await.uri, "secret://x", "{version}");
        hidden.store(true, Ordering::SeqCst);
        router.handle().notify_resource_updated("secret://x");
        router.handle().notify_resource_updated("secret-users://1");
        router.handle().notify_resource_updated("open://x");
        assert_eq!(client.expect_notification::<ResourceUpdatedNotification>().await.uri, "open://x", "{version}");
        // The removal of an item is announced.
        assert!(router.handle().remove_resource("open://x"));
        router.handle().notify_resource_updated("open://x");
        assert_eq!(client.expect_notification::<ResourceUpdatedNotification>().await.uri, "open://x", "{version}");
        assert!(client.notifications().iter().all(|method| method != "notifications/resources/updated"), "{version}");
    }
}

#[tokio::test]
async fn lists_that_depend_on_the_caller_are_not_public() {
    let router = hiding(&Arc::new(AtomicBool::new(true)));
    let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
    let tools = client.request::<ListTools>(&PaginatedParams::new()).await.unwrap();
    assert_eq!((tools.ttl_ms, tools.cache_scope), (Some(60_000), Some(CacheScope::Private)));
    let resources = client.request::<ListResources>(&PaginatedParams::new()).await.unwrap();
    assert_eq!(resources.cache_scope, Some(CacheScope::Private));
    let templates = client.request::<ListResourceTemplates>(&PaginatedParams::new()).await.unwrap();
    assert_eq!(templates.cache_scope, Some(CacheScope::Private));
    let prompts = client.request::<ListPrompts>(&PaginatedParams::new()).await.unwrap();
    assert_eq!(prompts.cache_scope, Some(CacheScope::Private));
    let open = Server::new("s", "1")
        .tool(Tool::builder("open").handler_sync(|| ""))
        .cache(Duration::from_secs(60), CacheScope::Public)
        .build()
        .unwrap();
    let client = TestClient::connect(&open, ProtocolVersion::LATEST).await;
    let tools = client.request::<ListTools>(&PaginatedParams::new()).await.unwrap();
    assert_eq!(tools.cache_scope, Some(CacheScope::Public));
}

/// A template must not serve the URI of a hidden resource in another spelling.
#[tokio::test]
async fn a_hidden_resource_is_hidden_in_every_spelling() {
    let resource = |uri: &str| Resource::builder(uri).handler_sync(|| "one");
    let family = |uri: &str| Resource::builder(uri).handler_sync(|Args(name): Args<Name>| name.name);
    let router = Server::new("s", "1")
        .resource(resource("note://private"))
        .resource(resource("note://private!"))
        .resource(resource("note://gr\u{fc}n"))
        .resource(resource("note://open"))
        .resource(family("private://secret/{name}"))
        .resource(family("private://{top}/{name}"))
        .resource(family("note://{name}"))
        .visible_if(|item, _| {
            let name = item.name();
            !["note://private", "note://gr", "private://secret"].iter().any(|hidden| name.starts_with(hidden))
        })
        .build()
        .unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        let read = async |uri: &str| {
            let params = ReadResourceParams::new(uri);
            let result: Result<ReadResourceResult, _> = client.request_rounds::<ReadResource, _>(&params).await;
            result.ok().map(|result| (result.contents[0].uri.clone(), result.contents[0].text.clone().unwrap()))
        };
        for hidden in [
            "note://private",
            "note://%70rivate",
            "note://privat%65",
            "note://private!",
            "note://private%21",
            "note://gr\u{fc}n",
            "note://gr%c3%bcn",
            "note://gr%C3%BCn",
            "private://secret/x",
            "private://%73ecret/x",
        ] {
            assert_eq!(read(hidden).await, None, "{version} {hidden}");
        }
        for (uri, text) in [
            ("note://open", "one"),
            ("note://op%65n", "one"),
            ("note://other", "other"),
            ("note://oth%65r", "other"),
            ("note://50%25", "50%"),
            ("note://a%2Fb", "a/b"),
            ("private://top/x", "x"),
        ] {
            assert_eq!(read(uri).await, Some((uri.to_owned(), text.to_owned())), "{version} {uri}");
        }
    }
}

#[test]
fn two_spellings_of_one_uri_are_a_duplicate() {
    let resource = |uri: &str| Resource::builder(uri).handler_sync(|| "");
    let server = Server::new("s", "1").resource(resource("note://a~%c3%bc")).resource(resource("note://%61~\u{fc}"));
    let error = server.build().unwrap_err().to_string();
    assert!(error.contains(": registered twice: at ") && !error.contains("through a handle"), "{error}");
    let handle = Server::new("s", "1").resource(resource("note://a%2Fb")).resource(resource("note://a/b")).handle();
    assert!(handle.add_resource(resource("note://a%2fb")).is_err());
    assert!(handle.remove_resource("note://%61%2fb") && handle.remove_resource("note://a/b"));
}
