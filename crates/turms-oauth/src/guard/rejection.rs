//! Reasons to refuse a request, and the responses to it.

use std::fmt::Write as _;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use turms_http::GuardRejection;

use super::DpopPolicy;
use super::request::Scheme;
use crate::jws::Algorithm;

const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Reason to refuse a request. It determines the status and the challenge of the response.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Refusal {
    /// There is no token.
    Missing,
    /// The request is malformed.
    Malformed(&'static str),
    /// The token is invalid.
    Invalid(&'static str),
    /// The token is bound to a key, and was sent without a proof.
    Unproven,
    /// The proof of possession is invalid.
    Proof(&'static str),
    /// The proof has no nonce, or an old one.
    Nonce(HeaderValue),
    /// The token does not have the scopes that every request needs.
    Scope,
    /// The token cannot be checked at the moment.
    Unavailable(Duration),
}

/// The responses to refused requests, with their challenges (`WWW-Authenticate`; RFC 6750, 3 and RFC 9449, 7.1).
pub(super) struct Challenges {
    pub(super) policy: DpopPolicy,
    /// URL of the protected-resource metadata.
    pub(super) metadata_url: String,
    /// Scopes that every request needs.
    pub(super) required: Vec<String>,
    /// Prefix of scopes in challenges.
    pub(super) scope_prefix: String,
}

/// Returns scopes as clients ask for them. Scopes of OpenID Connect have no prefix.
pub(super) fn published(prefix: &str, scopes: &[String]) -> Vec<String> {
    const OPENID: [&str; 6] = ["openid", "profile", "email", "address", "phone", "offline_access"];
    let published = |scope: &String| {
        let has_prefix = scope.starts_with(prefix) || OPENID.contains(&&**scope);
        if has_prefix { scope.clone() } else { format!("{prefix}{scope}") }
    };
    scopes.iter().map(published).collect()
}

impl Challenges {
    /// Returns the response to a refused request. `scheme` is that of its token, which the challenge repeats if the policy allows it.
    pub(super) fn reject(&self, refusal: Refusal, scheme: Option<Scheme>) -> GuardRejection {
        let scheme = match refusal {
            Refusal::Unproven => Scheme::Dpop,
            _ => scheme.filter(|_| self.policy != DpopPolicy::Required).unwrap_or_else(|| self.default_scheme()),
        };
        let challenged = |status, error, message: &'static str| {
            let challenge = self.challenge(scheme, error, message, &self.required);
            GuardRejection::new(status, message).header(WWW_AUTHENTICATE, challenge)
        };
        const INVALID_TOKEN: &str = "invalid_token";
        match refusal {
            Refusal::Missing => {
                let challenge = self.challenge(scheme, "", "", &self.required);
                GuardRejection::new(StatusCode::UNAUTHORIZED, "a token is required").header(WWW_AUTHENTICATE, challenge)
            }
            Refusal::Malformed(reason) => challenged(StatusCode::BAD_REQUEST, "invalid_request", reason),
            Refusal::Invalid(reason) => challenged(StatusCode::UNAUTHORIZED, INVALID_TOKEN, reason),
            Refusal::Unproven => challenged(
                StatusCode::UNAUTHORIZED,
                INVALID_TOKEN,
                "the token is bound to a key; send it with the scheme DPoP and a proof",
            ),
            Refusal::Proof(reason) => challenged(StatusCode::UNAUTHORIZED, "invalid_dpop_proof", reason),
            Refusal::Nonce(nonce) => {
                challenged(StatusCode::UNAUTHORIZED, "use_dpop_nonce", "the proof needs the nonce of this response")
                    .header(DPOP_NONCE, nonce)
            }
            Refusal::Scope => {
                challenged(StatusCode::FORBIDDEN, "insufficient_scope", "the token does not have the required scopes")
            }
            Refusal::Unavailable(wait) => {
                let seconds = HeaderValue::from(wait.as_secs_f64().ceil().max(1.0) as u64);
                GuardRejection::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the token cannot be checked at the moment; try again later",
                )
                .header(RETRY_AFTER, seconds)
            }
        }
    }

    /// Returns the scheme for requests without a token.
    pub(super) fn default_scheme(&self) -> Scheme {
        match self.policy {
            DpopPolicy::Optional => Scheme::Bearer,
            DpopPolicy::Required => Scheme::Dpop,
        }
    }

    /// Returns the challenge for an operation that needs more scopes.
    pub(super) fn insufficient_scope(&self, scheme: Scheme, scopes: &[String]) -> HeaderValue {
        let mut all = self.required.clone();
        all.extend(scopes.iter().filter(|scope| !self.required.contains(scope)).cloned());
        self.challenge(scheme, "insufficient_scope", "", &all)
    }

    /// Writes a challenge. Parameters without a value are left out.
    fn challenge(&self, scheme: Scheme, error: &str, description: &str, scopes: &[String]) -> HeaderValue {
        let algorithms = match scheme {
            Scheme::Bearer => String::new(),
            Scheme::Dpop => Algorithm::ALL.map(Algorithm::as_str).join(" "),
        };
        let parameters = [
            ("error", error),
            ("error_description", description),
            ("scope", &published(&self.scope_prefix, scopes).join(" ")),
            ("algs", &algorithms),
            ("resource_metadata", &self.metadata_url),
        ];
        let mut challenge = scheme.as_str().to_owned();
        for (index, (name, value)) in parameters.iter().filter(|(_, value)| !value.is_empty()).enumerate() {
            let separator = if index == 0 { "" } else { "," };
            // Writing to a text does not fail.
            let _ = write!(challenge, "{separator} {name}=\"");
            for letter in value.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ') {
                if matches!(letter, '"' | '\\') {
                    challenge.push('\\');
                }
                challenge.push(letter);
            }
            challenge.push('"');
        }
        HeaderValue::try_from(challenge).unwrap_or_else(|_| HeaderValue::from_static(scheme.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenges(policy: DpopPolicy) -> Challenges {
        let metadata_url = "https://h/.well-known/oauth-protected-resource/mcp".to_owned();
        Challenges { policy, metadata_url, required: vec!["a".to_owned(), "b".to_owned()], scope_prefix: String::new() }
    }

    fn shown(rejection: &GuardRejection) -> (u16, &str) {
        let challenge = rejection.headers.get(WWW_AUTHENTICATE).map_or("", |value| value.to_str().unwrap());
        (rejection.status.as_u16(), challenge)
    }

    const METADATA: &str = r#"resource_metadata="https://h/.well-known/oauth-protected-resource/mcp""#;

    #[test]
    fn rejections_have_the_status_and_the_challenge_of_the_rfcs() {
        let own = challenges(DpopPolicy::Optional);
        let missing = own.reject(Refusal::Missing, None);
        assert_eq!(shown(&missing), (401, &*format!(r#"Bearer scope="a b", {METADATA}"#)));
        let malformed = own.reject(Refusal::Malformed("why"), None);
        let expected = format!(r#"Bearer error="invalid_request", error_description="why", scope="a b", {METADATA}"#);
        assert_eq!(shown(&malformed), (400, &*expected));
        let invalid = own.reject(Refusal::Invalid("why"), Some(Scheme::Bearer));
        let expected = format!(r#"Bearer error="invalid_token", error_description="why", scope="a b", {METADATA}"#);
        assert_eq!(shown(&invalid), (401, &*expected));
        let (status, challenge) = shown_owned(&own.reject(Refusal::Invalid("why"), Some(Scheme::Dpop)));
        assert!(status == 401 && challenge.starts_with("DPoP error=\"invalid_token\""), "{challenge}");
        assert!(challenge.contains(r#"algs="ES256 EdDSA"#), "{challenge}");
        let (status, challenge) = shown_owned(&own.reject(Refusal::Unproven, Some(Scheme::Bearer)));
        assert!(status == 401 && challenge.starts_with("DPoP error=\"invalid_token\""), "{challenge}");
        let (status, challenge) = shown_owned(&own.reject(Refusal::Proof("why"), Some(Scheme::Dpop)));
        assert!(status == 401 && challenge.starts_with("DPoP error=\"invalid_dpop_proof\""), "{challenge}");
        let nonce = own.reject(Refusal::Nonce(HeaderValue::from_static("n1")), Some(Scheme::Dpop));
        let (status, challenge) = shown(&nonce);
        assert!(status == 401 && challenge.starts_with("DPoP error=\"use_dpop_nonce\""), "{challenge}");
        assert_eq!(nonce.headers["dpop-nonce"], "n1");
        let (status, challenge) = shown_owned(&own.reject(Refusal::Scope, Some(Scheme::Bearer)));
        assert!(status == 403 && challenge.starts_with("Bearer error=\"insufficient_scope\""), "{challenge}");
        let down = own.reject(Refusal::Unavailable(Duration::from_millis(2500)), None);
        assert_eq!((shown(&down), &down.headers["retry-after"]), ((503, ""), &HeaderValue::from_static("3")));
    }

    fn shown_owned(rejection: &GuardRejection) -> (u16, String) {
        let (status, challenge) = shown(rejection);
        (status, challenge.to_owned())
    }

    #[test]
    fn a_guard_that_requires_proofs_asks_for_the_scheme_dpop() {
        let own = challenges(DpopPolicy::Required);
        for (refusal, scheme) in [(Refusal::Missing, None), (Refusal::Invalid("why"), Some(Scheme::Bearer))] {
            let (_, challenge) = shown_owned(&own.reject(refusal, scheme));
            assert!(challenge.starts_with("DPoP "), "{challenge}");
        }
    }

    #[test]
    fn a_step_up_names_all_scopes_of_the_operation() {
        let own = challenges(DpopPolicy::Optional);
        let scopes = ["b".to_owned(), "c".to_owned(), "x\"y\\z\r\n".to_owned()];
        let expected = format!(r#"Bearer error="insufficient_scope", scope="a b c x\"y\\z", {METADATA}"#);
        assert_eq!(own.insufficient_scope(Scheme::Bearer, &scopes), expected);
    }
}
