//! Content: text as it is, everything else as what it is and how large, unless it is saved.

use std::fs;
use std::path::{Path, PathBuf};

use turms::proto::RawJson;
use turms::types::{Content, PromptMessage, ResourceContents, ToolResult};

use super::{pretty, size};
use crate::error::{Done, Exit, Failure};
use crate::printer::Printer;
use crate::text::Text;

/// Where binary content is saved, if it is.
#[derive(Debug)]
pub(crate) struct Saver {
    path: Option<PathBuf>,
    saved: usize,
    printer: Printer,
}

impl Saver {
    pub(crate) fn new(path: Option<&Path>, printer: &Printer) -> Done<Self> {
        let saver = Self { path: path.map(Path::to_owned), saved: 0, printer: printer.clone() };
        if saver.is_stdout() && printer.is_json() {
            return Err(Failure::usage("--json and --output - would both write to standard output"));
        }
        Ok(saver)
    }

    /// Whether it is saved to standard output, where nothing else may go then.
    fn is_stdout(&self) -> bool {
        self.path.as_deref() == Some(Path::new("-"))
    }

    /// Prints what is not saved.
    pub(crate) fn print(&self, text: Text) -> Done {
        if !self.is_stdout() {
            return self.printer.line(text);
        }
        self.printer.note(text);
        Ok(())
    }

    /// Saves bytes, and says where; `None` if nothing is to be saved.
    pub(crate) fn save(&mut self, bytes: &[u8], mime_type: Option<&str>) -> Done<Option<PathBuf>> {
        let Some(path) = &self.path else { return Ok(None) };
        self.saved += 1;
        if self.is_stdout() {
            self.printer.write(bytes)?;
            return Ok(Some("standard output".into()));
        }
        let path = place(path, self.saved, mime_type);
        fs::write(&path, bytes)
            .map_err(|error| Failure::new(Exit::Failure, format!("cannot write {}: {error}", path.display())))?;
        Ok(Some(path))
    }

    /// Warns whoever wanted something saved where there was nothing.
    pub(crate) fn warn_of_nothing(&self) {
        if self.is_wanted() && self.saved == 0 {
            self.printer.warn("--output: there was nothing binary to save");
        }
    }

    fn is_wanted(&self) -> bool {
        self.path.is_some()
    }
}

/// The file that was named, or one in the folder that was named; further ones are numbered.
fn place(path: &Path, number: usize, mime_type: Option<&str>) -> PathBuf {
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
            // It becomes part of a path, so nothing but letters and digits may come through.
            Some(last) if !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_alphanumeric()) => last.to_owned(),
            _ => "bin".to_owned(),
        },
    }
}

/// What a tool gave: its content, and its data unless the content says the same.
pub(crate) fn tool_result(result: &ToolResult, saver: &mut Saver) -> Done<Vec<Text>> {
    let mut shown = Vec::new();
    let repeated = result.structured_content.as_ref().filter(|data| says_the_same(result, data));
    if repeated.is_none() {
        for block in &result.content {
            shown.push(content(block, saver)?);
        }
    }
    if let Some(data) = &result.structured_content {
        shown.push(Text::from(pretty(data)));
    }
    Ok(shown)
}

/// Tools repeat their data as text, for clients that know only text.
fn says_the_same(result: &ToolResult, data: &RawJson) -> bool {
    let [Content::Text(text)] = result.content.as_slice() else { return false };
    let parse = |json: &str| serde_json::from_str::<serde_json::Value>(json).ok();
    parse(&text.text).is_some_and(|value| Some(value) == parse(data.as_str()))
}

/// A message of a prompt.
pub(crate) fn message(message: &PromptMessage, saver: &mut Saver) -> Done<Text> {
    let shown = content(&message.content, saver)?.render(false);
    Ok(Text::new().name(format!("{}: ", message.role.as_str())).plain(shown))
}

/// What a resource holds.
pub(crate) fn contents(contents: &ResourceContents, saver: &mut Saver) -> Done<Text> {
    let kind = contents.mime_type.as_deref();
    if let (Some(text), false) = (&contents.text, saver.is_wanted()) {
        return Ok(Text::from(text.as_str()));
    }
    binary("content", kind, contents.bytes().ok(), saver)
}

fn content(block: &Content, saver: &mut Saver) -> Done<Text> {
    Ok(match block {
        Content::Text(text) => Text::from(text.text.as_str()),
        Content::Image(image) => binary("image", Some(&image.mime_type), image.bytes().ok(), saver)?,
        Content::Audio(audio) => binary("audio", Some(&audio.mime_type), audio.bytes().ok(), saver)?,
        Content::Resource(embedded) => {
            let heading = Text::new().faint(format!("[resource {}]", embedded.resource.uri));
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
            Text::new().faint("[link] ").name(&link.uri).plain(format!("  {description}"))
        }
        other => match RawJson::encode(other) {
            Ok(json) => Text::from(pretty(&json)),
            Err(_) => Text::from("[cannot be shown]"),
        },
    })
}

fn binary(what: &str, mime_type: Option<&str>, bytes: Option<Vec<u8>>, saver: &mut Saver) -> Done<Text> {
    let kind = mime_type.unwrap_or("unknown type");
    let Some(bytes) = bytes else { return Ok(Text::from(format!("[{what} {kind}, not valid base64]"))) };
    let shown = format!("{what} {kind}, {}", size(bytes.len()));
    Ok(Text::from(match saver.save(&bytes, mime_type)? {
        Some(path) => format!("[{shown}, saved to {}]", path.display()),
        None => format!("[{shown}]"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::printer::{ColourChoice, Verbosity};

    fn shown(result: &ToolResult) -> Vec<String> {
        let printer = Printer::new(false, Verbosity::Quiet, ColourChoice::Never);
        let texts = tool_result(result, &mut Saver::new(None, &printer).unwrap()).unwrap();
        texts.iter().map(|text| text.render(false)).collect()
    }

    #[test]
    fn data_that_is_repeated_as_text_is_shown_once() {
        let result = ToolResult::structured(&[1]).unwrap();
        assert_eq!(shown(&result), ["[\n  1\n]"]);
        let result = ToolResult::of_text("one").with_json(&1).unwrap();
        assert_eq!(shown(&result), ["one", "1"]);
    }

    #[test]
    fn pictures_are_shown_as_what_they_are() {
        let result = ToolResult::new().with_image([1, 2], "image/png").with_text("\u{1b}c");
        assert_eq!(shown(&result), ["[image image/png, 2 bytes]", "\\u{1b}c"]);
    }

    #[test]
    fn what_a_server_says_is_no_path() {
        assert_eq!(extension(Some("image/png; q=1")), "png");
        assert_eq!(extension(Some("image/../../etc")), "etc");
        assert_eq!(extension(Some("a/b.c")), "bin");
        assert_eq!(extension(None), "bin");
        assert_eq!(place(Path::new("a.png"), 1, None), Path::new("a.png"));
        assert_eq!(place(Path::new("x/a.png"), 2, None), Path::new("x/a-2.png"));
    }
}
