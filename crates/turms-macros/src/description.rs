//! Extraction of descriptions from doc comments.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns the text of the doc comments, without the common indentation.
pub(crate) fn of(attributes: &[Attribute]) -> Option<String> {
    let texts: Vec<String> = attributes.iter().filter_map(text).collect();
    let lines = texts.iter().flat_map(|text| lines(text)).collect();
    let text = unindented(lines).join("\n");
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub(crate) fn is_doc(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
}

fn text(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if is_doc(attribute) => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the lines of one comment. In a block comment, the lines may begin with a star, and the first line, after
/// `/**`, has its own indentation.
fn lines(text: &str) -> Vec<&str> {
    let Some((first, rest)) = text.split_once('\n') else {
        return vec![text];
    };
    let mut rest: Vec<&str> = rest.lines().collect();
    if rest.iter().all(|line| line.trim().is_empty() || line.trim_start().starts_with('*')) {
        rest.iter_mut().for_each(|line| *line = line.trim_start().trim_start_matches('*'));
    }
    [vec![first.trim_start()], unindented(rest)].concat()
}

fn unindented(lines: Vec<&str>) -> Vec<&str> {
    let written = lines.iter().filter(|line| !line.trim().is_empty());
    let indent = written.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    lines.into_iter().map(|line| line.get(indent..).unwrap_or("").trim_end()).collect()
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn description(item: &syn::ItemFn) -> Option<String> {
        of(&item.attrs)
    }

    #[test]
    fn lines_are_joined_as_written() {
        let text = description(&parse_quote! {
            /// Adds.
            ///
            ///     indented
            /// Then returns.
            #[inline]
            fn add() {}
        });
        assert_eq!(text.unwrap(), "Adds.\n\n    indented\nThen returns.");
    }

    #[test]
    fn block_comments_lose_their_stars() {
        let text = description(&parse_quote! {
            /** Adds.
             *
             * And returns.
             */
            fn add() {}
        });
        assert_eq!(text.unwrap(), "Adds.\n\nAnd returns.");
        let text = description(&parse_quote!(
            /** Adds. */
            fn add() {}
        ));
        assert_eq!(text.unwrap(), "Adds.");
    }

    #[test]
    fn no_comment_is_no_description() {
        assert_eq!(
            description(&parse_quote!(
                fn add() {}
            )),
            None
        );
        assert_eq!(
            description(&parse_quote!(
                #[doc(hidden)]
                fn add() {}
            )),
            None
        );
        assert_eq!(
            description(&parse_quote!(
                #[doc = ""]
                fn add() {}
            )),
            None
        );
    }
}
