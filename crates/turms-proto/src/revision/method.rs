//! Which revision knows which method.

use super::ProtocolVersion::{self, *};
use super::Span;
use super::message::{Step, Translation};
use crate::method::{Method, Notification};
use crate::types;

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
    pub(super) translation: Translation,
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

const fn request<M: Method>(direction: Direction, span: Span) -> MethodInfo {
    let translation = Translation { params: Step::apply::<M::Params>, result: Step::apply::<M::Result> };
    MethodInfo { name: M::NAME, kind: MethodKind::Request, direction, span, translation }
}

/// The results of `tasks/*` have a different shape in each revision that has them: see [`super::task_of_core`].
const fn task_request<M: Method>(direction: Direction, span: Span) -> MethodInfo {
    let translation = Translation { params: Step::apply::<M::Params>, result: Step::skip };
    MethodInfo { name: M::NAME, kind: MethodKind::Request, direction, span, translation }
}

const fn notification<N: Notification>(direction: Direction, span: Span) -> MethodInfo {
    let translation = Translation { params: Step::apply::<N::Params>, result: Step::skip };
    MethodInfo { name: N::NAME, kind: MethodKind::Notification, direction, span, translation }
}

use Direction::{Both, ToClient, ToServer};

const OLDER: Span = Span::until(V2025_11_25);
const NEWER: Span = Span::since(V2026_07_28);

/// Every method of every revision, and of the official extensions of the newest.
pub const METHODS: &[MethodInfo] = &[
    request::<types::CallTool>(ToServer, Span::ALWAYS),
    request::<types::ListTools>(ToServer, Span::ALWAYS),
    request::<types::ReadResource>(ToServer, Span::ALWAYS),
    request::<types::ListResources>(ToServer, Span::ALWAYS),
    request::<types::ListResourceTemplates>(ToServer, Span::ALWAYS),
    request::<types::GetPrompt>(ToServer, Span::ALWAYS),
    request::<types::ListPrompts>(ToServer, Span::ALWAYS),
    request::<types::Complete>(ToServer, Span::ALWAYS),
    request::<types::Discover>(ToServer, NEWER),
    request::<types::Listen>(ToServer, NEWER),
    request::<types::Initialize>(ToServer, OLDER),
    request::<types::Ping>(Both, OLDER),
    request::<types::Subscribe>(ToServer, OLDER),
    request::<types::Unsubscribe>(ToServer, OLDER),
    request::<types::SetLevel>(ToServer, OLDER),
    task_request::<types::GetTask>(Both, Span::since(V2025_11_25)),
    task_request::<types::CancelTask>(Both, Span::since(V2025_11_25)),
    task_request::<types::UpdateTask>(ToServer, NEWER),
    // The skills extension asks for no more of the protocol than resources, which every revision has.
    request::<types::ListSkills>(ToServer, Span::ALWAYS),
    request::<types::GetSkill>(ToServer, Span::ALWAYS),
    request::<types::ReadDirectory>(ToServer, Span::ALWAYS),
    task_request::<types::GetCoreTaskResult>(Both, Span::only(V2025_11_25)),
    task_request::<types::ListCoreTasks>(Both, Span::only(V2025_11_25)),
    request::<types::CreateMessage>(ToClient, OLDER),
    request::<types::ListRoots>(ToClient, OLDER),
    request::<types::Elicit>(ToClient, Span::between(V2025_06_18, V2025_11_25)),
    notification::<types::Cancelled>(Both, Span::ALWAYS),
    notification::<types::Progress>(Both, Span::ALWAYS),
    notification::<types::Log>(ToClient, Span::ALWAYS),
    notification::<types::ResourceUpdated>(ToClient, Span::ALWAYS),
    notification::<types::ResourceListChanged>(ToClient, Span::ALWAYS),
    notification::<types::ToolListChanged>(ToClient, Span::ALWAYS),
    notification::<types::PromptListChanged>(ToClient, Span::ALWAYS),
    notification::<types::Initialized>(ToServer, OLDER),
    notification::<types::RootsListChanged>(ToServer, OLDER),
    notification::<types::CoreTaskStatus>(Both, Span::only(V2025_11_25)),
    notification::<types::ElicitationComplete>(ToClient, Span::only(V2025_11_25)),
    notification::<types::Acknowledged>(ToClient, NEWER),
    notification::<types::TaskChanged>(ToClient, NEWER),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_listed_once() {
        let distinct: std::collections::HashSet<_> = METHODS.iter().map(|method| method.name).collect();
        assert_eq!(distinct.len(), METHODS.len());
    }

    #[test]
    fn methods_come_and_go() {
        let defined = |name, version| method_info(name).is_some_and(|method| method.is_defined_in(version));
        assert!(defined("ping", V2025_11_25) && !defined("ping", V2026_07_28));
        assert!(!defined("server/discover", V2025_11_25) && defined("server/discover", V2026_07_28));
        assert!(!defined("elicitation/create", V2025_03_26) && !defined("elicitation/create", V2026_07_28));
        assert!(method_info("tools/shout").is_none());
    }
}
