//! The scopes that items need, and the callers that have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use turms_core::layer::{Next, from_fn};
use turms_core::{CallContext, ErrorOrigin, Payload, Remote, Request, Service as _, ServiceError};
use turms_proto::types::{CacheScope, TASKS_EXTENSION, key};
use turms_proto::{ErrorObject, Object, RawJson};
use turms_server::{
    CompletionRequest, Context, InsufficientScopeError, Principal, Prompt, Resource, Router, Server, Tool, ToolError,
};

fn raw(value: Value) -> RawJson {
    serde_json::from_value(value).unwrap()
}

/// Calls a method as a caller over a network.
async fn call_over_network(
    router: &Router,
    principal: Option<&Principal>,
    method: &str,
    params: Value,
) -> Result<Value, ServiceError> {
    let mut cx = CallContext::in_process();
    cx.insert_extension(Remote);
    call_in(router, cx, principal, method, params).await
}

async fn call_in(
    router: &Router,
    cx: CallContext,
    principal: Option<&Principal>,
    method: &str,
    params: Value,
) -> Result<Value, ServiceError> {
    let capabilities = json!({ key::CLIENT_CAPABILITIES: { "extensions": { TASKS_EXTENSION: {} } } });
    let meta: Object = serde_json::from_value(capabilities).unwrap();
    let mut cx = cx.with_meta(Some(meta.into()));
    if let Some(principal) = principal {
        cx.insert_extension(principal.clone());
    }
    let request = Request::raw(method.to_owned(), Payload::json(raw(params)));
    let result = router.call(request, cx).await?;
    Ok(serde_json::from_str(result.into_raw().unwrap().as_str()).unwrap())
}

/// What the handlers and layers of items have counted.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A server whose items all need the scopes `a` and `b`.
fn server(runs: &Runs) -> Server {
    let [tool, layer, task, prompt, resource, template, words] = std::array::from_fn(|_| runs.clone());
    let counted = from_fn(move |request: Request, cx: CallContext, next: Next| {
        layer.add();
        next.run(request, cx)
    });
    Server::new("s", "1")
        .tool(Tool::builder("write").scopes(["a", "b"]).layer(counted).handler_sync(move || tool.add()))
        .tool(Tool::builder("later").scopes(["a", "b"]).task().handler_sync(move || task.add()))
        .tool(Tool::builder("free").handler_sync(|| "free"))
        .prompt(
            Prompt::builder("ask")
                .scopes(["a", "b"])
                .completion("topic", move |_: CompletionRequest| {
                    words.add();
                    async { vec!["one"] }
                })
                .handler_sync(move || {
                    prompt.add();
                    "?"
                }),
        )
        .resource(Resource::builder("memo://one").scopes(["a", "b"]).handler_sync(move || {
            resource.add();
            "one"
        }))
        .resource(
            Resource::builder("memo://all/{name}")
                .scopes(["a", "b"])
                .completion("name", |_: CompletionRequest| async { vec!["one"] })
                .handler_sync(move || {
                    template.add();
                    "all"
                }),
        )
}

/// Requests that use an item of [`server`].
fn uses() -> [(&'static str, Value); 8] {
    let argument = json!({ "name": "topic", "value": "" });
    [
        ("tools/call", json!({ "name": "write" })),
        ("tools/call", json!({ "name": "later" })),
        ("prompts/get", json!({ "name": "ask" })),
        ("resources/read", json!({ "uri": "memo://one" })),
        ("resources/read", json!({ "uri": "memo://all/x" })),
        ("resources/subscribe", json!({ "uri": "memo://one" })),
        ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "ask" }, "argument": argument })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/resource", "uri": "memo://all/{name}" }, "argument": { "name": "name", "value": "" } }),
        ),
    ]
}

#[track_caller]
fn assert_forbidden(error: &ServiceError, what: &str) {
    assert_eq!((error.origin(), error.code.0), (ErrorOrigin::Forbidden, -32600), "{what}: {error}");
    assert_eq!(error.required_scopes(), ["a", "b"], "{what}");
    assert_eq!(error.data.as_ref().unwrap().as_str(), r#"{"error":"insufficient_scope","scope":"a b"}"#, "{what}");
}

#[tokio::test]
async fn an_item_is_used_only_with_its_scopes() {
    let runs = Runs::default();
    let router = server(&runs).build().unwrap();
    let callers = [None, Some(Principal::new("ann")), Some(Principal::new("ann").with_scopes(["a", "c"]))];
    for (method, params) in uses() {
        for caller in &callers {
            let error = call_over_network(&router, caller.as_ref(), method, params.clone()).await.unwrap_err();
            assert_forbidden(&error, &format!("{method} {params}"));
        }
    }
    assert_eq!(runs.count(), 0, "neither layers nor handlers nor tasks of items run");
    let ann = Principal::new("ann").with_scopes(["b", "a", "c"]);
    for (method, params) in uses() {
        call_over_network(&router, Some(&ann), method, params).await.unwrap();
    }
    assert_eq!(runs.count(), 7);
    assert!(call_over_network(&router, None, "tools/call", json!({ "name": "free" })).await.is_ok());
}

/// Asserts that some URIs are those of items with scopes, and others are not.
async fn assert_scoped(server: Server, scoped: &[&str], free: &[&str]) {
    let router = server.build().unwrap();
    let ann = Principal::new("ann").with_scopes(["a", "b"]);
    for uri in scoped {
        let params = json!({ "uri": uri });
        match call_over_network(&router, None, "resources/read", params.clone()).await {
            Ok(read) => panic!("{uri} is read without scopes: {read}"),
            Err(error) => assert_forbidden(&error, uri),
        }
        let read = call_over_network(&router, Some(&ann), "resources/read", params).await.unwrap();
        assert_eq!((&read["contents"][0]["text"], &read["contents"][0]["uri"]), (&json!("scoped"), &json!(uri)));
    }
    for uri in free {
        let read = call_over_network(&router, None, "resources/read", json!({ "uri": uri })).await.unwrap();
        assert_eq!(read["contents"][0]["text"], "free", "{uri}");
    }
}

fn scoped(uri: &str) -> Resource {
    Resource::builder(uri).scopes(["a", "b"]).handler_sync(|| "scoped")
}

fn free(uri: &str) -> Resource {
    Resource::builder(uri).handler_sync(|| "free")
}

#[tokio::test]
async fn a_template_does_not_serve_a_resource_with_scopes_whose_parameters_are_written_differently() {
    let server = Server::new("s", "1")
        .resource(scoped("memo://list?a=1&b=2"))
        .resource(scoped("memo://flag?x="))
        .resource(scoped("memo://parameter;x"))
        .resource(free("memo://list{?a,b}"))
        .resource(free("memo://flag{?x}"))
        .resource(free("memo://parameter{;x}"));
    let of_scoped = [
        "memo://list?a=1&b=2",
        "memo://list?b=2&a=1",
        "memo://list?b=2&a=%31",
        "memo://flag?x=",
        "memo://flag?x",
        "memo://parameter;x",
        "memo://parameter;x=",
    ];
    let of_templates =
        ["memo://list?a=1", "memo://list?a=2&b=1", "memo://flag?x=1", "memo://flag", "memo://parameter;x=1"];
    assert_scoped(server, &of_scoped, &of_templates).await;
}

#[tokio::test]
async fn a_template_does_not_serve_the_uris_of_one_with_scopes_whose_literals_are_encoded() {
    let server = Server::new("s", "1")
        .resource(scoped("memo://%7Eann/{name}"))
        .resource(scoped("memo://gr\u{fc}n/%e2%82%ac/{name}"))
        .resource(free("memo://{+path}"));
    let of_scoped = [
        "memo://%7Eann/x",
        "memo://%7eann/x",
        "memo://~ann/x",
        "memo://~ann/%78",
        "memo://gr\u{fc}n/\u{20ac}/x",
        "memo://gr%c3%bcn/%E2%82%AC/x",
    ];
    assert_scoped(server, &of_scoped, &["memo://other/x", "memo://ann/x"]).await;
}

#[tokio::test]
async fn a_listen_request_needs_the_scopes_of_its_resources() {
    let router = server(&Runs::default()).build().unwrap();
    let params = json!({ "notifications": { "resourceSubscriptions": ["memo://one", "memo://none"] } });
    let error = call_over_network(&router, None, "subscriptions/listen", params).await.unwrap_err();
    assert_forbidden(&error, "listen");
}

#[tokio::test]
async fn without_a_network_scopes_are_checked_only_for_a_principal() {
    let router = server(&Runs::default()).build().unwrap();
    let ann = Principal::new("ann").with_scopes(["a"]);
    for (method, params) in uses() {
        let local = CallContext::in_process;
        call_in(&router, local(), None, method, params.clone()).await.unwrap();
        let error = call_in(&router, local(), Some(&ann), method, params).await.unwrap_err();
        assert_forbidden(&error, method);
    }
}

#[tokio::test]
async fn an_unknown_or_invisible_item_is_unknown_and_needs_no_scopes() {
    let hidden = server(&Runs::default()).visible_if(|_, _| false).build().unwrap();
    let empty = Server::new("s", "1");
    let _offered = empty.handle();
    let empty = empty
        .prompt(Prompt::builder("p").completion("x", |_: CompletionRequest| async { vec![""] }).handler_sync(|| ""));
    let empty = empty.build().unwrap();
    for (method, params) in uses() {
        let of_hidden = call_over_network(&hidden, None, method, params.clone()).await.unwrap_err();
        let of_missing = call_over_network(&empty, None, method, params).await.unwrap_err();
        assert_eq!(of_hidden.origin(), ErrorOrigin::Handler, "{method}");
        assert_eq!(of_hidden, of_missing, "{method}");
    }
}

#[tokio::test]
async fn server_layers_run_before_the_check() {
    let runs = Runs::default();
    let seen = runs.clone();
    // A layer may set the principal.
    let login = from_fn(move |request: Request, mut cx: CallContext, next: Next| {
        seen.add();
        cx.insert_extension(Principal::new("ann").with_scopes(["a", "b"]));
        next.run(request, cx)
    });
    let router = server(&Runs::default()).layer(login).build().unwrap();
    call_over_network(&router, None, "tools/call", json!({ "name": "write" })).await.unwrap();
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn items_without_their_scopes_can_be_hidden() {
    let shown = server(&Runs::default()).cache(std::time::Duration::from_secs(60), CacheScope::Public).build().unwrap();
    let hiding = server(&Runs::default()).cache(std::time::Duration::from_secs(60), CacheScope::Public);
    let hiding = hiding.hide_without_scope().build().unwrap();
    let ann = Principal::new("ann").with_scopes(["a", "b"]);
    for (method, member, all, free) in [
        ("tools/list", "tools", 3, 1),
        ("prompts/list", "prompts", 1, 0),
        ("resources/list", "resources", 1, 0),
        ("resources/templates/list", "resourceTemplates", 1, 0),
    ] {
        let list = async |router: &Router, caller: Option<&Principal>| {
            let listed = call_over_network(router, caller, method, json!({})).await.unwrap();
            (listed[member].as_array().unwrap().len(), listed["cacheScope"].as_str().unwrap().to_owned())
        };
        assert_eq!(list(&shown, None).await, (all, "public".to_owned()), "{method}");
        assert_eq!(list(&hiding, None).await, (free, "private".to_owned()), "{method}");
        assert_eq!(list(&hiding, Some(&ann)).await, (all, "private".to_owned()), "{method}");
    }
    for (method, params) in uses() {
        let error = call_over_network(&hiding, None, method, params.clone()).await.unwrap_err();
        assert_eq!(error.origin(), ErrorOrigin::Handler, "{method}: {error}");
        call_over_network(&hiding, Some(&ann), method, params).await.unwrap();
    }
}

#[tokio::test]
async fn a_task_of_a_tool_with_scopes_is_unknown_to_a_token_without_them() {
    let export = Tool::builder("export").task().scopes(["admin"]).handler(std::future::pending::<String>);
    let router = Server::new("s", "1").tool(export).build().unwrap();
    let admin = Principal::new("ann").with_scopes(["admin"]);
    let created = call_over_network(&router, Some(&admin), "tools/call", json!({ "name": "export" })).await.unwrap();
    let id = json!({ "taskId": created["taskId"] });
    assert!(id["taskId"].is_string(), "{created}");
    // The same subject, with a token for less.
    let reader = Principal::new("ann").with_scopes(["read"]);
    for method in ["tasks/get", "tasks/cancel"] {
        let error = call_over_network(&router, Some(&reader), method, id.clone()).await.unwrap_err();
        assert_eq!(error.code, turms_proto::ErrorCode::INVALID_PARAMS, "{method}: {error}");
    }
    call_over_network(&router, Some(&admin), "tasks/get", id.clone()).await.unwrap();
    call_over_network(&router, Some(&admin), "tasks/cancel", id).await.unwrap();
}

#[tokio::test]
#[expect(clippy::needless_pass_by_value, reason = "extractors are taken by value")]
async fn a_handler_requires_scopes_with_the_question_mark_operator() {
    fn with_tool_error(caller: Principal) -> Result<String, ToolError> {
        caller.require(["a", "b"])?;
        Ok("done".to_owned())
    }
    fn with_error_object(caller: Principal) -> Result<String, ErrorObject> {
        caller.require(["a", "b"])?;
        Ok("done".to_owned())
    }
    fn with_service_error(caller: Principal) -> Result<String, ServiceError> {
        caller.require(["a", "b"])?;
        Ok("done".to_owned())
    }
    fn with_its_own(caller: Principal) -> Result<String, InsufficientScopeError> {
        caller.require(["a", "b"]).map(|()| "done".to_owned())
    }
    #[derive(Debug, thiserror::Error)]
    #[error("not allowed")]
    struct Wrapped(#[from] InsufficientScopeError);
    fn as_cause(caller: Principal) -> Result<String, Wrapped> {
        Ok(caller.require(["a", "b"]).map(|()| "done".to_owned())?)
    }
    let router = Server::new("s", "1")
        .tool(Tool::builder("tool-error").handler_sync(with_tool_error))
        .tool(Tool::builder("error-object").handler_sync(with_error_object))
        .tool(Tool::builder("service-error").handler_sync(with_service_error))
        .tool(Tool::builder("own").handler_sync(with_its_own))
        .tool(Tool::builder("cause").handler_sync(as_cause))
        .tool(Tool::builder("task").task().handler_sync(with_tool_error))
        .prompt(Prompt::builder("prompt").handler_sync(with_tool_error))
        .resource(Resource::builder("memo://one").handler_sync(with_tool_error))
        .method("own/method", |_: RawJson, context: Context| async move {
            context.principal().unwrap().require(["a", "b"])?;
            Ok(json!({}))
        })
        .build()
        .unwrap();
    let tools = ["tool-error", "error-object", "service-error", "own", "cause", "task"];
    let mut requests: Vec<_> = tools.map(|name| ("tools/call", json!({ "name": name }))).into();
    requests.push(("prompts/get", json!({ "name": "prompt" })));
    requests.push(("resources/read", json!({ "uri": "memo://one" })));
    requests.push(("own/method", json!({})));
    for (method, params) in requests {
        let ann = Principal::new("ann").with_scopes(["b"]);
        let error = call_over_network(&router, Some(&ann), method, params.clone()).await.unwrap_err();
        assert_forbidden(&error, &format!("{method} {params}"));
        let ann = ann.with_scopes(["b", "a"]);
        call_over_network(&router, Some(&ann), method, params).await.unwrap();
    }
}

/// An error object that is only a cause can come from another server, whose scopes are unrelated to this server.
#[tokio::test]
async fn an_error_object_that_is_only_a_cause_requests_no_scopes() {
    #[derive(Debug, thiserror::Error)]
    #[error("the other server has failed")]
    struct OtherServer(#[source] ErrorObject);
    let relay = || Err::<String, _>(OtherServer(InsufficientScopeError::new(["theirs"]).into()));
    let router = Server::new("s", "1").tool(Tool::builder("relay").handler_sync(relay)).build().unwrap();
    let error = call_over_network(&router, None, "tools/call", json!({ "name": "relay" })).await.unwrap_err();
    assert_eq!((error.origin(), error.required_scopes().len()), (ErrorOrigin::Handler, 0));
}

#[tokio::test]
async fn the_scopes_of_a_tool_are_replaced() {
    let tool = Tool::builder("write").scopes(["a"]).handler_sync(|| "written").with_scopes(["a", "b"]);
    assert_eq!(tool.scopes(), ["a", "b"]);
    let router = Server::new("s", "1").tool(tool).build().unwrap();
    let params = json!({ "name": "write" });
    let ann = Principal::new("ann").with_scopes(["a"]);
    let error = call_over_network(&router, Some(&ann), "tools/call", params.clone()).await.unwrap_err();
    assert_forbidden(&error, "write");
    let ann = ann.with_scopes(["a", "b"]);
    call_over_network(&router, Some(&ann), "tools/call", params).await.unwrap();
}
