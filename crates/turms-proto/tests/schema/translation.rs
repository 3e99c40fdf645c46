//! Tests of the tables of [`turms_proto::revision`] against the official schemas. Nothing of an older revision is lost
//! on the way to the newest revision and back, and values of the newest revision become valid in older ones.

use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_proto::revision::Translate;
use turms_proto::{ProtocolVersion, decode, types};

use crate::check::Outcome;
use crate::closed::undeclared;
use crate::corpus::{self, Revision};
use crate::difference::Comparison;
use crate::generate::{Case, cases, declared_cases};
use crate::json::Json;
use crate::member::SENT_TO_ALL;
use crate::registry::{self, ROWS, Row, typed};
use crate::{case_count, refuse, selected};

/// Decodes JSON text, translates the value in several steps, and encodes the result.
pub(crate) type Translator = fn(&str, &[Step]) -> Result<String, String>;

#[derive(Clone, Copy)]
pub(crate) enum Step {
    Lower(ProtocolVersion),
    Raise(ProtocolVersion),
}

/// Returns the translator of the type `T`.
pub(crate) fn translate<T: DeserializeOwned + Serialize + Translate>(
    text: &str,
    steps: &[Step],
) -> Result<String, String> {
    let mut value: T = decode(text).map_err(|error| error.to_string())?;
    for step in steps {
        match *step {
            Step::Lower(to) => value.lower(to),
            Step::Raise(from) => value.raise(from),
        }
    }
    serde_json::to_string(&value).map_err(|error| format!("cannot encode: {error}"))
}

/// Parameters without a name in any revision, for [`Revision::with_params`].
static UNNAMED_PARAMS: &[Row] = &[
    typed::<types::TaskParams>("CancelTaskRequestParams"),
    typed::<types::CancelledParams>("ClientNotificationParams"),
    typed::<types::EmptyParams>("DiscoverRequestParams"),
    typed::<types::ElicitationCompleteParams>("ElicitationCompleteNotificationParams"),
    typed::<types::TaskParams>("GetTaskPayloadRequestParams"),
    typed::<types::TaskParams>("GetTaskRequestParams"),
    typed::<types::EmptyParams>("InitializedNotificationParams"),
    typed::<types::PaginatedParams>("ListPromptsRequestParams"),
    typed::<types::PaginatedParams>("ListResourceTemplatesRequestParams"),
    typed::<types::PaginatedParams>("ListResourcesRequestParams"),
    typed::<types::EmptyParams>("ListRootsRequestParams"),
    typed::<types::PaginatedParams>("ListTasksRequestParams"),
    typed::<types::PaginatedParams>("ListToolsRequestParams"),
    typed::<types::EmptyParams>("PingRequestParams"),
    typed::<types::EmptyParams>("PromptListChangedNotificationParams"),
    typed::<types::EmptyParams>("ResourceListChangedNotificationParams"),
    typed::<types::EmptyParams>("RootsListChangedNotificationParams"),
    typed::<types::EmptyParams>("ToolListChangedNotificationParams"),
];

/// Instances that random generation does not find.
static BY_HAND: &[(&str, &str, &str)] = &[
    (
        "2025-06-18",
        "ElicitRequestParams",
        r#"{"message":"m","requestedSchema":{"type":"object","properties":{
            "size":{"type":"string","enum":["s","l"],"enumNames":["small","large"],"description":"d","x-mine":1}}}}"#,
    ),
    (
        "2025-06-18",
        "ElicitRequestParams",
        r#"{"message":"m","requestedSchema":{"type":"object","properties":{
            "size":{"type":"string","enum":["s","l"],"enumNames":["small"]}}}}"#,
    ),
    (
        "2025-11-25",
        "CallToolRequestParams",
        r#"{"name":"t","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7"},"traceparent":"00-0-0-01"}}"#,
    ),
    (
        "2025-11-25",
        "CallToolResult",
        r#"{"content":[],"_meta":{"io.modelcontextprotocol/model-immediate-response":"wait"}}"#,
    ),
    ("2025-11-25", "Error", r#"{"code":-32002,"message":"gone","data":{"uri":"file:///x"}}"#),
    ("2025-11-25", "Error", r#"{"code":-32002,"message":"gone"}"#),
    ("2025-11-25", "Error", r#"{"code":-32042,"message":"visit","data":{"elicitations":[]}}"#),
    (
        "2026-07-28",
        "Tool",
        r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":true,"b":false,"c":{}}},
            "outputSchema":{"type":"object","properties":{"d":true}}}"#,
    ),
    (
        "2026-07-28",
        "Tool",
        r#"{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array","items":true}}"#,
    ),
    ("2026-07-28", "Error", r#"{"code":-32602,"message":"gone","data":{"uri":"file:///x"}}"#),
    ("2026-07-28", "Error", r#"{"code":-32022,"message":"no","data":{"requested":"1","supported":[]}}"#),
    (
        "2026-07-28",
        "ListToolsResult",
        r#"{"tools":[],"resultType":"complete","ttlMs":5,"cacheScope":"public",
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"},"com.example/mine":null}}"#,
    ),
];

/// A value that translation alone does not make valid in the other revision.
struct Gap {
    definition: &'static str,
    /// The older of the two revisions; `None` if any.
    version: Option<ProtocolVersion>,
    concerns: fn(&Json) -> bool,
    remedy: Remedy,
}

enum Remedy {
    /// There is no translation, for this reason.
    None(&'static str),
    /// The caller provides the member that the other revision requires.
    Member(&'static str),
}

/// Values that an older revision cannot represent, in addition to the loss tables.
static GAPS_BELOW: &[Gap] = &[
    Gap {
        definition: "ElicitRequestParams",
        version: Some(ProtocolVersion::V2025_06_18),
        concerns: is_page,
        remedy: Remedy::None("it knows no pages to visit, as `check_elicitation` says beforehand"),
    },
    Gap {
        definition: "ElicitRequestParams",
        version: Some(ProtocolVersion::V2025_11_25),
        concerns: is_page,
        remedy: Remedy::Member("elicitationId"),
    },
    Gap {
        definition: "ElicitRequestURLParams",
        version: Some(ProtocolVersion::V2025_11_25),
        concerns: is_page,
        remedy: Remedy::Member("elicitationId"),
    },
    Gap {
        definition: "EnumSchema",
        version: Some(ProtocolVersion::V2025_06_18),
        concerns: has_several_choices,
        remedy: Remedy::None("several choices become a field for text, which is no EnumSchema"),
    },
    Gap {
        definition: "ElicitResult",
        version: Some(ProtocolVersion::V2025_06_18),
        concerns: answers_with_a_list,
        remedy: Remedy::None("a list answers several choices, which it cannot have asked for"),
    },
];

/// Values that the newest revision cannot represent.
static GAPS_ABOVE: &[Gap] = &[
    Gap {
        definition: "CancelledNotificationParams",
        version: Some(ProtocolVersion::V2025_11_25),
        concerns: |params| params.member("requestId").is_none(),
        remedy: Remedy::None("2025-11-25 alone lets the id be absent, for its tasks"),
    },
    Gap {
        definition: "ClientCapabilities",
        version: None,
        concerns: has_null_or_fraction,
        remedy: Remedy::None("its JSONValue, made from TypeScript, lacks null and fractions"),
    },
    Gap {
        definition: "ServerCapabilities",
        version: None,
        concerns: has_null_or_fraction,
        remedy: Remedy::None("its JSONValue, made from TypeScript, lacks null and fractions"),
    },
];

fn remedy(
    gaps: &'static [Gap],
    version: ProtocolVersion,
    definition: &str,
    instance: &Json,
) -> Option<&'static Remedy> {
    let concerns = |gap: &&Gap| {
        gap.definition == definition
            && gap.version.is_none_or(|concerned| concerned == version)
            && (gap.concerns)(instance)
    };
    gaps.iter().find(concerns).map(|gap| &gap.remedy)
}

fn is_page(params: &Json) -> bool {
    matches!(params.member("mode"), Some(Json::String(mode)) if mode == "url")
}

fn has_several_choices(field: &Json) -> bool {
    matches!(field.member("type"), Some(Json::String(kind)) if kind == "array")
}

fn answers_with_a_list(result: &Json) -> bool {
    let mut answers = result.member("content").into_iter().flat_map(Json::children);
    answers.any(|answer| matches!(answer, Json::Array(_)))
}

fn has_null_or_fraction(json: &Json) -> bool {
    match json {
        Json::Null => true,
        Json::Number(text) => text.parse::<i64>().is_err(),
        other => other.children().any(has_null_or_fraction),
    }
}

#[test]
fn values_of_an_older_revision_survive_raising_and_lowering() {
    let Some((older, _)) = revisions() else {
        return;
    };
    let mut outcomes = Vec::new();
    for (version, revision) in &older {
        let steps = [Step::Raise(*version), Step::Lower(*version)];
        for (definition, row, translator) in translatable(revision) {
            let mut outcome = Outcome::new(revision.name(), definition);
            let random = cases(revision, definition, case_count() / 2);
            for case in random.chain(by_hand(revision, definition)) {
                let output = translator(&case.spell(&case.instance), &steps);
                outcome.record(&case, output, |output| same(revision, definition, row, &case.instance, output));
            }
            outcomes.push(outcome);
        }
    }
    summarize("raised and lowered", &outcomes);
    refuse(&outcomes);
}

#[test]
fn values_of_an_older_revision_are_raised_to_valid_values_of_the_newest() {
    let Some((older, newest)) = revisions() else {
        return;
    };
    let mut outcomes = Vec::new();
    for (version, revision) in &older {
        // The session adds the required `_meta` of requests, not the translation.
        let comparable =
            |(definition, ..): &(&str, _, _)| newest.defines(definition) && !definition.ends_with("RequestParams");
        for (definition, _, translator) in translatable(revision).filter(comparable) {
            let mut outcome = Outcome::new(&format!("{version} to {}", newest.name()), definition);
            let random = declared_cases(revision, definition, case_count() / 4);
            for case in random.chain(by_hand(revision, definition)) {
                let remedy = remedy(GAPS_ABOVE, *version, definition, &case.instance);
                let output = || translator(&case.instance.to_text(), &[Step::Raise(*version)]);
                outcome.remedied(remedy, &case, output, |output| newest.violations(definition, &output.to_value()));
            }
            outcomes.push(outcome);
        }
    }
    summarize("raised", &outcomes);
    refuse(&outcomes);
}

#[test]
fn values_of_the_newest_revision_are_lowered_to_valid_values_of_an_older_one() {
    let Some((older, newest)) = revisions() else {
        return;
    };
    let mut outcomes = Vec::new();
    for (version, revision) in &older {
        // The request becomes an input request without an envelope, so only the parameters are compared.
        let comparable =
            |(definition, ..): &(&str, _, _)| revision.defines(definition) && !definition.ends_with("Request");
        for (definition, _, translator) in translatable(&newest).filter(comparable) {
            let mut outcome = Outcome::new(&format!("{} to {version}", newest.name()), definition);
            let random = declared_cases(&newest, definition, case_count() / 4);
            for case in random.chain(by_hand(&newest, definition)) {
                let remedy = remedy(GAPS_BELOW, *version, definition, &case.instance);
                let output = || translator(&case.instance.to_text(), &[Step::Lower(*version)]);
                outcome.remedied(remedy, &case, output, |output| misfits(revision, definition, output));
            }
            outcomes.push(outcome);
        }
    }
    summarize("lowered", &outcomes);
    refuse(&outcomes);
}

#[test]
fn translating_twice_changes_no_more_than_translating_once() {
    let Some((older, newest)) = revisions() else {
        return;
    };
    let mut outcomes = Vec::new();
    for (version, _) in &older {
        let there_and_back = [Step::Lower(*version), Step::Raise(*version)];
        for (definition, _, translator) in translatable(&newest) {
            let mut outcome = Outcome::new(&format!("{} by way of {version}", newest.name()), definition);
            let random = cases(&newest, definition, case_count() / 4);
            for case in random.chain(by_hand(&newest, definition)) {
                let text = case.instance.to_text();
                let once = translator(&text, &there_and_back);
                let twice = translator(&text, &there_and_back.repeat(2));
                outcome.record(&case, twice, |twice| {
                    let once = Json::parse(&once.unwrap()).unwrap();
                    Comparison::exact().differences(&once, twice)
                });
            }
            outcomes.push(outcome);
        }
    }
    summarize("translated twice", &outcomes);
    refuse(&outcomes);
}

/// Entries of the loss table that are raised back, with the revision that changes them.
static RAISED_BACK: &[(&str, ProtocolVersion, &str)] = &[
    ("Error", ProtocolVersion::V2025_11_25, r#"{"code":-32602,"message":"gone","data":{"uri":"file:///x"}}"#),
    (
        "ElicitRequestParams",
        ProtocolVersion::V2025_06_18,
        r#"{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{
            "size":{"type":"string","oneOf":[{"const":"s","title":"small"},{"const":"l","title":"large"}]}}}}"#,
    ),
];

#[test]
fn values_in_the_table_of_raised_losses_are_restored() {
    for (definition, version, text) in RAISED_BACK {
        let row = registry::find(ROWS, ProtocolVersion::LATEST.as_str(), definition).unwrap();
        let translator = row.translator().unwrap();
        let lowered = translator(text, &[Step::Lower(*version)]).unwrap();
        let back = translator(text, &[Step::Lower(*version), Step::Raise(*version)]).unwrap();
        let original = Json::parse(text).unwrap();
        let differences = |output: &str| Comparison::exact().differences(&original, &Json::parse(output).unwrap());
        assert!(!differences(&lowered).is_empty(), "{text} does not change");
        assert_eq!(differences(&back), Vec::<String>::new());
    }
}

#[test]
fn every_instance_by_hand_is_valid() {
    let Some(revisions) = corpus::revisions() else {
        return;
    };
    for (name, definition, text) in BY_HAND {
        let revision = revisions.iter().find(|revision| revision.name() == *name).unwrap();
        let instance = Case::by_hand(text).instance.to_value();
        let violations = revision.with_params().violations(definition, &instance);
        assert!(violations.is_empty(), "{name} {definition} {text}: {violations:?}");
    }
}

fn revisions() -> Option<(Vec<(ProtocolVersion, Revision)>, Revision)> {
    let all = corpus::revisions()?.iter().map(Revision::with_params);
    let mut older: Vec<_> = all.map(|revision| (revision.name().parse().unwrap(), revision)).collect();
    let (_, newest) = older.pop()?;
    Some((older, newest))
}

/// Returns the definitions of a revision whose types can be translated.
fn translatable(revision: &Revision) -> impl Iterator<Item = (&str, &'static Row, Translator)> {
    selected(revision).filter_map(|definition| {
        let row = |rows| registry::find(rows, revision.name(), definition);
        let row = row(ROWS).or_else(|| row(UNNAMED_PARAMS))?;
        Some((definition, row, row.translator()?))
    })
}

fn same(revision: &Revision, definition: &str, row: &Row, original: &Json, output: &Json) -> Vec<String> {
    let comparison =
        Comparison { schema: Some((revision, definition)), may_add: &[], sheds: row.shedding_places(), wrapping: &[] };
    comparison.differences(original, output)
}

impl Outcome {
    /// Like [`Outcome::record`], but with exceptions.
    fn remedied(
        &mut self,
        remedy: Option<&'static Remedy>,
        case: &Case,
        output: impl FnOnce() -> Result<String, String>,
        examine: impl FnOnce(&Json) -> Vec<String>,
    ) {
        match remedy {
            None => self.record(case, output(), examine),
            Some(Remedy::None(reason)) => self.excuse(reason),
            Some(Remedy::Member(name)) => self.record(case, output(), |output| examine(&output.with(name))),
        }
    }
}

fn misfits(revision: &Revision, definition: &str, output: &Json) -> Vec<String> {
    let mut problems = revision.violations(definition, &output.to_value());
    let sent_anyway =
        |place: &String| SENT_TO_ALL.iter().any(|(object, member)| definition == *object && place[1..] == **member);
    let undeclared = undeclared(revision, definition, output).into_iter().filter(|place| !sent_anyway(place));
    problems.extend(undeclared.map(|place| format!("{place:?} is not declared")));
    problems
}

fn by_hand(revision: &Revision, definition: &str) -> impl Iterator<Item = Case> {
    let concerns = move |(name, wanted, _): &&(&str, &str, &str)| *name == revision.name() && *wanted == definition;
    BY_HAND.iter().filter(concerns).map(|(_, _, text)| Case::by_hand(text))
}

fn summarize(what: &str, outcomes: &[Outcome]) {
    let cases: usize = outcomes.iter().map(|outcome| outcome.cases).sum();
    let pairs = outcomes.len();
    println!("{what}: {pairs} pairs of a definition and a revision, {cases} instances");
    for outcome in outcomes.iter().filter(|outcome| outcome.excused > 0) {
        println!("  {}: and {} excused, {}", outcome.title(), outcome.excused, outcome.excuse);
    }
}
