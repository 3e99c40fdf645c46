//! Which revision knows which method.

use super::ProtocolVersion::{self, *};
use super::Span;

/// Who sends a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Direction {
    /// The client.
    ToServer,
    /// The server.
    ToClient,
    /// Either.
    Both,
}

/// Whether a method wants an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodKind {
    /// It does.
    Request,
    /// It does not.
    Notification,
}

/// A method of the protocol or of one of its extensions.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct MethodInfo {
    /// Its name.
    pub name: &'static str,
    /// Whether it wants an answer.
    pub kind: MethodKind,
    /// Who sends it.
    pub direction: Direction,
    /// The revisions that have it as a message of its own.
    pub span: Span,
}

impl MethodInfo {
    /// Whether a revision has the method as a message of its own.
    #[must_use]
    pub fn is_defined_in(&self, version: ProtocolVersion) -> bool {
        self.span.contains(version)
    }
}

/// Looks a method up by name.
#[must_use]
pub fn method_info(name: &str) -> Option<&'static MethodInfo> {
    METHODS.iter().find(|method| method.name == name)
}

const fn request(name: &'static str, direction: Direction, span: Span) -> MethodInfo {
    MethodInfo { name, kind: MethodKind::Request, direction, span }
}

const fn notification(name: &'static str, direction: Direction, span: Span) -> MethodInfo {
    MethodInfo { name, kind: MethodKind::Notification, direction, span }
}

use Direction::{Both, ToClient, ToServer};

const OLDER: Span = Span::until(V2025_11_25);
const NEWER: Span = Span::since(V2026_07_28);

/// Every method of every revision, and of the official extensions of the newest.
pub const METHODS: &[MethodInfo] = &[
    request("tools/call", ToServer, Span::ALWAYS),
    request("tools/list", ToServer, Span::ALWAYS),
    request("resources/read", ToServer, Span::ALWAYS),
    request("resources/list", ToServer, Span::ALWAYS),
    request("resources/templates/list", ToServer, Span::ALWAYS),
    request("prompts/get", ToServer, Span::ALWAYS),
    request("prompts/list", ToServer, Span::ALWAYS),
    request("completion/complete", ToServer, Span::ALWAYS),
    request("server/discover", ToServer, NEWER),
    request("subscriptions/listen", ToServer, NEWER),
    request("initialize", ToServer, OLDER),
    request("ping", Both, OLDER),
    request("resources/subscribe", ToServer, OLDER),
    request("resources/unsubscribe", ToServer, OLDER),
    request("logging/setLevel", ToServer, OLDER),
    request("tasks/get", Both, Span::since(V2025_11_25)),
    request("tasks/cancel", Both, Span::since(V2025_11_25)),
    request("tasks/update", ToServer, NEWER),
    // The extension asks for no more of the protocol than resources, which every revision has.
    request("skills/list", ToServer, Span::ALWAYS),
    request("skills/get", ToServer, Span::ALWAYS),
    request("resources/directory/read", ToServer, Span::ALWAYS),
    request("tasks/result", Both, Span::only(V2025_11_25)),
    request("tasks/list", Both, Span::only(V2025_11_25)),
    request("sampling/createMessage", ToClient, OLDER),
    request("roots/list", ToClient, OLDER),
    request("elicitation/create", ToClient, Span::between(V2025_06_18, V2025_11_25)),
    notification("notifications/cancelled", Both, Span::ALWAYS),
    notification("notifications/progress", Both, Span::ALWAYS),
    notification("notifications/message", ToClient, Span::ALWAYS),
    notification("notifications/resources/updated", ToClient, Span::ALWAYS),
    notification("notifications/resources/list_changed", ToClient, Span::ALWAYS),
    notification("notifications/tools/list_changed", ToClient, Span::ALWAYS),
    notification("notifications/prompts/list_changed", ToClient, Span::ALWAYS),
    notification("notifications/initialized", ToServer, OLDER),
    notification("notifications/roots/list_changed", ToServer, OLDER),
    notification("notifications/tasks/status", Both, Span::only(V2025_11_25)),
    notification("notifications/elicitation/complete", ToClient, Span::only(V2025_11_25)),
    notification("notifications/subscriptions/acknowledged", ToClient, NEWER),
    notification("notifications/tasks", ToClient, NEWER),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_come_and_go() {
        let defined = |name, version| method_info(name).is_some_and(|method| method.is_defined_in(version));
        assert!(defined("ping", V2025_11_25) && !defined("ping", V2026_07_28));
        assert!(!defined("server/discover", V2025_11_25) && defined("server/discover", V2026_07_28));
        assert!(!defined("elicitation/create", V2025_03_26) && !defined("elicitation/create", V2026_07_28));
        assert!(method_info("tools/shout").is_none());
    }
}
