//! Protocol extensions of a client, over several transports and in both dialects.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use turms_client::{CallErrorKind, Client, ClientBuilder, ClientExtension, DecodeCause, Event, VersionCache};
use turms_core::transport::memory;
use turms_core::{BoxFuture, ConnectError};
use turms_http::{HttpConnector, Listener, ServeHttp as _};
use turms_proto::method::Method;
use turms_proto::revision::Translate;
use turms_proto::session::RequestOptions;
use turms_proto::{Ability, ErrorCode, ErrorObject, Notification, Object, ProtocolVersion, RawJson};
use turms_server::{Context, ExtensionBuilder, Server, ServerExtension};
use turms_ws::{ServeWs as _, WsConnector};

const ID: &str = "com.example/duet";

/// The server side: its method notifies the client, and sends it a request if there is a handshake.
struct Singer;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Verse {
    text: String,
}

impl Translate for Verse {
    fn lower(&mut self, _: ProtocolVersion) {}
    fn raise(&mut self, _: ProtocolVersion) {}
}

struct Sing;

impl Method for Sing {
    const NAME: &'static str = "duet/sing";
    type Params = Verse;
    type Result = Verse;
}

impl ServerExtension for Singer {
    fn id(&self) -> &str {
        ID
    }

    fn settings(&self) -> Object {
        Object::parse(r#"{"voice":"bass"}"#).unwrap()
    }

    fn register(self: Arc<Self>, scope: ExtensionBuilder) -> ExtensionBuilder {
        scope.method(Sing::NAME, |verse: Verse, context: Context| async move {
            context.peer().notify_raw(Notification::raw("duet/sung", None)).await.unwrap();
            let mut text = verse.text;
            // Only a client with a handshake accepts requests.
            if context.session().is_some() {
                let options = RequestOptions::default();
                let next = context.peer().request_raw("duet/next", Some(RawJson::from(Object::new())), options).await;
                text.push_str(next.unwrap().member("line").unwrap().as_str());
            }
            Ok(Verse { text: format!("{text}!") })
        })
    }
}

/// The client side.
#[derive(Default)]
struct Partner {
    heard: Mutex<Vec<String>>,
}

impl ClientExtension for Partner {
    fn id(&self) -> &str {
        ID
    }

    fn settings(&self) -> Object {
        Object::parse(r#"{"voice":"alto"}"#).unwrap()
    }

    fn on_notification(&self, notification: &Notification) {
        self.heard.lock().unwrap().push(notification.method.to_string());
    }

    fn on_request(&self, method: &str, _: &RawJson) -> Option<BoxFuture<'static, Result<RawJson, ErrorObject>>> {
        (method == "duet/next")
            .then(|| Box::pin(async { Ok(RawJson::parse(r#"{"line":1}"#).unwrap()) }) as BoxFuture<'static, _>)
    }
}

fn server() -> Server {
    Server::new("duet", "1.0.0").extension(Singer)
}

/// Connects a new client over a transport.
async fn connect(way: &str, version: ProtocolVersion, builder: ClientBuilder) -> Client {
    let builder = builder.protocol_version(version).version_cache(VersionCache::new());
    match way {
        "local" => builder.connect_service(server().build().unwrap()).await.unwrap(),
        "pair" => {
            let (near, far) = memory();
            tokio::spawn(async move { server().serve(far.0, far.1).await });
            builder.connect_stream(near.0, near.1).await.unwrap()
        }
        "ws" => {
            let listener = Listener::bind("127.0.0.1:0").await.unwrap();
            let connector = WsConnector::new(format!("ws://{}/", listener.address())).unwrap();
            tokio::spawn(listener.serve(server().into_ws_service().unwrap()));
            builder.connect(connector).await.unwrap()
        }
        _ => {
            let listener = Listener::bind("127.0.0.1:0").await.unwrap();
            let connector = HttpConnector::new(format!("http://{}/mcp", listener.address())).unwrap().no_proxy();
            tokio::spawn(listener.serve(server().into_http_service().unwrap()));
            builder.connect(connector).await.unwrap()
        }
    }
}

async fn everywhere(builder: impl Fn() -> ClientBuilder, test: impl AsyncFn(Client)) {
    for way in ["local", "pair", "ws", "http"] {
        for version in [ProtocolVersion::LATEST, ProtocolVersion::LATEST_WITH_HANDSHAKE] {
            test(connect(way, version, builder()).await).await;
        }
    }
}

fn plain() -> ClientBuilder {
    Client::builder("partner", "1.0.0")
}

fn verse() -> Verse {
    Verse { text: "la".to_owned() }
}

#[tokio::test]
async fn a_method_of_an_extension_is_a_type() {
    everywhere(
        || plain().extension(Partner::default()),
        async |client| {
            assert_eq!(client.server_extension(ID).unwrap().as_str(), r#"{"voice":"bass"}"#);
            assert_eq!(client.server_extension("com.example/other"), None);
            let asks = !client.protocol_version().unwrap().has(Ability::Stateless);
            let sung = client.request::<Sing>(verse()).await.unwrap();
            assert_eq!(sung.text, if asks { "la1!" } else { "la!" });
        },
    )
    .await;
}

#[tokio::test]
async fn an_extension_gets_notifications_that_the_protocol_does_not_define() {
    for way in ["local", "pair", "ws", "http"] {
        for version in [ProtocolVersion::LATEST, ProtocolVersion::LATEST_WITH_HANDSHAKE] {
            let partner = Arc::new(Partner::default());
            let client = connect(way, version, plain().extension(partner.clone())).await;
            let mut events = client.events();
            client.request::<Sing>(verse()).await.unwrap();
            // The event stream delivers the notification too, after the extension.
            loop {
                if let Event::Notification(notification) = events.next().await.unwrap() {
                    assert_eq!(&*notification.method, "duet/sung");
                    break;
                }
            }
            assert_eq!(*partner.heard.lock().unwrap(), ["duet/sung"], "{way}, {version}");
        }
    }
}

#[tokio::test]
async fn a_server_requires_the_declaration_of_its_extension() {
    everywhere(plain, async |client| {
        let error = client.request::<Sing>(verse()).await.unwrap_err();
        let stateless = client.protocol_version().unwrap().has(Ability::Stateless);
        let code = if stateless { ErrorCode::MISSING_CLIENT_CAPABILITY } else { ErrorCode::INVALID_REQUEST };
        assert_eq!(error.error_response().unwrap().code, code, "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_request_without_a_handler_is_an_unknown_method() {
    everywhere(
        || plain().declare_extension(ID, Object::new()),
        async |client| {
            if client.protocol_version().unwrap().has(Ability::Stateless) {
                return;
            }
            // The handler fails because its request to the client does.
            let error = client.request::<Sing>(verse()).await.unwrap_err();
            assert_eq!(error.error_response().unwrap().code, ErrorCode::INTERNAL_ERROR);
        },
    )
    .await;
}

#[tokio::test]
async fn an_invalid_result_is_a_decode_error() {
    let server = Server::new("wrong", "1").method("duet/sing", |_: Object, _| async { Ok(Object::new()) });
    let client = plain().connect_service(server.build().unwrap()).await.unwrap();
    let error = client.request::<Sing>(verse()).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Invalid(_))), "{error}");
    assert!(error.to_string().contains("missing field \"text\""), "{error}");
}

#[tokio::test]
async fn an_invalid_extension_is_an_error_of_connecting() {
    struct Nameless;
    impl ClientExtension for Nameless {
        fn id(&self) -> &str {
            "nameless"
        }
    }
    for (builder, wrong) in [
        (plain().declare_extension("nameless", Object::new()), "nameless"),
        (plain().extension(Nameless), "nameless"),
        (plain().extension(Partner::default()).extension(Partner::default()), ID),
    ] {
        let error = builder.connect_service(server().build().unwrap()).await.unwrap_err();
        assert!(matches!(&error, ConnectError::InvalidExtension { id, .. } if id == wrong), "{error}");
    }
}
