use super::VersionRange;

/// Something that some revisions can do and others cannot. Code outside this module asks for these by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ability {
    /// A connection begins with `initialize` and `notifications/initialized`.
    Handshake,
    /// Every request carries version, client and capabilities; `server/discover` exists.
    Stateless,
    /// `ping` exists.
    Ping,
    /// Several messages may travel in one JSON array.
    Batching,
    /// HTTP sessions with `Mcp-Session-Id`, and streams that are resumed.
    Sessions,
    /// The server may send requests: sampling, roots, elicitation.
    ServerRequests,
    /// A call may end with `input_required` and be repeated with answers.
    InputRequired,
    /// Every result carries `resultType`.
    ResultType,
    /// Lists and reads say how long they may be reused.
    Caching,
    /// `subscriptions/listen` instead of `resources/subscribe`.
    ListenStreams,
    /// The log level is set for the session with `logging/setLevel` rather than per request.
    SessionLogLevel,
    /// Requests over HTTP repeat parts of the body in headers.
    HeaderMirroring,
    /// HTTP requests name their version in a header.
    VersionHeader,
    /// Streamable HTTP (before it there was HTTP+SSE).
    StreamableHttp,
    /// A server may end an SSE connection early and let the client poll; streams begin with a priming event.
    SsePolling,
    /// Tools may declare annotations.
    ToolAnnotations,
    /// Tools may return `structuredContent` and declare an output schema.
    StructuredOutput,
    /// `structuredContent` may be any JSON value, and an output schema any schema.
    AnyStructuredOutput,
    /// Tools, prompts, resources and what is read of them may carry `_meta`.
    ItemMeta,
    /// Arguments that violate the input schema are answered with a tool error, so that a model can mend them, rather
    /// than with -32602.
    ArgumentErrorsAsResults,
    /// Content may be audio.
    Audio,
    /// Content may link to a resource.
    ResourceLinks,
    /// Progress notifications may carry a message.
    ProgressMessages,
    /// Servers may ask users to fill in a form.
    FormElicitation,
    /// Servers may ask users to open a URL.
    UrlElicitation,
    /// URL elicitation has ids, a completion notification and an error of its own.
    ElicitationIds,
    /// Form fields may have defaults of every type, titled choices and several choices.
    RichElicitation,
    /// Sampling requests may offer tools, and messages hold several blocks.
    SamplingTools,
    /// The experimental tasks of the core protocol.
    CoreTasks,
    /// The tasks extension.
    TasksExtension,
    /// `completion/complete` carries the arguments that are already known.
    CompletionContext,
    /// Servers declare the `completions` capability.
    CompletionsCapability,
    /// An error about something unreadable leaves its id out instead of saying `null`.
    IdlessErrors,
    /// A missing resource is -32602 with its URI rather than -32002.
    ResourceErrorsAsInvalidParams,
    /// Clients announce that their roots have changed.
    RootsListChanged,
}

impl Ability {
    /// Every ability.
    pub const ALL: [Self; 35] = [
        Self::Handshake,
        Self::Stateless,
        Self::Ping,
        Self::Batching,
        Self::Sessions,
        Self::ServerRequests,
        Self::InputRequired,
        Self::ResultType,
        Self::Caching,
        Self::ListenStreams,
        Self::SessionLogLevel,
        Self::HeaderMirroring,
        Self::VersionHeader,
        Self::StreamableHttp,
        Self::SsePolling,
        Self::ToolAnnotations,
        Self::StructuredOutput,
        Self::AnyStructuredOutput,
        Self::ItemMeta,
        Self::ArgumentErrorsAsResults,
        Self::Audio,
        Self::ResourceLinks,
        Self::ProgressMessages,
        Self::FormElicitation,
        Self::UrlElicitation,
        Self::ElicitationIds,
        Self::RichElicitation,
        Self::SamplingTools,
        Self::CoreTasks,
        Self::TasksExtension,
        Self::CompletionContext,
        Self::CompletionsCapability,
        Self::IdlessErrors,
        Self::ResourceErrorsAsInvalidParams,
        Self::RootsListChanged,
    ];

    /// The revisions that have it.
    #[must_use]
    pub const fn span(self) -> VersionRange {
        use super::ProtocolVersion::*;
        match self {
            Self::Handshake | Self::Ping | Self::ServerRequests | Self::SessionLogLevel | Self::RootsListChanged => {
                VersionRange::until(V2025_11_25)
            }
            Self::Batching => VersionRange::only(V2025_03_26),
            Self::Sessions => VersionRange::between(V2025_03_26, V2025_11_25),
            Self::Audio
            | Self::ToolAnnotations
            | Self::StreamableHttp
            | Self::ProgressMessages
            | Self::CompletionsCapability => VersionRange::since(V2025_03_26),
            Self::StructuredOutput
            | Self::ItemMeta
            | Self::ResourceLinks
            | Self::FormElicitation
            | Self::VersionHeader
            | Self::CompletionContext => VersionRange::since(V2025_06_18),
            Self::SsePolling | Self::CoreTasks | Self::ElicitationIds => VersionRange::only(V2025_11_25),
            Self::UrlElicitation
            | Self::RichElicitation
            | Self::SamplingTools
            | Self::IdlessErrors
            | Self::ArgumentErrorsAsResults => VersionRange::since(V2025_11_25),
            Self::Stateless
            | Self::InputRequired
            | Self::ResultType
            | Self::Caching
            | Self::ListenStreams
            | Self::HeaderMirroring
            | Self::AnyStructuredOutput
            | Self::TasksExtension
            | Self::ResourceErrorsAsInvalidParams => VersionRange::since(V2026_07_28),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::ProtocolVersion::*;

    #[test]
    fn abilities_begin_and_end_where_the_specification_says() {
        assert!(V2025_03_26.has(Ability::Batching) && !V2025_06_18.has(Ability::Batching));
        assert!(V2024_11_05.has(Ability::Handshake) && !V2026_07_28.has(Ability::Handshake));
        assert!(!V2025_03_26.has(Ability::StructuredOutput) && V2025_06_18.has(Ability::StructuredOutput));
        assert!(V2025_11_25.has(Ability::CoreTasks) && !V2026_07_28.has(Ability::CoreTasks));
        assert!(!V2025_11_25.has(Ability::InputRequired) && V2026_07_28.has(Ability::InputRequired));
    }

    #[test]
    fn every_ability_is_listed_once() {
        let distinct: std::collections::HashSet<_> = Ability::ALL.into_iter().collect();
        assert_eq!(distinct.len(), Ability::ALL.len());
    }
}
