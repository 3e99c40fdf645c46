//! The schemas read strictly: a member that is not declared is a fault, although JSON Schema lets it pass.

use serde_json::Value;

use crate::corpus::Revision;
use crate::difference::expand;
use crate::generate::properties;
use crate::json::Json;

/// The places of members that a definition does not declare. In objects whose members are anybody's choice there are none,
/// apart from the names that the protocol keeps for itself.
pub(crate) fn undeclared(revision: &Revision, definition: &str, instance: &Json) -> Vec<String> {
    let mut walk = Walk { revision, path: String::new(), found: Vec::new() };
    walk.visit(&[revision.definition(definition)], instance);
    walk.found
}

struct Walk<'a> {
    revision: &'a Revision,
    path: String,
    found: Vec<String>,
}

/// Names in free-form objects, `_meta` above all, that are the protocol's to give.
const RESERVED: &str = "io.modelcontextprotocol/";

/// Members whose values are free-form although schemas name some of what they may hold: JSON Schema is not MCP's to define.
const FOREIGN: [&str; 2] = ["inputSchema", "outputSchema"];

impl<'a> Walk<'a> {
    fn visit(&mut self, nodes: &[&'a Value], instance: &Json) {
        let branches: Vec<_> = nodes.iter().flat_map(|node| expand(self.revision, node)).collect();
        match instance {
            // Inside something free-form.
            _ if branches.is_empty() => {}
            Json::Array(items) => {
                let nodes: Vec<_> = branches.iter().filter_map(|branch| branch.get("items")).collect();
                for (index, item) in items.iter().enumerate() {
                    self.within(&index.to_string(), |walk| walk.visit(&nodes, item));
                }
            }
            Json::Object(members) => {
                let branches = applicable(branches, instance);
                for (name, value) in members {
                    self.within(name, |walk| walk.member(&branches, name, value));
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, branches: &[&'a Value], name: &str, value: &Json) {
        let declared: Vec<_> = branches.iter().filter_map(|branch| properties(branch).get(name)).collect();
        match declared.as_slice() {
            [] if name.starts_with(RESERVED) || !branches.iter().any(|branch| is_free_form(branch)) => {
                self.found.push(self.path.clone());
            }
            [] => {
                let entries: Vec<_> = branches.iter().filter_map(|branch| branch.get("additionalProperties")).collect();
                self.visit(&entries, value);
            }
            _ if FOREIGN.contains(&name) => {}
            declared => self.visit(declared, value),
        }
    }

    fn within(&mut self, step: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(step);
        visit(self);
        self.path.truncate(length);
    }
}

/// The alternatives that an object can be meant as: those whose constants it has and of which it lacks nothing.
fn applicable<'a>(branches: Vec<&'a Value>, instance: &Json) -> Vec<&'a Value> {
    let fits = |branch: &&&Value| {
        let required = branch.get("required").and_then(Value::as_array).into_iter().flatten();
        let complete = required.filter_map(Value::as_str).all(|name| instance.member(name).is_some());
        let agrees = |(name, node): (&String, &Value)| match (node.get("const"), instance.member(name)) {
            (Some(constant), Some(value)) => *constant == value.to_value(),
            _ => true,
        };
        complete && properties(branch).iter().all(agrees)
    };
    let fitting: Vec<_> = branches.iter().filter(fits).copied().collect();
    if fitting.is_empty() { branches } else { fitting }
}

fn is_free_form(node: &Value) -> bool {
    match node.get("additionalProperties") {
        Some(Value::Bool(allowed)) => *allowed,
        Some(_) => true,
        None => node.get("properties").is_none(),
    }
}
