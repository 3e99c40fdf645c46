//! Tests of the types of this crate against the official schemas of every revision.
//!
//! Instances are generated from each definition, decoded, encoded, validated and compared, and translated from each
//! revision to the newest one and back. Environment variables: `TURMS_SCHEMA_DIR` (directory of the schemas),
//! `TURMS_REQUIRE_SCHEMA` (fail without them), `TURMS_SCHEMA_CASES` (number of random instances for each definition,
//! default 200), and `TURMS_SCHEMA_ONLY` (test only this definition).

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary: clippy exempts only functions marked #[test], not their helpers"
)]

mod check;
mod closed;
mod codec;
mod corpus;
mod difference;
mod generate;
mod json;
mod member;
mod merge;
mod proof;
mod random;
mod registry;
mod sample;
mod translation;

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write;

use crate::check::{Outcome, RoundTrip, check};
use crate::corpus::{Example, Revision, children};
use crate::generate::{Case, KEYWORDS, cases, is_required, properties};
use crate::json::Json;
use crate::registry::{ROWS, Row};

#[test]
fn every_definition_has_a_row_and_every_row_a_definition() {
    let Some(revisions) = corpus::revisions() else {
        return;
    };
    let faults = registry::faults(ROWS, revisions);
    assert!(faults.is_empty(), "the table in registry.rs:\n  {}", faults.join("\n  "));
}

#[test]
fn every_definition_round_trips() {
    let Some(revisions) = corpus::revisions() else {
        return;
    };
    let mut outcomes = Vec::new();
    for revision in revisions {
        let checked: Vec<_> = selected(revision).map(|name| outcome_of(revision, name)).collect();
        println!("{}", summary(revision, &checked));
        outcomes.extend(checked);
    }
    assert!(!outcomes.is_empty(), "TURMS_SCHEMA_ONLY names no definition");
    refuse(&outcomes);
}

#[test]
fn every_official_example_round_trips_to_equal_json() {
    let (Some(revisions), Some(examples)) = (corpus::revisions(), corpus::examples()) else {
        return;
    };
    assert!(!examples.is_empty(), "the directory of examples is empty");
    let outcomes: Vec<_> = examples.iter().map(|example| outcome_of_example(revisions, example)).collect();
    println!("{} official examples", outcomes.len());
    refuse(&outcomes);
}

#[test]
fn every_generated_instance_is_valid() {
    let Some(revisions) = corpus::revisions() else {
        return;
    };
    let mut invalid = Vec::new();
    for revision in revisions {
        for definition in selected(revision) {
            for case in cases(revision, definition, case_count()) {
                let instance = case.instance.to_value();
                for violation in revision.violations(definition, &instance) {
                    let place = format!("{} {definition}, {}", revision.name(), case.label);
                    invalid.push(format!("{place}: {violation}\n  {instance}"));
                }
            }
        }
    }
    assert!(invalid.is_empty(), "{} instances:\n{}", invalid.len(), invalid.join("\n"));
}

#[test]
fn the_generator_obeys_every_keyword_in_use() {
    fn collect(node: &serde_json::Value, found: &mut BTreeSet<String>) {
        found.extend(node.as_object().into_iter().flatten().map(|(keyword, _)| keyword.clone()));
        children(node).for_each(|child| collect(child, found));
    }
    let Some(revisions) = corpus::revisions() else {
        return;
    };
    let mut found = BTreeSet::new();
    for revision in revisions {
        revision.definitions().for_each(|name| collect(revision.definition(name), &mut found));
    }
    found.retain(|keyword| !KEYWORDS.contains(&keyword.as_str()));
    assert!(found.is_empty(), "unknown keywords: {found:?}");
}

#[test]
fn random_instances_have_and_lack_every_optional_member() {
    let Some(revisions) = corpus::revisions() else {
        return;
    };
    for revision in revisions {
        for definition in revision.definitions() {
            assert_variety(revision, definition);
        }
    }
}

fn assert_variety(revision: &Revision, definition: &str) {
    let place = format!("{} {definition}", revision.name());
    let node = revision.resolve(revision.definition(definition));
    let all = cases(revision, definition, 80);
    let random: Vec<_> = all.filter(|case| case.label.starts_with("random")).collect();
    let has = |case: &&Case, name: &str| case.instance.member(name).is_some();
    let count = |name: &str| random.iter().filter(|case| has(case, name)).count();
    for name in properties(node).keys() {
        let fair = if is_required(node, name) { 80..=80 } else { 1..=79 };
        assert!(fair.contains(&count(name)), "{place} {name}: in {} of 80", count(name));
    }
    let strangers = count("x-unknown-0") + count("x-unknown-1");
    let is_object = node.get("properties").is_some();
    assert!(!is_object || strangers > 0, "{place}: never an unknown member");
}

fn outcome_of(revision: &Revision, definition: &str) -> Outcome {
    check(revision, definition, row_for(revision.name(), definition), case_count())
}

fn outcome_of_example(revisions: &[Revision], example: &Example) -> Outcome {
    let Example { revision, definition, file, text } = example;
    let original = Json::parse(text).unwrap();
    let row = row_for(revision, definition).adding_nothing();
    let trip = RoundTrip::of(&row, &original, Json::to_text);
    let schema = revisions.iter().find(|known| known.name() == revision).unwrap();
    let problems = trip.problems(schema, definition, &row);
    let mut outcome = Outcome::new(revision, definition);
    outcome.note(file.display().to_string(), trip, problems);
    outcome
}

fn row_for(revision: &str, definition: &str) -> &'static Row {
    let row = registry::find(ROWS, revision, definition);
    row.unwrap_or_else(|| panic!("{revision} {definition}: not exactly one row in registry.rs"))
}

fn selected(revision: &Revision) -> impl Iterator<Item = &str> {
    let only = env::var("TURMS_SCHEMA_ONLY").ok();
    revision.definitions().filter(move |name| only.as_deref().is_none_or(|only| only == *name))
}

fn case_count() -> usize {
    env::var("TURMS_SCHEMA_CASES").map_or(200, |count| count.parse().unwrap())
}

fn summary(revision: &Revision, outcomes: &[Outcome]) -> String {
    let cases: usize = outcomes.iter().map(|outcome| outcome.cases).sum();
    let mut table = format!("{}: {} definitions, {cases} instances", revision.name(), outcomes.len());
    for (index, outcome) in outcomes.iter().enumerate() {
        let separator = if index.is_multiple_of(3) { "\n  " } else { "   " };
        write!(table, "{separator}{:<44}{:>4}", outcome.definition, outcome.cases).unwrap();
        if outcome.excused > 0 {
            write!(table, " (and {} excused)", outcome.excused).unwrap();
        }
    }
    table
}

fn refuse(outcomes: &[Outcome]) {
    let failed: Vec<_> = outcomes.iter().filter(|outcome| outcome.is_failure()).collect();
    let report: String = failed.iter().map(ToString::to_string).collect();
    let names: Vec<_> = failed.iter().map(|outcome| outcome.title()).collect();
    assert!(failed.is_empty(), "{report}\n{} failed:\n  {}", names.len(), names.join("\n  "));
}
