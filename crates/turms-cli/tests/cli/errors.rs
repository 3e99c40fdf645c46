//! Common errors: each message names the target, the failure, and a hint.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::run::{TURMS, TempDir, scripted_server, turms};

#[test]
fn no_such_program() {
    turms(["tools", "--", "no-such-program-here"]).run().fails(
        3,
        &[
            "cannot reach the program \"no-such-program-here\"",
            "program not found",
            "hint: is it installed, and in PATH?",
        ],
    );
}

#[test]
fn not_a_program() {
    turms(["tools", "--", "python3 server.py"])
        .run()
        .fails(3, &["hint: give the program and its arguments as separate words"]);
    turms(["tools", "--", "/"]).run().fails(3, &["hint: is it executable?", "chmod +x"]);
}

#[test]
fn connection_refused() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["http", "ws"] {
        let url = format!("{scheme}://{free}/mcp");
        turms(["tools", &url])
            .run()
            .fails(3, &[&format!("cannot reach {url}"), "refused", "hint: is the server running"]);
    }
}

/// Starts a server that sends `response` to every request, and returns its URL.
fn respond_with(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    format!("http://{address}/mcp?key=secret")
}

#[test]
fn authorization_is_required() {
    let url = respond_with(
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let output = turms(["tools", &url]).run();
    let path = url.split('?').next().unwrap();
    output.fails(
        4,
        &[&format!("cannot connect to {path}: not authorized"), "401", "hint: give a token with --bearer TOKEN"],
    );
    assert!(!output.stderr.contains("secret"), "{}", output.stderr);
    let output = turms(["tools", &url.replace("http:", "ws:")]).run();
    output.fails(4, &["401", "hint: give a token with --bearer TOKEN"]);
    // With a token, the hint differs.
    for url in [&url, &url.replace("http:", "ws:")] {
        turms(["tools", url, "--bearer", "old"]).run().fails(4, &["401", "hint: have the credentials expired"]);
    }
}

#[test]
fn the_server_responds_with_an_error_status() {
    let status = |line: &str| {
        let response = format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        turms(["tools", &respond_with(response.leak())]).run()
    };
    status("500 Oops").fails(3, &["500", "hint: the server failed"]);
    status("429 Slow down").fails(3, &["429", "hint: too many requests"]);
    status("307 Elsewhere\r\nLocation: http://other.invalid/mcp")
        .fails(3, &["another origin", "hint: if you trust http://other.invalid, connect to it directly"]);
}

#[test]
fn not_an_mcp_server() {
    let page = |head: &str, body: &str| {
        let length = body.len();
        let response =
            format!("HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        turms(["tools", &respond_with(response.leak())]).run()
    };
    let messages = ["/mcp did not send a valid MCP response", "hint: is the path right?"];
    page("Content-Type: text/html", "<html>").fails(5, &messages);
    page("Content-Type: application/json", "{\"hello\":1}").fails(5, &messages);
    page("Content-Type: application/json", "{\"hello\"").fails(5, &messages);
}

#[test]
fn a_url_of_another_protocol() {
    let url = respond_with("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    turms(["tools", &url.replace("http:", "wss:")])
        .run()
        .fails(3, &["cannot reach wss://", "hint: does the server use TLS"]);
    turms(["tools", &url.replace("http:", "https:")]).run().fails(3, &["the server does not use TLS", "http://"]);
    turms(["tools", "http://no-such-host.invalid/mcp"])
        .run()
        .fails(3, &["cannot reach http://no-such-host.invalid/mcp"]);
}

#[test]
fn a_wrong_path() {
    let url = respond_with("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    turms(["tools", &url]).run().fails(3, &["404", "hint: is the path right?"]);
}

#[test]
fn a_wrong_type_of_argument() {
    turms(["call", "demo", "add", "a=one", "b=2"])
        .run()
        .fails(2, &["tool \"add\", argument \"a\": expected a number, found \"one\""]);
    turms(["call", "demo", "weather", "city=Rome", "unit=kelvin"])
        .run()
        .fails(2, &["argument \"unit\": expected one of \"celsius\", \"fahrenheit\", found \"kelvin\""]);
    // JSON is sent without checks, and the server rejects it.
    let output = turms(["call", "demo", "add", "a:=\"one\"", "b=2"]).run();
    assert!(matches!(output.status, Some(5 | 6)), "{output:?}");
}

#[test]
fn a_missing_argument() {
    turms(["call", "demo", "add", "a=1"]).run().fails(2, &["tool \"add\" needs \"b\"", "hint: give it as b=NUMBER"]);
    turms(["call", "demo", "add"]).run().fails(2, &["needs \"a\" and \"b\"", "hint: give them as a=NUMBER b=NUMBER"]);
    let output = turms(["call", "demo", "add", "--args-json", "-"]).stdin("{}").run();
    assert!(matches!(output.status, Some(5 | 6)), "{output:?}");
}

#[test]
fn a_prompt_without_its_arguments() {
    turms(["prompt", "demo", "journey"])
        .run()
        .fails(2, &["prompt \"journey\" needs \"country\" and \"city\"", "hint: give country=TEXT city=TEXT"]);
    turms(["prompt", "demo", "review", "txt=x"])
        .run()
        .fails(2, &["prompt \"review\" has no argument \"txt\"", "did you mean \"text\"? expected one of text, tone"]);
}

#[test]
fn an_invalid_argument() {
    turms(["call", "demo", "add", "1", "2"])
        .run()
        .fails(2, &["\"1\" is not an argument", "hint: write arguments as KEY=VALUE"]);
    turms(["call", "demo", "remember", "nam=x", "text=y"])
        .run()
        .fails(2, &["tool \"remember\" has no argument \"nam\"", "did you mean \"name\"?"]);
    turms(["call", "demo", "add", "a=1", "b=2", "c=3"])
        .run()
        .fails(2, &["tool \"add\" has no argument \"c\"", "hint: expected one of a, b; c:=JSON sends it anyway"]);
    turms(["call", "demo", "add", "--args-json", "-"])
        .stdin("[1]")
        .run()
        .fails(2, &["--args-json: standard input: expected a JSON object"]);
    turms(["call", "demo", "add", "--args-json", "/nonexistent"]).run().fails(1, &["cannot read /nonexistent"]);
}

#[test]
fn a_misspelled_name() {
    turms(["call", "demo", "ad", "a=1"])
        .run()
        .fails(2, &["the server has no tool \"ad\"", "hint: did you mean \"add\"?"]);
    turms(["call", "demo", "frobnicate"]).run().fails(2, &["hint: `tools` lists the tools"]);
    turms(["prompt", "demo", "jorney"]).run().fails(2, &["no prompt \"jorney\"", "hint: did you mean \"journey\"?"]);
}

#[test]
fn a_tool_that_fails() {
    let output = turms(["call", "demo", "divide", "a=1", "b=0"]).run();
    output.fails(6, &["tool \"divide\" failed"]);
    assert_eq!(output.stdout, "cannot divide by zero\n");
}

#[test]
fn an_unknown_resource() {
    turms(["read", "demo", "demo://readm"]).run().fails(5, &["hint: did you mean \"demo://readme\"?"]);
    turms(["read", "demo", "note://{name}"]).run().fails(5, &["hint: this is a template"]);
    turms(["read", "demo", "note://none"])
        .run()
        .fails(5, &["resources/read \"note://none\"", "error response from server"]);
    turms(["raw", "demo", "no/such"]).run().fails(5, &["-32601", "hint: the server does not support this method"]);
    turms(["raw", "demo", "ping", "[1]"]).run().fails(2, &["not a JSON object"]);
}

#[test]
fn a_server_that_prints_to_standard_output() {
    // A banner before the first message, a common mistake.
    let script = format!("echo 'Starting server...'; exec {TURMS} demo --stdio");
    let output = turms(["call", "add", "a=1", "b=2", "--", "sh", "-c", &script]).run();
    assert_eq!((output.status, output.stdout.as_str()), (Some(0), "3\n"), "{output:?}");
    let warning =
        "warning: the server wrote invalid messages to standard output (1 line, such as \"Starting server...\")";
    assert!(output.stderr.contains(warning), "{}", output.stderr);

    // A program that sends no messages at all.
    let output = turms(["tools", "--timeout", "0.3", "--", "sh", "-c", "echo hello; cat > /dev/null"]).run();
    output.fails(
        7,
        &[
            "the program \"sh\"",
            "caused by: the server wrote to standard output:\n    hello\n",
            "hint: standard output must only contain MCP messages",
        ],
    );
    let output = turms(["tools", "--", "sh", "-c", "echo 'usage: serve \u{1b}[2J'; exit 2"]).run();
    output.fails(3, &["exited with status 2", "standard output:\n    usage: serve \\u{1b}[2J\n"]);
}

#[test]
fn a_server_that_closes_its_output() {
    let output = turms(["tools", "--", "sh", "-c", "exec > /dev/null; exec tail -f /dev/null"]).run();
    output.fails(3, &["the server closed its standard output before the connection was open"]);
}

#[test]
fn a_server_is_read_until_it_exits() {
    let server = "while read -r line; do :; done; echo bye && echo written >&2";
    let script = format!("{{ {TURMS} demo --stdio; }} ; {server}");
    let output = turms(["ping", "-v", "--", "sh", "-c", &script]).run();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(output.stderr.contains("server: written"), "{output:?}");
}

#[test]
fn a_server_that_exits() {
    let output = turms(["tools", "--", "sh", "-c", "echo 'no module named x' >&2; echo 'giving up' >&2; exit 3"]).run();
    output.fails(
        3,
        &["exited with status 3", "no module named x", "giving up", "hint: see its standard error for the reason"],
    );
    assert_eq!(output.stderr.matches("giving up").count(), 1, "{}", output.stderr);
    turms(["tools", "--", "true"])
        .run()
        .fails(3, &["the program \"true\"", "hint: it wrote nothing to standard error"]);
}

#[test]
fn a_server_that_is_too_slow() {
    let output = turms(["call", "demo", "countdown", "steps=9", "pause=9000", "--timeout", "0.2"]).run();
    output.fails(
        7,
        &[
            "tools/call \"countdown\": no response within 200 ms; the call may have run\n",
            "hint: --timeout SECONDS sets a longer timeout",
        ],
    );
}

#[test]
fn a_server_that_reports_progress_without_end() {
    let output = turms(["call", "demo", "countdown", "steps=1000", "pause=10", "--max-time", "0.2"]).run();
    output.fails(
        7,
        &[
            "tools/call \"countdown\": no response within 200 ms in total; the call may have run\n",
            "hint: --max-time SECONDS sets a longer timeout",
        ],
    );
}

/// The command has no setting for the limit, so the message names none.
#[test]
fn a_response_larger_than_the_limit() {
    const LONG: &str = r#"{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"$(head -c 17000000 /dev/zero | tr -c x x)"}]}}"#;
    let long = scripted_server(&[
        ("tools/call", LONG),
        (
            "tools/list",
            r#"{"jsonrpc":"2.0","id":$id,"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}}"#,
        ),
    ]);
    let message = "tools/call \"x\": the response is larger than 16777216 bytes, the maximum of this command; the call may have run";
    let output = turms(["call", "x", "--", "sh", "-c", &long]).run();
    output.fails(5, &[message]);
    assert!(!output.stderr.contains("max_message_bytes"), "{}", output.stderr);

    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"text":""#.to_owned() + &"x".repeat(17_000_000);
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    let url = respond_with((head + &body).leak());
    let output = turms(["tools", &url]).run();
    output.fails(5, &["larger than"]);
    assert!(!output.stderr.contains("max_message_bytes"), "{}", output.stderr);
}

#[test]
fn an_error_response_is_shown_with_its_data() {
    let server = scripted_server(&[(
        "tools/list",
        r#"{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no way","data":{"why":"rain"}}}"#,
    )]);
    let output = turms(["tools", "--json", "--", "sh", "-c", &server]).run();
    output.fails(5, &["tools/list: error response from server: no way (-32000)", "data: {\"why\":\"rain\"}"]);
    assert_eq!(output.stdout, "{\"error\":{\"code\":-32000,\"message\":\"no way\",\"data\":{\"why\":\"rain\"}}}\n");
    // A list has no side effects, so the message does not say that it may have run.
    let output = turms(["tools", "--timeout", "0.5", "--", "sh", "-c", &scripted_server(&[("tools/list", "")])]).run();
    output.fails(7, &["tools/list: no response within 500 ms"]);
    assert!(!output.stderr.contains("may have run"), "{}", output.stderr);
}

#[test]
fn an_unsupported_revision() {
    let demo = crate::run::Demo::listening("--sse");
    let output = turms(["tools", &demo.url, "--transport", "sse", "--protocol", "modern"]).run();
    assert_ne!(output.status, Some(0), "{output:?}");
    let future = scripted_server(&[(
        "initialize",
        r#"{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"2099-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#,
    )]);
    let output = turms(["tools", "--", "sh", "-c", &future]).run();
    output.fails(5, &["the server supports 2099-01-01", "hint: the server and this command have no common revision"]);
    turms(["tools", "demo", "--protocol", "2023-01-01"]).run().fails(2, &["not a protocol revision", "2025-11-25"]);
}

#[test]
fn a_missing_command() {
    turms(["http://127.0.0.1:1/mcp"]).run().fails(2, &["hint: the command comes first, as in `turms info URL`"]);
    turms(["call", "add", "a=1"]).run().fails(2, &["no server \"add\""]);
    turms(["tools", "sh", "-y", "server"]).run().fails(2, &["hint: to start a program as the server", "`-- sh ...`"]);
}

#[test]
fn a_program_that_is_not_a_server() {
    // `cat` returns every message.
    turms(["tools", "--timeout", "0.5", "--", "cat"])
        .run()
        .fails(7, &["the program \"cat\"", "hint: is it an MCP server"]);
}

#[test]
fn an_invalid_url() {
    turms(["tools", "ftp://example.com"]).run().fails(2, &["ftp://", "hint: URLs of servers begin with"]);
    turms(["tools", "ws://127.0.0.1:1", "--transport", "sse"]).run().fails(2, &["--transport is for http://"]);
    turms(["tools", "http://"]).run().fails(2, &["\"http://\" is not a valid URL", "hint: a URL has a host"]);
    for bare in ["localhost:8080", "127.0.0.1:8080/mcp", "example.com/mcp"] {
        turms(["tools", bare]).run().fails(2, &[&format!("hint: a URL begins with its scheme: http://{bare}")]);
    }
    turms(["tools", "demo://", "-H", "x"]).run().fails(2, &["demo://"]);
    turms(["tools", "http://127.0.0.1:1", "-H", "no colon"]).run().fails(2, &["--header: expected \"NAME: VALUE\""]);
    turms(["tools", "-e", "novalue", "--", "true"]).run().fails(2, &["--env: expected NAME=VALUE"]);
}

#[test]
fn an_option_for_another_kind_of_server() {
    for (args, message) in [
        (&["tools", "demo", "-H", "a: b"][..], "--header is only for URLs, not for the demo server"),
        (&["tools", "demo", "--cwd", "/"], "--cwd is only for programs, not for the demo server"),
        (&["tools", "http://127.0.0.1:1/x", "-e", "A=b"], "--env is only for programs, not for http://127.0.0.1:1/x"),
        (&["tools", "--transport", "sse", "--", "true"], "--transport is only for URLs, not for the program \"true\""),
    ] {
        turms(args).run().fails(2, &[message]);
    }
    // The token may be in the environment for other commands.
    turms(["ping", "demo"]).env("TURMS_BEARER", "x").ok();
    let output = turms(["ping", "demo", "--root", "/nonexistent"]).run();
    assert!(output.stderr.contains("warning: --root: /nonexistent does not exist"), "{output:?}");
}

#[test]
fn an_address_in_use() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let port = address.rsplit(':').next().unwrap();
    for address in [&address, port, &format!(":{port}")] {
        let message = format!("cannot listen on 127.0.0.1:{port}");
        turms(["demo", "--http", address]).run().fails(1, &[&message, "hint: another program uses the port"]);
    }
    turms(["demo", "--http", "nowhere"]).run().fails(2, &["hint: expected HOST:PORT"]);
    turms(["demo"]).run().fails(2, &["--stdio"]);
}

#[test]
fn an_unknown_server_name() {
    let directory = TempDir::new("names");
    let config = directory.file("mcp.json", r#"{"mcpServers":{"files":{"command":"x"}}}"#);
    turms(["tools", "file", "--config", &config]).run().fails(2, &["no server \"file\"", "did you mean \"files\"?"]);
    turms(["tools", "sh"])
        .current_dir(&directory.0)
        .run()
        .fails(2, &["no server \"sh\"", "put it last, after `--`: `-- sh`"]);
    turms(["tools", "x", "--config", "/nonexistent"]).run().fails(1, &["/nonexistent: cannot be read"]);
    turms(["tools", "nothing-here"])
        .current_dir(&directory.0)
        .run()
        .fails(2, &["hint: no configuration file has servers"]);
}

#[test]
fn a_file_over_the_limit_is_not_sent_in_part() {
    let file = std::env::temp_dir().join(format!("turms-long-{}.txt", std::process::id()));
    std::fs::File::create(&file).unwrap().set_len((64 << 20) + 1).unwrap();
    let value = format!("text=@{}", file.display());
    turms(["call", "demo", "remember", "name=x", &value]).run().fails(1, &["longer than 64 MiB"]);
    std::fs::remove_file(file).unwrap();
}
