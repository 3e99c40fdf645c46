//! The server that the suite is run against, started as the suite's runner starts it. Building this test builds both fixtures,
//! which is how `cargo xtask conformance` gets them without compiling the workspace a second time.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Command, Stdio};

const SERVER: &str = env!("CARGO_BIN_EXE_conformance-server");

#[test]
fn the_server_says_where_it_listens_and_ends_with_its_input() {
    let mut server = Command::new(SERVER)
        .args(["--port", "0", "--with-input"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut address = String::new();
    output.read_line(&mut address).unwrap();
    let authority = address.trim_end().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
    TcpStream::connect(authority.unwrap()).unwrap();

    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
    assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0, "nothing but the address");
}

#[test]
fn a_port_that_is_none_is_named() {
    let output = Command::new(SERVER).args(["--port", "http"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(r#"\"http\" is not a port"#), "{output:?}");
}

#[test]
fn the_client_without_a_server_fails() {
    let client = env!("CARGO_BIN_EXE_conformance-client");
    assert!(!Command::new(client).arg("http://127.0.0.1:1/mcp").output().unwrap().status.success());
}
