//! Signatures as text. The types in them have the names that users see: `turms::types::Content`, `http::HeaderMap`, `Option`.

use std::collections::{BTreeSet, HashMap};

use rustdoc_types::{
    AssocItemConstraintKind, Constant, Function, FunctionSignature, GenericArg, GenericArgs, GenericBound,
    GenericParamDef, GenericParamDefKind, Generics, Id, Impl, ItemEnum, Path, PreciseCapturingArg, Term,
    TraitBoundModifier, Type, WherePredicate,
};

use super::rustdoc::{Docs, Key, Target};

const STANDARD: &[&str] = &["alloc", "core", "std"];

/// Writes the signatures of one item.
pub(super) struct Writer<'a> {
    docs: &'a Docs,
    names: &'a HashMap<Key, String>,
    krate: usize,
    /// Types and traits of other crates that the signatures contain.
    pub(super) foreign: BTreeSet<String>,
}

impl<'a> Writer<'a> {
    /// `names` has the public path of each item that has one.
    pub(super) fn new(docs: &'a Docs, names: &'a HashMap<Key, String>, krate: usize) -> Self {
        Self { docs, names, krate, foreign: BTreeSet::new() }
    }

    pub(super) fn function(&mut self, function: &Function) -> String {
        let header = &function.header;
        let words = [(header.is_const, "const "), (header.is_async, "async "), (header.is_unsafe, "unsafe ")];
        let words: String = words.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word).collect();
        let parameters = self.parameters(&function.generics.params);
        let signature = self.call(&function.sig);
        format!("{words}{parameters}{signature}{}", self.wheres(&function.generics))
    }

    /// Formats the header of an implementation, with its associated types. `owner` is the path of the type or trait under
    /// which the implementation is listed.
    pub(super) fn implementation(&mut self, item: &Impl, owner: &str) -> String {
        let parameters = self.parameters(&item.generics.params);
        let not = if item.is_negative { "!" } else { "" };
        let of = item.trait_.as_ref().map(|it| self.path(it)).unwrap_or_default();
        let target = self.ty(&item.for_);
        let target = if target == owner { String::new() } else { format!(" for {target}") };
        let wheres = self.wheres(&item.generics);
        let (docs, krate) = (self.docs, self.krate);
        let types = item.items.iter().filter_map(|id| docs.get(Key { krate, id: *id }));
        let types: Vec<_> = types
            .filter_map(|item| match &item.inner {
                ItemEnum::AssocType { type_: Some(ty), .. } => {
                    Some(format!("{} = {}", item.name.as_deref()?, self.ty(ty)))
                }
                _ => None,
            })
            .collect();
        let types = if types.is_empty() { String::new() } else { format!(" {{ {} }}", types.join(", ")) };
        let space = if parameters.is_empty() { "" } else { " " };
        format!("{parameters}{space}{not}{of}{target}{wheres}{types}")
    }

    pub(super) fn parameters(&mut self, parameters: &[GenericParamDef]) -> String {
        let is_written =
            |it: &&GenericParamDef| !matches!(it.kind, GenericParamDefKind::Type { is_synthetic: true, .. });
        let all: Vec<_> = parameters.iter().filter(is_written).map(|it| self.parameter(it)).collect();
        if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
    }

    fn parameter(&mut self, parameter: &GenericParamDef) -> String {
        let name = &parameter.name;
        match &parameter.kind {
            GenericParamDefKind::Lifetime { outlives } if outlives.is_empty() => name.clone(),
            GenericParamDefKind::Lifetime { outlives } => format!("{name}: {}", outlives.join(" + ")),
            GenericParamDefKind::Type { bounds, default, .. } => {
                let default = default.as_ref().map(|it| format!(" = {}", self.ty(it))).unwrap_or_default();
                format!("{name}{}{default}", self.bounded(bounds))
            }
            GenericParamDefKind::Const { type_, default } => {
                let default = default.as_ref().map(|it| format!(" = {it}")).unwrap_or_default();
                format!("const {name}: {}{default}", self.ty(type_))
            }
        }
    }

    pub(super) fn wheres(&mut self, generics: &Generics) -> String {
        let all: Vec<_> = generics.where_predicates.iter().map(|it| self.predicate(it)).collect();
        if all.is_empty() { String::new() } else { format!(" where {}", all.join(", ")) }
    }

    fn predicate(&mut self, predicate: &WherePredicate) -> String {
        match predicate {
            WherePredicate::BoundPredicate { type_, bounds, generic_params } => {
                format!("{}{}{}", self.binder(generic_params), self.ty(type_), self.bounded(bounds))
            }
            WherePredicate::LifetimePredicate { lifetime, outlives } => format!("{lifetime}: {}", outlives.join(" + ")),
            WherePredicate::EqPredicate { lhs, rhs } => format!("{} = {}", self.ty(lhs), self.term(rhs)),
        }
    }

    /// Formats bounds, after a colon if there are any.
    pub(super) fn bounded(&mut self, bounds: &[GenericBound]) -> String {
        if bounds.is_empty() { String::new() } else { format!(": {}", self.bounds(bounds)) }
    }

    fn bounds(&mut self, bounds: &[GenericBound]) -> String {
        let all: Vec<_> = bounds.iter().map(|bound| self.bound(bound)).collect();
        all.join(" + ")
    }

    fn bound(&mut self, bound: &GenericBound) -> String {
        match bound {
            GenericBound::TraitBound { trait_, generic_params, modifier } => {
                let mark = if *modifier == TraitBoundModifier::Maybe { "?" } else { "" };
                format!("{}{mark}{}", self.binder(generic_params), self.path(trait_))
            }
            GenericBound::Outlives(lifetime) => lifetime.clone(),
            GenericBound::Use(captured) => {
                let name = |it: &PreciseCapturingArg| match it {
                    PreciseCapturingArg::Lifetime(name) | PreciseCapturingArg::Param(name) => name.clone(),
                };
                format!("use<{}>", captured.iter().map(name).collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn binder(&mut self, parameters: &[GenericParamDef]) -> String {
        let parameters = self.parameters(parameters);
        if parameters.is_empty() { parameters } else { format!("for{parameters} ") }
    }

    fn call(&mut self, signature: &FunctionSignature) -> String {
        let inputs: Vec<_> = signature.inputs.iter().map(|(name, ty)| self.input(name, ty)).collect();
        let output = signature.output.as_ref().map(|ty| format!(" -> {}", self.ty(ty))).unwrap_or_default();
        format!("({}){output}", inputs.join(", "))
    }

    fn input(&mut self, name: &str, ty: &Type) -> String {
        let is_self = |ty: &Type| name == "self" && matches!(ty, Type::Generic(name) if name == "Self");
        match ty {
            ty if is_self(ty) => "self".to_owned(),
            Type::BorrowedRef { lifetime, is_mutable, type_ } if is_self(type_) => {
                format!("{}self", reference(lifetime.as_deref(), *is_mutable))
            }
            ty if name.is_empty() || name == "_" => self.ty(ty),
            ty => format!("{name}: {}", self.ty(ty)),
        }
    }

    pub(super) fn ty(&mut self, ty: &Type) -> String {
        match ty {
            Type::ResolvedPath(path) => self.path(path),
            Type::Generic(name) | Type::Primitive(name) => name.clone(),
            Type::DynTrait(it) => {
                let traits =
                    it.traits.iter().map(|it| format!("{}{}", self.binder(&it.generic_params), self.path(&it.trait_)));
                let all: Vec<_> = traits.chain(it.lifetime.clone()).collect();
                format!("dyn {}", all.join(" + "))
            }
            Type::FunctionPointer(it) => format!("{}fn{}", self.binder(&it.generic_params), self.call(&it.sig)),
            Type::Tuple(types) if types.len() == 1 => format!("({},)", self.ty(&types[0])),
            Type::Tuple(types) => format!("({})", self.types(types)),
            Type::Slice(ty) => format!("[{}]", self.ty(ty)),
            Type::Array { type_, len } => format!("[{}; {len}]", self.ty(type_)),
            Type::Pat { type_, .. } => self.ty(type_),
            Type::ImplTrait(bounds) => format!("impl {}", self.bounds(bounds)),
            Type::Infer => "_".to_owned(),
            Type::RawPointer { is_mutable, type_ } => {
                format!("*{} {}", if *is_mutable { "mut" } else { "const" }, self.ty(type_))
            }
            Type::BorrowedRef { lifetime, is_mutable, type_ } => {
                let needs_parentheses =
                    matches!(&**type_, Type::DynTrait(it) if it.traits.len() + it.lifetime.iter().len() > 1);
                let (open, close) = if needs_parentheses { ("(", ")") } else { ("", "") };
                format!("{}{open}{}{close}", reference(lifetime.as_deref(), *is_mutable), self.ty(type_))
            }
            Type::QualifiedPath { name, args, self_type, trait_ } => {
                let owner = self.ty(self_type);
                let args = args.as_deref().map(|args| self.args(args)).unwrap_or_default();
                match trait_ {
                    Some(of) if owner != "Self" && !of.path.is_empty() => {
                        format!("<{owner} as {}>::{name}{args}", self.path(of))
                    }
                    _ => format!("{owner}::{name}{args}"),
                }
            }
        }
    }

    fn types(&mut self, types: &[Type]) -> String {
        let all: Vec<_> = types.iter().map(|ty| self.ty(ty)).collect();
        all.join(", ")
    }

    fn path(&mut self, path: &Path) -> String {
        let args = path.args.as_deref().map(|args| self.args(args)).unwrap_or_default();
        format!("{}{args}", self.name(path.id, &path.path))
    }

    fn name(&mut self, id: Id, written: &str) -> String {
        match self.docs.resolve(self.krate, id) {
            None => written.to_owned(),
            Some(Target::Ours(key)) => self.names.get(&key).cloned().unwrap_or_else(|| self.docs.definition(key)),
            Some(Target::Foreign(path)) => {
                let name = short(&path);
                if !path.first().is_some_and(|krate| self.docs.is_ours(krate)) {
                    self.foreign.insert(format!("{}::{}", path[0], path[path.len() - 1]));
                }
                name
            }
        }
    }

    fn args(&mut self, args: &GenericArgs) -> String {
        match args {
            GenericArgs::AngleBracketed { args, constraints } => {
                let mut all: Vec<_> = args.iter().map(|arg| self.arg(arg)).collect();
                for it in constraints {
                    let own = it.args.as_deref().map(|args| self.args(args)).unwrap_or_default();
                    all.push(match &it.binding {
                        AssocItemConstraintKind::Equality(term) => format!("{}{own} = {}", it.name, self.term(term)),
                        AssocItemConstraintKind::Constraint(bounds) => {
                            format!("{}{own}{}", it.name, self.bounded(bounds))
                        }
                    });
                }
                if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
            }
            GenericArgs::Parenthesized { inputs, output } => {
                let output = output.as_ref().map(|ty| format!(" -> {}", self.ty(ty))).unwrap_or_default();
                format!("({}){output}", self.types(inputs))
            }
            GenericArgs::ReturnTypeNotation => "(..)".to_owned(),
        }
    }

    fn arg(&mut self, arg: &GenericArg) -> String {
        match arg {
            GenericArg::Lifetime(name) => name.clone(),
            GenericArg::Type(ty) => self.ty(ty),
            GenericArg::Const(Constant { expr, .. }) => expr.clone(),
            GenericArg::Infer => "_".to_owned(),
        }
    }

    fn term(&mut self, term: &Term) -> String {
        match term {
            Term::Type(ty) => self.ty(ty),
            Term::Constant(Constant { expr, .. }) => expr.clone(),
        }
    }
}

fn reference(lifetime: Option<&str>, is_mutable: bool) -> String {
    let lifetime = lifetime.map(|name| format!("{name} ")).unwrap_or_default();
    format!("&{lifetime}{}", if is_mutable { "mut " } else { "" })
}

/// Returns the name of an item of another crate without its modules, because they may be private. The module distinguishes
/// `io::Error` from `fmt::Error`.
pub(super) fn short(path: &[String]) -> String {
    let [krate, .., name] = path else { return path.concat() };
    let is_common = matches!(name.as_str(), "Error" | "Result") && path[1] != "result";
    match STANDARD.contains(&krate.as_str()) {
        true if is_common => format!("{}::{name}", path[1]),
        true => name.clone(),
        false => format!("{krate}::{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_crates_are_short_and_distinct() {
        for (path, expected) in [
            ("core::option::Option", "Option"),
            ("core::result::Result", "Result"),
            ("std::io::error::Error", "io::Error"),
            ("core::fmt::Error", "fmt::Error"),
            ("http::header::map::HeaderMap", "http::HeaderMap"),
        ] {
            let path: Vec<_> = path.split("::").map(str::to_owned).collect();
            assert_eq!(short(&path), expected);
        }
    }
}
