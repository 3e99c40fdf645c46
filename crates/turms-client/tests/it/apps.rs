//! MCP Apps as a host sees them, over several transports and in both dialects.

use turms_client::{Client, ClientBuilder, VersionCache};
use turms_http::{HttpConnector, Listener, ServeHttp as _};
use turms_proto::types::{APP_MIME_TYPE, APPS_EXTENSION, AppCsp, AppPermissions};
use turms_proto::{Object, ProtocolVersion};
use turms_server::{App, Apps, Context, Server, Tool};

const VIEW: &str = "ui://weather/view.html";

fn server() -> Server {
    let csp = AppCsp::new().connect_domains(vec!["https://api.example.com".to_owned()]);
    let permissions = AppPermissions::new().geolocation(Object::new());
    let view = App::new(VIEW, "<!doctype html>").csp(csp).permissions(permissions).prefers_border(true);
    let weather = Tool::builder("weather")
        .app(VIEW)
        .handler_sync(|context: Context| if context.supports_apps() { "See the page." } else { "Sunny." });
    Server::new("weather", "1")
        .extension(Apps::new().app(view))
        .tool(weather)
        .tool(Tool::builder("refresh").app(VIEW).app_only().handler_sync(|| "21"))
        .tool(Tool::builder("think").model_only().handler_sync(|| "hm"))
}

/// Connects the same client in process and over HTTP, in both dialects.
async fn clients(builder: impl Fn() -> ClientBuilder) -> Vec<Client> {
    let mut clients = Vec::new();
    for version in [ProtocolVersion::LATEST, ProtocolVersion::LATEST_WITH_HANDSHAKE] {
        let builder = || builder().version_cache(VersionCache::new()).protocol_version(version);
        clients.push(builder().connect_service(server().build().unwrap()).await.unwrap());
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let connector = HttpConnector::new(format!("http://{}/mcp", listener.address())).unwrap().no_proxy();
        tokio::spawn(listener.serve(server().into_http_service().unwrap()));
        clients.push(builder().connect(connector).await.unwrap());
    }
    clients
}

#[tokio::test]
async fn a_host_finds_the_page_of_a_tool_and_its_metadata() {
    for client in clients(|| Client::builder("host", "1").enable_apps()).await {
        assert!(client.server_extension(APPS_EXTENSION).is_some());
        let tools = client.list_tools().await.unwrap();
        let told: Vec<_> =
            tools.iter().map(|tool| (&*tool.name, tool.visible_to_model(), tool.callable_by_app())).collect();
        assert_eq!(told, [("weather", true, true), ("refresh", false, true), ("think", true, false)]);
        let uri = tools[0].app_uri().unwrap();
        let page = client.read_resource(&*uri).await.unwrap().contents.remove(0);
        assert!(page.is_app());
        assert_eq!((page.mime_type.as_deref(), page.text.as_deref()), (Some(APP_MIME_TYPE), Some("<!doctype html>")));
        let meta = page.app_meta().unwrap().unwrap();
        assert_eq!(
            Object::encode(&meta).unwrap().as_str(),
            r#"{"csp":{"connectDomains":["https://api.example.com"]},"permissions":{"geolocation":{}},"prefersBorder":true}"#
        );
        assert_eq!(client.call_tool("weather", ()).await.unwrap().text(), "See the page.");
        assert_eq!(client.call_tool("refresh", ()).await.unwrap().text(), "21");
    }
}

#[tokio::test]
async fn a_client_without_apps_gets_no_pages_and_no_app_only_tools() {
    for client in clients(|| Client::builder("plain", "1")).await {
        let names: Vec<_> = client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["weather", "think"]);
        assert_eq!(client.call_tool("weather", ()).await.unwrap().text(), "Sunny.");
        assert!(client.call_tool("refresh", ()).await.is_err());
        assert!(client.list_resources().await.unwrap().is_empty());
        assert!(client.read_resource(VIEW).await.is_err());
    }
}
