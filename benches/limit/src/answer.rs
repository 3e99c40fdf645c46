//! Decodes a request and encodes its response.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Deserialize)]
struct RequestMessage<'a> {
    jsonrpc: &'a str,
    id: Option<u64>,
    method: &'a str,
    #[serde(borrow, default)]
    params: Params<'a>,
}

#[derive(Deserialize, Default)]
struct Params<'a> {
    name: Option<&'a str>,
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
    #[serde(borrow, rename = "_meta", default)]
    meta: Meta<'a>,
}

#[derive(Deserialize, Default)]
struct Arguments<'a> {
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    a: Option<i64>,
    b: Option<i64>,
}

/// A string without JSON escapes, as a handler gets it.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize, Default)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a str>,
}

/// The headers that repeat values of the request body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repeated<'a> {
    pub(crate) version: Option<&'a str>,
    pub(crate) method: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
}

#[derive(PartialEq, Eq)]
pub(crate) enum Answered {
    Response,
    /// A response to `initialize`, which begins a session.
    Initialized,
    /// A notification, which has no response.
    Accepted,
    Invalid,
}

/// Appends the response. `repeated` is `None` over stdio.
pub(crate) fn answer(body: &[u8], repeated: Option<Repeated<'_>>, out: &mut Vec<u8>) -> Answered {
    let Ok(RequestMessage { jsonrpc: "2.0", id, method, params }) = serde_json::from_slice(body) else {
        return Answered::Invalid;
    };
    let Some(id) = id else { return Answered::Accepted };
    let is_newest = params.meta.version.is_some();
    if is_newest && let Some(repeated) = repeated {
        let name = params.name.filter(|_| method == "tools/call");
        if repeated != (Repeated { version: params.meta.version, method: Some(method), name }) {
            return Answered::Invalid;
        }
    }
    let start = out.len();
    let _ = write!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#);
    if is_newest {
        out.extend_from_slice(br#""resultType":"complete","#);
    }
    match (method, params.name) {
        ("tools/call", Some("echo")) if params.arguments.text.is_some() => {
            out.extend_from_slice(br#""content":[{"type":"text","text":"#);
            let text = params.arguments.text.map(|text| text.0).unwrap_or_default();
            let _ = serde_json::to_writer(&mut *out, &text);
            out.extend_from_slice(b"}]}}");
        }
        ("tools/call", Some("add")) => {
            let sum = params.arguments.a.unwrap_or_default() + params.arguments.b.unwrap_or_default();
            let _ = write!(out, r#""content":[{{"type":"text","text":"{sum}"}}]}}}}"#);
        }
        ("tools/list", _) => {
            if is_newest {
                out.extend_from_slice(br#""ttlMs":0,"cacheScope":"private","#);
            }
            out.extend_from_slice(TOOLS.as_bytes());
            out.extend_from_slice(b"}}");
        }
        ("server/discover", _) => {
            out.extend_from_slice(br#""supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"limit","version":"1.0.0"},"ttlMs":0,"cacheScope":"private"}}"#);
        }
        ("initialize", _) => {
            out.extend_from_slice(br#""protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"limit","version":"1.0.0"}}}"#);
            return Answered::Initialized;
        }
        _ => {
            out.truncate(start);
            let _ =
                write!(out, r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#);
        }
    }
    Answered::Response
}

/// The list of tools, encoded once.
static TOOLS: LazyLock<String> = LazyLock::new(|| {
    let count = std::env::var("BENCH_TOOLS").ok().and_then(|count| count.parse().ok()).unwrap_or(2);
    let dialect = r#""$schema":"https://json-schema.org/draft/2020-12/schema""#;
    let add = format!(
        r#"{{{dialect},"title":"AddArgs","type":"object","properties":{{"a":{{"description":"Left operand","type":"integer","format":"int64"}},"b":{{"description":"Right operand","type":"integer","format":"int64"}}}},"required":["a","b"]}}"#
    );
    let mut list = format!(
        r#""tools":[{{"name":"echo","description":"Return the given text unchanged","inputSchema":{{{dialect},"type":"object","properties":{{"text":{{"description":"Text to send back unchanged","type":"string"}}}},"required":["text"]}}}},{{"name":"add","description":"Add two integers","inputSchema":{add}}}"#
    );
    for number in 3..=count {
        let _ = write!(
            list,
            r#",{{"name":"tool_{number:03}","description":"Synthetic tool number {number:03} that adds two integers","inputSchema":{add}}}"#
        );
    }
    list.push(']');
    list
});
