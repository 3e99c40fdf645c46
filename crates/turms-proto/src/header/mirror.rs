//! Comparison of headers with the parts of the body that they mirror.

use super::value::{HeaderError, decode_value};
use super::{METHOD, NAME, PROTOCOL_VERSION};
use crate::method::Method as _;
use crate::types::{CallTool, CancelTask, GetPrompt, GetTask, ReadResource, UpdateTask};

/// Returns the member of `params` that the `Mcp-Name` header mirrors; `None` for methods without that header.
///
/// ```
/// use turms_proto::header::name_member;
///
/// assert_eq!(name_member("resources/read"), Some("uri"));
/// assert_eq!(name_member("tools/list"), None);
/// ```
#[must_use]
pub fn name_member(method: &str) -> Option<&'static str> {
    match method {
        CallTool::NAME | GetPrompt::NAME => Some("name"),
        ReadResource::NAME => Some("uri"),
        GetTask::NAME | UpdateTask::NAME | CancelTask::NAME => Some("taskId"),
        _ => None,
    }
}

/// The values of one header in a request.
///
/// An HTTP server creates it from the headers of its HTTP library and passes it to the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderLookup<'a> {
    /// The header is absent.
    Absent,
    /// The header occurs once.
    One(&'a str),
    /// The header occurs more than once.
    Repeated,
    /// The header has bytes that are not visible ASCII, spaces or tabs.
    NotText,
}

impl<'a> HeaderLookup<'a> {
    /// Creates a lookup from all values of the header, as strings or decoding errors.
    pub fn from_values<E>(values: impl IntoIterator<Item = Result<&'a str, E>>) -> Self {
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (None, _) => Self::Absent,
            (Some(Ok(value)), None) => Self::One(value),
            (Some(Err(_)), None) => Self::NotText,
            (Some(_), Some(_)) => Self::Repeated,
        }
    }
}

impl<'a> From<Option<&'a str>> for HeaderLookup<'a> {
    fn from(value: Option<&'a str>) -> Self {
        value.map_or(Self::Absent, Self::One)
    }
}

/// Compares the `MCP-Protocol-Version` header with the revision in the `_meta` of the body.
///
/// # Errors
///
/// If the header is missing, malformed or different.
pub fn check_version(found: HeaderLookup<'_>, version: &str) -> Result<(), HeaderMismatch> {
    Mirror { header: PROTOCOL_VERSION, place: META_VERSION }.check_literal(found, version)
}

const META_VERSION: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";

/// Compares the `Mcp-Method` header with the method of the request.
///
/// The value is compared literally, without decoding, so that intermediaries read the same method.
///
/// # Errors
///
/// If the header is missing, malformed or different.
pub fn check_method(found: HeaderLookup<'_>, method: &str) -> Result<(), HeaderMismatch> {
    Mirror { header: METHOD, place: "/method" }.check_literal(found, method)
}

/// Compares the `Mcp-Name` header with `name`, the value of the member given by [`name_member`]; `None` if it is
/// absent.
///
/// Succeeds for methods without such a member.
///
/// ```
/// use turms_proto::header::{HeaderLookup, check_name};
///
/// assert!(check_name(HeaderLookup::One("add"), "tools/call", Some("add")).is_ok());
/// let error = check_name(HeaderLookup::One("sub"), "tools/call", Some("add")).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"header "mcp-name" says "sub", which is not what the request body says at "/params/name""#,
/// );
/// ```
///
/// # Errors
///
/// If the header is missing, malformed or different, or if it is present although the body has no such member.
pub fn check_name(found: HeaderLookup<'_>, method: &str, name: Option<&str>) -> Result<(), HeaderMismatch> {
    let Some(member) = name_member(method) else {
        return Ok(());
    };
    let place = match member {
        "name" => "/params/name",
        "uri" => "/params/uri",
        member => &format!("/params/{member}"),
    };
    Mirror { header: NAME, place }.check(found, name, |value, name| value == name)
}

/// A header and the part of the body that it mirrors.
#[derive(Clone, Copy)]
pub(super) struct Mirror<'a> {
    pub(super) header: &'a str,
    /// A JSON pointer into the body.
    pub(super) place: &'a str,
}

impl Mirror<'_> {
    /// Compares the decoded header with the value in the body.
    pub(super) fn check<B>(
        self,
        found: HeaderLookup<'_>,
        body: Option<B>,
        is_same: impl FnOnce(&str, B) -> bool,
    ) -> Result<(), HeaderMismatch> {
        match (self.single(found)?, body) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(self.missing()),
            (Some(_), None) => Err(HeaderMismatch::Unexpected { header: self.header(), place: self.place() }),
            (Some(value), Some(body)) => {
                let decoded =
                    decode_value(value).map_err(|source| HeaderMismatch::Encoding { header: self.header(), source })?;
                if is_same(&decoded, body) { Ok(()) } else { Err(self.different(value)) }
            }
        }
    }

    fn check_literal(self, found: HeaderLookup<'_>, body: &str) -> Result<(), HeaderMismatch> {
        let value = self.single(found)?.ok_or_else(|| self.missing())?;
        if value.trim_matches([' ', '\t']) == body { Ok(()) } else { Err(self.different(value)) }
    }

    fn single(self, found: HeaderLookup<'_>) -> Result<Option<&str>, HeaderMismatch> {
        match found {
            HeaderLookup::Absent => Ok(None),
            HeaderLookup::One(value) => Ok(Some(value)),
            HeaderLookup::Repeated => Err(HeaderMismatch::Repeated { header: self.header() }),
            HeaderLookup::NotText => Err(HeaderMismatch::NotText { header: self.header() }),
        }
    }

    fn missing(self) -> HeaderMismatch {
        HeaderMismatch::Missing { header: self.header(), place: self.place() }
    }

    fn different(self, value: &str) -> HeaderMismatch {
        let value = value.trim_matches([' ', '\t']).chars().take(MAX_SHOWN).collect();
        HeaderMismatch::Different { header: self.header(), place: self.place(), value }
    }

    fn header(self) -> String {
        self.header.to_owned()
    }

    fn place(self) -> String {
        self.place.to_owned()
    }
}

/// Maximum number of characters of a header value in an error.
const MAX_SHOWN: usize = 64;

/// A mismatch between the headers and the body of a request.
///
/// A server responds with status 400 and error -32020. The messages say what the client must change. They contain at
/// most the beginning of the header value, and no part of the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderMismatch {
    /// The body has a value, but the header is missing.
    #[error("header {header:?} is missing; it must repeat what the request body says at {place:?}")]
    Missing {
        /// Name of the header.
        header: String,
        /// A JSON pointer into the body.
        place: String,
    },
    /// The header is present, but the body has no value.
    #[error("header {header:?} must not be sent; the request body has nothing at {place:?}")]
    Unexpected {
        /// Name of the header.
        header: String,
        /// A JSON pointer into the body.
        place: String,
    },
    /// Header and body differ.
    #[error("header {header:?} says {value:?}, which is not what the request body says at {place:?}")]
    Different {
        /// Name of the header.
        header: String,
        /// A JSON pointer into the body.
        place: String,
        /// The beginning of the header value, as received.
        value: String,
    },
    /// The header occurs more than once.
    #[error("header {header:?} must be sent only once")]
    Repeated {
        /// Name of the header.
        header: String,
    },
    /// The header contains bytes other than visible ASCII, spaces and tabs.
    #[error("header {header:?} must consist of visible ASCII characters, spaces and tabs")]
    NotText {
        /// Name of the header.
        header: String,
    },
    /// The header has the encoding markers but cannot be decoded.
    #[error("header {header:?} cannot be decoded")]
    Encoding {
        /// Name of the header.
        header: String,
        /// The decoding error.
        source: HeaderError,
    },
    /// The body has a value that cannot be mirrored in a header.
    #[error(transparent)]
    Argument(HeaderError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_tells_no_value_one_value_and_several_apart() {
        let lookup = |values: &[Result<&'static str, ()>]| HeaderLookup::from_values(values.iter().copied());
        assert_eq!(lookup(&[]), HeaderLookup::Absent);
        assert_eq!(lookup(&[Ok("a")]), HeaderLookup::One("a"));
        assert_eq!(lookup(&[Err(())]), HeaderLookup::NotText);
        for repeated in [[Ok("a"), Ok("a")], [Err(()), Ok("a")]] {
            assert_eq!(lookup(&repeated), HeaderLookup::Repeated);
        }
    }

    #[test]
    fn every_method_with_a_name_has_its_member() {
        for (method, member) in [
            ("tools/call", Some("name")),
            ("prompts/get", Some("name")),
            ("resources/read", Some("uri")),
            ("tasks/get", Some("taskId")),
            ("tasks/update", Some("taskId")),
            ("tasks/cancel", Some("taskId")),
            ("tools/list", None),
            ("tasks/result", None),
            ("", None),
        ] {
            assert_eq!(name_member(method), member, "{method}");
        }
    }

    #[test]
    fn the_method_is_compared_with_regard_to_case_and_without_whitespace_around() {
        assert!(check_method(HeaderLookup::One(" tools/call\t"), "tools/call").is_ok());
        assert!(check_method(HeaderLookup::One("Tools/call"), "tools/call").is_err());
        assert!(check_method(HeaderLookup::One(""), "tools/call").is_err());
    }

    #[test]
    fn the_method_cannot_be_hidden_in_base64() {
        assert!(check_method(HeaderLookup::One("=?base64?dG9vbHMvY2FsbA==?="), "tools/call").is_err());
    }

    #[test]
    fn the_name_may_be_encoded() {
        assert!(check_name(HeaderLookup::One("=?base64?w6k=?="), "tools/call", Some("é")).is_ok());
        let error = check_name(HeaderLookup::One("=?base64?w6k?="), "tools/call", Some("é")).unwrap_err();
        assert_eq!(error, HeaderMismatch::Encoding { header: NAME.to_owned(), source: HeaderError::Base64 });
    }

    #[test]
    fn a_name_is_compared_only_where_there_is_one() {
        assert!(check_name(HeaderLookup::One("x"), "tools/list", None).is_ok());
        assert!(check_name(HeaderLookup::Repeated, "tools/list", None).is_ok());
        assert!(check_name(HeaderLookup::Absent, "tools/call", None).is_ok());
        assert!(check_name(HeaderLookup::One("x"), "tools/call", None).is_err());
        assert!(check_name(HeaderLookup::Absent, "tools/call", Some("x")).is_err());
    }

    #[test]
    fn errors_say_what_to_change() {
        let cases = [
            (
                HeaderLookup::Absent,
                "header \"mcp-method\" is missing; it must repeat what the request body says at \"/method\"",
            ),
            (HeaderLookup::Repeated, "header \"mcp-method\" must be sent only once"),
            (HeaderLookup::NotText, "header \"mcp-method\" must consist of visible ASCII characters, spaces and tabs"),
            (
                HeaderLookup::One(" a\u{1b} "),
                "header \"mcp-method\" says \"a\\u{1b}\", which is not what the request body says at \"/method\"",
            ),
        ];
        for (found, message) in cases {
            assert_eq!(check_method(found, "tools/call").unwrap_err().to_string(), message);
        }
        let version = check_version(HeaderLookup::One("2025-11-25"), "2026-07-28").unwrap_err().to_string();
        assert!(version.contains("io.modelcontextprotocol~1protocolVersion"), "{version}");
    }

    #[test]
    fn errors_repeat_neither_the_body_nor_all_of_a_long_header() {
        let error = check_name(HeaderLookup::One(&"x".repeat(9_000)), "resources/read", Some("secret")).unwrap_err();
        assert!(error.to_string().len() < 200);
        assert!(!format!("{error:?}").contains("secret"));
    }
}
