//! Compilation of a schema document into nodes.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use crate::cost::measure;
use crate::explain::shortened;
use crate::format::{Content, Format};
use crate::keyword::{Draft, count, shape_of};
use crate::node::{
    Bound, Conditional, Contains, DynamicReference, EnumValues, ItemRules, Limit, MemberRules, Names, Node, NodeId,
    Nodes, Rule, Types,
};
use crate::number::Number;
use crate::pattern::{Pattern, PatternError, PatternQuota};
use crate::ref_index::{RefIndex, Spot};
use crate::reference::Pointer;
use crate::validator::{SchemaError, Trust};

/// Compiles a document.
///
/// # Errors
/// If the document is not a valid schema, has external references, or causes too much work.
pub(crate) fn compile(document: &Value, trust: Trust) -> Result<Nodes, SchemaError> {
    let index = RefIndex::new(document)?;
    let root = index.spot(document, &index.resource(0).root, Pointer::default());
    let mut compiler = Compiler {
        index,
        nodes: Vec::new(),
        known: HashMap::new(),
        open: VecDeque::new(),
        is_dynamic: false,
        trust,
        quota: PatternQuota::new(),
    };
    compiler.node(root);
    while let Some((id, spot)) = compiler.open.pop_front() {
        let resource = spot.resource;
        let rules = compiler.rules(&spot)?.into();
        compiler.nodes[id as usize] = Node { rules, resource };
    }
    measure(&compiler.nodes)?;
    let is_about_rest = |rule: &Rule| matches!(rule, Rule::UnevaluatedMembers(_) | Rule::UnevaluatedItems(_));
    let has_unevaluated = compiler.nodes.iter().any(|node| node.rules.iter().any(is_about_rest));
    Ok(Nodes { nodes: compiler.nodes.into(), is_dynamic: compiler.is_dynamic, has_unevaluated })
}

struct Compiler<'a> {
    index: RefIndex<'a>,
    nodes: Vec<Node>,
    known: HashMap<*const Value, NodeId>,
    /// Schemas with a node id but without rules yet.
    open: VecDeque<(NodeId, Spot<'a>)>,
    is_dynamic: bool,
    trust: Trust,
    /// The remaining memory for patterns.
    quota: PatternQuota,
}

impl<'a> Compiler<'a> {
    /// Returns the node for a schema. Its rules are compiled later.
    fn node(&mut self, spot: Spot<'a>) -> NodeId {
        if let Some(id) = self.known.get(&std::ptr::from_ref(spot.value)) {
            return *id;
        }
        let id = NodeId::try_from(self.nodes.len()).unwrap_or(NodeId::MAX);
        self.nodes.push(Node::default());
        self.known.insert(spot.value, id);
        self.open.push_back((id, spot));
        id
    }

    fn rules(&mut self, spot: &Spot<'a>) -> Result<Vec<Rule>, SchemaError> {
        let Value::Object(members) = spot.value else {
            return Ok(if *spot.value == Value::Bool(false) { vec![Rule::Never] } else { Vec::new() });
        };
        let draft = self.index.resource(spot.resource).draft;
        let keywords = Keywords { members, draft };
        if let Some(reference) = keywords.text("$ref").filter(|_| draft.reference_stands_alone()) {
            return Ok(vec![self.reference(reference, spot)?]);
        }
        let mut rules = Vec::new();
        value_rules(&keywords, &mut rules);
        self.text_rules(&keywords, spot, &mut rules)?;
        self.object_rules(&keywords, spot, &mut rules)?;
        self.array_rules(&keywords, spot, &mut rules);
        self.combining_rules(&keywords, spot, &mut rules);
        self.reference_rules(&keywords, spot, &mut rules)?;
        if let Some(node) = self.child(&keywords, spot, "unevaluatedProperties") {
            rules.push(Rule::UnevaluatedMembers(node));
        }
        if let Some(node) = self.child(&keywords, spot, "unevaluatedItems") {
            rules.push(Rule::UnevaluatedItems(node));
        }
        Ok(rules)
    }

    fn object_rules(
        &mut self,
        keywords: &Keywords<'a>,
        spot: &Spot<'a>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), SchemaError> {
        let mut named: Vec<(Box<str>, NodeId)> = self.children_by_name(keywords, spot, "properties").collect();
        named.sort_unstable();
        let by_pattern: Vec<_> = self.children_by_name(keywords, spot, "patternProperties").collect();
        let place = spot.pointer.step("patternProperties");
        let patterns = by_pattern.into_iter().map(|(text, node)| Ok((self.pattern(&text, &place)?, node)));
        let patterns = patterns.collect::<Result<Vec<_>, SchemaError>>()?;
        let others = self.child(keywords, spot, "additionalProperties");
        if !named.is_empty() || !patterns.is_empty() || others.is_some() {
            rules.push(Rule::Members(Box::new(MemberRules { named: named.into(), patterns: patterns.into(), others })));
        }
        if let Some(node) = self.child(keywords, spot, "propertyNames") {
            rules.push(Rule::MemberNames(node));
        }
        let mut schemas: Vec<_> = self.children_by_name(keywords, spot, "dependentSchemas").collect();
        let dependencies: Vec<_> = self.children_by_name(keywords, spot, "dependencies").collect();
        schemas.extend(dependencies);
        if !schemas.is_empty() {
            rules.push(Rule::DependentSchemas(schemas.into()));
        }
        Ok(())
    }

    fn text_rules(
        &mut self,
        keywords: &Keywords<'_>,
        spot: &Spot<'_>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), SchemaError> {
        if let Some(text) = keywords.text("pattern") {
            rules.push(Rule::Pattern(Box::new(self.pattern(text, &spot.pointer.step("pattern"))?)));
        }
        if let Some(format) = keywords.text("format").and_then(|name| Format::of_name(name, keywords.draft)) {
            rules.push(Rule::Format(format, keywords.draft >= Draft::Of2019));
        }
        let is_base64 = keywords.text("contentEncoding") == Some("base64");
        let is_json = keywords.text("contentMediaType") == Some("application/json");
        if (is_base64 || is_json) && keywords.draft <= Draft::Seven {
            rules.push(Rule::Content(Content { is_base64, is_json }));
        }
        Ok(())
    }

    /// Compiles a pattern. In a schema of a peer, an unsupported pattern is logged and not enforced.
    fn pattern(&mut self, text: &str, place: &Pointer<'_>) -> Result<Pattern, SchemaError> {
        let error = match Pattern::new(text, &mut self.quota) {
            Ok(pattern) => return Ok(pattern),
            Err(error) => error,
        };
        let shown = shortened(text);
        let reason = match error {
            PatternError::Invalid => {
                let problem = format!("\"{shown}\" is not a valid pattern (regular expression of ECMA-262)");
                return Err(SchemaError::at(place, problem));
            }
            PatternError::TooLargeTogether => {
                return Err(SchemaError::at(place, "the patterns of the schema are too large in total"));
            }
            PatternError::Unsupported(reason) => reason,
            PatternError::TooLarge => "too large",
        };
        if self.trust == Trust::Own {
            return Err(SchemaError::at(place, format!("the pattern \"{shown}\" cannot be enforced: {reason}")));
        }
        tracing::warn!(target: "turms::schema", pattern = %shown, %place, reason, "a pattern is not enforced");
        Ok(Pattern::unenforced(text))
    }

    fn array_rules(&mut self, keywords: &Keywords<'a>, spot: &Spot<'a>, rules: &mut Vec<Rule>) {
        let is_list = keywords.get("items").is_some_and(Value::is_array);
        let (first, others) = match (keywords.draft, is_list) {
            (Draft::Of2020, _) => (self.children(keywords, spot, "prefixItems"), self.child(keywords, spot, "items")),
            (_, true) => (self.children(keywords, spot, "items"), self.child(keywords, spot, "additionalItems")),
            (_, false) => (Box::default(), self.child(keywords, spot, "items")),
        };
        if !first.is_empty() || others.is_some() {
            rules.push(Rule::Items(Box::new(ItemRules { first, others })));
        }
        if let Some(node) = self.child(keywords, spot, "contains") {
            let (min, max) = (keywords.count("minContains").unwrap_or(1), keywords.count("maxContains"));
            let evaluates = keywords.draft >= Draft::Of2020;
            rules.push(Rule::Contains(Box::new(Contains { node, min, max, evaluates })));
        }
    }

    fn combining_rules(&mut self, keywords: &Keywords<'a>, spot: &Spot<'a>, rules: &mut Vec<Rule>) {
        let [all, any, one] = ["allOf", "anyOf", "oneOf"].map(|keyword| self.children(keywords, spot, keyword));
        let combined = [Rule::AllOf(all), Rule::AnyOf(any), Rule::OneOf(one)];
        rules.extend(combined.into_iter().filter(|rule| !rule.is_empty_list()));
        if let (Some(node), Some(schema)) = (self.child(keywords, spot, "not"), keywords.get("not")) {
            rules.push(Rule::Not(node, Box::new(schema.clone())));
        }
        if let Some(condition) = self.child(keywords, spot, "if") {
            let then = self.child(keywords, spot, "then");
            let otherwise = self.child(keywords, spot, "else");
            if then.is_some() || otherwise.is_some() || keywords.is_evaluated() {
                rules.push(Rule::If(Box::new(Conditional { condition, then, otherwise })));
            }
        }
    }

    fn reference_rules(
        &mut self,
        keywords: &Keywords<'a>,
        spot: &Spot<'a>,
        rules: &mut Vec<Rule>,
    ) -> Result<(), SchemaError> {
        if let Some(reference) = keywords.text("$ref") {
            rules.push(self.reference(reference, spot)?);
        }
        if let Some(reference) = keywords.text("$recursiveRef") {
            let target = self.index.target(reference, spot)?;
            let recursive = self.index.resource(target.resource).is_recursive;
            let targets = self.index.resources().filter(|(_, resource)| recursive && resource.is_recursive);
            let targets = targets.map(|(id, resource)| (id, resource.root.clone())).collect();
            rules.push(self.dynamic(target, targets));
        }
        if let Some(reference) = keywords.text("$dynamicRef") {
            let target = self.index.target(reference, spot)?;
            let anchor = RefIndex::anchor_of(reference);
            let bookend =
                anchor.filter(|name| self.index.resource(target.resource).dynamic_anchors.contains_key(*name));
            let anchors = self.index.resources().filter_map(|(id, resource)| {
                let spot = resource.dynamic_anchors.get(bookend?)?;
                Some((id, spot.clone()))
            });
            let targets = anchors.collect();
            rules.push(self.dynamic(target, targets));
        }
        Ok(())
    }

    fn reference(&mut self, reference: &str, spot: &Spot<'a>) -> Result<Rule, SchemaError> {
        let target = self.index.target(reference, spot);
        if let (Err(_), Some(draft)) = (&target, Draft::of_uri(reference)) {
            return Ok(Rule::IsSchema(draft));
        }
        Ok(Rule::Reference(self.node(target?)))
    }

    fn dynamic(&mut self, target: Spot<'a>, targets: Vec<(u32, Spot<'a>)>) -> Rule {
        let otherwise = self.node(target);
        if targets.is_empty() {
            return Rule::Reference(otherwise);
        }
        self.is_dynamic = true;
        let targets = targets.into_iter().map(|(id, spot)| (id, self.node(spot))).collect();
        Rule::Dynamic(Box::new(DynamicReference { targets, otherwise }))
    }

    fn child(&mut self, keywords: &Keywords<'a>, spot: &Spot<'a>, keyword: &'static str) -> Option<NodeId> {
        let value = keywords.get(keyword)?;
        let child = self.index.spot(value, spot, spot.pointer.step(keyword));
        Some(self.node(child))
    }

    fn children(&mut self, keywords: &Keywords<'a>, spot: &Spot<'a>, keyword: &'static str) -> Box<[NodeId]> {
        let items = keywords.get(keyword).and_then(Value::as_array).into_iter().flatten();
        let pointer = spot.pointer.step(keyword);
        let node = |(index, value): (usize, &'a Value)| {
            let child = self.index.spot(value, spot, pointer.step(index.to_string()));
            self.node(child)
        };
        items.enumerate().map(node).collect()
    }

    /// Returns the subschemas by name; of `dependencies`, only those that are schemas.
    fn children_by_name(
        &mut self,
        keywords: &Keywords<'a>,
        spot: &Spot<'a>,
        keyword: &'static str,
    ) -> impl Iterator<Item = (Box<str>, NodeId)> {
        let members = keywords.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::iter);
        let pointer = spot.pointer.step(keyword);
        members.filter(|(_, value)| !value.is_array()).map(move |(name, value)| {
            let child = self.index.spot(value, spot, pointer.step(name));
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
    fn is_evaluated(&self) -> bool {
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
