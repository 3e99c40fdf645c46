use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::authorization::read_secret;
use crate::args::{BEARER, ServerOptions};
use crate::error::{CliError, CliResult};

/// Merges the headers of a configuration with those of the options, which take precedence.
pub(super) fn merge(headers: HeaderMap, options: &ServerOptions) -> CliResult<HeaderMap> {
    merge_with_token(headers, options, std::env::var(BEARER).ok().as_deref())
}

/// Merges headers. A token from the environment is only used if there is no other `Authorization` and no option with a client.
fn merge_with_token(
    mut headers: HeaderMap,
    options: &ServerOptions,
    environment: Option<&str>,
) -> CliResult<HeaderMap> {
    for header in &options.header {
        let (name, value) = parse(header)?;
        headers.insert(name, value);
    }
    let is_option = |token: &&String| environment != Some(token.as_str());
    let has_others = headers.contains_key(AUTHORIZATION) || options.client.is_typed();
    if let Some(token) = options.bearer.as_ref().filter(|token| is_option(token) || !has_others) {
        let token = read_secret("--bearer", token)?;
        let value = HeaderValue::from_str(&format!("Bearer {}", token.expose().trim()));
        let mut value =
            value.map_err(|_| CliError::usage("--bearer: contains characters that are invalid in a header"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// Parses a header. Errors do not repeat the value, which may be a secret.
fn parse(header: &str) -> CliResult<(HeaderName, HeaderValue)> {
    let Some((name, value)) = header.split_once(':') else {
        return Err(CliError::usage("--header: expected \"NAME: VALUE\""));
    };
    let name: HeaderName = name
        .trim()
        .parse()
        .map_err(|_| CliError::usage(format!("--header: {:?} is not a valid header name", name.trim())))?;
    let value = HeaderValue::from_str(value.trim());
    let mut value = value.map_err(|_| {
        CliError::usage(format!("--header: the value of {name} contains characters that are invalid in a header"))
    })?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_a_name_and_a_value() {
        let (name, value) = parse("X-Key:  a: b ").unwrap();
        assert_eq!((name.as_str(), value.to_str().unwrap()), ("x-key", "a: b"));
        assert!(value.is_sensitive());
        assert!(parse("no colon").is_err() && parse("a b: c").is_err() && parse("a: \n").unwrap().1.is_empty());
    }

    #[test]
    fn a_token_replaces_the_credentials_of_a_configuration() {
        let mut configured = HeaderMap::new();
        configured.insert(AUTHORIZATION, HeaderValue::from_static("Basic old"));
        let options = ServerOptions { bearer: Some("new".into()), ..ServerOptions::default() };
        assert_eq!(merge_with_token(configured.clone(), &options, None).unwrap()[AUTHORIZATION], "Bearer new");
        // A token from the environment replaces neither those nor a header option.
        assert_eq!(merge_with_token(configured, &options, Some("new")).unwrap()[AUTHORIZATION], "Basic old");
        let options = ServerOptions { header: vec!["Authorization: Basic typed".into()], ..options };
        assert_eq!(merge_with_token(HeaderMap::new(), &options, Some("new")).unwrap()[AUTHORIZATION], "Basic typed");
        let options = ServerOptions { header: Vec::new(), ..options };
        assert_eq!(merge_with_token(HeaderMap::new(), &options, Some("new")).unwrap()[AUTHORIZATION], "Bearer new");
    }
}
