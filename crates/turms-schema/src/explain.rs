//! Explanations of violations for users and models.

use std::borrow::Cow;

use serde_json::Value;

use crate::check::{Checker, Position};
use crate::format::Format;
use crate::instance::{Instance, PartKind, ROOT, ValuePart};
use crate::node::{Bound, Limit, NodeId, Rule};
use crate::validator::Violation;

/// Maximum length of a value that is shown in full.
const MAX_SHOWN: usize = 200;

/// Returns the text, or the beginning of a long text.
#[must_use]
pub fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_SHOWN {
        return Cow::Borrowed(text);
    }
    let end = (0..=MAX_SHOWN).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    Cow::Owned(format!("{}…", &text[..end]))
}

/// The violations found so far, up to a maximum number.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) max: usize,
    pub(crate) found: Vec<Violation>,
}

impl Explanation {
    fn add(&mut self, at: Position<'_>, keyword: &'static str, message: String) {
        if !self.is_full() {
            self.found.push(Violation { path: at.instance.path(at.place), keyword, message });
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.max
    }
}

impl Checker<'_> {
    /// Collects the violations of a value. Every rule is checked again, this time without stopping at the first failure.
    pub(crate) fn explain(&mut self, node: NodeId, at: Position<'_>, explanation: &mut Explanation) {
        self.visit(node, |checker, rules| {
            for rule in rules {
                if checker.is_done(explanation) {
                    return;
                }
                checker.explain_rule(rule, rules, at, explanation);
            }
        });
    }

    fn explain_rule(&mut self, rule: &Rule, rules: &[Rule], at: Position<'_>, explanation: &mut Explanation) {
        let kind = at.part().kind;
        match rule {
            Rule::Members(members) if kind == PartKind::Object => {
                let mut unexpected = Unexpected::default();
                for (at, part) in at.children() {
                    if self.is_done(explanation) {
                        break;
                    }
                    self.each_member_node(members, &part.name(), |checker, node, is_other| {
                        if is_other && checker.is_false_schema(node) {
                            unexpected.add(|| format!("'{}'", shortened(&part.name())));
                        } else {
                            checker.explain(node, at, explanation);
                        }
                    });
                }
                unexpected.explain("additionalProperties", "Additional properties", at, explanation);
            }
            Rule::Items(items) if kind == PartKind::Array => {
                let mut unexpected = Unexpected::default();
                for (index, (at, part)) in at.children().enumerate() {
                    if self.is_done(explanation) {
                        break;
                    }
                    match items.of(index) {
                        Some(node) if index >= items.first.len() && self.is_false_schema(node) => {
                            unexpected.add(|| shortened(part.raw).into_owned());
                        }
                        Some(node) => self.explain(node, at, explanation),
                        None => {}
                    }
                }
                unexpected.explain("items", "Additional items", at, explanation);
            }
            Rule::UnevaluatedMembers(node) if kind == PartKind::Object => {
                self.explain_unevaluated(rule, *node, rules, at, explanation);
            }
            Rule::UnevaluatedItems(node) if kind == PartKind::Array => {
                self.explain_unevaluated(rule, *node, rules, at, explanation);
            }
            Rule::MemberNames(node) if kind == PartKind::Object => {
                for (_, part) in at.children() {
                    if self.is_done(explanation) {
                        break;
                    }
                    if !self.name_holds(*node, part) {
                        self.explain_name(*node, part, at, explanation);
                    }
                }
            }
            Rule::AllOf(nodes) => nodes.iter().for_each(|node| self.explain(*node, at, explanation)),
            // For an optional value (`anyOf` with `null`), explain the violation of the non-null schema.
            Rule::AnyOf(nodes) if kind != PartKind::Null && self.other_than_null(nodes).is_some() => {
                self.other_than_null(nodes).into_iter().for_each(|node| self.explain(node, at, explanation));
            }
            Rule::Reference(node) => self.explain(*node, at, explanation),
            Rule::Dynamic(_) => self.target(rule).into_iter().for_each(|node| self.explain(node, at, explanation)),
            Rule::DependentSchemas(_) | Rule::If(_) => {
                self.each_conditional(rule, at, |checker, node| checker.explain(node, at, explanation));
            }
            Rule::Required(names) if kind == PartKind::Object => self.explain_missing(names, at, explanation),
            Rule::DependentRequired(lists) if kind == PartKind::Object => {
                for (name, names) in lists {
                    if self.has(name, at) {
                        self.explain_missing(names, at, explanation);
                    }
                }
            }
            rule if !self.rule_holds(rule, rules, at) && !self.has_failed() => {
                let message = self.describe(rule, at);
                explanation.add(at, rule.keyword(), message);
            }
            _ => {}
        }
    }

    fn explain_unevaluated(
        &mut self,
        rule: &Rule,
        node: NodeId,
        rules: &[Rule],
        at: Position<'_>,
        explanation: &mut Explanation,
    ) {
        let kind = at.part().kind;
        let mut unexpected = Unexpected::default();
        for ((at, part), evaluated) in at.children().zip(self.evaluated(rules, at)) {
            if self.is_done(explanation) {
                break;
            }
            if evaluated {
                continue;
            }
            if !self.is_false_schema(node) {
                self.explain(node, at, explanation);
            } else if kind == PartKind::Array {
                unexpected.add(|| shortened(part.raw).into_owned());
            } else {
                unexpected.add(|| format!("'{}'", shortened(&part.name())));
            }
        }
        let what = if kind == PartKind::Object { "Unevaluated properties" } else { "Unevaluated items" };
        unexpected.explain(rule.keyword(), what, at, explanation);
    }

    /// Checks the name of a member as if it were a value, for `propertyNames`.
    fn explain_name(&mut self, node: NodeId, member: &ValuePart<'_>, at: Position<'_>, explanation: &mut Explanation) {
        let (quoted, is_escaped) = member.quoted_name();
        let instance = Instance::of_name(quoted, is_escaped);
        let mut within = Explanation { max: 1, found: Vec::new() };
        let outer = std::mem::replace(&mut self.is_name, true);
        self.explain(node, Position { instance: &instance, place: ROOT }, &mut within);
        self.is_name = outer;
        for violation in within.found {
            explanation.add(at, "propertyNames", violation.message);
        }
    }

    fn explain_missing(&mut self, names: &[Box<str>], at: Position<'_>, explanation: &mut Explanation) {
        for name in names {
            if self.is_done(explanation) {
                return;
            }
            if !self.has(name, at) && !self.has_failed() {
                let name = Value::from(&**name).to_string();
                explanation.add(at, "required", format!("{} is a required property", shortened(&name)));
            }
        }
    }

    /// Returns `true` if the maximum number of violations is reached, or the check was aborted.
    fn is_done(&self, explanation: &Explanation) -> bool {
        explanation.is_full() || self.has_failed()
    }

    /// Returns `true` for the schema `false`. A member that it rejects is reported as unexpected, by its name.
    fn is_false_schema(&self, node: NodeId) -> bool {
        matches!(&*self.nodes.nodes[node as usize].rules, [Rule::False])
    }

    /// For two schemas, one of which is `{"type": "null"}`, returns the other one.
    fn other_than_null(&self, nodes: &[NodeId]) -> Option<NodeId> {
        let is_null = |node: NodeId| match &*self.nodes.nodes[node as usize].rules {
            [Rule::Type(types)] => types.names().eq(["null"]),
            _ => false,
        };
        match *nodes {
            [other, null] | [null, other] if is_null(null) && !is_null(other) => Some(other),
            _ => None,
        }
    }

    /// Returns the message for a violated rule.
    fn describe(&mut self, rule: &Rule, at: Position<'_>) -> String {
        let part = at.part();
        let shown = shortened(part.raw);
        match rule {
            Rule::Type(types) => {
                let names: Vec<String> = types.names().map(|name| format!("\"{name}\"")).collect();
                let s = plural(names.len() as u64, "", "s");
                format!("{shown} is not of type{s} {}", names.join(", "))
            }
            Rule::Const(value) => format!("{} was expected", shortened(&value.to_string())),
            Rule::Enum(values) => format!("{shown} is not one of {}", listed(&values.values)),
            Rule::Bound(bound, limit) => {
                let relation = match bound {
                    Bound::Minimum => "less than the minimum",
                    Bound::Maximum => "greater than the maximum",
                    Bound::ExclusiveMinimum => "less than or equal to the minimum",
                    Bound::ExclusiveMaximum => "greater than or equal to the maximum",
                };
                format!("{shown} is {relation} of {limit}")
            }
            Rule::MultipleOf(divisor) => format!("{shown} is not a multiple of {divisor}"),
            Rule::Length(limit, length) => {
                let relation = if *limit == Limit::Min { "shorter" } else { "longer" };
                format!("{shown} is {relation} than {length} character{}", plural(*length, "", "s"))
            }
            Rule::ItemCount(limit, count) => {
                format!("{shown} has {} than {count} item{}", limit.comparative(), plural(*count, "", "s"))
            }
            Rule::MemberCount(limit, count) => {
                format!("{shown} has {} than {count} propert{}", limit.comparative(), plural(*count, "y", "ies"))
            }
            Rule::Pattern(pattern) => format!("{shown} does not match \"{}\"", shortened(pattern.source())),
            Rule::Format(format, _) => not_of_format(part.raw, *format),
            Rule::Content(content) => format!("{shown} is not {}", content.describe()),
            Rule::UniqueItems => format!("{shown} has non-unique elements"),
            Rule::Contains(contains) => {
                let found = at.children().filter(|(at, _)| self.holds(contains.node, *at)).count() as u64;
                let s = plural(found, "", "s");
                match contains.max {
                    _ if found == 0 => format!("None of {shown} are valid under the given schema"),
                    Some(max) if found > max => {
                        format!("{shown} contains {found} matching item{s}; at most {max} allowed")
                    }
                    _ => format!("{shown} contains {found} matching item{s}; at least {} required", contains.min),
                }
            }
            Rule::AnyOf(_) => format!("{shown} is not valid under any of the schemas listed in the 'anyOf' keyword"),
            Rule::OneOf(nodes) if self.count_of(nodes, at) == 0 => {
                format!("{shown} is not valid under any of the schemas listed in the 'oneOf' keyword")
            }
            Rule::OneOf(_) => {
                format!("{shown} is valid under more than one of the schemas listed in the 'oneOf' keyword")
            }
            Rule::Not(_, schema) => format!("{} is not allowed for {shown}", shortened(&schema.to_string())),
            Rule::IsSchema(_) => format!("{shown} is not a JSON Schema"),
            _ => format!("False schema does not allow {shown}"),
        }
    }
}

impl Limit {
    fn comparative(self) -> &'static str {
        match self {
            Self::Min => "less",
            Self::Max => "more",
        }
    }
}

pub(crate) fn not_of_format(raw: &str, format: Format) -> String {
    format!("{} is not a \"{}\"", shortened(raw), format.name())
}

/// Members or elements that are not allowed, with the names that are shown.
#[derive(Debug, Default)]
struct Unexpected {
    count: usize,
    names: String,
}

impl Unexpected {
    fn add(&mut self, name: impl FnOnce() -> String) {
        if self.names.len() <= MAX_SHOWN {
            self.names.push_str(if self.count == 0 { "" } else { ", " });
            self.names.push_str(&name());
        }
        self.count += 1;
    }

    fn explain(&self, keyword: &'static str, what: &str, at: Position<'_>, explanation: &mut Explanation) {
        let verb = match self.count {
            0 => return,
            1 => "was",
            _ => "were",
        };
        let message = format!("{what} are not allowed ({} {verb} unexpected)", shortened(&self.names));
        explanation.add(at, keyword, message);
    }
}

/// Formats a list as `1, 2 or 3`; a long list is truncated.
fn listed(values: &[Value]) -> String {
    const MAX_LISTED: usize = 10;
    let shown: Vec<String> =
        values.iter().take(MAX_LISTED).map(|value| shortened(&value.to_string()).into_owned()).collect();
    match &*shown {
        _ if values.len() > MAX_LISTED => {
            format!("{} or {} other candidates", shown.join(", "), values.len() - MAX_LISTED)
        }
        [] => "no values".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn plural<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}
