//! The compiled form of a schema: each subschema is a node with rules.

use serde_json::Value;

use crate::format::{Content, Format};
use crate::instance::PartKind;
use crate::keyword::Draft;
use crate::number::Number;
use crate::pattern::Pattern;
use crate::ref_index::ResourceId;

/// A compiled schema. The first node is the root.
#[derive(Debug)]
pub(crate) struct Nodes {
    pub(crate) nodes: Box<[Node]>,
    /// `true` if there are dynamic references.
    pub(crate) is_dynamic: bool,
    /// `true` if there are `unevaluated…` rules.
    pub(crate) has_unevaluated: bool,
}

pub(crate) type NodeId = u32;

pub(crate) type Names = Box<[Box<str>]>;

#[derive(Debug, Default)]
pub(crate) struct Node {
    /// Cheap rules first, `unevaluated…` rules last.
    pub(crate) rules: Box<[Rule]>,
    pub(crate) resource: ResourceId,
}

/// A condition on a value.
#[derive(Debug)]
pub(crate) enum Rule {
    /// The schema `false`, which no value satisfies.
    False,
    Type(Types),
    Const(Box<Value>),
    Enum(Box<EnumValues>),
    Bound(Bound, Number),
    MultipleOf(Box<str>),
    Length(Limit, u64),
    ItemCount(Limit, u64),
    MemberCount(Limit, u64),
    Required(Names),
    /// Members that are required if another member is present.
    DependentRequired(Box<[(Box<str>, Names)]>),
    Pattern(Box<Pattern>),
    /// A format, and `true` if its dialect defines it as an annotation by default.
    Format(Format, bool),
    Content(Content),
    UniqueItems,
    Members(Box<MemberRules>),
    MemberNames(NodeId),
    Items(Box<ItemRules>),
    Contains(Box<Contains>),
    DependentSchemas(Box<[(Box<str>, NodeId)]>),
    AllOf(Box<[NodeId]>),
    AnyOf(Box<[NodeId]>),
    OneOf(Box<[NodeId]>),
    Not(NodeId, Box<Value>),
    If(Box<Conditional>),
    Reference(NodeId),
    Dynamic(Box<DynamicReference>),
    /// A reference to the meta-schema of a dialect.
    IsSchema(Draft),
    UnevaluatedMembers(NodeId),
    UnevaluatedItems(NodeId),
}

/// The values of `enum`. Strings and integers are found by binary search, because there may be many.
#[derive(Debug)]
pub(crate) struct EnumValues {
    pub(crate) values: Box<[Value]>,
    /// Indexes of the strings in `values`, sorted by string.
    texts: Box<[u32]>,
    /// The integers, sorted.
    integers: Box<[i128]>,
    /// Indexes of all other values in `values`.
    others: Box<[u32]>,
}

impl EnumValues {
    pub(crate) fn new(values: &[Value]) -> Self {
        let (mut texts, mut integers, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (index, value) in (0..).zip(values) {
            match value {
                Value::String(_) => texts.push(index),
                Value::Number(number) => match Number::of(number) {
                    Number::Integer(integer) => integers.push(integer),
                    Number::Float(_) => others.push(index),
                },
                _ => others.push(index),
            }
        }
        texts.sort_unstable_by_key(|index| values[*index as usize].as_str());
        integers.sort_unstable();
        Self { values: values.into(), texts: texts.into(), integers: integers.into(), others: others.into() }
    }

    pub(crate) fn has_text(&self, text: &str) -> bool {
        self.texts.binary_search_by_key(&Some(text), |index| self.values[*index as usize].as_str()).is_ok()
    }

    pub(crate) fn has_integer(&self, number: Number) -> bool {
        number.is_integer() && self.integers.binary_search(&number.key()).is_ok()
    }

    /// Iterates over the values that are neither strings nor integers.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Value> {
        self.others.iter().map(|index| &self.values[*index as usize])
    }

    /// Returns the number of comparisons of a search among the strings or integers.
    pub(crate) fn comparisons(&self) -> u64 {
        2 + u64::from(self.values.len().checked_ilog2().unwrap_or_default())
    }
}

/// `properties`, `patternProperties` and `additionalProperties`.
#[derive(Debug)]
pub(crate) struct MemberRules {
    /// Subschemas by name, sorted by name.
    pub(crate) named: Box<[(Box<str>, NodeId)]>,
    pub(crate) patterns: Box<[(Pattern, NodeId)]>,
    pub(crate) others: Option<NodeId>,
}

impl MemberRules {
    pub(crate) fn named(&self, name: &str) -> Option<NodeId> {
        // Strings of different length are unequal without comparing bytes, so a linear scan is faster for short lists.
        const SHORT: usize = 16;
        if self.named.len() <= SHORT {
            return self.named.iter().find(|(other, _)| **other == *name).map(|(_, node)| *node);
        }
        let found = self.named.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        Some(self.named[found].1)
    }
}

/// `prefixItems` and `items`, or `items` and `additionalItems` in older drafts.
#[derive(Debug)]
pub(crate) struct ItemRules {
    pub(crate) first: Box<[NodeId]>,
    pub(crate) others: Option<NodeId>,
}

impl ItemRules {
    pub(crate) fn of(&self, index: usize) -> Option<NodeId> {
        self.first.get(index).copied().or(self.others)
    }
}

#[derive(Debug)]
pub(crate) struct Contains {
    pub(crate) node: NodeId,
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
    /// `true` if matching elements count as evaluated.
    pub(crate) evaluates: bool,
}

#[derive(Debug)]
pub(crate) struct Conditional {
    pub(crate) condition: NodeId,
    pub(crate) then: Option<NodeId>,
    pub(crate) otherwise: Option<NodeId>,
}

/// `$dynamicRef` and `$recursiveRef`.
#[derive(Debug)]
pub(crate) struct DynamicReference {
    /// The target for each resource on the path.
    pub(crate) targets: Box<[(ResourceId, NodeId)]>,
    pub(crate) otherwise: NodeId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Min,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Minimum,
    Maximum,
    ExclusiveMinimum,
    ExclusiveMaximum,
}

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    const NAMES: [&'static str; 7] = ["null", "boolean", "number", "string", "array", "object", "integer"];
    const INTEGER: u8 = 6;
    /// Bit for draft 4, where `1.0` is not an integer.
    const AS_WRITTEN: u8 = 1 << 7;

    pub(crate) fn new(value: &Value, draft: Draft) -> Self {
        let bit = |value: &Value| {
            let index = Self::NAMES.iter().position(|name| value == name);
            index.map_or(0, |index| 1_u8 << index)
        };
        let bits = match value {
            Value::Array(types) => types.iter().map(bit).fold(0, |all, one| all | one),
            value => bit(value),
        };
        Self(if draft == Draft::Four { bits | Self::AS_WRITTEN } else { bits })
    }

    pub(crate) fn has(self, kind: PartKind) -> bool {
        self.0 & (1 << (kind as u8)) != 0
    }

    /// Like [`Types::has`], for a number. Its value is computed only if the types include integers.
    pub(crate) fn has_number(self, raw: &str, number: impl FnOnce() -> Number) -> bool {
        if self.has(PartKind::Number) {
            return true;
        }
        if self.0 & (1 << Self::INTEGER) == 0 {
            return false;
        }
        if !raw.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
            return true;
        }
        number().is_integer() && (self.0 & Self::AS_WRITTEN == 0 || !raw.contains('.'))
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        (0..).zip(Self::NAMES).filter(move |(index, _)| self.0 & (1 << index) != 0).map(|(_, name)| name)
    }
}

impl Rule {
    /// Returns the keyword of the rule, or the first if it combines several.
    pub(crate) fn keyword(&self) -> &'static str {
        match self {
            Self::False => "false",
            Self::Type(_) => "type",
            Self::Const(_) => "const",
            Self::Enum(_) => "enum",
            Self::Bound(Bound::Minimum, _) => "minimum",
            Self::Bound(Bound::Maximum, _) => "maximum",
            Self::Bound(Bound::ExclusiveMinimum, _) => "exclusiveMinimum",
            Self::Bound(Bound::ExclusiveMaximum, _) => "exclusiveMaximum",
            Self::MultipleOf(_) => "multipleOf",
            Self::Length(Limit::Min, _) => "minLength",
            Self::Length(Limit::Max, _) => "maxLength",
            Self::ItemCount(Limit::Min, _) => "minItems",
            Self::ItemCount(Limit::Max, _) => "maxItems",
            Self::MemberCount(Limit::Min, _) => "minProperties",
            Self::MemberCount(Limit::Max, _) => "maxProperties",
            Self::Required(_) => "required",
            Self::DependentRequired(_) => "dependentRequired",
            Self::Pattern(_) => "pattern",
            Self::Format(..) => "format",
            Self::Content(_) => "contentMediaType",
            Self::UniqueItems => "uniqueItems",
            Self::Members(members) if members.named.is_empty() && !members.patterns.is_empty() => "patternProperties",
            Self::Members(members) if members.named.is_empty() => "additionalProperties",
            Self::Members(_) => "properties",
            Self::MemberNames(_) => "propertyNames",
            Self::Items(_) => "items",
            Self::Contains(_) => "contains",
            Self::DependentSchemas(_) => "dependentSchemas",
            Self::AllOf(_) => "allOf",
            Self::AnyOf(_) => "anyOf",
            Self::OneOf(_) => "oneOf",
            Self::Not(..) => "not",
            Self::If(_) => "if",
            Self::Reference(_) | Self::IsSchema(_) => "$ref",
            Self::Dynamic(_) => "$dynamicRef",
            Self::UnevaluatedMembers(_) => "unevaluatedProperties",
            Self::UnevaluatedItems(_) => "unevaluatedItems",
        }
    }

    /// Returns `true` if the rule combines no schemas.
    pub(crate) fn is_empty_list(&self) -> bool {
        matches!(self, Self::AllOf(nodes) | Self::AnyOf(nodes) | Self::OneOf(nodes) if nodes.is_empty())
    }

    /// Calls `visit` with each node that the rule refers to, and `true` if the node applies to the same value.
    pub(crate) fn each_node(&self, mut visit: impl FnMut(NodeId, SameValue)) {
        match self {
            Self::Members(members) => {
                members.named.iter().for_each(|(_, node)| visit(*node, false));
                members.patterns.iter().for_each(|(_, node)| visit(*node, false));
                members.others.iter().for_each(|node| visit(*node, false));
            }
            Self::Items(items) => items.first.iter().chain(&items.others).for_each(|node| visit(*node, false)),
            Self::Contains(contains) => visit(contains.node, false),
            Self::MemberNames(node) | Self::UnevaluatedMembers(node) | Self::UnevaluatedItems(node) => {
                visit(*node, false)
            }
            Self::DependentSchemas(schemas) => schemas.iter().for_each(|(_, node)| visit(*node, true)),
            Self::AllOf(nodes) | Self::AnyOf(nodes) | Self::OneOf(nodes) => {
                nodes.iter().for_each(|node| visit(*node, true))
            }
            Self::Not(node, _) | Self::Reference(node) => visit(*node, true),
            Self::If(choice) => {
                visit(choice.condition, true);
                choice.then.iter().chain(&choice.otherwise).for_each(|node| visit(*node, true));
            }
            // The target depends on the path, and so does whether it is recursive.
            Self::Dynamic(dynamic) => {
                dynamic.targets.iter().for_each(|(_, node)| visit(*node, false));
                visit(dynamic.otherwise, false);
            }
            _ => {}
        }
    }
}

/// `true` if a node applies to the same value as its rule, `false` if it applies to a part of the value.
pub(crate) type SameValue = bool;
