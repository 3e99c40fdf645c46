//! Formats of strings. Unknown formats are ignored.

mod content;
mod idna;
mod internet;
mod time;
mod uri;

pub(crate) use self::content::Content;
use super::budget::Budget;
use super::keyword::Draft;
use super::pattern::{is_valid, validity_steps};
use super::reference::is_pointer;

/// A known format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Date,
    DateTime,
    Duration,
    Email,
    Hostname,
    /// Host names before draft 7, without internationalized names.
    PlainHostname,
    Ipv4,
    Ipv6,
    Iri,
    IriReference,
    JsonPointer,
    Regex,
    RelativeJsonPointer,
    Time,
    Uri,
    UriReference,
    UriTemplate,
    Uuid,
}

/// The formats by name, with the first draft in which they are checked. `date`, `regex` and `time` are defined in drafts 3
/// and 7; they are checked in drafts 4 and 6, too.
const FORMATS: [(&str, Format, Draft); 17] = [
    ("date", Format::Date, Draft::Four),
    ("date-time", Format::DateTime, Draft::Four),
    ("duration", Format::Duration, Draft::Of2019),
    ("email", Format::Email, Draft::Four),
    ("hostname", Format::Hostname, Draft::Four),
    ("ipv4", Format::Ipv4, Draft::Four),
    ("ipv6", Format::Ipv6, Draft::Four),
    ("iri", Format::Iri, Draft::Seven),
    ("iri-reference", Format::IriReference, Draft::Seven),
    ("json-pointer", Format::JsonPointer, Draft::Six),
    ("regex", Format::Regex, Draft::Four),
    ("relative-json-pointer", Format::RelativeJsonPointer, Draft::Seven),
    ("time", Format::Time, Draft::Four),
    ("uri", Format::Uri, Draft::Four),
    ("uri-reference", Format::UriReference, Draft::Six),
    ("uri-template", Format::UriTemplate, Draft::Six),
    ("uuid", Format::Uuid, Draft::Of2019),
];

impl Format {
    /// Returns the format with this name, if it is checked in the dialect.
    pub(crate) fn of_name(name: &str, draft: Draft) -> Option<Self> {
        let (_, format, since) = FORMATS.iter().find(|(known, ..)| *known == name)?;
        let format = match format {
            Self::Hostname if draft < Draft::Seven => Self::PlainHostname,
            format => *format,
        };
        (draft >= *since).then_some(format)
    }

    pub(crate) fn name(self) -> &'static str {
        let format = if self == Self::PlainHostname { Self::Hostname } else { self };
        FORMATS.iter().find(|(_, known, _)| *known == format).map_or("", |(name, ..)| name)
    }

    /// Returns `true` if the text has the format. Returns `false` if the budget is exhausted, too.
    pub(crate) fn holds(self, text: &str, budget: &mut Budget) -> bool {
        let length = text.len() as u64;
        let steps = match self {
            Self::Regex => validity_steps(text),
            // Several passes over the text.
            Self::Email | Self::Iri | Self::IriReference | Self::Uri | Self::UriReference | Self::UriTemplate => {
                4 * length
            }
            _ => length,
        };
        if !budget.charge(steps) {
            return false;
        }
        match self {
            Self::Date => time::is_date(text),
            Self::DateTime => time::is_date_time(text),
            Self::Duration => time::is_duration(text),
            Self::Time => time::is_time(text),
            Self::Email => internet::is_email(text),
            Self::Hostname => internet::is_hostname(text),
            Self::PlainHostname => internet::is_plain_hostname(text),
            Self::Ipv4 => text.parse::<std::net::Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<std::net::Ipv6Addr>().is_ok(),
            Self::Uuid => internet::is_uuid(text),
            Self::Iri => uri::is_absolute(text, uri::Letters::Any),
            Self::IriReference => uri::is_reference(text, uri::Letters::Any),
            Self::Uri => uri::is_absolute(text, uri::Letters::Ascii),
            Self::UriReference => uri::is_reference(text, uri::Letters::Ascii),
            Self::UriTemplate => uri::is_template(text),
            Self::JsonPointer => is_pointer(text),
            Self::RelativeJsonPointer => is_relative_pointer(text),
            Self::Regex => is_valid(text),
        }
    }
}

/// Returns `true` for a relative JSON pointer: a number of levels, followed by a pointer or `#`.
fn is_relative_pointer(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (up, rest) = text.split_at(digits);
    let is_number = up == "0" || digits > 0 && !up.starts_with('0');
    is_number && (rest == "#" || is_pointer(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_valid_and_reject_invalid_strings() {
        for (format, valid, invalid) in [
            (
                "date",
                vec!["2024-02-29", "0000-01-01"],
                vec!["2023-02-29", "2024-13-01", "2024-1-1", "20240101", "২024-01-01"],
            ),
            (
                "time",
                vec!["10:00:00Z", "23:59:60Z", "00:59:60.5+01:00", "10:00:00.123-00:30"],
                vec!["10:00:00", "24:00:00Z", "10:00:60Z", "10:00:00.Z", "10:00:00+24:00", "10:00Z"],
            ),
            (
                "date-time",
                vec!["2026-07-28T10:00:00Z", "2026-07-28t10:00:00z"],
                vec!["2026-07-28 10:00:00Z", "2026-07-28", "yesterday"],
            ),
            (
                "duration",
                vec!["P1Y2M3DT4H5M6S", "P1W", "PT0S", "P1D"],
                vec!["", "P", "PT", "1D", "P1", "P1WT1H", "P1D1Y", "P-1D"],
            ),
            (
                "email",
                vec!["a@b.example", "a.b+c@localhost", "\"a b\"@c.example", "a@[127.0.0.1]", "a@[IPv6:::1]"],
                vec!["nobody", "@b", "a@", ".a@b", "a..b@c", "a b@c", "a@[1]", "ä@b.example"],
            ),
            (
                "hostname",
                vec!["localhost", "a-b.example", "1.example", "xn--nxasmq6b"],
                vec!["", "-a", "a-", "a_b", "a..b", "a.", "ab--c", "ä.example"],
            ),
            ("ipv4", vec!["127.0.0.1"], vec!["127.0.0", "256.0.0.1", "01.2.3.4", "1.2.3.4/8"]),
            ("ipv6", vec!["::1", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8"], vec!["1:2", "::1%eth0", ":::", "12345::"]),
            (
                "uri",
                vec!["http://a.example/b?c#d", "urn:x:y", "mailto:a@b", "http://[::1]:80/", "a:"],
                vec![
                    "//a",
                    "a",
                    "http://a b",
                    "http://[::1",
                    "http://a:b",
                    "1:a",
                    "http://ä.example",
                    "a:%zz",
                    "a:\\",
                    "a:#b#",
                ],
            ),
            (
                "uri-reference",
                vec!["", "a", "/a/b", "?q", "#f", "//h/p", "http://a"],
                vec!["a b", "\\", "%", "1a:b", "#a#b"],
            ),
            ("iri", vec!["http://ä.example/ö"], vec!["ä", "http://a b"]),
            ("iri-reference", vec!["ä"], vec!["ä b"]),
            (
                "uri-template",
                vec!["/a/{b}", "{+c}", "{a,b.c*,d:3}", "{a}{a}", "ä"],
                vec!["/a/{b", "/a/}", "{}", "{a b}", "{a:0}", "{%4}", "a b", "{a,}"],
            ),
            (
                "uuid",
                vec!["2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2EB8AA08-AA98-11EA-B4AA-73B441D16380"],
                vec![
                    "2eb8aa08aa9811eab4aa73b441d16380",
                    "2eb8aa08-aa98-11ea-b4aa-73b441d1638g",
                    "2eb8-aa08-aa98-11ea-b4aa-73b441d16380aa",
                ],
            ),
            ("json-pointer", vec!["", "/", "/a~0b/~1"], vec!["a", "/~", "/~2", "#/a"]),
            ("relative-json-pointer", vec!["0", "1/a", "12#", "0#"], vec!["", "01", "/a", "1a", "-1", "0##"]),
            ("regex", vec!["^[a-z]+$", "(?!a)"], vec!["(", "[", "^(abc]"]),
        ] {
            let format = Format::of_name(format, Draft::Of2020).unwrap();
            let holds = |text: &str| format.holds(text, &mut Budget::new(u64::MAX));
            valid.iter().for_each(|text| assert!(holds(text), "{} {text:?}", format.name()));
            invalid.iter().for_each(|text| assert!(!holds(text), "{} {text:?}", format.name()));
        }
        assert_eq!(Format::of_name("uuid", Draft::Seven), None);
        assert_eq!(Format::of_name("unheard-of", Draft::Of2020), None);
    }
}
