//! Tab completion: commands, names, arguments, and values from schemas or the server.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::runtime::Handle;
use turms::Client;
use turms::types::Reference;

use super::command;
use super::tokens::{self, CursorWords};
use crate::commands::complete;
use crate::schema;

/// Completes lines of the shell.
#[derive(Debug)]
pub(super) struct ShellCompleter {
    client: Client,
    runtime: Handle,
}

impl ShellCompleter {
    /// Creates a completer. It blocks, so it must be used on a thread outside the runtime.
    pub(super) fn new(client: Client, runtime: Handle) -> Self {
        Self { client, runtime }
    }

    /// Returns the start of the word at the cursor and its completions.
    pub(super) fn complete(&self, line: &str, position: usize) -> (usize, Vec<String>) {
        let typed = tokens::at_cursor(line, position);
        let completions = self.runtime.block_on(async {
            // A slow server offers no completions.
            tokio::time::timeout(complete::COMPLETION_TIMEOUT, self.words(&typed)).await.unwrap_or_default()
        });
        let matches = |completion: &String| completion.starts_with(&typed.word);
        let mut completions: Vec<String> = completions.into_iter().filter(matches).collect();
        completions.sort_unstable();
        completions.dedup();
        let mut completions: Vec<String> = completions.iter().map(|word| tokens::quote(word)).collect();
        if let [only] = completions.as_mut_slice()
            && !only.ends_with(['=', '/'])
        {
            // The word is complete: continue with the next one.
            only.push(' ');
        }
        (typed.start, completions)
    }

    async fn words(&self, typed: &CursorWords) -> Vec<String> {
        let before: Vec<&str> = typed.before.iter().map(String::as_str).collect();
        match before.as_slice() {
            [command, ..] if typed.word.starts_with('-') => command::options(command),
            [] | ["help" | "?"] => command::names(&typed.word),
            ["tools" | "list_tools" | "call" | "call_tool"] => self.tools().await,
            ["call" | "call_tool", tool, given @ ..] => self.arguments_of_tool(tool, given, &typed.word).await,
            ["prompt" | "get_prompt"] => self.prompts().await,
            ["prompt" | "get_prompt", prompt, given @ ..] => self.arguments_of_prompt(prompt, given, &typed.word).await,
            ["read" | "read_resource" | "subscribe" | "unsubscribe"] => self.resources(&typed.word).await,
            ["complete"] => self.references().await,
            ["complete", reference] => self.argument_names(reference).await,
            ["complete", reference, argument] => self.values_of(reference, argument, &typed.word).await,
            ["log"] => LEVELS.map(ToOwned::to_owned).into(),
            ["roots"] => vec!["add".to_owned(), "remove".to_owned()],
            _ => Vec::new(),
        }
    }

    async fn tools(&self) -> Vec<String> {
        let tools = self.client.list_tools().await.unwrap_or_default();
        tools.into_iter().map(|tool| tool.name).collect()
    }

    async fn prompts(&self) -> Vec<String> {
        let prompts = self.client.list_prompts().await.unwrap_or_default();
        prompts.into_iter().map(|prompt| prompt.name).collect()
    }

    /// Returns the names of missing arguments, or the values of the argument at the cursor.
    async fn arguments_of_tool(&self, tool: &str, given: &[&str], word: &str) -> Vec<String> {
        let tools = self.client.list_tools().await.unwrap_or_default();
        let Some(tool) = tools.into_iter().find(|listed| listed.name == tool) else { return Vec::new() };
        let schema = tool.input_schema.decode::<Value>().unwrap_or(Value::Null);
        let properties = schema::properties(&schema);
        if let Some((name, _)) = word.split_once('=') {
            let Some(property) = schema::property(&schema, name) else { return Vec::new() };
            let values = if property.kind() == "boolean" { vec!["true", "false"] } else { property.choices() };
            return values.into_iter().map(|value| format!("{name}={value}")).collect();
        }
        unset_names(properties.iter().map(|property| property.name), given)
    }

    async fn arguments_of_prompt(&self, prompt: &str, given: &[&str], word: &str) -> Vec<String> {
        if let Some((name, value)) = word.split_once('=') {
            let arguments = given.iter().filter_map(|word| word.split_once('='));
            let arguments: BTreeMap<String, String> =
                arguments.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let values = self.values(Reference::prompt(prompt), name, value, arguments).await;
            return values.into_iter().map(|value| format!("{name}={value}")).collect();
        }
        let prompts = self.client.list_prompts().await.unwrap_or_default();
        let Some(prompt) = prompts.into_iter().find(|listed| listed.name == prompt) else { return Vec::new() };
        let names: Vec<String> = prompt.arguments.into_iter().flatten().map(|argument| argument.name).collect();
        unset_names(names.iter().map(String::as_str), given)
    }

    /// Returns the resources, and the URIs of templates with values of the last variable from the server.
    async fn resources(&self, word: &str) -> Vec<String> {
        let resources = self.client.list_resources().await.unwrap_or_default();
        let mut uris: Vec<String> = resources.into_iter().map(|resource| resource.uri).collect();
        for template in self.client.list_resource_templates().await.unwrap_or_default() {
            let Some((fixed, variable)) = split_template(&template.uri_template) else { continue };
            match word.strip_prefix(fixed) {
                Some(value) => {
                    let reference = Reference::resource(&*template.uri_template);
                    let values = self.values(reference, variable, value, BTreeMap::new()).await;
                    uris.extend(values.into_iter().map(|value| format!("{fixed}{value}")));
                }
                None => uris.push(fixed.to_owned()),
            }
        }
        uris
    }

    async fn references(&self) -> Vec<String> {
        let templates = self.client.list_resource_templates().await.unwrap_or_default();
        let mut references = self.prompts().await;
        references.extend(templates.into_iter().map(|template| template.uri_template));
        references
    }

    async fn argument_names(&self, reference: &str) -> Vec<String> {
        if let Some((_, variable)) = split_template(reference) {
            return vec![variable.to_owned()];
        }
        let prompts = self.client.list_prompts().await.unwrap_or_default();
        let prompt = prompts.into_iter().find(|prompt| prompt.name == reference);
        prompt.and_then(|prompt| prompt.arguments).into_iter().flatten().map(|argument| argument.name).collect()
    }

    async fn values_of(&self, reference: &str, argument: &str, value: &str) -> Vec<String> {
        self.values(complete::reference(reference), argument, value, BTreeMap::new()).await
    }

    async fn values(
        &self,
        reference: Reference,
        argument: &str,
        value: &str,
        arguments: BTreeMap<String, String>,
    ) -> Vec<String> {
        complete::values(&self.client, reference, argument, value, arguments).await
    }
}

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn unset_names<'a>(names: impl Iterator<Item = &'a str>, given: &[&str]) -> Vec<String> {
    let is_given = |name: &str| {
        given.iter().any(|word| word.split_once('=').is_some_and(|(key, _)| key.trim_end_matches(':') == name))
    };
    names.filter(|name| !is_given(name)).map(|name| format!("{name}=")).collect()
}

/// Splits a template into its fixed part and its only variable, if that is at the end.
fn split_template(template: &str) -> Option<(&str, &str)> {
    let (fixed, variable) = template.strip_suffix('}')?.split_once('{')?;
    (!variable.contains(['{', '}', ','])).then(|| (fixed, variable.trim_start_matches(['+', '#'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_split_at_their_last_variable() {
        assert_eq!(split_template("note://{name}"), Some(("note://", "name")));
        assert_eq!(split_template("a://{+path}"), Some(("a://", "path")));
        assert_eq!(split_template("a://{b}/{c}"), None);
        assert_eq!(split_template("a://b"), None);
    }

    #[test]
    fn given_arguments_are_not_offered() {
        assert_eq!(unset_names(["a", "b", "c"].into_iter(), &["a=1", "b:=2"]), ["c="]);
    }
}
