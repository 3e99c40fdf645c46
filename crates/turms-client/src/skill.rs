//! Skills: instructions for models, with their files (SEP-2640).

use std::collections::HashSet;

use serde_json::Value;
use turms_core::__internal::debug_error;
use turms_proto::method::Method as _;
use turms_proto::skill::{digest, is_same, parse_header};
use turms_proto::types::{
    Cursor, GetSkill, GetSkillParams, GetSkillResult, ListSkills, ListSkillsResult, ReadDirectory, ReadDirectoryParams,
    ReadDirectoryResult, ReadResource, ReadResourceParams, ReadResourceResult, Resource, ResourceContents, Skill,
};

use crate::call::error::{CallError, CallErrorKind, DecodeCause, Delivery};
use crate::call::options::{Affinity, CallOptions};
use crate::call::{Call, CallRequest};
use crate::client::Client;
use crate::page::{self, Items, MAX_PAGES};

/// Skills, for servers that [declare](Client::server_extension) `io.modelcontextprotocol/skills`. In a group, use the
/// client of each server ([`ClientGroup::client`](crate::ClientGroup::client)).
///
/// Identify a skill by its server and its URI: two servers may use the same URI, and one server may have several skills
/// of the same name. Listing skills does not read their files. A skill is untrusted content: show users which server it
/// comes from, and never grant what its header asks for, such as `allowed-tools`, without their consent.
///
/// ```
/// # use turms_client as turms;
/// use turms::Client;
/// # use turms_server::{Server, Skill, Skills};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let skill = Skill::new("refunds", "Process refunds.").instructions("See examples/email.md.").file("examples/email.md", "Dear");
/// # let server = Server::new("shop", "1.0.0").extension(Skills::new().skill(skill)).build()?;
/// let client = Client::builder("my-app", "1.0.0").connect_service(server).await?;
/// for skill in client.list_skills().await? {
///     println!("{}: {}", skill.uri, skill.description().unwrap_or_default());
///     // Read the skill only when the model asks for it:
///     let instructions = client.read_skill(&skill).await?;
///     let email = client.read_skill_file(&skill, "skill://refunds/examples/email.md").await?;
///     assert_eq!(email.text.as_deref(), Some("Dear"));
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
impl Client {
    /// Lists all skills. A server may have skills that it does not list: see [`Client::get_skill`].
    pub fn list_skills(&self) -> Call<Vec<Skill>> {
        page::list::<ListSkills>(self)
    }

    /// Lists one page of skills.
    pub fn list_skills_page(&self, cursor: impl Into<Option<Cursor>>) -> Call<ListSkillsResult> {
        page::page::<ListSkills>(self, cursor.into())
    }

    /// Returns a stream of all skills, which requests further pages as needed.
    #[must_use]
    pub fn stream_skills(&self) -> Items<Skill> {
        Items::new::<ListSkills>(self)
    }

    /// Returns a skill by the URI of its `SKILL.md`, even if the server does not list it.
    pub fn get_skill(&self, uri: impl Into<String>) -> Call<Skill, SkillError> {
        let uri = uri.into();
        Call::steps(self, |client, options| async move {
            let call = CallRequest::new::<GetSkill>(GetSkillParams::new(&uri)).with_options(options);
            let result: GetSkillResult = client.backend().call(&call).await?.take(&call)?;
            if result.skill.uri != uri {
                return Err(unverified(&uri, format!("the server returned the skill at {:?}", result.skill.uri)));
            }
            Ok(result.skill)
        })
    }

    /// Reads and verifies the `SKILL.md` of a skill: see [`Client::read_skill_file`].
    pub fn read_skill(&self, skill: &Skill) -> Call<ResourceContents, SkillError> {
        self.read_skill_file(skill, skill.uri.clone())
    }

    /// Reads a file of a skill and verifies it against `skill`: the file must be listed there, its size and digest must
    /// match, and so must the header of a `SKILL.md`. A file that does not match is an error, and its contents are not
    /// returned. If the skill has changed meanwhile, [get](Client::get_skill) it again and ask the user for consent
    /// again.
    ///
    /// For a [dynamic](Skill::is_dynamic) skill, only the header can be verified.
    pub fn read_skill_file(&self, skill: &Skill, uri: impl Into<String>) -> Call<ResourceContents, SkillError> {
        let (skill, uri) = (skill.clone(), uri.into());
        Call::steps(self, |client, options| read_file(client, skill, uri, options))
    }

    /// Lists all entries of a directory. `uri` has no trailing slash. Only for servers that declare `directoryRead`.
    pub fn read_directory(&self, uri: impl Into<String>) -> Call<Vec<Resource>, SkillError> {
        let uri = uri.into();
        Call::steps(self, |client, options| read_directory(client, uri, options))
    }
}

/// Error of an operation on skills.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The contents do not match the entry of the skill. They are not returned.
    #[error("resources/read {uri:?}: it does not fit the entry of the skill: {problem}")]
    Unverified {
        /// The URI of the file.
        uri: String,
        /// Description of the difference.
        problem: String,
        /// The delivery of the request; [`Delivery::NotSent`] if the entry itself is invalid or does not list the file.
        delivery: Delivery,
    },
}

impl SkillError {
    /// Returns the error of the call, if the call failed.
    #[must_use]
    pub fn call_error(&self) -> Option<&CallError> {
        match self {
            Self::Call(error) => Some(error),
            Self::Unverified { .. } => None,
        }
    }

    /// Returns the delivery status of the call.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        match self {
            Self::Call(error) => error.delivery(),
            Self::Unverified { delivery, .. } => *delivery,
        }
    }
}

debug_error! { SkillError { Call(error), Unverified { uri, problem, delivery } } }

fn unverified(uri: &str, problem: impl Into<String>) -> SkillError {
    SkillError::Unverified { uri: uri.to_owned(), problem: problem.into(), delivery: Delivery::Answered }
}

async fn read_file(
    client: Client,
    skill: Skill,
    uri: String,
    options: CallOptions,
) -> Result<ResourceContents, SkillError> {
    let not_sent = |problem| SkillError::Unverified { uri: uri.clone(), problem, delivery: Delivery::NotSent };
    skill.check().map_err(|problem| not_sent(format!("the entry of the skill is not valid: {problem}")))?;
    if !is_listed(&skill, &uri) {
        return Err(not_sent(format!("it is not a file of the skill {:?}", skill.uri)));
    }
    // Bypass the cache: a cached response may be older than the entry. `one_server`: a group must not route the call,
    // because a URI does not identify the server of a skill.
    let options = options.with(|options| (options.bypass_cache, options.one_server) = (true, true));
    let call = CallRequest::multi_round::<ReadResource, _>(ReadResourceParams::new(&uri)).with_options(options);
    let result = client.backend().call(&call).await?.take(&call)?;
    let contents = only_contents(result, &uri).map_err(|problem| unverified(&uri, problem))?;
    verify(&skill, &uri, &contents).map_err(|problem| unverified(&uri, problem))?;
    Ok(contents)
}

/// Returns `true` if the skill lists the file, or is dynamic and its directory contains the file.
fn is_listed(skill: &Skill, uri: &str) -> bool {
    match skill.files() {
        Some(files) => files.iter().any(|file| file.uri == uri),
        None => skill.contains(uri),
    }
}

fn only_contents(mut result: ReadResourceResult, uri: &str) -> Result<ResourceContents, String> {
    match (result.contents.pop(), result.contents.len()) {
        (Some(contents), 0) if contents.uri == uri => Ok(contents),
        (Some(contents), 0) => Err(format!("the server returned {:?}", contents.uri)),
        (None, _) => Err("the server returned 0 contents, and a file has one".to_owned()),
        (Some(_), more) => Err(format!("the server returned {} contents, and a file has one", more + 1)),
    }
}

fn verify(skill: &Skill, uri: &str, contents: &ResourceContents) -> Result<(), String> {
    // With both, only one of them would be verified.
    if contents.text.is_some() == contents.blob.is_some() {
        return Err("a file has either text or a blob".to_owned());
    }
    let bytes = contents.bytes().map_err(|error| error.to_string())?;
    if bytes.len() as u64 > Skill::MAX_SIZE {
        return Err(format!("it has {} bytes; a skill may have {}", bytes.len(), Skill::MAX_SIZE));
    }
    if let Some(file) = skill.files().and_then(|files| files.iter().find(|file| file.uri == uri)) {
        if u64::try_from(file.size).ok() != Some(bytes.len() as u64) {
            return Err(format!("it has {} bytes, and {} are listed", bytes.len(), file.size));
        }
        if digest(&bytes) != file.digest {
            return Err(format!("its digest is {}, and {} is listed", digest(&bytes), file.digest));
        }
    }
    if uri != skill.uri {
        return Ok(());
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let header = parse_header(text).map_err(|error| error.to_string())?;
    let listed: Value = skill.frontmatter.decode().map_err(|error| error.to_string())?;
    match differing(&Value::Object(header), &listed) {
        None => Ok(()),
        Some(member) => Err(format!("{member:?} of its header is not as listed")),
    }
}

/// Returns the name of the first member in which two headers differ.
fn differing(one: &Value, other: &Value) -> Option<String> {
    let names = [one, other].into_iter().filter_map(Value::as_object).flat_map(|members| members.keys());
    let differs = |name: &&String| match (one.get(name.as_str()), other.get(name.as_str())) {
        (Some(one), Some(other)) => !is_same(one, other),
        _ => true,
    };
    names.into_iter().find(differs).cloned()
}

async fn read_directory(client: Client, uri: String, options: CallOptions) -> Result<Vec<Resource>, SkillError> {
    let endless = |pages| {
        let kind = CallErrorKind::Decode(DecodeCause::EndlessList(pages));
        SkillError::from(CallError::answered(ReadDirectory::NAME, kind))
    };
    let options = options.with(|it| it.affinity = Some(Affinity::default()));
    let (mut all, mut seen) = (Vec::new(), HashSet::new());
    let mut params = ReadDirectoryParams::new(&uri);
    for pages in 1..=MAX_PAGES {
        let call = CallRequest::new::<ReadDirectory>(params.clone()).with_options(options.clone());
        let result: ReadDirectoryResult = client.backend().call(&call).await?.take(&call)?;
        all.extend(result.resources);
        params.cursor = result.next_cursor;
        match &params.cursor {
            None => return Ok(all),
            Some(cursor) if !seen.insert(cursor.clone()) => return Err(endless(pages)),
            Some(_) => {}
        }
    }
    Err(endless(MAX_PAGES))
}
