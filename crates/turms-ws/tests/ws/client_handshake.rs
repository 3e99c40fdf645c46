//! Connections through proxies, with a private root, to a Unix socket, and the address check.

use serde_json::json;
use turms_client::Client;
use turms_core::ConnectError;
use turms_http::DialError;
use turms_testkit::proxy::{DOMAIN, Proxied, Proxy};
use turms_testkit::tls::{CERTIFICATE, tls_in_front_of};
use turms_testkit::within;
use turms_ws::{WsConnectError, WsConnector};

use crate::fixture::{Served, builder, connect};

async fn echoes(client: Client) {
    let echo = client.call_tool("echo", json!({ "text": "a" })).await.unwrap();
    assert_eq!(echo.text(), "a");
    within("the goodbye", client.close()).await;
}

/// The error of the connection, and of the dialer below it.
async fn dial_error(connector: WsConnector) -> (ConnectError, String) {
    let error = within("an error", builder().connect_to(connector)).await.unwrap_err();
    let chain = turms_core::error_chain(&error);
    (error, chain)
}

/// Only the proxy can resolve the name.
#[tokio::test]
async fn a_proxy_opens_a_tunnel_for_a_plain_websocket() {
    let served = Served::new().await;
    let proxy = Proxy::start(Some("Basic YW5uOmEgc2VjcmV0")).await;
    let url = format!("ws://{DOMAIN}:{}/", served.address.port());
    let through = format!("http://ann:a%20secret@{}", proxy.address);
    // The server only takes local names.
    let connector = WsConnector::new(&url).unwrap().proxy(through).header("host", "localhost");
    echoes(connect(connector, builder()).await).await;
    let tunnel = Proxied {
        method: "CONNECT".to_owned(),
        target: format!("{DOMAIN}:{}", served.address.port()),
        authorization: Some("Basic YW5uOmEgc2VjcmV0".to_owned()),
    };
    assert_eq!(proxy.received(), [tunnel]);

    let connector = WsConnector::new(&url).unwrap().proxy(format!("http://{}", proxy.address));
    let (_, told) = dial_error(connector).await;
    assert!(told.contains("cannot connect through the proxy") && told.contains("authorization required"), "{told}");
}

#[tokio::test]
async fn a_private_root_is_trusted_if_it_is_given() {
    let served = Served::new().await;
    let port = tls_in_front_of(served.address).await.port();
    let connector = || WsConnector::new(format!("wss://localhost:{port}/")).unwrap().no_proxy();
    echoes(connect(connector().root_certificates(CERTIFICATE), builder()).await).await;
    let (error, told) = dial_error(connector()).await;
    let ConnectError::Unreachable { source, .. } = &error else { panic!("{told}") };
    let source: &WsConnectError = source.downcast_ref().unwrap();
    assert!(matches!(source, WsConnectError::Tls { .. } | WsConnectError::Trust(_)), "{source:?}");
    let (_, told) = dial_error(connector().root_certificates("not a certificate")).await;
    assert!(told.contains("the root certificates are invalid"), "{told}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_websocket_may_be_at_a_unix_socket() {
    let served = Served::new().await;
    let path = std::env::temp_dir().join(format!("turms-ws-{}", std::process::id()));
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = tokio::net::TcpStream::connect(served.address).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    let connector = WsConnector::new("ws://localhost/").unwrap().unix_socket(&path);
    echoes(connect(connector, builder()).await).await;
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn an_address_can_be_refused() {
    let served = Served::new().await;
    for host in ["127.0.0.1", "localhost"] {
        let connector = WsConnector::new(format!("ws://{host}:{}/", served.address.port())).unwrap().no_proxy();
        let connector = connector.address_check(|it| if it.ip.is_loopback() { Err("loopback") } else { Ok(()) });
        let (error, told) = dial_error(connector).await;
        let refused = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source())
            .find_map(|error| error.downcast_ref::<DialError>());
        assert!(matches!(refused, Some(DialError::AddressRefused { host: it, .. }) if it == host), "{told}");
        assert!(told.ends_with("loopback"), "{told}");
    }
}
