//! Table of definitions and their Rust types.

use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_proto::method::{Method, NotificationMethod};
use turms_proto::revision::Translate;
use turms_proto::{ErrorObject, Object, ProgressToken, RawJson, RequestId, types};

use crate::codec::{self, Codec, roundtrip};
use crate::corpus::Revision;
use crate::json::Json;
use crate::translation::{Translator, translate};

/// One row for each definition, or several with disjoint ranges where revisions need different types.
pub(crate) static ROWS: &[Row] = &[
    row("Annotated", codec::annotated),
    typed::<types::Annotations>("Annotations"),
    typed::<types::AudioContent>("AudioContent"),
    typed::<types::PromptArgument>("BaseMetadata"),
    typed::<types::ResourceContents>("BlobResourceContents"),
    typed::<types::BooleanField>("BooleanSchema"),
    row("CacheableResult", codec::list),
    request::<types::CallTool>("CallToolRequest"),
    typed::<types::CallToolParams>("CallToolRequestParams"),
    typed::<types::CallToolResult>("CallToolResult"),
    round::<types::CallTool>("CallToolResultResponse").except(|answer| is_no_outcome(answer, "content")),
    request::<types::CancelCoreTask>("CancelTaskRequest"),
    typed::<types::CoreTask>("CancelTaskResult"),
    notification::<types::CancelledNotification>("CancelledNotification"),
    typed::<types::CancelledParams>("CancelledNotificationParams"),
    typed::<types::ClientCapabilities>("ClientCapabilities"),
    envelope("ClientNotification", codec::any_notification).may_add(PARAMS),
    envelope("ClientRequest", codec::any_request).may_add(PARAMS),
    // The type of a result depends on its request; without one, any object is a result.
    row("ClientResult", roundtrip::<types::EmptyResult>),
    request::<types::Complete>("CompleteRequest"),
    typed::<types::CompleteParams>("CompleteRequestParams"),
    typed::<types::CompleteResult>("CompleteResult"),
    response::<types::Complete>("CompleteResultResponse"),
    row("ContentBlock", codec::content).translates::<types::Content>(),
    request::<types::CreateMessage>("CreateMessageRequest").until("2025-11-25"),
    question("CreateMessageRequest").since("2026-07-28"),
    typed::<types::CreateMessageParams>("CreateMessageRequestParams"),
    typed::<types::CreateMessageResult>("CreateMessageResult"),
    typed::<types::CreateTaskResult>("CreateTaskResult"),
    typed::<types::Cursor>("Cursor"),
    request::<types::Discover>("DiscoverRequest"),
    typed::<types::DiscoverResult>("DiscoverResult"),
    response::<types::Discover>("DiscoverResultResponse"),
    request::<types::Elicit>("ElicitRequest").until("2025-11-25"),
    question("ElicitRequest").since("2026-07-28"),
    typed::<types::ElicitForm>("ElicitRequestFormParams"),
    typed::<types::ElicitParams>("ElicitRequestParams"),
    typed::<types::ElicitUrl>("ElicitRequestURLParams"),
    typed::<types::ElicitResult>("ElicitResult"),
    notification::<types::ElicitationCompleteNotification>("ElicitationCompleteNotification"),
    typed::<types::EmbeddedResource>("EmbeddedResource"),
    typed::<types::EmptyResult>("EmptyResult"),
    row("EnumSchema", codec::field).translates::<types::Field>(),
    typed::<ErrorObject>("Error"),
    request::<types::GetPrompt>("GetPromptRequest"),
    typed::<types::GetPromptParams>("GetPromptRequestParams"),
    typed::<types::GetPromptResult>("GetPromptResult"),
    round::<types::GetPrompt>("GetPromptResultResponse").except(|answer| is_no_outcome(answer, "messages")),
    request::<types::GetCoreTaskResult>("GetTaskPayloadRequest"),
    typed::<Object>("GetTaskPayloadResult"),
    request::<types::GetCoreTask>("GetTaskRequest"),
    typed::<types::CoreTask>("GetTaskResult"),
    envelope("HeaderMismatchError", codec::message),
    typed::<types::Icon>("Icon"),
    row("Icons", codec::icons),
    typed::<types::ImageContent>("ImageContent"),
    typed::<types::Implementation>("Implementation"),
    request::<types::Initialize>("InitializeRequest"),
    typed::<types::InitializeParams>("InitializeRequestParams"),
    typed::<types::InitializeResult>("InitializeResult"),
    notification::<types::InitializedNotification>("InitializedNotification").may_add(PARAMS),
    question("InputRequest"),
    typed::<types::InputRequests>("InputRequests").sheds(&["/*"]).except(asks_for_roots_with_nothing),
    typed::<types::InputRequiredResult>("InputRequiredResult")
        .sheds(&["/inputRequests/*"])
        .except(asks_for_roots_with_nothing),
    row("InputResponse", codec::input_response),
    row("InputResponseRequestParams", codec::call),
    row("InputResponses", codec::input_responses),
    typed::<ErrorObject>("InternalError"),
    typed::<ErrorObject>("InvalidParamsError"),
    typed::<ErrorObject>("InvalidRequestError"),
    typed::<Vec<RawJson>>("JSONArray"),
    typed::<Object>("JSONObject"),
    // JSON-RPC 2.0 forbids empty batches ("an Array with at least one value"); the schema does not.
    row("JSONRPCBatchRequest", codec::transmission).sheds(&["/*"]).except(is_empty_batch),
    row("JSONRPCBatchResponse", codec::transmission).sheds(&["/*"]).except(is_empty_batch),
    envelope("JSONRPCError", codec::message),
    envelope("JSONRPCErrorResponse", codec::message),
    row("JSONRPCMessage", codec::transmission).sheds(&["", "/*"]).except(is_empty_batch),
    envelope("JSONRPCNotification", codec::message),
    envelope("JSONRPCRequest", codec::message),
    envelope("JSONRPCResponse", codec::message),
    envelope("JSONRPCResultResponse", codec::message),
    typed::<RawJson>("JSONValue"),
    typed::<types::ChoiceField>("LegacyTitledEnumSchema"),
    request::<types::ListPrompts>("ListPromptsRequest").may_add(PARAMS),
    typed::<types::ListPromptsResult>("ListPromptsResult"),
    response::<types::ListPrompts>("ListPromptsResultResponse"),
    request::<types::ListResourceTemplates>("ListResourceTemplatesRequest").may_add(PARAMS),
    typed::<types::ListResourceTemplatesResult>("ListResourceTemplatesResult"),
    response::<types::ListResourceTemplates>("ListResourceTemplatesResultResponse"),
    request::<types::ListResources>("ListResourcesRequest").may_add(PARAMS),
    typed::<types::ListResourcesResult>("ListResourcesResult"),
    response::<types::ListResources>("ListResourcesResultResponse"),
    request::<types::ListRoots>("ListRootsRequest").may_add(PARAMS).until("2025-11-25"),
    question("ListRootsRequest").since("2026-07-28"),
    typed::<types::ListRootsResult>("ListRootsResult"),
    request::<types::ListCoreTasks>("ListTasksRequest").may_add(PARAMS),
    typed::<types::ListTasksResult>("ListTasksResult"),
    request::<types::ListTools>("ListToolsRequest").may_add(PARAMS),
    typed::<types::ListToolsResult>("ListToolsResult"),
    response::<types::ListTools>("ListToolsResultResponse"),
    typed::<types::LoggingLevel>("LoggingLevel"),
    notification::<types::LoggingMessageNotification>("LoggingMessageNotification"),
    typed::<types::LogMessage>("LoggingMessageNotificationParams"),
    typed::<types::Meta>("MetaObject"),
    typed::<ErrorObject>("MethodNotFoundError"),
    envelope("MissingRequiredClientCapabilityError", codec::message),
    typed::<types::ModelHint>("ModelHint"),
    typed::<types::ModelPreferences>("ModelPreferences"),
    row("MultiSelectEnumSchema", codec::field).translates::<types::Field>(),
    envelope("Notification", codec::message),
    row("NotificationMetaObject", codec::meta).translates::<types::Meta>(),
    typed::<types::EmptyParams>("NotificationParams"),
    typed::<types::NumberField>("NumberSchema"),
    envelope("PaginatedRequest", codec::paginated_request),
    typed::<types::PaginatedParams>("PaginatedRequestParams"),
    row("PaginatedResult", codec::list),
    typed::<ErrorObject>("ParseError"),
    request::<types::Ping>("PingRequest").may_add(PARAMS),
    row("PrimitiveSchemaDefinition", codec::field).translates::<types::Field>(),
    notification::<types::ProgressNotification>("ProgressNotification"),
    typed::<types::ProgressParams>("ProgressNotificationParams"),
    typed::<ProgressToken>("ProgressToken"),
    typed::<types::Prompt>("Prompt"),
    typed::<types::PromptArgument>("PromptArgument"),
    notification::<types::PromptListChangedNotification>("PromptListChangedNotification").may_add(PARAMS),
    typed::<types::PromptMessage>("PromptMessage"),
    typed::<types::PromptReference>("PromptReference"),
    request::<types::ReadResource>("ReadResourceRequest"),
    typed::<types::ReadResourceParams>("ReadResourceRequestParams"),
    typed::<types::ReadResourceResult>("ReadResourceResult"),
    round::<types::ReadResource>("ReadResourceResultResponse").except(|answer| is_no_outcome(answer, "contents")),
    typed::<types::RelatedTask>("RelatedTaskMetadata"),
    envelope("Request", codec::message),
    typed::<RequestId>("RequestId"),
    row("RequestMetaObject", codec::request_meta).translates::<types::RequestMeta>(),
    typed::<types::EmptyParams>("RequestParams"),
    typed::<types::Resource>("Resource"),
    typed::<types::ResourceContents>("ResourceContents"),
    typed::<types::ResourceLink>("ResourceLink"),
    notification::<types::ResourceListChangedNotification>("ResourceListChangedNotification").may_add(PARAMS),
    typed::<types::ResourceReference>("ResourceReference"),
    typed::<types::ResourceParams>("ResourceRequestParams"),
    typed::<types::ResourceTemplate>("ResourceTemplate"),
    typed::<types::ResourceReference>("ResourceTemplateReference"),
    notification::<types::ResourceUpdatedNotification>("ResourceUpdatedNotification"),
    typed::<types::ResourceParams>("ResourceUpdatedNotificationParams"),
    typed::<types::EmptyResult>("Result"),
    row("ResultMetaObject", codec::meta).translates::<types::Meta>(),
    typed::<types::ResultType>("ResultType"),
    typed::<types::Role>("Role"),
    typed::<types::Root>("Root"),
    notification::<types::RootsListChangedNotification>("RootsListChangedNotification").may_add(PARAMS),
    typed::<types::SamplingMessage>("SamplingMessage"),
    row("SamplingMessageContentBlock", codec::content).translates::<types::Content>(),
    typed::<types::ServerCapabilities>("ServerCapabilities"),
    envelope("ServerNotification", codec::any_notification).may_add(PARAMS),
    envelope("ServerRequest", codec::any_request).may_add(PARAMS),
    // As with ClientResult.
    row("ServerResult", roundtrip::<types::EmptyResult>),
    request::<types::SetLevel>("SetLevelRequest"),
    typed::<types::SetLevelParams>("SetLevelRequestParams"),
    row("SingleSelectEnumSchema", codec::field).translates::<types::Field>(),
    typed::<types::StringField>("StringSchema"),
    request::<types::Subscribe>("SubscribeRequest"),
    typed::<types::ResourceParams>("SubscribeRequestParams"),
    typed::<types::SubscriptionFilter>("SubscriptionFilter"),
    notification::<types::SubscriptionsAcknowledgedNotification>("SubscriptionsAcknowledgedNotification"),
    typed::<types::AcknowledgedParams>("SubscriptionsAcknowledgedNotificationParams"),
    request::<types::Listen>("SubscriptionsListenRequest"),
    typed::<types::ListenParams>("SubscriptionsListenRequestParams"),
    typed::<types::SubscriptionsListenResult>("SubscriptionsListenResult"),
    row("SubscriptionsListenResultMetaObject", codec::meta).translates::<types::Meta>(),
    response::<types::Listen>("SubscriptionsListenResultResponse"),
    typed::<types::CoreTask>("Task"),
    row("TaskAugmentedRequestParams", codec::call),
    typed::<types::TaskRequest>("TaskMetadata"),
    typed::<types::TaskStatus>("TaskStatus"),
    notification::<types::CoreTaskStatusNotification>("TaskStatusNotification"),
    typed::<types::CoreTask>("TaskStatusNotificationParams"),
    typed::<types::TextContent>("TextContent"),
    typed::<types::ResourceContents>("TextResourceContents"),
    typed::<types::TitledChoicesField>("TitledMultiSelectEnumSchema"),
    typed::<types::TitledChoiceField>("TitledSingleSelectEnumSchema"),
    typed::<types::Tool>("Tool"),
    typed::<types::ToolAnnotations>("ToolAnnotations"),
    typed::<types::ToolChoice>("ToolChoice"),
    typed::<types::ToolExecution>("ToolExecution"),
    notification::<types::ToolListChangedNotification>("ToolListChangedNotification").may_add(PARAMS),
    typed::<types::ToolResultContent>("ToolResultContent"),
    typed::<types::ToolUseContent>("ToolUseContent"),
    envelope("URLElicitationRequiredError", codec::url_elicitation_error),
    request::<types::Unsubscribe>("UnsubscribeRequest"),
    typed::<types::ResourceParams>("UnsubscribeRequestParams"),
    envelope("UnsupportedProtocolVersionError", codec::message),
    typed::<types::ChoicesField>("UntitledMultiSelectEnumSchema"),
    typed::<types::ChoiceField>("UntitledSingleSelectEnumSchema"),
];

/// Absent parameters come back as an empty object, which is equivalent.
const PARAMS: &[&str] = &["/params"];

/// A definition with the type `T`.
pub(crate) const fn typed<T: DeserializeOwned + Serialize + Translate>(name: &'static str) -> Row {
    row(name, roundtrip::<T>).translates::<T>()
}

/// A whole message. Members besides those of JSON-RPC are dropped on purpose, because they have no meaning.
const fn envelope(name: &'static str, codec: Codec) -> Row {
    row(name, codec).wrap().sheds(&[""])
}

const fn request<M: Method>(name: &'static str) -> Row {
    envelope(name, codec::request::<M>)
}

const fn notification<N: NotificationMethod>(name: &'static str) -> Row {
    envelope(name, codec::notification::<N>)
}

const fn response<M: Method>(name: &'static str) -> Row {
    envelope(name, codec::response::<M>)
}

/// The response to a request that may return input requests.
const fn round<M: Method>(name: &'static str) -> Row {
    response::<M>(name).sheds(&["", "/result/inputRequests/*"])
}

/// An input request: a method with parameters, without an envelope.
const fn question(name: &'static str) -> Row {
    typed::<types::InputRequest>(name).sheds(&[""]).except(asks_for_roots_with_nothing)
}

/// Excludes results that are ambiguous between complete results and input requests. The schema allows any
/// `resultType`, so a result without the required members of a complete result matches input requests, and a complete
/// result may have another type. Clients must reject unknown types (basic/index, "Result types").
fn is_no_outcome(answer: &Json, required: &str) -> bool {
    let result = answer.member("result");
    let kind = result.and_then(|result| result.member("resultType"));
    let has_required = result.and_then(|result| result.member(required)).is_some();
    match kind {
        Some(Json::String(kind)) if kind == "complete" => !has_required,
        Some(Json::String(kind)) if kind == "input_required" => has_required || asks_for_roots_with_nothing(answer),
        _ => true,
    }
}

/// The input request for roots is encoded without parameters if they are empty, so `{}` does not come back.
fn asks_for_roots_with_nothing(json: &Json) -> bool {
    let is_empty = |params: &Json| matches!(params, Json::Object(members) if members.is_empty());
    let asks = matches!(json.member("method"), Some(Json::String(method)) if method == "roots/list");
    asks && json.member("params").is_some_and(is_empty) || json.children().any(asks_for_roots_with_nothing)
}

fn is_empty_batch(json: &Json) -> bool {
    matches!(json, Json::Array(messages) if messages.is_empty())
}

/// A definition, its codec, and the exemptions of the codec.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    name: &'static str,
    codec: Codec,
    since: Option<&'static str>,
    until: Option<&'static str>,
    may_add: &'static [&'static str],
    sheds: &'static [&'static str],
    wrap: bool,
    except: Option<fn(&Json) -> bool>,
    translator: Option<Translator>,
}

pub(crate) const fn row(name: &'static str, codec: Codec) -> Row {
    Row { name, codec, since: None, until: None, may_add: &[], sheds: &[], wrap: false, except: None, translator: None }
}

impl Row {
    /// Restricts the row to this revision and later ones.
    pub(crate) const fn since(self, revision: &'static str) -> Self {
        Self { since: Some(revision), ..self }
    }

    /// Restricts the row to this revision and earlier ones.
    pub(crate) const fn until(self, revision: &'static str) -> Self {
        Self { until: Some(revision), ..self }
    }

    /// Members that the output may add: names, at any depth, or paths such as `/params/_meta`, in which `*` matches
    /// any one step.
    pub(crate) const fn may_add(self, members: &'static [&'static str]) -> Self {
        Self { may_add: members, ..self }
    }

    /// Like [`Row::may_add`], but the output may not have more members than the input.
    pub(crate) const fn adding_nothing(self) -> Self {
        self.may_add(&[])
    }

    /// Paths of objects whose undeclared members are dropped on purpose: `""` for the root, otherwise paths as in
    /// [`Row::may_add`]. Only for envelopes and input requests.
    pub(crate) const fn sheds(self, places: &'static [&'static str]) -> Self {
        Self { sheds: places, ..self }
    }

    /// Sets the type for translation between revisions.
    pub(crate) const fn translates<T: DeserializeOwned + Serialize + Translate>(self) -> Self {
        Self { translator: Some(translate::<T>), ..self }
    }

    /// The type is a whole JSON-RPC message, but the definition may have only `method` and `params`.
    pub(crate) const fn wrap(self) -> Self {
        Self { wrap: true, ..self }
    }

    /// Skips instances that the schema allows but the type rejects on purpose. The summary contains their number, and
    /// a comment above the row explains the reason.
    pub(crate) const fn except(self, refused: fn(&Json) -> bool) -> Self {
        Self { except: Some(refused), ..self }
    }
}

impl Row {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn codec(&self) -> Codec {
        self.codec
    }

    pub(crate) fn translator(&self) -> Option<Translator> {
        self.translator
    }

    pub(crate) fn allowed_additions(&self) -> &'static [&'static str] {
        self.may_add
    }

    pub(crate) fn shedding_places(&self) -> &'static [&'static str] {
        self.sheds
    }

    pub(crate) fn excuses(&self, instance: &Json) -> bool {
        self.except.is_some_and(|refused| refused(instance))
    }

    /// Returns the instance in the form that the codec requires, with the names of the added members.
    pub(crate) fn wrapped(&self, instance: &Json) -> (Json, Vec<&'static str>) {
        let Json::Object(members) = instance else {
            return (instance.clone(), Vec::new());
        };
        let envelope = self.envelope().into_iter();
        let missing = envelope.filter(|(name, _)| instance.member(name).is_none());
        let (added, mut wrapped): (Vec<_>, Vec<_>) =
            missing.map(|(name, value)| (name, (name.to_owned(), value))).unzip();
        wrapped.extend(members.iter().cloned());
        (Json::Object(wrapped), added)
    }

    fn envelope(&self) -> Vec<(&'static str, Json)> {
        let version = ("jsonrpc", Json::string("2.0"));
        match self.name {
            _ if !self.wrap => Vec::new(),
            name if name.starts_with("JSONRPC") || name.ends_with("Response") || name.ends_with("Error") => Vec::new(),
            name if name.ends_with("Request") => vec![version, ("id", Json::integer(1))],
            name if name.ends_with("Notification") => vec![version],
            name => panic!("{name}: only requests and notifications can be wrapped"),
        }
    }

    fn covers(&self, revision: &str, definition: &str) -> bool {
        self.name == definition
            && self.since.is_none_or(|since| since <= revision)
            && self.until.is_none_or(|until| revision <= until)
    }
}

/// Returns the row for a definition of a revision, if there is exactly one.
pub(crate) fn find<'a>(rows: &'a [Row], revision: &str, definition: &str) -> Option<&'a Row> {
    let mut matching = rows.iter().filter(|row| row.covers(revision, definition));
    matching.next().filter(|_| matching.next().is_none())
}

/// Returns the errors of a table: definitions without exactly one row, and rows without a definition.
pub(crate) fn faults(rows: &[Row], revisions: &[Revision]) -> Vec<String> {
    let definitions = revisions
        .iter()
        .flat_map(|revision| revision.definitions().map(move |definition| (revision.name(), definition)));
    let uncovered = definitions.filter_map(|(revision, definition)| {
        let rows = rows.iter().filter(|row| row.covers(revision, definition)).count();
        (rows != 1).then(|| format!("{revision} {definition}: {rows} rows instead of one"))
    });
    uncovered.chain(rows.iter().filter_map(|row| row_fault(row, revisions))).collect()
}

fn row_fault(row: &Row, revisions: &[Revision]) -> Option<String> {
    let named = [row.since, row.until].into_iter().flatten();
    let known = |name: &str| revisions.iter().any(|revision| revision.name() == name);
    if let Some(unknown) = named.into_iter().find(|name| !known(name)) {
        return Some(format!("row {}: there is no revision {unknown}", row.name));
    }
    let mut covered = revisions.iter().filter(|revision| row.covers(revision.name(), row.name));
    let exists = covered.any(|revision| revision.defines(row.name));
    (!exists).then(|| format!("row {}: no schema in its range has that definition", row.name))
}
