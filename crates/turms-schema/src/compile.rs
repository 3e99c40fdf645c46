//! Compilation of a schema document into nodes.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use crate::cost::check_cost;
use crate::explain::shortened;
use crate::format::{Content, Format};
use crate::keyword::{Draft, count, shape_of};
use crate::node::{
    Bound, Conditional, Contains, DynamicReference, EnumValues, ItemRules, Limit, MemberRules, Names, Node, NodeId,
    Nodes, Rule, Types,
};
use crate::number::Number;
use crate::pattern::{Pattern, PatternError, PatternQuota};
use crate::ref_index::{LocatedSchema, RefIndex};
use crate::reference::Pointer;
use crate::validator::{SchemaError, Trust};

/// Compiles a document.
///
/// # Errors
/// If the document is not a valid schema, has external references, or causes too much work.
pub(crate) fn compile(document: &Value, trust: Trust) -> Result<Nodes, SchemaError> {
    let index = RefIndex::new(document)?;
    let root = index.locate(document, &index.resource(0).root, Pointer::default());
    let mut compiler = Compiler {
        index,
        nodes: Vec::new(),
        node_ids: HashMap::new(),
        pending: VecDeque::new(),
        is_dynamic: false,
        trust,
        quota: PatternQuota::new(),
    };
    compiler.node(root);
    while let Some((id, located)) = compiler.pending.pop_front() {
        let resource = located.resource;
        let rules = compiler.rules(&located)?.into();
        compiler.nodes[id as usize] = Node { rules, resource };
    }
    check_cost(&compiler.nodes)?;
    let is_unevaluated = |rule: &Rule| matches!(rule, Rule::UnevaluatedMembers(_) | Rule::UnevaluatedItems(_));
    let has_unevaluated = compiler.nodes.iter().any(|node| node.rules.iter().any(is_unevaluated));
    Ok(Nodes { nodes: compiler.nodes.into(), is_dynamic: compiler.is_dynamic, has_unevaluated })
}

struct Compiler<'a> {
    index: RefIndex<'a>,
    nodes: Vec<Node>,
    /// The node of each schema that was referred to so far, by the memory address of the schema.
    node_ids: HashMap<*const Value, NodeId>,
    /// Schemas with a node id but without rules yet.
    pending: VecDeque<(NodeId, LocatedSchema<'a>)>,
    /// `true` if a rule depends on the references that led to it (`$dynamicRef`, `$recursiveRef`).
    is_dynamic: bool,
    trust: Trust,
    /// The remaining memory for patterns.
    quota: PatternQuota,
}

impl<'a> Compiler<'a> {
    /// Returns the node for a schema. Its rules are compiled later.
    fn node(&mut self, located: LocatedSchema<'a>) -> NodeId {
        if let Some(id) = self.node_ids.get(&std::ptr::from_ref(located.value)) {
            return *id;
        }
        let id = NodeId::try_from(self.nodes.len()).unwrap_or(NodeId::MAX);
        self.nodes.push(Node::default());
        self.node_ids.insert(located.value, id);
        self.pending.push_back((id, located));
        id
    }

    fn rules(&mut self, located: &LocatedSchema<'a>) -> Result<Vec<Rule>, SchemaError> {
        let Value::Object(members) = located.value else {
            return Ok(if *located.value == Value::Bool(false) { vec![Rule::False] } else { Vec::new() });
        };
        let draft = self.index.resource(located.resource).draft;
        let keywords = Keywords { members, draft };
        if let Some(reference) = keywords.text("$ref").filter(|_| draft.reference_stands_alone()) {
            return Ok(vec![self.reference(reference, located)?]);
        }
        let mut rules = Vec::new();
        value_rules(&keywords, &mut rules);
        self.text_rules(&keywords, located, &mut rules)?;
        self.object_rules(&keywords, located, &mut rules)?;
        self.array_rules(&keywords, located, &mut rules);
        self.combining_rules(&keywords, located, &mut rules);
        self.reference_rules(&keywords, located, &mut rules)?;
        if let Some(node) = self.child(&keywords, located, "unevaluatedProperties") {
            rules.push(Rule::UnevaluatedMembers(node));
        }
        if let Some(node) = self.child(&keywords, located, "unevaluatedItems") {
            rules.push(Rule::UnevaluatedItems(node));
        }
        Ok(rules)
    }

    fn object_rules(
        &mut self,
        keywords: &Keywords<'a>,
        located: &LocatedSchema<'a>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), SchemaError> {
        let mut named: Vec<(Box<str>, NodeId)> = self.children_by_name(keywords, located, "properties").collect();
        named.sort_unstable();
        let by_pattern: Vec<_> = self.children_by_name(keywords, located, "patternProperties").collect();
        let pointer = located.pointer.join("patternProperties");
        let patterns = by_pattern.into_iter().map(|(text, node)| Ok((self.pattern(&text, &pointer)?, node)));
        let patterns = patterns.collect::<Result<Vec<_>, SchemaError>>()?;
        let others = self.child(keywords, located, "additionalProperties");
        if !named.is_empty() || !patterns.is_empty() || others.is_some() {
            rules.push(Rule::Members(Box::new(MemberRules { named: named.into(), patterns: patterns.into(), others })));
        }
        if let Some(node) = self.child(keywords, located, "propertyNames") {
            rules.push(Rule::MemberNames(node));
        }
        let mut schemas: Vec<_> = self.children_by_name(keywords, located, "dependentSchemas").collect();
        let dependencies: Vec<_> = self.children_by_name(keywords, located, "dependencies").collect();
        schemas.extend(dependencies);
        if !schemas.is_empty() {
            rules.push(Rule::DependentSchemas(schemas.into()));
        }
        Ok(())
    }

    fn text_rules(
        &mut self,
        keywords: &Keywords<'_>,
        located: &LocatedSchema<'_>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), SchemaError> {
        if let Some(text) = keywords.text("pattern") {
            rules.push(Rule::Pattern(Box::new(self.pattern(text, &located.pointer.join("pattern"))?)));
        }
        if let Some(format) = keywords.text("format").and_then(|name| Format::of_name(name, keywords.draft)) {
            let is_annotation = keywords.draft >= Draft::Of2019;
            rules.push(Rule::Format(format, is_annotation));
        }
        let is_base64 = keywords.text("contentEncoding") == Some("base64");
        let is_json = keywords.text("contentMediaType") == Some("application/json");
        // Later drafts define these keywords as annotations.
        if (is_base64 || is_json) && keywords.draft <= Draft::Seven {
            rules.push(Rule::Content(Content { is_base64, is_json }));
        }
        Ok(())
    }

    /// Compiles a pattern. In a schema of a peer, an unsupported pattern is logged and not enforced.
    fn pattern(&mut self, text: &str, pointer: &Pointer<'_>) -> Result<Pattern, SchemaError> {
        let error = match Pattern::new(text, &mut self.quota) {
            Ok(pattern) => return Ok(pattern),
            Err(error) => error,
        };
        let shown = shortened(text);
        let reason = match error {
            PatternError::Invalid => {
                let problem = format!("\"{shown}\" is not a valid pattern (regular expression of ECMA-262)");
                return Err(SchemaError::at(pointer, problem));
            }
            PatternError::TooLargeTogether => {
                return Err(SchemaError::at(pointer, "the patterns of the schema are too large in total"));
            }
            PatternError::Unsupported(reason) => reason,
            PatternError::TooLarge => "too large",
        };
        if self.trust == Trust::Own {
            return Err(SchemaError::at(pointer, format!("the pattern \"{shown}\" cannot be enforced: {reason}")));
        }
        tracing::warn!(target: "turms::schema", pattern = %shown, %pointer, reason, "a pattern is not enforced");
        Ok(Pattern::unenforced(text))
    }

    fn array_rules(&mut self, keywords: &Keywords<'a>, located: &LocatedSchema<'a>, rules: &mut Vec<Rule>) {
        let is_list = keywords.get("items").is_some_and(Value::is_array);
        let (first, others) = match (keywords.draft, is_list) {
            (Draft::Of2020, _) => {
                (self.children(keywords, located, "prefixItems"), self.child(keywords, located, "items"))
            }
            (_, true) => (self.children(keywords, located, "items"), self.child(keywords, located, "additionalItems")),
            (_, false) => (Box::default(), self.child(keywords, located, "items")),
        };
        if !first.is_empty() || others.is_some() {
            rules.push(Rule::Items(Box::new(ItemRules { first, others })));
        }
        if let Some(node) = self.child(keywords, located, "contains") {
            let (min, max) = (keywords.count("minContains").unwrap_or(1), keywords.count("maxContains"));
            let evaluates = keywords.draft >= Draft::Of2020;
            rules.push(Rule::Contains(Box::new(Contains { node, min, max, evaluates })));
        }
    }

    fn combining_rules(&mut self, keywords: &Keywords<'a>, located: &LocatedSchema<'a>, rules: &mut Vec<Rule>) {
        let [all, any, one] = ["allOf", "anyOf", "oneOf"].map(|keyword| self.children(keywords, located, keyword));
        let combined = [Rule::AllOf(all), Rule::AnyOf(any), Rule::OneOf(one)];
        rules.extend(combined.into_iter().filter(|rule| !rule.is_empty_list()));
        if let (Some(node), Some(schema)) = (self.child(keywords, located, "not"), keywords.get("not")) {
            rules.push(Rule::Not(node, Box::new(schema.clone())));
        }
        if let Some(condition) = self.child(keywords, located, "if") {
            let then = self.child(keywords, located, "then");
            let otherwise = self.child(keywords, located, "else");
            // Without `then` and `else`, an `if` only marks members and items as evaluated.
            if then.is_some() || otherwise.is_some() || keywords.has_unevaluated_keywords() {
                rules.push(Rule::If(Box::new(Conditional { condition, then, otherwise })));
            }
        }
    }

    fn reference_rules(
        &mut self,
        keywords: &Keywords<'a>,
        located: &LocatedSchema<'a>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), SchemaError> {
        if let Some(reference) = keywords.text("$ref") {
            rules.push(self.reference(reference, located)?);
        }
        if let Some(reference) = keywords.text("$recursiveRef") {
            let target = self.index.target(reference, located)?;
            let is_dynamic = self.index.resource(target.resource).is_recursive;
            let targets = self.index.resources().filter(|(_, resource)| is_dynamic && resource.is_recursive);
            let targets = targets.map(|(id, resource)| (id, resource.root.clone())).collect();
            rules.push(self.dynamic(target, targets));
        }
        if let Some(reference) = keywords.text("$dynamicRef") {
            let target = self.index.target(reference, located)?;
            let anchor = RefIndex::anchor_of(reference);
            // The target must have a dynamic anchor of this name itself (the "bookending" of JSON Schema 2020-12, 8.2.3.2).
            let bookend =
                anchor.filter(|name| self.index.resource(target.resource).dynamic_anchors.contains_key(*name));
            let anchors = self.index.resources().filter_map(|(id, resource)| {
                let located = resource.dynamic_anchors.get(bookend?)?;
                Some((id, located.clone()))
            });
            let targets = anchors.collect();
            rules.push(self.dynamic(target, targets));
        }
        Ok(())
    }

    /// Compiles `$ref`. The meta-schemas of the dialects are supported although a document does not contain them.
    fn reference(&mut self, reference: &str, located: &LocatedSchema<'a>) -> Result<Rule, SchemaError> {
        let target = self.index.target(reference, located);
        if let (Err(_), Some(draft)) = (&target, Draft::of_uri(reference)) {
            return Ok(Rule::IsSchema(draft));
        }
        Ok(Rule::Reference(self.node(target?)))
    }

    /// Compiles a dynamic reference. `targets` has the schemas that may replace `target`, by resource: the outermost of
    /// these resources that validation has entered decides.
    fn dynamic(&mut self, target: LocatedSchema<'a>, targets: Vec<(u32, LocatedSchema<'a>)>) -> Rule {
        let otherwise = self.node(target);
        if targets.is_empty() {
            return Rule::Reference(otherwise);
        }
        self.is_dynamic = true;
        let targets = targets.into_iter().map(|(id, located)| (id, self.node(located))).collect();
        Rule::Dynamic(Box::new(DynamicReference { targets, otherwise }))
    }

    fn child(&mut self, keywords: &Keywords<'a>, located: &LocatedSchema<'a>, keyword: &'static str) -> Option<NodeId> {
        let value = keywords.get(keyword)?;
        let child = self.index.locate(value, located, located.pointer.join(keyword));
        Some(self.node(child))
    }

    fn children(
        &mut self,
        keywords: &Keywords<'a>,
        located: &LocatedSchema<'a>,
        keyword: &'static str,
    ) -> Box<[NodeId]> {
        let items = keywords.get(keyword).and_then(Value::as_array).into_iter().flatten();
        let pointer = located.pointer.join(keyword);
        let node = |(index, value): (usize, &'a Value)| {
            let child = self.index.locate(value, located, pointer.join(index.to_string()));
            self.node(child)
        };
        items.enumerate().map(node).collect()
    }

    /// Returns the subschemas by name; of `dependencies`, only those that are schemas.
    fn children_by_name(
        &mut self,
        keywords: &Keywords<'a>,
        located: &LocatedSchema<'a>,
        keyword: &'static str,
    ) -> impl Iterator<Item = (Box<str>, NodeId)> {
        let members = keywords.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::iter);
        let pointer = located.pointer.join(keyword);
        members.filter(|(_, value)| !value.is_array()).map(move |(name, value)| {
            let child = self.index.locate(value, located, pointer.join(name));
            (name.as_str().into(), self.node(child))
        })
    }
}

/// The keywords of a schema that its dialect defines.
struct Keywords<'a> {
    members: &'a Map<String, Value>,
    draft: Draft,
}

impl<'a> Keywords<'a> {
    fn get(&self, keyword: &str) -> Option<&'a Value> {
        shape_of(self.draft, keyword)?;
        self.members.get(keyword)
    }

    fn text(&self, keyword: &str) -> Option<&'a str> {
        self.get(keyword)?.as_str()
    }

    fn count(&self, keyword: &str) -> Option<u64> {
        self.get(keyword).and_then(count)
    }

    fn number(&self, keyword: &str) -> Option<Number> {
        match self.get(keyword)? {
            Value::Number(number) => Some(Number::of(number)),
            _ => None,
        }
    }

    /// Returns `true` if the dialect has `unevaluated…` keywords.
    fn has_unevaluated_keywords(&self) -> bool {
        self.draft >= Draft::Of2019
    }
}

/// Compiles rules about the value itself.
fn value_rules(keywords: &Keywords<'_>, rules: &mut Vec<Rule>) {
    if let Some(types) = keywords.get("type") {
        rules.push(Rule::Type(Types::new(types, keywords.draft)));
    }
    if let Some(value) = keywords.get("const") {
        rules.push(Rule::Const(Box::new(value.clone())));
    }
    if let Some(Value::Array(values)) = keywords.get("enum") {
        rules.push(Rule::Enum(Box::new(EnumValues::new(values))));
    }
    let is_set = |keyword| keywords.get(keyword) == Some(&Value::Bool(true));
    for (keyword, exclusive, bound, exclusive_bound) in [
        ("minimum", "exclusiveMinimum", Bound::Minimum, Bound::ExclusiveMinimum),
        ("maximum", "exclusiveMaximum", Bound::Maximum, Bound::ExclusiveMaximum),
    ] {
        if let Some(number) = keywords.number(keyword) {
            // In draft 4, a flag makes the bound exclusive.
            rules.push(Rule::Bound(if is_set(exclusive) { exclusive_bound } else { bound }, number));
        }
        if let Some(number) = keywords.number(exclusive) {
            rules.push(Rule::Bound(exclusive_bound, number));
        }
    }
    if let Some(Value::Number(number)) = keywords.get("multipleOf") {
        rules.push(Rule::MultipleOf(number.to_string().into()));
    }
    for (limit, length, items, members) in
        [(Limit::Min, "minLength", "minItems", "minProperties"), (Limit::Max, "maxLength", "maxItems", "maxProperties")]
    {
        rules.extend(keywords.count(length).map(|count| Rule::Length(limit, count)));
        rules.extend(keywords.count(items).map(|count| Rule::ItemCount(limit, count)));
        rules.extend(keywords.count(members).map(|count| Rule::MemberCount(limit, count)));
    }
    if let Some(required) = keywords.get("required") {
        rules.push(Rule::Required(names(required)));
    }
    for keyword in ["dependentRequired", "dependencies"] {
        let members = keywords.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::iter);
        let lists = members.filter(|(_, value)| value.is_array());
        let lists: Vec<_> = lists.map(|(name, value)| (name.as_str().into(), names(value))).collect();
        if !lists.is_empty() {
            rules.push(Rule::DependentRequired(lists.into()));
        }
    }
    if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
        rules.push(Rule::UniqueItems);
    }
}

fn names(list: &Value) -> Names {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}
