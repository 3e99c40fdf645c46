//! Proxies and certificates, by options and by the environment.

use std::net::SocketAddr;

use turms_testkit::proxy::{DOMAIN, Proxy};
use turms_testkit::tls::{CERTIFICATE, tls_in_front_of};

use crate::run::{Demo, TempDir, turms};

/// A runtime for the proxies and servers of a test, in the process of the test.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn address(url: &str) -> SocketAddr {
    url.split('/').nth(2).unwrap().parse().unwrap()
}

/// Returns the URL of the demo server with a host name that only the proxy can resolve.
fn behind_proxy(url: &str) -> String {
    url.replace("127.0.0.1", DOMAIN)
}

const CREDENTIALS: &str = "Basic YW5uOnAmMQ==";

#[test]
fn a_proxy_with_credentials_is_read_from_the_environment() {
    let (runtime, http, ws) = (runtime(), Demo::listening("--http"), Demo::listening("--ws"));
    let proxy = runtime.block_on(Proxy::start(Some(CREDENTIALS)));
    let through = format!("http://ann:p%261@{}", proxy.address);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        let sum = turms(["call", &behind_proxy(&http.url), "add", "a=1", "b=2"]).env(name, &through).ok();
        assert_eq!(sum, "3\n", "{name}");
    }
    assert!(
        proxy.received().iter().all(|it| it.method == "POST" && it.target.starts_with("http://turms-test.invalid:"))
    );
    let before = proxy.received().len();
    let url = behind_proxy(&ws.url);
    let call = ["call", &url, "add", "a=1", "b=2", "--header", "host: localhost"];
    assert_eq!(turms(call).env("HTTP_PROXY", &through).ok(), "3\n");
    let tunnels = &proxy.received()[before..];
    assert!(tunnels.iter().all(|it| it.method == "CONNECT") && !tunnels.is_empty(), "{tunnels:?}");
}

#[test]
fn a_host_of_no_proxy_is_connected_to_directly() {
    let (runtime, demo) = (runtime(), Demo::listening("--http"));
    let proxy = runtime.block_on(Proxy::start(None));
    let through = format!("http://{}", proxy.address);
    let ping = || turms(["ping", &demo.url]).env("HTTP_PROXY", &through);
    for excepted in ["127.0.0.1", "127.0.0.0/8", "*"] {
        ping().env("NO_PROXY", excepted).ok();
    }
    turms(["ping", &demo.url, "--proxy", "none"]).env("HTTP_PROXY", &through).ok();
    assert_eq!(proxy.received(), []);
    ping().env("NO_PROXY", "example.com").ok();
    assert!(!proxy.received().is_empty());
}

#[test]
fn a_proxy_is_given_by_an_option() {
    let (runtime, demo, directory) = (runtime(), Demo::listening("--http"), TempDir::new("proxy"));
    let proxy = runtime.block_on(Proxy::start(Some(CREDENTIALS)));
    let (through, url) = (format!("http://ann:p%261@{}", proxy.address), behind_proxy(&demo.url));
    turms(["ping", &url, "--proxy", &through]).ok();
    let file = directory.file("url", &format!("{through}\n"));
    turms(["ping", &url, "--proxy", &format!("@{file}")]).env("HTTP_PROXY", "http://127.0.0.1:1").ok();
    let hint = "hint: the proxy requires credentials";
    turms(["ping", &url, "--proxy", &format!("http://{}", proxy.address)]).run().fails(3, &["407", hint]);
}

#[test]
fn errors_of_a_proxy_do_not_contain_its_password() {
    for wrong in ["socks5://ann:secret@localhost:1", "secret@localhost", "http://"] {
        let output = turms(["ping", "http://localhost:1/", "--proxy", wrong]).run();
        output.fails(2, &["--proxy: expected http://HOST:PORT"]);
        assert!(!output.stderr.contains("secret"), "{}", output.stderr);
    }
    turms(["ping", "http://localhost:1/", "--proxy", "@/nonexistent"]).run().fails(1, &["--proxy: cannot read"]);
    turms(["ping", "demo", "--proxy", "none"]).run().fails(2, &["--proxy is only for URLs"]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in ["https://localhost:1/", "wss://localhost:1/", "http://localhost:1/"] {
        let output = turms(["ping", url, "--proxy", &format!("http://ann:secret@{closed}")]).run();
        output.fails(3, &["cannot connect through the proxy", "hint: is the proxy right?"]);
        assert!(!output.stderr.contains("secret"), "{}", output.stderr);
    }
}

#[test]
fn a_certificate_authority_is_added_by_option_or_environment() {
    let (runtime, directory) = (runtime(), TempDir::new("ca"));
    let file = directory.file("authority.pem", std::str::from_utf8(CERTIFICATE).unwrap());
    for (option, scheme) in [("--http", "https"), ("--ws", "wss")] {
        let demo = Demo::listening(option);
        let secure = runtime.block_on(tls_in_front_of(address(&demo.url)));
        let path = demo.url.splitn(4, '/').nth(3).unwrap_or_default();
        let url = format!("{scheme}://localhost:{}/{path}", secure.port());
        turms(["ping", &url, "--ca-file", &file]).ok();
        turms(["ping", &url]).env("TURMS_CA_FILE", &file).ok();
        #[cfg(target_os = "linux")]
        turms(["ping", &url]).env("SSL_CERT_FILE", &file).ok();
        turms(["ping", &url]).run().fails(3, &["certificate", "--ca-file"]);
    }
}

#[test]
fn a_tls_server_is_reached_through_a_tunnel() {
    let (runtime, demo, directory) = (runtime(), Demo::listening("--http"), TempDir::new("tunnel"));
    let file = directory.file("authority.pem", std::str::from_utf8(CERTIFICATE).unwrap());
    let secure = runtime.block_on(tls_in_front_of(address(&demo.url)));
    let proxy = runtime.block_on(Proxy::start(Some(CREDENTIALS)));
    let url = format!("https://localhost:{}/mcp", secure.port());
    let through = format!("http://ann:p%261@{}", proxy.address);
    turms(["ping", &url, "--ca-file", &file]).env("HTTPS_PROXY", &through).ok();
    let tunnels = proxy.received();
    assert!(tunnels.iter().all(|it| it.method == "CONNECT") && !tunnels.is_empty(), "{tunnels:?}");
    let output = turms(["ping", &url]).env("HTTPS_PROXY", format!("http://ann:wrong@{}", proxy.address)).run();
    output.fails(3, &["cannot connect through the proxy", "hint: the proxy requires credentials"]);
    assert!(!output.stderr.contains("wrong"), "{}", output.stderr);
}

#[test]
fn a_file_without_certificates_is_rejected() {
    let directory = TempDir::new("no-ca");
    let file = directory.file("authority.pem", "nothing");
    let ping = |file: &str| turms(["ping", "https://localhost:1/", "--ca-file", file]).run();
    ping(&file).fails(2, &["--ca-file", "contains no PEM certificates"]);
    ping("/nonexistent").fails(1, &["--ca-file: cannot read"]);
    turms(["ping", "demo"]).env("TURMS_CA_FILE", &file).ok();
}
