//! A field of an object type.

use proc_macro2::Span;
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Error, Expr, Field, GenericArgument, Ident, LitStr, PathArguments, Result, Type};

/// A member of the object.
pub(crate) struct Member<'a> {
    pub(crate) ident: &'a Ident,
    /// The name on the wire.
    pub(crate) name: String,
    pub(crate) shape: Shape<'a>,
    /// The value after `new`, instead of a parameter or `None`.
    pub(crate) default: Option<Expr>,
    pub(crate) range: Range,
}

/// The kind of a member. It follows from the type of the field, unless the field is `required`.
pub(crate) enum Shape<'a> {
    /// A value that is always present on the wire.
    Required(&'a Type),
    /// `Option<T>`: omitted if it is `None`; `null` is decoded as `None`.
    Optional(&'a Type),
    /// `Option<RawJson>`: any JSON, including `null`.
    Any(&'a Type),
}

/// The revisions that define a member, as the names of `ProtocolVersion` variants.
#[derive(Default)]
pub(crate) struct Range {
    pub(crate) since: Option<Ident>,
    pub(crate) until: Option<Ident>,
}

/// A field of the struct: a member, or the field for unknown members.
pub(crate) enum ParsedField<'a> {
    Member(Box<Member<'a>>),
    Unknown(&'a Ident),
}

impl<'a> ParsedField<'a> {
    pub(crate) fn parse(field: &'a Field) -> Result<Self> {
        let ident = field.ident.as_ref().ok_or_else(|| Error::new(field.span(), "a field needs a name"))?;
        let mut member = Member {
            ident,
            name: camel_case(&ident.unraw().to_string()),
            shape: Shape::of(&field.ty),
            default: None,
            range: Range::default(),
        };
        let mut unknown = false;
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("object")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("rename") {
                    member.name = meta.value()?.parse::<LitStr>()?.value();
                } else if meta.path.is_ident("default") {
                    member.default = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("since") {
                    member.range.since = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("until") {
                    member.range.until = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("only") {
                    let version: Ident = meta.value()?.parse()?;
                    member.range = Range { since: Some(version.clone()), until: Some(version) };
                } else if meta.path.is_ident("required") {
                    member.shape = Shape::Required(&field.ty);
                } else if meta.path.is_ident("unknown") {
                    unknown = true;
                } else {
                    return Err(meta.error("expected rename, default, since, until, only, required or unknown"));
                }
                Ok(())
            })?;
        }
        if unknown {
            return Ok(Self::Unknown(ident));
        }
        member.check(field.span())?;
        Ok(Self::Member(Box::new(member)))
    }
}

impl Member<'_> {
    fn check(&self, span: Span) -> Result<()> {
        if self.has_range() && matches!(self.shape, Shape::Required(_)) {
            return Err(Error::new(span, "a member that not every revision defines must be an Option"));
        }
        Ok(())
    }

    /// Returns `true` if not every revision defines the member.
    pub(crate) fn has_range(&self) -> bool {
        self.range.since.is_some() || self.range.until.is_some()
    }

    /// Returns `true` if `new` takes the field.
    pub(crate) fn is_parameter(&self) -> bool {
        matches!(self.shape, Shape::Required(_)) && self.default.is_none()
    }
}

impl<'a> Shape<'a> {
    fn of(ty: &'a Type) -> Self {
        match option_of(ty) {
            Some(inner) if last_segment(inner).is_some_and(|ident| ident == "RawJson") => Self::Any(inner),
            Some(inner) => Self::Optional(inner),
            None => Self::Required(ty),
        }
    }
}

fn option_of(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    }
}

fn last_segment(ty: &Type) -> Option<&Ident> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|last| &last.ident)
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        name.push_str(&initial.to_uppercase());
        name.push_str(rest);
        name
    })
}
