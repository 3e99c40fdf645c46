//! Equality of JSON values: `1` and `1.0` are equal, and the order of members is irrelevant.

use std::hash::{BuildHasher as _, RandomState};

use serde_json::Value;

use crate::check::{Checker, Position};
use crate::instance::{PartKind, Place};
use crate::number::Number;

impl Checker<'_> {
    /// Returns `true` if a part equals this value. If a name occurs several times, each of its members must be equal.
    pub(crate) fn is_equal(&mut self, at: Position<'_>, value: &Value) -> bool {
        let part = at.part();
        if !self.budget.charge(1) {
            return false;
        }
        match (part.kind, value) {
            (PartKind::Null, Value::Null) => true,
            (PartKind::Boolean, Value::Bool(value)) => part.raw.starts_with('t') == *value,
            (PartKind::Number, Value::Number(value)) => self.number(part) == Number::of(value),
            (PartKind::String, Value::String(value)) => {
                self.charge_unescaping(part) && part.text().is_some_and(|text| self.are_same_texts(&text, value))
            }
            (PartKind::Array, Value::Array(items)) => {
                part.len as usize == items.len()
                    && at.children().zip(items).all(|((at, _), item)| self.is_equal(at, item))
            }
            (PartKind::Object, Value::Object(members)) => {
                part.len as usize >= members.len()
                    && self.charge_members(at)
                    && at.instance.member_count(at.place) == members.len() as u64
                    && at.children().all(|(at, part)| {
                        self.budget.charge(4)
                            && members.get(&*part.name()).is_some_and(|value| self.is_equal(at, value))
                    })
            }
            _ => false,
        }
    }

    /// Compares two parts. If a name occurs several times, the last member is compared.
    fn are_equal(&mut self, one: Position<'_>, other: Position<'_>) -> bool {
        let (first, second) = (one.part(), other.part());
        if first.kind != second.kind || !self.budget.charge(1) {
            return false;
        }
        match first.kind {
            PartKind::Null => true,
            PartKind::Boolean => first.raw == second.raw,
            PartKind::Number => self.number(first) == self.number(second),
            PartKind::String if !first.is_escaped() && !second.is_escaped() => {
                self.are_same_texts(first.raw, second.raw)
            }
            PartKind::String => {
                self.charge_unescaping(first)
                    && self.charge_unescaping(second)
                    && match (first.text(), second.text()) {
                        (Some(one), Some(other)) => self.are_same_texts(&one, &other),
                        _ => first.raw == second.raw,
                    }
            }
            PartKind::Array => {
                first.len == second.len
                    && one.children().zip(other.children()).all(|((one, _), (other, _))| self.are_equal(one, other))
            }
            PartKind::Object => {
                if !(self.charge_members(one) && self.charge_members(other)) {
                    return false;
                }
                let (members, others) = (one.instance.members(one.place), other.instance.members(other.place));
                members.len() == others.len()
                    && members.iter().zip(&others).all(|((name, place), (other_name, other_place))| {
                        name == other_name && self.are_equal(one.move_to(*place), other.move_to(*other_place))
                    })
            }
        }
    }

    fn are_same_texts(&mut self, one: &str, other: &str) -> bool {
        one.len() == other.len() && self.budget.charge(1 + one.len() as u64 / 16) && one == other
    }

    /// Returns `true` if no two elements are equal. Candidates are found by hashes with a random key, so that
    /// collisions cannot be provoked.
    pub(crate) fn has_no_equals(&mut self, at: Position<'_>) -> bool {
        if at.part().len < 2 {
            return true;
        }
        let state = RandomState::new();
        let mut hashes: Vec<(u64, Place)> = Vec::new();
        for (item, _) in at.children() {
            let Some(hash) = self.hash(item, &state) else { return false };
            hashes.push((hash, item.place));
        }
        if !self.budget.charge_each(hashes.len(), 16) {
            return false;
        }
        hashes.sort_unstable();
        let alike = hashes.chunk_by(|(one, _), (other, _)| one == other);
        alike.filter(|alike| alike.len() > 1).all(|alike| {
            (1..alike.len()).all(|index| {
                let is_same = |other: &(u64, Place)| self.are_equal(at.move_to(alike[index].1), at.move_to(other.1));
                !alike[..index].iter().any(is_same)
            })
        })
    }

    /// Returns a hash that is the same for equal parts; `None` if the budget is exhausted.
    fn hash(&mut self, at: Position<'_>, state: &RandomState) -> Option<u64> {
        let part = at.part();
        if !self.budget.charge(8) {
            return None;
        }
        Some(match part.kind {
            PartKind::Null => 1,
            PartKind::Boolean => state.hash_one(part.raw),
            PartKind::Number => state.hash_one(self.number(part).key()),
            PartKind::String => {
                (self.budget.charge_bytes(part.raw.len(), 4) && self.charge_unescaping(part)).then_some(())?;
                state.hash_one(part.text())
            }
            PartKind::Array => {
                at.children().try_fold(2, |all: u64, (at, _)| Some(state.hash_one((all, self.hash(at, state)?))))?
            }
            PartKind::Object => {
                self.charge_members(at).then_some(())?;
                at.instance.members(at.place).into_iter().try_fold(3, |all: u64, (name, place)| {
                    self.budget.charge_bytes(name.len(), 4).then_some(())?;
                    Some(state.hash_one((all, name, self.hash(at.move_to(place), state)?)))
                })?
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::instance::{Instance, ROOT};
    use crate::node::Nodes;

    fn with<T>(text: &str, act: impl FnOnce(&mut Checker<'_>, Position<'_>) -> T) -> T {
        let nodes = Nodes { nodes: Box::default(), is_dynamic: false, has_unevaluated: false };
        let mut budget = Budget::new(u64::MAX);
        let value = turms_proto::RawJson::parse(text.to_owned()).unwrap();
        let instance = Instance::read(&value, &mut budget).unwrap();
        act(&mut Checker::new(&nodes, &mut budget), Position { instance: &instance, place: ROOT })
    }

    fn is(text: &str, value: &Value) -> bool {
        with(text, |checker, at| checker.is_equal(at, value))
    }

    #[test]
    fn values_are_equal_by_what_they_say() {
        let text = r#"{"a":[1,2.0,"x\u0079",null,true,{"b":{},"c":1e2}]}"#;
        let same = serde_json::json!({ "a": [1.0, 2, "xy", null, true, { "c": 100, "b": {} }] });
        assert!(is(text, &same));
        assert!(!is(text, &serde_json::json!({ "a": [1] })));
    }

    #[test]
    fn members_of_one_name_are_not_others() {
        let two = serde_json::json!({ "a": 1, "b": 2 });
        assert!(!is(r#"{"a":1,"a":1}"#, &two));
        assert!(is(r#"{"a":1,"b":2,"a":1}"#, &two) && is(r#"{"a":1,"a":1}"#, &serde_json::json!({ "a": 1 })));
        // Another parser may use any of the members.
        assert!(!is(r#"{"a":3,"b":2,"a":1}"#, &two) && !is(r#"{"a":1,"b":2,"a":3}"#, &two));

        let unique = |text: &str| with(text, |checker, at| checker.has_no_equals(at));
        assert!(unique(r#"[{"a":1,"a":1},{"a":1,"b":2}]"#) && unique(r#"[{"a":1,"b":2},{"a":1,"a":1}]"#));
        assert!(!unique(r#"[{"a":1,"a":2},{"a":2}]"#) && unique(r#"[{"a":1,"a":2},{"a":1}]"#));
    }

    #[test]
    fn equals_are_found_among_many() {
        let unique = |text: &str| with(text, |checker, at| checker.has_no_equals(at));
        assert!(unique(r#"[1,true,"1",[1],{"a":1},{"a":2},null,0,false,[],{}]"#));
        for text in
            ["[1,2,1.0]", "[0,-0.0]", r#"[{"a":1,"b":2},{"b":2,"a":1.0}]"#, r#"["a","\u0061"]"#, "[[1,[2]],[1,[2.0]]]"]
        {
            assert!(!unique(text), "{text}");
        }
        // Equal when rounded, but different.
        let large: Vec<String> = (0..20_000).map(|number| format!("{}", 10_i128.pow(30) + number)).collect();
        assert!(unique(&format!("[{}]", large.join(","))));
        let state = RandomState::new();
        with("[1000000000000000000000000000000,1000000000000000000000000000001]", |checker, at| {
            assert_ne!(checker.hash(at.move_to(1), &state), checker.hash(at.move_to(2), &state));
        });
        let many: Vec<String> = (0..100_000).map(|number| format!("[{number}]")).collect();
        assert!(unique(&format!("[{}]", many.join(","))));
    }
}
