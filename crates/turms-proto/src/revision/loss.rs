//! Table of values that lowering rewrites.

use super::ProtocolVersion::*;
use super::VersionRange;

/// A value of the newest revision that older revisions cannot represent unchanged.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Loss {
    /// The value.
    pub what: &'static str,
    /// The revisions that cannot represent it.
    pub lost_in: VersionRange,
    /// Its replacement.
    pub becomes: &'static str,
}

const fn loss(what: &'static str, lost_in: VersionRange, becomes: &'static str) -> Loss {
    Loss { what, lost_in, becomes }
}

/// The second loss table: values that lowering rewrites or cannot represent. The first table is
/// [`MEMBERS`](super::MEMBERS), from which the code that drops members is generated.
pub const LOSSES: &[Loss] = &[
    loss("audio content", VersionRange::only(V2024_11_05), "a text that names its type and size"),
    loss("a resource link", VersionRange::until(V2025_03_26), "a text that names the resource and its URI"),
    loss(
        "tool use and tool result in sampling",
        VersionRange::until(V2025_06_18),
        "a text that says what was called or returned",
    ),
    loss(
        "a sampling message of several blocks",
        VersionRange::until(V2025_06_18),
        "one message per block, of the same role",
    ),
    loss("a sampling message of no blocks", VersionRange::until(V2025_06_18), "no message"),
    loss(
        "a sampling result of several blocks",
        VersionRange::until(V2025_06_18),
        "their text as one block, else the first block",
    ),
    loss("an output schema of something other than an object", VersionRange::until(V2025_11_25), "nothing"),
    loss(
        "structured content other than an object",
        VersionRange::until(V2025_11_25),
        "its JSON as text, unless a text block has the same text",
    ),
    loss(
        "a boolean as the schema of a property",
        VersionRange::until(V2025_11_25),
        "{} for true, {\"not\":{}} for false",
    ),
    loss(
        "titled choices in a form",
        VersionRange::until(V2025_06_18),
        "enum and enumNames; raised back to titled choices",
    ),
    loss("several choices in a form", VersionRange::until(V2025_06_18), "a field for text"),
    loss(
        "the keys of 2026-07-28 in _meta",
        VersionRange::until(V2025_11_25),
        "nothing: replaced by the handshake and logging/setLevel",
    ),
    loss(
        "structured content",
        VersionRange::until(V2025_03_26),
        "its JSON as text, unless a text block has the same text",
    ),
    loss(
        "elicitation capability of a client that supports only URLs",
        VersionRange::only(V2025_06_18),
        "nothing: it would declare forms",
    ),
    loss("a URL elicitation", VersionRange::only(V2025_11_25), "the same with an id from lower_elicitation"),
    loss("a URL elicitation", VersionRange::until(V2025_06_18), "not representable: lower_elicitation fails"),
    loss("input_required", VersionRange::until(V2025_11_25), "not representable: the server sends requests instead"),
    loss("the tasks extension, declared by a client", VersionRange::until(V2025_11_25), "nothing"),
    loss("a created task", VersionRange::only(V2025_11_25), "a task object within the result; raised back"),
    loss(
        "the task keys of 2025-11-25 in _meta",
        VersionRange::since(V2026_07_28),
        "nothing: the tasks extension does not use them",
    ),
    loss("the task keys of 2025-11-25 in _meta", VersionRange::until(V2025_06_18), "nothing"),
    loss(
        "error -32602 that names the URI of a missing resource",
        VersionRange::until(V2025_11_25),
        "-32002; raised back",
    ),
    loss("error -32022", VersionRange::until(V2025_11_25), "-32602 with the same data"),
    loss("errors -32020 and -32021", VersionRange::until(V2025_11_25), "-32600 with the same data"),
    loss("a completed task whose tool failed", VersionRange::only(V2025_11_25), "a failed task; raised back"),
    loss(
        "input requests of a task",
        VersionRange::only(V2025_11_25),
        "requests by the server while tasks/result is open",
    ),
    loss("ttlMs and cacheScope", VersionRange::until(V2025_11_25), "nothing; raised as 0 and private"),
];
