//! Connections through proxies, with a private root, to a Unix socket, and the address check.

use serde_json::json;
use turms_client::Client;
use turms_core::ConnectError;
use turms_http::DialError;
use turms_testkit::proxy::{DOMAIN, Proxied, Proxy};
use turms_testkit::tls::{CERTIFICATE, tls_in_front_of};
use turms_testkit::within;
use turms_ws::{WsConnector, WsError};

use crate::fixture::{TestServer, builder, connect};

/// Calls the tool `echo`, then closes the client.
async fn assert_works(client: Client) {
    let echo = client.call_tool("echo", json!({ "text": "a" })).await.unwrap();
    assert_eq!(echo.text(), "a");
    within("the close", client.close()).await;
}

/// The error of the connection, and its message with all causes.
async fn dial_error(connector: WsConnector) -> (ConnectError, String) {
    let error = within("an error", builder().connect(connector)).await.unwrap_err();
    let chain = turms_core::__internal::error_chain(&error);
    (error, chain)
}

/// Only the proxy can resolve the name.
#[tokio::test]
async fn a_proxy_opens_a_tunnel_for_ws() {
    let server = TestServer::new().await;
    let proxy = Proxy::start(Some("Basic YW5uOmEgc2VjcmV0")).await;
    let url = format!("ws://{DOMAIN}:{}/", server.address.port());
    let through = format!("http://ann:a%20secret@{}", proxy.address);
    // The server accepts only loopback names.
    let connector = WsConnector::new(&url).unwrap().proxy(through).header("host", "localhost");
    assert_works(connect(connector, builder()).await).await;
    let tunnel = Proxied {
        method: "CONNECT".to_owned(),
        target: format!("{DOMAIN}:{}", server.address.port()),
        authorization: Some("Basic YW5uOmEgc2VjcmV0".to_owned()),
    };
    assert_eq!(proxy.received(), [tunnel]);

    let connector = WsConnector::new(&url).unwrap().proxy(format!("http://{}", proxy.address));
    let (_, message) = dial_error(connector).await;
    assert!(
        message.contains("cannot connect through the proxy") && message.contains("authorization required"),
        "{message}"
    );
}

#[tokio::test]
async fn an_added_root_certificate_is_trusted() {
    let server = TestServer::new().await;
    let port = tls_in_front_of(server.address).await.port();
    let connector = || WsConnector::new(format!("wss://localhost:{port}/")).unwrap().no_proxy();
    assert_works(connect(connector().root_certificates(CERTIFICATE), builder()).await).await;
    let (error, message) = dial_error(connector()).await;
    let ConnectError::Unreachable { source, .. } = &error else { panic!("{message}") };
    let source: &WsError = source.downcast_ref().unwrap();
    assert!(matches!(source, WsError::Tls { .. } | WsError::Trust(_)), "{source:?}");
    let (_, message) = dial_error(connector().root_certificates("not a certificate")).await;
    assert!(message.contains("the root certificates are invalid"), "{message}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_can_be_used() {
    let server = TestServer::new().await;
    let path = std::env::temp_dir().join(format!("turms-ws-{}", std::process::id()));
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    let connector = WsConnector::new("ws://localhost/").unwrap().unix_socket(&path);
    assert_works(connect(connector, builder()).await).await;
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn an_address_check_can_refuse_an_address() {
    let server = TestServer::new().await;
    for host in ["127.0.0.1", "localhost"] {
        let connector = WsConnector::new(format!("ws://{host}:{}/", server.address.port())).unwrap().no_proxy();
        let connector = connector.address_check(|it| if it.ip.is_loopback() { Err("loopback") } else { Ok(()) });
        let (error, message) = dial_error(connector).await;
        let refused = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source())
            .find_map(|error| error.downcast_ref::<DialError>());
        assert!(matches!(refused, Some(DialError::AddressRefused { host: it, .. }) if it == host), "{message}");
        assert!(message.ends_with("loopback"), "{message}");
    }
}
