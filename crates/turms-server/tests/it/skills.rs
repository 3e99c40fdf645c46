//! Skills of a server, from code and from directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use turms_proto::skill::digest;
use turms_proto::types::{
    CacheScope, GetSkill, GetSkillParams, ListResources, ListSkills, PaginatedParams, ReadDirectory,
    ReadDirectoryParams, ReadResource, ReadResourceParams, ReadResourceResult, ResourceContents,
    ResourceListChangedNotification,
};
use turms_proto::{Ability, ErrorCode, ProtocolVersion};
use turms_server::{Router, Server, Skill, Skills};
use turms_testkit::test_client::TestClient;

/// A temporary directory that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("turms-skills-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, path: &str, contents: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
        self
    }

    fn error(&self) -> String {
        let error = Skills::directory(&self.0).unwrap_err();
        assert!(error.place().starts_with(self.0.to_str().unwrap()), "{error}");
        error.to_string().replace(self.0.to_str().unwrap(), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn manifest(name: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}\nmetadata:\n  version: 1.5\n---\n# {name}\n")
}

fn server(skills: Skills) -> Router {
    Server::new("skills", "1").extension(skills).build().unwrap()
}

async fn connect(skills: Skills) -> TestClient {
    TestClient::connect(&server(skills), ProtocolVersion::LATEST).await
}

async fn read(client: &TestClient, uri: &str) -> ResourceContents {
    let params = ReadResourceParams::new(uri);
    let mut result: ReadResourceResult = client.request_rounds::<ReadResource, _>(&params).await.unwrap();
    result.contents.remove(0)
}

async fn children(client: &TestClient, uri: &str) -> Vec<(String, String)> {
    let result = client.request::<ReadDirectory>(&ReadDirectoryParams::new(uri)).await.unwrap();
    result.resources.into_iter().map(|child| (child.name, child.mime_type.unwrap())).collect()
}

fn names(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect()
}

#[tokio::test]
async fn a_directory_of_skills_is_served_in_every_revision() {
    let folder = Folder::new("served");
    folder
        .write("pdf/SKILL.md", manifest("pdf"))
        .write("pdf/references/FORMS.md", "forms")
        .write("pdf/references/deep/logo.png", b"\x89PNG\xff")
        .write("pdf/.hidden", "no")
        .write("acme/billing/refunds/SKILL.md", manifest("refunds"))
        .write("acme/README.md", "not of a skill");
    let server = server(Skills::directory(&folder.0).unwrap());
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&server, version).await;
        let extensions = client.opened().server.as_ref().unwrap().capabilities.extensions.clone().unwrap();
        assert_eq!(extensions.as_str(), r#"{"io.modelcontextprotocol/skills":{"directoryRead":true}}"#);
        assert!(client.opened().server.as_ref().unwrap().capabilities.resources.is_some());

        let list = client.request::<ListSkills>(&PaginatedParams::new()).await.unwrap();
        let uris: Vec<_> = list.skills.iter().map(|skill| skill.uri.as_str()).collect();
        assert_eq!(uris, ["skill://acme/billing/refunds/SKILL.md", "skill://pdf/SKILL.md"]);
        assert_eq!((list.ttl_ms.is_some(), list.result_type.is_some()), {
            let stateless = version.has(Ability::ResultType);
            (stateless, stateless)
        });
        let pdf = &list.skills[1];
        pdf.check().unwrap();
        let frontmatter: serde_json::Value = pdf.frontmatter.decode().unwrap();
        let written = json!({ "name": "pdf", "description": "About pdf", "metadata": { "version": 1.5 } });
        assert_eq!(frontmatter, written);
        let files: Vec<_> = pdf.files().unwrap().iter().map(|file| file.uri.as_str()).collect();
        let all = ["skill://pdf/SKILL.md", "skill://pdf/references/FORMS.md", "skill://pdf/references/deep/logo.png"];
        assert_eq!(files, all);
        for file in pdf.files().unwrap() {
            let contents = read(&client, &file.uri).await;
            let bytes = contents.bytes().unwrap();
            assert_eq!((digest(&bytes), bytes.len() as i64), (file.digest.clone(), file.size), "{}", file.uri);
            assert_eq!(contents.text.is_some(), !file.uri.ends_with("png"));
        }
        let got = client.request::<GetSkill>(&GetSkillParams::new("skill://pdf/SKILL.md")).await.unwrap();
        assert_eq!(got.skill, *pdf);
        assert_eq!(
            children(&client, "skill://pdf").await,
            names(&[("pdf", "text/markdown"), ("references", "inode/directory")])
        );
        assert_eq!(
            children(&client, "skill://pdf/references").await,
            names(&[("FORMS.md", "text/markdown"), ("deep", "inode/directory")])
        );
        assert_eq!(children(&client, "skill://acme").await, names(&[("billing", "inode/directory")]));
    }
}

#[tokio::test]
async fn each_manifest_is_in_the_list_of_resources() {
    let skill = Skill::new("refunds", "Process refunds: \"all\" of them\n").path_prefix("acme").file("a b.md", "x");
    let client = connect(Skills::new().skill(skill)).await;
    let list = client.request::<ListResources>(&PaginatedParams::new()).await.unwrap();
    assert_eq!(list.resources.len(), 1);
    let resource = &list.resources[0];
    assert_eq!((&*resource.uri, &*resource.name), ("skill://acme/refunds/SKILL.md", "refunds"));
    assert_eq!(resource.description.as_deref(), Some("Process refunds: \"all\" of them\n"));
    assert_eq!(resource.mime_type.as_deref(), Some("text/markdown"));
    assert_eq!(read(&client, "skill://acme/refunds/a%20b.md").await.text.as_deref(), Some("x"));
}

#[tokio::test]
async fn unknown_uris_are_invalid_params() {
    let client = connect(Skills::new().skill(Skill::new("a", "d").file("x/y.md", ""))).await;
    for uri in ["skill://b/SKILL.md", "skill://a", "skill://a/x/y.md", ""] {
        let error = client.request::<GetSkill>(&GetSkillParams::new(uri)).await.unwrap_err();
        assert_eq!(error.server_error().code, ErrorCode::INVALID_PARAMS, "{uri}");
    }
    for uri in ["skill://b", "skill://a/SKILL.md", "skill://a/x/", "skill://", "skill:/", ""] {
        let error = client.request::<ReadDirectory>(&ReadDirectoryParams::new(uri)).await.unwrap_err();
        assert_eq!(error.server_error().code, ErrorCode::INVALID_PARAMS, "{uri}");
    }
    for uri in ["skill://a/none.md", "skill://a", "skill://a/../a/SKILL.md"] {
        let error = client.request::<ReadResource>(&ReadResourceParams::new(uri)).await.unwrap_err();
        assert_eq!(error.server_error().code, ErrorCode::INVALID_PARAMS, "{uri}");
    }
}

#[tokio::test]
async fn lists_come_in_pages_and_a_bad_cursor_is_an_error() {
    let names: Vec<String> = (0..7).map(|number| format!("skill-{number}")).collect();
    let skills = names.iter().fold(Skills::new().page_size(3), |skills, name| {
        skills.skill((0..5).fold(Skill::new(name, "d"), |skill, file| skill.file(format!("f{file}.md"), "")))
    });
    let client = connect(skills).await;
    let (mut seen, mut params) = (Vec::new(), PaginatedParams::new());
    loop {
        let page = client.request::<ListSkills>(&params).await.unwrap();
        assert!(page.skills.len() <= 3);
        seen.extend(page.skills.iter().map(|skill| skill.name().unwrap()));
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, names);
    let mut params = ReadDirectoryParams::new("skill://skill-0");
    let first = client.request::<ReadDirectory>(&params).await.unwrap();
    params.cursor = first.next_cursor;
    let second = client.request::<ReadDirectory>(&params).await.unwrap();
    assert_eq!((first.resources.len(), second.resources.len(), second.next_cursor), (3, 3, None));
    for bad in ["", "%", "_w"] {
        let error = client.request::<ListSkills>(&PaginatedParams::new().cursor(bad)).await.unwrap_err();
        assert_eq!(error.server_error().code, ErrorCode::INVALID_PARAMS, "{bad}");
    }
}

#[tokio::test]
async fn without_directory_read_it_is_neither_declared_nor_answered() {
    let client = connect(Skills::new().skill(Skill::new("a", "d")).without_directory_read()).await;
    let extensions = client.opened().server.as_ref().unwrap().capabilities.extensions.clone().unwrap();
    assert_eq!(extensions.as_str(), r#"{"io.modelcontextprotocol/skills":{}}"#);
    let error = client.request::<ReadDirectory>(&ReadDirectoryParams::new("skill://a")).await.unwrap_err();
    assert_eq!(error.server_error().code, ErrorCode::METHOD_NOT_FOUND);
}

#[tokio::test]
async fn a_skill_within_a_skill_belongs_to_both() {
    let folder = Folder::new("nested");
    folder.write("outer/SKILL.md", manifest("outer")).write("outer/inner/SKILL.md", manifest("inner"));
    let client = connect(Skills::directory(&folder.0).unwrap()).await;
    let list = client.request::<ListSkills>(&PaginatedParams::new()).await.unwrap();
    let counts: Vec<_> = list.skills.iter().map(|skill| (skill.uri.as_str(), skill.files().unwrap().len())).collect();
    assert_eq!(counts, [("skill://outer/SKILL.md", 2), ("skill://outer/inner/SKILL.md", 1)]);
}

#[tokio::test]
async fn a_directory_that_is_a_skill_itself_gives_it_its_name() {
    let folder = Folder::new("single");
    folder.write("lonely/SKILL.md", manifest("lonely"));
    let client = connect(Skills::directory(folder.0.join("lonely")).unwrap()).await;
    let list = client.request::<ListSkills>(&PaginatedParams::new()).await.unwrap();
    assert_eq!(list.skills[0].uri, "skill://lonely/SKILL.md");
}

#[tokio::test]
async fn a_skill_within_a_directory_that_is_a_skill_itself_is_below_it() {
    let folder = Folder::new("single-nested");
    folder.write("outer/SKILL.md", manifest("outer")).write("outer/sub/inner/SKILL.md", manifest("inner"));
    let client = connect(Skills::directory(folder.0.join("outer")).unwrap()).await;
    let list = client.request::<ListSkills>(&PaginatedParams::new()).await.unwrap();
    let uris: Vec<_> = list.skills.iter().map(|skill| skill.uri.as_str()).collect();
    assert_eq!(uris, ["skill://outer/SKILL.md", "skill://outer/sub/inner/SKILL.md"]);
    assert!(list.skills[0].files().unwrap().iter().any(|file| file.uri == list.skills[1].uri));
}

#[test]
fn a_skill_from_memory_can_be_added_after_its_directory_is_removed() {
    let folder = Folder::new("gone");
    folder.write("a/SKILL.md", manifest("a"));
    let skills = Skills::directory(&folder.0).unwrap();
    fs::remove_dir_all(&folder.0).unwrap();
    let skills = skills.skill(Skill::new("b", "d"));
    assert_eq!(format!("{skills:?}"), r#"Skills { skills: ["skill://a/SKILL.md", "skill://b/SKILL.md"], .. }"#);
    assert!(Server::new("s", "1").extension(skills).build().is_ok());
}

#[tokio::test]
async fn concurrent_reloads_end_with_the_current_files() {
    let folder = Folder::new("race");
    let skills = Arc::new(Skills::directory(&folder.0).unwrap());
    let server = Server::new("skills", "1").extension(skills.clone()).build().unwrap();
    let client = TestClient::connect(&server, ProtocolVersion::LATEST).await;
    for round in 0..30 {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (folder, skills) = (&folder, &skills);
                scope.spawn(move || {
                    let name = format!("s-{round}-{thread}");
                    // Names that start with a dot are skipped, so the skill appears at once.
                    folder.write(&format!(".{name}/SKILL.md"), manifest(&name));
                    fs::rename(folder.0.join(format!(".{name}")), folder.0.join(&name)).unwrap();
                    skills.reload().unwrap();
                });
            }
        });
        let mut params = PaginatedParams::new();
        let mut listed = 0;
        loop {
            let page = client.request::<ListSkills>(&params).await.unwrap();
            listed += page.skills.len();
            params.cursor = page.next_cursor;
            if params.cursor.is_none() {
                break;
            }
        }
        let resources = client.request::<ListResources>(&PaginatedParams::new()).await.unwrap().resources.len();
        assert_eq!((listed, resources), ((round + 1) * 4, (round + 1) * 4));
    }
}

#[tokio::test]
async fn a_reload_applies_all_changes_and_a_failed_one_applies_none() {
    let folder = Folder::new("reload");
    folder.write("a/SKILL.md", manifest("a")).write("b/SKILL.md", manifest("b"));
    let skills = Arc::new(Skills::directory(&folder.0).unwrap());
    let server = Server::new("skills", "1").extension(skills.clone()).build().unwrap();
    let client = TestClient::connect(&server, ProtocolVersion::LATEST_WITH_HANDSHAKE).await;
    folder.write("c/SKILL.md", manifest("c")).write("a/new.md", "new");
    fs::remove_dir_all(folder.0.join("b")).unwrap();
    assert_eq!(client.request::<ListSkills>(&PaginatedParams::new()).await.unwrap().skills[1].name().unwrap(), "b");
    skills.reload().unwrap();
    client.expect_notification::<ResourceListChangedNotification>().await;
    let list = client.request::<ListSkills>(&PaginatedParams::new()).await.unwrap();
    let seen: Vec<_> = list.skills.iter().map(|skill| (skill.name().unwrap(), skill.files().unwrap().len())).collect();
    assert_eq!(seen, [("a".to_owned(), 2), ("c".to_owned(), 1)]);
    let listed = client.request::<ListResources>(&PaginatedParams::new()).await.unwrap();
    let uris: Vec<_> = listed.resources.iter().map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris, ["skill://a/SKILL.md", "skill://c/SKILL.md"]);
    assert_eq!(read(&client, "skill://a/new.md").await.text.as_deref(), Some("new"));

    folder.write("d/SKILL.md", "no header");
    assert!(skills.reload().unwrap_err().to_string().contains("d/SKILL.md: it does not begin with a header"));
    assert_eq!(client.request::<ListSkills>(&PaginatedParams::new()).await.unwrap().skills.len(), 2);
}

#[test]
fn errors_in_a_directory_name_the_path() {
    let missing = Skills::directory("/nowhere/at/all").unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/at/all: "), "{missing}");
    for (name, text, problem) in [
        ("other", manifest("name"), r#"the skill is called "name" and its directory "other""#),
        ("Bad", manifest("Bad"), r#""Bad" is not a name for a skill"#),
        ("a", "---\nname: a\n---\n".to_owned(), "the front matter has no description"),
        ("a", "---\nname: a\ndescription: 5\n---\n".to_owned(), "description has to be a string"),
        ("a", format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1025)), "more than 1024"),
        ("a", "---\nname: a\n description: x\n---\n".to_owned(), "line 3"),
        (
            "a",
            "---\nname: a\ndescription: d\nmetadata:\n  io.modelcontextprotocol/x: 1\n---\n".to_owned(),
            "is reserved for the protocol",
        ),
    ] {
        let folder = Folder::new("wrong");
        let error = folder.write(&format!("{name}/SKILL.md"), text).error();
        assert!(error.starts_with(&format!("/{name}/SKILL.md: ")) && error.contains(problem), "{error}");
    }
}

#[test]
fn a_skill_that_is_too_large_is_refused() {
    let folder = Folder::new("many");
    folder.write("a/SKILL.md", manifest("a"));
    for number in 0..512 {
        folder.write(&format!("a/{number}"), "");
    }
    assert_eq!(folder.error(), "/a: the skill has 513 files; 512 are allowed");
    let folder = Folder::new("large");
    folder.write("a/SKILL.md", manifest("a")).write("a/large", vec![0; 16 * 1024 * 1024]);
    assert!(folder.error().contains("more than the 16777216 bytes"));
}

#[cfg(unix)]
#[test]
fn links_stay_within_the_directory() {
    use std::os::unix::fs::symlink;
    let (folder, outside) = (Folder::new("links"), Folder::new("outside"));
    outside.write("secret", "secret");
    folder.write("a/SKILL.md", manifest("a")).write("shared/text.md", "shared");
    symlink(folder.0.join("shared/text.md"), folder.0.join("a/text.md")).unwrap();
    assert!(Skills::directory(&folder.0).is_ok());
    let refuse = |target: &Path, problem: &str| {
        let link = folder.0.join("a/link");
        symlink(target, &link).unwrap();
        assert_eq!(folder.error(), format!("/a/link: {problem}"));
        fs::remove_file(link).unwrap();
    };
    refuse(&outside.0.join("secret"), "the link points outside the directory of skills");
    refuse(&outside.0, "the link points outside the directory of skills");
    refuse(Path::new("../../../../../../../../etc/passwd"), "the link points outside the directory of skills");
    refuse(&folder.0, "the link points to one of its parent directories");
}

#[test]
fn an_invalid_skill_from_memory_is_a_build_error() {
    let fault =
        |skill: Skill| Server::new("s", "1").extension(Skills::new().skill(skill)).build().unwrap_err().to_string();
    assert!(fault(Skill::new("Bad", "d")).contains(r#"skill "Bad": "Bad" is not a name"#));
    assert!(fault(Skill::new("a", " ")).contains("description has to be a string"));
    assert!(fault(Skill::new("a", "d").file("../b", "")).contains(r#"".." cannot be a part of its path"#));
    assert!(fault(Skill::new("a", "d").file("/b", "")).contains(r#""" cannot be a part of its path"#));
    assert!(fault(Skill::new("a", "d").file("SKILL.md", "")).contains("SKILL.md cannot be added as a file"));
    assert!(fault(Skill::new("a", "d").file("b", "").file("b/c", "")).contains("is a file and a directory"));
    let twice = Skills::new().skill(Skill::new("a", "d")).skill(Skill::new("a", "d"));
    let twice = Server::new("s", "1").extension(twice).build().unwrap_err().to_string();
    assert!(twice.contains("there is another skill at skill://a/SKILL.md"), "{twice}");
}

#[tokio::test]
async fn a_hidden_skill_is_in_no_list_and_cannot_be_read() {
    let skill = |name: &str| Skill::new(name, "Something.").file("notes/more.md", "more");
    let skills = Skills::new().skill(skill("open")).skill(skill("secret"));
    let skills = skills.cache(Duration::from_secs(60), CacheScope::Public);
    let router = Server::new("skills", "1")
        .extension(skills)
        .visible_if(|item, _| !item.name().contains("secret"))
        .build()
        .unwrap();
    for version in [ProtocolVersion::V2025_11_25, ProtocolVersion::LATEST] {
        let client = TestClient::connect(&router, version).await;
        let list = client.request::<ListSkills>(&PaginatedParams::new()).await.unwrap();
        let uris: Vec<_> = list.skills.iter().map(|skill| skill.uri.as_str()).collect();
        assert_eq!(uris, ["skill://open/SKILL.md"], "{version}");
        let get = async |uri: &str| client.request::<GetSkill>(&GetSkillParams::new(uri)).await;
        let found = get("skill://open/SKILL.md").await.unwrap();
        assert_eq!(get("skill://secret/SKILL.md").await.unwrap_err().server_error().code, ErrorCode::INVALID_PARAMS);
        let directory = async |uri: &str| client.request::<ReadDirectory>(&ReadDirectoryParams::new(uri)).await;
        assert_eq!(directory("skill://open/notes").await.unwrap().resources.len(), 1, "{version}");
        for uri in ["skill://secret", "skill://secret/notes"] {
            assert_eq!(directory(uri).await.unwrap_err().server_error().code, ErrorCode::INVALID_PARAMS, "{uri}");
        }
        let read = async |uri: &str| client.request::<ReadResource>(&ReadResourceParams::new(uri)).await;
        for file in ["SKILL.md", "notes/more.md"] {
            assert!(read(&format!("skill://open/{file}")).await.is_ok(), "{version} {file}");
            let hidden = read(&format!("skill://secret/{file}")).await.unwrap_err();
            let missing = read(&format!("skill://nothing/{file}")).await.unwrap_err();
            assert_eq!(hidden.server_error().code, missing.server_error().code, "{version} {file}");
        }
        if version.has(Ability::Caching) {
            assert_eq!(list.cache_scope, Some(CacheScope::Private));
            assert_eq!(found.cache_scope, Some(CacheScope::Private));
        }
    }
}

#[tokio::test]
async fn a_hidden_skill_within_another_is_not_part_of_it() {
    let folder = Folder::new("within");
    folder
        .write("outer/SKILL.md", manifest("outer"))
        .write("outer/notes.md", "notes")
        .write("outer/inner/SKILL.md", manifest("inner"))
        .write("outer/inner/more.md", "more");
    let see = |hidden: &'static str| {
        let skills = Skills::directory(&folder.0).unwrap();
        let server = Server::new("skills", "1").extension(skills);
        server.visible_if(move |item, _| !item.name().ends_with(&format!("{hidden}/SKILL.md"))).build().unwrap()
    };
    let files = |skill: &turms_proto::types::Skill| {
        let files = skill.files().unwrap().iter();
        files.map(|file| file.uri.trim_start_matches("skill://outer/").to_owned()).collect::<Vec<_>>()
    };
    for (hidden, manifest, seen) in [
        ("inner", "skill://outer/SKILL.md", &["SKILL.md", "notes.md"][..]),
        ("outer", "skill://outer/inner/SKILL.md", &["inner/SKILL.md", "inner/more.md"]),
        ("none", "skill://outer/SKILL.md", &["SKILL.md", "inner/SKILL.md", "inner/more.md", "notes.md"]),
    ] {
        let router = see(hidden);
        let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
        let list = client.request::<ListSkills>(&PaginatedParams::new()).await.unwrap();
        let listed = list.skills.iter().find(|skill| skill.uri == manifest).unwrap();
        assert_eq!(files(listed), seen, "{hidden} is hidden");
        let got = client.request::<GetSkill>(&GetSkillParams::new(manifest)).await.unwrap();
        assert_eq!(files(&got.skill), seen, "{hidden} is hidden");
        for file in ["SKILL.md", "notes.md", "inner/SKILL.md", "inner/more.md"] {
            let uri = format!("skill://outer/{file}");
            let read = client.request::<ReadResource>(&ReadResourceParams::new(uri)).await;
            let is_hidden = file.starts_with("inner/") == (hidden == "inner") && hidden != "none";
            assert_eq!(read.is_err(), is_hidden, "{file} while {hidden} is hidden");
        }
    }
}
