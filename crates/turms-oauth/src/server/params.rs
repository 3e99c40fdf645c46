//! Parameters of a query or a form.

use url::form_urlencoded;

use super::refusal::Refusal;

/// Maximum number of parameters of one request.
const MAX_PARAMS: usize = 64;

/// Parameters of a query or a form. Empty ones count as absent (RFC 6749, 3.1).
#[derive(Clone, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Decodes parameters. Only `resource` and `audience` may be repeated (RFC 8707, 2 and RFC 8693, 2.1).
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let mut params: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if value.is_empty() {
                continue;
            }
            if params.len() == MAX_PARAMS {
                return Err(Refusal::invalid_request("too many parameters"));
            }
            let may_repeat = name == "resource" || name == "audience";
            if !may_repeat && params.iter().any(|(other, _)| *other == name) {
                return Err(Refusal::invalid_request("a parameter appears twice"));
            }
            params.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(params))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.get(name).ok_or_else(|| Refusal::invalid_request(format!("the parameter {name} is missing")))
    }
}

/// Splits scopes at spaces, without repetitions.
pub(crate) fn split_scopes(scope: &str) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for scope in scope.split(' ').filter(|scope| !scope.is_empty()) {
        if !scopes.iter().any(|own| own == scope) {
            scopes.push(scope.to_owned());
        }
    }
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_resource_and_audience_may_be_repeated() {
        let params = Params::parse("resource=a&resource=b&scope=x+y&state=").unwrap_or_default();
        assert_eq!(params.all("resource").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((params.get("scope"), params.get("state")), (Some("x y"), None));
        assert!(Params::parse("state=a&state=b").is_err());
        assert!(Params::parse(&"resource=a&".repeat(65)).is_err());
    }
}
