//! Variables of a URI template.

use syn::{Error, LitStr, Result};

/// A URI or URI template, with the names of its variables.
pub(crate) struct Template {
    pub(crate) uri: LitStr,
    pub(crate) variables: Vec<String>,
}

impl Template {
    /// Extracts the variables. Other errors are reported when the server is built.
    pub(crate) fn parse(uri: &LitStr) -> Result<Self> {
        let variables = variables(&uri.value()).map_err(|problem| {
            let problem = format!("not a URI template of RFC 6570: {problem}");
            Error::new(uri.span(), problem)
        })?;
        Ok(Self { uri: uri.clone(), variables })
    }
}

fn variables(uri: &str) -> std::result::Result<Vec<String>, String> {
    let mut found: Vec<String> = Vec::new();
    let mut rest = uri;
    while let Some((literal, after)) = rest.split_once('{') {
        check_no_stray_brace(literal)?;
        let (expression, after) = after.split_once('}').ok_or("unmatched `{`")?;
        for name in expression.trim_start_matches(OPERATORS).split(',') {
            let name = variable(name).ok_or_else(|| format!("`{{{expression}}}` does not name a variable"))?;
            if found.iter().any(|earlier| earlier == name) {
                return Err(format!("the variable `{name}` appears twice"));
            }
            found.push(name.to_owned());
        }
        rest = after;
    }
    check_no_stray_brace(rest)?;
    Ok(found)
}

/// Operators of expressions.
const OPERATORS: [char; 7] = ['+', '#', '.', '/', ';', '?', '&'];

/// Returns the name of a variable, without a modifier such as `*` or `:3`; `None` if the name is invalid.
fn variable(text: &str) -> Option<&str> {
    let name = text.strip_suffix('*').unwrap_or(text);
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '%');
    (!name.is_empty() && name.chars().all(is_part)).then_some(name)
}

fn check_no_stray_brace(literal: &str) -> std::result::Result<(), String> {
    match literal.contains('}') {
        true => Err("unmatched `}`".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_every_kind_of_expression_are_found() {
        let uri = "files://{host}/{+path}{/more*}{?q,limit:3}{&page}{#part}";
        let names = ["host", "path", "more", "q", "limit", "page", "part"];
        assert_eq!(variables(uri).unwrap(), names);
        assert_eq!(variables("config://app").unwrap(), [""; 0]);
    }

    #[test]
    fn errors_name_the_problem() {
        assert_eq!(variables("a://{id").unwrap_err(), "unmatched `{`");
        assert_eq!(variables("a://id}").unwrap_err(), "unmatched `}`");
        assert_eq!(variables("a://{}").unwrap_err(), "`{}` does not name a variable");
        assert_eq!(variables("a://{=id}").unwrap_err(), "`{=id}` does not name a variable");
        assert_eq!(variables("a://{id}/{id}").unwrap_err(), "the variable `id` appears twice");
    }
}
