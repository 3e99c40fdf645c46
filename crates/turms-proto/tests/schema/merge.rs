//! Merges `allOf` into one schema, from which instances can be generated.

use serde_json::{Map, Value};

use crate::corpus::referenced;

/// Returns the definitions with every nested `allOf` merged.
pub(crate) fn merge_all_of(definitions: &Map<String, Value>) -> Map<String, Value> {
    let merged = |node| Merger { definitions }.node(node);
    definitions.iter().map(|(name, node)| (name.clone(), merged(node))).collect()
}

struct Merger<'a> {
    definitions: &'a Map<String, Value>,
}

impl Merger<'_> {
    fn node(&self, node: &Value) -> Value {
        let Some(keywords) = node.as_object() else {
            return node.clone();
        };
        let kept = keywords.iter().filter(|(keyword, _)| *keyword != "allOf");
        let rest = kept.map(|(keyword, value)| (keyword.clone(), self.keyword(keyword, value)));
        let parts = keywords.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let parts = parts.map(|part| self.resolved(part));
        Value::Object(parts.fold(rest.collect(), |both, part| self.both(both, part)))
    }

    fn keyword(&self, keyword: &str, value: &Value) -> Value {
        match (keyword, value) {
            ("properties", Value::Object(named)) => {
                named.iter().map(|(name, node)| (name.clone(), self.node(node))).collect()
            }
            ("anyOf" | "oneOf", Value::Array(nodes)) => nodes.iter().map(|node| self.node(node)).collect(),
            ("items" | "additionalProperties", node) => self.node(node),
            _ => value.clone(),
        }
    }

    fn resolved(&self, node: &Value) -> Map<String, Value> {
        match referenced(node) {
            Some(name) => self.resolved(&self.definitions[name]),
            None => self.node(node).as_object().unwrap().clone(),
        }
    }

    fn both(&self, mut left: Map<String, Value>, right: Map<String, Value>) -> Map<String, Value> {
        for (keyword, value) in right {
            let value = match left.get(&keyword) {
                Some(earlier) if *earlier != value => self.conflict(&keyword, earlier, value),
                _ => value,
            };
            left.insert(keyword, value);
        }
        left
    }

    fn conflict(&self, keyword: &str, left: &Value, right: Value) -> Value {
        match (keyword, left, right) {
            ("description", _, right) => right,
            ("properties", Value::Object(left), Value::Object(right)) => self.properties(left.clone(), right),
            ("required", Value::Array(left), Value::Array(right)) => {
                let added = right.into_iter().filter(|name| !left.contains(name));
                left.iter().cloned().chain(added).collect()
            }
            (_, left, right) => panic!("cannot merge {keyword:?}: {left} with {right}"),
        }
    }

    fn properties(&self, mut left: Map<String, Value>, right: Map<String, Value>) -> Value {
        for (name, node) in right {
            let node = match left.get(&name) {
                Some(earlier) => self.both(self.resolved(earlier), self.resolved(&node)).into(),
                None => node,
            };
            left.insert(name, node);
        }
        Value::Object(left)
    }
}
