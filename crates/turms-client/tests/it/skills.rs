//! Skills of a client: from a valid server over several transports, and from servers that break the rules.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use turms_client::{
    CallErrorKind, Client, ClientBuilder, ClientGroup, Delivery, NoServerCause, SkillError, VersionCache,
};
use turms_core::transport::LocalConnector;
use turms_http::{HttpConnector, Listener, ServeHttp as _};
use turms_proto::skill::digest;
use turms_proto::types::{ResourceContents, SKILLS_EXTENSION, SkillResources};
use turms_proto::{ErrorCode, Object, ProtocolVersion};
use turms_server::{ExtensionBuilder, Resource, ResourceUri, Server, ServerExtension, Skill, Skills};

const TEXT: &str = "---\nname: pdf\ndescription: About PDFs\nmetadata:\n  version: 2.0\n---\nBody.\n";
const MANIFEST: &str = "skill://pdf/SKILL.md";

fn builder() -> ClientBuilder {
    Client::builder("suite", "1.0.0").version_cache(VersionCache::new())
}

async fn over_http(server: Server, version: ProtocolVersion) -> Client {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let connector = HttpConnector::new(format!("http://{}/mcp", listener.address())).unwrap().no_proxy();
    tokio::spawn(listener.serve(server.into_http_service().unwrap()));
    builder().protocol_version(version).connect(connector).await.unwrap()
}

fn good() -> Server {
    let pdf = Skill::new("pdf", "About PDFs")
        .field("metadata", json!({ "version": 2.0, "list": [1, "a"] }))
        .instructions("Body.\n")
        .file("references/FORMS.md", "forms")
        .file("logo.bin", vec![0xff, 0, 1]);
    let word = Skill::new("word", "About words");
    Server::new("skills", "1.0.0").extension(Skills::new().page_size(1).skill(pdf).skill(word))
}

#[tokio::test]
async fn the_skills_of_a_server_are_listed_got_and_read() {
    for version in [ProtocolVersion::LATEST, ProtocolVersion::LATEST_WITH_HANDSHAKE] {
        let local = builder().protocol_version(version).connect_service(good().build().unwrap()).await.unwrap();
        for client in [local, over_http(good(), version).await] {
            let skills = client.list_skills().await.unwrap();
            let uris: Vec<_> = skills.iter().map(|skill| skill.uri.as_str()).collect();
            assert_eq!(uris, [MANIFEST, "skill://word/SKILL.md"]);
            assert_eq!(client.list_skills_page(None).await.unwrap().skills.len(), 1);
            let mut streamed = client.stream_skills();
            assert_eq!(streamed.next().await.unwrap().unwrap(), skills[0]);
            let pdf = client.get_skill(MANIFEST).await.unwrap();
            assert_eq!(pdf, skills[0]);
            assert!(client.read_skill(&pdf).await.unwrap().text.unwrap().ends_with("Body.\n"));
            let logo = client.read_skill_file(&pdf, "skill://pdf/logo.bin").await.unwrap();
            assert_eq!(logo.bytes().unwrap(), [0xff, 0, 1]);
            let children = client.read_directory("skill://pdf").await.unwrap();
            assert_eq!(children.len(), 3);
            let error = client.get_skill("skill://none/SKILL.md").await.unwrap_err();
            assert_eq!(error.call_error().unwrap().error_response().unwrap().code, ErrorCode::INVALID_PARAMS);
        }
    }
}

type Given = dyn Fn(&str) -> Vec<ResourceContents> + Send + Sync;

/// A server that returns a given list and given contents, and records what is read.
struct Liar {
    entry: Value,
    given: Box<Given>,
    read: Arc<Mutex<Vec<String>>>,
}

impl ServerExtension for Liar {
    fn id(&self) -> &str {
        SKILLS_EXTENSION
    }

    fn register(self: Arc<Self>, scope: ExtensionBuilder) -> ExtensionBuilder {
        let (list, one) = (json!({ "skills": [self.entry] }), json!({ "skill": self.entry }));
        scope
            .method_for_any_client("skills/list", move |_: Object, _| std::future::ready(Ok(list.clone())))
            .method_for_any_client("skills/get", move |_: Object, _| std::future::ready(Ok(one.clone())))
            .resource(Resource::builder("skill://{+path}").handler_sync(move |uri: ResourceUri| {
                self.read.lock().unwrap().push(uri.0.clone());
                (self.given)(&uri.0)
            }))
    }
}

fn entry() -> Value {
    let file = |uri: &str, text: &str| json!({ "uri": uri, "digest": digest(text.as_bytes()), "size": text.len() });
    json!({
        "uri": MANIFEST,
        // `2` and `2.0` are the same number.
        "frontmatter": { "name": "pdf", "description": "About PDFs", "metadata": { "version": 2 } },
        "resources": [file(MANIFEST, TEXT), file("skill://pdf/a.md", "aaa")],
    })
}

struct Played {
    client: Client,
    read: Arc<Mutex<Vec<String>>>,
}

async fn play(entry: Value, given: impl Fn(&str) -> Vec<ResourceContents> + Send + Sync + 'static) -> Played {
    let read = Arc::<Mutex<Vec<String>>>::default();
    let liar = Liar { entry, given: Box::new(given), read: read.clone() };
    let server = Server::new("liar", "1").extension(liar).build().unwrap();
    Played { client: builder().connect_service(server).await.unwrap(), read }
}

fn honest(uri: &str) -> Vec<ResourceContents> {
    vec![ResourceContents::from_text(uri, if uri == MANIFEST { TEXT } else { "aaa" })]
}

fn problem(error: &SkillError) -> &str {
    match error {
        SkillError::Unverified { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn contents_that_do_not_match_the_entry_are_an_error() {
    let evil = TEXT.replace("Body", "Evil");
    let longer = format!("{TEXT}more");
    for (text, expected) in [(evil, "its digest is sha256:"), (longer, "bytes, and")] {
        let played = play(entry(), move |uri| vec![ResourceContents::from_text(uri, text.clone())]).await;
        let skill = played.client.list_skills().await.unwrap().remove(0);
        let error = played.client.read_skill(&skill).await.unwrap_err();
        assert!(problem(&error).contains(expected), "{error}");
    }
}

#[tokio::test]
async fn front_matter_that_differs_from_the_entry_is_an_error() {
    let played = play(entry(), honest).await;
    let skill = played.client.list_skills().await.unwrap().remove(0);
    assert_eq!(played.client.read_skill(&skill).await.unwrap().text.as_deref(), Some(TEXT));
    for (change, member) in [
        (json!({ "name": "pdf", "description": "Safe", "metadata": { "version": 2 } }), "description"),
        (json!({ "name": "pdf", "description": "About PDFs" }), "metadata"),
        (json!({ "name": "pdf", "description": "About PDFs", "metadata": { "version": 3 } }), "metadata"),
        (json!({ "name": "pdf", "description": "About PDFs", "metadata": { "version": 2 }, "x": 1 }), "x"),
    ] {
        let mut other = skill.clone();
        other.frontmatter = Object::encode(&change).unwrap();
        let error = played.client.read_skill(&other).await.unwrap_err();
        assert_eq!(problem(&error), format!("{member:?} of its header is not as listed"));
        other.resources = Some(SkillResources::Dynamic);
        let error = played.client.read_skill(&other).await.unwrap_err();
        assert_eq!(problem(&error), format!("{member:?} of its header is not as listed"), "dynamic");
    }
}

#[tokio::test]
async fn a_file_that_is_not_listed_is_not_read() {
    let played = play(entry(), honest).await;
    let skill = played.client.get_skill(MANIFEST).await.unwrap();
    for uri in ["skill://pdf/b.md", "skill://other/SKILL.md", "file:///etc/passwd", "skill://pdf", ""] {
        let error = played.client.read_skill_file(&skill, uri).await.unwrap_err();
        assert!(problem(&error).contains("not a file of the skill"), "{error}");
        assert_eq!(error.delivery(), Delivery::NotSent);
    }
    let mut dynamic = skill.clone();
    dynamic.resources = Some(SkillResources::Dynamic);
    for uri in ["skill://pdf/../other", "skill://pdf/%2e%2e/other", "skill://other/x", "skill://pdfs/x"] {
        assert!(played.client.read_skill_file(&dynamic, uri).await.is_err(), "{uri}");
    }
    assert!(played.read.lock().unwrap().is_empty());
    played.client.read_skill_file(&dynamic, "skill://pdf/a.md").await.unwrap();
}

#[tokio::test]
async fn files_are_read_on_demand() {
    let played = play(entry(), honest).await;
    let skills = played.client.list_skills().await.unwrap();
    played.client.get_skill(MANIFEST).await.unwrap();
    assert!(played.read.lock().unwrap().is_empty());
    played.client.read_skill_file(&skills[0], "skill://pdf/a.md").await.unwrap();
    assert_eq!(*played.read.lock().unwrap(), ["skill://pdf/a.md"]);
}

#[tokio::test]
async fn a_response_without_the_file_is_an_error() {
    for given in [0, 2, 3] {
        let played = play(entry(), move |uri| match given {
            3 => vec![ResourceContents::from_text("skill://pdf/a.md", TEXT)],
            count => (0..count).map(|_| ResourceContents::from_text(uri, TEXT)).collect(),
        })
        .await;
        let skill = played.client.list_skills().await.unwrap().remove(0);
        let error = played.client.read_skill(&skill).await.unwrap_err();
        let expected = match given {
            0 => "0 contents",
            2 => "2 contents",
            _ => "returned \"skill://pdf/a.md\"",
        };
        assert!(problem(&error).contains(expected), "{error}");
    }
}

#[tokio::test]
async fn an_invalid_entry_is_an_error() {
    let mut wrong = entry();
    wrong["resources"][1]["uri"] = json!("skill://elsewhere/a.md");
    let played = play(wrong, honest).await;
    let skill = played.client.list_skills().await.unwrap().remove(0);
    let error = played.client.read_skill(&skill).await.unwrap_err();
    assert!(problem(&error).contains("not within its directory"), "{error}");
    let error = played.client.get_skill("skill://other/SKILL.md").await.unwrap_err();
    assert!(problem(&error).contains("returned the skill at"), "{error}");
    assert!(played.read.lock().unwrap().is_empty());
}

#[tokio::test]
async fn directories_are_read_only_with_the_capability() {
    let played = play(entry(), honest).await;
    let error = played.client.read_directory("skill://pdf").await.unwrap_err();
    assert!(matches!(error.call_error().unwrap().kind(), CallErrorKind::Unsupported(_)), "{error}");
    assert_eq!(error.delivery(), Delivery::NotSent);
}

#[tokio::test]
async fn an_entry_without_a_list_of_files_is_an_error() {
    let mut unsaid = entry();
    unsaid.as_object_mut().unwrap().remove("resources");
    let played = play(unsaid, honest).await;
    let skill = played.client.list_skills().await.unwrap().remove(0);
    let error = played.client.read_skill(&skill).await.unwrap_err();
    assert!(problem(&error).contains("it does not list its files"), "{error}");
    assert!(played.read.lock().unwrap().is_empty());
}

#[tokio::test]
async fn members_that_were_not_verified_are_an_error() {
    for text in [Some("aaa"), None] {
        let played = play(entry(), move |uri| {
            let mut contents = ResourceContents::from_bytes(uri, b"evil");
            contents.text = text.map(str::to_owned);
            contents.blob = contents.blob.filter(|_| text.is_some());
            vec![contents]
        })
        .await;
        let skill = played.client.list_skills().await.unwrap().remove(0);
        let error = played.client.read_skill_file(&skill, "skill://pdf/a.md").await.unwrap_err();
        assert_eq!(problem(&error), "a file has either text or a blob");
    }
}

#[tokio::test]
async fn a_blob_is_verified_by_its_bytes() {
    for (blob, expected) in [
        ("YWFh", None),
        ("YWFi", Some("its digest is sha256:")),
        ("YWE=", Some("it has 2 bytes, and 3 are listed")),
        ("YWF", Some("not base64")),
        ("YWFh\n", Some("not base64")),
    ] {
        let played = play(entry(), move |uri| {
            let mut contents = ResourceContents::from_bytes(uri, b"");
            contents.blob = Some(blob.to_owned());
            vec![contents]
        })
        .await;
        let skill = played.client.list_skills().await.unwrap().remove(0);
        match (played.client.read_skill_file(&skill, "skill://pdf/a.md").await, expected) {
            (Ok(contents), None) => assert_eq!(contents.bytes().unwrap(), b"aaa"),
            (Err(error), Some(expected)) => assert!(problem(&error).contains(expected), "{error}"),
            (other, _) => panic!("{blob:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_generated_file_may_not_be_larger_than_a_skill() {
    let mut dynamic = entry();
    dynamic["resources"] = json!("dynamic");
    let played = play(dynamic, |uri| {
        let size = if uri.ends_with("large") { 16 * 1024 * 1024 + 1 } else { 16 * 1024 * 1024 };
        vec![ResourceContents::from_text(uri, "x".repeat(size))]
    })
    .await;
    let skill = played.client.list_skills().await.unwrap().remove(0);
    assert!(played.client.read_skill_file(&skill, "skill://pdf/most").await.is_ok());
    let error = played.client.read_skill_file(&skill, "skill://pdf/large").await.unwrap_err();
    assert_eq!(problem(&error), "it has 16777217 bytes; a skill may have 16777216");
}

/// Two servers may have skills with the same URI, so each skill is read from its own server.
#[tokio::test]
async fn in_a_group_a_skill_is_read_from_its_own_server() {
    let server = |text: &str| {
        let skill = Skill::new("pdf", "About PDFs").instructions(text);
        LocalConnector::new(Server::new("skills", "1").extension(Skills::new().skill(skill)).build().unwrap())
    };
    let group =
        ClientGroup::builder(builder()).server("one", server("one")).server("other", server("other")).connect().await;
    for name in ["one", "other"] {
        let client = group.client(name).unwrap();
        let skill = client.list_skills().await.unwrap().remove(0);
        assert!(client.read_skill(&skill).await.unwrap().text.unwrap().ends_with(name));

        let whole = group.as_client();
        assert!(whole.server_extension(SKILLS_EXTENSION).is_none());
        let refused: [SkillError; 4] = [
            whole.list_skills().await.unwrap_err().into(),
            whole.get_skill(MANIFEST).await.unwrap_err(),
            whole.read_skill(&skill).await.unwrap_err(),
            whole.read_directory("skill://pdf").await.unwrap_err(),
        ];
        for error in refused {
            let kind = error.call_error().unwrap().kind();
            assert!(matches!(kind, CallErrorKind::NoServer(NoServerCause::Several)), "{error}");
            assert_eq!(error.delivery(), Delivery::NotSent);
        }
    }
}
