use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;

use super::*;

const STATE: &str = "state-1234";

/// A listener that waits for its callback.
struct Waiting {
    address: SocketAddr,
    callback: JoinHandle<Callback>,
}

impl Waiting {
    async fn new(uri: &str) -> Self {
        let listener = Listener::bind(&RedirectUri::parse(uri, true).unwrap()).await.unwrap();
        let address = listener.sockets[0].local_addr().unwrap();
        let callback = tokio::spawn(async move { listener.wait(&Secret::new(STATE)).await });
        Self { address, callback }
    }

    fn host(&self) -> String {
        self.address.to_string()
    }

    /// Sends a request with the right `Host`, and returns the response.
    async fn get(&self, target: &str) -> String {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host())).await
    }

    async fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        // The listener closes the connection after the response. What it has not read may reset it.
        let _ = stream.read_to_string(&mut response).await;
        response
    }

    /// Completes the login, which shows that the wait has gone on.
    async fn complete(self) -> Callback {
        let response = self.get(&format!("/callback?code=right&state={STATE}")).await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        let callback = self.callback.await.unwrap();
        assert_eq!(callback.code, Some(Secret::new("right")));
        callback
    }
}

async fn waiting() -> Waiting {
    Waiting::new("http://127.0.0.1:0/callback").await
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn a_callback_with_the_state_ends_the_wait_with_a_fixed_page() {
    let waiting = waiting().await;
    let response =
        waiting.get(&format!("/callback?state={STATE}&code=c&iss=https%3A%2F%2Fa.example&extra=%3Cb%3E")).await;
    assert_eq!(body(&response), RECEIVED);
    let head = response.to_ascii_lowercase();
    for header in [
        "content-type: text/plain; charset=utf-8",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "referrer-policy: no-referrer",
        "content-security-policy: default-src 'none'; frame-ancestors 'none'",
        "x-frame-options: deny",
    ] {
        assert!(head.contains(header), "{header} is missing in {head}");
    }
    let callback = waiting.callback.await.unwrap();
    assert_eq!(callback.code, Some(Secret::new("c")));
    assert_eq!(callback.iss.as_deref(), Some("https://a.example"));
}

#[tokio::test]
async fn a_callback_without_the_state_is_refused_and_the_wait_goes_on() {
    let waiting = waiting().await;
    for query in [
        "?code=wrong&state=other".to_owned(),
        "?code=wrong&state=".to_owned(),
        "?code=wrong".to_owned(),
        "?error=access_denied&state=other".to_owned(),
        format!("?code=wrong&state={STATE}x"),
        format!("?code=wrong&state={STATE}&state=other"),
        format!("?code=a&code=b&state={STATE}"),
        format!("?state={STATE}"),
        String::new(),
    ] {
        let response = waiting.get(&format!("/callback{query}")).await;
        assert!(response.starts_with("HTTP/1.1 400 "), "{query}: {response}");
        assert_eq!(body(&response), REFUSED);
    }
    waiting.complete().await;
}

#[tokio::test]
async fn a_denied_login_ends_the_wait_with_another_page() {
    let waiting = waiting().await;
    let response = waiting.get(&format!("/callback?error=access_denied&state={STATE}")).await;
    assert_eq!(body(&response), FAILED);
    assert_eq!(waiting.callback.await.unwrap().error.as_deref(), Some("access_denied"));
}

#[tokio::test]
async fn a_question_mark_in_a_value_does_not_hide_the_parameters_before_it() {
    let waiting = waiting().await;
    let query = format!("error=access_denied&state={STATE}&error_uri=https://a.example/errors?id=1");
    let response = waiting.get(&format!("/callback?{query}")).await;
    assert_eq!(body(&response), FAILED);
    assert_eq!(waiting.callback.await.unwrap().error.as_deref(), Some("access_denied"));
}

#[tokio::test]
async fn nothing_of_a_request_is_in_the_response() {
    let waiting = waiting().await;
    let marks = ["m4rk-path", "m4rk-query", "m4rk-header", "m4rk-method"];
    let host = waiting.host();
    for request in [
        format!("GET /m4rk-path?m4rk-query HTTP/1.1\r\nHost: {host}\r\nx: m4rk-header\r\n\r\n"),
        format!("GET /callback?error=m4rk-query&state=x HTTP/1.1\r\nHost: {host}\r\nOrigin: m4rk-header\r\n\r\n"),
        format!("M4RK-METHOD /callback?m4rk-query HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        "GET /callback?m4rk-query HTTP/1.1\r\nHost: m4rk-header\r\n\r\n".to_owned(),
        format!(
            "GET /callback?error=m4rk-query&error_description=%3Cscript%3Em4rk-query&state={STATE} HTTP/1.1\r\n\
             Host: {host}\r\nReferer: m4rk-header\r\n\r\n"
        ),
    ] {
        let response = waiting.send(&request).await.to_ascii_lowercase();
        assert!(response.starts_with("http/1.1 "), "{response}");
        assert!(marks.iter().all(|mark| !response.contains(mark)), "{response}");
        assert!(!response.contains("location:") && !response.contains("access-control-"), "{response}");
    }
}

#[tokio::test]
async fn only_the_exact_path_is_answered() {
    let waiting = waiting().await;
    for path in
        ["/", "/callback/", "/callback/x", "/Callback", "//callback", "/favicon.ico", "/%63allback", "/x/../callback"]
    {
        let response = waiting.get(&format!("{path}?code=wrong&state={STATE}")).await;
        assert!(response.starts_with("HTTP/1.1 404 "), "{path}: {response}");
    }
    waiting.complete().await;
}

#[tokio::test]
async fn other_methods_are_refused() {
    let waiting = waiting().await;
    for method in ["POST", "PUT", "OPTIONS", "HEAD", "DELETE"] {
        let request = format!(
            "{method} /callback?code=wrong&state={STATE} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n",
            waiting.host()
        );
        let response = waiting.send(&request).await;
        assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
    }
    waiting.complete().await;
}

#[tokio::test]
async fn a_page_that_reaches_the_listener_by_another_name_is_refused() {
    let waiting = waiting().await;
    let (host, port) = (waiting.host(), waiting.address.port());
    let target = format!("/callback?code=wrong&state={STATE}");
    for head in [
        format!("GET {target} HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"),
        format!("GET {target} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"),
        format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\n\r\n"),
        format!("GET {target} HTTP/1.0\r\n\r\n"),
        format!("GET http://evil.example{target} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    ] {
        let response = waiting.send(&head).await;
        assert!(response.starts_with("HTTP/1.1 400 ") || response.starts_with("HTTP/1.0 400 "), "{head}: {response}");
    }
    waiting.complete().await;
}

#[tokio::test]
async fn a_callback_is_accepted_once() {
    let expected =
        Expected::new(&RedirectUri::parse("http://127.0.0.1:9/callback", true).unwrap(), &Secret::new(STATE));
    let request = || {
        let uri = format!("/callback?code=c&state={STATE}");
        Request::builder().uri(uri).header(HOST, "127.0.0.1:9").body(()).unwrap()
    };
    assert!(expected.check(&request()).is_ok());
    assert_eq!(expected.check(&request()).unwrap_err().status(), StatusCode::BAD_REQUEST);

    let waiting = waiting().await;
    let address = waiting.address;
    waiting.complete().await;
    assert!(TcpStream::connect(address).await.is_err(), "the listener is still open");
}

#[tokio::test]
async fn silent_and_oversized_connections_do_not_block_the_callback() {
    let waiting = waiting().await;
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS - 1 {
        silent.push(TcpStream::connect(waiting.address).await.unwrap());
    }
    let long = "x".repeat(2 * MAX_CALLBACK_BYTES);
    let response = waiting.get(&format!("/callback?code={long}&state={STATE}")).await;
    assert!(!response.contains(" 200 "), "{response}");
    waiting.complete().await;
}

#[tokio::test(start_paused = true)]
async fn silent_connections_are_closed() {
    let waiting = waiting().await;
    let mut silent = TcpStream::connect(waiting.address).await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
    assert!(began.elapsed() <= CONNECTION_TIMEOUT + Duration::from_secs(1), "{:?}", began.elapsed());
    tokio::time::resume();
    waiting.complete().await;
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost"] {
        let uri = RedirectUri::parse(&format!("http://{host}:{port}/cb"), true).unwrap();
        let error = Listener::bind(&uri).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "cannot listen on 127.0.0.1:{port} for the callback; use another redirect URI, or log in by pasting \
                 the callback URL"
            )
        );
    }
}

#[tokio::test]
async fn the_listener_is_on_loopback_only_and_keeps_the_uri_as_written() {
    for (uri, host) in [
        ("http://127.0.0.1:0/callback", "127.0.0.1"),
        ("http://localhost:0/a/b", "localhost"),
        ("http://localhost:0", "localhost"),
    ] {
        let listener = Listener::bind(&RedirectUri::parse(uri, true).unwrap()).await.unwrap();
        let port = listener.sockets[0].local_addr().unwrap().port();
        assert_eq!(listener.redirect_uri(), uri.replace(":0", &format!(":{port}")), "{host}");
        for socket in &listener.sockets {
            let address = socket.local_addr().unwrap();
            assert!(address.ip().is_loopback() && address.port() == port, "{address}");
        }
    }
    let name = Waiting::new("http://localhost:0/callback").await;
    let request =
        format!("GET /callback?code=c&state={STATE} HTTP/1.1\r\nHost: LOCALHOST:{}\r\n\r\n", name.address.port());
    assert!(name.send(&request).await.starts_with("HTTP/1.1 200 "));
    name.callback.await.unwrap();
}

#[tokio::test]
async fn localhost_is_not_shared_with_another_program() {
    // Another program would get the codes of browsers that try this address first.
    let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await else { return };
    let port = other.local_addr().unwrap().port();
    let uri = RedirectUri::parse(&format!("http://localhost:{port}/cb"), true).unwrap();
    let error = Listener::bind(&uri).await.unwrap_err().to_string();
    assert!(error.starts_with("cannot listen on "), "{error}");
}

#[tokio::test]
async fn connections_that_are_served_at_a_time_are_bounded() {
    let waiting = waiting().await;
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        silent.push(TcpStream::connect(waiting.address).await.unwrap());
    }
    let mut one_more = Box::pin(waiting.get("/other"));
    let pause = tokio::time::sleep(Duration::from_millis(200));
    tokio::select! {
        response = &mut one_more => panic!("it is served beside the others: {response}"),
        () = pause => {}
    }
    silent.pop();
    assert!(one_more.as_mut().await.starts_with("HTTP/1.1 404 "));
    drop((one_more, silent));
    waiting.complete().await;
}
