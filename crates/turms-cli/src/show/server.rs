use serde_json::{Value, json};
use turms::client::ConnectionStatus;
use turms::proto::method::Method as _;
use turms::proto::session::{Dialect, Opened};
use turms::proto::{Ability, ProtocolVersion, RawJson};
use turms::types::{Discover, Implementation, Initialize, InitializeResult, ServerCapabilities, TASKS_EXTENSION};

use crate::session::Session;
use crate::text::Text;

/// What a server told when it was greeted, by which method, in the words of its revision.
pub(crate) fn greeting(opened: &Opened) -> (&'static str, Option<RawJson>) {
    let Some(server) = &opened.server else { return (Discover::NAME, None) };
    let Dialect::Handshake(version) = opened.dialect else { return (Discover::NAME, RawJson::encode(server).ok()) };
    let who = server.server_info().unwrap_or_else(|| Implementation::new("", ""));
    let mut told = InitializeResult::new(version.as_str(), server.capabilities.clone(), who);
    told.instructions.clone_from(&server.instructions);
    (Initialize::NAME, RawJson::encode(&told).ok())
}

/// Who the server is and what it can do.
fn introduction(session: &Session) -> Text {
    let client = &session.client;
    let mut text = Text::new();
    if let Some(server) = client.server_info() {
        let title = server.title.clone().unwrap_or_else(|| server.name.clone());
        text = text.name(format!("{title} {}", server.version));
        if server.title.as_deref().is_some_and(|title| title != server.name) {
            text = text.faint(format!(" ({})", server.name));
        }
        if let Some(description) = server.description.as_deref() {
            text = text.plain(format!("\n  {}", description.trim()));
        }
        if let Some(website) = server.website_url.as_deref() {
            text = row(text, "website", website);
        }
    } else {
        text = text.name("a server that does not say who it is");
    }
    text = row(text, "protocol", &protocol(session));
    text = row(text, "transport", session.transport());
    row(text, "offers", &offers(&client.server_capabilities().unwrap_or_default()))
}

/// The same, and how the server wants to be used.
pub(crate) fn information(session: &Session) -> Text {
    match session.client.instructions() {
        Some(instructions) => {
            let lines = instructions.trim().replace('\n', "\n                ");
            row(introduction(session), "instructions", &lines)
        }
        None => introduction(session),
    }
}

/// The same for whoever has just come: instructions are for a model, and may have pages.
pub(crate) fn welcome(session: &Session) -> Text {
    let instructions = session.client.instructions().unwrap_or_default();
    let mut lines = instructions.trim().lines();
    match (lines.next(), lines.next()) {
        (None, _) => introduction(session),
        (Some(only), None) => row(introduction(session), "instructions", only),
        (Some(first), Some(_)) => row(introduction(session), "instructions", first).faint(" … `info` shows all"),
    }
}

/// Who the server is, and how the connection stands.
pub(crate) fn state(session: &Session) -> Text {
    let client = &session.client;
    let mut text = row(introduction(session), "target", &session.target());
    text = row(text, "status", status(session));
    let pending = client.pending_calls();
    let waiting = pending.iter().map(|call| format!("{} (for {:.1?})", call.target, call.elapsed));
    let waiting = if pending.is_empty() { "nothing".to_owned() } else { waiting.collect::<Vec<_>>().join(", ") };
    text = row(text, "pending", &waiting);
    let stats = client.stats().lifetime;
    let requests = format!(
        "{} sent, {} completed, {} failed, {} timed out, {} cancelled, {} received",
        stats.requests_sent, stats.completed, stats.failed, stats.timed_out, stats.cancelled, stats.requests_received
    );
    text = row(text, "requests", &requests);
    let told = format!("{} sent, {} received", stats.notifications_sent, stats.notifications_received);
    text = row(text, "notifications", &told);
    let bytes = format!("{} sent, {} received", stats.bytes_sent, stats.bytes_received);
    text = row(text, "bytes", &bytes);
    if stats.parse_errors + stats.ignored > 0 {
        let odd = format!("{} not understood, {} passed over", stats.parse_errors, stats.ignored);
        text = row(text, "messages", &odd);
    }
    text
}

/// The same for programs. It is no object of the protocol, which has none for it.
pub(crate) fn state_object(session: &Session) -> Value {
    let client = &session.client;
    let stats = client.stats().lifetime;
    let pending = client.pending_calls();
    let pending = pending.iter().map(|call| json!({ "target": call.target, "seconds": call.elapsed.as_secs_f64() }));
    json!({
        "target": session.target(),
        "transport": session.transport(),
        "protocolVersion": client.protocol_version().map(ProtocolVersion::as_str),
        "status": status(session),
        "capabilities": client.server_capabilities(),
        "pending": pending.collect::<Vec<_>>(),
        "requests": {
            "sent": stats.requests_sent,
            "completed": stats.completed,
            "failed": stats.failed,
            "timedOut": stats.timed_out,
            "cancelled": stats.cancelled,
            "received": stats.requests_received,
        },
        "notifications": { "sent": stats.notifications_sent, "received": stats.notifications_received },
        "bytes": { "sent": stats.bytes_sent, "received": stats.bytes_received },
    })
}

fn status(session: &Session) -> &'static str {
    match session.client.status() {
        ConnectionStatus::Ready => "connected",
        ConnectionStatus::Closed => "closed",
        _ => "reconnecting",
    }
}

fn row(text: Text, name: &str, value: &str) -> Text {
    text.faint(format!("\n  {name:<14}")).plain(value)
}

fn protocol(session: &Session) -> String {
    match session.client.protocol_version() {
        Some(version) if version.has(Ability::Stateless) => format!("{version} (stateless)"),
        Some(version) => format!("{version} (handshake)"),
        None => "not known".to_owned(),
    }
}

/// Whether a server makes tasks of calls, in either dialect.
pub(crate) fn has_tasks(capabilities: &ServerCapabilities) -> bool {
    let mut extensions = capabilities.extensions.iter().flat_map(|extensions| extensions.iter());
    capabilities.tasks.is_some() || extensions.any(|(name, _)| name == TASKS_EXTENSION)
}

fn offers(capabilities: &ServerCapabilities) -> String {
    let mut offers: Vec<String> = Vec::new();
    if capabilities.tools.is_some() {
        offers.push("tools".to_owned());
    }
    if let Some(resources) = &capabilities.resources {
        let watched = resources.subscribe == Some(true);
        offers.push(if watched { "resources (can be watched)" } else { "resources" }.to_owned());
    }
    if capabilities.prompts.is_some() {
        offers.push("prompts".to_owned());
    }
    if capabilities.completions.is_some() {
        offers.push("completions".to_owned());
    }
    if capabilities.logging.is_some() {
        offers.push("logging".to_owned());
    }
    let extensions = capabilities.extensions.iter().flat_map(|extensions| extensions.iter());
    let extensions: Vec<String> = extensions.map(|(name, _)| name.into_owned()).collect();
    if has_tasks(capabilities) {
        offers.push("tasks".to_owned());
    }
    offers.extend(extensions.into_iter().filter(|name| name != TASKS_EXTENSION));
    if offers.is_empty() { "nothing that it tells of".to_owned() } else { offers.join(", ") }
}
