//! Differences between the input and output of a round trip.

use std::fmt::Write;

use serde_json::Value;

use crate::corpus::{Revision, alternatives};
use crate::generate::is_required;
use crate::json::{Decimal, Json};

/// Rules for the comparison of JSON values. Numbers always compare by value: 50 equals 50.0.
pub(crate) struct Comparison<'a> {
    /// The schema, which determines the optional members. Their `null` may be dropped. Undeclared members must keep
    /// their `null`, because it may have a meaning.
    pub(crate) schema: Option<(&'a Revision, &'a str)>,
    /// Members that may be added: a name, at any depth, or a path such as `/params/_meta`, in which `*` matches any
    /// one step.
    pub(crate) may_add: &'a [&'a str],
    /// Paths of objects whose undeclared members may be dropped: `""` for the root, or paths as above.
    pub(crate) sheds: &'a [&'a str],
    /// Members of the root that count as declared although the schema describes only the inner part.
    pub(crate) wrapping: &'a [&'a str],
}

impl Comparison<'_> {
    /// Exact, except for numbers.
    pub(crate) fn exact() -> Self {
        Self { schema: None, may_add: &[], sheds: &[], wrapping: &[] }
    }

    /// Returns each difference as a sentence that starts with its path.
    pub(crate) fn differences(&self, original: &Json, output: &Json) -> Vec<String> {
        let mut walk = Walk { comparison: self, path: Vec::new(), found: Vec::new() };
        walk.compare(original, output);
        walk.found
    }

    fn may_drop_null(&self, path: &[Step<'_>], name: &str) -> bool {
        let Some((revision, definition)) = self.schema else {
            return false;
        };
        let nodes = nodes_at(revision, revision.definition(definition), path);
        declares(&nodes, name) && !nodes.iter().any(|node| is_required(node, name))
    }

    fn may_shed(&self, path: &[Step<'_>], name: &str) -> bool {
        let Some((revision, definition)) = self.schema else {
            return false;
        };
        let place = pointer(path, None);
        let sheds = |shedding: &&str| *shedding == place || matches_pointer(shedding, &place);
        let declared = || declares(&nodes_at(revision, revision.definition(definition), path), name);
        let wraps = path.is_empty() && self.wrapping.contains(&name);
        self.sheds.iter().any(sheds) && !wraps && !declared()
    }

    fn may_add(&self, path: &[Step<'_>], name: &str) -> bool {
        let pointer = pointer(path, Some(name));
        self.may_add.iter().any(|allowed| *allowed == name || matches_pointer(allowed, &pointer))
    }
}

struct Walk<'a> {
    comparison: &'a Comparison<'a>,
    path: Vec<Step<'a>>,
    found: Vec<String>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

impl<'a> Walk<'a> {
    fn compare(&mut self, original: &'a Json, output: &Json) {
        match (original, output) {
            (Json::Object(before), Json::Object(after)) => self.compare_objects(before, after),
            (Json::Array(before), Json::Array(after)) if before.len() == after.len() => {
                for (index, (before, after)) in before.iter().zip(after).enumerate() {
                    self.within(Step::Item(index), |walk| walk.compare(before, after));
                }
            }
            (Json::Null, Json::Null) => {}
            (Json::Bool(before), Json::Bool(after)) if before == after => {}
            (Json::String(before), Json::String(after)) if before == after => {}
            (Json::Number(before), Json::Number(after)) if Decimal::of(before) == Decimal::of(after) => {}
            _ => self.note(None, &format!("was {}, became {}", brief(original), brief(output))),
        }
    }

    fn compare_objects(&mut self, before: &'a [(String, Json)], after: &[(String, Json)]) {
        for (name, original) in before {
            match (member(after, name), original) {
                (Some(output), _) => {
                    self.within(Step::Member(name), |walk| walk.compare(original, output));
                }
                (None, Json::Null) if self.comparison.may_drop_null(&self.path, name) => {}
                (None, _) if self.comparison.may_shed(&self.path, name) => {}
                (None, _) => self.note(Some(name), &format!("was {}, is gone", brief(original))),
            }
        }
        for (name, output) in after {
            if member(before, name).is_none() && !self.comparison.may_add(&self.path, name) {
                self.note(Some(name), &format!("was absent, became {}", brief(output)));
            }
        }
    }

    fn within(&mut self, step: Step<'a>, compare: impl FnOnce(&mut Self)) {
        self.path.push(step);
        compare(self);
        self.path.pop();
    }

    fn note(&mut self, name: Option<&str>, what: &str) {
        self.found.push(format!("{:?} {what}", pointer(&self.path, name)));
    }
}

fn declares(nodes: &[&Value], name: &str) -> bool {
    nodes.iter().any(|node| node.get("properties").and_then(|all| all.get(name)).is_some())
}

fn member<'a>(members: &'a [(String, Json)], name: &str) -> Option<&'a Json> {
    members.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value)
}

fn brief(json: &Json) -> String {
    let text = json.to_text();
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn pointer(path: &[Step<'_>], name: Option<&str>) -> String {
    let mut pointer = String::new();
    for step in path.iter().copied().chain(name.map(Step::Member)) {
        match step {
            // In RFC 6901 format, so that a name is always one step.
            Step::Member(name) => write!(pointer, "/{}", name.replace('~', "~0").replace('/', "~1")).unwrap(),
            Step::Item(index) => write!(pointer, "/{index}").unwrap(),
        }
    }
    pointer
}

fn matches_pointer(pattern: &str, pointer: &str) -> bool {
    let fits = |(wanted, step)| wanted == "*" || wanted == step;
    pattern.starts_with('/')
        && pattern.split('/').count() == pointer.split('/').count()
        && pattern.split('/').zip(pointer.split('/')).all(fits)
}

/// Returns every schema that may describe the value at `path`, including all alternatives of unions.
fn nodes_at<'a>(revision: &'a Revision, root: &'a Value, path: &[Step<'_>]) -> Vec<&'a Value> {
    path.iter().fold(expand(revision, root), |nodes, step| {
        let inner = nodes.into_iter().filter_map(|node| child(node, *step));
        inner.flat_map(|node| expand(revision, node)).collect()
    })
}

fn child<'a>(node: &'a Value, step: Step<'_>) -> Option<&'a Value> {
    match step {
        Step::Member(name) => {
            let declared = node.get("properties").and_then(|all| all.get(name));
            declared.or_else(|| node.get("additionalProperties"))
        }
        Step::Item(_) => node.get("items"),
    }
}

/// Returns the alternatives of a schema, recursively.
pub(crate) fn expand<'a>(revision: &'a Revision, node: &'a Value) -> Vec<&'a Value> {
    let node = revision.resolve(node);
    match alternatives(node) {
        Some(branches) => branches.iter().flat_map(|branch| expand(revision, branch)).collect(),
        None => vec![node],
    }
}

#[test]
fn numbers_are_compared_by_value_and_exactly() {
    let same = |left: &str, right: &str| {
        let (left, right) = (Json::parse(left).unwrap(), Json::parse(right).unwrap());
        Comparison::exact().differences(&left, &right).is_empty()
    };
    assert!(same("50", "50.0"));
    assert!(same("0", "-0.0"));
    assert!(same("1e-7", "0.0000001"));
    assert!(same("-120", "-1.2E+2"));
    assert!(same("1e400", "10e399"));
    assert!(same("18446744073709551615", "18446744073709551615"));
    assert!(!same("18446744073709551615", "18446744073709551614"));
    assert!(!same("9007199254740993", "9007199254740992.0"));
    assert!(!same("100000000000000000000000001", "1e26"));
    assert!(!same("1", "1.5"));
    assert!(!same("1", "-1"));
    assert!(!same("1", "\"1\""));
}
