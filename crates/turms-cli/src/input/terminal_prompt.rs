//! The person at the terminal.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tokio::sync::Mutex;
use turms::Answers;
use turms::client::Refusal;
use turms::types::{Content, CreateMessageParams, CreateMessageResult, ElicitForm, ElicitResult, ElicitUrl, Role};

use super::form::{Filled, ask_for};
use crate::line_editor::{Choices, Editor, Line, Purpose};
use crate::printer::Printer;
use crate::schema;
use crate::text::{Style, Text};

/// Whoever sits at the terminal. Clones are the same person, who answers one question at a time.
#[derive(Clone, Debug)]
pub(crate) struct Person(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    printer: Printer,
    /// Opened with the first question, unless there is one already.
    editor: OnceLock<Option<Editor>>,
    /// Held while a question is asked.
    turn: Mutex<()>,
}

impl Person {
    /// A person whose terminal is opened with the first question.
    pub(crate) fn new(printer: &Printer) -> Self {
        Self(Arc::new(Inner { printer: printer.clone(), editor: OnceLock::new(), turn: Mutex::new(()) }))
    }

    /// A person whose terminal is open.
    pub(crate) fn at(printer: &Printer, editor: Editor) -> Self {
        Self(Arc::new(Inner { printer: printer.clone(), editor: OnceLock::from(Some(editor)), turn: Mutex::new(()) }))
    }

    /// Asks one thing.
    pub(crate) async fn answer(&self, prompt: String, choices: Choices) -> Line {
        self.0.printer.clear_progress();
        match self.0.editor.get_or_init(|| open(&self.0.printer)) {
            Some(editor) => editor.line(prompt, Purpose::Answer(choices)).await,
            None => Line::End,
        }
    }

    /// Waits until a question is dealt with that nobody wants answered any more: the terminal is only as it was found when
    /// its line has ended.
    pub(crate) async fn settled(&self) {
        if let Some(Some(editor)) = self.0.editor.get()
            && editor.is_busy()
        {
            self.tell(Text::from("the server does not wait for this answer any more; press Enter"));
            editor.settled().await;
        }
    }

    pub(crate) fn tell(&self, text: Text) {
        self.0.printer.question(text);
    }

    /// Answers to everything that a server may ask of a person, or of a model, whose part the person plays.
    pub(crate) fn answers(&self) -> Answers {
        let (form, page, model) = (self.clone(), self.clone(), self.clone());
        Answers::new()
            .form(move |question| {
                let person = form.clone();
                async move { person.fill_in(question).await }
            })
            .url(move |question| {
                let person = page.clone();
                async move { person.visit(question).await }
            })
            .sampling(move |question| {
                let person = model.clone();
                async move { person.play_the_model(&question).await }
            })
    }

    async fn fill_in(&self, form: ElicitForm) -> ElicitResult {
        let _turn = self.0.turn.lock().await;
        self.ask("The server asks", &form.message, "Ctrl-D says no, Ctrl-C nothing at all");
        let schema = serde_json::to_value(&form.requested_schema).unwrap_or(Value::Null);
        match ask_for(self, &schema::properties(&schema)).await {
            Filled::In(values) => match turms::proto::Object::encode(&values) {
                Ok(content) => ElicitResult::accept(content),
                Err(_) => ElicitResult::cancel(),
            },
            Filled::Declined => ElicitResult::decline(),
            Filled::Cancelled => ElicitResult::cancel(),
        }
    }

    /// The page is never opened from here: the person sees where it leads, and opens it or does not.
    async fn visit(&self, page: ElicitUrl) -> ElicitResult {
        let _turn = self.0.turn.lock().await;
        self.ask("The server asks you to visit a page", &page.message, "open it yourself, if you trust it");
        self.tell(Text::new().plain("  ").name(page.url));
        match self.answer("  have you (yes or no)? ".to_owned(), Choices::of(["yes", "no"])).await {
            Line::Typed(text) if matches!(text.trim(), "y" | "yes") => ElicitResult::accept_url(),
            Line::Typed(_) | Line::End => ElicitResult::decline(),
            Line::Interrupted => ElicitResult::cancel(),
        }
    }

    async fn play_the_model(&self, question: &CreateMessageParams) -> Result<CreateMessageResult, Refusal> {
        let _turn = self.0.turn.lock().await;
        self.ask("The server asks the model", "", "your answer is what the model says; an empty one refuses");
        if let Some(system) = &question.system_prompt {
            self.tell(Text::new().faint("  system: ").plain(system));
        }
        for message in &question.messages {
            let said = message.content.as_slice().iter().map(|block| match block {
                Content::Text(text) => text.text.clone(),
                other => format!("[{}]", other.kind().unwrap_or_default()),
            });
            let said = said.collect::<Vec<_>>().join("\n  ");
            self.tell(Text::new().faint(format!("  {}: ", message.role.as_str())).plain(said));
        }
        match self.answer("  the model says: ".to_owned(), Choices::any()).await {
            Line::Typed(text) if !text.trim().is_empty() => {
                Ok(CreateMessageResult::new(Role::Assistant, text, "person-at-terminal"))
            }
            _ => Err(Refusal::rejected("the person at the terminal did not answer for the model")),
        }
    }

    fn ask(&self, who: &str, message: &str, how: &str) {
        let text = Text::new().with(Style::Hint, who).plain(if message.is_empty() { "" } else { ": " }).plain(message);
        self.tell(text.faint(format!("\n  ({how})")));
    }
}

/// Without commands to offer. What is told while an answer is typed does not break it.
fn open(printer: &Printer) -> Option<Editor> {
    let (editor, print) = Editor::open(Box::new(|_, position| (position, Vec::new())), None).ok()?;
    printer.print_beside(print);
    Some(editor)
}
