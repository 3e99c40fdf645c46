//! Arguments of tools and prompts on the command line: `key=value` and `key:=json`, where a value `@file` reads the file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{CliError, CliResult, ExitStatus};
use crate::schema;
use crate::show;
use crate::suggest;

/// Maximum size of a file that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Parses arguments of a tool. `key=value` is converted by the schema; `key:=json` is taken as it is.
pub(crate) fn parse_for_tool(words: &[String], tool: &str, schema: &Value) -> CliResult<Map<String, Value>> {
    let mut arguments = Map::new();
    for word in words {
        let (key, value) = match split(word)? {
            ArgumentWord::Text(key, text) => {
                let value = match schema::property(schema, key) {
                    Some(property) => {
                        property.parse_value(&text).map_err(|problem| argument_error(tool, key, &problem))?
                    }
                    None => {
                        check_name(tool, key, schema)?;
                        serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text))
                    }
                };
                (key, value)
            }
            ArgumentWord::Json(key, json) => {
                let value = serde_json::from_str(&json).map_err(|error| {
                    let json = show::truncate(&json, 80);
                    argument_error(tool, key, &format!("{json:?} is not JSON: {error}"))
                        .hint(format!("write text as {key}={json}"))
                })?;
                (key, value)
            }
        };
        if arguments.insert(key.to_owned(), value).is_some() {
            return Err(CliError::usage(format!("argument {key:?} is given twice")));
        }
    }
    Ok(arguments)
}

/// Parses arguments of a prompt, which are all strings.
pub(crate) fn parse_text(words: &[String]) -> CliResult<BTreeMap<String, String>> {
    let mut arguments = BTreeMap::new();
    for word in words {
        let (ArgumentWord::Text(key, value) | ArgumentWord::Json(key, value)) = split(word)?;
        if arguments.insert(key.to_owned(), value.into_owned()).is_some() {
            return Err(CliError::usage(format!("argument {key:?} is given twice")));
        }
    }
    Ok(arguments)
}

/// Reads a text of limited size. A longer one is an error: half of a text is not what was asked for.
fn read_text(input: impl Read) -> std::io::Result<String> {
    let mut text = String::new();
    input.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!("longer than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    Ok(text)
}

/// Reads all arguments from a file or standard input.
pub(crate) fn read_object(path: &Path) -> CliResult<Map<String, Value>> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let cannot = |error: &dyn std::fmt::Display| {
        CliError::new(ExitStatus::Failure, format!("--args-json: cannot read {name}: {error}"))
    };
    let read = if is_stdin { read_text(std::io::stdin().lock()) } else { File::open(path).and_then(read_text) };
    let text = read.map_err(|error| cannot(&error))?;
    parse_object(&text).map_err(|problem| CliError::usage(format!("--args-json: {name}: {problem}")))
}

/// Parses all arguments from one JSON object.
pub(crate) fn parse_object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Ok(arguments),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(format!("not JSON: {error}")),
    }
}

/// Returns the JSON of parameters: given as text, as `@FILE`, or as `-` for standard input.
pub(crate) fn read_params(typed: &str) -> CliResult<Cow<'_, str>> {
    let (name, read) = match typed.strip_prefix('@') {
        Some(file) => (format!("{file:?}"), File::open(file).and_then(read_text)),
        None if typed == "-" => ("standard input".to_owned(), read_text(std::io::stdin().lock())),
        None => return Ok(typed.into()),
    };
    read.map(Cow::from).map_err(|error| CliError::new(ExitStatus::Failure, format!("cannot read {name}: {error}")))
}

enum ArgumentWord<'a> {
    Text(&'a str, Cow<'a, str>),
    Json(&'a str, Cow<'a, str>),
}

fn split(word: &str) -> CliResult<ArgumentWord<'_>> {
    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !matches!(*key, "" | ":")) else {
        return Err(CliError::usage(format!("{word:?} is not an argument"))
            .hint("write arguments as KEY=VALUE, or as KEY:=JSON for values that are not text"));
    };
    Ok(match key.strip_suffix(':') {
        Some(key) => ArgumentWord::Json(key, resolve_file(key, value)?),
        None => ArgumentWord::Text(key, resolve_file(key, value)?),
    })
}

/// Returns the value, or the content of the file if the value is `@FILE`.
fn resolve_file<'a>(key: &str, value: &'a str) -> CliResult<Cow<'a, str>> {
    let Some(file) = value.strip_prefix('@') else { return Ok(value.into()) };
    File::open(file).and_then(read_text).map(Cow::from).map_err(|error| {
        CliError::new(ExitStatus::Failure, format!("argument {key:?}: cannot read {file:?}: {error}"))
            .hint(format!("write text that begins with @ as JSON: '{key}:=\"@{file}\"'"))
    })
}

fn argument_error(tool: &str, key: &str, problem: &str) -> CliError {
    CliError::usage(format!("tool {tool:?}, argument {key:?}: {problem}"))
}

/// Rejects an argument that the schema does not have, unless the schema has no properties or allows additional ones.
fn check_name(tool: &str, key: &str, schema: &Value) -> CliResult {
    let properties = schema::properties(schema);
    let takes_others = schema.get("additionalProperties").is_some_and(|others| *others != Value::Bool(false));
    if properties.is_empty() || takes_others {
        return Ok(());
    }
    let names = properties.iter().map(|property| property.name).collect::<Vec<_>>().join(", ");
    let failure = CliError::usage(format!("tool {tool:?} has no argument {key:?}"));
    match suggest::closest(key, properties.iter().map(|property| property.name)) {
        Some(name) => Err(failure.hint(format!("did you mean {name:?}? expected one of {names}"))),
        None => Err(failure.hint(format!("expected one of {names}; {key}:=JSON sends it anyway"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(words: &[&str]) -> CliResult<Value> {
        let schema =
            json!({ "type": "object", "properties": { "a": { "type": "number" }, "text": { "type": "string" } } });
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        parse_for_tool(&words, "add", &schema).map(Value::from)
    }

    #[test]
    fn values_are_converted_by_the_schema_and_json_is_taken_as_it_is() {
        assert_eq!(given(&["a=1", "text=1"]).unwrap(), json!({ "a": 1, "text": "1" }));
        assert_eq!(given(&["a:=\"x\"", "text=b=c:=d"]).unwrap(), json!({ "a": "x", "text": "b=c:=d" }));
        assert_eq!(given(&["further:=[1]"]).unwrap(), json!({ "further": [1] }));
    }

    #[test]
    fn a_schema_with_additional_properties_takes_any_argument() {
        for schema in [json!({}), json!({ "properties": { "a": {} }, "additionalProperties": { "type": "number" } })] {
            assert_eq!(parse_for_tool(&["b=1".to_owned()], "add", &schema).unwrap()["b"], json!(1));
        }
    }

    #[test]
    fn errors_name_the_argument() {
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
