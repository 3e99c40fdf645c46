//! Generation of valid instances of a schema: the minimal, the maximal, and random ones.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::corpus::{Revision, alternatives, referenced};
use crate::json::Json;
use crate::random::{Rng, seed_of};
use crate::sample;

/// The keywords that the generator supports. A schema with another keyword requires an extension here.
pub(crate) const KEYWORDS: &[&str] = &[
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "oneOf",
    "properties",
    "required",
    "type",
];

/// An instance, with the name and seed to generate it again.
pub(crate) struct Case {
    pub(crate) label: String,
    pub(crate) seed: u64,
    pub(crate) instance: Json,
}

impl Case {
    /// Returns an instance that random generation does not find.
    pub(crate) fn by_hand(text: &str) -> Self {
        Self { label: format!("by hand {text}"), seed: 0, instance: Json::parse(text).unwrap() }
    }

    /// Returns the name for reports.
    pub(crate) fn name(&self) -> String {
        format!("{} (seed {:#018x})", self.label, self.seed)
    }

    /// Formats the instance. A quarter of the random ones are formatted untidily.
    pub(crate) fn spell(&self, json: &Json) -> String {
        if self.label.starts_with("random") && self.seed.is_multiple_of(4) {
            json.to_untidy_text(self.seed)
        } else {
            json.to_text()
        }
    }
}

/// Generates a minimal and a maximal instance for each alternative of a definition, then `random` others.
pub(crate) fn cases<'a>(revision: &'a Revision, definition: &'a str, random: usize) -> impl Iterator<Item = Case> + 'a {
    shaped_cases(revision, definition, random, Shape::Random)
}

/// Like [`cases`], but without undeclared members.
pub(crate) fn declared_cases<'a>(
    revision: &'a Revision,
    definition: &'a str,
    random: usize,
) -> impl Iterator<Item = Case> + 'a {
    shaped_cases(revision, definition, random, Shape::Declared)
}

fn shaped_cases<'a>(
    revision: &'a Revision,
    definition: &'a str,
    random: usize,
    shape: Shape,
) -> impl Iterator<Item = Case> + 'a {
    let whole = revision.definition(definition);
    let branches = revision.branches(whole).into_iter().enumerate();
    let bounds = branches.flat_map(|(index, branch)| {
        let minimal = (format!("minimal {index}"), Shape::Minimal, branch);
        [minimal, (format!("maximal {index}"), Shape::Maximal, branch)]
    });
    let others = (0..random).map(move |index| (format!("random {index}"), shape, whole));
    bounds.chain(others).map(move |(label, shape, node)| {
        let seed = seed_of(&[revision.name(), definition, &label]);
        let instance = Generator::new(revision, shape, seed).node(node);
        Case { label, seed, instance }
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// Required members only.
    Minimal,
    /// Every declared member.
    Maximal,
    /// Any members, including unknown ones.
    Random,
    /// Any declared members.
    Declared,
}

struct Generator<'a> {
    revision: &'a Revision,
    shape: Shape,
    rng: Rng,
    /// Remaining number of nodes of a random instance before it is limited to required members.
    budget: usize,
    /// The definitions being expanded, to detect recursion.
    open: Vec<&'a str>,
}

/// Maximum nesting of definitions before a random instance is limited to required members.
const DEEP: usize = 12;

/// Maximum nesting of definitions. Only a schema that requires itself exceeds it, and a panic is better than a stack
/// overflow.
const DEEPEST: usize = 64;

/// Maximum number of nodes in a random instance. Larger ones find little more and are slow.
const LARGEST: usize = 100;

impl<'a> Generator<'a> {
    fn new(revision: &'a Revision, shape: Shape, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let budget = 4 + rng.below(LARGEST);
        Self { revision, shape, rng, budget, open: Vec::new() }
    }

    fn node(&mut self, node: &'a Value) -> Json {
        self.budget = self.budget.saturating_sub(1);
        if let Some(definition) = referenced(node) {
            return self.definition(definition, self.revision.definition(definition));
        }
        if let Some(value) = node.get("const") {
            return value.into();
        }
        if let Some(values) = node.get("enum").and_then(Value::as_array) {
            return self.rng.pick(values).into();
        }
        if let Some(branches) = alternatives(node) {
            let branch = if self.is_terse() { &branches[0] } else { self.rng.pick(branches) };
            return self.node(branch);
        }
        self.typed(node)
    }

    fn definition(&mut self, definition: &'a str, node: &'a Value) -> Json {
        assert!(self.open.len() < DEEPEST, "endless recursion: {:?}", self.open);
        let recurs = self.open.iter().filter(|open| **open == definition).count() > 1;
        let shape = self.shape;
        if recurs && shape == Shape::Maximal {
            self.shape = Shape::Minimal;
        }
        self.open.push(definition);
        let instance = self.node(node);
        self.open.pop();
        self.shape = shape;
        instance
    }

    fn typed(&mut self, node: &'a Value) -> Json {
        let kind = match node.get("type") {
            Some(Value::Array(kinds)) => self.rng.pick(kinds).as_str(),
            Some(kind) => kind.as_str(),
            None if node.get("properties").is_some() => Some("object"),
            None => return self.anything(),
        };
        match kind.unwrap() {
            "object" => self.object(node),
            "array" => self.array(node),
            "string" => Json::String(match node.get("format").and_then(Value::as_str) {
                Some(format) => sample::formatted(&mut self.rng, format),
                None => sample::text(&mut self.rng),
            }),
            "integer" => self.integer(node),
            "number" => self.number(node),
            "boolean" => Json::Bool(self.rng.one_in(2)),
            "null" => Json::Null,
            other => panic!("the generator does not know type {other:?}"),
        }
    }

    fn object(&mut self, node: &'a Value) -> Json {
        let mut names: Vec<&'a str> = Vec::new();
        for name in properties(node).keys().map(String::as_str) {
            if is_required(node, name) || self.wants_optional() {
                names.push(name);
            }
        }
        names.extend(required(node).filter(|name| !properties(node).contains_key(*name)));
        // Before generating, so that the budget is not always spent on the same members.
        self.rng.shuffle(&mut names);
        let mut members = Vec::new();
        for name in names {
            let value = match properties(node).get(name) {
                Some(property) => self.member(name, property),
                None => self.anything(),
            };
            members.push((name.to_owned(), value));
        }
        self.add_undeclared(node, &mut members);
        Json::Object(members)
    }

    fn member(&mut self, name: &str, property: &'a Value) -> Json {
        match (sample::vocabulary(name), self.node(property)) {
            (Some(words), Json::String(_)) if is_free_text(property) && !self.rng.one_in(3) => {
                Json::string(*self.rng.pick(words))
            }
            (_, value) => value,
        }
    }

    /// Members that the schema does not name: entries of a map, or unknown members.
    fn add_undeclared(&mut self, node: &'a Value, members: &mut Vec<(String, Json)>) {
        match node.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            Some(schema) => self.add_entries(schema, members),
            None => self.add_strangers(members),
        }
    }

    fn add_entries(&mut self, schema: &'a Value, members: &mut Vec<(String, Json)>) {
        let names = sample::KEYS.iter().cycle().skip(self.rng.below(sample::KEYS.len()));
        for (name, branch) in names.zip(self.elements(schema, 3)) {
            members.push(((*name).to_owned(), self.element(schema, branch)));
        }
        if !self.is_terse() {
            self.rng.shuffle(members);
        }
    }

    fn add_strangers(&mut self, members: &mut Vec<(String, Json)>) {
        if self.shape != Shape::Random || !self.rng.one_in(4) {
            return;
        }
        for number in 0..=self.rng.below(2) {
            let position = self.rng.below(members.len() + 1);
            members.insert(position, (format!("x-unknown-{number}"), self.anything()));
        }
    }

    fn array(&mut self, node: &'a Value) -> Json {
        static ANYTHING: Value = Value::Bool(true);
        let schema = node.get("items").unwrap_or(&ANYTHING);
        let mut elements = self.elements(schema, 5);
        elements.truncate(bound(node, "maxItems").map_or(usize::MAX, |most| most as usize));
        let least = bound(node, "minItems").map_or(0, |least| least as usize);
        elements.resize(least.max(elements.len()), schema);
        Json::Array(elements.into_iter().map(|branch| self.element(schema, branch)).collect())
    }

    /// Returns the schemas for the elements of a list or map: none, one of each kind, or a random number up to `most`.
    fn elements(&mut self, schema: &'a Value, most: usize) -> Vec<&'a Value> {
        match self.shape {
            _ if self.is_terse() => Vec::new(),
            Shape::Maximal => self.revision.branches(schema),
            _ => {
                let count = *self.rng.pick(&[0, 1, 1, 2, most]);
                vec![schema; count.min(self.budget)]
            }
        }
    }

    /// Counts as an expansion of the definition that `schema` refers to, although it is only one branch of it.
    /// Otherwise recursion through unions would not be detected.
    fn element(&mut self, schema: &'a Value, branch: &'a Value) -> Json {
        match referenced(schema) {
            Some(definition) if !std::ptr::eq(schema, branch) => self.definition(definition, branch),
            _ => self.node(branch),
        }
    }

    fn integer(&mut self, node: &Value) -> Json {
        let low = bound(node, "minimum").map_or(i64::MIN, |low| low.ceil() as i64);
        let high = bound(node, "maximum").map_or(i64::MAX, |high| high.floor() as i64);
        Json::integer(sample::integer(&mut self.rng).clamp(low, high))
    }

    fn number(&mut self, node: &Value) -> Json {
        match (bound(node, "minimum"), bound(node, "maximum")) {
            (None, None) => sample::number(&mut self.rng),
            (low, high) => {
                let low = low.unwrap_or_else(|| high.unwrap_or_default() - 1000.0);
                sample::number_between(&mut self.rng, low, high.unwrap_or(low + 1000.0))
            }
        }
    }

    fn anything(&mut self) -> Json {
        let depth = if self.is_terse() { 0 } else { 2 };
        sample::anything(&mut self.rng, depth)
    }

    fn wants_optional(&mut self) -> bool {
        match self.shape {
            Shape::Minimal => false,
            Shape::Maximal => true,
            Shape::Random | Shape::Declared => !self.is_terse() && self.rng.one_in(2),
        }
    }

    /// Returns `true` if only required members are generated. In a union, that is the first alternative, which in
    /// these schemas is never recursive.
    fn is_terse(&self) -> bool {
        match self.shape {
            Shape::Minimal => true,
            Shape::Maximal => false,
            Shape::Random | Shape::Declared => self.budget == 0 || self.open.len() > DEEP,
        }
    }
}

/// Returns `true` if any string is valid.
fn is_free_text(node: &Value) -> bool {
    let plain = |keyword: &String| keyword == "type" || keyword == "description";
    node["type"] == "string" && node.as_object().is_some_and(|all| all.keys().all(plain))
}

pub(crate) fn properties(node: &Value) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    node.get("properties").and_then(Value::as_object).unwrap_or(&NONE)
}

fn required(node: &Value) -> impl Iterator<Item = &str> {
    let names = node.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

pub(crate) fn is_required(node: &Value, name: &str) -> bool {
    required(node).any(|required| required == name)
}

fn bound(node: &Value, keyword: &str) -> Option<f64> {
    node.get(keyword)?.as_f64()
}
