//! Prompts at the terminal.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokio::sync::Mutex;
use turms::ClientBuilder;
use turms::client::HandlerError;
use turms::types::EncodeError;
use turms::types::{Content, CreateMessageParams, CreateMessageResult, ElicitForm, ElicitResult, ElicitUrl};

use super::form::{FormOutcome, fill_form};
use crate::line_editor::{AnswerChoices, LineEditor, LineInput, Purpose};
use crate::printer::Printer;
use crate::schema;
use crate::text::{Style, StyledText};

/// Prompts the user at the terminal, for one request at a time. Clones share the terminal.
#[derive(Clone, Debug)]
pub(crate) struct TerminalPrompt(Arc<TerminalState>);

#[derive(Debug)]
struct TerminalState {
    printer: Printer,
    /// Negotiated for the first prompt, unless the shell has opened it.
    editor: OnceLock<Option<LineEditor>>,
    /// Held during a request.
    request: Mutex<()>,
}

impl TerminalPrompt {
    /// Creates a prompt that opens the terminal when it is first needed.
    pub(crate) fn new(printer: &Printer) -> Self {
        Self(Arc::new(TerminalState { printer: printer.clone(), editor: OnceLock::new(), request: Mutex::new(()) }))
    }

    /// Creates a prompt on an open editor.
    pub(crate) fn with_editor(printer: &Printer, editor: LineEditor) -> Self {
        Self(Arc::new(TerminalState {
            printer: printer.clone(),
            editor: OnceLock::from(Some(editor)),
            request: Mutex::new(()),
        }))
    }

    /// Reads one answer.
    pub(crate) async fn read_answer(&self, prompt: String, choices: AnswerChoices) -> LineInput {
        self.0.printer.clear_progress();
        match self.0.editor.get_or_init(|| open(&self.0.printer)) {
            Some(editor) => editor.read_line(prompt, Purpose::Answer(choices)).await,
            None => LineInput::Eof,
        }
    }

    /// Waits until the open prompt of a cancelled request is answered. Only then is the terminal restored.
    pub(crate) async fn wait_until_idle(&self) {
        if let Some(Some(editor)) = self.0.editor.get()
            && editor.is_busy()
        {
            self.print(StyledText::from("the request was cancelled; press Enter"));
            editor.wait_until_idle().await;
        }
    }

    pub(crate) fn print(&self, text: StyledText) {
        self.0.printer.always(text);
    }

    /// Adds handlers for forms, URLs and sampling. For sampling, the user types the response of the model.
    pub(crate) fn with_handlers(&self, builder: ClientBuilder) -> ClientBuilder {
        let (form, url, sampling) = (self.clone(), self.clone(), self.clone());
        builder
            .on_form(move |request, _| {
                let terminal = form.clone();
                async move { Ok(terminal.answer_form(request).await?) }
            })
            .on_url(move |request, _| {
                let terminal = url.clone();
                async move { Ok(terminal.answer_url(request).await) }
            })
            .on_sampling(move |request, _| {
                let terminal = sampling.clone();
                async move { terminal.answer_sampling(&request).await }
            })
    }

    async fn answer_form(&self, form: ElicitForm) -> Result<ElicitResult, EncodeError> {
        let _request = self.0.request.lock().await;
        self.print_request("The server requests input", &form.message, "Ctrl-D declines, Ctrl-C cancels");
        let schema = serde_json::to_value(&form.requested_schema).unwrap_or(Value::Null);
        Ok(match fill_form(self, &schema::properties(&schema)).await {
            FormOutcome::Accepted(values) => ElicitResult::accept(&values)?,
            FormOutcome::Declined => ElicitResult::decline(),
            FormOutcome::Cancelled => ElicitResult::cancel(),
        })
    }

    /// Shows the URL and never opens it: that is up to the user.
    async fn answer_url(&self, page: ElicitUrl) -> ElicitResult {
        let _request = self.0.request.lock().await;
        self.print_request("The server asks you to open a URL", &page.message, "open it in a browser if you trust it");
        self.print(StyledText::new().plain("  ").name(page.url));
        match self.read_answer("  opened (yes or no)? ".to_owned(), AnswerChoices::of(["yes", "no"])).await {
            LineInput::Entered(text) if matches!(text.trim(), "y" | "yes") => ElicitResult::accept_url(),
            LineInput::Entered(_) | LineInput::Eof => ElicitResult::decline(),
            LineInput::Interrupted => ElicitResult::cancel(),
        }
    }

    async fn answer_sampling(&self, request: &CreateMessageParams) -> Result<CreateMessageResult, HandlerError> {
        let _request = self.0.request.lock().await;
        self.print_request(
            "The server requests a model response",
            "",
            "type the response; an empty line rejects the request",
        );
        if let Some(system) = &request.system_prompt {
            self.print(StyledText::new().dim("  system: ").plain(system));
        }
        for message in &request.messages {
            let content = message.content.as_slice().iter().map(|block| match block {
                Content::Text(text) => text.text.clone(),
                other => format!("[{}]", other.kind().unwrap_or_default()),
            });
            let content = content.collect::<Vec<_>>().join("\n  ");
            self.print(StyledText::new().dim(format!("  {}: ", message.role.as_str())).plain(content));
        }
        match self.read_answer("  model response: ".to_owned(), AnswerChoices::any()).await {
            LineInput::Entered(text) if !text.trim().is_empty() => {
                Ok(CreateMessageResult::assistant(text, "person-at-terminal"))
            }
            _ => Err(HandlerError::rejected("the user rejected the request")),
        }
    }

    fn print_request(&self, title: &str, message: &str, help: &str) {
        let text =
            StyledText::new().with(Style::Hint, title).plain(if message.is_empty() { "" } else { ": " }).plain(message);
        self.print(text.dim(format!("\n  ({help})")));
    }
}

/// Opens an editor without command completion. Messages are printed above the line that is being edited.
fn open(printer: &Printer) -> Option<LineEditor> {
    let (editor, print) = LineEditor::open(Box::new(|_, position| (position, Vec::new())), None).ok()?;
    printer.set_external_printer(print);
    Some(editor)
}
