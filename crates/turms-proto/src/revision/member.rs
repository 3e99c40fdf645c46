use super::ProtocolVersion::{self, *};

/// A run of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// The first one.
    pub first: ProtocolVersion,
    /// The last one.
    pub last: ProtocolVersion,
}

impl Span {
    /// Every revision.
    pub const ALWAYS: Self = Self { first: V2024_11_05, last: ProtocolVersion::LATEST };

    pub(crate) const fn since(first: ProtocolVersion) -> Self {
        Self { first, ..Self::ALWAYS }
    }

    pub(crate) const fn until(last: ProtocolVersion) -> Self {
        Self { last, ..Self::ALWAYS }
    }

    pub(crate) const fn between(first: ProtocolVersion, last: ProtocolVersion) -> Self {
        Self { first, last }
    }

    pub(crate) const fn only(version: ProtocolVersion) -> Self {
        Self { first: version, last: version }
    }

    /// Whether the run includes `version`.
    #[must_use]
    pub const fn contains(self, version: ProtocolVersion) -> bool {
        self.first as u8 <= version as u8 && version as u8 <= self.last as u8
    }
}

/// Which revisions define a member of an object.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct MemberSpan {
    /// The type's name in this crate.
    pub object: &'static str,
    /// The member's name on the wire.
    pub member: &'static str,
    /// The revisions that have it.
    pub span: Span,
}

const fn member(object: &'static str, member: &'static str, span: Span) -> MemberSpan {
    MemberSpan { object, member, span }
}

const B: ProtocolVersion = V2025_03_26;
const C: ProtocolVersion = V2025_06_18;
const D: ProtocolVersion = V2025_11_25;
const E: ProtocolVersion = V2026_07_28;

/// The optional members that not every revision defines. What is not listed is the same in all of them.
///
/// This is the first loss table: lowering a value to a revision outside the span drops the member.
pub const MEMBERS: &[MemberSpan] = &[
    member("Implementation", "title", Span::since(C)),
    member("Implementation", "description", Span::since(D)),
    member("Implementation", "websiteUrl", Span::since(D)),
    member("Implementation", "icons", Span::since(D)),
    member("RequestMeta", "io.modelcontextprotocol/protocolVersion", Span::since(E)),
    member("RequestMeta", "io.modelcontextprotocol/clientCapabilities", Span::since(E)),
    member("RequestMeta", "io.modelcontextprotocol/clientInfo", Span::since(E)),
    member("RequestMeta", "io.modelcontextprotocol/logLevel", Span::since(E)),
    member("ClientCapabilities", "elicitation", Span::since(C)),
    member("ClientCapabilities", "tasks", Span::only(D)),
    member("RootsCapability", "listChanged", Span::until(D)),
    member("SamplingCapability", "context", Span::since(D)),
    member("SamplingCapability", "tools", Span::since(D)),
    member("ElicitationCapability", "form", Span::since(D)),
    member("ElicitationCapability", "url", Span::since(D)),
    member("ServerCapabilities", "completions", Span::since(B)),
    member("ServerCapabilities", "tasks", Span::only(D)),
    member("EmptyResult", "resultType", Span::since(E)),
    member("ListSkillsResult", "resultType", Span::since(E)),
    member("ListSkillsResult", "ttlMs", Span::since(E)),
    member("ListSkillsResult", "cacheScope", Span::since(E)),
    member("GetSkillResult", "resultType", Span::since(E)),
    member("GetSkillResult", "ttlMs", Span::since(E)),
    member("GetSkillResult", "cacheScope", Span::since(E)),
    member("ReadDirectoryResult", "resultType", Span::since(E)),
    member("ProgressParams", "message", Span::since(B)),
    member("Root", "_meta", Span::since(C)),
    member("ListRootsResult", "_meta", Span::until(D)),
    member("Annotations", "lastModified", Span::since(C)),
    member("TextContent", "_meta", Span::since(C)),
    member("ImageContent", "_meta", Span::since(C)),
    member("AudioContent", "_meta", Span::since(C)),
    member("EmbeddedResource", "_meta", Span::since(C)),
    member("ResourceLink", "icons", Span::since(D)),
    member("Tool", "annotations", Span::since(B)),
    member("Tool", "title", Span::since(C)),
    member("Tool", "outputSchema", Span::since(C)),
    member("Tool", "_meta", Span::since(C)),
    member("Tool", "icons", Span::since(D)),
    member("Tool", "execution", Span::only(D)),
    member("ListToolsResult", "resultType", Span::since(E)),
    member("ListToolsResult", "ttlMs", Span::since(E)),
    member("ListToolsResult", "cacheScope", Span::since(E)),
    member("ListResourcesResult", "resultType", Span::since(E)),
    member("ListResourcesResult", "ttlMs", Span::since(E)),
    member("ListResourcesResult", "cacheScope", Span::since(E)),
    member("ListResourceTemplatesResult", "resultType", Span::since(E)),
    member("ListResourceTemplatesResult", "ttlMs", Span::since(E)),
    member("ListResourceTemplatesResult", "cacheScope", Span::since(E)),
    member("ListPromptsResult", "resultType", Span::since(E)),
    member("ListPromptsResult", "ttlMs", Span::since(E)),
    member("ListPromptsResult", "cacheScope", Span::since(E)),
    member("ReadResourceResult", "resultType", Span::since(E)),
    member("ReadResourceResult", "ttlMs", Span::since(E)),
    member("ReadResourceResult", "cacheScope", Span::since(E)),
    member("CallToolParams", "task", Span::only(D)),
    member("CallToolParams", "inputResponses", Span::since(E)),
    member("CallToolParams", "requestState", Span::since(E)),
    member("ReadResourceParams", "inputResponses", Span::since(E)),
    member("ReadResourceParams", "requestState", Span::since(E)),
    member("GetPromptParams", "inputResponses", Span::since(E)),
    member("GetPromptParams", "requestState", Span::since(E)),
    member("ToolResult", "resultType", Span::since(E)),
    member("ToolResult", "structuredContent", Span::since(C)),
    member("Resource", "title", Span::since(C)),
    member("Resource", "_meta", Span::since(C)),
    member("Resource", "icons", Span::since(D)),
    member("ResourceTemplate", "title", Span::since(C)),
    member("ResourceTemplate", "_meta", Span::since(C)),
    member("ResourceTemplate", "icons", Span::since(D)),
    member("Prompt", "title", Span::since(C)),
    member("Prompt", "_meta", Span::since(C)),
    member("Prompt", "icons", Span::since(D)),
    member("ResourceContents", "_meta", Span::since(C)),
    member("PromptArgument", "title", Span::since(C)),
    member("PromptResult", "resultType", Span::since(E)),
    member("PromptReference", "title", Span::since(C)),
    member("CompleteParams", "context", Span::since(C)),
    member("CompleteResult", "resultType", Span::since(E)),
    member("SamplingMessage", "_meta", Span::since(D)),
    member("CreateMessageParams", "tools", Span::since(D)),
    member("CreateMessageParams", "toolChoice", Span::since(D)),
    member("CreateMessageParams", "task", Span::only(D)),
    member("CreateMessageParams", "_meta", Span::until(D)),
    member("ElicitForm", "mode", Span::since(D)),
    member("ElicitForm", "task", Span::only(D)),
    member("ElicitForm", "_meta", Span::until(D)),
    member("ElicitUrl", "elicitationId", Span::only(D)),
    member("ElicitUrl", "task", Span::only(D)),
    member("ElicitUrl", "_meta", Span::until(D)),
    member("ElicitResult", "_meta", Span::until(D)),
    member("FormSchema", "$schema", Span::since(D)),
    member("StringField", "default", Span::since(D)),
    member("NumberField", "default", Span::since(D)),
    member("ChoiceField", "default", Span::since(D)),
];

/// The revisions that define a member; known when compiling.
pub(crate) const fn span(object: &str, member: &str) -> Span {
    let mut index = 0;
    while index < MEMBERS.len() {
        let row = &MEMBERS[index];
        if equal(row.object, object) && equal(row.member, member) {
            return row.span;
        }
        index += 1;
    }
    Span::ALWAYS
}

const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}
