//! Handlers for requests and notifications of a server. Input requests (sampling, elicitation, roots) are separate
//! requests before 2026-07-28, and part of an `input_required` response since.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_core::__internal::run_blocking;
use turms_core::{BoxFuture, Payload, Request, ResponseFuture};
use turms_proto::method::Method as _;
use turms_proto::types::{
    Blocks, ClientCapabilities, Content, CreateMessage, CreateMessageParams, CreateMessageResult, Elicit, ElicitAction,
    ElicitForm, ElicitParams, ElicitResult, ElicitUrl, ElicitationCapability, InputRequest, ListRoots, ListRootsResult,
    Role, RootsCapability, SamplingCapability, SamplingMessage,
};
use turms_proto::{EncodeError, ErrorObject, Notification, Object, RawJson};
use turms_schema::{DEFAULT_MAX_VALIDATION_STEPS, Trust, Validator};

use crate::handler_error::HandlerError;
use crate::request_context::RequestContext;
use crate::roots::Roots;

/// The handlers for requests and notifications of a server. They determine the capabilities that the client declares.
#[derive(Clone, Default)]
pub(crate) struct ClientHandlers {
    sampling: Option<Handler<CreateMessageParams, CreateMessageResult>>,
    sampling_tools: bool,
    form: Option<Handler<ElicitForm, ElicitResult>>,
    url: Option<Handler<ElicitUrl, ElicitResult>>,
    roots: Option<Roots>,
    /// Custom request handlers by method.
    requests: BTreeMap<String, Handler<Payload, RawJson>>,
    notifications: BTreeMap<String, Handler<Notification, ()>>,
}

type Handler<P, R> = Arc<dyn Fn(P, RequestContext) -> BoxFuture<'static, Result<R, HandlerError>> + Send + Sync>;

impl ClientHandlers {
    pub(crate) fn set_sampling<F, A>(&mut self, tools: bool, handler: F)
    where
        F: Fn(CreateMessageParams, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        self.sampling = Some(Arc::new(move |params, cx| Box::pin(handler(params, cx))));
        self.sampling_tools = tools;
    }

    pub(crate) fn set_form<F, A>(&mut self, handler: F)
    where
        F: Fn(ElicitForm, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<ElicitResult, HandlerError>> + Send + 'static,
    {
        self.form = Some(Arc::new(move |form, cx| Box::pin(handler(form, cx))));
    }

    pub(crate) fn set_url<F, A>(&mut self, handler: F)
    where
        F: Fn(ElicitUrl, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<ElicitResult, HandlerError>> + Send + 'static,
    {
        self.url = Some(Arc::new(move |page, cx| Box::pin(handler(page, cx))));
    }

    pub(crate) fn set_roots(&mut self, roots: Roots) {
        self.roots = Some(roots);
    }

    pub(crate) fn add_request<P, R, F, A>(&mut self, method: String, handler: F)
    where
        P: DeserializeOwned + 'static,
        R: Serialize,
        F: Fn(P, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        let handle = move |params: Payload, cx| -> BoxFuture<'static, Result<RawJson, HandlerError>> {
            match params.take::<P>() {
                Ok(params) => {
                    let response = handler(params, cx);
                    Box::pin(async move { Ok(RawJson::encode(&response.await?)?) })
                }
                Err(error) => {
                    let error = ErrorObject::invalid_params(format!("params: {error}"));
                    Box::pin(std::future::ready(Err(error.into())))
                }
            }
        };
        self.requests.insert(method, Arc::new(handle));
    }

    pub(crate) fn add_notification<P, F, A>(&mut self, method: String, handler: F)
    where
        P: DeserializeOwned + 'static,
        F: Fn(P, RequestContext) -> A + Send + Sync + 'static,
        A: Future<Output = Result<(), HandlerError>> + Send + 'static,
    {
        let handle = move |notification: Notification, cx| -> BoxFuture<'static, Result<(), HandlerError>> {
            let params = notification.params.unwrap_or_else(|| Object::new().into());
            match params.decode::<P>() {
                Ok(params) => Box::pin(handler(params, cx)),
                Err(error) => Box::pin(std::future::ready(Err(error.into()))),
            }
        };
        self.notifications.insert(method, Arc::new(handle));
    }

    /// Returns the future of the custom handler for this method, or the request if there is none.
    pub(crate) fn call(&self, request: Request, cx: RequestContext) -> Result<ResponseFuture, Request> {
        let Some(handler) = self.requests.get(&*request.method) else { return Err(request) };
        let response = handler(request.params, cx);
        Ok(Box::pin(async move { Ok(Payload::json(response.await.map_err(ErrorObject::from)?)) }))
    }

    pub(crate) fn has_notifications(&self) -> bool {
        !self.notifications.is_empty()
    }

    /// Runs the handler for this notification, if there is one.
    pub(crate) async fn notify(&self, notification: &Notification, cx: RequestContext) {
        let Some(handler) = self.notifications.get(&*notification.method) else { return };
        if let Err(error) = handler(notification.clone(), cx).await {
            let method = &*notification.method;
            tracing::warn!(target: "turms::client", method, %error, "the handler of a notification failed");
        }
    }

    /// Returns `true` if there is a handler for URL elicitation.
    pub(crate) fn handles_urls(&self) -> bool {
        self.url.is_some()
    }

    pub(crate) fn shared_roots(&self) -> Option<&Roots> {
        self.roots.as_ref()
    }

    /// Returns the capabilities to declare for these handlers.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::new();
        if self.sampling.is_some() {
            let mut sampling = SamplingCapability::new();
            sampling.tools = self.sampling_tools.then(Object::new);
            capabilities.sampling = Some(sampling);
        }
        if self.form.is_some() || self.url.is_some() {
            let mut elicitation = ElicitationCapability::new();
            elicitation.form = self.form.as_ref().map(|_| Object::new());
            elicitation.url = self.url.as_ref().map(|_| Object::new());
            capabilities.elicitation = Some(elicitation);
        }
        if self.roots.is_some() {
            capabilities.roots = Some(RootsCapability::new().list_changed(true));
        }
        capabilities
    }

    /// Responds to an input request.
    pub(crate) async fn respond(&self, request: InputRequest, cx: RequestContext) -> Result<RawJson, InputFailure> {
        match request {
            InputRequest::Elicit(params) => self.elicit(*params, cx).await,
            InputRequest::Sample(params) => self.sample(*params, cx).await,
            InputRequest::Roots(_) => match &self.roots {
                Some(roots) => encode(ListRoots::NAME, &ListRootsResult::new(roots.list())),
                None => Err(InputFailure::Undeclared { method: ListRoots::NAME, detail: None }),
            },
            other => Err(InputFailure::Invalid { method: other.method(), problem: "unknown input request".into() }),
        }
    }

    async fn sample(&self, params: CreateMessageParams, cx: RequestContext) -> Result<RawJson, InputFailure> {
        let method = CreateMessage::NAME;
        let Some(handler) = &self.sampling else { return Err(InputFailure::Undeclared { method, detail: None }) };
        if !self.sampling_tools && (params.tools.is_some() || params.tool_choice.is_some()) {
            return Err(InputFailure::Undeclared { method, detail: Some("tools for sampling") });
        }
        if let Err(problem) = check_tool_messages(&params.messages) {
            return Err(InputFailure::Invalid { method, problem });
        }
        let failed = |error| InputFailure::Handler { method, error };
        encode(method, &handler(params, cx).await.map_err(failed)?)
    }

    async fn elicit(&self, params: ElicitParams, cx: RequestContext) -> Result<RawJson, InputFailure> {
        let method = Elicit::NAME;
        let undeclared = |detail| {
            let detail = (self.form.is_some() || self.url.is_some()).then_some(detail);
            Err(InputFailure::Undeclared { method, detail })
        };
        let failed = |error| InputFailure::Handler { method, error };
        match params {
            ElicitParams::Form(form) => {
                let Some(handler) = &self.form else { return undeclared("forms") };
                let schema = form.requested_schema.clone();
                let mut result = handler(form, cx).await.map_err(failed)?;
                complete_form(&mut result, &schema)
                    .await
                    .map_err(|reason| InputFailure::InvalidForm { method, reason })?;
                encode(method, &result)
            }
            ElicitParams::Url(page) => {
                let Some(handler) = &self.url else { return undeclared("URLs") };
                let mut result = handler(page, cx).await.map_err(failed)?;
                result.content = None;
                encode(method, &result)
            }
            _ => undeclared("elicitations of this mode"),
        }
    }
}

impl fmt::Debug for ClientHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientHandlers").field("capabilities", &self.capabilities()).finish_non_exhaustive()
    }
}

/// The reason that an input request has no response.
#[derive(Debug)]
pub(crate) enum InputFailure {
    /// The client did not declare the capability.
    Undeclared { method: &'static str, detail: Option<&'static str> },
    /// The request is invalid.
    Invalid { method: &'static str, problem: String },
    /// The contents of the form do not match its schema. They are not sent to the server.
    InvalidForm { method: &'static str, reason: String },
    /// The handler returned an error.
    Handler { method: &'static str, error: HandlerError },
    /// The result cannot be encoded.
    Encode { method: &'static str, error: EncodeError },
}

impl InputFailure {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Undeclared { method, .. }
            | Self::Invalid { method, .. }
            | Self::InvalidForm { method, .. }
            | Self::Handler { method, .. }
            | Self::Encode { method, .. } => method,
        }
    }

    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Undeclared { detail: None, .. } => "this client did not declare the capability".into(),
            Self::Undeclared { detail: Some(detail), .. } => {
                format!("this client did not declare support for {detail}")
            }
            Self::Invalid { problem, .. } => format!("invalid request: {problem}"),
            Self::Handler { error, .. } if error.is_rejected() => format!("rejected: {error}"),
            Self::Handler { error, .. } => format!("the handler failed: {error}"),
            Self::InvalidForm { reason, .. } => reason.clone(),
            Self::Encode { error, .. } => format!("the result cannot be encoded: {error}"),
        }
    }
}

/// Converts the failure to an error response, for revisions before 2026-07-28.
impl From<InputFailure> for ErrorObject {
    fn from(failure: InputFailure) -> Self {
        match failure {
            InputFailure::Undeclared { method, detail: None } => Self::method_not_found(method),
            InputFailure::Undeclared { .. } | InputFailure::Invalid { .. } => Self::invalid_params(failure.reason()),
            InputFailure::Handler { error, .. } => error.into(),
            InputFailure::InvalidForm { .. } => Self::internal("the contents of the form do not match its schema"),
            InputFailure::Encode { .. } => Self::internal(failure.reason()),
        }
    }
}

fn encode(method: &'static str, result: &impl Serialize) -> Result<RawJson, InputFailure> {
    RawJson::encode(result).map_err(|error| InputFailure::Encode { method, error })
}

/// Fills in the defaults of an accepted form and validates it against its schema.
async fn complete_form(result: &mut ElicitResult, schema: &turms_proto::types::FormSchema) -> Result<(), String> {
    if result.action != ElicitAction::Accept {
        result.content = None;
        return Ok(());
    }
    let content = result.content.get_or_insert_default();
    for (name, field) in &schema.properties {
        if !content.contains(name)
            && let Some(default) = field.default_value()
        {
            content.insert_raw(name, &default);
        }
    }
    let schema = Object::encode(schema).map_err(|error| error.to_string())?;
    let content = RawJson::from(content.clone());
    let length = content.as_str().len().max(schema.as_str().len());
    let check = move || {
        let validator =
            Validator::new(&schema, Trust::Foreign).map_err(|error| format!("the schema of the form is {error}"))?;
        let max_steps = Validator::steps_for(content.as_str().len(), DEFAULT_MAX_VALIDATION_STEPS);
        validator.check_within(&content, max_steps).map(drop).map_err(|error| {
            let violations = error.messages("content").join("; ");
            format!("invalid contents of the form: {violations}")
        })
    };
    if length <= Validator::MAX_INLINE_BYTES {
        return check();
    }
    run_blocking(check).await.unwrap_or_else(|| Err("the validation of the form was not finished".to_owned()))
}

/// Checks that the message after a tool use contains all tool results and nothing else (client/sampling, "Message
/// constraints").
fn check_tool_messages(messages: &[SamplingMessage]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let blocks = Blocks::as_slice(&message.content);
        let results: Vec<&str> = blocks
            .iter()
            .filter_map(|block| match block {
                Content::ToolResult(result) => Some(result.tool_use_id.as_str()),
                _ => None,
            })
            .collect();
        if !results.is_empty() && results.len() < blocks.len() {
            return Err(format!("messages[{index}]: tool results are mixed with other content"));
        }
        if let Some(missing) = open.iter().find(|id| !results.contains(id)) {
            return Err(format!("messages[{index}]: tool use {missing:?} has no result"));
        }
        if let Some(foreign) = results.iter().find(|id| !open.contains(id)) {
            return Err(format!("messages[{index}]: tool result {foreign:?} has no tool use"));
        }
        open.clear();
        if message.role == Role::Assistant {
            open.extend(blocks.iter().filter_map(|block| match block {
                Content::ToolUse(tool_use) => Some(tool_use.id.as_str()),
                _ => None,
            }));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use turms_proto::types::{
        BooleanField, FormSchema, NumberField, NumberKind, StringField, ToolResultContent, ToolUseContent,
    };

    use turms_core::CancellationToken;
    use turms_proto::ErrorCode;

    use super::*;
    use crate::{Client, ClientBuilder};

    fn form() -> ElicitForm {
        let schema = FormSchema::new()
            .required_field("name", StringField::new())
            .field("active", BooleanField::new().default(true))
            .field("age", NumberField::new(NumberKind::Integer));
        ElicitForm::new("Who?", schema)
    }

    fn cx() -> RequestContext {
        RequestContext::new(Arc::default(), None, CancellationToken::new())
    }

    async fn filled(content: &'static str) -> Result<RawJson, InputFailure> {
        let mut handlers = ClientHandlers::default();
        handlers.set_form(move |_, _| async move { Ok(ElicitResult::accept(Object::parse(content)?)?) });
        handlers.respond(ElicitParams::Form(form()).into(), cx()).await
    }

    #[tokio::test]
    async fn a_form_gets_its_defaults_and_is_validated() {
        let result = filled(r#"{"name":"Ann"}"#).await.unwrap();
        assert_eq!(result.as_str(), r#"{"action":"accept","content":{"name":"Ann","active":true}}"#);
        let failure = filled(r#"{"age":1.5}"#).await.unwrap_err();
        assert!(failure.reason().contains("\"name\" is a required property"), "{failure:?}");
        assert!(failure.reason().contains("content.age: "), "{failure:?}");
        let response = ErrorObject::internal("the contents of the form do not match its schema");
        assert_eq!(ErrorObject::from(failure), response);
    }

    #[tokio::test]
    async fn an_undeclared_request_is_rejected_with_the_specified_code() {
        let refused = |handlers: ClientHandlers, request: InputRequest| async move {
            ErrorObject::from(handlers.respond(request, cx()).await.unwrap_err()).code
        };
        let url = || InputRequest::from(ElicitParams::url("m", "https://a.example"));
        let mut forms = ClientHandlers::default();
        forms.set_form(|_, _| async { Ok(ElicitResult::decline()) });
        assert_eq!(refused(forms, url()).await, ErrorCode::INVALID_PARAMS);
        assert_eq!(refused(ClientHandlers::default(), url()).await, ErrorCode::METHOD_NOT_FOUND);
        let roots = InputRequest::Roots(turms_proto::types::EmptyParams::new());
        assert_eq!(refused(ClientHandlers::default(), roots).await, ErrorCode::METHOD_NOT_FOUND);
        let mut sampling = ClientHandlers::default();
        sampling.set_sampling(false, |_, _| async { Err(HandlerError::rejected("no")) });
        let request = CreateMessageParams::new([SamplingMessage::user("hi")], 5);
        assert_eq!(refused(sampling.clone(), request.clone().into()).await, ErrorCode::USER_REJECTED);
        let with_tools = request.tools(Vec::new());
        assert_eq!(refused(sampling, with_tools.into()).await, ErrorCode::INVALID_PARAMS);
    }

    #[test]
    fn tool_uses_and_results_must_match() {
        let used =
            || SamplingMessage::assistant(Content::ToolUse(Box::new(ToolUseContent::new("1", "add", Object::new()))));
        let result = |id: &str| Content::ToolResult(Box::new(ToolResultContent::new(id, Vec::new())));
        assert!(check_tool_messages(&[used(), SamplingMessage::user(result("1"))]).is_ok());
        assert!(check_tool_messages(&[used()]).is_ok());
        assert!(check_tool_messages(&[used(), SamplingMessage::user("well?")]).is_err());
        assert!(check_tool_messages(&[used(), SamplingMessage::user(result("2"))]).is_err());
        let mixed = SamplingMessage::user(vec![result("1"), Content::text("and")]);
        assert!(check_tool_messages(&[used(), mixed]).is_err());
    }

    #[test]
    fn capabilities_follow_from_the_handlers() {
        let capabilities = |builder: ClientBuilder| serde_json::to_string(&builder.handlers().capabilities()).unwrap();
        let none = || Client::builder("test", "1");
        assert_eq!(capabilities(none()), "{}");
        let all = none().roots([]).on_sampling(|_, _| async { Err(HandlerError::new("none")) }).decline_elicitation();
        let expected = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}"#;
        assert_eq!(capabilities(all), expected);
        let tools = none().on_sampling_with_tools(|_, _| async { Err(HandlerError::new("none")) });
        assert_eq!(capabilities(tools), r#"{"sampling":{"tools":{}}}"#);
    }
}
