//! Table of methods and the revisions that define them.

use super::ProtocolVersion::{self, *};
use super::VersionRange;
use super::message::{Translation, TranslationStep};
use crate::method::{Method, NotificationMethod};
use crate::types;

/// Direction of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Direction {
    /// Sent by clients.
    ToServer,
    /// Sent by servers.
    ToClient,
    /// Sent by both sides.
    Both,
}

/// Kind of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodKind {
    /// A request, which has a response.
    Request,
    /// A notification, which has no response.
    Notification,
}

/// A method of the protocol or of one of its extensions.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct MethodInfo {
    /// Name of the method.
    pub name: &'static str,
    /// Kind of the method.
    pub kind: MethodKind,
    /// Direction of the method.
    pub direction: Direction,
    /// Revisions that define it as a separate message.
    pub span: VersionRange,
    pub(super) translation: Translation,
}

impl MethodInfo {
    /// Returns `true` if the revision defines the method as a separate message.
    #[must_use]
    pub fn is_defined_in(&self, version: ProtocolVersion) -> bool {
        self.span.contains(version)
    }
}

/// Looks up a method by name.
#[must_use]
pub fn method_info(name: &str) -> Option<&'static MethodInfo> {
    METHODS.iter().find(|method| method.name == name)
}

const fn request<M: Method>(direction: Direction, span: VersionRange) -> MethodInfo {
    let translation =
        Translation { params: TranslationStep::apply::<M::Params>, result: TranslationStep::apply::<M::Result> };
    MethodInfo { name: M::NAME, kind: MethodKind::Request, direction, span, translation }
}

/// The results of `tasks/*` differ in each revision and are not translated here; see [`super::task_of_core`].
const fn task_request<M: Method>(direction: Direction, span: VersionRange) -> MethodInfo {
    let translation = Translation { params: TranslationStep::apply::<M::Params>, result: TranslationStep::skip };
    MethodInfo { name: M::NAME, kind: MethodKind::Request, direction, span, translation }
}

const fn notification<N: NotificationMethod>(direction: Direction, span: VersionRange) -> MethodInfo {
    let translation = Translation { params: TranslationStep::apply::<N::Params>, result: TranslationStep::skip };
    MethodInfo { name: N::NAME, kind: MethodKind::Notification, direction, span, translation }
}

use Direction::{Both, ToClient, ToServer};

const OLDER: VersionRange = VersionRange::until(V2025_11_25);
const NEWER: VersionRange = VersionRange::since(V2026_07_28);

/// All methods of all revisions, and of the official extensions of the newest revision.
pub const METHODS: &[MethodInfo] = &[
    request::<types::CallTool>(ToServer, VersionRange::ALL),
    request::<types::ListTools>(ToServer, VersionRange::ALL),
    request::<types::ReadResource>(ToServer, VersionRange::ALL),
    request::<types::ListResources>(ToServer, VersionRange::ALL),
    request::<types::ListResourceTemplates>(ToServer, VersionRange::ALL),
    request::<types::GetPrompt>(ToServer, VersionRange::ALL),
    request::<types::ListPrompts>(ToServer, VersionRange::ALL),
    request::<types::Complete>(ToServer, VersionRange::ALL),
    request::<types::Discover>(ToServer, NEWER),
    request::<types::Listen>(ToServer, NEWER),
    request::<types::Initialize>(ToServer, OLDER),
    request::<types::Ping>(Both, OLDER),
    request::<types::Subscribe>(ToServer, OLDER),
    request::<types::Unsubscribe>(ToServer, OLDER),
    request::<types::SetLevel>(ToServer, OLDER),
    task_request::<types::GetTask>(Both, VersionRange::since(V2025_11_25)),
    task_request::<types::CancelTask>(Both, VersionRange::since(V2025_11_25)),
    task_request::<types::UpdateTask>(ToServer, NEWER),
    // The skills extension requires only resources, which every revision has.
    request::<types::ListSkills>(ToServer, VersionRange::ALL),
    request::<types::GetSkill>(ToServer, VersionRange::ALL),
    request::<types::ReadDirectory>(ToServer, VersionRange::ALL),
    task_request::<types::GetCoreTaskResult>(Both, VersionRange::only(V2025_11_25)),
    task_request::<types::ListCoreTasks>(Both, VersionRange::only(V2025_11_25)),
    request::<types::CreateMessage>(ToClient, OLDER),
    request::<types::ListRoots>(ToClient, OLDER),
    request::<types::Elicit>(ToClient, VersionRange::between(V2025_06_18, V2025_11_25)),
    notification::<types::CancelledNotification>(Both, VersionRange::ALL),
    notification::<types::ProgressNotification>(Both, VersionRange::ALL),
    notification::<types::LoggingMessageNotification>(ToClient, VersionRange::ALL),
    notification::<types::ResourceUpdatedNotification>(ToClient, VersionRange::ALL),
    notification::<types::ResourceListChangedNotification>(ToClient, VersionRange::ALL),
    notification::<types::ToolListChangedNotification>(ToClient, VersionRange::ALL),
    notification::<types::PromptListChangedNotification>(ToClient, VersionRange::ALL),
    notification::<types::InitializedNotification>(ToServer, OLDER),
    notification::<types::RootsListChangedNotification>(ToServer, OLDER),
    notification::<types::CoreTaskStatusNotification>(Both, VersionRange::only(V2025_11_25)),
    notification::<types::ElicitationCompleteNotification>(ToClient, VersionRange::only(V2025_11_25)),
    notification::<types::SubscriptionsAcknowledgedNotification>(ToClient, NEWER),
    notification::<types::TaskNotification>(ToClient, NEWER),
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
