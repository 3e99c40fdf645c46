use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};

use turms_core::TransportKind;

use super::*;

/// A configuration with one server `x`, and one variable `KEY`.
fn one(entry: &str) -> McpConfig {
    parse(&format!("{{\"mcpServers\": {{\"x\": {entry}}}}}"))
}

fn parse(text: &str) -> McpConfig {
    McpConfig::parse(text).unwrap().variables(|name| match name {
        "KEY" => Some("s3cret".to_owned()),
        "NUL" => Some("a\0b".to_owned()),
        _ => None,
    })
}

fn entry(entry: &str) -> ServerEntry {
    one(entry).server("x").unwrap().unwrap()
}

fn error(entry: &str) -> String {
    let error = one(entry).server("x").unwrap().unwrap_err();
    let message = error.to_string();
    message.strip_prefix("server \"x\": ").unwrap().to_owned()
}

fn problem(text: &str) -> String {
    McpConfig::parse(text).unwrap_err().to_string()
}

/// A folder that is gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("turms-config-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

mod shapes {
    use super::*;

    #[test]
    fn servers_stand_in_any_of_the_known_places() {
        for text in [
            r#"{"mcpServers": {"a": {"command": "c"}}}"#,
            r#"{"inputs": [], "servers": {"a": {"command": "c"}}}"#,
            r#"{"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"a": {"command": "c"}}}}"#,
            r#"{"mcp.servers": {"a": {"command": "c"}}}"#,
            r#"{"servers": [], "mcpServers": {"a": {"command": "c"}}}"#,
            r#"{"mcpServers": null, "servers": {"a": {"command": "c"}}}"#,
        ] {
            let config = parse(text);
            assert_eq!(config.names().collect::<Vec<_>>(), ["a"], "{text}");
            assert!(config.server("a").unwrap().is_ok());
        }
    }

    #[test]
    fn servers_come_in_the_order_of_the_file() {
        let config = parse(r#"{"mcpServers": {"z": {"command": "1"}, "a": {"command": "2"}, "m": {"command": "3"}}}"#);
        assert_eq!(config.servers().map(|(name, _)| name).collect::<Vec<_>>(), ["z", "a", "m"]);
        assert!(config.server("b").is_none());
    }

    #[test]
    fn the_last_of_two_entries_of_one_name_counts() {
        let config = parse(r#"{"mcpServers": {"a": {"command": "1"}, "a": {"command": "2"}}}"#);
        assert_eq!(config.servers().len(), 1);
        assert!(
            matches!(config.server("a").unwrap().unwrap().target, ServerTarget::Command { program, .. } if program == "2")
        );
    }

    #[test]
    fn one_bad_entry_does_not_stop_the_others() {
        let config = parse(r#"{"mcpServers": {"a": {"command": "${NONE}"}, "b": {"command": "c"}, "d": 1}}"#);
        let good: Vec<_> = config.servers().map(|(name, entry)| (name, entry.is_ok())).collect();
        assert_eq!(good, [("a", false), ("b", true), ("d", false)]);
    }

    #[test]
    fn a_file_without_servers_is_told_from_one_with_none() {
        let error = McpConfig::parse("{\"theme\": \"dark\"}").unwrap_err();
        assert!(error.is_without_servers());
        assert_eq!(error.to_string(), "has neither \"mcpServers\" nor \"servers\"");
        assert_eq!(parse("{\"mcpServers\": {}}").names().len(), 0);
    }

    #[test]
    fn servers_of_a_project_are_found_by_its_folder() {
        let config = parse(
            r#"{"numStartups": 3, "projects": {
                "/src/a": {"mcpServers": {"x": {"command": "${workspaceFolder}/run"}}},
                "C:/src/b": {"mcpServers": {}},
                "/src/c": {},
                "/src/d": {"mcpServers": []}
            }}"#,
        );
        assert_eq!(config.names().len(), 0);
        let project = config.project("/src/a/").unwrap().unwrap();
        let entry = project.server("x").unwrap().unwrap();
        assert!(matches!(entry.target, ServerTarget::Command { program, .. } if program == "/src/a//run"));
        assert!(config.project("C:\\src\\b").unwrap().is_ok());
        assert!(config.project("/src/c").is_none() && config.project("/src").is_none());
        let error = config.project("/src/d").unwrap().unwrap_err();
        assert_eq!(error.to_string(), "projects[\"/src/d\"].mcpServers: expected an object, found an array");
    }

    #[test]
    fn members_nobody_knows_are_kept_as_they_are() {
        let entry = entry(r#"{"command": "c", "timeout": 60, "autoApprove": ["${NONE}"], "headers": {}}"#);
        assert_eq!(entry.extra.as_str(), r#"{"timeout":60,"autoApprove":["${NONE}"],"headers":{}}"#);
    }
}

mod commands {
    use super::*;

    #[test]
    fn a_command_has_arguments_environment_and_folder() {
        let entry = entry(
            r#"{"type": "stdio", "command": "npx", "args": ["-y", "${KEY}"], "cwd": "/tmp",
                "env": {"TOKEN": "${KEY}", "PORT": 80, "DEBUG": true, "GONE": null}}"#,
        );
        let ServerTarget::Command { program, args, env, cwd } = entry.target else { panic!("not a command") };
        assert_eq!((program.as_str(), cwd.as_deref()), ("npx", Some(Path::new("/tmp"))));
        assert_eq!(args, ["-y", "s3cret"]);
        let env: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        assert_eq!(env, [("TOKEN", Some("s3cret")), ("PORT", Some("80")), ("DEBUG", Some("true")), ("GONE", None)]);
        assert!(entry.enabled && entry.extra.is_empty());
    }

    #[test]
    fn null_is_as_good_as_nothing() {
        let entry = entry(r#"{"command": "c", "args": null, "env": null, "cwd": null, "url": null, "type": null}"#);
        let ServerTarget::Command { args, env, cwd, .. } = entry.target else { panic!("not a command") };
        assert!(args.is_empty() && env.is_empty() && cwd.is_none());
    }

    #[test]
    fn what_the_operating_system_would_not_take_is_an_error() {
        assert_eq!(error(r#"{"command": ""}"#), "command: is empty");
        assert_eq!(error(r#"{"command": "a\u0000b"}"#), "command: has a NUL character");
        assert_eq!(error(r#"{"command": "c", "args": ["", "\u0000"]}"#), "args[1]: has a NUL character");
        assert_eq!(error(r#"{"command": "c", "args": ["${NUL}"]}"#), "args[0]: has a NUL character");
        assert_eq!(error(r#"{"command": "c", "env": {"A": "\u0000"}}"#), "env.A: has a NUL character");
        assert_eq!(error(r#"{"command": "c", "env": {"": "1"}}"#), "env[\"\"]: cannot be the name of a variable");
        assert_eq!(error(r#"{"command": "c", "env": {"A=B": "1"}}"#), "env[\"A=B\"]: cannot be the name of a variable");
        assert_eq!(error(r#"{"command": "c", "cwd": ""}"#), "cwd: is empty");
    }

    #[test]
    fn an_unset_variable_names_server_member_and_variable() {
        let folder = Folder::new("unset");
        let text = r#"{"mcpServers": {"github": {"command": "c", "env": {"TOKEN": "${GITHUB_TOKEN}"}}}}"#;
        let path = folder.write("mcp.json", text);
        let config = McpConfig::read(&path).unwrap().variables(|_| None);
        let error = config.server("github").unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{}: server \"github\": env.TOKEN: the environment has no variable \"GITHUB_TOKEN\"",
                path.display()
            )
        );
        assert_eq!((error.file(), error.server(), error.path()), (Some(path.as_path()), "github", "env.TOKEN"));
        assert!(matches!(error.kind(), EntryErrorKind::UnsetVariable { name } if name == "GITHUB_TOKEN"));
    }

    #[test]
    fn the_environment_of_the_process_is_the_default() {
        let config = McpConfig::parse(r#"{"mcpServers": {"x": {"command": "${PATH}"}}}"#).unwrap();
        let entry = config.server("x").unwrap().unwrap();
        assert!(
            matches!(entry.target, ServerTarget::Command { program, .. } if program == std::env::var("PATH").unwrap())
        );
    }
}

mod env_files {
    use super::*;

    #[test]
    fn the_entry_overrides_its_file() {
        let folder = Folder::new("env-file");
        folder.write(".env", "A=1\nB='${KEY}' # as it is\n");
        let config =
            folder.write("mcp.json", r#"{"servers": {"x": {"command": "c", "envFile": ".env", "env": {"A": "2"}}}}"#);
        let entry = McpConfig::read(config).unwrap().server("x").unwrap().unwrap();
        let ServerTarget::Command { env, .. } = entry.target else { panic!("not a command") };
        let env: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        assert_eq!(env, [("A", Some("2")), ("B", Some("${KEY}"))]);
    }

    #[test]
    fn a_relative_file_is_looked_for_in_the_workspace_first() {
        let folder = Folder::new("env-workspace");
        folder.write("a.env", "A=1");
        for path in ["a.env", "${workspaceFolder}/a.env"] {
            let config = one(&format!(r#"{{"command": "c", "envFile": "{path}"}}"#)).workspace_folder(&folder.0);
            assert!(config.server("x").unwrap().is_ok(), "{path}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_an_error_of_the_entry() {
        let folder = Folder::new("env-bad");
        folder.write("bad.env", "A=1\ns3cret\n");
        folder.write("nul.env", "A=a\0b\n");
        folder.write("huge.env", "#".repeat(2 << 20));
        for (name, problem, cause) in [
            ("bad.env", ": line 2: expected NAME=value", None),
            ("nul.env", ": line 1: has a NUL character", None),
            ("huge.env", " cannot be read", Some("the file is larger than 1048576 bytes")),
        ] {
            let config = one(&format!(r#"{{"command": "c", "envFile": "{name}"}}"#)).workspace_folder(&folder.0);
            let error = config.server("x").unwrap().unwrap_err();
            let path = folder.0.join(name);
            assert_eq!(error.to_string(), format!("server \"x\": envFile: {}{problem}", path.display()));
            assert_eq!(error.source().map(ToString::to_string).as_deref(), cause);
            assert!(!format!("{error:?}").contains("s3cret"));
        }
    }
}

mod addresses {
    use super::*;

    fn transport(text: &str) -> TransportKind {
        let ServerTarget::Url { transport, .. } = entry(text).target else { panic!("not an address") };
        transport
    }

    #[test]
    fn an_address_has_headers_that_are_marked_as_sensitive() {
        let entry = entry(r#"{"url": "https://${KEY}.example/mcp?k=${KEY}", "headers": {"X-Key": "Bearer ${KEY}"}}"#);
        let ServerTarget::Url { url, headers, transport } = entry.target else { panic!("not an address") };
        assert_eq!(url, "https://s3cret.example/mcp?k=s3cret");
        assert_eq!(headers["x-key"], "Bearer s3cret");
        assert!(headers["x-key"].is_sensitive());
        assert_eq!(transport, TransportKind::Auto);
    }

    #[test]
    fn the_transport_may_be_written_in_many_ways() {
        for (name, expected) in [
            ("http", TransportKind::StreamableHttp),
            ("streamable-http", TransportKind::StreamableHttp),
            ("streamableHttp", TransportKind::StreamableHttp),
            ("sse", TransportKind::HttpSse),
            ("SSE", TransportKind::HttpSse),
        ] {
            assert_eq!(transport(&format!(r#"{{"type": "{name}", "url": "http://a/"}}"#)), expected);
            assert_eq!(transport(&format!(r#"{{"transport": "{name}", "serverUrl": "https://a"}}"#)), expected);
        }
        assert_eq!(transport(r#"{"type": "ws", "url": "ws://a"}"#), TransportKind::WebSocket);
        assert_eq!(transport(r#"{"type": "websocket", "url": "wss://a:1/b"}"#), TransportKind::WebSocket);
        assert_eq!(transport(r#"{"url": "wss://a"}"#), TransportKind::WebSocket);
        assert_eq!(transport(r#"{"url": "WSS://a"}"#), TransportKind::WebSocket);
        assert_eq!(transport(r#"{"url": "HTTPS://a"}"#), TransportKind::Auto);
        assert_eq!(transport(r#"{"httpUrl": "http://a"}"#), TransportKind::StreamableHttp);
        assert_eq!(
            transport(r#"{"type": "http", "transport": "streamable-http", "url": "http://a"}"#),
            TransportKind::StreamableHttp
        );
    }

    #[test]
    fn an_entry_is_either_a_command_or_an_address() {
        assert_eq!(error("{}"), "has neither \"command\" nor \"url\"");
        assert_eq!(error(r#"{"command": "c", "url": "http://a"}"#), "has both \"command\" and \"url\"");
        assert_eq!(error(r#"{"serverUrl": "http://a", "url": "http://a"}"#), "has both \"url\" and \"serverUrl\"");
    }

    #[test]
    fn the_transport_has_to_go_with_the_rest() {
        assert_eq!(error(r#"{"type": "sse", "command": "c"}"#), "type: \"sse\" does not go with \"command\"");
        assert_eq!(
            error(r#"{"transport": "stdio", "url": "http://a"}"#),
            "transport: \"stdio\" does not go with \"url\""
        );
        assert_eq!(error(r#"{"type": "pigeon", "url": "http://a"}"#), "type: unknown transport \"pigeon\"");
        assert_eq!(
            error(r#"{"type": "http", "transport": "sse", "url": "http://a"}"#),
            "\"type\" and \"transport\" disagree"
        );
        assert_eq!(
            error(r#"{"type": "http", "url": "wss://a"}"#),
            "url: the address begins with wss://, which does not go with the stated transport"
        );
        assert_eq!(
            error(r#"{"type": "ws", "url": "https://a"}"#),
            "url: the address begins with https://, which does not go with the stated transport"
        );
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        for url in [
            "",
            "a.example",
            "/mcp",
            "ftp://a",
            "http://",
            "https:///mcp",
            "http://a b",
            "http://a/\\u0000",
            "file:///x",
        ] {
            let message = error(&format!(r#"{{"url": "{url}"}}"#));
            assert_eq!(
                message, "url: expected an address that begins with http://, https://, ws:// or wss://",
                "{url}"
            );
        }
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let with = |headers: &str| error(&format!(r#"{{"url": "http://a", "headers": {headers}}}"#));
        assert_eq!(with(r#"{"a b": ""}"#), "headers[\"a b\"]: cannot be the name of a header");
        assert_eq!(with(r#"{"a": "b\r\nc: d"}"#), "headers.a: has characters that a header cannot carry");
        assert_eq!(with(r#"{"a": "${NUL}"}"#), "headers.a: has characters that a header cannot carry");
    }

    #[test]
    fn more_headers_than_a_request_can_carry_are_refused() {
        let headers: Vec<_> = (0..40_000).map(|at| format!("\"x-{at}\": \"\"")).collect();
        let message = error(&format!(r#"{{"url": "http://a", "headers": {{{}}}}}"#, headers.join(",")));
        assert!(message.ends_with(": too many headers"), "{message}");
    }
}

mod switches {
    use super::*;

    #[test]
    fn either_member_switches_a_server_off() {
        for (members, enabled) in [
            (r#""disabled": true"#, false),
            (r#""enabled": false"#, false),
            (r#""disabled": false"#, true),
            (r#""enabled": true"#, true),
            (r#""disabled": true, "enabled": true"#, false),
        ] {
            let entry = entry(&format!(r#"{{"command": "c", {members}}}"#));
            assert_eq!(entry.enabled, enabled, "{members}");
            assert!(entry.extra.is_empty());
        }
    }

    #[test]
    fn an_error_tells_whether_the_server_is_switched_off() {
        for (disabled, text) in [(true, "true"), (false, "false")] {
            let config = one(&format!(r#"{{"command": "${{NONE}}", "disabled": {text}}}"#));
            assert_eq!(config.server("x").unwrap().unwrap_err().is_disabled(), disabled);
        }
    }
}

mod hostile {
    use super::*;

    #[test]
    fn wrong_types_are_named_with_their_place_and_not_their_value() {
        for (text, message) in [
            ("\"s3cret\"", "expected an object, found a string"),
            (r#"{"command": ["s3cret"]}"#, "command: expected a string, found an array"),
            (r#"{"command": "c", "args": "s3cret"}"#, "args: expected an array of strings, found a string"),
            (r#"{"command": "c", "args": ["a", 8080]}"#, "args[1]: expected a string, found a number"),
            (r#"{"command": "c", "args": [null]}"#, "args[0]: expected a string, found null"),
            (r#"{"command": "c", "env": "A=s3cret"}"#, "env: expected an object, found a string"),
            (r#"{"command": "c", "env": {"A": ["s3cret"]}}"#, "env.A: expected a string, found an array"),
            (r#"{"command": "c", "env": {"A": {}}}"#, "env.A: expected a string, found an object"),
            (r#"{"command": "c", "cwd": false}"#, "cwd: expected a string, found a boolean"),
            (r#"{"command": "c", "envFile": 1}"#, "envFile: expected a string, found a number"),
            (r#"{"command": "c", "disabled": "s3cret"}"#, "disabled: expected a boolean, found a string"),
            (r#"{"command": "c", "type": {"type": "http"}}"#, "type: expected a string, found an object"),
            (r#"{"url": {}}"#, "url: expected a string, found an object"),
            (r#"{"url": "http://a", "headers": ["A: s3cret"]}"#, "headers: expected an object, found an array"),
            (r#"{"url": "http://a", "headers": {"A": 1}}"#, "headers.A: expected a string, found a number"),
            (r#"{"command": "\ud800"}"#, "command: is not valid Unicode"),
        ] {
            assert_eq!(error(text), message);
        }
        assert_eq!(problem("[]"), "expected an object, found an array");
        assert_eq!(problem("{\"mcpServers\": []}"), "mcpServers: expected an object, found an array");
        assert_eq!(problem("{\"mcp\": {\"servers\": 1}}"), "mcp.servers: expected an object, found a number");
    }

    #[test]
    fn broken_text_is_placed_by_line_and_column_of_the_original() {
        for (text, message) in [
            ("", "line 1, column 1: unexpected end of input"),
            ("\u{feff}{x", "line 1, column 2: unexpected character"),
            ("{ // é\n  /* é */ \"é\": x }", "line 2, column 16: unexpected character"),
            ("{\r\n\"a\": [1,],,}", "line 2, column 11: unexpected character"),
            ("{\"a\": \"b\n\"}", "line 1, column 9: control character in a string"),
            ("{}\n /* ", "line 2, column 2: a comment is not closed"),
            ("{} # no", "line 1, column 4: trailing characters after the value"),
        ] {
            assert_eq!(problem(text), message, "{text:?}");
        }
    }

    #[test]
    fn deep_nesting_is_refused() {
        let deep = |levels| format!("{{\"mcpServers\": {}}}", "{\"a\":".repeat(levels));
        assert!(problem(&deep(100_000)).ends_with("nested deeper than 127 levels"));
        let nested = format!(r#"{{"command": "c", "more": {}1{}}}"#, "[".repeat(100), "]".repeat(100));
        assert_eq!(entry(&nested).extra.iter().count(), 1);
    }

    #[test]
    fn many_servers_take_no_more_than_their_text() {
        let servers: Vec<_> = (0..20_000).map(|at| format!("\"s{at}\": {{\"command\": \"c\"}},")).collect();
        let config = parse(&format!("{{\"mcpServers\": {{{}}}}}", servers.concat()));
        assert!(config.servers().all(|(_, entry)| entry.is_ok()));
        assert_eq!(config.names().len(), 20_000);
    }

    #[test]
    fn strange_names_cannot_forge_a_message() {
        let config = parse("{\"mcpServers\": {\"a\\n\\u001b[0m\": {\"command\": \"c\", \"env\": {\"\\n\": []}}}}");
        let message = config.servers().next().unwrap().1.unwrap_err().to_string();
        assert_eq!(message, r#"server "a\n\u{1b}[0m": env["\n"]: expected a string, found an array"#);
    }
}

mod files {
    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let folder = Folder::new("missing");
        let path = folder.0.join("mcp.json");
        let error = McpConfig::read(&path).unwrap_err();
        assert!(error.is_not_found() && error.source().is_some());
        assert_eq!(error.to_string(), format!("{}: cannot be read", path.display()));
        assert_eq!(error.file(), Some(path.as_path()));
    }

    #[test]
    fn a_broken_file_is_named_with_the_place_in_it() {
        let folder = Folder::new("broken");
        let path = folder.write("mcp.json", "{\n  \"mcpServers\" {}\n}");
        let error = McpConfig::read(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: line 2, column 16: unexpected character", path.display()));
    }

    #[test]
    fn text_in_another_encoding_is_refused() {
        let folder = Folder::new("utf16");
        let path = folder.write("mcp.json", [0xff, 0xfe, b'{', 0]);
        let error = McpConfig::read(path).unwrap_err();
        assert_eq!(error.source().unwrap().to_string(), "the file is not UTF-8 text");
    }

    #[test]
    fn a_byte_order_mark_is_tolerated() {
        let folder = Folder::new("bom");
        let path = folder.write("mcp.json", "\u{feff}{\"mcpServers\": {\"x\": {\"command\": \"c\"}}}");
        assert_eq!(McpConfig::read(path).unwrap().names().len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_without_end_is_not_read_for_ever() {
        let error = McpConfig::read("/dev/zero").unwrap_err();
        assert_eq!(error.source().unwrap().to_string(), format!("the file is larger than {MAX_FILE} bytes"));
    }
}

mod secrets {
    use super::*;

    #[test]
    fn debug_shows_names_only() {
        let text = r#"{"mcpServers": {
            "run": {"command": "npx", "args": ["--key", "s3cret"], "env": {"TOKEN": "${KEY}"}, "oauth": "s3cret"},
            "net": {"url": "https://u:s3cret@a.example:81/s3cret?k=s3cret", "headers": {"X-Key": "${KEY}"}}
        }}"#;
        let config = parse(text);
        let entries: Vec<_> = config.servers().map(|(_, entry)| entry.unwrap()).collect();
        let shown = format!("{config:?} {entries:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        for name in ["run", "net", "npx", "(2 hidden)", "TOKEN", "oauth", "https://a.example:81/..", "x-key"] {
            assert!(shown.contains(name), "{name} in {shown}");
        }
    }

    #[test]
    fn errors_show_neither_values_nor_defaults() {
        for text in [
            r#"{"command": "s3cret${NONE}"}"#,
            r#"{"command": "${NONE:?s3cret}"}"#,
            r#"{"command": "c", "args": ["${KEY}${NONE:-s3cret${X}}"]}"#,
            r#"{"url": "s3cret://${KEY}"}"#,
            r#"{"url": "http://a", "headers": {"A": "${KEY}\n"}}"#,
            r#"{"command": "c", "env": {"A": "${KEY}\u0000"}}"#,
        ] {
            let error = one(text).server("x").unwrap().unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}

#[test]
fn a_configuration_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<McpConfig>();
    shared::<ServerEntry>();
    shared::<ConfigError>();
    shared::<EntryError>();
}

#[test]
fn defaults_are_as_documented() {
    use turms_defaults::{assert_documented, when};

    let config = McpConfig::parse(r#"{"mcpServers": {"x": {"command": "${PATH}"}}}"#).unwrap();
    let entry = config.server("x").unwrap().unwrap();
    let is_of_process =
        matches!(&entry.target, ServerTarget::Command { program, .. } if *program == std::env::var("PATH").unwrap());
    let code = [("McpConfig::variables", when(is_of_process, "the environment of this process"))];
    assert_documented(include_str!("mod.rs"), &code);
}
