//! Validation of a value, without explanations.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::budget::Budget;
use crate::format::Format;
use crate::instance::{Instance, PartKind, Place, ROOT, UNESCAPE_STEPS, ValuePart};
use crate::node::{Bound, Contains, EnumValues, Limit, MemberRules, NodeId, Nodes, Rule};
use crate::number::{Number, is_multiple};
use crate::pattern::validity_steps;
use crate::ref_index::{RefIndex, ResourceId};
use crate::validator::{ValidationError, Validator, Violation};

/// Validates a value against a schema.
#[derive(Debug)]
pub(crate) struct Checker<'s> {
    pub(crate) nodes: &'s Nodes,
    pub(crate) budget: &'s mut Budget,
    depth: usize,
    /// The resources on the current path, which dynamic references depend on.
    scope: Vec<ResourceId>,
    /// Id of the current scope.
    scope_id: u32,
    /// Ids of scopes, by the outer scope and the entered resource.
    scopes: HashMap<(u32, ResourceId), u32>,
    /// Cached verdicts that `unevaluated…` rules need again.
    verdicts: HashMap<(NodeId, Place, u32), bool>,
    /// `true` while the name of a member is checked.
    pub(crate) is_name: bool,
    /// Path of the first string with an unpaired surrogate that a rule needs.
    invalid_string: Option<String>,
    is_too_deep: bool,
    /// `true` if formats are annotations in dialects that define them so.
    pub(crate) formats_are_annotations: bool,
    /// Formats that strings violate where formats are annotations. Their paths, which are expensive to find, are
    /// computed only for the final warnings.
    pub(crate) warnings: Vec<(Format, Place)>,
    /// The rule that was being checked when the budget ended, and the path to the value.
    exhausted_at: Option<(&'static str, String)>,
    /// The last long number that was parsed.
    last_number: Option<(*const u8, Number)>,
}

/// A position in a value: a part of it, such as a member or an element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position<'i> {
    pub(crate) instance: &'i Instance<'i>,
    pub(crate) place: Place,
}

impl<'i> Position<'i> {
    pub(crate) fn part(self) -> &'i ValuePart<'i> {
        self.instance.part(self.place)
    }

    pub(crate) fn move_to(self, place: Place) -> Self {
        Self { place, ..self }
    }

    pub(crate) fn children(self) -> impl Iterator<Item = (Position<'i>, &'i ValuePart<'i>)> {
        self.instance.children(self.place).map(move |(place, part)| (self.move_to(place), part))
    }
}

/// Maximum recursion depth, to limit stack use. A value of maximum nesting needs a fifth of it.
const MAX_RECURSION: usize = 640;

/// Steps for each byte of a text from which a tree is built. The tree takes far more memory than the text.
pub(crate) const PARSE_STEPS: u64 = 100;

impl<'s> Checker<'s> {
    pub(crate) fn new(nodes: &'s Nodes, budget: &'s mut Budget) -> Self {
        Self {
            nodes,
            budget,
            depth: 0,
            scope: Vec::new(),
            scope_id: 0,
            scopes: HashMap::new(),
            verdicts: HashMap::new(),
            is_name: false,
            invalid_string: None,
            is_too_deep: false,
            formats_are_annotations: false,
            warnings: Vec::new(),
            exhausted_at: None,
            last_number: None,
        }
    }

    /// Returns `true` if the check was aborted, so that its verdict is meaningless.
    pub(crate) fn has_failed(&self) -> bool {
        self.is_too_deep || self.invalid_string.is_some() || self.budget.is_exhausted()
    }

    /// Returns the reason why the check was aborted, if it was.
    pub(crate) fn failure(&self) -> Option<ValidationError> {
        if self.is_too_deep {
            return Some(ValidationError::SchemaTooDeep);
        }
        if let (Some(path), false) = (&self.invalid_string, self.budget.is_exhausted()) {
            let message = "a string with an unpaired surrogate".to_owned();
            let violation = Violation { path: path.clone(), keyword: "type", message };
            return Some(ValidationError::Invalid(vec![violation]));
        }
        let (keyword, path) = match &self.exhausted_at {
            Some((keyword, path)) => (Some(*keyword), path.clone()),
            None => (None, String::new()),
        };
        self.budget.is_exhausted().then_some(ValidationError::TooExpensive { path, keyword })
    }

    pub(crate) fn holds(&mut self, node: NodeId, at: Position<'_>) -> bool {
        let warnings = self.warnings.len();
        let kind = at.part().kind;
        let all = |checker: &mut Self, rules: &'s [Rule]| {
            rules.iter().all(|rule| match rule {
                // Fast path: most schemas begin with a type, and most values have it.
                Rule::Type(types) if types.has(kind) && checker.budget.charge(1) => true,
                rule => checker.rule_holds(rule, rules, at),
            })
        };
        let holds = self.visit(node, all).unwrap_or(false);
        if !holds {
            // A failed schema has no annotations.
            self.warnings.truncate(warnings);
        }
        holds
    }

    /// Like [`Checker::holds`], but caches the verdict if `unevaluated…` rules may need it again. Otherwise the number
    /// of checks would double with every level.
    pub(crate) fn holds_once(&mut self, node: NodeId, at: Position<'_>) -> bool {
        /// Accounts for the memory of a verdict as well as for the time.
        const VERDICT_STEPS: u64 = 64;
        if !self.nodes.has_unevaluated || self.is_name {
            return self.holds(node, at);
        }
        let key = (node, at.place, self.scope_id);
        if let Some(holds) = self.verdicts.get(&key) {
            return *holds && self.budget.charge(4);
        }
        let holds = self.holds(node, at);
        if self.budget.charge(VERDICT_STEPS) {
            self.verdicts.insert(key, holds);
        }
        holds
    }

    /// Runs an action on the rules of a node; `None` if the depth or the budget is exceeded.
    pub(crate) fn visit<T>(&mut self, node: NodeId, act: impl FnOnce(&mut Self, &'s [Rule]) -> T) -> Option<T> {
        if !self.budget.charge(4) {
            return None;
        }
        if self.depth >= MAX_RECURSION {
            self.is_too_deep = true;
            return None;
        }
        let nodes = self.nodes;
        let node = &nodes.nodes[node as usize];
        let enters = nodes.is_dynamic && self.scope.last() != Some(&node.resource);
        let outer = self.scope_id;
        if enters {
            self.scope.push(node.resource);
            let next = u32::try_from(self.scopes.len() + 1).unwrap_or(u32::MAX);
            self.scope_id = *self.scopes.entry((outer, node.resource)).or_insert(next);
        }
        self.depth += 1;
        let done = act(self, &node.rules);
        self.depth -= 1;
        if enters {
            self.scope.pop();
            self.scope_id = outer;
        }
        Some(done)
    }

    /// Returns `true` if one of the `rules` of a node holds.
    pub(crate) fn rule_holds(&mut self, rule: &Rule, rules: &[Rule], at: Position<'_>) -> bool {
        let holds = self.budget.charge(1) && self.is_kept(rule, rules, at);
        if self.budget.is_exhausted() && self.exhausted_at.is_none() {
            self.exhausted_at = Some((rule.keyword(), at.instance.path(at.place)));
        }
        holds
    }

    fn is_kept(&mut self, rule: &Rule, rules: &[Rule], at: Position<'_>) -> bool {
        let part = at.part();
        match rule {
            Rule::False => false,
            Rule::Type(types) => match part.kind {
                PartKind::Number => types.has_number(part.raw, || self.number(part)),
                kind => types.has(kind),
            },
            Rule::Const(value) => self.is_equal(at, value),
            Rule::Enum(values) => self.is_one_of(at, values),
            Rule::Bound(bound, limit) => part.kind != PartKind::Number || is_within(self.number(part), *bound, *limit),
            Rule::MultipleOf(divisor) => {
                part.kind != PartKind::Number
                    || self.budget.charge_bytes(part.raw.len(), 1) && is_multiple(part.raw, divisor)
            }
            Rule::Length(limit, length) => part.kind != PartKind::String || self.has_length(at, *limit, *length),
            Rule::ItemCount(limit, count) => part.kind != PartKind::Array || limit.allows(part.len.into(), *count),
            Rule::MemberCount(limit, count) => {
                part.kind != PartKind::Object
                    || self.charge_members(at) && limit.allows(at.instance.member_count(at.place), *count)
            }
            Rule::Required(names) => part.kind != PartKind::Object || self.has_all(names, at),
            Rule::DependentRequired(lists) => {
                part.kind != PartKind::Object
                    || lists
                        .iter()
                        .all(|(name, names)| !self.has_all(std::slice::from_ref(name), at) || self.has_all(names, at))
            }
            Rule::Pattern(pattern) => self.text(at).is_none_or(|text| pattern.matches(&text, self.budget)),
            Rule::Format(format, is_annotation) => {
                self.text(at).is_none_or(|text| format.holds(&text, self.budget))
                    || *is_annotation && self.formats_are_annotations && self.warn(*format, at)
            }
            Rule::Content(content) => {
                self.text(at).is_none_or(|text| self.budget.charge_each(text.len(), 2) && content.holds(&text))
            }
            Rule::UniqueItems => part.kind != PartKind::Array || self.has_no_equals(at),
            Rule::Members(members) => part.kind != PartKind::Object || self.members_hold(members, at),
            Rule::MemberNames(node) => {
                part.kind != PartKind::Object || at.children().all(|(_, part)| self.name_holds(*node, part))
            }
            Rule::Items(items) => {
                let holds =
                    |(index, (at, _))| self.budget.charge(1) && items.of(index).is_none_or(|node| self.holds(node, at));
                part.kind != PartKind::Array || at.children().enumerate().all(holds)
            }
            Rule::Contains(contains) => part.kind != PartKind::Array || self.contains(contains, at),
            Rule::DependentSchemas(_) | Rule::If(_) => self.then_hold(rule, at),
            Rule::AllOf(nodes) => nodes.iter().all(|node| self.holds(*node, at)),
            Rule::AnyOf(nodes) => nodes.iter().any(|node| self.holds_once(*node, at)),
            Rule::OneOf(nodes) => self.count_of(nodes, at) == 1,
            Rule::Not(node, _) => !self.holds(*node, at),
            Rule::Reference(node) => self.holds(*node, at),
            Rule::Dynamic(_) => self.target(rule).is_none_or(|node| self.holds(node, at)),
            Rule::IsSchema(draft) => {
                self.budget.charge_each(part.raw.len(), PARSE_STEPS)
                    && self.budget.charge(validity_steps(part.raw))
                    && serde_json::from_str(part.raw).is_ok_and(|value| RefIndex::is_schema(&value, *draft))
            }
            Rule::UnevaluatedMembers(node) => part.kind != PartKind::Object || self.unevaluated_hold(*node, rules, at),
            Rule::UnevaluatedItems(node) => part.kind != PartKind::Array || self.unevaluated_hold(*node, rules, at),
        }
    }

    /// Records that a string violates the format of its annotation, which is not a violation.
    fn warn(&mut self, format: Format, at: Position<'_>) -> bool {
        if self.warnings.len() < Validator::MAX_VIOLATIONS {
            self.warnings.push((format, at.place));
        }
        true
    }

    /// Returns the value of a number. A long number is parsed once for all rules. If the budget is exhausted, returns
    /// NaN.
    pub(crate) fn number(&mut self, part: &ValuePart<'_>) -> Number {
        const LONG: usize = 64;
        let start = part.raw.as_ptr();
        match self.last_number {
            Some((known, number)) if known == start => return number,
            _ if !self.budget.charge_bytes(part.raw.len(), 1) => return Number::Float(f64::NAN),
            _ => {}
        }
        let number = Number::read(part.raw);
        if part.raw.len() > LONG {
            self.last_number = Some((start, number));
        }
        number
    }

    /// Returns the decoded string; `None` for other values. A string with an unpaired surrogate aborts the check.
    fn text<'i>(&mut self, at: Position<'i>) -> Option<Cow<'i, str>> {
        let part = at.part();
        if part.kind != PartKind::String || !self.charge_unescaping(part) {
            return None;
        }
        let text = part.text();
        if text.is_none() && self.invalid_string.is_none() {
            self.invalid_string = Some(at.instance.path(at.place));
        }
        text
    }

    /// Charges for unescaping a string, or the names of an object with escapes.
    pub(crate) fn charge_unescaping(&mut self, part: &ValuePart<'_>) -> bool {
        !part.is_escaped() || self.budget.charge(UNESCAPE_STEPS + part.raw.len() as u64 / 4)
    }

    /// Compares the length in characters with a limit. Most strings need not be counted.
    fn has_length(&mut self, at: Position<'_>, limit: Limit, length: u64) -> bool {
        let part = at.part();
        let bytes = part.raw.len().saturating_sub(2) as u64;
        // A character takes up to 4 bytes, or up to 12 when escaped.
        let min = bytes / if part.is_escaped() { 12 } else { 4 };
        match limit {
            Limit::Min if min >= length => true,
            Limit::Max if bytes <= length => true,
            _ => self.text(at).is_none_or(|text| {
                self.budget.charge_bytes(text.len(), 16) && limit.allows(text.chars().count() as u64, length)
            }),
        }
    }

    fn is_one_of(&mut self, at: Position<'_>, values: &EnumValues) -> bool {
        let part = at.part();
        let is_found = match part.kind {
            PartKind::String => {
                let Some(text) = self.text(at) else { return true };
                return self.budget.charge(values.comparisons() * name_steps(&text)) && values.has_text(&text);
            }
            PartKind::Number => {
                let number = self.number(part);
                self.budget.charge(values.comparisons()) && values.has_integer(number)
            }
            _ => false,
        };
        is_found || values.others().any(|value| self.is_equal(at, value))
    }

    /// Charges for a scan of the names of all members, sorted or hashed.
    pub(crate) fn charge_members(&mut self, at: Position<'_>) -> bool {
        let part = at.part();
        self.budget.charge_each(part.len as usize, 16)
            && self.budget.charge_bytes(part.raw.len(), 16)
            && self.charge_unescaping(part)
    }

    fn has_all(&mut self, names: &[Box<str>], at: Position<'_>) -> bool {
        names.iter().all(|name| self.has(name, at))
    }

    /// Returns `true` if there is a member with this name.
    pub(crate) fn has(&mut self, name: &str, at: Position<'_>) -> bool {
        let comparisons = u64::from(at.part().len);
        self.budget.charge(1 + comparisons.saturating_mul(name_steps(name)))
            && self.charge_unescaping(at.part())
            && at.instance.has_member(at.place, name)
    }

    fn members_hold(&mut self, members: &MemberRules, at: Position<'_>) -> bool {
        self.charge_unescaping(at.part());
        at.children().all(|(at, part)| {
            let mut holds = true;
            self.each_member_node(members, &part.name(), |checker, node, _| {
                holds = holds && checker.holds(node, at);
            });
            holds && !self.budget.is_exhausted()
        })
    }

    /// Calls `show` with the nodes that apply to a member with this name, and whether they are the nodes for
    /// additional members. If a pattern is not enforced, its members are unknown, and no member counts as additional.
    pub(crate) fn each_member_node(
        &mut self,
        members: &MemberRules,
        name: &str,
        mut show: impl FnMut(&mut Self, NodeId, IsOther),
    ) -> Known {
        let mut known = false;
        let comparisons = 1 + u64::from(members.named.len().checked_ilog2().unwrap_or_default());
        if !self.budget.charge(1 + comparisons.saturating_mul(name_steps(name))) {
            return known;
        }
        if let Some(node) = members.named(name) {
            known = true;
            show(self, node, false);
        }
        for (pattern, node) in &members.patterns {
            if !pattern.matches(name, self.budget) {
                continue;
            }
            known = true;
            if pattern.is_enforced() {
                show(self, *node, false);
            }
        }
        if let Some(node) = members.others.filter(|_| !known) {
            known = true;
            show(self, node, true);
        }
        known
    }

    pub(crate) fn name_holds(&mut self, node: NodeId, member: &ValuePart<'_>) -> bool {
        if !self.budget.charge(16) {
            return false;
        }
        let (quoted, is_escaped) = member.quoted_name();
        let instance = Instance::of_name(quoted, is_escaped);
        let outer = std::mem::replace(&mut self.is_name, true);
        let holds = self.holds(node, Position { instance: &instance, place: ROOT });
        self.is_name = outer;
        holds
    }

    fn contains(&mut self, contains: &Contains, at: Position<'_>) -> bool {
        let mut found = 0;
        for (at, _) in at.children() {
            found += u64::from(self.holds_once(contains.node, at));
            if self.budget.is_exhausted() {
                return false;
            }
            if found >= contains.min && contains.max.is_none() {
                return true;
            }
        }
        found >= contains.min && contains.max.is_none_or(|max| found <= max)
    }

    fn then_hold(&mut self, rule: &Rule, at: Position<'_>) -> bool {
        let mut holds = true;
        self.each_conditional(rule, at, |checker, node| holds = holds && checker.holds(node, at));
        holds
    }

    /// Calls `show` with the nodes of `then`, `else` or `dependentSchemas` that apply to this value.
    pub(crate) fn each_conditional(&mut self, rule: &Rule, at: Position<'_>, mut show: impl FnMut(&mut Self, NodeId)) {
        match rule {
            Rule::DependentSchemas(schemas) if at.part().kind == PartKind::Object => {
                for (name, node) in schemas {
                    if self.has_all(std::slice::from_ref(name), at) {
                        show(self, *node);
                    }
                }
            }
            Rule::If(choice) => {
                let chosen = if self.holds_once(choice.condition, at) { choice.then } else { choice.otherwise };
                if let Some(node) = chosen {
                    show(self, node);
                }
            }
            _ => {}
        }
    }

    /// Returns the number of schemas that hold, up to two.
    pub(crate) fn count_of(&mut self, nodes: &[NodeId], at: Position<'_>) -> usize {
        nodes.iter().filter(|node| self.holds_once(**node, at)).take(2).count()
    }

    /// Returns the target of a dynamic reference: the one in the outermost resource with the anchor.
    pub(crate) fn target(&mut self, rule: &Rule) -> Option<NodeId> {
        let Rule::Dynamic(dynamic) = rule else { return None };
        if !self.budget.charge_each(self.scope.len(), 1 + dynamic.targets.len() as u64 / 4) {
            return None;
        }
        let by_way_of = |resource: &ResourceId| {
            let found = dynamic.targets.iter().find(|(other, _)| other == resource);
            found.map(|(_, node)| *node)
        };
        Some(self.scope.iter().find_map(by_way_of).unwrap_or(dynamic.otherwise))
    }
}

pub(crate) type IsOther = bool;

/// `true` if a rule applies to a member.
pub(crate) type Known = bool;

impl Limit {
    pub(crate) fn allows(self, count: u64, limit: u64) -> bool {
        match self {
            Self::Min => count >= limit,
            Self::Max => count <= limit,
        }
    }
}

/// Steps of one comparison with a name.
fn name_steps(name: &str) -> u64 {
    1 + name.len() as u64 / 16
}

fn is_within(number: Number, bound: Bound, limit: Number) -> bool {
    match bound {
        Bound::Minimum => number >= limit,
        Bound::Maximum => number <= limit,
        Bound::ExclusiveMinimum => number > limit,
        Bound::ExclusiveMaximum => number < limit,
    }
}
