use std::fmt;
use std::path::{Path, PathBuf};

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use indexmap::IndexMap;
use turms_core::TransportKind;
use turms_proto::{Object, RawJson};

use super::env_file;
use super::error::{EntryErrorKind, kind_of};
use super::variable::Variables;

/// The configuration of one server, with its variables replaced.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerEntry {
    /// The program or the URL of the server.
    pub target: ServerTarget,
    /// `true` unless the entry has `"disabled": true` or `"enabled": false`.
    pub enabled: bool,
    /// All other members, as written in the file.
    ///
    /// `timeout` is one of them, because clients use different units: milliseconds in Claude Code and Gemini CLI,
    /// seconds in Cline.
    pub extra: Object,
}

impl fmt::Debug for ServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Unknown members may contain secrets, so only their names are shown.
        let extra: Vec<_> = self.extra.iter().map(|(name, _)| name).collect();
        f.debug_struct("ServerEntry")
            .field("target", &self.target)
            .field("enabled", &self.enabled)
            .field("extra", &extra)
            .finish()
    }
}

/// The program or the URL of a server.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerTarget {
    /// A program to start, connected by its standard input and output.
    #[non_exhaustive]
    Command {
        /// The program: a path, or a name to be searched for.
        program: String,
        /// Its arguments.
        args: Vec<String>,
        /// Changes to the environment that [`ChildCommand`](crate::ChildCommand) passes on. `None` removes a variable
        /// (VS Code's `null`). Variables of `env` override those of `envFile`.
        env: IndexMap<String, Option<String>>,
        /// The working directory, as written.
        cwd: Option<PathBuf>,
    },
    /// A URL.
    #[non_exhaustive]
    Url {
        /// The URL, which begins with `http://`, `https://`, `ws://` or `wss://`.
        url: String,
        /// Headers for every request. Their values are marked as sensitive.
        headers: HeaderMap,
        /// The transport: `http`, `streamable-http` or `streamableHttp`, `sse`, `ws` or `websocket` in the file, or
        /// nothing. The address has a scheme that goes with it.
        transport: TransportKind,
    },
}

impl fmt::Debug for ServerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, args, env, cwd } => f
                .debug_struct("Command")
                .field("program", program)
                .field("args", &format_args!("({} hidden)", args.len()))
                .field("env", &env.keys())
                .field("cwd", cwd)
                .finish(),
            Self::Url { url, headers, transport } => f
                .debug_struct("Url")
                .field("url", &Origin(url))
                .field("headers", &HeaderNames(headers))
                .field("transport", transport)
                .finish(),
        }
    }
}

/// A URL without parts that may contain secrets: password, query and path. Some services put keys into the path.
struct Origin<'a>(&'a str);

impl fmt::Debug for Origin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = self.0.parse::<Uri>().unwrap_or_default();
        write!(f, "{}://{}", uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default())?;
        match uri.port() {
            Some(port) => write!(f, ":{port}/.."),
            None => f.write_str("/.."),
        }
    }
}

struct HeaderNames<'a>(&'a HeaderMap);

impl fmt::Debug for HeaderNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys().map(HeaderName::as_str)).finish()
    }
}

/// The error of an entry, and its place in it.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) path: String,
    pub(super) kind: EntryErrorKind,
    pub(super) disabled: bool,
}

impl Fault {
    fn new(path: impl Into<String>, kind: EntryErrorKind) -> Self {
        Self { path: path.into(), kind, disabled: false }
    }

    fn wrong_type(path: impl Into<String>, expected: &'static str, value: &RawJson) -> Self {
        Self::new(path, EntryErrorKind::WrongType { expected, found: kind_of(value) })
    }
}

/// The names of the member with the URL: `url` in most clients, `serverUrl` in Windsurf, `httpUrl` in Gemini CLI, where
/// it means Streamable HTTP.
const URLS: [&str; 3] = ["url", "serverUrl", "httpUrl"];
const ALWAYS_USED: [&str; 8] = ["type", "transport", "disabled", "enabled", "command", URLS[0], URLS[1], URLS[2]];
const USED_BY_COMMANDS: [&str; 4] = ["args", "env", "envFile", "cwd"];
const USED_BY_URLS: [&str; 1] = ["headers"];

/// Reads one entry.
///
/// Types are checked by hand instead of with `serde`, because its errors contain the invalid value, which may be a
/// secret.
pub(super) struct Reader<'a> {
    entry: Object,
    variables: &'a Variables,
    /// The directory of a relative `envFile`.
    base: Option<&'a Path>,
}

impl<'a> Reader<'a> {
    pub(super) fn read(
        entry: &RawJson,
        variables: &'a Variables,
        base: Option<&'a Path>,
    ) -> Result<ServerEntry, Fault> {
        let object = entry.as_object().ok_or_else(|| Fault::wrong_type("", "an object", entry))?;
        let reader = Self { entry: object, variables, base };
        let enabled = reader.enabled()?;
        let target = reader.target().map_err(|fault| Fault { disabled: !enabled, ..fault })?;
        let extra = reader.extra(&target);
        Ok(ServerEntry { target, enabled, extra })
    }

    /// Returns a member; `None` if it is missing or `null`.
    fn get(&self, name: &str) -> Option<RawJson> {
        self.entry.get(name).filter(|value| !value.is_null())
    }

    /// Returns `false` if `disabled` or `enabled` disables the server.
    fn enabled(&self) -> Result<bool, Fault> {
        let flag = |name| self.get(name).map(|value| flag(name, &value)).transpose();
        Ok(!flag("disabled")?.unwrap_or(false) && flag("enabled")?.unwrap_or(true))
    }

    fn target(&self) -> Result<ServerTarget, Fault> {
        match (self.get("command"), self.url()?) {
            (Some(program), None) => self.command(&program),
            (None, Some((member, url))) => self.address(member, &url),
            (Some(_), Some((second, _))) => Err(Fault::new("", EntryErrorKind::Both { first: "command", second })),
            (None, None) => Err(Fault::new("", EntryErrorKind::NoTarget)),
        }
    }

    /// Returns the member with the URL, and its name.
    fn url(&self) -> Result<Option<(&'static str, RawJson)>, Fault> {
        let mut found = URLS.into_iter().filter_map(|name| Some((name, self.get(name)?)));
        match (found.next(), found.next()) {
            (Some((first, _)), Some((second, _))) => Err(Fault::new("", EntryErrorKind::Both { first, second })),
            (one, _) => Ok(one),
        }
    }

    fn command(&self, program: &RawJson) -> Result<ServerTarget, Fault> {
        if let Some(Stated { member, text, transport: Some(_) }) = self.stated()? {
            return Err(Fault::new(member, EntryErrorKind::TransportMismatch { stated: text, member: "command" }));
        }
        Ok(ServerTarget::Command {
            program: not_empty("command", self.argument("command", program)?)?,
            args: self.args()?,
            env: self.env()?,
            cwd: self.path("cwd")?,
        })
    }

    fn address(&self, member: &'static str, url: &RawJson) -> Result<ServerTarget, Fault> {
        let stated = match self.stated()? {
            Some(Stated { member: stated, text, transport: None }) => {
                return Err(Fault::new(stated, EntryErrorKind::TransportMismatch { stated: text, member }));
            }
            Some(Stated { transport: Some(transport), .. }) => transport,
            None if member == URLS[2] => TransportKind::StreamableHttp,
            None => TransportKind::Auto,
        };
        let url = self.text(member, url)?;
        let scheme = scheme_of(&url).ok_or_else(|| Fault::new(member, EntryErrorKind::NotAnAddress))?;
        let transport = match (stated, scheme) {
            (TransportKind::Auto | TransportKind::WebSocket, "ws" | "wss") => TransportKind::WebSocket,
            (TransportKind::WebSocket, _) | (_, "ws" | "wss") => {
                return Err(Fault::new(member, EntryErrorKind::SchemeMismatch { scheme }));
            }
            (stated, _) => stated,
        };
        Ok(ServerTarget::Url { url, headers: self.headers()?, transport })
    }

    /// Returns the transport in `type` or `transport`.
    fn stated(&self) -> Result<Option<Stated>, Fault> {
        let read = |member| self.get(member).map(|value| Stated::read(member, &value)).transpose();
        match (read("type")?, read("transport")?) {
            (Some(one), Some(other)) if one.transport != other.transport => {
                Err(Fault::new("", EntryErrorKind::TransportsDisagree))
            }
            (one, other) => Ok(one.or(other)),
        }
    }

    fn args(&self) -> Result<Vec<String>, Fault> {
        let Some(value) = self.get("args") else { return Ok(Vec::new()) };
        let wrong_type = || Fault::wrong_type("args", "an array of strings", &value);
        let items: Vec<RawJson> = value.decode().map_err(|_| wrong_type())?;
        items.iter().enumerate().map(|(at, item)| self.argument(&format!("args[{at}]"), item)).collect()
    }

    fn env(&self) -> Result<IndexMap<String, Option<String>>, Fault> {
        let mut env = self.env_file()?;
        let Some(value) = self.get("env") else { return Ok(env) };
        for (name, value) in &object("env", &value)? {
            let path = member_path("env", &name);
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(Fault::new(path, EntryErrorKind::VariableName));
            }
            let value = match value.as_str() {
                "null" => None,
                object_or_array if object_or_array.starts_with(['{', '[']) => {
                    return Err(Fault::wrong_type(path, "a string", &value));
                }
                string if string.starts_with('"') => Some(self.argument(&path, &value)?),
                number_or_boolean => Some(number_or_boolean.to_owned()),
            };
            env.insert(name.into_owned(), value);
        }
        Ok(env)
    }

    fn env_file(&self) -> Result<IndexMap<String, Option<String>>, Fault> {
        let Some(path) = self.path("envFile")? else { return Ok(IndexMap::new()) };
        let path = self.base.map_or_else(|| path.clone(), |base| base.join(&path));
        match env_file::read(&path) {
            Ok(variables) => Ok(variables.into_iter().map(|(name, value)| (name, Some(value))).collect()),
            Err(kind) => Err(Fault::new("envFile", kind)),
        }
    }

    fn headers(&self) -> Result<HeaderMap, Fault> {
        let mut headers = HeaderMap::new();
        let Some(value) = self.get("headers") else { return Ok(headers) };
        for (name, value) in &object("headers", &value)? {
            let path = member_path("headers", &name);
            let text = self.text(&path, &value)?;
            let fault = |kind| Fault::new(path, kind);
            let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
                return Err(fault(EntryErrorKind::HeaderName));
            };
            let Ok(mut value) = HeaderValue::from_bytes(text.as_bytes()) else {
                return Err(fault(EntryErrorKind::HeaderValue));
            };
            value.set_sensitive(true);
            headers.try_insert(name, value).map_err(|_| fault(EntryErrorKind::TooManyHeaders))?;
        }
        Ok(headers)
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>, Fault> {
        let Some(value) = self.get(name) else { return Ok(None) };
        not_empty(name, self.argument(name, &value)?).map(|path| Some(path.into()))
    }

    /// Returns a string with its variables replaced.
    fn text(&self, path: &str, value: &RawJson) -> Result<String, Fault> {
        let text = string(path, value)?;
        self.variables.expand(&text).map_err(|kind| Fault::new(path, kind))
    }

    /// Like [`Reader::text`], for a value that is passed to the operating system and so must not contain NUL.
    fn argument(&self, path: &str, value: &RawJson) -> Result<String, Fault> {
        let text = self.text(path, value)?;
        if text.contains('\0') { Err(Fault::new(path, EntryErrorKind::Nul)) } else { Ok(text) }
    }

    /// Returns the members that the target does not use.
    fn extra(self, target: &ServerTarget) -> Object {
        let used: &[&str] = match target {
            ServerTarget::Command { .. } => &USED_BY_COMMANDS,
            ServerTarget::Url { .. } => &USED_BY_URLS,
        };
        let mut extra = self.entry;
        extra.retain(|name| !ALWAYS_USED.contains(&name) && !used.contains(&name));
        extra
    }
}

/// The transport in a member of the entry; `None` for stdio.
struct Stated {
    member: &'static str,
    text: String,
    transport: Option<TransportKind>,
}

impl Stated {
    fn read(member: &'static str, value: &RawJson) -> Result<Self, Fault> {
        let text = string(member, value)?;
        let transport = match text.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            // Copilot CLI calls it "local".
            "stdio" | "local" => None,
            "http" | "streamablehttp" => Some(TransportKind::StreamableHttp),
            "sse" => Some(TransportKind::HttpSse),
            "ws" | "websocket" => Some(TransportKind::WebSocket),
            _ => return Err(Fault::new(member, EntryErrorKind::UnknownTransport { name: text })),
        };
        Ok(Self { member, text, transport })
    }
}

fn string(path: &str, value: &RawJson) -> Result<String, Fault> {
    if !value.as_str().starts_with('"') {
        return Err(Fault::wrong_type(path, "a string", value));
    }
    value.decode().map_err(|_| Fault::new(path, EntryErrorKind::NotUnicode))
}

fn object(path: &str, value: &RawJson) -> Result<Object, Fault> {
    value.as_object().ok_or_else(|| Fault::wrong_type(path, "an object", value))
}

fn flag(path: &str, value: &RawJson) -> Result<bool, Fault> {
    value.decode().map_err(|_| Fault::wrong_type(path, "a boolean", value))
}

fn not_empty(path: &str, text: String) -> Result<String, Fault> {
    if text.is_empty() { Err(Fault::new(path, EntryErrorKind::Empty)) } else { Ok(text) }
}

/// Returns the scheme of a URL with a host, if it is a supported one.
fn scheme_of(url: &str) -> Option<&'static str> {
    let uri: Uri = url.parse().ok()?;
    uri.host().filter(|host| !host.is_empty())?;
    let stated = uri.scheme_str()?;
    ["http", "https", "ws", "wss"].into_iter().find(|scheme| scheme.eq_ignore_ascii_case(stated))
}

/// Returns the path of a member: `env.TOKEN`, or `env["a b"]` if the name is not a plain identifier.
fn member_path(outer: &str, name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(plain) { format!("{outer}.{name}") } else { format!("{outer}[{name:?}]") }
}
