//! Counts for example programs: lines, imported names, and types and attributes of the library.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

const PROGRAMS: &str = "examples/programs";
const API: &str = "api/turms.txt";
const LIBRARY: &str = "turms";

/// Prints the counts of these files; of all programs if the list is empty.
pub(crate) fn run(files: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let library = Library::parse(&fs::read_to_string(root.join(API))?);
    let files = if files.is_empty() { rust_files(&root.join(PROGRAMS))? } else { files.to_vec() };
    let mut table = Table::default();
    for file in files {
        let source = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let counts = Counts::of(&source, &library).map_err(|error| format!("{}: {error}", file.display()))?;
        table.0.push((file.file_stem().unwrap_or_default().to_string_lossy().into_owned(), counts));
    }
    print!("{table}");
    Ok(())
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|it| it == "rs")).collect();
    files.sort();
    Ok(files)
}

/// The types, traits and macros of the library by each of their paths.
struct Library(BTreeMap<String, Known>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    /// The path of its documentation.
    path: String,
    is_attribute: bool,
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.rsplit("::").next().unwrap_or_default();
        if self.is_attribute { write!(f, "#[{name}]") } else { f.write_str(name) }
    }
}

impl Library {
    /// Reads the list of public items, without type aliases.
    fn parse(list: &str) -> Self {
        let items = || list.lines().filter_map(|line| line.split_once(' '));
        let mut known = BTreeMap::new();
        for (path, rest) in items() {
            let kind = rest.split(' ').next().unwrap_or_default();
            if ["attribute", "derive", "enum", "macro", "struct", "trait", "union"].contains(&kind) {
                known.insert(path.to_owned(), Known { path: path.to_owned(), is_attribute: kind == "attribute" });
            }
        }
        for (path, rest) in items() {
            let (Some(target), false) = (rest.strip_prefix("use "), known.contains_key(path)) else { continue };
            let prefix = format!("{target}::");
            let below = known.iter().filter_map(|(it, item)| Some((it.strip_prefix(&prefix)?, item)));
            let mut new: Vec<_> = below.map(|(rest, item)| (format!("{path}::{rest}"), item.clone())).collect();
            new.extend(known.get(target).map(|item| (path.to_owned(), item.clone())));
            known.extend(new);
        }
        Self(known)
    }

    /// Returns the item that a path names or begins with: `turms::Server` for `turms::Server::new`.
    fn find(&self, path: &str) -> Option<Known> {
        let ends = path.match_indices("::").map(|(end, _)| end).chain([path.len()]);
        let mut starts = ends.map(|end| &path[..end]);
        starts.find_map(|start| match start.rsplit_once("::") {
            // Another crate; its items are not listed.
            Some((_, name)) if start.starts_with("turms_") && name.starts_with(char::is_uppercase) => {
                Some(Known { path: start.to_owned(), is_attribute: false })
            }
            _ => self.0.get(start).cloned(),
        })
    }
}

/// The size of one program.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    lines: usize,
    imports: usize,
    /// The library's types and attributes that it names.
    known: BTreeSet<Known>,
}

impl Counts {
    fn of(source: &str, library: &Library) -> Result<Self, Box<dyn Error>> {
        let mut names = Names::default();
        names.scan(source.parse::<TokenStream>()?);
        Ok(Self { lines: lines(source), imports: names.imports.len(), known: names.known(library) })
    }
}

/// Lines with code on them. Doc comments count: they describe tools to models.
fn lines(source: &str) -> usize {
    let is_comment = |line: &str| line.starts_with("//") && !line.starts_with("///");
    source.lines().map(str::trim).filter(|line| !line.is_empty() && !is_comment(line)).count()
}

/// The names in a program.
#[derive(Default)]
struct Names {
    /// The imported path, and its name in the program; `*` for all names.
    imports: Vec<(String, String)>,
    /// Types and modules of the program itself.
    own: BTreeSet<String>,
    attributes: BTreeSet<String>,
    paths: BTreeSet<String>,
}

impl Names {
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Ident(word) if word == "use" && !is_punct(tokens.get(at), '<') => {
                    let end = tokens[at..].iter().position(|it| is_punct(Some(it), ';')).unwrap_or(tokens.len() - at);
                    self.import("", &tokens[at..at + end]);
                    at += end;
                }
                TokenTree::Ident(word) if is_definition(&word.to_string()) => {
                    if let Some(TokenTree::Ident(name)) = tokens.get(at) {
                        self.own.insert(name.to_string());
                        at += 1;
                    }
                }
                TokenTree::Ident(_) => {
                    let (path, length) = path(&tokens[at - 1..]);
                    if !is_member(&tokens[..at - 1]) {
                        self.paths.insert(path);
                    }
                    at += length - 1;
                }
                TokenTree::Group(group) => {
                    let is_attribute = at >= 2 && is_punct(tokens.get(at - 2), '#');
                    if is_attribute && group.delimiter() == Delimiter::Bracket {
                        let inner: Vec<_> = group.stream().into_iter().collect();
                        self.attributes.insert(path(&inner).0);
                    }
                    self.scan(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }

    /// Reads the tree after `use`.
    fn import(&mut self, prefix: &str, tree: &[TokenTree]) {
        for branch in tree.split(|token| is_punct(Some(token), ',')).filter(|branch| !branch.is_empty()) {
            let branch: Vec<_> = branch.iter().filter(|token| !is_punct(Some(token), ':')).cloned().collect();
            let mut parts: Vec<_> = prefix.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let mut rest = branch.iter();
            let mut name = None;
            let mut is_leaf = true;
            while let Some(token) = rest.next() {
                match token {
                    TokenTree::Ident(word) if word == "as" => name = rest.next().map(ToString::to_string),
                    TokenTree::Ident(word) if word == "self" => {}
                    TokenTree::Ident(word) => parts.push(word.to_string()),
                    TokenTree::Group(group) => {
                        self.import(&parts.join("::"), &group.stream().into_iter().collect::<Vec<_>>());
                        is_leaf = false;
                    }
                    _ => name = Some("*".to_owned()),
                }
            }
            if is_leaf {
                let name = name.or_else(|| parts.last().cloned()).unwrap_or_default();
                self.imports.push((parts.join("::"), name));
            }
        }
    }

    fn known(&self, library: &Library) -> BTreeSet<Known> {
        let named = self.imports.iter().filter(|(_, name)| name != "*");
        let imported = named.filter_map(|(path, _)| library.find(path)).filter(|it| !it.is_attribute);
        let paths = self.paths.iter().filter_map(|path| self.find(path, library)).filter(|it| !it.is_attribute);
        let attributes = self.attributes.iter().filter_map(|path| self.find(path, library));
        imported.chain(paths).chain(attributes.filter(|it| it.is_attribute)).collect()
    }

    /// Looks a path of the program up as the compiler would: imports by name first, then the program's own items.
    fn find(&self, path: &str, library: &Library) -> Option<Known> {
        let (first, rest) = path.split_once("::").map_or((path, ""), |(first, _)| (first, &path[first.len()..]));
        if let Some((import, _)) = self.imports.iter().find(|(_, name)| name == first) {
            return library.find(&format!("{import}{rest}"));
        }
        if first == LIBRARY {
            return library.find(path);
        }
        let globs = self.imports.iter().filter(|(_, name)| name == "*" && !self.own.contains(first));
        globs.filter_map(|(glob, _)| library.find(&format!("{glob}::{path}"))).next()
    }
}

/// The path that these tokens begin with, and the number of its tokens.
fn path(tokens: &[TokenTree]) -> (String, usize) {
    let mut path = String::new();
    let mut length = 0;
    while let Some(TokenTree::Ident(word)) = tokens.get(length) {
        path.push_str(&word.to_string());
        length += 1;
        let is_continued = is_punct(tokens.get(length), ':') && is_punct(tokens.get(length + 1), ':');
        if !is_continued || !matches!(tokens.get(length + 2), Some(TokenTree::Ident(_))) {
            break;
        }
        path.push_str("::");
        length += 2;
    }
    (path, length)
}

/// Returns `true` if what follows these tokens is a field, a method, or the rest of a path.
fn is_member(before: &[TokenTree]) -> bool {
    let is = |back: usize, mark| before.len() >= back && is_punct(before.get(before.len() - back), mark);
    (is(1, '.') && !is(2, '.')) || (is(1, ':') && is(2, ':'))
}

fn is_definition(word: &str) -> bool {
    ["enum", "mod", "struct", "trait", "type", "union"].contains(&word)
}

fn is_punct(token: Option<&TokenTree>, mark: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == mark)
}

#[derive(Default)]
struct Table(Vec<(String, Counts)>);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| program | lines | imported names | types and attributes | which |\n|---|---|---|---|---|")?;
        for (name, Counts { lines, imports, known }) in &self.0 {
            let which = known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            writeln!(f, "| {name} | {lines} | {imports} | {} | {which} |", known.len())?;
        }
        let sum = |count: fn(&Counts) -> usize| self.0.iter().map(|(_, counts)| count(counts)).sum::<usize>();
        let (lines, imports, known) = (sum(|it| it.lines), sum(|it| it.imports), sum(|it| it.known.len()));
        writeln!(f, "| sum | {lines} | {imports} | {known} | |")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
turms mod
turms::Result type = x
turms::Server struct { .. }
turms::Server::new fn ()
turms::http mod
turms::http::Listener struct
turms::net use turms::http
turms::prelude mod
turms::prelude::Server use turms::Server
turms::prelude::State use turms::State
turms::prelude::tool use turms::tool
turms::State struct
turms::tool attribute
";

    fn counts(source: &str) -> (usize, usize, Vec<String>) {
        let counts = Counts::of(source, &Library::parse(LIST)).unwrap();
        (counts.lines, counts.imports, counts.known.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_program_is_counted_by_what_it_names() {
        let source = "\
//! A server.

use turms::prelude::*;

/// Says hello.
#[tool(read_only)]
async fn hello(name: String) -> String { name } // plain

#[tokio::main]
async fn main() -> turms::Result<()> {
    Server::new(\"hello\", \"1.0.0\").tool(hello).await
}
";
        assert_eq!(counts(source), (8, 1, vec!["Server".to_owned(), "#[tool]".to_owned()]));
    }

    #[test]
    fn every_leaf_of_an_import_is_a_name() {
        let source = "use std::{fmt::{self, Debug}, io as other}; use turms::{Server as _, net};";
        assert_eq!(counts(source), (1, 5, vec!["Server".to_owned()]));
        assert_eq!(counts("use turms::net; fn f() -> net::Listener {}").2, ["Listener"]);
    }

    #[test]
    fn names_of_others_are_not_counted() {
        for source in [
            "use turms::prelude::*; struct Server; fn f(s: Server) {}",
            "use axum::extract::State; use turms::prelude::*; fn f(s: State) {}",
            "use turms::prelude::*; fn f(tool: u8) { x.Server; y::State }",
            "fn f(s: Server) {}",
        ] {
            assert_eq!(counts(source).2, [""; 0], "{source}");
        }
        assert_eq!(counts("use turms_testing::client::Script;").2, ["Script"]);
    }
}
