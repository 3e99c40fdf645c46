//! Content of results: text is shown, binary content is described or saved.

use std::fs;
use std::path::{Path, PathBuf};

use turms::types::{CallToolResult, Content, PromptMessage, RawJson, ResourceContents};

use super::{pretty, size};
use crate::error::{CliError, CliResult, ExitStatus};
use crate::printer::Printer;
use crate::text::StyledText;

/// Saves binary content to the path of `--output`.
#[derive(Debug)]
pub(crate) struct ContentSaver {
    path: Option<PathBuf>,
    saved: usize,
    printer: Printer,
}

impl ContentSaver {
    pub(crate) fn new(path: Option<&Path>, printer: &Printer) -> CliResult<Self> {
        let saver = Self { path: path.map(Path::to_owned), saved: 0, printer: printer.clone() };
        if saver.is_stdout() && printer.is_json() {
            return Err(CliError::usage("--json and --output - both write to standard output"));
        }
        Ok(saver)
    }

    /// Returns `true` if content is saved to standard output. Nothing else is written there then.
    fn is_stdout(&self) -> bool {
        self.path.as_deref() == Some(Path::new("-"))
    }

    /// Prints text for people.
    pub(crate) fn print(&self, text: StyledText) -> CliResult {
        if !self.is_stdout() {
            return self.printer.line(text);
        }
        self.printer.note(text);
        Ok(())
    }

    /// Saves bytes and returns the path; `None` without `--output`.
    pub(crate) fn save(&mut self, bytes: &[u8], mime_type: Option<&str>) -> CliResult<Option<PathBuf>> {
        let Some(path) = &self.path else { return Ok(None) };
        self.saved += 1;
        if self.is_stdout() {
            self.printer.write(bytes)?;
            return Ok(Some("standard output".into()));
        }
        let path = output_path(path, self.saved, mime_type);
        fs::write(&path, bytes)
            .map_err(|error| CliError::new(ExitStatus::Failure, format!("cannot write {}: {error}", path.display())))?;
        Ok(Some(path))
    }

    /// Warns if `--output` is given and there was no binary content.
    pub(crate) fn warn_if_unused(&self) {
        if self.is_wanted() && self.saved == 0 {
            self.printer.warn("--output: the result has no binary content");
        }
    }

    fn is_wanted(&self) -> bool {
        self.path.is_some()
    }
}

/// Returns the path for a piece of content: the given file, with a number after the first, or a file in the given directory.
fn output_path(path: &Path, number: usize, mime_type: Option<&str>) -> PathBuf {
    if path.is_dir() {
        return path.join(format!("content-{number}.{}", extension(mime_type)));
    }
    if number == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{number}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{number}"),
    };
    path.with_file_name(name)
}

fn extension(mime_type: Option<&str>) -> String {
    let kind = mime_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match kind {
        "image/jpeg" => "jpg".to_owned(),
        "image/svg+xml" => "svg".to_owned(),
        "audio/mpeg" => "mp3".to_owned(),
        "text/plain" => "txt".to_owned(),
        "text/markdown" => "md".to_owned(),
        _ => match kind.rsplit('/').next() {
            // The extension is part of a path, so only letters and digits are allowed.
            Some(last) if !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_alphanumeric()) => last.to_owned(),
            _ => "bin".to_owned(),
        },
    }
}

/// Formats a tool result: its content and its structured content, without repetition.
pub(crate) fn tool_result(result: &CallToolResult, saver: &mut ContentSaver) -> CliResult<Vec<StyledText>> {
    let mut shown = Vec::new();
    let repeated = result.structured_content.as_ref().filter(|data| repeats_data(result, data));
    if repeated.is_none() {
        for block in &result.content {
            shown.push(content(block, saver)?);
        }
    }
    if let Some(data) = &result.structured_content {
        shown.push(StyledText::from(pretty(data)));
    }
    Ok(shown)
}

/// Returns `true` if the text content repeats the structured content, as it does for older clients.
fn repeats_data(result: &CallToolResult, data: &RawJson) -> bool {
    let [Content::Text(text)] = result.content.as_slice() else { return false };
    let parse = |json: &str| serde_json::from_str::<serde_json::Value>(json).ok();
    parse(&text.text).is_some_and(|value| Some(value) == parse(data.as_str()))
}

/// Formats a message of a prompt.
pub(crate) fn message(message: &PromptMessage, saver: &mut ContentSaver) -> CliResult<StyledText> {
    let shown = content(&message.content, saver)?.render(false);
    Ok(StyledText::new().name(format!("{}: ", message.role.as_str())).plain(shown))
}

/// Formats the contents of a resource.
pub(crate) fn contents(contents: &ResourceContents, saver: &mut ContentSaver) -> CliResult<StyledText> {
    let kind = contents.mime_type.as_deref();
    if let (Some(text), false) = (&contents.text, saver.is_wanted()) {
        return Ok(StyledText::from(text.as_str()));
    }
    binary("content", kind, contents.bytes().ok(), saver)
}

fn content(block: &Content, saver: &mut ContentSaver) -> CliResult<StyledText> {
    Ok(match block {
        Content::Text(text) => StyledText::from(text.text.as_str()),
        Content::Image(image) => binary("image", Some(&image.mime_type), image.bytes().ok(), saver)?,
        Content::Audio(audio) => binary("audio", Some(&audio.mime_type), audio.bytes().ok(), saver)?,
        Content::Resource(embedded) => {
            let heading = StyledText::new().dim(format!("[resource {}]", embedded.resource.uri));
            match &embedded.resource.text {
                Some(text) => heading.plain("\n").plain(text),
                None => {
                    let kind = embedded.resource.mime_type.as_deref();
                    let shown = binary("content", kind, embedded.resource.bytes().ok(), saver)?.render(false);
                    heading.plain(" ").plain(shown)
                }
            }
        }
        Content::ResourceLink(link) => {
            let description = link.description.as_deref().unwrap_or(&link.name);
            StyledText::new().dim("[link] ").name(&link.uri).plain(format!("  {description}"))
        }
        other => match RawJson::encode(other) {
            Ok(json) => StyledText::from(pretty(&json)),
            Err(_) => StyledText::from("[unsupported content]"),
        },
    })
}

fn binary(
    what: &str,
    mime_type: Option<&str>,
    bytes: Option<Vec<u8>>,
    saver: &mut ContentSaver,
) -> CliResult<StyledText> {
    let kind = mime_type.unwrap_or("unknown type");
    let Some(bytes) = bytes else { return Ok(StyledText::from(format!("[{what} {kind}, not valid base64]"))) };
    let shown = format!("{what} {kind}, {}", size(bytes.len()));
    Ok(StyledText::from(match saver.save(&bytes, mime_type)? {
        Some(path) => format!("[{shown}, saved to {}]", path.display()),
        None => format!("[{shown}]"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printer::{ColourChoice, Verbosity};

    fn shown(result: &CallToolResult) -> Vec<String> {
        let printer = Printer::new(false, Verbosity::Quiet, ColourChoice::Never);
        let texts = tool_result(result, &mut ContentSaver::new(None, &printer).unwrap()).unwrap();
        texts.iter().map(|text| text.render(false)).collect()
    }

    #[test]
    fn structured_content_is_not_repeated() {
        let result = CallToolResult::from_structured(&[1]).unwrap();
        assert_eq!(shown(&result), ["[\n  1\n]"]);
        let result = CallToolResult::from_text("one").with_structured(&1).unwrap();
        assert_eq!(shown(&result), ["one", "1"]);
    }

    #[test]
    fn images_are_described() {
        let result = CallToolResult::new().with_image([1, 2], "image/png").with_text("\u{1b}c");
        assert_eq!(shown(&result), ["[image image/png, 2 bytes]", "\\u{1b}c"]);
    }

    #[test]
    fn a_mime_type_does_not_change_the_path() {
        assert_eq!(extension(Some("image/png; q=1")), "png");
        assert_eq!(extension(Some("image/../../etc")), "etc");
        assert_eq!(extension(Some("a/b.c")), "bin");
        assert_eq!(extension(None), "bin");
        assert_eq!(output_path(Path::new("a.png"), 1, None), Path::new("a.png"));
        assert_eq!(output_path(Path::new("x/a.png"), 2, None), Path::new("x/a-2.png"));
    }
}
