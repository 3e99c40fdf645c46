//! The parts of a request that a guard looks at, and the token in them.

use http::header::{AUTHORIZATION, HeaderName};
use turms_http::GuardRequest;

use super::rejection::Refusal;

/// The header of proofs of possession.
static DPOP: HeaderName = HeaderName::from_static("dpop");

/// The scheme of `Authorization`, and of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Bearer,
    Dpop,
}

impl Scheme {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }
}

/// The credentials of a request, whose syntax is not yet checked.
#[derive(Clone, Copy)]
pub(super) struct Credentials<'a> {
    pub(super) scheme: Scheme,
    pub(super) token: &'a [u8],
}

/// The credentials of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct PresentedToken<'a> {
    pub(super) scheme: Scheme,
    pub(super) token: &'a str,
}

impl<'a> Credentials<'a> {
    /// Finds the token: in the only `Authorization` header, and not in the query.
    pub(super) fn find(request: &'a GuardRequest<'_>, max_bytes: usize) -> Result<Self, Refusal> {
        if request.query().is_some_and(has_token) {
            return Err(Refusal::Malformed(
                "a token in the query is not accepted; send it in the Authorization header",
            ));
        }
        let mut values = request.header_values(&AUTHORIZATION);
        let value = values.next().ok_or(Refusal::Missing)?;
        if values.next().is_some() {
            return Err(Refusal::Malformed("there is more than one Authorization header"));
        }
        let (name, token) = match value.iter().position(|byte| *byte == b' ') {
            Some(at) => (&value[..at], value[at..].trim_ascii()),
            None => (value, &b""[..]),
        };
        let scheme = match name {
            name if name.eq_ignore_ascii_case(b"Bearer") => Scheme::Bearer,
            name if name.eq_ignore_ascii_case(b"DPoP") => Scheme::Dpop,
            _ => return Err(Refusal::Missing),
        };
        if token.len() > max_bytes {
            return Err(Refusal::Malformed("the token is too long"));
        }
        Ok(Self { scheme, token })
    }

    /// Checks the syntax of the token.
    pub(super) fn check(self) -> Result<PresentedToken<'a>, Refusal> {
        match str::from_utf8(self.token) {
            Ok(token) if is_token(token) => Ok(PresentedToken { scheme: self.scheme, token }),
            _ => Err(Refusal::Malformed("the Authorization header is malformed")),
        }
    }
}

impl<'a> PresentedToken<'a> {
    /// Finds the token, and checks its syntax.
    pub(super) fn find(request: &'a GuardRequest<'_>, max_bytes: usize) -> Result<Self, Refusal> {
        Credentials::find(request, max_bytes)?.check()
    }
}

/// Returns the only proof of possession.
pub(super) fn proof<'a>(request: &'a GuardRequest<'_>) -> Result<&'a str, Refusal> {
    let mut values = request.header_values(&DPOP);
    let value = values.next().ok_or(Refusal::Proof("there is no DPoP header"))?;
    if values.next().is_some() {
        return Err(Refusal::Proof("there is more than one DPoP header"));
    }
    str::from_utf8(value.trim_ascii()).map_err(|_| Refusal::Proof("the DPoP header is malformed"))
}

/// Returns `true` if a query has a token (RFC 6750, 2.3).
fn has_token(query: &str) -> bool {
    url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token")
}

/// Returns `true` if a text has the form of a token (`b64token` of RFC 6750, 2.1).
fn is_token(text: &str) -> bool {
    let token = text.trim_end_matches('=');
    !token.is_empty()
        && token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/'))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn find(request: http::request::Builder) -> Result<(Scheme, String), &'static str> {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        match PresentedToken::find(&GuardRequest::new(&parts), 100) {
            Ok(found) => Ok((found.scheme, found.token.to_owned())),
            Err(Refusal::Missing) => Err("missing"),
            Err(Refusal::Malformed(_)) => Err("malformed"),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_token_is_in_the_only_authorization_header() {
        let with = |value: &str| find(Request::get("/").header("authorization", value));
        assert_eq!(with("Bearer abc.def-_~+/=="), Ok((Scheme::Bearer, "abc.def-_~+/==".to_owned())));
        assert_eq!(with("bEARER   abc "), Ok((Scheme::Bearer, "abc".to_owned())));
        assert_eq!(with("dpop abc"), Ok((Scheme::Dpop, "abc".to_owned())));
        assert_eq!(with(&format!("Bearer {}", "a".repeat(100))), Ok((Scheme::Bearer, "a".repeat(100))));
        assert_eq!(find(Request::get("/")), Err("missing"));
        for other in ["Basic abc", "Bearerabc", "", "Digest realm=x"] {
            assert_eq!(with(other), Err("missing"), "{other:?}");
        }
        for wrong in
            ["Bearer", "Bearer ", "Bearer a b", "Bearer a,b", "Bearer \"a\"", "Bearer ==", "Bearer a=b", "Bearer ä"]
        {
            assert_eq!(with(wrong), Err("malformed"), "{wrong:?}");
        }
        assert_eq!(with(&format!("Bearer {}", "a".repeat(101))), Err("malformed"));
        let two = Request::get("/").header("authorization", "Bearer a").header("authorization", "Bearer a");
        assert_eq!(find(two), Err("malformed"));
    }

    #[test]
    fn a_token_in_the_query_is_refused() {
        for query in
            ["access_token=a", "x=1&access_token", "access%5Ftoken=a", "%61ccess_token=a", "a=b&%61%63cess_token=1"]
        {
            let request = Request::get(format!("/?{query}"));
            assert_eq!(find(request), Err("malformed"), "{query}");
            let request = Request::get(format!("/?{query}")).header("authorization", "Bearer a");
            assert_eq!(find(request), Err("malformed"), "{query}");
        }
        for query in ["x=access_token", "access_tokens=1", "a%20b=1"] {
            assert_eq!(find(Request::get(format!("/?{query}"))), Err("missing"), "{query}");
        }
    }
}
