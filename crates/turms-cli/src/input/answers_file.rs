//! Answers out of a file, for where there is nobody to ask.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use turms::Answers;
use turms::client::Refusal;
use turms::types::{CreateMessageResult, ElicitResult, Role};

use crate::error::{Done, Exit, Failure};

/// What a file of answers holds. Each member is one answer for every question of its kind, or a list of answers that are
/// given one after another, the last again and again.
#[derive(Debug)]
pub(super) struct Script {
    form: Option<Deck<ElicitResult>>,
    url: Option<Deck<ElicitResult>>,
    sampling: Option<Deck<CreateMessageResult>>,
}

/// How the file is written, for those who got it wrong.
const SHAPE: &str = r#"a file of answers is written {"form": {"name": "Ann"}, "url": "accept", "sampling": "Paris"}; each may be a list"#;

impl Script {
    pub(super) fn read(path: &Path) -> Done<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::new(Exit::Failure, format!("--answers: cannot read {shown}: {error}")))?;
        Self::parse(&text).map_err(|problem| Failure::usage(format!("--answers: {shown}: {problem}")).hint(SHAPE))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let Value::Object(mut members) = value else { return Err("expected an object".to_owned()) };
        let mut take = |name: &str| members.shift_remove(name);
        let script = Self {
            form: deck("form", take("form"), form)?,
            url: deck("url", take("url"), page)?,
            sampling: deck("sampling", take("sampling"), message)?,
        };
        match members.keys().next() {
            Some(unknown) => Err(format!("{unknown:?} is not something that servers ask for")),
            None => Ok(script),
        }
    }

    pub(super) fn answers(self) -> Answers {
        let mut answers = Answers::new();
        if let Some(deck) = self.form {
            answers = answers.form(move |_| std::future::ready(deck.next()));
        }
        if let Some(deck) = self.url {
            answers = answers.url(move |_| std::future::ready(deck.next()));
        }
        if let Some(deck) = self.sampling {
            answers = answers.sampling(move |_| std::future::ready(Ok::<_, Refusal>(deck.next())));
        }
        answers
    }
}

/// Answers that are given one after another.
#[derive(Debug, Clone)]
struct Deck<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Deck<T> {
    fn next(&self) -> T {
        let mut answers = self.0.lock();
        // Never empty: `deck` makes none that is, and the last answer stays.
        if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() }
    }
}

fn deck<T>(
    name: &str,
    value: Option<Value>,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Option<Deck<T>>, String> {
    let answers = match value {
        None => return Ok(None),
        Some(Value::Array(answers)) if answers.is_empty() => return Err(format!("{name}: the list is empty")),
        Some(Value::Array(answers)) => answers,
        Some(answer) => vec![answer],
    };
    let read = |(index, answer): (usize, &Value)| read(answer).map_err(|problem| format!("{name}[{index}]: {problem}"));
    let answers = answers.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Deck(Arc::new(Mutex::new(answers)))))
}

/// What was done with a form: `"decline"`, `"cancel"`, or its fields.
fn form(value: &Value) -> Result<ElicitResult, String> {
    match value {
        Value::String(_) => action(value),
        Value::Object(_) => {
            let content = turms::proto::Object::encode(value).map_err(|error| error.to_string())?;
            Ok(ElicitResult::accept(content))
        }
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

/// What the model says: text, or a whole result.
fn message(value: &Value) -> Result<CreateMessageResult, String> {
    match value {
        Value::String(text) => Ok(CreateMessageResult::new(Role::Assistant, text.as_str(), "answers-file")),
        value => {
            let json = turms::proto::RawJson::encode(value).map_err(|error| error.to_string())?;
            json.decode().map_err(|error| error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_one_after_another_and_the_last_stays() {
        let script = Script::parse(r#"{"form":[{"a":1},"decline"],"url":"accept","sampling":["one"]}"#).unwrap();
        let forms = script.form.unwrap();
        assert_eq!(forms.next().content.unwrap().as_str(), r#"{"a":1}"#);
        assert_eq!(forms.next(), ElicitResult::decline());
        assert_eq!(forms.next(), ElicitResult::decline());
        assert_eq!(script.url.unwrap().next(), ElicitResult::accept_url());
        assert_eq!(script.sampling.unwrap().next().model, "answers-file");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |text| Script::parse(text).unwrap_err();
        assert_eq!(problem("[]"), "expected an object");
        assert_eq!(problem(r#"{"forms":{}}"#), "\"forms\" is not something that servers ask for");
        assert_eq!(problem(r#"{"form":[]}"#), "form: the list is empty");
        assert_eq!(problem(r#"{"url":"yes"}"#), "url[0]: expected \"accept\", \"decline\" or \"cancel\"");
        assert!(problem(r#"{"sampling":{}}"#).starts_with("sampling[0]: missing field"));
    }
}
