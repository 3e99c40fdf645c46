//! Whether a value is valid, without words about it.

use super::instance::{Instance, Kind, Part, Place};
use super::node::{Bound, Contains, Limit, Members, NodeId, Nodes, Rule};
use super::number::{Number, is_multiple};
use super::pattern::Work;
use super::survey::{ResourceId, Survey};

/// Holds one value against a schema.
#[derive(Debug)]
pub(super) struct Checker<'s> {
    pub(super) nodes: &'s Nodes,
    pub(super) work: Work,
    depth: usize,
    /// The resources on the way here, which dynamic references depend on.
    way: Vec<ResourceId>,
    is_too_deep: bool,
}

/// A part of a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'i> {
    pub(super) instance: &'i Instance<'i>,
    pub(super) place: Place,
}

impl<'i> At<'i> {
    pub(super) fn part(self) -> &'i Part<'i> {
        self.instance.part(self.place)
    }

    pub(super) fn go(self, place: Place) -> Self {
        Self { place, ..self }
    }

    pub(super) fn within(self) -> impl Iterator<Item = (At<'i>, &'i Part<'i>)> {
        self.instance.within(self.place).map(move |(place, part)| (self.go(place), part))
    }

    pub(super) fn has(self, name: &str) -> bool {
        self.instance.member(self.place, name).is_some()
    }
}

/// Deeper than this, nothing is followed: the stack has an end. A value of the deepest nesting needs a fifth.
const DEEPEST: usize = 640;

impl<'s> Checker<'s> {
    /// With as much work to do as a value of this size may need.
    pub(super) fn new(nodes: &'s Nodes, instance: &Instance<'_>, length: usize) -> Self {
        let work = 1_000_000 + 1000 * instance.size() as u64 + 100 * length as u64;
        Self { nodes, work: Work::new(work), depth: 0, way: Vec::new(), is_too_deep: false }
    }

    /// Why there was no end to it, if there was none.
    pub(super) fn failure(&self) -> Option<&'static str> {
        if self.is_too_deep {
            return Some("what the schema refers to is too deep to be checked");
        }
        self.work.is_used_up().then_some("it takes too long to hold this against the schema")
    }

    pub(super) fn holds(&mut self, node: NodeId, at: At<'_>) -> bool {
        self.visit(node, |checker, rules| rules.iter().all(|rule| checker.rule_holds(rule, rules, at))).unwrap_or(false)
    }

    /// Does something at a node; nothing if it is too deep or too much.
    pub(super) fn visit<T>(&mut self, node: NodeId, act: impl FnOnce(&mut Self, &'s [Rule]) -> T) -> Option<T> {
        if !self.work.take(1) {
            return None;
        }
        if self.depth >= DEEPEST {
            self.is_too_deep = true;
            return None;
        }
        let nodes = self.nodes;
        let node = &nodes.nodes[node as usize];
        let enters = nodes.is_dynamic && self.way.last() != Some(&node.resource);
        if enters {
            self.way.push(node.resource);
        }
        self.depth += 1;
        let done = act(self, &node.rules);
        self.depth -= 1;
        if enters {
            self.way.pop();
        }
        Some(done)
    }

    /// Whether one of the `rules` of a node holds.
    pub(super) fn rule_holds(&mut self, rule: &Rule, rules: &[Rule], at: At<'_>) -> bool {
        let part = at.part();
        if !self.work.take(cost(rule, part)) {
            return false;
        }
        match rule {
            Rule::Never => false,
            Rule::Type(types) => types.has(part),
            Rule::Const(value) => at.instance.is(at.place, value),
            Rule::Enum(values) => values.iter().any(|value| at.instance.is(at.place, value)),
            Rule::Bound(bound, limit) => part.kind != Kind::Number || is_within(Number::read(part.raw), *bound, *limit),
            Rule::MultipleOf(divisor) => part.kind != Kind::Number || is_multiple(part.raw, divisor),
            Rule::Length(limit, length) => part.text().is_none_or(|text| is_long(text, *limit, *length)),
            Rule::ItemCount(limit, count) => part.kind != Kind::Array || limit.allows(part.len.into(), *count),
            Rule::MemberCount(limit, count) => {
                part.kind != Kind::Object || limit.allows(at.instance.member_count(at.place), *count)
            }
            Rule::Required(names) => part.kind != Kind::Object || self.has_all(names, at),
            Rule::DependentRequired(lists) => {
                part.kind != Kind::Object
                    || lists
                        .iter()
                        .all(|(name, names)| !self.has_all(std::slice::from_ref(name), at) || self.has_all(names, at))
            }
            Rule::Pattern(pattern) => part.text().is_none_or(|text| pattern.matches(text, &mut self.work)),
            Rule::Format(format) => part.text().is_none_or(|text| format.holds(text)),
            Rule::Content(content) => part.text().is_none_or(|text| content.holds(text)),
            Rule::UniqueItems => part.kind != Kind::Array || at.instance.has_no_equals(at.place),
            Rule::Members(members) => part.kind != Kind::Object || self.members_hold(members, at),
            Rule::MemberNames(node) => {
                part.kind != Kind::Object || at.within().all(|(_, part)| self.name_holds(*node, &part.name))
            }
            Rule::Items(items) => {
                let holds = |(index, (at, _))| items.of(index).is_none_or(|node| self.holds(node, at));
                part.kind != Kind::Array || at.within().enumerate().all(holds)
            }
            Rule::Contains(contains) => part.kind != Kind::Array || self.contains(contains, at),
            Rule::DependentSchemas(_) | Rule::If(_) => self.then_hold(rule, at),
            Rule::AllOf(nodes) => nodes.iter().all(|node| self.holds(*node, at)),
            Rule::AnyOf(nodes) => nodes.iter().any(|node| self.holds(*node, at)),
            Rule::OneOf(nodes) => self.count_of(nodes, at) == 1,
            Rule::Not(node, _) => !self.holds(*node, at),
            Rule::Reference(node) => self.holds(*node, at),
            Rule::Dynamic(_) => self.target(rule).is_none_or(|node| self.holds(node, at)),
            Rule::IsSchema(draft) => {
                self.work.take(part.raw.len() as u64)
                    && serde_json::from_str(part.raw).is_ok_and(|value| Survey::is_schema(&value, *draft))
            }
            Rule::UnevaluatedMembers(node) => part.kind != Kind::Object || self.unevaluated_hold(*node, rules, at),
            Rule::UnevaluatedItems(node) => part.kind != Kind::Array || self.unevaluated_hold(*node, rules, at),
        }
    }

    fn has_all(&mut self, names: &[Box<str>], at: At<'_>) -> bool {
        // A list of names against a list of members.
        let members = u64::from(at.part().len);
        names.iter().all(|name| self.work.take(1 + members / 8) && at.has(name))
    }

    fn members_hold(&mut self, members: &Members, at: At<'_>) -> bool {
        at.within().all(|(at, part)| {
            let mut holds = true;
            self.each_member_node(members, &part.name, |checker, node, _| {
                holds = holds && checker.holds(node, at);
            });
            holds
        })
    }

    /// Shows the nodes that a member of this name has to fulfil, and whether its name or something else is why. Which those are
    /// that a pattern without a program is about, nobody knows; they are not others in any case.
    pub(super) fn each_member_node(
        &mut self,
        members: &Members,
        name: &str,
        mut show: impl FnMut(&mut Self, NodeId, IsOther),
    ) -> Known {
        let mut known = false;
        if let Some(node) = members.named(name) {
            known = true;
            show(self, node, false);
        }
        for (pattern, node) in &members.patterns {
            if !pattern.matches(name, &mut self.work) {
                continue;
            }
            known = true;
            if pattern.is_matchable() {
                show(self, *node, false);
            }
        }
        if let Some(node) = members.others.filter(|_| !known) {
            known = true;
            show(self, node, true);
        }
        known
    }

    pub(super) fn name_holds(&mut self, node: NodeId, name: &str) -> bool {
        self.work.take(name.len() as u64 / 32);
        let instance = Instance::of_name(name, "");
        self.holds(node, At { instance: &instance, place: super::instance::ROOT })
    }

    fn contains(&mut self, contains: &Contains, at: At<'_>) -> bool {
        let mut found = 0;
        for (at, _) in at.within() {
            found += u64::from(self.holds(contains.node, at));
            if found >= contains.least && contains.most.is_none() {
                return true;
            }
        }
        found >= contains.least && contains.most.is_none_or(|most| found <= most)
    }

    fn then_hold(&mut self, rule: &Rule, at: At<'_>) -> bool {
        let mut holds = true;
        self.each_then(rule, at, |checker, node| holds = holds && checker.holds(node, at));
        holds
    }

    /// Shows the nodes that apply because of something about the value.
    pub(super) fn each_then(&mut self, rule: &Rule, at: At<'_>, mut show: impl FnMut(&mut Self, NodeId)) {
        match rule {
            Rule::DependentSchemas(schemas) if at.part().kind == Kind::Object => {
                for (name, node) in schemas {
                    if self.has_all(std::slice::from_ref(name), at) {
                        show(self, *node);
                    }
                }
            }
            Rule::If(choice) => {
                let chosen = if self.holds(choice.condition, at) { choice.then } else { choice.otherwise };
                if let Some(node) = chosen {
                    show(self, node);
                }
            }
            _ => {}
        }
    }

    /// How many hold; two are as good as more.
    pub(super) fn count_of(&mut self, nodes: &[NodeId], at: At<'_>) -> usize {
        nodes.iter().filter(|node| self.holds(**node, at)).take(2).count()
    }

    /// Where a dynamic reference leads: by way of the outermost resource that has such a place.
    pub(super) fn target(&self, rule: &Rule) -> Option<NodeId> {
        let Rule::Dynamic(dynamic) = rule else { return None };
        let by_way_of = |resource: &ResourceId| {
            let found = dynamic.targets.iter().find(|(other, _)| other == resource);
            found.map(|(_, node)| *node)
        };
        Some(self.way.iter().find_map(by_way_of).unwrap_or(dynamic.otherwise))
    }
}

pub(super) type IsOther = bool;

/// Whether something is said about a member.
pub(super) type Known = bool;

impl Limit {
    pub(super) fn allows(self, count: u64, limit: u64) -> bool {
        match self {
            Self::Least => count >= limit,
            Self::Most => count <= limit,
        }
    }
}

/// How much of a part a rule looks through by itself, without following anything. Next to nothing for most.
fn cost(rule: &Rule, part: &Part<'_>) -> u64 {
    let length = part.text().map_or(part.raw.len(), str::len) as u64;
    match rule {
        Rule::UniqueItems | Rule::MemberCount(..) => length / 2,
        Rule::Enum(values) => length / 4 + values.len() as u64 / 64,
        Rule::Const(_) => length / 4,
        Rule::Format(_) | Rule::Content(_) | Rule::Length(..) | Rule::Bound(..) | Rule::MultipleOf(_) => length / 8,
        Rule::Members(_) | Rule::Items(_) | Rule::UnevaluatedMembers(_) | Rule::UnevaluatedItems(_) => {
            u64::from(part.len)
        }
        _ => 0,
    }
}

fn is_within(number: Number, bound: Bound, limit: Number) -> bool {
    match bound {
        Bound::Minimum => number >= limit,
        Bound::Maximum => number <= limit,
        Bound::ExclusiveMinimum => number > limit,
        Bound::ExclusiveMaximum => number < limit,
    }
}

/// In characters, of which most texts need not be counted.
fn is_long(text: &str, limit: Limit, length: u64) -> bool {
    let bytes = text.len() as u64;
    match limit {
        Limit::Least if bytes / 4 >= length => true,
        Limit::Most if bytes <= length => true,
        _ => limit.allows(text.chars().count() as u64, length),
    }
}
