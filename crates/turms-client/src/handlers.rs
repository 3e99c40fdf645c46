//! Handlers for input requests: requests of the older revisions, `input_required` of the newest.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use turms_core::{BoxFuture, run_blocking};
use turms_proto::method::Method as _;
use turms_proto::types::{
    Blocks, ClientCapabilities, Content, CreateMessage, CreateMessageParams, CreateMessageResult, Elicit, ElicitAction,
    ElicitForm, ElicitParams, ElicitResult, ElicitUrl, ElicitationCapability, InputRequest, ListRoots, ListRootsResult,
    Role, RootsCapability, SamplingCapability, SamplingMessage,
};
use turms_proto::{ErrorCode, ErrorObject, Object, RawJson};
use turms_schema::{DEFAULT_MAX_VALIDATION_STEPS, Trust, Validator};

use crate::roots::Roots;

/// The handlers for sampling, elicitation and roots. They are the capabilities that the client declares.
///
/// ```
/// use turms_client::{Answers, HandlerError};
/// use turms_proto::types::{CreateMessageResult, ElicitResult, Role, Root};
///
/// let answers = Answers::new()
///     .roots([Root::new("file:///home/ann/project")])
///     .sampling(|question| async move {
///         if question.max_tokens > 10_000 {
///             return Err(HandlerError::rejected("too long"));
///         }
///         Ok(CreateMessageResult::new(Role::Assistant, "Paris", "my-model"))
///     })
///     .form(|form| async move { ElicitResult::decline() });
/// # let _ = answers;
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Answers {
    sampling: Option<Asked<CreateMessageParams, Result<CreateMessageResult, HandlerError>>>,
    sampling_tools: bool,
    form: Option<Asked<ElicitForm, ElicitResult>>,
    url: Option<Asked<ElicitUrl, ElicitResult>>,
    roots: Option<Roots>,
}

type Asked<Q, A> = Arc<dyn Fn(Q) -> BoxFuture<'static, A> + Send + Sync>;

/// Why a model was not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandlerError {
    /// The person does not want it.
    #[error("{0}")]
    Rejected(String),
    /// It could not be done.
    #[error("{0}")]
    Failed(String),
}

impl HandlerError {
    /// The person does not want it.
    pub fn rejected(reason: impl Into<String>) -> Self {
        Self::Rejected(reason.into())
    }

    /// It could not be done.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self::Failed(reason.to_string())
    }
}

impl Answers {
    /// No handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// What most clients want: these roots, this model, and a person who fills in no forms and opens no pages.
    pub fn standard<F, A>(roots: impl Into<Roots>, model: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        Self::new().roots(roots).sampling(model).decline_elicitation()
    }

    /// The model, for servers that ask it without tools.
    pub fn sampling<F, A>(mut self, model: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        self.sampling = Some(Arc::new(move |question| Box::pin(model(question))));
        self
    }

    /// The model, which also takes tools from the server that asks.
    pub fn sampling_with_tools<F, A>(self, model: F) -> Self
    where
        F: Fn(CreateMessageParams) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        let mut answers = self.sampling(model);
        answers.sampling_tools = true;
        answers
    }

    /// The person, who fills in forms. Fields that are left out take their defaults, and the whole is held against the form
    /// before it leaves.
    pub fn form<F, A>(mut self, person: F) -> Self
    where
        F: Fn(ElicitForm) -> A + Send + Sync + 'static,
        A: Future<Output = ElicitResult> + Send + 'static,
    {
        self.form = Some(Arc::new(move |form| Box::pin(person(form))));
        self
    }

    /// The person, who opens pages. Never open one without showing its address and being told to.
    pub fn url<F, A>(mut self, person: F) -> Self
    where
        F: Fn(ElicitUrl) -> A + Send + Sync + 'static,
        A: Future<Output = ElicitResult> + Send + 'static,
    {
        self.url = Some(Arc::new(move |page| Box::pin(person(page))));
        self
    }

    /// The person, who fills in forms and opens pages.
    pub fn elicitation<F, A>(self, person: F) -> Self
    where
        F: Fn(ElicitParams) -> A + Send + Sync + 'static,
        A: Future<Output = ElicitResult> + Send + 'static,
    {
        let person = Arc::new(person);
        let also = person.clone();
        self.form(move |form| person(ElicitParams::Form(form))).url(move |page| also(ElicitParams::Url(page)))
    }

    /// A person who says no to forms and pages.
    pub fn decline_elicitation(self) -> Self {
        self.elicitation(|_| std::future::ready(ElicitResult::decline()))
    }

    /// The directories and files that the server may know of; [`Roots`] can be changed later.
    pub fn roots(mut self, roots: impl Into<Roots>) -> Self {
        self.roots = Some(roots.into());
        self
    }

    /// Returns `true` if pages can be opened.
    pub(crate) fn visits_pages(&self) -> bool {
        self.url.is_some()
    }

    pub(crate) fn shared_roots(&self) -> Option<&Roots> {
        self.roots.as_ref()
    }

    /// The capabilities of these handlers.
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

    pub(crate) async fn answer(&self, question: InputRequest) -> Result<RawJson, NoAnswer> {
        match question {
            InputRequest::Elicit(params) => self.elicit(*params).await,
            InputRequest::Sample(params) => self.sample(*params).await,
            InputRequest::Roots(_) => match &self.roots {
                Some(roots) => written(&ListRootsResult::new(roots.list())),
                None => Err(NoAnswer::Undeclared { method: ListRoots::NAME, detail: None }),
            },
            other => Err(NoAnswer::Invalid { method: other.method(), problem: "it is not known here".into() }),
        }
    }

    async fn sample(&self, params: CreateMessageParams) -> Result<RawJson, NoAnswer> {
        let method = CreateMessage::NAME;
        let Some(model) = &self.sampling else { return Err(NoAnswer::Undeclared { method, detail: None }) };
        if !self.sampling_tools && (params.tools.is_some() || params.tool_choice.is_some()) {
            return Err(NoAnswer::Undeclared { method, detail: Some("tools for the model") });
        }
        if let Err(problem) = check_tool_messages(&params.messages) {
            return Err(NoAnswer::Invalid { method, problem });
        }
        match model(params).await {
            Ok(result) => written(&result),
            Err(HandlerError::Rejected(reason)) => Err(NoAnswer::Rejected { method, reason }),
            Err(HandlerError::Failed(reason)) => Err(NoAnswer::Failed { method, reason }),
        }
    }

    async fn elicit(&self, params: ElicitParams) -> Result<RawJson, NoAnswer> {
        let method = Elicit::NAME;
        let undeclared = |detail| {
            let detail = (self.form.is_some() || self.url.is_some()).then_some(detail);
            Err(NoAnswer::Undeclared { method, detail })
        };
        match params {
            ElicitParams::Form(form) => {
                let Some(person) = &self.form else { return undeclared("forms") };
                let schema = form.requested_schema.clone();
                let mut answer = person(form).await;
                fit_to_form(&mut answer, &schema).await.map_err(|reason| NoAnswer::Unfit { method, reason })?;
                written(&answer)
            }
            ElicitParams::Url(page) => {
                let Some(person) = &self.url else { return undeclared("pages to open") };
                let mut answer = person(page).await;
                answer.content = None;
                written(&answer)
            }
            _ => undeclared("questions of this kind"),
        }
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("capabilities", &self.capabilities()).finish_non_exhaustive()
    }
}

/// The reason that an input request has no response.
#[derive(Debug, Clone)]
pub(crate) enum NoAnswer {
    /// This client never said that it could be asked this.
    Undeclared { method: &'static str, detail: Option<&'static str> },
    /// The question breaks the rules.
    Invalid { method: &'static str, problem: String },
    /// The person does not want it.
    Rejected { method: &'static str, reason: String },
    /// The form was filled in, but not as it wants. What stands in it is not for the server.
    Unfit { method: &'static str, reason: String },
    /// It could not be done.
    Failed { method: &'static str, reason: String },
}

impl NoAnswer {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Undeclared { method, .. }
            | Self::Invalid { method, .. }
            | Self::Rejected { method, .. }
            | Self::Unfit { method, .. }
            | Self::Failed { method, .. } => method,
        }
    }

    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Undeclared { detail: None, .. } => "this client did not declare that it can be asked that".into(),
            Self::Undeclared { detail: Some(detail), .. } => {
                format!("this client did not declare that it takes {detail}")
            }
            Self::Invalid { problem, .. } => format!("the question is not valid: {problem}"),
            Self::Rejected { reason, .. } => format!("the user rejected it: {reason}"),
            Self::Unfit { reason, .. } | Self::Failed { reason, .. } => format!("there is no answer: {reason}"),
        }
    }
}

/// As older revisions have it.
impl From<NoAnswer> for ErrorObject {
    fn from(none: NoAnswer) -> Self {
        match none {
            NoAnswer::Undeclared { method, detail: None } => Self::method_not_found(method),
            NoAnswer::Undeclared { .. } | NoAnswer::Invalid { .. } => Self::invalid_params(none.reason()),
            NoAnswer::Rejected { reason, .. } => Self::new(ErrorCode::USER_REJECTED, reason),
            NoAnswer::Unfit { .. } => Self::internal("the form was not filled in as it wants"),
            NoAnswer::Failed { reason, .. } => Self::internal(reason),
        }
    }
}

fn written(answer: &impl Serialize) -> Result<RawJson, NoAnswer> {
    RawJson::encode(answer).map_err(|error| NoAnswer::Failed { method: Elicit::NAME, reason: error.to_string() })
}

/// Fills in the defaults of an accepted form and holds it against its schema.
async fn fit_to_form(answer: &mut ElicitResult, schema: &turms_proto::types::FormSchema) -> Result<(), String> {
    if answer.action != ElicitAction::Accept {
        answer.content = None;
        return Ok(());
    }
    let content = answer.content.get_or_insert_default();
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
        let validator = Validator::new(&schema, Trust::Foreign).map_err(|error| format!("the form is {error}"))?;
        let max_steps = Validator::steps_for(content.as_str().len(), DEFAULT_MAX_VALIDATION_STEPS);
        validator.check_within(&content, max_steps).map(drop).map_err(|error| {
            let violations = error.messages("content").join("; ");
            format!("the form was not filled in right: {violations}")
        })
    };
    if length <= Validator::MAX_INLINE_BYTES {
        return check();
    }
    run_blocking(check).await.unwrap_or_else(|| Err("the validation of the form was not finished".to_owned()))
}

/// What a model used must be answered in the very next message, and by nothing else (client/sampling, "Message constraints").
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
            return Err(format!("messages[{index}]: results of tools stand beside something else"));
        }
        if let Some(missing) = open.iter().find(|id| !results.contains(id)) {
            return Err(format!("messages[{index}]: the use {missing:?} of a tool has no result"));
        }
        if let Some(foreign) = results.iter().find(|id| !open.contains(id)) {
            return Err(format!("messages[{index}]: the result {foreign:?} belongs to no use of a tool"));
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
        BooleanField, FormSchema, NumberField, NumberKind, StringField, ToolResultContent, ToolUse,
    };

    use super::*;

    fn form() -> ElicitForm {
        let schema = FormSchema::new()
            .required_field("name", StringField::new())
            .field("active", BooleanField::new().default(true))
            .field("age", NumberField::new(NumberKind::Integer));
        ElicitForm::new("Who?", schema)
    }

    async fn filled(content: &'static str) -> Result<RawJson, NoAnswer> {
        let answers =
            Answers::new().form(move |_| async move { ElicitResult::accept(Object::parse(content).unwrap()) });
        answers.answer(ElicitParams::Form(form()).into()).await
    }

    #[tokio::test]
    async fn a_form_takes_its_defaults_and_is_checked() {
        let answer = filled(r#"{"name":"Ann"}"#).await.unwrap();
        assert_eq!(answer.as_str(), r#"{"action":"accept","content":{"name":"Ann","active":true}}"#);
        let none = filled(r#"{"age":1.5}"#).await.unwrap_err();
        assert!(none.reason().contains("\"name\" is a required property"), "{none:?}");
        assert!(none.reason().contains("content.age: "), "{none:?}");
        assert_eq!(ErrorObject::from(none), ErrorObject::internal("the form was not filled in as it wants"));
    }

    #[tokio::test]
    async fn what_is_not_declared_is_refused_as_the_revision_has_it() {
        let refused = |answers: Answers, question: InputRequest| async move {
            ErrorObject::from(answers.answer(question).await.unwrap_err()).code
        };
        let url = || InputRequest::from(ElicitParams::url("m", "https://a.example"));
        let forms = Answers::new().form(|_| async { ElicitResult::decline() });
        assert_eq!(refused(forms, url()).await, ErrorCode::INVALID_PARAMS);
        assert_eq!(refused(Answers::new(), url()).await, ErrorCode::METHOD_NOT_FOUND);
        let roots = InputRequest::Roots(turms_proto::types::EmptyParams::new());
        assert_eq!(refused(Answers::new(), roots).await, ErrorCode::METHOD_NOT_FOUND);
        let sampling = Answers::new().sampling(|_| async { Err(HandlerError::rejected("no")) });
        let question = CreateMessageParams::new([SamplingMessage::user("hi")], 5);
        assert_eq!(refused(sampling.clone(), question.clone().into()).await, ErrorCode::USER_REJECTED);
        let with_tools = question.tools(Vec::new());
        assert_eq!(refused(sampling, with_tools.into()).await, ErrorCode::INVALID_PARAMS);
    }

    #[test]
    fn the_uses_and_results_of_tools_belong_together() {
        let used = || SamplingMessage::assistant(Content::ToolUse(Box::new(ToolUse::new("1", "add", Object::new()))));
        let result = |id: &str| Content::ToolResult(Box::new(ToolResultContent::new(id, Vec::new())));
        assert!(check_tool_messages(&[used(), SamplingMessage::user(result("1"))]).is_ok());
        assert!(check_tool_messages(&[used()]).is_ok());
        assert!(check_tool_messages(&[used(), SamplingMessage::user("well?")]).is_err());
        assert!(check_tool_messages(&[used(), SamplingMessage::user(result("2"))]).is_err());
        let mixed = SamplingMessage::user(vec![result("1"), Content::text("and")]);
        assert!(check_tool_messages(&[used(), mixed]).is_err());
    }

    #[test]
    fn capabilities_follow_from_who_answers() {
        let answers = Answers::standard([], |_| async { Err(HandlerError::new("none")) });
        let capabilities = serde_json::to_string(&answers.capabilities()).unwrap();
        assert_eq!(capabilities, r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}"#);
        assert_eq!(serde_json::to_string(&Answers::new().capabilities()).unwrap(), "{}");
    }
}
