//! Arguments as they are typed: `key=value` and `key:=json`, where `@file` stands for what a file holds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Done, Exit, Failure};
use crate::schema;
use crate::show;
use crate::suggest;

/// The largest file that is read.
const MOST: u64 = 64 << 20;

/// Arguments of a tool. Its schema says what `key=value` means; `key:=json` is what it is.
pub(crate) fn of_tool(words: &[String], tool: &str, schema: &Value) -> Done<Map<String, Value>> {
    let mut arguments = Map::new();
    for word in words {
        let (key, value) = match split(word)? {
            Word::Text(key, text) => {
                let value = match schema::property(schema, key) {
                    Some(property) => property.value_of(&text).map_err(|problem| wrong(tool, key, &problem))?,
                    None => {
                        known(tool, key, schema)?;
                        serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text))
                    }
                };
                (key, value)
            }
            Word::Json(key, json) => {
                let value = serde_json::from_str(&json).map_err(|error| {
                    let json = show::beginning(&json, 80);
                    wrong(tool, key, &format!("{json:?} is not JSON: {error}"))
                        .hint(format!("text is written {key}={json}"))
                })?;
                (key, value)
            }
        };
        if arguments.insert(key.to_owned(), value).is_some() {
            return Err(Failure::usage(format!("argument {key:?} is given twice")));
        }
    }
    Ok(arguments)
}

/// Arguments of a prompt, which are all text.
pub(crate) fn of_text(words: &[String]) -> Done<BTreeMap<String, String>> {
    let mut arguments = BTreeMap::new();
    for word in words {
        let (Word::Text(key, value) | Word::Json(key, value)) = split(word)?;
        if arguments.insert(key.to_owned(), value.into_owned()).is_some() {
            return Err(Failure::usage(format!("argument {key:?} is given twice")));
        }
    }
    Ok(arguments)
}

/// All arguments, out of a file or standard input.
pub(crate) fn of_file(path: &Path) -> Done<Map<String, Value>> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let cannot = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::Failure, format!("--args-json: cannot read {name}: {error}"))
    };
    let mut text = String::new();
    let read = if is_stdin {
        std::io::stdin().lock().take(MOST).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).map_err(|error| cannot(&error))?.take(MOST).read_to_string(&mut text)
    };
    read.map_err(|error| cannot(&error))?;
    of_json(&text).map_err(|problem| Failure::usage(format!("--args-json: {name}: {problem}")))
}

/// All arguments as one JSON object.
pub(crate) fn of_json(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

/// One JSON object as it is typed: itself, `@FILE`, or `-` for standard input.
pub(crate) fn of_params(typed: &str) -> Done<Cow<'_, str>> {
    let (name, read) = match typed.strip_prefix('@') {
        Some(file) => (format!("{file:?}"), std::fs::read_to_string(file)),
        None if typed == "-" => {
            ("standard input".to_owned(), std::io::read_to_string(std::io::stdin().lock().take(MOST)))
        }
        None => return Ok(typed.into()),
    };
    read.map(Cow::from).map_err(|error| Failure::new(Exit::Failure, format!("cannot read {name}: {error}")))
}

enum Word<'a> {
    Text(&'a str, Cow<'a, str>),
    Json(&'a str, Cow<'a, str>),
}

fn split(word: &str) -> Done<Word<'_>> {
    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":")) else {
        return Err(Failure::usage(format!("{word:?} is not an argument"))
            .hint("arguments are written KEY=VALUE, or KEY:=JSON for what is not text"));
    };
    Ok(match key.strip_suffix(':') {
        Some(key) => Word::Json(key, content(key, value)?),
        None => Word::Text(key, content(key, value)?),
    })
}

/// A value, or what the file holds that it names with `@`.
fn content<'a>(key: &str, value: &'a str) -> Done<Cow<'a, str>> {
    let Some(file) = value.strip_prefix('@') else { return Ok(value.into()) };
    let text = std::fs::File::open(file).and_then(|file| {
        let mut text = String::new();
        file.take(MOST).read_to_string(&mut text).map(|_| text)
    });
    text.map(Cow::from).map_err(|error| {
        Failure::new(Exit::Failure, format!("argument {key:?}: cannot read {file:?}: {error}"))
            .hint(format!("text that begins with @ is written as JSON: '{key}:=\"@{file}\"'"))
    })
}

fn wrong(tool: &str, key: &str, problem: &str) -> Failure {
    Failure::usage(format!("tool {tool:?}, argument {key:?}: {problem}"))
}

/// An argument that the schema does not have is a slip, unless the schema has none, or says that it takes others.
fn known(tool: &str, key: &str, schema: &Value) -> Done {
    let properties = schema::properties(schema);
    let takes_others = schema.get("additionalProperties").is_some_and(|others| *others != Value::Bool(false));
    if properties.is_empty() || takes_others {
        return Ok(());
    }
    let names = properties.iter().map(|property| property.name).collect::<Vec<_>>().join(", ");
    let failure = Failure::usage(format!("tool {tool:?} has no argument {key:?}"));
    match suggest::nearest(key, properties.iter().map(|property| property.name)) {
        Some(near) => Err(failure.hint(format!("did you mean {near:?}? It takes {names}"))),
        None => Err(failure.hint(format!("it takes {names}; {key}:=JSON sends it all the same"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(words: &[&str]) -> Done<Value> {
        let schema =
            json!({ "type": "object", "properties": { "a": { "type": "number" }, "text": { "type": "string" } } });
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        of_tool(&words, "add", &schema).map(Value::from)
    }

    #[test]
    fn values_are_what_the_schema_says_and_json_is_json() {
        assert_eq!(given(&["a=1", "text=1"]).unwrap(), json!({ "a": 1, "text": "1" }));
        assert_eq!(given(&["a:=\"x\"", "text=b=c:=d"]).unwrap(), json!({ "a": "x", "text": "b=c:=d" }));
        assert_eq!(given(&["further:=[1]"]).unwrap(), json!({ "further": [1] }));
    }

    #[test]
    fn a_schema_that_takes_others_takes_any() {
        for schema in [json!({}), json!({ "properties": { "a": {} }, "additionalProperties": { "type": "number" } })] {
            assert_eq!(of_tool(&["b=1".to_owned()], "add", &schema).unwrap()["b"], json!(1));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |words: &[&str]| given(words).unwrap_err().to_string();
        assert_eq!(message(&["a=x"]), "tool \"add\", argument \"a\": expected a number, found \"x\"");
        assert_eq!(message(&["a"]), "\"a\" is not an argument");
        assert_eq!(message(&["=1"]), "\"=1\" is not an argument");
        assert_eq!(message(&["a=1", "a=2"]), "argument \"a\" is given twice");
        assert_eq!(message(&["further=1"]), "tool \"add\" has no argument \"further\"");
        assert_eq!(message(&["txt=1"]), "tool \"add\" has no argument \"txt\"");
        assert!(message(&["a:=x"]).starts_with("tool \"add\", argument \"a\": \"x\" is not JSON: "));
    }
}
