//! What is wrong with a value, in words that a person or a model can act on.

use std::borrow::Cow;

use serde_json::Value;

use super::check::{At, Checker};
use super::format::Format;
use super::instance::{Instance, Kind, ROOT};
use super::node::{Bound, Limit, NodeId, Rule};

/// Longer values are shown in part.
const LONGEST: usize = 200;

/// A text, or the beginning of a long one.
#[must_use]
pub fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    Cow::Owned(format!("{}…", &text[..end]))
}

/// The violations that were found, up to as many as anybody wants to hear of.
#[derive(Debug)]
pub(super) struct Complaints<'r> {
    pub(super) root: &'r str,
    pub(super) most: usize,
    pub(super) found: Vec<String>,
}

impl Complaints<'_> {
    fn add(&mut self, at: At<'_>, words: &str) {
        if !self.is_full() {
            self.found.push(format!("{}: {words}", at.instance.path(at.place, self.root)));
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.most
    }
}

impl Checker<'_> {
    /// Says what is wrong with a value.
    pub(super) fn complain(&mut self, node: NodeId, at: At<'_>, complaints: &mut Complaints<'_>) {
        self.visit(node, |checker, rules| {
            for rule in rules {
                if checker.is_done(complaints) {
                    return;
                }
                checker.complain_of(rule, rules, at, complaints);
            }
        });
    }

    fn complain_of(&mut self, rule: &Rule, rules: &[Rule], at: At<'_>, complaints: &mut Complaints<'_>) {
        let kind = at.part().kind;
        match rule {
            Rule::Members(members) if kind == Kind::Object => {
                let mut unexpected = Unexpected::default();
                for (at, part) in at.within() {
                    if self.is_done(complaints) {
                        break;
                    }
                    self.each_member_node(members, &part.name, |checker, node, is_other| {
                        if is_other && checker.is_never(node) {
                            unexpected.add(|| format!("'{}'", shortened(&part.name)));
                        } else {
                            checker.complain(node, at, complaints);
                        }
                    });
                }
                unexpected.complain("Additional properties", at, complaints);
            }
            Rule::Items(items) if kind == Kind::Array => {
                let mut unexpected = Unexpected::default();
                for (index, (at, part)) in at.within().enumerate() {
                    if self.is_done(complaints) {
                        break;
                    }
                    match items.of(index) {
                        Some(node) if index >= items.first.len() && self.is_never(node) => {
                            unexpected.add(|| shortened(part.raw).into_owned());
                        }
                        Some(node) => self.complain(node, at, complaints),
                        None => {}
                    }
                }
                unexpected.complain("Additional items", at, complaints);
            }
            Rule::UnevaluatedMembers(node) if kind == Kind::Object => {
                self.complain_of_unevaluated("Unevaluated properties", *node, rules, at, complaints);
            }
            Rule::UnevaluatedItems(node) if kind == Kind::Array => {
                self.complain_of_unevaluated("Unevaluated items", *node, rules, at, complaints);
            }
            Rule::MemberNames(node) if kind == Kind::Object => {
                for (_, part) in at.within() {
                    if self.is_done(complaints) {
                        break;
                    }
                    if !self.name_holds(*node, &part.name) {
                        self.complain_of_name(*node, &part.name, at, complaints);
                    }
                }
            }
            Rule::AllOf(nodes) => nodes.iter().for_each(|node| self.complain(*node, at, complaints)),
            Rule::Reference(node) => self.complain(*node, at, complaints),
            Rule::Dynamic(_) => self.target(rule).into_iter().for_each(|node| self.complain(node, at, complaints)),
            Rule::DependentSchemas(_) | Rule::If(_) => {
                self.each_then(rule, at, |checker, node| checker.complain(node, at, complaints));
            }
            Rule::Required(names) if kind == Kind::Object => self.complain_of_missing(names, at, complaints),
            Rule::DependentRequired(lists) if kind == Kind::Object => {
                for (name, names) in lists {
                    if self.has(name, at) {
                        self.complain_of_missing(names, at, complaints);
                    }
                }
            }
            rule if !self.rule_holds(rule, rules, at) && !self.has_failed() => {
                let words = self.words(rule, at);
                complaints.add(at, &words);
            }
            _ => {}
        }
    }

    fn complain_of_unevaluated(
        &mut self,
        what: &str,
        node: NodeId,
        rules: &[Rule],
        at: At<'_>,
        complaints: &mut Complaints<'_>,
    ) {
        let mut unexpected = Unexpected::default();
        for ((at, part), evaluated) in at.within().zip(self.evaluated(rules, at)) {
            if self.is_done(complaints) {
                break;
            }
            if evaluated {
            } else if !self.is_never(node) {
                self.complain(node, at, complaints);
            } else if part.name.is_empty() {
                unexpected.add(|| shortened(part.raw).into_owned());
            } else {
                unexpected.add(|| format!("'{}'", shortened(&part.name)));
            }
        }
        unexpected.complain(what, at, complaints);
    }

    fn complain_of_name(&mut self, node: NodeId, name: &str, at: At<'_>, complaints: &mut Complaints<'_>) {
        let quoted = Value::from(name).to_string();
        let instance = Instance::of_name(name, &quoted);
        let mut within = Complaints { root: "", most: 1, found: Vec::new() };
        self.complain(node, At { instance: &instance, place: ROOT }, &mut within);
        for words in within.found {
            complaints.add(at, words.trim_start_matches(": "));
        }
    }

    fn complain_of_missing(&mut self, names: &[Box<str>], at: At<'_>, complaints: &mut Complaints<'_>) {
        for name in names {
            if self.is_done(complaints) {
                return;
            }
            if !self.has(name, at) && !self.has_failed() {
                let name = Value::from(&**name).to_string();
                complaints.add(at, &format!("{} is a required property", shortened(&name)));
            }
        }
    }

    /// Returns `true` if no more violations are wanted or can be found.
    fn is_done(&self, complaints: &Complaints<'_>) -> bool {
        complaints.is_full() || self.has_failed()
    }

    fn is_never(&self, node: NodeId) -> bool {
        matches!(&*self.nodes.nodes[node as usize].rules, [Rule::Never])
    }

    fn words(&mut self, rule: &Rule, at: At<'_>) -> String {
        let part = at.part();
        let shown = shortened(part.raw);
        match rule {
            Rule::Type(types) => {
                let names: Vec<String> = types.names().map(|name| format!("\"{name}\"")).collect();
                let plural = if names.len() == 1 { "" } else { "s" };
                format!("{shown} is not of type{plural} {}", names.join(", "))
            }
            Rule::Const(value) => format!("{} was expected", shortened(&value.to_string())),
            Rule::Enum(values) => format!("{shown} is not one of {}", listed(values)),
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
                let relation = if *limit == Limit::Least { "shorter" } else { "longer" };
                format!("{shown} is {relation} than {length} character{}", plural(*length, "", "s"))
            }
            Rule::ItemCount(limit, count) => {
                format!("{shown} has {} than {count} item{}", limit.words(), plural(*count, "", "s"))
            }
            Rule::MemberCount(limit, count) => {
                format!("{shown} has {} than {count} propert{}", limit.words(), plural(*count, "y", "ies"))
            }
            Rule::Pattern(pattern) => format!("{shown} does not match \"{}\"", shortened(pattern.source())),
            Rule::Format(format, _) => not_of_format(part.raw, *format),
            Rule::Content(content) => format!("{shown} is not {}", content.words()),
            Rule::UniqueItems => format!("{shown} has non-unique elements"),
            Rule::Contains(contains) => {
                let found = at.within().filter(|(at, _)| self.holds(contains.node, *at)).count() as u64;
                match contains.most {
                    _ if found == 0 => format!("None of {shown} are valid under the given schema"),
                    Some(most) if found > most => {
                        format!("{shown} contains {found} of what may be there {most} times at most")
                    }
                    _ => format!("{shown} contains {found} of what has to be there {} times at least", contains.least),
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
    fn words(self) -> &'static str {
        match self {
            Self::Least => "less",
            Self::Most => "more",
        }
    }
}

pub(super) fn not_of_format(raw: &str, format: Format) -> String {
    format!("{} is not a \"{}\"", shortened(raw), format.name())
}

/// The members or elements that no rule allows: as many of their names as are shown.
#[derive(Debug, Default)]
struct Unexpected {
    count: usize,
    names: String,
}

impl Unexpected {
    fn add(&mut self, name: impl FnOnce() -> String) {
        if self.names.len() <= LONGEST {
            self.names.push_str(if self.count == 0 { "" } else { ", " });
            self.names.push_str(&name());
        }
        self.count += 1;
    }

    fn complain(&self, what: &str, at: At<'_>, complaints: &mut Complaints<'_>) {
        let verb = match self.count {
            0 => return,
            1 => "was",
            _ => "were",
        };
        complaints.add(at, &format!("{what} are not allowed ({} {verb} unexpected)", shortened(&self.names)));
    }
}

/// `1, 2 or 3`; of many, only the first.
fn listed(values: &[Value]) -> String {
    const MOST: usize = 10;
    let shown: Vec<String> = values.iter().take(MOST).map(|value| shortened(&value.to_string()).into_owned()).collect();
    match &*shown {
        _ if values.len() > MOST => format!("{} or {} other candidates", shown.join(", "), values.len() - MOST),
        [] => "no values".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn plural<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}
