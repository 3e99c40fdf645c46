//! Tests of the test harness: it must detect codecs with one fault each.

use serde_json::{Value, json};

use crate::check::{Outcome, check};
use crate::closed::undeclared;
use crate::codec::{Codec, roundtrip};
use crate::corpus::Revision;
use crate::difference::Comparison;
use crate::json::Json;
use crate::registry::{self, Row, row};

#[test]
fn a_correct_codec_passes() {
    assert_eq!(problems(row("Thing", honest)), "");
    assert_eq!(problems(row("PokeRequest", honest)), "");
}

#[test]
fn dropping_unknown_members_is_noticed() {
    let drop_unknown: Codec = |text| edit(text, |thing| thing.retain(|(name, _)| !name.starts_with("x-")));
    assert!(problems(row("Thing", drop_unknown)).contains("/x-unknown-0\" was"));
}

#[test]
fn a_decoder_that_refuses_valid_input_is_noticed() {
    let wants_a_list = problems(row("Thing", roundtrip::<Vec<Value>>));
    assert!(wants_a_list.contains("not decoded: invalid type: map, expected a sequence"));
    let panics = problems(row("Thing", |_| panic!("on purpose")));
    assert!(panics.contains("not decoded: the codec panicked"));
}

#[test]
fn a_changed_value_is_noticed() {
    let shout: Codec = |text| edit(text, |thing| set(thing, "name", Json::string("X")));
    assert!(problems(row("Thing", shout)).contains("\"/name\" was"));
    let round: Codec = |text| edit(text, |thing| set(thing, "size", Json::integer(0)));
    assert!(problems(row("Thing", round)).contains("\"/size\" was"));
}

#[test]
fn an_added_member_is_noticed_unless_the_row_allows_it() {
    let add: Codec = |text| edit(text, |thing| set(thing, "extra", Json::integer(1)));
    assert!(problems(row("Thing", add)).contains("\"/extra\" was absent"));
    assert_eq!(problems(row("Thing", add).may_add(&["extra"])), "");
    assert_eq!(problems(row("Thing", add).may_add(&["/extra"])), "");
    assert!(problems(row("Thing", add).may_add(&["/other/extra"])).contains("was absent"));
}

#[test]
fn a_member_written_twice_is_noticed() {
    let twice: Codec = |text| Ok(format!("{},\"extra\":1,\"extra\":1}}", unclosed(text)));
    let row = row("Thing", twice).may_add(&["extra"]);
    assert!(problems(row).contains("duplicate member \"extra\""));
}

#[test]
fn only_an_optional_null_may_be_dropped() {
    fn without_null(text: &str, victim: &str) -> Result<String, String> {
        edit(text, |thing| thing.retain(|(name, value)| name != victim || !value.is_null()))
    }
    assert_eq!(problems(row("Thing", |text| without_null(text, "note"))), "");
    let required = problems(row("Thing", |text| without_null(text, "due")));
    assert!(required.contains("\"/due\" was null, is gone"));
    let unknown = problems(row("Thing", |text| without_null(text, "x-unknown-0")));
    assert!(unknown.contains("\"/x-unknown-0\" was null, is gone"));
}

#[test]
fn output_that_no_longer_validates_is_noticed() {
    let add: Codec = |text| edit(text, |thing| set(thing, "tag", Json::integer(1)));
    assert!(problems(row("Thing", add).may_add(&["tag"])).contains("not valid at \"/tag\""));
}

#[test]
fn wrapping_adds_an_envelope_to_requests_and_removes_it() {
    let wants_envelope: Codec = |text| {
        let message = Json::parse(text)?;
        match (message.member("jsonrpc"), message.member("id")) {
            (Some(Json::String(version)), Some(Json::Number(_))) if version == "2.0" => Ok(text.to_owned()),
            _ => Err("no envelope".to_owned()),
        }
    };
    assert_eq!(problems(row("PokeRequest", wants_envelope).wrap()), "");
    assert!(problems(row("PokeRequest", wants_envelope)).contains("not decoded: no envelope"));
    let loses_id: Codec = |text| edit(text, |message| message.retain(|(name, _)| name != "id"));
    assert!(problems(row("PokeRequest", loses_id).wrap()).contains("\"/id\" was 1, is gone"));
}

#[test]
fn only_unknown_members_of_the_envelope_may_be_dropped() {
    fn without(members: &mut Vec<(String, Json)>, gone: impl Fn(&str) -> bool) {
        members.retain(|(name, _)| !gone(name));
    }
    let sheds: Codec = |text| edit(text, |message| without(message, |name| name.starts_with("x-")));
    assert_eq!(problems(row("PokeRequest", sheds).wrap().sheds(&[""])), "");
    assert!(problems(row("PokeRequest", sheds).wrap()).contains("\"/x-unknown-0\" was"));
    for member in ["jsonrpc", "id", "method", "params"] {
        let loses = row("PokeRequest", |_| unreachable!()).wrap().sheds(&[""]);
        let (sent, wrapping) = loses.wrapped(&Json::parse(r#"{"method":"poke","params":{}}"#).unwrap());
        let mut output = sent.clone();
        if let Json::Object(members) = &mut output {
            without(members, |name| name == member);
        }
        let comparison = Comparison {
            schema: Some((&toy(), "PokeRequest")),
            may_add: &[],
            sheds: loses.shedding_places(),
            wrapping: &wrapping,
        };
        assert_eq!(comparison.differences(&sent, &output).len(), 1, "{member}");
    }
    let sheds_within: Codec = |text| {
        edit(text, |message| {
            for (_, inner) in message {
                if let Json::Object(params) = inner {
                    without(params, |name| name.starts_with("x-"));
                }
            }
        })
    };
    assert!(problems(row("PokeRequest", sheds_within).wrap().sheds(&[""])).contains("\"/params/x-unknown-0\" was"));
}

#[test]
fn a_member_is_undeclared_unless_its_object_is_free_form() {
    let found = |definition: &str, text: &str| {
        let instance = Json::parse(text).unwrap();
        undeclared(&toy().with_params(), definition, &instance).join(" ")
    };
    assert_eq!(found("Thing", r#"{"name":"a","tag":"b","other":1}"#), "/other");
    assert_eq!(found("Thing", r#"{"note":{"any":[{"thing":1}]}}"#), "");
    let reserved = r#"{"note":{"io.modelcontextprotocol/x":1}}"#;
    assert_eq!(found("Thing", reserved), "/note/io.modelcontextprotocol/x");
    assert_eq!(found("PokeRequest", r#"{"method":"poke","params":{"nom":1}}"#), "/params/nom");
    assert_eq!(found("PokeRequestParams", r#"{"nom":1}"#), "/nom");
}

#[test]
fn exempt_instances_are_skipped_but_not_all_of_them() {
    let picky: Codec = |text| match text.contains("\"due\":null") {
        true => Err("no date".to_owned()),
        false => Ok(text.to_owned()),
    };
    let undated = |thing: &Json| thing.member("due").is_none_or(Json::is_null);
    let excused = outcome(row("Thing", picky).except(undated));
    assert!(!excused.is_failure() && excused.excused > 0 && excused.cases > 0);
    assert!(outcome(row("Thing", picky).except(|_| true)).is_failure());
}

#[test]
fn a_table_that_does_not_fit_the_schemas_is_noticed() {
    let revisions = [toy()];
    let thing = row("Thing", honest);
    let poke = row("PokeRequest", honest);
    assert_eq!(registry::faults(&[thing, poke], &revisions), Vec::<String>::new());
    let faults = |rows: &[Row]| registry::faults(rows, &revisions).join("\n");
    assert!(faults(&[thing]).contains("toy PokeRequest: 0 rows"));
    assert!(faults(&[thing, poke, poke]).contains("toy PokeRequest: 2 rows"));
    assert!(faults(&[thing, poke, row("Ghost", honest)]).contains("row Ghost: no schema"));
    assert_eq!(faults(&[thing.since("toy"), poke.until("toy")]), "");
    assert!(faults(&[thing, poke.since("tomorrow")]).contains("there is no revision tomorrow"));
}

#[test]
fn a_report_names_the_case_and_shows_both_sides() {
    let shout: Codec = |text| edit(text, |thing| set(thing, "name", Json::string("X")));
    let report = outcome(row("Thing", shout)).to_string();
    for part in ["toy Thing", "seed 0x", "input:  {", "output: {", "\"/name\" was", "by place"] {
        assert!(report.contains(part), "{part} is missing from:\n{report}");
    }
}

/// A small schema, so that these tests run without the official ones.
fn toy() -> Revision {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {
            "Thing": {
                "type": "object",
                "properties": {
                    "name": { "type": "string" },
                    "size": { "type": "number", "minimum": 1, "maximum": 9 },
                    "tag": { "type": "string" },
                    "due": { "type": ["integer", "null"] },
                    "note": {},
                },
                "required": ["name", "size", "due"],
            },
            "PokeRequest": {
                "type": "object",
                "properties": { "method": { "const": "poke" }, "params": { "$ref": "#/$defs/Thing" } },
                "required": ["method"],
            },
        },
    });
    Revision::parse("toy", &schema.to_string())
}

fn outcome(row: Row) -> Outcome {
    check(&toy(), row.name(), &row, 200)
}

fn problems(row: Row) -> String {
    let outcome = outcome(row);
    assert!(outcome.cases > 200);
    outcome.failures.iter().flat_map(|failure| failure.problems.clone()).collect::<Vec<_>>().join("\n")
}

/// Not through `serde_json::Value`, which would round some numbers.
fn honest(text: &str) -> Result<String, String> {
    edit(text, |_| {})
}

fn edit(text: &str, change: impl Fn(&mut Vec<(String, Json)>)) -> Result<String, String> {
    let mut json = Json::parse(text)?;
    if let Json::Object(members) = &mut json {
        change(members);
    }
    Ok(json.to_text())
}

fn set(members: &mut Vec<(String, Json)>, name: &str, value: Json) {
    members.retain(|(earlier, _)| earlier != name);
    members.push((name.to_owned(), value));
}

fn unclosed(text: &str) -> &str {
    text.trim_end().strip_suffix('}').unwrap()
}
