//! Skills: instructions for a model with their files (extension `io.modelcontextprotocol/skills`, SEP-2640).

use std::collections::HashSet;
use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::method;
use crate::types::{CacheScope, Cursor, Meta, PaginatedParams, Resource, ResultType};

/// The extension id.
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";

/// MIME type of a directory.
pub const DIRECTORY_MIME_TYPE: &str = "inode/directory";

/// File name of the main file of a skill.
const SKILL_FILE: &str = "SKILL.md";

/// A skill, as listed. It is identified by its URI and its server, not by its name.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Skill {
    /// URI of the `SKILL.md`.
    pub uri: String,
    /// The frontmatter of the `SKILL.md`, with at least `name` and `description`.
    pub frontmatter: Object,
    /// The files of the skill.
    pub resources: Option<SkillResources>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct SkillFile {
    /// The URI.
    pub uri: String,
    /// `sha256:` and the hash of its bytes, in 64 lowercase hexadecimal digits.
    pub digest: String,
    /// Size in bytes.
    pub size: i64,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The files of a skill.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SkillResources {
    /// Files are generated when they are read, so their digests are unknown.
    Dynamic,
    /// All files, including the `SKILL.md`.
    Files(Vec<SkillFile>),
}

impl Skill {
    /// Recommended maximum number of files in a skill.
    pub const MAX_FILES: usize = 512;

    /// Recommended maximum size of all files of a skill, in bytes.
    pub const MAX_SIZE: u64 = 16 * 1024 * 1024;

    /// Returns the name in the frontmatter. It is not unique.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.frontmatter.get_as("name")?.ok()
    }

    /// Returns the description in the frontmatter.
    #[must_use]
    pub fn description(&self) -> Option<String> {
        self.frontmatter.get_as("description")?.ok()
    }

    /// Returns the URI of the directory; `None` if the URI of the skill does not end in `/SKILL.md`.
    #[must_use]
    pub fn directory(&self) -> Option<&str> {
        self.uri.strip_suffix(SKILL_FILE)?.strip_suffix('/')
    }

    /// Returns the files; `None` if they are dynamic or not listed.
    #[must_use]
    pub fn files(&self) -> Option<&[SkillFile]> {
        match self.resources.as_ref()? {
            SkillResources::Files(files) => Some(files),
            SkillResources::Dynamic => None,
        }
    }

    /// Returns `true` if the files are generated when they are read. They cannot be verified.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        matches!(self.resources, Some(SkillResources::Dynamic))
    }

    /// Returns `true` if the URI is in the directory of the skill.
    #[must_use]
    pub fn contains(&self, uri: &str) -> bool {
        let path = self.directory().and_then(|directory| uri.strip_prefix(directory)?.strip_prefix('/'));
        path.is_some_and(|path| path.split('/').all(is_plain_part))
    }

    /// Checks the entry against the rules of the specification.
    ///
    /// # Errors
    /// If the entry violates a rule.
    pub fn check(&self) -> Result<(), SkillEntryError> {
        let problem = |text: String| Err(SkillEntryError(text));
        let name = self.name().unwrap_or_default();
        if !is_skill_name(&name) {
            return problem(format!("{name:?} is not a name for a skill: {NAME_RULE}"));
        }
        if self.description().is_none_or(|description| description.trim().is_empty()) {
            return problem("it has no description".to_owned());
        }
        let directory = self.directory().unwrap_or_default();
        if directory.rsplit('/').next() != Some(&*name) {
            return problem(format!("its URI does not end in /{name}/{SKILL_FILE}"));
        }
        let files = match &self.resources {
            Some(SkillResources::Files(files)) => files,
            Some(SkillResources::Dynamic) => return Ok(()),
            None => return problem("it does not list its files".to_owned()),
        };
        if files.len() > Self::MAX_FILES {
            return problem(format!("it has {} files; {} are allowed", files.len(), Self::MAX_FILES));
        }
        let mut seen = HashSet::new();
        let mut size = 0_u64;
        for file in files {
            if !self.contains(&file.uri) {
                return problem(format!("{:?} is not within its directory", file.uri));
            }
            if !seen.insert(&*file.uri) {
                return problem(format!("{:?} is listed more than once", file.uri));
            }
            if !is_digest(&file.digest) {
                return problem(format!("the digest of {:?} is not sha256: and 64 lowercase digits", file.uri));
            }
            let Ok(bytes) = u64::try_from(file.size) else {
                return problem(format!("the size of {:?} is below zero", file.uri));
            };
            size = size.saturating_add(bytes);
        }
        if !seen.contains(&*self.uri) {
            return problem(format!("its {SKILL_FILE} is not among its files"));
        }
        if size > Self::MAX_SIZE {
            return problem(format!("its files have {size} bytes; {} are allowed", Self::MAX_SIZE));
        }
        Ok(())
    }
}

/// Error for an invalid skill entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SkillEntryError(String);

/// Description of valid skill names.
const NAME_RULE: &str = "1 to 64 lowercase letters, digits and single hyphens, none of them at an end";

/// Returns `true` if the name is valid: 1 to 64 lowercase letters, digits and single hyphens, with no hyphen at an
/// end.
#[must_use]
pub fn is_skill_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .split('-')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()))
}

/// Returns `true` if a path segment is a plain file or directory name, also after percent-decoding.
fn is_plain_part(part: &str) -> bool {
    let plain = part.to_ascii_lowercase().replace("%2e", ".");
    let has_delimiter = ["?", "#", "\\", "\0", "%2f", "%5c", "%00"].into_iter().any(|text| plain.contains(text));
    !has_delimiter && !matches!(&*plain, "" | "." | "..")
}

fn is_digest(digest: &str) -> bool {
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Serialize for SkillResources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Dynamic => serializer.serialize_str("dynamic"),
            Self::Files(files) => files.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SkillResources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SkillResourcesVisitor;

        impl<'de> Visitor<'de> for SkillResourcesVisitor {
            type Value = SkillResources;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of files or \"dynamic\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SkillResources, E> {
                match text {
                    "dynamic" => Ok(SkillResources::Dynamic),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, files: A) -> Result<SkillResources, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(files)).map(SkillResources::Files)
            }
        }

        deserializer.deserialize_any(SkillResourcesVisitor)
    }
}

crate::revision::opaque!(SkillResources);

/// Result of `skills/list`: a page of skills.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ListSkillsResult {
    /// The skills. The list may be incomplete.
    pub skills: Vec<Skill>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<Cursor>,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Time for which the result may be cached, in milliseconds. Default: 0.
    #[object(default = 0, since = V2026_07_28)]
    pub ttl_ms: Option<i64>,
    /// Caches that may store the result. Default: [`CacheScope::Private`].
    #[object(default = CacheScope::Private, since = V2026_07_28)]
    pub cache_scope: Option<CacheScope>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `skills/get`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct GetSkillParams {
    /// URI of the `SKILL.md`.
    pub uri: String,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of `skills/get`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct GetSkillResult {
    /// The skill.
    pub skill: Skill,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Time for which the result may be cached, in milliseconds. Default: 0.
    #[object(default = 0, since = V2026_07_28)]
    pub ttl_ms: Option<i64>,
    /// Caches that may store the result. Default: [`CacheScope::Private`].
    #[object(default = CacheScope::Private, since = V2026_07_28)]
    pub cache_scope: Option<CacheScope>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `resources/directory/read`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ReadDirectoryParams {
    /// URI of the directory, without a trailing slash.
    pub uri: String,
    /// Cursor of the page to list; `None` for the first page.
    pub cursor: Option<Cursor>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of `resources/directory/read`: a page of directory entries.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ReadDirectoryResult {
    /// Files and directories. Directories have the MIME type [`DIRECTORY_MIME_TYPE`].
    pub resources: Vec<Resource>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<Cursor>,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `skills/list`.
    ListSkills = "skills/list", PaginatedParams => ListSkillsResult
);

method!(
    /// `skills/get`.
    GetSkill = "skills/get", GetSkillParams => GetSkillResult
);

method!(
    /// `resources/directory/read`.
    ReadDirectory = "resources/directory/read", ReadDirectoryParams => ReadDirectoryResult
);

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(resources: &str) -> Skill {
        let text = format!(
            r#"{{"uri":"skill://a/pdf/SKILL.md","frontmatter":{{"name":"pdf","description":"d"}},"resources":{resources}}}"#
        );
        crate::decode(&text).unwrap()
    }

    fn file(uri: &str) -> String {
        format!(r#"{{"uri":"{uri}","digest":"sha256:{}","size":3}}"#, "0".repeat(64))
    }

    #[test]
    fn files_are_listed_or_dynamic_and_nothing_else() {
        assert!(entry(r#""dynamic""#).is_dynamic());
        let listed = entry(&format!("[{}]", file("skill://a/pdf/SKILL.md")));
        assert_eq!(listed.files().unwrap().len(), 1);
        assert!(listed.check().is_ok());
        let again: Skill = crate::RawJson::encode(&listed).unwrap().decode().unwrap();
        assert_eq!(again, listed);
        let error = crate::decode::<Skill>(r#"{"uri":"u","frontmatter":{},"resources":"all"}"#).unwrap_err();
        assert!(error.to_string().contains("a list of files or \"dynamic\""), "{error}");
    }

    #[test]
    fn an_entry_that_breaks_the_rules_says_which() {
        let own = file("skill://a/pdf/SKILL.md");
        for (resources, problem) in [
            (format!("[{own},{own}]"), "listed more than once"),
            (format!("[{own},{}]", file("skill://a/other/x.md")), "not within its directory"),
            (format!("[{own},{}]", file("skill://a/pdf/../x.md")), "not within its directory"),
            (format!("[{}]", file("skill://a/pdf/x.md")), "SKILL.md is not among its files"),
            (format!("[{}]", own.replace("sha256", "sha1")), "the digest of"),
            (format!("[{}]", own.replace(":3}", ":-3}")), "below zero"),
            (format!("[{}]", own.replace(":3}", ":16777217}")), "16777216 are allowed"),
        ] {
            let error = entry(&resources).check().unwrap_err().to_string();
            assert!(error.contains(problem), "{resources}: {error}");
        }
        let unsaid = entry("null");
        assert!(!unsaid.is_dynamic());
        assert!(unsaid.check().unwrap_err().to_string().contains("it does not list its files"));
        let mut misnamed = entry(r#""dynamic""#);
        misnamed.uri = "skill://a/word/SKILL.md".to_owned();
        assert!(misnamed.check().unwrap_err().to_string().contains("/pdf/SKILL.md"));
    }

    #[test]
    fn a_uri_does_not_lead_out_of_a_skill_however_it_is_written() {
        let skill = entry(r#""dynamic""#);
        for within in ["skill://a/pdf/SKILL.md", "skill://a/pdf/x/a%20b.md", "skill://a/pdf/..x", "skill://a/pdf/50%"] {
            assert!(skill.contains(within), "{within}");
        }
        for without in [
            "skill://a/pdf",
            "skill://a/pdf/",
            "skill://a/pdfs/x",
            "skill://a/pdf/./x",
            "skill://a/pdf/../x",
            "skill://a/pdf/%2e%2e/x",
            "skill://a/pdf/%2E./x",
            "skill://a/pdf/x%2f..%2F../x",
            "skill://a/pdf/..%5cx",
            "skill://a/pdf/..\\x",
            "skill://a/pdf/x%00",
            "skill://a/pdf/x?y",
            "skill://a/pdf/x#y",
        ] {
            assert!(!skill.contains(without), "{without}");
        }
    }

    #[test]
    fn names_follow_the_rule() {
        assert!(["a", "pdf-processing", "x1-2"].into_iter().all(is_skill_name) && is_skill_name(&"a".repeat(64)));
        for bad in ["", "-a", "a-", "a--b", "A", "ä", "a b", "a_b", &"a".repeat(65)] {
            assert!(!is_skill_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, when};

        let list_skills_result = ListSkillsResult::new(Vec::new());
        let get_skill_result = GetSkillResult::new(Skill::new("skill://a/SKILL.md", Object::new()));
        let code = [
            ("ListSkillsResult::ttl_ms", count(list_skills_result.ttl_ms.unwrap())),
            (
                "ListSkillsResult::cache_scope",
                when(list_skills_result.cache_scope == Some(CacheScope::Private), "[`CacheScope::Private`]"),
            ),
            ("GetSkillResult::ttl_ms", count(get_skill_result.ttl_ms.unwrap())),
            (
                "GetSkillResult::cache_scope",
                when(get_skill_result.cache_scope == Some(CacheScope::Private), "[`CacheScope::Private`]"),
            ),
        ];
        assert_documented(include_str!("skills.rs"), &code);
    }
}
