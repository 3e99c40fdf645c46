//! The revisions that define each member of the object types.

use super::ProtocolVersion::{self, *};
use crate::types;

/// A range of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionRange {
    /// The first revision.
    pub first: ProtocolVersion,
    /// The last revision.
    pub last: ProtocolVersion,
}

impl VersionRange {
    /// Every revision.
    pub const ALL: Self = Self { first: V2024_11_05, last: ProtocolVersion::LATEST };

    pub(crate) const fn since(first: ProtocolVersion) -> Self {
        Self { first, ..Self::ALL }
    }

    pub(crate) const fn until(last: ProtocolVersion) -> Self {
        Self { last, ..Self::ALL }
    }

    pub(crate) const fn between(first: ProtocolVersion, last: ProtocolVersion) -> Self {
        Self { first, last }
    }

    pub(crate) const fn only(version: ProtocolVersion) -> Self {
        Self { first: version, last: version }
    }

    /// Returns `true` if the range includes `version`.
    #[must_use]
    pub const fn contains(self, version: ProtocolVersion) -> bool {
        self.first as u8 <= version as u8 && version as u8 <= self.last as u8
    }
}

/// A member of an object type, with the revisions that define it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct MemberRange {
    /// Name of the type in this crate.
    pub object: &'static str,
    /// Name of the member on the wire.
    pub member: &'static str,
    /// The revisions that define it.
    pub range: VersionRange,
}

/// The members of all object types, and the revisions that define them.
///
/// It is one of the two tables of what is lost by [lowering](super::Translate::lower), a translation to an older
/// revision: a member is dropped if the revision is outside of its range. The other one is [`LOSSES`](super::LOSSES).
pub const MEMBERS: &[&[MemberRange]] = &[
    types::AcknowledgedParams::MEMBERS,
    types::Annotations::MEMBERS,
    types::AppCsp::MEMBERS,
    types::AppMeta::MEMBERS,
    types::AppPermissions::MEMBERS,
    types::AppsCapability::MEMBERS,
    types::AudioContent::MEMBERS,
    types::BooleanField::MEMBERS,
    types::CallToolParams::MEMBERS,
    types::CancelledParams::MEMBERS,
    types::ChoiceField::MEMBERS,
    types::ChoiceItems::MEMBERS,
    types::ChoicesField::MEMBERS,
    types::ClientCapabilities::MEMBERS,
    types::ClientTasksCapability::MEMBERS,
    types::CompleteParams::MEMBERS,
    types::CompleteResult::MEMBERS,
    types::Completion::MEMBERS,
    types::CompletionArgument::MEMBERS,
    types::CompletionContext::MEMBERS,
    types::CoreTask::MEMBERS,
    types::CreateMessageParams::MEMBERS,
    types::CreateMessageResult::MEMBERS,
    types::CreateTaskResult::MEMBERS,
    types::DiscoverResult::MEMBERS,
    types::ElicitForm::MEMBERS,
    types::ElicitResult::MEMBERS,
    types::ElicitUrl::MEMBERS,
    types::ElicitationCapability::MEMBERS,
    types::ElicitationCompleteParams::MEMBERS,
    types::EmbeddedResource::MEMBERS,
    types::EmptyParams::MEMBERS,
    types::EmptyResult::MEMBERS,
    crate::ErrorObject::MEMBERS,
    types::FormSchema::MEMBERS,
    types::GetPromptParams::MEMBERS,
    types::GetSkillParams::MEMBERS,
    types::GetSkillResult::MEMBERS,
    types::Icon::MEMBERS,
    types::ImageContent::MEMBERS,
    types::Implementation::MEMBERS,
    types::InitializeParams::MEMBERS,
    types::InitializeResult::MEMBERS,
    types::InputRequiredResult::MEMBERS,
    types::ListCapability::MEMBERS,
    types::ListPromptsResult::MEMBERS,
    types::ListResourceTemplatesResult::MEMBERS,
    types::ListResourcesResult::MEMBERS,
    types::ListRootsResult::MEMBERS,
    types::ListSkillsResult::MEMBERS,
    types::ListTasksResult::MEMBERS,
    types::ListToolsResult::MEMBERS,
    types::ListenParams::MEMBERS,
    types::SubscriptionsListenResult::MEMBERS,
    types::LogMessage::MEMBERS,
    types::ModelHint::MEMBERS,
    types::ModelPreferences::MEMBERS,
    types::NumberField::MEMBERS,
    types::PaginatedParams::MEMBERS,
    types::ProgressParams::MEMBERS,
    types::Prompt::MEMBERS,
    types::PromptArgument::MEMBERS,
    types::PromptMessage::MEMBERS,
    types::PromptReference::MEMBERS,
    types::GetPromptResult::MEMBERS,
    types::ReadDirectoryParams::MEMBERS,
    types::ReadDirectoryResult::MEMBERS,
    types::ReadResourceParams::MEMBERS,
    types::ReadResourceResult::MEMBERS,
    types::RelatedTask::MEMBERS,
    types::RequestMeta::MEMBERS,
    types::Resource::MEMBERS,
    types::ResourceContents::MEMBERS,
    types::ResourceLink::MEMBERS,
    types::ResourceParams::MEMBERS,
    types::ResourceReference::MEMBERS,
    types::ResourceTemplate::MEMBERS,
    types::ResourcesCapability::MEMBERS,
    types::Root::MEMBERS,
    types::RootsCapability::MEMBERS,
    types::SamplingCapability::MEMBERS,
    types::SamplingMessage::MEMBERS,
    types::ServerCapabilities::MEMBERS,
    types::ServerTasksCapability::MEMBERS,
    types::SetLevelParams::MEMBERS,
    types::Skill::MEMBERS,
    types::SkillFile::MEMBERS,
    types::StringField::MEMBERS,
    types::SubscriptionFilter::MEMBERS,
    types::Task::MEMBERS,
    types::TaskParams::MEMBERS,
    types::TaskRequest::MEMBERS,
    types::TextContent::MEMBERS,
    types::TitledChoiceField::MEMBERS,
    types::TitledChoiceItems::MEMBERS,
    types::TitledChoicesField::MEMBERS,
    types::TitledValue::MEMBERS,
    types::Tool::MEMBERS,
    types::ToolAnnotations::MEMBERS,
    types::ToolAppMeta::MEMBERS,
    types::ToolChoice::MEMBERS,
    types::ToolExecution::MEMBERS,
    types::CallToolResult::MEMBERS,
    types::ToolResultContent::MEMBERS,
    types::ToolUseContent::MEMBERS,
    types::UpdateTaskParams::MEMBERS,
    types::UrlElicitationRequired::MEMBERS,
];
