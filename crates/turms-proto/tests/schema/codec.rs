//! Codecs between JSON text and the types of this crate, one for each kind of definition.

use std::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_proto::method::{Method, NotificationMethod};
use turms_proto::types::{
    self, CallToolParams, Content, CreateMessageResult, ElicitResult, Field, Implementation, InputResponses,
    ListRootsResult, ListToolsResult, Meta, PaginatedParams, TextContent, UrlElicitationRequired, key,
};
use turms_proto::{
    DEFAULT_BATCH_LIMIT, ErrorObject, Incoming, Message, Notification, Object, RawJson, Request, Response, decode,
};

/// Decodes JSON text, and encodes the result.
pub(crate) type Codec = fn(&str) -> Result<String, String>;

/// Uses the type `T`.
pub(crate) fn roundtrip<T: DeserializeOwned + Serialize>(text: &str) -> Result<String, String> {
    let value: T = decode(text).map_err(in_words)?;
    serde_json::to_string(&value).map_err(|error| format!("cannot encode: {error}"))
}

/// A request of the method `M`, with typed parameters.
pub(crate) fn request<M: Method>(text: &str) -> Result<String, String> {
    let request = request_in(text)?;
    is_named(M::NAME, &request.method)?;
    let params = request.params::<M>().map_err(in_words)?;
    let again = Request::new::<M>(request.id, &params).map_err(in_words)?;
    written(&Message::Request(again))
}

/// A notification of the method `N`, with typed parameters.
pub(crate) fn notification<N: NotificationMethod>(text: &str) -> Result<String, String> {
    let Message::Notification(notification) = message_in(text)? else {
        return Err("decoded as something other than a notification".to_owned());
    };
    is_named(N::NAME, &notification.method)?;
    let params = notification.params::<N>().map_err(in_words)?;
    let again = Notification::new::<N>(&params).map_err(in_words)?;
    written(&Message::Notification(again))
}

/// A response to a request of the method `M`, with a typed result.
pub(crate) fn response<M: Method>(text: &str) -> Result<String, String> {
    let (response, outcome) = response_in(text)?;
    let result = outcome.map_err(in_words)?;
    answer(response, Ok(recoded::<M::Result>(&result)?))
}

/// A message of any kind, with raw contents.
pub(crate) fn message(text: &str) -> Result<String, String> {
    written(&message_in(text)?)
}

/// One transmission: a message or an array of messages.
pub(crate) fn transmission(text: &str) -> Result<String, String> {
    match Incoming::decode(text.to_owned(), DEFAULT_BATCH_LIMIT).map_err(in_words)? {
        Incoming::One(message) => written(&message),
        Incoming::Batch(messages) => {
            let each = messages.into_iter().map(|message| match message {
                Ok(message) => written(&message),
                Err(invalid) => Err(invalid.to_string()),
            });
            let each: Result<Vec<_>, _> = each.collect();
            Ok(format!("[{}]", each?.join(",")))
        }
    }
}

/// A request of a list method.
pub(crate) fn paginated_request(text: &str) -> Result<String, String> {
    let Request { id, method, params, .. } = request_in(text)?;
    let params = params.as_ref().map(recoded::<PaginatedParams>).transpose()?;
    written(&Message::Request(Request::raw(id, method, params)))
}

/// Error -32042, with typed data.
pub(crate) fn url_elicitation_error(text: &str) -> Result<String, String> {
    let (response, outcome) = response_in(text)?;
    let mut error = outcome.err().ok_or("decoded as a success")?;
    let pages: UrlElicitationRequired = error.data_as().ok_or("lost its data")?.map_err(in_words)?;
    error.data = Some(RawJson::encode(&pages).map_err(in_words)?);
    answer(response, Err(error))
}

macro_rules! by_method {
    ($text:expr, $codec:ident, $Kind:ident, [$($Marker:ident),+ $(,)?]) => {
        match method_in($text)?.as_str() {
            $( <types::$Marker as $Kind>::NAME => $codec::<types::$Marker>($text), )+
            method => Err(format!("no marker has the name {method:?}")),
        }
    };
}

/// A request of any known method.
pub(crate) fn any_request(text: &str) -> Result<String, String> {
    by_method!(
        text,
        request,
        Method,
        [
            CallTool,
            Complete,
            CreateMessage,
            CancelCoreTask,
            Discover,
            Elicit,
            GetCoreTask,
            GetCoreTaskResult,
            GetPrompt,
            Initialize,
            ListCoreTasks,
            ListPrompts,
            ListResourceTemplates,
            ListResources,
            ListRoots,
            ListTools,
            Listen,
            Ping,
            ReadResource,
            SetLevel,
            Subscribe,
            Unsubscribe,
        ]
    )
}

/// A notification of any known method.
pub(crate) fn any_notification(text: &str) -> Result<String, String> {
    by_method!(
        text,
        notification,
        NotificationMethod,
        [
            SubscriptionsAcknowledgedNotification,
            CancelledNotification,
            CoreTaskStatusNotification,
            ElicitationCompleteNotification,
            InitializedNotification,
            LoggingMessageNotification,
            ProgressNotification,
            PromptListChangedNotification,
            ResourceListChangedNotification,
            ResourceUpdatedNotification,
            RootsListChangedNotification,
            ToolListChangedNotification,
        ]
    )
}

/// A content block, which must not be decoded as unknown.
pub(crate) fn content(text: &str) -> Result<String, String> {
    match decode(text) {
        Ok(Content::Unknown(_)) => Err("decoded as an unknown block".to_owned()),
        _ => roundtrip::<Content>(text),
    }
}

/// A form field, which must not be decoded as unknown.
pub(crate) fn field(text: &str) -> Result<String, String> {
    match decode(text) {
        Ok(Field::Unknown(_)) => Err("decoded as an unknown field".to_owned()),
        _ => roundtrip::<Field>(text),
    }
}

/// The `_meta` of a request, decoded and encoded.
pub(crate) fn request_meta(text: &str) -> Result<String, String> {
    let meta: Meta = decode(text).map_err(in_words)?;
    let request = meta.request().map_err(in_words)?;
    serde_json::to_string(&Meta::from(&request)).map_err(in_words)
}

/// The `_meta` of a result or notification, with typed members.
pub(crate) fn meta(text: &str) -> Result<String, String> {
    let meta: Meta = decode(text).map_err(in_words)?;
    let server: Option<Implementation> = meta.server_info().map_err(in_words)?;
    let subscription = meta.subscription_id().map_err(in_words)?;
    let mut again = meta;
    if let Some(server) = server {
        again = again.with(key::SERVER_INFO, &server).map_err(in_words)?;
    }
    if let Some(id) = subscription {
        again = again.with(key::SUBSCRIPTION_ID, &id).map_err(in_words)?;
    }
    serde_json::to_string(&again).map_err(in_words)
}

/// A response to an input request, with the type given by its required members.
pub(crate) fn input_response(text: &str) -> Result<String, String> {
    let answer: Object = decode(text).map_err(in_words)?;
    match () {
        () if answer.contains("action") => roundtrip::<ElicitResult>(text),
        () if answer.contains("roots") => roundtrip::<ListRootsResult>(text),
        () => roundtrip::<CreateMessageResult>(text),
    }
}

/// Input responses, which are untyped because the requests determine their types.
pub(crate) fn input_responses(text: &str) -> Result<String, String> {
    let mut answers: InputResponses = decode(text).map_err(in_words)?;
    for (key, answer) in &answers.clone() {
        let again = input_response(answer.as_str())?;
        answers.insert_raw(&key, &RawJson::parse(again).map_err(in_words)?);
    }
    roundtrip::<InputResponses>(answers.as_str())
}

/// A type with annotations, here a text block.
pub(crate) fn annotated(text: &str) -> Result<String, String> {
    extended::<TextContent>(text, &[("type", r#""text""#), ("text", r#""""#)])
}

/// A type with icons, here an implementation.
pub(crate) fn icons(text: &str) -> Result<String, String> {
    extended::<Implementation>(text, &[("name", r#""""#), ("version", r#""""#)])
}

/// A type with pagination and caching, here a list of tools.
pub(crate) fn list(text: &str) -> Result<String, String> {
    extended::<ListToolsResult>(text, &[("tools", "[]")])
}

/// A type with tasks and multiple rounds, here a tool call.
pub(crate) fn call(text: &str) -> Result<String, String> {
    extended::<CallToolParams>(text, &[("name", r#""""#)])
}

/// A base definition without a type of its own, tested with a type that extends it. The additional required members of
/// that type are added before and removed after.
fn extended<T: DeserializeOwned + Serialize>(text: &str, required: &[(&str, &str)]) -> Result<String, String> {
    let mut object: Object = decode(text).map_err(in_words)?;
    for (name, value) in required {
        let value = RawJson::parse(*value).map_err(in_words)?;
        object.insert_raw(name, &value);
    }
    let mut again: Object = decode(&roundtrip::<T>(object.as_str())?).map_err(in_words)?;
    for (name, _) in required {
        again.remove(name).ok_or_else(|| format!("lost {name:?}"))?;
    }
    roundtrip::<Object>(again.as_str())
}

/// Describes an error in a report.
fn in_words(error: impl Display) -> String {
    error.to_string()
}

fn message_in(text: &str) -> Result<Message, String> {
    Message::decode(text.to_owned()).map_err(in_words)
}

fn request_in(text: &str) -> Result<Request, String> {
    match message_in(text)? {
        Message::Request(request) => Ok(request),
        other => Err(format!("decoded as something other than a request: {other:?}")),
    }
}

type Outcome = Result<RawJson, ErrorObject>;

/// A response without its outcome.
fn response_in(text: &str) -> Result<(Response, Outcome), String> {
    match message_in(text)? {
        Message::Response(mut response) => {
            let outcome = std::mem::replace(&mut response.outcome, Ok(RawJson::NULL));
            Ok((response, outcome))
        }
        other => Err(format!("decoded as something other than a response: {other:?}")),
    }
}

fn answer(mut response: Response, outcome: Outcome) -> Result<String, String> {
    response.outcome = outcome;
    written(&Message::Response(response))
}

fn method_in(text: &str) -> Result<String, String> {
    match message_in(text)? {
        Message::Request(request) => Ok(request.method.to_string()),
        Message::Notification(notification) => Ok(notification.method.to_string()),
        Message::Response(_) => Err("decoded as a response".to_owned()),
    }
}

fn is_named(expected: &str, method: &str) -> Result<(), String> {
    match method == expected {
        true => Ok(()),
        false => Err(format!("the method is {method:?}, but the marker says {expected:?}")),
    }
}

fn recoded<T: DeserializeOwned + Serialize>(raw: &RawJson) -> Result<RawJson, String> {
    let value: T = raw.decode().map_err(in_words)?;
    RawJson::encode(&value).map_err(in_words)
}

fn written(message: &Message) -> Result<String, String> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    String::from_utf8(bytes).map_err(in_words)
}
