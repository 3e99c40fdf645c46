//! The requests of the load, and the check of their responses.

use std::fmt::Write as _;
use std::str::FromStr;

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"load","version":"1.0.0"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"load","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Stateless,
    Session,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// A call of `echo` with a text of this size in bytes.
    Text(usize),
    List,
    /// A call whose server reports progress before it responds.
    Progress,
}

impl FromStr for Payload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "small" => Ok(Self::Text(5)),
            "list" => Ok(Self::List),
            "progress" => Ok(Self::Progress),
            size => {
                let size = size.strip_suffix('k').and_then(|kib| kib.parse::<usize>().ok());
                size.map(|kib| Self::Text(kib * 1024)).ok_or_else(|| format!("there is no payload {name:?}"))
            }
        }
    }
}

/// Writes the requests of one connection. The echoed text contains the id of the request.
pub(crate) struct Requests {
    payload: Payload,
    dialect: Dialect,
    filling: String,
    tools: usize,
}

impl Requests {
    pub(crate) fn new(payload: Payload, dialect: Dialect) -> Self {
        let line = "All work and no play makes \\\"Jack\\\" a dull boy.\\n";
        let filling = match payload {
            Payload::Text(size) if size >= line.len() => line.repeat(size / line.len()),
            _ => "hello".to_owned(),
        };
        let tools = std::env::var("BENCH_TOOLS").ok().and_then(|count| count.parse().ok()).unwrap_or(2);
        Self { payload, dialect, filling, tools }
    }

    pub(crate) fn method(&self) -> &'static str {
        if self.payload == Payload::List { "tools/list" } else { "tools/call" }
    }

    fn tool(&self) -> Option<&'static str> {
        match self.payload {
            Payload::Text(_) => Some("echo"),
            Payload::Progress => Some("echo_with_progress"),
            Payload::List => None,
        }
    }

    /// Returns the headers that 2026-07-28 requires, which repeat values of the body.
    pub(crate) fn stateless_head(&self) -> String {
        let name = self.tool().map(|tool| format!("mcp-name: {tool}\r\n")).unwrap_or_default();
        format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: {}\r\n{name}", self.method())
    }

    /// Returns the text of request `id`, without JSON escapes.
    pub(crate) fn text(&self, id: usize) -> String {
        format!("{id} {}", self.filling.replace("\\\"", "\"").replace("\\n", "\n"))
    }

    /// Appends request `id`.
    pub(crate) fn write(&self, id: usize, out: &mut String) {
        let method = self.method();
        let _ = write!(out, r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"#);
        if let Some(tool) = self.tool() {
            let filling = &self.filling;
            let _ = write!(out, r#""name":"{tool}","arguments":{{"text":"{id} {filling}"}}"#);
        }
        if self.dialect == Dialect::Stateless {
            out.push_str(if self.tool().is_none() { "" } else { "," });
            out.push_str(META);
            if self.payload == Payload::Progress {
                let _ = write!(out, r#","progressToken":{id}"#);
            }
            out.push('}');
        }
        out.push_str("}}");
    }

    /// Returns `true` if this is the response to request `id`. Searches only the beginning of large responses.
    pub(crate) fn is_answered(&self, id: usize, answer: &[u8]) -> bool {
        let head = &answer[..answer.len().min(512)];
        let text = format!("\"{id} {}", &self.filling[..self.filling.len().min(32)]);
        let (has_id, length) = (find(head, format!("\"id\":{id}").as_bytes()), self.filling.len());
        match self.payload {
            Payload::List if id == 1 => {
                has_id
                    && (1..=self.tools)
                        .all(|number| number <= 2 || find(answer, format!("tool_{number:03}").as_bytes()))
            }
            Payload::List => has_id && answer.len() > 100 * self.tools,
            _ => {
                (has_id || find(answer, format!("\"id\":{id}").as_bytes()))
                    && find(head, text.as_bytes())
                    && answer.len() > length
            }
        }
    }
}

fn find(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
