use serde_json::{Value, json};
use turms::ProtocolVersion;
use turms::client::ConnectionStatus;
use turms::types::{
    Ability, Discover, Implementation, Initialize, InitializeResult, Method as _, RawJson, ServerCapabilities,
    TASKS_EXTENSION,
};
use turms_proto::session::{Dialect, Negotiated};

use crate::session::CliSession;
use crate::text::StyledText;

/// Returns the method and the result of the handshake, in the format of the negotiated revision.
pub(crate) fn handshake_result(opened: &Negotiated) -> (&'static str, Option<RawJson>) {
    let Some(server) = &opened.server else { return (Discover::NAME, None) };
    let Dialect::Handshake(version) = opened.dialect else { return (Discover::NAME, RawJson::encode(server).ok()) };
    let info = server.server_info().unwrap_or_else(|| Implementation::new("", ""));
    let mut result = InitializeResult::new(version.as_str(), server.capabilities.clone(), info);
    result.instructions.clone_from(&server.instructions);
    (Initialize::NAME, RawJson::encode(&result).ok())
}

/// Formats the server's name, version and capabilities.
fn overview(session: &CliSession) -> StyledText {
    let client = &session.client;
    let mut text = StyledText::new();
    if let Some(server) = client.server_info() {
        let title = server.title.clone().unwrap_or_else(|| server.name.clone());
        text = text.name(format!("{title} {}", server.version));
        if server.title.as_deref().is_some_and(|title| title != server.name) {
            text = text.dim(format!(" ({})", server.name));
        }
        if let Some(description) = server.description.as_deref() {
            text = text.plain(format!("\n  {}", description.trim()));
        }
        if let Some(website) = server.website_url.as_deref() {
            text = row(text, "website", website);
        }
    } else {
        text = text.name("unnamed server");
    }
    text = row(text, "protocol", &protocol(session));
    text = row(text, "transport", session.transport());
    row(text, "capabilities", &capability_names(&client.server_capabilities().unwrap_or_default()))
}

/// Formats the overview with the server's instructions.
pub(crate) fn info(session: &CliSession) -> StyledText {
    match session.client.instructions() {
        Some(instructions) => {
            let lines = instructions.trim().replace('\n', "\n                ");
            row(overview(session), "instructions", &lines)
        }
        None => overview(session),
    }
}

/// Formats the overview for the start of the shell, with the first line of the instructions only: they may be long.
pub(crate) fn welcome(session: &CliSession) -> StyledText {
    let instructions = session.client.instructions().unwrap_or_default();
    let mut lines = instructions.trim().lines();
    match (lines.next(), lines.next()) {
        (None, _) => overview(session),
        (Some(only), None) => row(overview(session), "instructions", only),
        (Some(first), Some(_)) => row(overview(session), "instructions", first).dim(" … (`info` shows all)"),
    }
}

/// Formats the overview with the state of the connection.
pub(crate) fn state(session: &CliSession) -> StyledText {
    let client = &session.client;
    let mut text = row(overview(session), "target", &session.target());
    text = row(text, "status", status(session));
    let pending = client.pending_calls();
    let calls = pending.iter().map(|call| format!("{} (for {:.1?})", call.target, call.elapsed));
    let calls = if pending.is_empty() { "none".to_owned() } else { calls.collect::<Vec<_>>().join(", ") };
    text = row(text, "pending", &calls);
    let stats = client.stats().lifetime;
    let requests = format!(
        "{} sent, {} completed, {} failed, {} timed out, {} cancelled, {} received",
        stats.requests_sent, stats.completed, stats.failed, stats.timed_out, stats.cancelled, stats.requests_received
    );
    text = row(text, "requests", &requests);
    let notifications = format!("{} sent, {} received", stats.notifications_sent, stats.notifications_received);
    text = row(text, "notifications", &notifications);
    let bytes = format!("{} sent, {} received", stats.bytes_sent, stats.bytes_received);
    text = row(text, "bytes", &bytes);
    if stats.parse_errors + stats.ignored > 0 {
        let messages = format!("{} invalid, {} ignored", stats.parse_errors, stats.ignored);
        text = row(text, "messages", &messages);
    }
    text
}

/// Returns the state of the connection as JSON. The protocol has no such object.
pub(crate) fn state_object(session: &CliSession) -> Value {
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

fn status(session: &CliSession) -> &'static str {
    match session.client.status() {
        ConnectionStatus::Ready => "connected",
        ConnectionStatus::Closed => "closed",
        _ => "reconnecting",
    }
}

fn row(text: StyledText, name: &str, value: &str) -> StyledText {
    text.dim(format!("\n  {name:<14}")).plain(value)
}

fn protocol(session: &CliSession) -> String {
    match session.client.protocol_version() {
        Some(version) if version.has(Ability::Stateless) => format!("{version} (stateless)"),
        Some(version) => format!("{version} (handshake)"),
        None => "unknown".to_owned(),
    }
}

/// Returns `true` if the server supports tasks, in either era.
pub(crate) fn has_tasks(capabilities: &ServerCapabilities) -> bool {
    let mut extensions = capabilities.extensions.iter().flat_map(|extensions| extensions.iter());
    capabilities.tasks.is_some() || extensions.any(|(name, _)| name == TASKS_EXTENSION)
}

fn capability_names(capabilities: &ServerCapabilities) -> String {
    let mut names: Vec<String> = Vec::new();
    if capabilities.tools.is_some() {
        names.push("tools".to_owned());
    }
    if let Some(resources) = &capabilities.resources {
        let subscribe = resources.subscribe == Some(true);
        names.push(if subscribe { "resources (with subscriptions)" } else { "resources" }.to_owned());
    }
    if capabilities.prompts.is_some() {
        names.push("prompts".to_owned());
    }
    if capabilities.completions.is_some() {
        names.push("completions".to_owned());
    }
    if capabilities.logging.is_some() {
        names.push("logging".to_owned());
    }
    let extensions = capabilities.extensions.iter().flat_map(|extensions| extensions.iter());
    let extensions: Vec<String> = extensions.map(|(name, _)| name.into_owned()).collect();
    if has_tasks(capabilities) {
        names.push("tasks".to_owned());
    }
    names.extend(extensions.into_iter().filter(|name| name != TASKS_EXTENSION));
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
