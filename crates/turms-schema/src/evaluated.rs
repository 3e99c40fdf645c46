//! Members and elements that are evaluated by other rules. `unevaluatedProperties` and `unevaluatedItems` apply to the
//! others.

use crate::check::{Checker, Position};
use crate::instance::PartKind;
use crate::node::{NodeId, Rule};

impl Checker<'_> {
    pub(crate) fn unevaluated_hold(&mut self, node: NodeId, rules: &[Rule], at: Position<'_>) -> bool {
        let evaluated = self.evaluated(rules, at);
        at.children().zip(evaluated).all(|((at, _), evaluated)| evaluated || self.holds(node, at))
    }

    /// Returns for each member or element whether one of the rules of a node evaluates it.
    pub(crate) fn evaluated(&mut self, rules: &[Rule], at: Position<'_>) -> Vec<bool> {
        self.budget.charge_bytes(at.part().len as usize, 16);
        let mut marks = vec![false; at.part().len as usize];
        let others =
            rules.iter().filter(|rule| !matches!(rule, Rule::UnevaluatedMembers(_) | Rule::UnevaluatedItems(_)));
        others.for_each(|rule| self.mark(rule, at, &mut marks));
        marks
    }

    fn mark(&mut self, rule: &Rule, at: Position<'_>, marks: &mut [bool]) {
        let kind = at.part().kind;
        match rule {
            Rule::Members(members) if kind == PartKind::Object => {
                self.charge_unescaping(at.part());
                for ((_, part), mark) in at.children().zip(marks) {
                    *mark |= self.each_member_node(members, &part.name(), |_, _, _| {});
                }
            }
            Rule::Items(items) if kind == PartKind::Array => {
                self.budget.charge_bytes(marks.len(), 4);
                for (index, mark) in marks.iter_mut().enumerate() {
                    *mark |= items.of(index).is_some();
                }
            }
            Rule::Contains(contains) if kind == PartKind::Array && contains.evaluates => {
                for ((at, _), mark) in at.children().zip(marks) {
                    *mark |= self.holds_once(contains.node, at);
                }
            }
            Rule::UnevaluatedMembers(_) if kind == PartKind::Object => self.fill(marks),
            Rule::UnevaluatedItems(_) if kind == PartKind::Array => self.fill(marks),
            Rule::AllOf(nodes) => nodes.iter().for_each(|node| self.mark_node(*node, at, marks)),
            Rule::AnyOf(nodes) | Rule::OneOf(nodes) => {
                for node in nodes {
                    if self.holds_once(*node, at) {
                        self.mark_node(*node, at, marks);
                    }
                }
            }
            Rule::Reference(node) => self.mark_node(*node, at, marks),
            Rule::Dynamic(_) => self.target(rule).into_iter().for_each(|node| self.mark_node(node, at, marks)),
            Rule::DependentSchemas(_) => self.mark_then(rule, at, marks),
            Rule::If(choice) => {
                if self.holds_once(choice.condition, at) {
                    self.mark_node(choice.condition, at, marks);
                }
                self.mark_then(rule, at, marks);
            }
            _ => {}
        }
    }

    fn fill(&mut self, marks: &mut [bool]) {
        self.budget.charge_bytes(marks.len(), 16);
        marks.fill(true);
    }

    fn mark_then(&mut self, rule: &Rule, at: Position<'_>, marks: &mut [bool]) {
        self.each_conditional(rule, at, |checker, node| checker.mark_node(node, at, marks));
    }

    fn mark_node(&mut self, node: NodeId, at: Position<'_>, marks: &mut [bool]) {
        self.visit(node, |checker, rules| rules.iter().for_each(|rule| checker.mark(rule, at, marks)));
    }
}
