//! MCP Apps: pages that hosts display, and the visibility of tools.

use serde_json::json;
use turms_proto::types::{
    APP_MIME_TYPE, APPS_EXTENSION, AppCsp, AppPermissions, ListResources, ListTools, Meta, PaginatedParams,
    ReadResource, ReadResourceParams, ReadResourceResult,
};
use turms_proto::{Ability, ErrorCode, Object, ProtocolVersion};
use turms_server::{App, Apps, Context, Resource, Router, Server, Tool};
use turms_testkit::test_client::{Script, TestClient};

const VIEW: &str = "ui://weather/view.html";

fn server() -> Router {
    let csp = AppCsp::new().connect_domains(vec!["https://api.example.com".to_owned()]);
    let view = App::new(VIEW, "<!doctype html>")
        .title("Weather")
        .description("Shows the weather.")
        .csp(csp)
        .permissions(AppPermissions::new().geolocation(Object::new()))
        .domain("weather")
        .prefers_border(false);
    let weather = Tool::builder("weather")
        .app(VIEW)
        .handler_sync(|context: Context| if context.supports_apps() { "See the page." } else { "Sunny." });
    Server::new("weather", "1")
        .extension(Apps::new().app(view))
        .tool(weather)
        .tool(Tool::builder("refresh").app(VIEW).app_only().handler_sync(|| ""))
        .tool(Tool::builder("think").model_only().handler_sync(|| ""))
        .build()
        .unwrap()
}

fn host(mime_types: &str) -> Script {
    Script::new().extension(APPS_EXTENSION, Object::parse(format!(r#"{{"mimeTypes":{mime_types}}}"#)).unwrap())
}

async fn tools(client: &TestClient) -> Vec<String> {
    let list = client.request::<ListTools>(&PaginatedParams::new()).await.unwrap();
    list.tools.into_iter().map(|tool| tool.name).collect()
}

/// Returns the revisions in which tools and resources have metadata.
fn with_pages() -> impl Iterator<Item = ProtocolVersion> {
    ProtocolVersion::ALL.into_iter().filter(|version| version.has(Ability::ItemMeta))
}

#[tokio::test]
async fn a_host_sees_pages_and_the_tools_for_them() {
    for version in with_pages() {
        for mime_types in [r#"["text/html;profile=mcp-app"]"#, r#"["x/y","text/html; profile=mcp-app"]"#] {
            let client = TestClient::connect_with(&server(), version, host(mime_types)).await;
            assert_eq!(tools(&client).await, ["weather", "refresh", "think"], "{version}");
            assert_eq!(client.call_tool("weather", json!({})).await.unwrap().text(), "See the page.");
            assert!(client.call_tool("refresh", json!({})).await.is_ok());
            let list = client.request::<ListResources>(&PaginatedParams::new()).await.unwrap();
            assert_eq!(list.resources[0].mime_type.as_deref(), Some(APP_MIME_TYPE));
            let params = ReadResourceParams::new(VIEW);
            let page: ReadResourceResult = client.request_rounds::<ReadResource, _>(&params).await.unwrap();
            assert!(page.contents[0].is_app());
            let meta = page.contents[0].app_meta().unwrap().unwrap();
            assert_eq!(meta.csp.unwrap().connect_domains.unwrap(), ["https://api.example.com"]);
            assert!(meta.permissions.unwrap().geolocation.is_some());
            assert_eq!((meta.domain.as_deref(), meta.prefers_border), (Some("weather"), Some(false)));
        }
    }
}

#[tokio::test]
async fn a_client_without_apps_sees_no_pages_and_no_app_only_tools() {
    for version in ProtocolVersion::ALL {
        for script in [Script::new(), host(r#"["text/x-other"]"#), host("[]"), host("5")] {
            let client = TestClient::connect_with(&server(), version, script).await;
            assert_eq!(tools(&client).await, ["weather", "think"], "{version}");
            assert_eq!(client.call_tool("weather", json!({})).await.unwrap().text(), "Sunny.");
            let error = client.call_tool("refresh", json!({})).await.unwrap_err();
            assert_eq!(error.server_error().code, ErrorCode::INVALID_PARAMS);
            let list = client.request::<ListResources>(&PaginatedParams::new()).await.unwrap();
            assert!(list.resources.is_empty());
            assert!(client.request::<ReadResource>(&ReadResourceParams::new(VIEW)).await.is_err());
        }
    }
}

/// Revisions without item metadata cannot mark a tool as hidden from the model.
#[tokio::test]
async fn without_item_metadata_a_host_is_treated_as_a_client_without_apps() {
    for version in [ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_03_26] {
        let client = TestClient::connect_with(&server(), version, host(r#"["text/html;profile=mcp-app"]"#)).await;
        assert_eq!(tools(&client).await, ["weather", "think"], "{version}");
        assert_eq!(client.call_tool("weather", json!({})).await.unwrap().text(), "Sunny.");
        assert!(client.call_tool("refresh", json!({})).await.is_err());
    }
}

#[test]
fn metadata_of_a_tool_keeps_its_link_to_a_page() {
    let meta = Meta::new().with("com.example/x", &1).unwrap();
    let tool = Tool::builder("t").app(VIEW).app_only().meta(meta).handler_sync(|| "");
    assert_eq!(tool.definition().app_uri().as_deref(), Some(VIEW));
    assert!(!tool.definition().visible_to_model());
    assert!(tool.definition().meta.as_ref().unwrap().contains("com.example/x"));
}

#[test]
fn a_link_to_a_missing_page_is_a_build_error() {
    let linked = |uri: &str| Server::new("s", "1").tool(Tool::builder("t").app(uri).handler_sync(|| ""));
    for server in [linked(VIEW), linked(VIEW).extension(Apps::new().app(App::new("ui://other", "")))] {
        let fault = server.build().unwrap_err().to_string();
        assert_eq!(fault, format!(r#"cannot build server "s": tool "t": there is no page at {VIEW:?}"#));
    }
    let fault = linked("https://example.com").build().unwrap_err().to_string();
    assert!(fault.contains(r#"tool "t": a page has to be at a ui:// URI, not at "https://example.com""#), "{fault}");
    // The order of registration does not matter, and a resource template can serve the page.
    assert!(linked(VIEW).extension(Apps::new().app(App::new(VIEW, ""))).build().is_ok());
    assert!(linked(VIEW).resource(Resource::builder("ui://weather/{name}").handler_sync(|| "")).build().is_ok());
}

#[tokio::test]
async fn tools_list_their_page_and_their_visibility() {
    let client =
        TestClient::connect_with(&server(), ProtocolVersion::LATEST, host(r#"["text/html;profile=mcp-app"]"#)).await;
    let list = client.request::<ListTools>(&PaginatedParams::new()).await.unwrap();
    let told: Vec<_> =
        list.tools.iter().map(|tool| (tool.app_uri(), tool.visible_to_model(), tool.callable_by_app())).collect();
    let view = Some(VIEW.to_owned());
    assert_eq!(told, [(view.clone(), true, true), (view, false, true), (None, true, false)]);
    assert_eq!(
        list.tools[1].meta.as_ref().unwrap().as_str(),
        r#"{"ui":{"resourceUri":"ui://weather/view.html","visibility":["app"]}}"#
    );
}

#[test]
fn a_page_without_a_ui_uri_is_a_build_error() {
    for uri in ["https://example.com", "ui://", "weather", "ui://{all}"] {
        let fault =
            Server::new("s", "1").extension(Apps::new().app(App::new(uri, ""))).build().unwrap_err().to_string();
        assert!(fault.contains(&format!("a page has to be at a ui:// URI, not at {uri:?}")), "{fault}");
    }
}
