use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::args::{BEARER, ServerOptions};
use crate::error::{Done, Exit, Failure};

/// The headers that a configuration gives, with those that were typed in their place.
pub(super) fn merged(headers: HeaderMap, options: &ServerOptions) -> Done<HeaderMap> {
    merged_beside(headers, options, std::env::var(BEARER).ok().as_deref())
}

/// A token of the environment is for servers about which nothing else is said.
fn merged_beside(mut headers: HeaderMap, options: &ServerOptions, environment: Option<&str>) -> Done<HeaderMap> {
    for header in &options.header {
        let (name, value) = parse(header)?;
        headers.insert(name, value);
    }
    let is_typed = |token: &&String| environment != Some(token.as_str());
    if let Some(token) = options.bearer.as_ref().filter(|token| is_typed(token) || !headers.contains_key(AUTHORIZATION))
    {
        let token = match token.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| Failure::new(Exit::Failure, format!("--bearer: cannot read {file:?}: {error}")))?,
            None => token.clone(),
        };
        let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
        let mut value = value.map_err(|_| Failure::usage("--bearer: has characters that a header cannot carry"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// No value is repeated in an error: it may be a secret.
fn parse(header: &str) -> Done<(HeaderName, HeaderValue)> {
    let Some((name, value)) = header.split_once(':') else {
        return Err(Failure::usage("--header: a header is written \"NAME: VALUE\""));
    };
    let name: HeaderName = name
        .trim()
        .parse()
        .map_err(|_| Failure::usage(format!("--header: {:?} cannot be the name of a header", name.trim())))?;
    let value = HeaderValue::from_str(value.trim());
    let mut value =
        value.map_err(|_| Failure::usage(format!("--header: {name} has characters that a header cannot carry")))?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_names_and_values() {
        let (name, value) = parse("X-Key:  a: b ").unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("x-key", "a: b"));
        assert!(value.is_sensitive());
        assert!(parse("no colon").is_err() && parse("a b: c").is_err() && parse("a: \n").unwrap().1.is_empty());
    }

    #[test]
    fn a_token_takes_the_place_of_what_a_configuration_says() {
        let mut configured = HeaderMap::new();
        configured.insert(AUTHORIZATION, HeaderValue::from_static("Basic old"));
        let options = ServerOptions { bearer: Some("new".into()), ..ServerOptions::default() };
        assert_eq!(merged_beside(configured.clone(), &options, None).unwrap()[AUTHORIZATION], "Bearer new");
        // One of the environment does not, nor of what was typed.
        assert_eq!(merged_beside(configured, &options, Some("new")).unwrap()[AUTHORIZATION], "Basic old");
        let options = ServerOptions { header: vec!["Authorization: Basic typed".into()], ..options };
        assert_eq!(merged_beside(HeaderMap::new(), &options, Some("new")).unwrap()[AUTHORIZATION], "Basic typed");
        let options = ServerOptions { header: Vec::new(), ..options };
        assert_eq!(merged_beside(HeaderMap::new(), &options, Some("new")).unwrap()[AUTHORIZATION], "Bearer new");
    }
}
