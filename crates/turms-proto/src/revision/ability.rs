use super::VersionRange;

/// A feature that only some revisions have. Code outside this module checks for features by name, not for versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ability {
    /// Connections start with `initialize` and `notifications/initialized`.
    Handshake,
    /// Every request carries the version, client info and capabilities; `server/discover` exists.
    Stateless,
    /// `ping` exists.
    Ping,
    /// Several messages may be sent in one JSON array.
    Batching,
    /// HTTP sessions with `Mcp-Session-Id`, and resumable streams.
    Sessions,
    /// The server may send requests: sampling, roots, elicitation.
    ServerRequests,
    /// A call may return `input_required` and be retried with responses.
    InputRequired,
    /// Every result carries `resultType`.
    ResultType,
    /// Results of lists and reads carry caching hints.
    Caching,
    /// `subscriptions/listen` instead of `resources/subscribe`.
    ListenStreams,
    /// The log level is set for the session with `logging/setLevel` rather than per request.
    SessionLogLevel,
    /// HTTP requests mirror parts of the body in headers.
    HeaderMirroring,
    /// HTTP requests carry the version in a header.
    VersionHeader,
    /// Streamable HTTP (it replaces HTTP+SSE).
    StreamableHttp,
    /// A server may close an SSE connection early to let the client poll. Streams begin with a priming event.
    SsePolling,
    /// Tools may declare annotations.
    ToolAnnotations,
    /// Tools may return `structuredContent` and declare an output schema.
    StructuredOutput,
    /// `structuredContent` may be any JSON value, and an output schema any schema.
    AnyStructuredOutput,
    /// Tools, prompts, resources and resource contents may carry `_meta`.
    ItemMeta,
    /// Arguments that violate the input schema lead to a tool error, which the model can act on, instead of -32602.
    ArgumentErrorsAsResults,
    /// Content may be audio.
    Audio,
    /// Content may link to a resource.
    ResourceLinks,
    /// Progress notifications may carry a message.
    ProgressMessages,
    /// Servers may request form input from users.
    FormElicitation,
    /// Servers may request that users open a URL.
    UrlElicitation,
    /// URL elicitation has ids, a completion notification and a dedicated error.
    ElicitationIds,
    /// Form fields may have defaults of every type, titled values and multiple selections.
    RichElicitation,
    /// Sampling requests may offer tools, and messages may hold several blocks.
    SamplingTools,
    /// The experimental core tasks.
    CoreTasks,
    /// The tasks extension.
    TasksExtension,
    /// `completion/complete` carries the values of other arguments.
    CompletionContext,
    /// Servers declare the `completions` capability.
    CompletionsCapability,
    /// Errors for messages with an unreadable id omit the id instead of sending `null`.
    IdlessErrors,
    /// A missing resource is -32602 with its URI instead of -32002.
    ResourceErrorsAsInvalidParams,
    /// Clients notify when their roots change.
    RootsListChanged,
}

impl Ability {
    /// All features.
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

    /// Returns the revisions that have the feature.
    #[doc(hidden)]
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
