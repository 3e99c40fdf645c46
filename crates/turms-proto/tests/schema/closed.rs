//! Strict schema checks: undeclared members are errors, although JSON Schema allows them.

use serde_json::Value;

use crate::corpus::Revision;
use crate::difference::expand;
use crate::generate::properties;
use crate::json::Json;

/// Returns the paths of members that a definition does not declare. Free-form objects have none, except for reserved
/// names.
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

/// Reserved names in free-form objects, in particular `_meta`.
const RESERVED: &str = "io.modelcontextprotocol/";

/// Members with free-form values although schemas name some of their members: MCP does not define JSON Schema.
const FOREIGN: [&str; 2] = ["inputSchema", "outputSchema"];

impl<'a> Walk<'a> {
    fn visit(&mut self, nodes: &[&'a Value], instance: &Json) {
        let branches: Vec<_> = nodes.iter().flat_map(|node| expand(self.revision, node)).collect();
        match instance {
            // Inside a free-form object.
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

/// Returns the alternatives that an object may belong to: those with its constants and required members.
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
