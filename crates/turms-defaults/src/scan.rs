//! The defaults in the doc comments of a source file.

const MARK: &str = "Default: ";

/// The items of a source file with a documented default, and its text.
pub(crate) fn documented(source: &str) -> Vec<(String, String)> {
    let mut owners: Vec<(usize, &str)> = Vec::new();
    let (mut docs, mut found) = (String::new(), Vec::new());
    let mut attribute = 0;
    for line in source.lines() {
        let (indent, line) = (line.len() - line.trim_start().len(), line.trim());
        if let Some(doc) = line.strip_prefix("///") {
            docs.push_str(doc);
            // A blank line ends a sentence, too.
            docs.push_str(if doc.is_empty() { "\n" } else { "" });
            continue;
        }
        if attribute > 0 || line.starts_with("#[") {
            attribute += line.matches('[').count();
            attribute -= line.matches(']').count().min(attribute);
            continue;
        }
        let name = name(line);
        let text = default_in(&std::mem::take(&mut docs));
        if let Some((text, name)) = text.zip(name) {
            owners.retain(|(at, _)| *at < indent);
            let path = owners.last().map_or_else(|| name.to_owned(), |(_, owner)| format!("{owner}::{name}"));
            found.push((path, text));
        }
        if let Some(owner) = owner(line) {
            owners.retain(|(at, _)| *at < indent);
            owners.push((indent, owner));
        }
    }
    found
}

/// The text of a default: to the end of its sentence, or to a semicolon.
fn default_in(docs: &str) -> Option<String> {
    let text = docs.split_once(MARK)?.1;
    let ends = [". ", ".\n", "\n", ";"].into_iter().filter_map(|end| text.find(end));
    Some(text[..ends.min().unwrap_or(text.len())].trim_end().trim_end_matches('.').to_owned())
}

/// The name of the item that begins in a line.
fn name(line: &str) -> Option<&str> {
    let after_keyword = ["fn ", "const ", "struct ", "enum ", "trait ", "type "]
        .into_iter()
        .filter_map(|keyword| line.split_once(keyword).filter(|(start, _)| is_modifiers(start)))
        .map(|(_, rest)| rest)
        .next();
    let rest = after_keyword.unwrap_or_else(|| without_visibility(line));
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| !name.is_empty())
}

/// Returns `true` for what may stand before a keyword.
fn is_modifiers(text: &str) -> bool {
    without_visibility(text).split_whitespace().all(|word| ["async", "const", "unsafe"].contains(&word))
}

fn without_visibility(text: &str) -> &str {
    match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or(rest, |(_, rest)| rest).trim_start(),
        Some(rest) if rest.starts_with(' ') => rest.trim_start(),
        _ => text,
    }
}

/// The type or trait of the items after a line.
fn owner(line: &str) -> Option<&str> {
    let line = without_visibility(line);
    let header = line.strip_suffix('{')?;
    if let Some(header) = header.strip_prefix("impl") {
        let ty = header.split_once(" for ").map_or_else(|| after_generics(header), |(_, ty)| ty);
        let path = ty.trim().split([' ', '<']).next().unwrap_or(ty);
        return path.rsplit("::").next().and_then(name);
    }
    ["struct ", "enum ", "trait "].into_iter().find_map(|keyword| line.strip_prefix(keyword)).and_then(name)
}

/// The rest after `<..>` at the start.
fn after_generics(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => return &text[at..],
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(item: &str, text: &str) -> (String, String) {
        (item.to_owned(), text.to_owned())
    }

    #[test]
    fn a_text_ends_with_its_sentence_or_at_a_semicolon() {
        let text = |docs: &str| default_in(docs).unwrap();
        assert_eq!(text(" The delay. Default: 30 s. Longer ones are refused."), "30 s");
        assert_eq!(text(" The delay. Default: 0.1 and 10."), "0.1 and 10");
        assert_eq!(text(" The guard. Default: none; a principal may come from a layer."), "none");
        assert_eq!(text(" The delay. Default: 1 h.\n # Panics"), "1 h");
        assert_eq!(default_in(" The delay."), None);
    }

    #[test]
    fn a_text_may_have_several_lines() {
        let source =
            "impl A {\n    /// The delay. Default: that of the\n    /// server. Other text.\n    fn delay(self) {";
        assert_eq!(documented(source), [pair("A::delay", "that of the server")]);
    }

    #[test]
    fn items_are_named_with_their_type() {
        let source = "
/// The policy. Default: none.
pub struct Policy {
    /// Default: 1.
    pub(crate) first: u32,
}
impl<S: Clone> fmt::Debug for a::Policy<S> {
    /// Default: 2.
    #[expect(
        dead_code,
        reason = \"[1]\"
    )]
    pub async fn second(&self) {
        let text = 2;
    }
}
/// Default: 3.
pub const THIRD: u32 = 3;
impl<F: Fn(u32) -> u32> Policy<F>
where
{
}
mod inner {
    pub trait Guard {
        /// Default: 4.
        fn fourth(&self);
    }
}
";
        let expected = [
            pair("Policy", "none"),
            pair("Policy::first", "1"),
            pair("Policy::second", "2"),
            pair("THIRD", "3"),
            pair("Guard::fourth", "4"),
        ];
        assert_eq!(documented(source), expected);
    }

    #[test]
    fn other_comments_have_no_defaults() {
        assert_eq!(documented("//! Default: 1.\n// Default: 2.\nfn f() {}\n/// Other.\nfn g() {}"), []);
    }
}
