//! Proxies and certificates, by options and by the environment.

use std::net::SocketAddr;

use turms_testkit::proxy::{DOMAIN, Proxy};
use turms_testkit::tls::{CERTIFICATE, tls_in_front_of};

use crate::run::{Demo, Scratch, turms};

/// A runtime for the proxies and servers of a test, which run beside the command.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn address(url: &str) -> SocketAddr {
    url.split('/').nth(2).unwrap().parse().unwrap()
}

/// The URL of the demo by a name that only the proxy can resolve.
fn behind_proxy(url: &str) -> String {
    url.replace("127.0.0.1", DOMAIN)
}

const CREDENTIALS: &str = "Basic YW5uOnAmMQ==";

#[test]
fn a_proxy_comes_from_the_environment_with_credentials() {
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
    let (runtime, demo, scratch) = (runtime(), Demo::listening("--http"), Scratch::new("proxy"));
    let proxy = runtime.block_on(Proxy::start(Some(CREDENTIALS)));
    let (through, url) = (format!("http://ann:p%261@{}", proxy.address), behind_proxy(&demo.url));
    turms(["ping", &url, "--proxy", &through]).ok();
    let file = scratch.file("url", &format!("{through}\n"));
    turms(["ping", &url, "--proxy", &format!("@{file}")]).env("HTTP_PROXY", "http://127.0.0.1:1").ok();
    let hint = "hint: the proxy wants credentials";
    turms(["ping", &url, "--proxy", &format!("http://{}", proxy.address)]).run().fails(3, &["407", hint]);
}

#[test]
fn what_is_wrong_with_a_proxy_is_said_without_its_password() {
    for wrong in ["socks5://ann:secret@localhost:1", "secret@localhost", "http://"] {
        let ran = turms(["ping", "http://localhost:1/", "--proxy", wrong]).run();
        ran.fails(2, &["--proxy: a proxy is written http://HOST:PORT"]);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
    turms(["ping", "http://localhost:1/", "--proxy", "@/nonexistent"]).run().fails(1, &["--proxy: cannot read"]);
    turms(["ping", "demo", "--proxy", "none"]).run().fails(2, &["--proxy is for addresses"]);
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in ["https://localhost:1/", "wss://localhost:1/", "http://localhost:1/"] {
        let ran = turms(["ping", url, "--proxy", &format!("http://ann:secret@{closed}")]).run();
        ran.fails(3, &["cannot connect through the proxy", "hint: is the proxy right?"]);
        assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    }
}

#[test]
fn a_private_authority_is_given_by_an_option_or_the_environment() {
    let (runtime, scratch) = (runtime(), Scratch::new("ca"));
    let file = scratch.file("authority.pem", std::str::from_utf8(CERTIFICATE).unwrap());
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
fn a_secure_server_is_reached_through_a_tunnel_of_the_environment() {
    let (runtime, demo, scratch) = (runtime(), Demo::listening("--http"), Scratch::new("tunnel"));
    let file = scratch.file("authority.pem", std::str::from_utf8(CERTIFICATE).unwrap());
    let secure = runtime.block_on(tls_in_front_of(address(&demo.url)));
    let proxy = runtime.block_on(Proxy::start(Some(CREDENTIALS)));
    let url = format!("https://localhost:{}/mcp", secure.port());
    let through = format!("http://ann:p%261@{}", proxy.address);
    turms(["ping", &url, "--ca-file", &file]).env("HTTPS_PROXY", &through).ok();
    let tunnels = proxy.received();
    assert!(tunnels.iter().all(|it| it.method == "CONNECT") && !tunnels.is_empty(), "{tunnels:?}");
    let ran = turms(["ping", &url]).env("HTTPS_PROXY", format!("http://ann:wrong@{}", proxy.address)).run();
    ran.fails(3, &["cannot connect through the proxy", "hint: the proxy wants credentials"]);
    assert!(!ran.stderr.contains("wrong"), "{}", ran.stderr);
}

#[test]
fn a_file_without_certificates_is_refused() {
    let scratch = Scratch::new("no-ca");
    let file = scratch.file("authority.pem", "nothing");
    let ping = |file: &str| turms(["ping", "https://localhost:1/", "--ca-file", file]).run();
    ping(&file).fails(2, &["--ca-file", "has no certificates in PEM"]);
    ping("/nonexistent").fails(1, &["--ca-file: cannot read"]);
    turms(["ping", "demo"]).env("TURMS_CA_FILE", &file).ok();
}
