//! Parameters of a function: arguments and extractors.

use syn::ext::IdentExt as _;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, LitStr, Pat, PatIdent, PatType, Path, PathArguments, PathSegment,
    Result, Signature, Type,
};

use crate::argument::Argument;
use crate::description::is_doc;
use crate::errors::Errors;
use crate::generics::mentions;
use crate::item_attribute::{ItemAttribute, ItemKind};

/// A parameter of a function.
pub(crate) enum Parameter {
    /// An argument, which clients pass by name.
    Argument(Argument),
    /// An extractor.
    Extractor(Type),
}

impl Parameter {
    /// Parses the parameters except `self`, and removes the attributes of this crate from the signature.
    pub(crate) fn take_all(attribute: &ItemAttribute, signature: &mut Signature) -> Result<Vec<Self>> {
        let mut errors = Errors::default();
        let mut parameters = Vec::new();
        for input in &mut signature.inputs {
            if let FnArg::Typed(typed) = input {
                errors.ok_or_add(Self::take(attribute.kind, typed).map(|parameter| parameters.push(parameter)));
            }
        }
        errors.finish()?;
        check_combination(attribute, &signature.ident, &parameters)?;
        Ok(parameters)
    }

    /// Removes the attributes of this crate from the signature of a method that is not parsed.
    pub(crate) fn strip(signature: &mut Signature) {
        for input in &mut signature.inputs {
            if let FnArg::Typed(typed) = input {
                ParameterAttributes::take(&mut typed.attrs);
            }
        }
    }

    fn take(kind: ItemKind, typed: &mut PatType) -> Result<Self> {
        let attributes = ParameterAttributes::take(&mut typed.attrs);
        if attributes.extract.is_some() || is_extractor(&typed.ty) {
            return match attributes.argument_only() {
                Some(note) => Err(Error::new_spanned(
                    note,
                    "this attribute is for arguments only, and the parameter is an extractor",
                )),
                None => Ok(Self::Extractor((*typed.ty).clone())),
            };
        }
        check_type(&typed.ty)?;
        Ok(Self::Argument(Argument {
            ident: argument_name(&typed.pat)?,
            ty: (*typed.ty).clone(),
            header: attributes.header(kind)?,
            completer: attributes.completer(kind)?,
            attributes: attributes.field,
        }))
    }

    pub(crate) fn as_argument(&self) -> Option<&Argument> {
        match self {
            Self::Argument(argument) => Some(argument),
            Self::Extractor(_) => None,
        }
    }

    pub(crate) fn ty(&self) -> &Type {
        match self {
            Self::Argument(argument) => &argument.ty,
            Self::Extractor(ty) => ty,
        }
    }

    /// Returns `true` if the generated code may not compile with this type, such as an argument without
    /// `Deserialize`. The error is then reported at the parameter.
    pub(crate) fn may_cause_type_error(&self) -> bool {
        match self {
            Self::Argument(argument) => !is_plain(&argument.ty),
            Self::Extractor(ty) => !is_extractor(ty) || self.as_all_arguments().is_some(),
        }
    }

    /// Returns the type, if it is `Args<T>` or `Option<Args<T>>`, which take all arguments.
    fn as_all_arguments(&self) -> Option<&Type> {
        match self {
            Self::Extractor(ty) if is_args(option_of(ty).unwrap_or(ty)) => Some(ty),
            Self::Argument(_) | Self::Extractor(_) => None,
        }
    }
}

/// Attributes of a parameter that are removed from the function.
#[derive(Default)]
struct ParameterAttributes {
    /// Attributes for the field of the argument struct.
    field: Vec<Attribute>,
    header: Option<Attribute>,
    complete: Option<Attribute>,
    extract: Option<Attribute>,
}

impl ParameterAttributes {
    fn take(attributes: &mut Vec<Attribute>) -> Self {
        let mut taken = Self::default();
        for attribute in std::mem::take(attributes) {
            let path = attribute.path();
            if path.is_ident("header") {
                taken.header = Some(attribute);
            } else if path.is_ident("complete") {
                taken.complete = Some(attribute);
            } else if path.is_ident("extract") {
                taken.extract = Some(attribute);
            } else if is_doc(&attribute) || FIELD_ATTRIBUTES.iter().any(|name| path.is_ident(name)) {
                taken.field.push(attribute);
            } else {
                attributes.push(attribute);
            }
        }
        taken
    }

    /// Returns an attribute that is allowed only on arguments; doc comments are allowed on all parameters.
    fn argument_only(&self) -> Option<&Attribute> {
        let field = self.field.iter().find(|attribute| !is_doc(attribute));
        field.or(self.header.as_ref()).or(self.complete.as_ref())
    }

    fn completer(&self, kind: ItemKind) -> Result<Option<Path>> {
        let Some(attribute) = &self.complete else { return Ok(None) };
        if kind == ItemKind::Tool {
            let problem = "only arguments of prompts and resources can be completed";
            return Err(Error::new_spanned(attribute, problem));
        }
        let path = attribute.parse_args();
        path.map(Some).map_err(|error| Error::new(error.span(), "write `#[complete(path::to::function)]`"))
    }

    fn header(&self, kind: ItemKind) -> Result<Option<LitStr>> {
        let Some(attribute) = &self.header else { return Ok(None) };
        if kind != ItemKind::Tool {
            let problem = "only arguments of tools can be mirrored in headers";
            return Err(Error::new_spanned(attribute, problem));
        }
        let name: LitStr =
            attribute.parse_args().map_err(|error| Error::new(error.span(), "write `#[header(\"Name\")]`"))?;
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.value().is_empty() || !name.value().chars().all(is_token) {
            let problem = "a header's name is letters, digits and any of \"!#$%&'*+-.^_`|~\"";
            return Err(Error::new(name.span(), problem));
        }
        Ok(Some(name))
    }
}

/// Attributes that the derives of the argument struct read.
const FIELD_ATTRIBUTES: [&str; 4] = ["serde", "schemars", "validate", "garde"];

/// Extractors, by the last segment of their path: a macro sees names, not types. `#[extract]` marks all others.
const EXTRACTORS: [&str; 11] = [
    "CancellationToken",
    "ClientInfo",
    "CompletionRequest",
    "Context",
    "HeaderMap",
    "Meta",
    "Principal",
    "Progress",
    "ResourceUri",
    "ServerHandle",
    "Session",
];

/// Extractors with a type parameter.
const GENERIC_EXTRACTORS: [&str; 3] = ["Args", "Extension", "State"];

fn is_extractor(ty: &Type) -> bool {
    let Some(segment) = outer(ty) else { return false };
    let is_one_of = |names: &[&str]| names.iter().any(|name| segment.ident == name);
    match &segment.arguments {
        PathArguments::None => is_one_of(&EXTRACTORS),
        PathArguments::AngleBracketed(_) if is_one_of(&["Option"]) => inner(segment).is_some_and(is_extractor),
        PathArguments::AngleBracketed(_) => is_one_of(&GENERIC_EXTRACTORS),
        PathArguments::Parenthesized(_) => false,
    }
}

/// Types that are always valid arguments, also in an `Option` or a `Vec`.
const PLAIN: [&str; 17] = [
    "String", "bool", "char", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "isize", "u128", "u16", "u32", "u64",
    "u8", "usize",
];

fn is_plain(ty: &Type) -> bool {
    let Some(segment) = outer(ty) else { return false };
    let contained = inner(segment).filter(|_| segment.ident == "Option" || segment.ident == "Vec");
    contained.map_or_else(|| PLAIN.iter().any(|name| segment.ident == name), is_plain)
}

fn is_args(ty: &Type) -> bool {
    outer(ty).is_some_and(|segment| segment.ident == "Args")
}

/// Returns the last segment of the path of a type.
fn outer(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last(),
        // A type that comes from a `macro_rules!` macro.
        Type::Group(group) => outer(&group.elem),
        _ => None,
    }
}

/// Returns the first type argument, such as the `T` of `Option<T>`.
fn inner(segment: &PathSegment) -> Option<&Type> {
    match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(ty) => Some(ty),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the `T` of `Option<T>`; `None` for other types.
pub(crate) fn option_of(ty: &Type) -> Option<&Type> {
    outer(ty).filter(|outer| outer.ident == "Option").and_then(inner)
}

fn argument_name(pattern: &Pat) -> Result<Ident> {
    match pattern {
        Pat::Ident(PatIdent { by_ref: None, subpat: None, ident, .. }) => Ok(ident.clone()),
        _ => Err(Error::new_spanned(
            pattern,
            "arguments are passed by name: use an identifier here, and destructure it in the body",
        )),
    }
}

fn check_type(ty: &Type) -> Result<()> {
    let problem = match ty {
        Type::Reference(reference) if is_extractor(&reference.elem) => "extractors are passed by value: remove the `&`",
        Type::Reference(_) => {
            "arguments are passed by value: use `String` instead of `&str`, `Vec<T>` instead of `&[T]`"
        }
        Type::ImplTrait(_) => "arguments need a concrete type: clients receive its JSON Schema",
        ty if mentions(ty, "Self") => "`Self` is not supported in the type of an argument: write the name of the type",
        _ => return Ok(()),
    };
    Err(Error::new_spanned(ty, problem))
}

/// Checks rules that involve several parameters.
fn check_combination(attribute: &ItemAttribute, function: &Ident, parameters: &[Parameter]) -> Result<()> {
    let whole: Vec<&Type> = parameters.iter().filter_map(Parameter::as_all_arguments).collect();
    let single: Vec<&Argument> = parameters.iter().filter_map(Parameter::as_argument).collect();
    if let [_, second, ..] = whole.as_slice() {
        return Err(Error::new_spanned(second, "`Args` takes all arguments and can be used only once"));
    }
    if let ([_], [argument, ..]) = (whole.as_slice(), single.as_slice()) {
        let problem = "`Args` takes all arguments: move this one into its struct";
        return Err(Error::new(argument.ident.span(), problem));
    }
    let Some(template) = &attribute.uri else { return Ok(()) };
    let mut errors = Errors::default();
    for argument in &single {
        if !template.variables.iter().any(|name| argument.ident.unraw() == name) {
            let uri = template.uri.value();
            let problem = format!("{uri:?} has no variable `{}`", argument.ident.unraw());
            errors.add(Error::new(argument.ident.span(), problem));
        }
    }
    for name in template.variables.iter().filter(|_| whole.is_empty()) {
        if !single.iter().any(|argument| argument.ident.unraw() == name) {
            let problem = format!("`{function}` has no parameter for the variable `{name}`");
            errors.add(Error::new(template.uri.span(), problem));
        }
    }
    errors.finish()
}
