//! Common mistakes: each says what happened, on what, and what to try.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::run::{Scratch, TURMS, acting, turms};

#[test]
fn no_such_program() {
    turms(["tools", "--", "no-such-program-here"]).run().fails(
        3,
        &[
            "cannot reach the program \"no-such-program-here\"",
            "there is no such program",
            "hint: is it installed, and in PATH?",
        ],
    );
}

#[test]
fn no_program_at_all() {
    turms(["tools", "--", "python3 server.py"])
        .run()
        .fails(3, &["hint: the program and each of its arguments are words"]);
    turms(["tools", "--", "/"]).run().fails(3, &["hint: is it a program?", "chmod +x"]);
}

#[test]
fn nobody_listens() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for scheme in ["http", "ws"] {
        let url = format!("{scheme}://{free}/mcp");
        turms(["tools", &url])
            .run()
            .fails(3, &[&format!("cannot reach {url}"), "refused", "hint: nobody listens there"]);
    }
}

/// Answers every request so, and remembers none.
fn answering(response: &'static str) -> String {
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
fn authorization_is_wanted() {
    let url = answering(
        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let ran = turms(["tools", &url]).run();
    let path = url.split('?').next().unwrap();
    ran.fails(4, &[&format!("{path} turned the connection down"), "401", "hint: give a token with --bearer TOKEN"]);
    assert!(!ran.stderr.contains("secret"), "{}", ran.stderr);
    let ran = turms(["tools", &url.replace("http:", "ws:")]).run();
    ran.fails(4, &["401", "hint: give a token with --bearer TOKEN"]);
    // Whoever gave one already is not told to give one.
    for url in [&url, &url.replace("http:", "ws:")] {
        turms(["tools", url, "--bearer", "old"]).run().fails(4, &["401", "hint: have the credentials expired"]);
    }
}

#[test]
fn the_server_has_troubles_of_its_own() {
    let status = |line: &str| {
        let response = format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        turms(["tools", &answering(response.leak())]).run()
    };
    status("500 Oops").fails(3, &["500", "hint: the fault is at the server"]);
    status("429 Slow down").fails(3, &["429", "hint: the server is asked too often"]);
    status("307 Elsewhere\r\nLocation: http://other.invalid/mcp")
        .fails(3, &["another origin", "hint: if you trust it, connect to the address at http://other.invalid itself"]);
}

#[test]
fn what_answers_is_no_mcp_server() {
    let page = |head: &str, body: &str| {
        let length = body.len();
        let response =
            format!("HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        turms(["tools", &answering(response.leak())]).run()
    };
    let told = ["/mcp does not answer as an MCP server does", "hint: is the path right?"];
    page("Content-Type: text/html", "<html>").fails(5, &told);
    page("Content-Type: application/json", "{\"hello\":1}").fails(5, &told);
    page("Content-Type: application/json", "{\"hello\"").fails(5, &told);
}

#[test]
fn an_address_that_speaks_something_else() {
    let url = answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    turms(["tools", &url.replace("http:", "wss:")]).run().fails(3, &["cannot reach wss://", "hint: does it speak TLS"]);
    turms(["tools", &url.replace("http:", "https:")]).run().fails(3, &["it does not speak TLS", "http://"]);
    turms(["tools", "http://no-such-host.invalid/mcp"])
        .run()
        .fails(3, &["cannot reach http://no-such-host.invalid/mcp"]);
}

#[test]
fn there_is_nothing_at_this_path() {
    let url = answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
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
    // What is sent as it is, the server judges.
    let ran = turms(["call", "demo", "add", "a:=\"one\"", "b=2"]).run();
    assert!(matches!(ran.status, Some(5 | 6)), "{ran:?}");
}

#[test]
fn a_missing_argument() {
    turms(["call", "demo", "add", "a=1"]).run().fails(2, &["tool \"add\" needs \"b\"", "hint: give it as b=NUMBER"]);
    turms(["call", "demo", "add"]).run().fails(2, &["needs \"a\" and \"b\"", "hint: give them as a=NUMBER b=NUMBER"]);
    let ran = turms(["call", "demo", "add", "--args-json", "-"]).stdin("{}").run();
    assert!(matches!(ran.status, Some(5 | 6)), "{ran:?}");
}

#[test]
fn a_prompt_without_what_it_needs() {
    turms(["prompt", "demo", "journey"])
        .run()
        .fails(2, &["prompt \"journey\" needs \"country\" and \"city\"", "hint: write country=TEXT city=TEXT"]);
    turms(["prompt", "demo", "review", "txt=x"])
        .run()
        .fails(2, &["prompt \"review\" has no argument \"txt\"", "did you mean \"text\"? It takes text, tone"]);
}

#[test]
fn an_argument_that_is_not_one() {
    turms(["call", "demo", "add", "1", "2"])
        .run()
        .fails(2, &["\"1\" is not an argument", "hint: arguments are written KEY=VALUE"]);
    turms(["call", "demo", "remember", "nam=x", "text=y"])
        .run()
        .fails(2, &["tool \"remember\" has no argument \"nam\"", "did you mean \"name\"?"]);
    turms(["call", "demo", "add", "a=1", "b=2", "c=3"])
        .run()
        .fails(2, &["tool \"add\" has no argument \"c\"", "hint: it takes a, b; c:=JSON sends it all the same"]);
    turms(["call", "demo", "add", "--args-json", "-"])
        .stdin("[1]")
        .run()
        .fails(2, &["--args-json: standard input: expected a JSON object"]);
    turms(["call", "demo", "add", "--args-json", "/nonexistent"]).run().fails(1, &["cannot read /nonexistent"]);
}

#[test]
fn a_name_that_is_nearly_right() {
    turms(["call", "demo", "ad", "a=1"])
        .run()
        .fails(2, &["the server has no tool \"ad\"", "hint: did you mean \"add\"?"]);
    turms(["call", "demo", "frobnicate"]).run().fails(2, &["hint: `tools` lists those that it has"]);
    turms(["prompt", "demo", "jorney"]).run().fails(2, &["no prompt \"jorney\"", "hint: did you mean \"journey\"?"]);
}

#[test]
fn a_tool_that_fails() {
    let ran = turms(["call", "demo", "divide", "a=1", "b=0"]).run();
    ran.fails(6, &["tool \"divide\" says that it failed"]);
    assert_eq!(ran.stdout, "nothing can be divided by zero\n");
}

#[test]
fn a_resource_that_is_not_there() {
    turms(["read", "demo", "demo://readm"]).run().fails(5, &["hint: did you mean \"demo://readme\"?"]);
    turms(["read", "demo", "note://{name}"]).run().fails(5, &["hint: a template becomes a URI when"]);
    turms(["read", "demo", "note://none"]).run().fails(5, &["resources/read \"note://none\"", "the server answered"]);
    turms(["raw", "demo", "no/such"]).run().fails(5, &["-32601", "hint: the server does not offer this"]);
    turms(["raw", "demo", "ping", "[1]"]).run().fails(2, &["not a JSON object"]);
}

#[test]
fn a_server_that_prints_to_standard_output() {
    // Before it speaks the protocol it says hello, as many do by mistake.
    let script = format!("echo 'Starting server...'; exec {TURMS} demo --stdio");
    let ran = turms(["call", "add", "a=1", "b=2", "--", "sh", "-c", &script]).run();
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), "3\n"), "{ran:?}");
    let told = "warning: the server wrote 1 line to its standard output that no client understands, such as \"Starting server...\"";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);

    // This one never does anything else.
    let ran = turms(["tools", "--timeout", "0.3", "--", "sh", "-c", "echo hello; cat > /dev/null"]).run();
    ran.fails(
        7,
        &[
            "the program \"sh\"",
            "because it wrote to its standard output:\n    hello\n",
            "hint: a server's standard output",
        ],
    );
    let ran = turms(["tools", "--", "sh", "-c", "echo 'usage: serve \u{1b}[2J'; exit 2"]).run();
    ran.fails(3, &["exited with status 2", "standard output:\n    usage: serve \\u{1b}[2J\n"]);
}

#[test]
fn a_server_that_closes_its_output() {
    let ran = turms(["tools", "--", "sh", "-c", "exec > /dev/null; exec tail -f /dev/null"]).run();
    ran.fails(3, &["the server closed its standard output before the connection was open"]);
}

/// Some would write pages about it.
#[test]
fn a_server_that_still_writes_is_read_until_it_ends() {
    let server = "while read -r line; do :; done; echo bye && echo written >&2";
    let script = format!("{{ {TURMS} demo --stdio; }} ; {server}");
    let ran = turms(["ping", "-v", "--", "sh", "-c", &script]).run();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("server: written"), "{ran:?}");
}

#[test]
fn a_server_that_ends() {
    let ran = turms(["tools", "--", "sh", "-c", "echo 'no module named x' >&2; echo 'giving up' >&2; exit 3"]).run();
    ran.fails(3, &["exited with status 3", "no module named x", "giving up", "hint: its own words should tell why"]);
    assert_eq!(ran.stderr.matches("giving up").count(), 1, "{}", ran.stderr);
    turms(["tools", "--", "true"]).run().fails(3, &["the program \"true\"", "hint: it said nothing before that"]);
}

#[test]
fn a_server_that_is_too_slow() {
    let ran = turms(["call", "demo", "countdown", "steps=9", "pause=9000", "--timeout", "0.2"]).run();
    ran.fails(
        7,
        &[
            "tools/call \"countdown\": no answer within 20",
            "ms; it may have run\n",
            "hint: --timeout SECONDS waits longer",
        ],
    );
}

#[test]
fn a_server_that_reports_progress_without_end() {
    let ran = turms(["call", "demo", "countdown", "steps=1000", "pause=10", "--max-time", "0.2"]).run();
    ran.fails(
        7,
        &[
            "tools/call \"countdown\": no answer within 20",
            "ms in all; it may have run\n",
            "hint: --max-time SECONDS waits longer in all",
        ],
    );
}

/// The command has no setting for it, so it names none.
#[test]
fn an_answer_that_is_longer_than_is_read() {
    const LONG: &str = r#"{"jsonrpc":"2.0","id":$id,"result":{"content":[{"type":"text","text":"$(head -c 17000000 /dev/zero | tr -c x x)"}]}}"#;
    let long = acting(&[
        ("tools/call", LONG),
        (
            "tools/list",
            r#"{"jsonrpc":"2.0","id":$id,"result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}}"#,
        ),
    ]);
    let told =
        "tools/call \"x\": the answer is longer than 16777216 bytes, the most that this command reads; it may have run";
    let ran = turms(["call", "x", "--", "sh", "-c", &long]).run();
    ran.fails(5, &[told]);
    assert!(!ran.stderr.contains("message_limit"), "{}", ran.stderr);

    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"text":""#.to_owned() + &"x".repeat(17_000_000);
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    let url = answering((head + &body).leak());
    let ran = turms(["tools", &url]).run();
    ran.fails(5, &["longer than"]);
    assert!(!ran.stderr.contains("message_limit"), "{}", ran.stderr);
}

#[test]
fn an_error_of_the_server_is_told_with_its_data() {
    let server = acting(&[(
        "tools/list",
        r#"{"jsonrpc":"2.0","id":$id,"error":{"code":-32000,"message":"no way","data":{"why":"rain"}}}"#,
    )]);
    let ran = turms(["tools", "--json", "--", "sh", "-c", &server]).run();
    ran.fails(5, &["tools/list: the server answered: no way (-32000)", "with the data {\"why\":\"rain\"}"]);
    assert_eq!(ran.stdout, "{\"error\":{\"code\":-32000,\"message\":\"no way\",\"data\":{\"why\":\"rain\"}}}\n");
    // Whether a list was made before the time was up is nobody's concern.
    let ran = turms(["tools", "--timeout", "0.5", "--", "sh", "-c", &acting(&[("tools/list", "")])]).run();
    ran.fails(7, &["tools/list: no answer within "]);
    assert!(!ran.stderr.contains("may have run"), "{}", ran.stderr);
}

#[test]
fn a_revision_that_the_server_does_not_speak() {
    let demo = crate::run::Demo::listening("--sse");
    let ran = turms(["tools", &demo.url, "--transport", "sse", "--protocol", "modern"]).run();
    assert_ne!(ran.status, Some(0), "{ran:?}");
    let future = acting(&[(
        "initialize",
        r#"{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"2099-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}"#,
    )]);
    let ran = turms(["tools", "--", "sh", "-c", &future]).run();
    ran.fails(5, &["the server speaks 2099-01-01", "hint: the server is older or newer than this command"]);
    turms(["tools", "demo", "--protocol", "2023-01-01"]).run().fails(2, &["not a revision", "2025-11-25"]);
}

#[test]
fn a_command_is_forgotten() {
    turms(["http://127.0.0.1:1/mcp"])
        .run()
        .fails(2, &["hint: a command comes before the server, such as `turms info URL`"]);
    turms(["call", "add", "a=1"]).run().fails(2, &["there is no server \"add\""]);
    turms(["tools", "sh", "-y", "server"]).run().fails(2, &["hint: to start a program as the server", "`-- sh ...`"]);
}

#[test]
fn a_program_that_is_no_server() {
    // It says everything back that it is told.
    turms(["tools", "--timeout", "0.5", "--", "cat"]).run().fails(7, &["the program \"cat\"", "hint: is it a server"]);
}

#[test]
fn an_address_of_the_wrong_kind() {
    turms(["tools", "ftp://example.com"]).run().fails(2, &["ftp://", "hint: addresses of servers begin with"]);
    turms(["tools", "ws://127.0.0.1:1", "--transport", "sse"]).run().fails(2, &["--transport is about http://"]);
    turms(["tools", "http://"]).run().fails(2, &["\"http://\" is not an address", "hint: an address has a host"]);
    for bare in ["localhost:8080", "127.0.0.1:8080/mcp", "example.com/mcp"] {
        turms(["tools", bare]).run().fails(2, &[&format!("hint: an address begins with its scheme: http://{bare}")]);
    }
    turms(["tools", "demo://", "-H", "x"]).run().fails(2, &["demo://"]);
    turms(["tools", "http://127.0.0.1:1", "-H", "no colon"]).run().fails(2, &["a header is written"]);
    turms(["tools", "-e", "novalue", "--", "true"]).run().fails(2, &["a variable is written NAME=VALUE"]);
}

#[test]
fn an_option_for_another_kind_of_server() {
    for (args, told) in [
        (&["tools", "demo", "-H", "a: b"][..], "--header is for addresses, and the demo server is none"),
        (&["tools", "demo", "--cwd", "/"], "--cwd is for programs that are started, and the demo server is none"),
        (
            &["tools", "http://127.0.0.1:1/x", "-e", "A=b"],
            "--env is for programs that are started, and http://127.0.0.1:1/x",
        ),
        (
            &["tools", "--transport", "sse", "--", "true"],
            "--transport is for addresses, and the program \"true\" is none",
        ),
    ] {
        turms(args).run().fails(2, &[told]);
    }
    // This one may be there for other commands.
    turms(["ping", "demo"]).env("TURMS_BEARER", "x").ok();
    let ran = turms(["ping", "demo", "--root", "/nonexistent"]).run();
    assert!(ran.stderr.contains("warning: --root: there is nothing at /nonexistent"), "{ran:?}");
}

#[test]
fn an_address_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let port = address.rsplit(':').next().unwrap();
    for address in [&address, port, &format!(":{port}")] {
        let told = format!("cannot listen on 127.0.0.1:{port}");
        turms(["demo", "--http", address]).run().fails(1, &[&told, "hint: another program listens there"]);
    }
    turms(["demo", "--http", "nowhere"]).run().fails(2, &["hint: an address is written HOST:PORT"]);
    turms(["demo"]).run().fails(2, &["--stdio"]);
}

#[test]
fn a_name_that_no_configuration_has() {
    let scratch = Scratch::new("names");
    let config = scratch.file("mcp.json", r#"{"mcpServers":{"files":{"command":"x"}}}"#);
    turms(["tools", "file", "--config", &config])
        .run()
        .fails(2, &["there is no server \"file\"", "did you mean \"files\"?"]);
    turms(["tools", "sh"]).cwd(&scratch.0).run().fails(2, &["no server \"sh\"", "put it last: `-- sh`"]);
    turms(["tools", "x", "--config", "/nonexistent"]).run().fails(1, &["/nonexistent: cannot be read"]);
    turms(["tools", "nothing-here"]).cwd(&scratch.0).run().fails(2, &["hint: none was found; the server comes first"]);
}
