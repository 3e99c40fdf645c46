//! Parsing of the struct that declares an object type.

use syn::{Data, DeriveInput, Error, Fields, Ident, LitStr, Result, Token};

use crate::field::{Member, ParsedField};

/// A struct with `#[derive(ProtocolObject)]`.
pub(crate) struct ObjectType<'a> {
    pub(crate) ident: &'a Ident,
    /// Name and value of the member with a constant value.
    pub(crate) tag: Option<(LitStr, LitStr)>,
    /// `true` if `Translate` is implemented by hand.
    pub(crate) custom_translate: bool,
    pub(crate) members: Vec<Member<'a>>,
    /// The field for unknown members.
    pub(crate) unknown: &'a Ident,
}

impl<'a> ObjectType<'a> {
    pub(crate) fn parse(input: &'a DeriveInput) -> Result<Self> {
        let Data::Struct(data) = &input.data else {
            return Err(Error::new(input.ident.span(), "only a struct can be an object"));
        };
        let Fields::Named(fields) = &data.fields else {
            return Err(Error::new(input.ident.span(), "an object needs fields with names"));
        };
        let (mut members, mut unknown) = (Vec::new(), None);
        for field in &fields.named {
            match ParsedField::parse(field)? {
                ParsedField::Member(member) => members.push(*member),
                ParsedField::Unknown(ident) => unknown = Some(ident),
            }
        }
        let missing = || Error::new(input.ident.span(), "an object needs a field with #[object(unknown)]");
        let unknown = unknown.ok_or_else(missing)?;
        let mut object = Self { ident: &input.ident, tag: None, custom_translate: false, members, unknown };
        object.parse_attributes(input)?;
        Ok(object)
    }

    fn parse_attributes(&mut self, input: &DeriveInput) -> Result<()> {
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("object")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("tag") {
                    let content;
                    syn::parenthesized!(content in meta.input);
                    let name = content.parse()?;
                    content.parse::<Token![,]>()?;
                    self.tag = Some((name, content.parse()?));
                } else if meta.path.is_ident("custom_translate") {
                    self.custom_translate = true;
                } else {
                    return Err(meta.error("expected tag or custom_translate"));
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn problem(input: &DeriveInput) -> String {
        ObjectType::parse(input).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn wire_names_are_camel_case_by_default() {
        let input: DeriveInput = parse_quote! {
            struct Page {
                next_cursor: Option<Cursor>,
                r#type: String,
                #[object(rename = "_meta")]
                meta: Option<Meta>,
                #[object(unknown)]
                extra: Object,
            }
        };
        let object = ObjectType::parse(&input).unwrap();
        let names: Vec<_> = object.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["nextCursor", "type", "_meta"]);
    }

    #[test]
    fn a_misspelt_attribute_is_an_error() {
        let input = parse_quote! { struct Page { #[object(sinse = V2025_06_18)] title: Option<String> } };
        assert!(problem(&input).starts_with("expected rename, default, since"), "{}", problem(&input));
        let input = parse_quote! { #[object(tags("a", "b"))] struct Page { #[object(unknown)] extra: Object } };
        assert_eq!(problem(&input), "expected tag or custom_translate");
    }

    #[test]
    fn a_member_with_a_range_must_be_optional() {
        let input = parse_quote! { struct Page { #[object(since = V2025_06_18)] title: String } };
        assert_eq!(problem(&input), "a member that not every revision defines must be an Option");
    }

    /// A misspelt revision is an error of the compiler: the variant does not exist.
    #[test]
    fn a_range_expands_to_version_variants() {
        let input = parse_quote! {
            struct Page {
                #[object(since = V2025_06_81)]
                title: Option<String>,
                #[object(unknown)]
                extra: Object,
            }
        };
        let code = crate::expand::expand(&ObjectType::parse(&input).unwrap()).to_string().replace(' ', "");
        assert!(code.contains("VersionRange::since(crate::ProtocolVersion::V2025_06_81)"), "{code}");
    }

    #[test]
    fn an_object_needs_a_field_for_unknown_members() {
        let input = parse_quote! { struct Page { title: String } };
        assert_eq!(problem(&input), "an object needs a field with #[object(unknown)]");
    }
}
