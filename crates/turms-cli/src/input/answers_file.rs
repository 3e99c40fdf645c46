//! The answers file (`--answers`), for input requests without a terminal.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use turms::ClientBuilder;
use turms::types::{CreateMessageResult, ElicitResult};

use crate::error::{CliError, CliResult, ExitStatus};

/// Content of an answers file. Each member is one answer for all requests of its kind, or a list of answers that are used in
/// order; the last one is repeated.
#[derive(Debug)]
pub(super) struct AnswersFile {
    form: Option<AnswerQueue<ElicitResult>>,
    url: Option<AnswerQueue<ElicitResult>>,
    sampling: Option<AnswerQueue<CreateMessageResult>>,
}

/// Hint that shows the format of the file.
const FORMAT_HINT: &str =
    r#"the format is {"form": {"name": "Ann"}, "url": "accept", "sampling": "Paris"}; each may be a list"#;

impl AnswersFile {
    pub(super) fn read(path: &Path) -> CliResult<Self> {
        let name = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| CliError::new(ExitStatus::Failure, format!("--answers: cannot read {name}: {error}")))?;
        Self::parse(&text).map_err(|problem| CliError::usage(format!("--answers: {name}: {problem}")).hint(FORMAT_HINT))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let Value::Object(mut members) = value else { return Err("expected a JSON object".to_owned()) };
        let mut take = |name: &str| members.shift_remove(name);
        let script = Self {
            form: queue("form", take("form"), form)?,
            url: queue("url", take("url"), page)?,
            sampling: queue("sampling", take("sampling"), message)?,
        };
        match members.keys().next() {
            Some(unknown) => Err(format!("unknown member {unknown:?}; expected form, url or sampling")),
            None => Ok(script),
        }
    }

    /// Adds handlers that send the answers.
    pub(super) fn with_handlers(self, mut builder: ClientBuilder) -> ClientBuilder {
        if let Some(queue) = self.form {
            builder = builder.on_form(move |_, _| std::future::ready(Ok(queue.next())));
        }
        if let Some(queue) = self.url {
            builder = builder.on_url(move |_, _| std::future::ready(Ok(queue.next())));
        }
        if let Some(queue) = self.sampling {
            builder = builder.on_sampling(move |_, _| std::future::ready(Ok(queue.next())));
        }
        builder
    }
}

/// Answers that are used in order; the last one is repeated.
#[derive(Debug, Clone)]
struct AnswerQueue<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> AnswerQueue<T> {
    fn next(&self) -> T {
        let mut answers = self.0.lock();
        // Never empty: `queue` rejects empty lists, and the last answer stays.
        if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
    }
}

fn queue<T>(
    name: &str,
    value: Option<Value>,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Option<AnswerQueue<T>>, String> {
    let answers = match value {
        None => return Ok(None),
        Some(Value::Array(answers)) if answers.is_empty() => return Err(format!("{name}: the list is empty")),
        Some(Value::Array(answers)) => answers,
        Some(answer) => vec![answer],
    };
    let read = |(index, answer): (usize, &Value)| read(answer).map_err(|problem| format!("{name}[{index}]: {problem}"));
    let answers = answers.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(AnswerQueue(Arc::new(Mutex::new(answers)))))
}

/// Parses the answer to a form: its fields, `"decline"` or `"cancel"`.
fn form(value: &Value) -> Result<ElicitResult, String> {
    match value {
        Value::String(_) => action(value),
        Value::Object(_) => ElicitResult::accept(value).map_err(|error| error.to_string()),
        _ => Err("expected the fields of the form, \"decline\" or \"cancel\"".to_owned()),
    }
}

fn page(value: &Value) -> Result<ElicitResult, String> {
    match value.as_str() {
        Some("accept") => Ok(ElicitResult::accept_url()),
        _ => action(value),
    }
}

fn action(value: &Value) -> Result<ElicitResult, String> {
    match value.as_str() {
        Some("decline") => Ok(ElicitResult::decline()),
        Some("cancel") => Ok(ElicitResult::cancel()),
        _ => Err("expected \"accept\", \"decline\" or \"cancel\"".to_owned()),
    }
}

/// Parses the response of the model: text, or a whole result.
fn message(value: &Value) -> Result<CreateMessageResult, String> {
    match value {
        Value::String(text) => Ok(CreateMessageResult::assistant(text.as_str(), "answers-file")),
        value => {
            let json = turms::types::RawJson::encode(value).map_err(|error| error.to_string())?;
            json.decode().map_err(|error| error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_used_in_order_and_the_last_is_repeated() {
        let script = AnswersFile::parse(r#"{"form":[{"a":1},"decline"],"url":"accept","sampling":["one"]}"#).unwrap();
        let forms = script.form.unwrap();
        assert_eq!(forms.next().content.unwrap().as_str(), r#"{"a":1}"#);
        assert_eq!(forms.next(), ElicitResult::decline());
        assert_eq!(forms.next(), ElicitResult::decline());
        assert_eq!(script.url.unwrap().next(), ElicitResult::accept_url());
        assert_eq!(script.sampling.unwrap().next().model, "answers-file");
    }

    #[test]
    fn errors_name_the_member() {
        let problem = |text| AnswersFile::parse(text).unwrap_err();
        assert_eq!(problem("[]"), "expected a JSON object");
        assert_eq!(problem(r#"{"forms":{}}"#), "unknown member \"forms\"; expected form, url or sampling");
        assert_eq!(problem(r#"{"form":[]}"#), "form: the list is empty");
        assert_eq!(problem(r#"{"url":"yes"}"#), "url[0]: expected \"accept\", \"decline\" or \"cancel\"");
        assert!(problem(r#"{"sampling":{}}"#).starts_with("sampling[0]: missing field"));
    }
}
