//! When two values of JSON are the same: `1` and `1.0` are, and the order of members does not matter.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use serde_json::Value;

use super::instance::{Instance, Kind, Place};
use super::number::Number;

impl Instance<'_> {
    /// Whether the part is this value.
    pub(super) fn is(&self, place: Place, value: &Value) -> bool {
        let part = self.part(place);
        match (part.kind, value) {
            (Kind::Null, Value::Null) => true,
            (Kind::Boolean, Value::Bool(value)) => part.raw.starts_with('t') == *value,
            (Kind::Number, Value::Number(value)) => Number::read(part.raw) == Number::of(value),
            (Kind::String, Value::String(value)) => part.text() == Some(value),
            (Kind::Array, Value::Array(items)) => {
                part.len as usize == items.len()
                    && self.within(place).zip(items).all(|((place, _), item)| self.is(place, item))
            }
            (Kind::Object, Value::Object(members)) => {
                part.len as usize == members.len()
                    && self
                        .within(place)
                        .all(|(place, part)| members.get(&*part.name).is_some_and(|value| self.is(place, value)))
            }
            _ => false,
        }
    }

    fn are_equal(&self, one: Place, other: Place) -> bool {
        let (first, second) = (self.part(one), self.part(other));
        if first.kind != second.kind || first.len != second.len {
            return false;
        }
        match first.kind {
            Kind::Null => true,
            Kind::Boolean => first.raw == second.raw,
            Kind::Number => Number::read(first.raw) == Number::read(second.raw),
            Kind::String => first.text() == second.text(),
            Kind::Array => {
                self.within(one).zip(self.within(other)).all(|((one, _), (other, _))| self.are_equal(one, other))
            }
            Kind::Object => {
                let members: HashMap<&str, Place> =
                    self.within(other).map(|(place, part)| (&*part.name, place)).collect();
                let same = |place| move |other: &Place| self.are_equal(place, *other);
                self.within(one).all(|(place, part)| members.get(&*part.name).is_some_and(same(place)))
            }
        }
    }

    /// Whether no two elements are the same. What is alike is found by hashes, with keys of the process so that nobody can
    /// make a list of values that are all alike.
    pub(super) fn has_no_equals(&self, place: Place) -> bool {
        if self.part(place).len < 2 {
            return true;
        }
        let state = RandomState::new();
        let mut alike: HashMap<u64, Vec<Place>> = HashMap::new();
        self.within(place).all(|(place, _)| {
            let same = alike.entry(self.hash(place, &state)).or_default();
            let is_new = same.iter().all(|other| !self.are_equal(place, *other));
            same.push(place);
            is_new
        })
    }

    fn hash(&self, place: Place, state: &RandomState) -> u64 {
        let part = self.part(place);
        match part.kind {
            Kind::Null => 1,
            Kind::Boolean => state.hash_one(part.raw),
            Kind::Number => state.hash_one(Number::read(part.raw).key()),
            Kind::String => state.hash_one(part.text()),
            Kind::Array => {
                let folded = |all: u64, (place, _)| state.hash_one((all, self.hash(place, state)));
                self.within(place).fold(2, folded)
            }
            Kind::Object => {
                let member = |(place, part): (Place, &super::instance::Part<'_>)| {
                    state.hash_one((&*part.name, self.hash(place, state)))
                };
                self.within(place).map(member).fold(3, u64::wrapping_add)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::instance::ROOT;
    use super::*;

    #[test]
    fn values_are_equal_by_what_they_say() {
        let text = r#"{"a":[1,2.0,"x\u0079",null,true,{"b":{},"c":1e2}]}"#;
        let instance = Instance::read(text, "it").unwrap();
        let same = serde_json::json!({ "a": [1.0, 2, "xy", null, true, { "c": 100, "b": {} }] });
        assert!(instance.is(ROOT, &same));
        assert!(!instance.is(ROOT, &serde_json::json!({ "a": [1] })));
    }

    #[test]
    fn equals_are_found_among_many() {
        let unique = |text: &str| Instance::read(text, "it").unwrap().has_no_equals(ROOT);
        assert!(unique(r#"[1,true,"1",[1],{"a":1},{"a":2},null,0,false,[],{}]"#));
        for text in
            ["[1,2,1.0]", "[0,-0.0]", r#"[{"a":1,"b":2},{"b":2,"a":1.0}]"#, r#"["a","\u0061"]"#, "[[1,[2]],[1,[2.0]]]"]
        {
            assert!(!unique(text), "{text}");
        }
        // Alike when they are rounded, but not the same.
        let large: Vec<String> = (0..20_000).map(|number| format!("{}", 10_i128.pow(30) + number)).collect();
        assert!(unique(&format!("[{}]", large.join(","))));
        let state = RandomState::new();
        let instance =
            Instance::read("[1000000000000000000000000000000,1000000000000000000000000000001]", "it").unwrap();
        assert_ne!(instance.hash(1, &state), instance.hash(2, &state));
        let many: Vec<String> = (0..100_000).map(|number| format!("[{number}]")).collect();
        assert!(unique(&format!("[{}]", many.join(","))));
    }
}
