//! Comparison of the members of our types, and the revisions that define them, with the official schemas.
//!
//! A round trip cannot detect a misspelled name, because the member would be kept as an unknown one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use turms_proto::ProtocolVersion;
use turms_proto::revision::{MEMBERS, MemberRange, VersionRange};

use crate::corpus::{self, Revision};
use crate::difference::expand;
use crate::generate::properties;

/// Locations that describe a type in the schemas: a definition, or a member of one (`*` for the elements of a list or
/// map). Of the locations on one line, the first that a revision has is used. Lines of the same type must agree.
static PLACES: &[(&str, &[&str])] = &[
    ("AcknowledgedParams", &["SubscriptionsAcknowledgedNotificationParams"]),
    ("Annotations", &["TextContent/annotations"]),
    ("Annotations", &["ImageContent/annotations"]),
    ("Annotations", &["AudioContent/annotations"]),
    ("Annotations", &["EmbeddedResource/annotations"]),
    ("Annotations", &["Resource/annotations"]),
    ("Annotations", &["ResourceTemplate/annotations"]),
    ("AudioContent", &["AudioContent"]),
    ("BooleanField", &["BooleanSchema"]),
    ("CallToolParams", &["CallToolRequestParams"]),
    ("CancelledParams", &["CancelledNotificationParams"]),
    ("ChoiceField", &["LegacyTitledEnumSchema", "EnumSchema"]),
    ("ChoiceField", &["UntitledSingleSelectEnumSchema"]),
    ("ChoiceItems", &["UntitledMultiSelectEnumSchema/items"]),
    ("ChoicesField", &["UntitledMultiSelectEnumSchema"]),
    ("ClientCapabilities", &["ClientCapabilities"]),
    ("ClientTasksCapability", &["ClientCapabilities/tasks"]),
    ("CompleteParams", &["CompleteRequestParams"]),
    ("CompleteResult", &["CompleteResult"]),
    ("Completion", &["CompleteResult/completion"]),
    ("CompletionArgument", &["CompleteRequestParams/argument"]),
    ("CompletionContext", &["CompleteRequestParams/context"]),
    ("CoreTask", &["CancelTaskResult"]),
    ("CoreTask", &["GetTaskResult"]),
    ("CoreTask", &["TaskStatusNotificationParams"]),
    ("CoreTask", &["Task"]),
    ("CreateMessageParams", &["CreateMessageRequestParams"]),
    ("CreateMessageResult", &["CreateMessageResult"]),
    ("CreateTaskResult", &["CreateTaskResult"]),
    ("DiscoverResult", &["DiscoverResult"]),
    ("ElicitForm", &["ElicitRequestFormParams", "ElicitRequestParams"]),
    ("ElicitResult", &["ElicitResult"]),
    ("ElicitUrl", &["ElicitRequestURLParams"]),
    ("ElicitationCapability", &["ClientCapabilities/elicitation"]),
    ("ElicitationCompleteParams", &["ElicitationCompleteNotificationParams"]),
    ("EmbeddedResource", &["EmbeddedResource"]),
    ("EmptyParams", &["RequestParams"]),
    ("EmptyParams", &["NotificationParams"]),
    ("EmptyParams", &["ListRootsRequestParams"]),
    ("EmptyResult", &["Result"]),
    ("ErrorObject", &["Error", "JSONRPCError/error"]),
    ("FormSchema", &["ElicitRequestParams/requestedSchema"]),
    ("GetPromptParams", &["GetPromptRequestParams"]),
    ("Icon", &["Icon"]),
    ("ImageContent", &["ImageContent"]),
    ("Implementation", &["Implementation"]),
    ("InitializeParams", &["InitializeRequestParams"]),
    ("InitializeResult", &["InitializeResult"]),
    ("InputRequiredResult", &["InputRequiredResult"]),
    ("ListCapability", &["ServerCapabilities/prompts"]),
    ("ListCapability", &["ServerCapabilities/tools"]),
    ("ListPromptsResult", &["ListPromptsResult"]),
    ("ListResourceTemplatesResult", &["ListResourceTemplatesResult"]),
    ("ListResourcesResult", &["ListResourcesResult"]),
    ("ListRootsResult", &["ListRootsResult"]),
    ("ListTasksResult", &["ListTasksResult"]),
    ("ListToolsResult", &["ListToolsResult"]),
    ("ListenParams", &["SubscriptionsListenRequestParams"]),
    ("SubscriptionsListenResult", &["SubscriptionsListenResult"]),
    ("LogMessage", &["LoggingMessageNotificationParams"]),
    ("ModelHint", &["ModelHint"]),
    ("ModelPreferences", &["ModelPreferences"]),
    ("NumberField", &["NumberSchema"]),
    ("PaginatedParams", &["PaginatedRequestParams"]),
    ("PaginatedParams", &["ListToolsRequestParams"]),
    ("ProgressParams", &["ProgressNotificationParams"]),
    ("Prompt", &["Prompt"]),
    ("PromptArgument", &["PromptArgument"]),
    ("PromptMessage", &["PromptMessage"]),
    ("PromptReference", &["PromptReference"]),
    ("GetPromptResult", &["GetPromptResult"]),
    ("ReadResourceParams", &["ReadResourceRequestParams"]),
    ("ReadResourceResult", &["ReadResourceResult"]),
    ("RelatedTask", &["RelatedTaskMetadata"]),
    ("RequestMeta", &["RequestParams/_meta"]),
    ("Resource", &["Resource"]),
    ("ResourceContents", &["TextResourceContents"]),
    ("ResourceContents", &["BlobResourceContents"]),
    ("ResourceLink", &["ResourceLink"]),
    ("ResourceParams", &["SubscribeRequestParams"]),
    ("ResourceParams", &["UnsubscribeRequestParams"]),
    ("ResourceParams", &["ResourceUpdatedNotificationParams"]),
    ("ResourceReference", &["ResourceTemplateReference", "ResourceReference"]),
    ("ResourceTemplate", &["ResourceTemplate"]),
    ("ResourcesCapability", &["ServerCapabilities/resources"]),
    ("Root", &["Root"]),
    ("RootsCapability", &["ClientCapabilities/roots"]),
    ("SamplingCapability", &["ClientCapabilities/sampling"]),
    ("SamplingMessage", &["SamplingMessage"]),
    ("ServerCapabilities", &["ServerCapabilities"]),
    ("ServerTasksCapability", &["ServerCapabilities/tasks"]),
    ("SetLevelParams", &["SetLevelRequestParams"]),
    ("StringField", &["StringSchema"]),
    ("SubscriptionFilter", &["SubscriptionFilter"]),
    ("TaskParams", &["CancelTaskRequestParams"]),
    ("TaskParams", &["GetTaskPayloadRequestParams"]),
    ("TaskParams", &["GetTaskRequestParams"]),
    ("TaskRequest", &["TaskMetadata"]),
    ("TextContent", &["TextContent"]),
    ("TitledChoiceField", &["TitledSingleSelectEnumSchema"]),
    ("TitledChoiceItems", &["TitledMultiSelectEnumSchema/items"]),
    ("TitledChoicesField", &["TitledMultiSelectEnumSchema"]),
    ("TitledValue", &["TitledSingleSelectEnumSchema/oneOf/*"]),
    ("TitledValue", &["TitledMultiSelectEnumSchema/items/anyOf/*"]),
    ("Tool", &["Tool"]),
    ("ToolAnnotations", &["ToolAnnotations"]),
    ("ToolChoice", &["ToolChoice"]),
    ("ToolExecution", &["ToolExecution"]),
    ("CallToolResult", &["CallToolResult"]),
    ("ToolResultContent", &["ToolResultContent"]),
    ("ToolUseContent", &["ToolUseContent"]),
    ("UrlElicitationRequired", &["URLElicitationRequiredError/error/data"]),
];

/// Types of extensions, which the schemas of the revisions do not contain.
const OUTSIDE: &[&str] = &[
    "AppCsp",
    "AppMeta",
    "AppPermissions",
    "AppsCapability",
    "GetSkillParams",
    "GetSkillResult",
    "ListSkillsResult",
    "ReadDirectoryParams",
    "ReadDirectoryResult",
    "Skill",
    "SkillFile",
    "Task",
    "ToolAppMeta",
    "UpdateTaskParams",
];

/// Members that no schema declares for their type.
const UNDECLARED: [(&str, &str); 3] = [
    // Of the tasks extension.
    ("SubscriptionFilter", "taskIds"),
    // Every request and notification may carry it; 2025-11-25 omits it from inline parameters.
    ("TaskParams", "_meta"),
    ("ElicitationCompleteParams", "_meta"),
];

/// Members that are sent to every revision although not all declare them. Revisions without extensions treat them as
/// unknown members, and an extension decides which revisions it supports.
pub(crate) const SENT_TO_ALL: [(&str, &str); 2] =
    [("ClientCapabilities", "extensions"), ("ServerCapabilities", "extensions")];

#[test]
fn every_type_has_a_place_in_the_schemas() {
    let placed: BTreeSet<_> = PLACES.iter().map(|(name, _)| *name).chain(OUTSIDE.iter().copied()).collect();
    assert_eq!(types().keys().copied().collect::<BTreeSet<_>>(), placed);
}

#[test]
fn every_type_in_the_sources_is_in_the_table() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let texts: Vec<_> = source_files(&source).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let declared = texts.iter().flat_map(|text| text.split("ProtocolObject)]\n").skip(1));
    let names = declared.map(|rest| rest.split("pub struct ").nth(1).unwrap().split(' ').next().unwrap());
    assert_eq!(names.collect::<BTreeSet<_>>(), types().keys().copied().collect());
}

#[test]
fn every_member_of_a_type_is_declared_and_every_declared_member_known() {
    let Some(revisions) = revisions() else {
        return;
    };
    let mut declared: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for place in declarations(&revisions) {
        declared.entry(place.object).or_default().extend(place.members.keys());
    }
    let mut faults = Vec::new();
    for (object, known) in types() {
        let Some(declared) = declared.get(object) else {
            continue;
        };
        let undeclared = known.difference(declared).filter(|name| !UNDECLARED.contains(&(object, name)));
        faults.extend(undeclared.map(|name| format!("{object} has {name:?}, which no schema declares")));
        let unknown = declared.difference(&known);
        faults.extend(unknown.map(|name| format!("{object} has no {name:?}, which a schema declares")));
    }
    assert!(faults.is_empty(), "  {}", faults.join("\n  "));
}

#[test]
fn the_table_of_members_agrees_with_the_schemas() {
    let Some(revisions) = revisions() else {
        return;
    };
    let mut faults = Vec::new();
    let mut confirmed = BTreeSet::new();
    let mut checked = 0;
    for Declared { object, place, life, members } in declarations(&revisions) {
        for (member, declared) in members {
            checked += 1;
            confirmed.insert((object, member));
            let range = range(object, member);
            let listed: Vec<_> = life.iter().copied().filter(|version| range.contains(*version)).collect();
            if listed != declared && !SENT_TO_ALL.contains(&(object, member)) {
                let (listed, declared) = (names(&listed), names(&declared));
                faults.push(format!("{object} {member:?}: {place} declares it in {declared}, the table has {listed}"));
            }
        }
    }
    for row in MEMBERS.iter().copied().flatten().filter(|row| row.range != VersionRange::ALL) {
        if !confirmed.contains(&(row.object, row.member)) && !OUTSIDE.contains(&row.object) {
            faults.push(format!("{} {:?}: the table has it, but no schema", row.object, row.member));
        }
    }
    println!("{} types and {checked} declared members in {} places", MEMBERS.len(), PLACES.len());
    assert!(faults.is_empty(), "  {}", faults.join("\n  "));
}

/// A location with the revisions that have it, and for each member those that declare it.
struct Declared<'a> {
    object: &'static str,
    place: &'static str,
    life: Vec<ProtocolVersion>,
    members: BTreeMap<&'a str, Vec<ProtocolVersion>>,
}

type Revisions = Vec<(ProtocolVersion, Revision)>;

fn revisions() -> Option<Revisions> {
    let revisions = corpus::revisions()?.iter().map(Revision::with_params);
    Some(revisions.map(|revision| (revision.name().parse().unwrap(), revision)).collect())
}

fn declarations(revisions: &Revisions) -> Vec<Declared<'_>> {
    let declared = |(object, places): &(&'static str, &'static [&'static str])| {
        let mut life = Vec::new();
        let mut members: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (version, revision) in revisions {
            let nodes = places.iter().map(|place| nodes_at(revision, place));
            let Some(nodes) = nodes.into_iter().find(|nodes| !nodes.is_empty()) else {
                continue;
            };
            life.push(*version);
            let names: BTreeSet<_> = nodes.into_iter().flat_map(|node| properties(node).keys()).collect();
            for name in names {
                members.entry(name.as_str()).or_default().push(*version);
            }
        }
        assert!(!life.is_empty(), "{object}: no revision has {places:?}");
        Declared { object, place: places[0], life, members }
    };
    PLACES.iter().map(declared).collect()
}

/// Returns the schemas at a location; empty if a revision does not have it.
fn nodes_at<'a>(revision: &'a Revision, place: &str) -> Vec<&'a Value> {
    let mut steps = place.split('/');
    let Some(definition) = steps.next().filter(|definition| revision.defines(definition)) else {
        return Vec::new();
    };
    steps.fold(expand(revision, revision.definition(definition)), |nodes, step| {
        let inner = nodes.into_iter().filter_map(|node| match step {
            "*" => node.get("items").or_else(|| node.get("additionalProperties")),
            name => properties(node).get(name),
        });
        inner.flat_map(|node| expand(revision, node)).collect()
    })
}

fn range(object: &str, member: &str) -> VersionRange {
    let mut rows = MEMBERS.iter().copied().flatten().filter(|row| row.object == object && row.member == member);
    rows.next().map_or(VersionRange::ALL, |row| row.range)
}

fn names(versions: &[ProtocolVersion]) -> String {
    let names: Vec<_> = versions.iter().map(|version| version.as_str()).collect();
    format!("[{}]", names.join(", "))
}

/// The object types, with the wire names of their members.
fn types() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let members = |rows: &&'static [MemberRange]| (rows[0].object, rows.iter().map(|row| row.member).collect());
    MEMBERS.iter().filter(|rows| !rows.is_empty()).map(members).collect()
}

fn source_files(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let (directories, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    files.into_iter().chain(directories.iter().flat_map(|inner| source_files(inner))).collect()
}
