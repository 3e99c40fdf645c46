//! Skills: instructions for models, with the files that belong to them (SEP-2640).

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

/// Skills of servers that [declare](Client::server_extension) `io.modelcontextprotocol/skills`. In a group, use the client of each
/// server ([`ClientGroup::client`](crate::ClientGroup::client)).
///
/// A skill is known by its server and its URI: two servers may have skills of the same URI, and one server several of the same
/// name. Nothing is read ahead: listing skills reads none of their files. What a skill says is the word of its server and no
/// more; show people where it comes from, and never grant what its header asks for, such as `allowed-tools`, without asking
/// them.
///
/// ```
/// use turms_client::Client;
/// # use turms_server::{Server, Skill, Skills};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let skill = Skill::new("refunds", "Process refunds.").instructions("See examples/email.md.").file("examples/email.md", "Dear");
/// # let server = Server::new("shop", "1.0.0").extension(Skills::new().skill(skill)).build()?;
/// let client = Client::builder("my-app", "1.0.0").connect_service(server).await?;
/// for skill in client.list_skills().await? {
///     println!("{}: {}", skill.uri, skill.description().unwrap_or_default());
///     // When the model wants it, and not before:
///     let instructions = client.read_skill(&skill).await?;
///     let email = client.read_skill_file(&skill, "skill://refunds/examples/email.md").await?;
///     assert_eq!(email.text.as_deref(), Some("Dear"));
/// }
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
impl Client {
    /// All skills that the server lists. It may have more: see [`Client::get_skill`].
    pub fn list_skills(&self) -> Call<Vec<Skill>> {
        page::list::<ListSkills>(self)
    }

    /// One page of skills.
    pub fn list_skills_page(&self, cursor: impl Into<Option<Cursor>>) -> Call<ListSkillsResult> {
        page::page::<ListSkills>(self, cursor.into())
    }

    /// All skills, a page at a time as they are read.
    #[must_use]
    pub fn stream_skills(&self) -> Items<Skill> {
        Items::new::<ListSkills>(self)
    }

    /// One skill, by the URI of its `SKILL.md`, whether it is listed or not.
    pub fn get_skill(&self, uri: impl Into<String>) -> Call<Skill, SkillError> {
        let uri = uri.into();
        Call::steps(self, |client, options| async move {
            let call = CallRequest::new::<GetSkill>(GetSkillParams::new(&uri)).with_options(options);
            let result: GetSkillResult = client.backend().call(&call).await?.take(&call)?;
            if result.skill.uri != uri {
                return Err(unverified(&uri, format!("the server answered with the skill at {:?}", result.skill.uri)));
            }
            Ok(result.skill)
        })
    }

    /// Reads the `SKILL.md` of a skill, as [`Client::read_skill_file`] does.
    pub fn read_skill(&self, skill: &Skill) -> Call<ResourceContents, SkillError> {
        self.read_skill_file(skill, skill.uri.clone())
    }

    /// Reads a file of a skill and holds it against what the skill's entry says: that the file is one of the skill's, its size,
    /// its digest, and of a `SKILL.md` the header. What does not fit is an error, and nothing of it is handed out; a skill that
    /// has changed since has to be [got](Client::get_skill) again, and people have to agree to it again.
    ///
    /// Of a [dynamic](Skill::is_dynamic) skill only the header can be checked.
    pub fn read_skill_file(&self, skill: &Skill, uri: impl Into<String>) -> Call<ResourceContents, SkillError> {
        let (skill, uri) = (skill.clone(), uri.into());
        Call::steps(self, |client, options| read_file(client, skill, uri, options))
    }

    /// All that is in a directory, which is a URI without a slash at the end. Only for servers that declare `directoryRead`.
    pub fn read_directory(&self, uri: impl Into<String>) -> Call<Vec<Resource>, SkillError> {
        let uri = uri.into();
        Call::steps(self, |client, options| read_directory(client, uri, options))
    }
}

/// The error of an operation on skills.
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
        /// The difference.
        problem: String,
        /// [`Delivery::NotSent`] if the entry itself is not valid.
        delivery: Delivery,
    },
}

impl SkillError {
    /// The error of the call, if that is what failed.
    #[must_use]
    pub fn call_error(&self) -> Option<&CallError> {
        match self {
            Self::Call(error) => Some(error),
            Self::Unverified { .. } => None,
        }
    }

    /// The delivery of the call.
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
    let unasked = |problem| SkillError::Unverified { uri: uri.clone(), problem, delivery: Delivery::NotSent };
    skill.check().map_err(|problem| unasked(format!("the entry of the skill is not valid: {problem}")))?;
    if !is_listed(&skill, &uri) {
        return Err(unasked(format!("it is not a file of the skill {:?}", skill.uri)));
    }
    // A cached response may be older than the entry. A URI does not say whose skill it is, so no group may choose the server.
    let options = options.with(|options| (options.bypass_cache, options.one_server) = (true, true));
    let call = CallRequest::multi_round::<ReadResource, _>(ReadResourceParams::new(&uri)).with_options(options);
    let result = client.backend().call(&call).await?.take(&call)?;
    let contents = only_contents(result, &uri).map_err(|problem| unverified(&uri, problem))?;
    verify(&skill, &uri, &contents).map_err(|problem| unverified(&uri, problem))?;
    Ok(contents)
}

fn is_listed(skill: &Skill, uri: &str) -> bool {
    match skill.files() {
        Some(files) => files.iter().any(|file| file.uri == uri),
        None => skill.contains(uri),
    }
}

fn only_contents(mut result: ReadResourceResult, uri: &str) -> Result<ResourceContents, String> {
    match (result.contents.pop(), result.contents.len()) {
        (Some(contents), 0) if contents.uri == uri => Ok(contents),
        (Some(contents), 0) => Err(format!("the server answered with {:?}", contents.uri)),
        (None, _) => Err("the server answered with 0 contents, and a file has one".to_owned()),
        (Some(_), more) => Err(format!("the server answered with {} contents, and a file has one", more + 1)),
    }
}

fn verify(skill: &Skill, uri: &str, contents: &ResourceContents) -> Result<(), String> {
    // One of two would be handed out without having been looked at.
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

/// The first member in which two headers differ.
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
