//! Rules that the public API keeps: foreign types, the first words of doc comments.

use std::collections::BTreeMap;

use super::surface::Entry;

/// Crates whose types may stand in signatures. They are stable, or as hard to replace as the language.
const ALLOWED: &[&str] = &[
    "alloc",
    "bytes",
    "core",
    "futures_core",
    "http",
    "indexmap",
    "schemars",
    "serde",
    // The traits of serde, since it is two crates.
    "serde_core",
    "serde_json",
    "std",
    "tokio",
    "tower_layer",
    "tower_service",
    "url",
];

/// A foreign type that is in signatures although its crate is not allowed.
struct Exception {
    name: &'static str,
    /// Maximum number of items. It only goes down.
    items: usize,
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        name: "bytestring::ByteString",
        items: 20,
        reason: "until `MethodName` and other types of ours replace it",
    },
    Exception {
        name: "http_body::Body",
        items: 6,
        reason: "HTTP services take and give bodies; there is no other trait",
    },
    Exception { name: "hyper::Error", items: 1, reason: "until HTTP errors of WebSocket are a source only" },
    Exception { name: "hyper::Incoming", items: 1, reason: "the body that a tower service is served with" },
    Exception { name: "rustls::ClientConfig", items: 1, reason: "until it stands behind the feature `rustls-0_23`" },
    Exception {
        name: "tracing_core::Subscriber",
        items: 1,
        reason: "until `ForwardTracing` stands behind the feature `tracing-subscriber-0_3`",
    },
    Exception {
        name: "tracing_subscriber::Layer",
        items: 1,
        reason: "until `ForwardTracing` stands behind the feature `tracing-subscriber-0_3`",
    },
    Exception { name: "rustls::Error", items: 1, reason: "until TLS errors of WebSocket are a source only" },
];

/// Words that no doc comment begins with: it begins with a noun phrase or a verb.
const OPENINGS: &[&str] =
    &["How", "Nobody", "So", "Somebody", "What", "Where", "Whether", "Which", "Who", "Whom", "Whose", "Why"];

/// Maximum number of doc comments that begin so. It only goes down.
const MAX_OPENINGS: usize = 20;

/// Everything that breaks a rule.
pub(super) fn problems(entries: &[Entry]) -> Vec<String> {
    let mut problems = foreign_types(entries, EXCEPTIONS);
    problems.extend(doc_openings(entries, MAX_OPENINGS));
    problems
}

fn foreign_types(entries: &[Entry], exceptions: &[Exception]) -> Vec<String> {
    let mut found = BTreeMap::<_, Vec<_>>::new();
    for (entry, name) in entries.iter().flat_map(|entry| entry.foreign.iter().map(move |name| (entry, name))) {
        let krate = name.split("::").next().unwrap_or_default();
        if !ALLOWED.contains(&krate) {
            found.entry(name.as_str()).or_default().push(format!("{}: {name}", entry.path));
        }
    }
    let mut problems = Vec::new();
    for (name, items) in found {
        match exceptions.iter().find(|exception| exception.name == name) {
            Some(exception) if items.len() <= exception.items => {}
            Some(Exception { items: most, reason, .. }) => {
                problems.extend(items);
                problems.push(format!("{name} may be in {most} signatures ({reason})"));
            }
            None => problems.extend(items),
        }
    }
    problems
}

fn doc_openings(entries: &[Entry], most: usize) -> Vec<String> {
    let first_word = |entry: &Entry| entry.docs.split(|c: char| !c.is_alphanumeric()).next().map(str::to_owned);
    let opens_so = |entry: &&Entry| first_word(entry).is_some_and(|word| OPENINGS.contains(&word.as_str()));
    let first_line = |entry: &Entry| entry.docs.lines().next().unwrap_or_default().to_owned();
    let mut found: Vec<_> =
        entries.iter().filter(opens_so).map(|it| format!("{}: {:?}", it.path, first_line(it))).collect();
    if found.len() <= most {
        return Vec::new();
    }
    found.push(format!("{} doc comments begin with one of {OPENINGS:?}; {most} may", found.len()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(path: &str, foreign: &str) -> Entry {
        Entry { path: path.to_owned(), foreign: [foreign.to_owned()].into(), ..Entry::default() }
    }

    #[test]
    fn a_foreign_type_is_named_with_the_item_that_shows_it() {
        let entries = [uses("a::f", "http::HeaderMap"), uses("a::g", "hyper::Body"), uses("a::h", "hyper::Body")];
        assert_eq!(foreign_types(&entries, &[]), ["a::g: hyper::Body", "a::h: hyper::Body"]);
    }

    #[test]
    fn an_exception_is_for_a_number_of_items() {
        let entries = [uses("a::g", "hyper::Body"), uses("a::h", "hyper::Body")];
        let exception = |items| [Exception { name: "hyper::Body", items, reason: "old" }];
        assert_eq!(foreign_types(&entries, &exception(2)), [""; 0]);
        assert_eq!(
            foreign_types(&entries, &exception(1)),
            ["a::g: hyper::Body", "a::h: hyper::Body", "hyper::Body may be in 1 signatures (old)"]
        );
    }

    #[test]
    fn a_doc_comment_begins_with_no_question_word() {
        let says = |docs: &str| Entry { path: "a".to_owned(), docs: docs.to_owned(), ..Entry::default() };
        let entries = [says("Whether it is."), says("Somewhere."), says("The what."), says("")];
        assert_eq!(doc_openings(&entries, 1), [""; 0]);
        assert_eq!(doc_openings(&entries, 0)[0], r#"a: "Whether it is.""#);
    }
}
