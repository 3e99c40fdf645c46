//! Search words of users. `api/aliases.toml` lists the `#[doc(alias)]` attributes that items must have.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;

use super::surface::Entry;
use crate::sources;

const TABLE: &str = "api/aliases.toml";

/// Aliases by item. An item is named by the last segments of its path, with its kind before them if they are ambiguous:
/// `Server::layer`, `mod layer`.
type Table = BTreeMap<String, Vec<String>>;

/// Returns the aliases of the table that are missing.
pub(super) fn problems(entries: &[Entry]) -> Result<Vec<String>, Box<dyn Error>> {
    let table = toml::from_str(&fs::read_to_string(sources::root().join(TABLE))?)?;
    Ok(missing(entries, &table))
}

fn missing(entries: &[Entry], table: &Table) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, words) in table {
        match find(entries, name) {
            Some(entry) => {
                let missing = words.iter().filter(|word| !entry.aliases.contains(*word));
                problems.extend(missing.map(|word| format!("{}: no #[doc(alias = {word:?})]", entry.path)));
            }
            None => problems.push(format!("{name}: no such item; its aliases are in {TABLE}")),
        }
    }
    problems
}

/// Finds the item with the shortest path of those with this name.
fn find<'a>(entries: &'a [Entry], name: &str) -> Option<&'a Entry> {
    let (kind, name) = name.split_once(' ').map_or((None, name), |(kind, name)| (Some(kind), name));
    let is_match = |entry: &&Entry| {
        let has_name = entry.path.strip_suffix(name).is_some_and(|start| start.ends_with("::"));
        has_name && !["impl", "use"].contains(&entry.kind) && kind.is_none_or(|kind| kind == entry.kind)
    };
    entries.iter().filter(is_match).min_by_key(|entry| entry.path.split("::").count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: &'static str, aliases: &[&str]) -> Entry {
        let aliases = aliases.iter().map(ToString::to_string).collect();
        Entry { path: path.to_owned(), kind, aliases, ..Entry::default() }
    }

    fn found(line: &str) -> Vec<String> {
        let entries = [
            entry("a::Server", "impl", &[]),
            entry("a::Server::layer", "fn", &["tower"]),
            entry("a::b::Server::layer", "fn", &[]),
            entry("a::b::c::layer", "mod", &["tower"]),
        ];
        missing(&entries, &toml::from_str(line).unwrap())
    }

    #[test]
    fn an_alias_is_looked_up_at_the_item_with_the_shortest_path() {
        assert_eq!(found(r#""Server::layer" = ["tower"]"#), [""; 0]);
        assert_eq!(found(r#"layer = ["tower", "ring"]"#), [r#"a::Server::layer: no #[doc(alias = "ring")]"#]);
        assert_eq!(found(r#""mod layer" = ["ring"]"#), [r#"a::b::c::layer: no #[doc(alias = "ring")]"#]);
    }

    #[test]
    fn an_item_of_the_table_exists() {
        assert_eq!(found(r#"Server = ["x"]"#), ["Server: no such item; its aliases are in api/aliases.toml"]);
    }
}
