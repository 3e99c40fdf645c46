//! Rules of the public API: allowed types of other crates, public names of types, conversions and names of errors,
//! `#[non_exhaustive]`, and the first words of doc comments.

use std::collections::BTreeMap;

use super::surface::Entry;

/// Crates whose types may be in signatures: stable ones, and interfaces that the ecosystem shares, such as `tower_service`.
const ALLOWED: &[&str] = &[
    "alloc",
    "bytes",
    "core",
    "futures_core",
    "http",
    "indexmap",
    "schemars",
    "serde",
    // The crate that defines serde's traits.
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
    /// Maximum number of items with this type. Lower it when items are removed, and never raise it.
    items: usize,
    reason: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception {
        name: "http_body::Body",
        items: 7,
        reason: "HTTP services receive and return bodies; there is no other trait",
    },
    Exception { name: "http_body_util::Full", items: 1, reason: "the body of the responses of authorization servers" },
    Exception { name: "hyper::Incoming", items: 1, reason: "the body that a tower service is served with" },
    Exception { name: "rustls::ClientConfig", items: 1, reason: "requires the feature `rustls-0_23`" },
    Exception { name: "tracing_core::Subscriber", items: 1, reason: "requires the feature `tracing-subscriber-0_3`" },
    Exception { name: "tracing_subscriber::Layer", items: 1, reason: "requires the feature `tracing-subscriber-0_3`" },
];

/// The error that all others convert into.
const ERROR: &str = "turms::Error";

/// Errors with other names: those of JSON-RPC and OAuth responses, and rejections, as in axum.
const OTHER_ERRORS: &[&str] =
    &["turms::ErrorObject", "turms::Rejection", "turms::http::GuardRejection", "turms::oauth::OAuthErrorResponse"];

/// Endings of the names of errors: `Error` for what an operation returns, `Kind` and `Cause` for parts of such an error.
const ERROR_ENDINGS: &[&str] = &["Error", "Kind", "Cause"];

/// Hidden types and traits of ours that may be in signatures, because programs never name them.
const HIDDEN: &[&str] = &[
    // Sealed: what is served, connected or decoded.
    "turms_core::connect_client::ConnectClient",
    "turms_http::server::handler::HttpHandler",
    "turms_proto::object::DecodeObject",
    // The result of `layer::from_tower`, which programs pass to `layer`.
    "turms_core::layer::tower::Call",
    "turms_core::layer::tower::FromTower",
    "turms_core::layer::tower::FromTowerLayer",
    // Converted inside the crates into a public error.
    "turms_http::client::dial_options::DialOptionsError",
    "turms_http::sse::EventTooLong",
    "turms_proto::session::event::RequestError",
    "turms_proto::session::event::SessionError",
];

/// Enums, and structs with public fields only, that have no `#[non_exhaustive]`: adding to them is a breaking change. Each has
/// the reason in its `#[expect]` attribute.
const EXHAUSTIVE: &[&str] = &[
    // Wrappers, which handlers destructure in their parameters.
    "turms::Args",
    "turms::ClientInfo",
    "turms::Extension",
    "turms::Json",
    "turms::ResourceUri",
    "turms::State",
    // Enums that programs match without a wildcard arm.
    "turms::Elicited",
    "turms::client::BreakerState",
    "turms::client::ConfigScope",
    "turms::client::Delivery",
    // JSON and JSON-RPC, which do not change.
    "turms::jsonrpc::ErrorCode",
    "turms::jsonrpc::Message",
    "turms::jsonrpc::RequestId",
    "turms::types::Blocks",
];

/// Words that no doc comment may begin with. A doc comment begins with a noun phrase or a verb.
const OPENINGS: &[&str] =
    &["How", "Nobody", "So", "Somebody", "What", "Where", "Whether", "Which", "Who", "Whom", "Whose", "Why"];

/// Returns a line for each violation of a rule.
pub(super) fn problems(entries: &[Entry]) -> Vec<String> {
    let mut problems = foreign_types(entries, EXCEPTIONS);
    problems.extend(unnamed_types(entries, HIDDEN));
    problems.extend(unconverted_errors(entries));
    problems.extend(error_names(entries));
    problems.extend(exhaustive_types(entries, EXHAUSTIVE));
    problems.extend(doc_openings(entries));
    problems
}

/// Returns the types that are exhaustive but not in the list, and those that are in the list but not exhaustive.
fn exhaustive_types(entries: &[Entry], listed: &[&str]) -> Vec<String> {
    let has_fields = |path: &str| {
        let is_field = |entry: &Entry| entry.path.strip_prefix(path).is_some_and(|rest| rest.starts_with("::"));
        entries.iter().any(|entry| entry.kind == "field" && is_field(entry))
    };
    let is_open =
        |entry: &Entry| ["#[non_exhaustive]", "{ .. }", "(..)"].iter().any(|it| entry.signature.ends_with(it));
    let found: Vec<_> = entries
        .iter()
        .filter(|entry| entry.kind == "enum" || (entry.kind == "struct" && has_fields(&entry.path)))
        .filter(|entry| !is_open(entry))
        .map(|entry| entry.path.as_str())
        .collect();
    let unlisted = found.iter().filter(|path| !listed.contains(path));
    let unlisted =
        unlisted.map(|path| format!("{path}: no #[non_exhaustive], and not in the list of exhaustive types"));
    let open = listed.iter().filter(|path| !found.contains(path));
    unlisted.chain(open.map(|path| format!("{path}: in the list of exhaustive types, and is not one"))).collect()
}

/// Returns the public errors whose names have none of the [endings](ERROR_ENDINGS).
fn error_names(entries: &[Entry]) -> Vec<String> {
    let errors = entries.iter().filter(|entry| entry.kind == "impl" && entry.signature == "error::Error");
    let is_named = |path: &str| OTHER_ERRORS.contains(&path) || ERROR_ENDINGS.iter().any(|end| path.ends_with(end));
    let misnamed = errors.filter(|error| !is_named(&error.path));
    misnamed.map(|error| format!("{}: the name of an error ends in one of {ERROR_ENDINGS:?}", error.path)).collect()
}

/// Returns the public errors that do not convert into `turms::Error`. Kinds and causes, which are parts of errors, need not.
fn unconverted_errors(entries: &[Entry]) -> Vec<String> {
    let is_impl = |entry: &&Entry, signature: &str| entry.kind == "impl" && entry.signature == signature;
    let errors = entries.iter().filter(|entry| is_impl(entry, "error::Error") && entry.path != ERROR);
    let errors = errors.filter(|error| !error.path.ends_with("Kind") && !error.path.ends_with("Cause"));
    let is_converted = |error: &Entry| {
        let conversion = format!("From<{}>", error.path);
        entries.iter().any(|entry| entry.path == ERROR && is_impl(&entry, &conversion))
    };
    errors
        .filter(|error| !is_converted(error))
        .map(|error| format!("{} does not convert into {ERROR}", error.path))
        .collect()
}

/// Returns the types of ours in signatures that have no path through the façade. Signatures name them with the crate that
/// defines them.
fn unnamed_types(entries: &[Entry], hidden: &[&str]) -> Vec<String> {
    let is_part_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut problems = Vec::new();
    for entry in entries {
        let paths = entry.signature.split(|c| !is_part_of_path(c));
        let unnamed = paths.filter(|path| path.starts_with("turms_") && !hidden.contains(path));
        problems.extend(unnamed.map(|path| format!("{}: {path} has no public name", entry.path)));
    }
    problems
}

/// Returns the types of crates that are not allowed, except for the exceptions.
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
            Some(Exception { items: limit, reason, .. }) => {
                problems.extend(items);
                problems.push(format!("{name} may be in at most {limit} signatures ({reason})"));
            }
            None => problems.extend(items),
        }
    }
    problems
}

/// Returns the doc comments that begin with a forbidden word.
fn doc_openings(entries: &[Entry]) -> Vec<String> {
    let first_word = |entry: &Entry| entry.docs.split(|c: char| !c.is_alphanumeric()).next().map(str::to_owned);
    let is_forbidden = |entry: &&Entry| first_word(entry).is_some_and(|word| OPENINGS.contains(&word.as_str()));
    let first_line = |entry: &Entry| entry.docs.lines().next().unwrap_or_default().to_owned();
    let problem =
        |it: &Entry| format!("{}: a doc comment must not begin with this word: {:?}", it.path, first_line(it));
    entries.iter().filter(is_forbidden).map(problem).collect()
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
            ["a::g: hyper::Body", "a::h: hyper::Body", "hyper::Body may be in at most 1 signatures (old)"]
        );
    }

    #[test]
    fn an_exhaustive_type_is_listed() {
        let entry = |path: &str, kind, signature: &str| Entry {
            path: path.to_owned(),
            kind,
            signature: signature.to_owned(),
            ..Entry::default()
        };
        let entries = [
            entry("a::Closed", "enum", ""),
            entry("a::Open", "enum", "#[non_exhaustive]"),
            entry("a::Pair", "struct", ""),
            entry("a::Pair::0", "field", "u8"),
            entry("a::Marker", "struct", ""),
            entry("a::Private", "struct", "<T> { .. }"),
        ];
        assert_eq!(exhaustive_types(&entries, &["a::Closed", "a::Pair"]), [""; 0]);
        assert_eq!(
            exhaustive_types(&entries, &["a::Closed", "a::Open"]),
            [
                "a::Pair: no #[non_exhaustive], and not in the list of exhaustive types",
                "a::Open: in the list of exhaustive types, and is not one",
            ]
        );
    }

    #[test]
    fn public_errors_but_not_kinds_convert_into_the_error_of_the_facade() {
        let implements = |path: &str, signature: &str| Entry {
            path: path.to_owned(),
            kind: "impl",
            signature: signature.to_owned(),
            ..Entry::default()
        };
        let is_error = |path| implements(path, "error::Error");
        let entries = [
            is_error("turms::Error"),
            implements("turms::Error", "From<turms::AError>"),
            is_error("turms::AError"),
            is_error("turms::AErrorKind"),
            is_error("turms::BError"),
        ];
        assert_eq!(unconverted_errors(&entries), ["turms::BError does not convert into turms::Error"]);
    }

    #[test]
    fn the_name_of_an_error_says_that_it_is_one() {
        let error = |path: &str| Entry {
            path: path.to_owned(),
            kind: "impl",
            signature: "error::Error".to_owned(),
            ..Entry::default()
        };
        let entries =
            [error("turms::AError"), error("turms::AErrorKind"), error("turms::Rejection"), error("turms::Refusal")];
        let expected = r#"turms::Refusal: the name of an error ends in one of ["Error", "Kind", "Cause"]"#;
        assert_eq!(error_names(&entries), [expected]);
    }

    #[test]
    fn a_type_of_ours_in_a_signature_has_a_public_name() {
        let entry =
            |signature: &str| Entry { path: "a".to_owned(), signature: signature.to_owned(), ..Entry::default() };
        let entries =
            [entry("(&self) -> Option<turms::layer::Peer>"), entry("(a: &turms_core::b::C, d: turms_core::D<u8>)")];
        assert_eq!(unnamed_types(&entries, &["turms_core::D"]), ["a: turms_core::b::C has no public name"]);
    }

    #[test]
    fn a_doc_comment_begins_with_no_question_word() {
        let says = |docs: &str| Entry { path: "a".to_owned(), docs: docs.to_owned(), ..Entry::default() };
        let entries = [says("Whether it is."), says("Somewhere."), says("The what."), says("")];
        assert_eq!(doc_openings(&entries), [r#"a: a doc comment must not begin with this word: "Whether it is.""#]);
    }
}
