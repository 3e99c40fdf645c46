//! The checks of claims, which are the same for signed tokens, introspection and custom verifiers.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use turms_core::Principal;

use super::clock::system_time;

/// Settings that claims are checked by.
pub(super) struct ClaimRules {
    /// The resource and other values that `aud` may have.
    pub(super) audiences: Vec<String>,
    /// Tolerated difference of clocks, in seconds.
    pub(super) leeway: f64,
    /// Scopes that every request needs.
    pub(super) required: Vec<String>,
    /// Scopes that a scope includes.
    pub(super) implied: HashMap<String, Vec<String>>,
}

/// A token whose claims are valid. Its signature, if it has one, and the proof of possession are checked separately.
#[derive(Debug, Clone)]
pub(super) struct VerifiedToken {
    pub(super) principal: Principal,
    /// Thumbprint of the key that it is bound to.
    pub(super) jkt: Option<String>,
    /// Time at which it becomes invalid, with the leeway.
    pub(super) until: f64,
    /// `true` if it has the scopes that every request needs.
    pub(super) has_required_scopes: bool,
}

impl ClaimRules {
    /// Checks the claims of a token. `iss` is the only identifier that the token may have.
    pub(super) fn check(
        &self,
        claims: Map<String, Value>,
        iss: Option<&str>,
        now: f64,
    ) -> Result<VerifiedToken, &'static str> {
        if let Some(value) = claims.get("iss")
            && (value.as_str().is_none() || value.as_str() != iss)
        {
            return Err("the token is from another issuer");
        }
        if !self.is_audience(claims.get("aud")) {
            return Err("the token is not for this server");
        }
        let exp = time(&claims, "exp")?.ok_or("the token has no expiry")?;
        let until = exp + self.leeway;
        if until <= now {
            return Err("the token has expired");
        }
        for name in ["nbf", "iat"] {
            if time(&claims, name)?.is_some_and(|time| time > now + self.leeway) {
                return Err("the token is not yet valid");
            }
        }
        check_kind(&claims)?;
        let jkt = binding(&claims)?;
        let client_id = client_id(&claims)?;
        let subject = match text(&claims, "sub")? {
            Some(subject) => subject,
            None => text(&claims, "client_id")?.ok_or("the token has no subject")?,
        };
        if subject.is_empty() {
            return Err("the token has no subject");
        }
        let scopes = self.with_implied(scopes(&claims)?);
        let has_required_scopes = self.required.iter().all(|required| scopes.contains(required));
        let mut principal = Principal::new(subject).with_scopes(scopes).with_expires_at(system_time(exp));
        if let Some(client_id) = client_id {
            principal = principal.with_client_id(client_id);
        }
        if let Some(iss) = iss {
            principal = principal.with_issuer(iss);
        }
        Ok(VerifiedToken { principal: principal.with_claims(claims), jkt, until, has_required_scopes })
    }

    /// Returns `true` if `aud` is one of ours, or a list of texts with one of ours.
    fn is_audience(&self, aud: Option<&Value>) -> bool {
        let is_ours = |value: &str| self.audiences.iter().any(|own| own == value);
        match aud {
            Some(Value::String(value)) => is_ours(value),
            Some(Value::Array(values)) => {
                values.iter().all(Value::is_string) && values.iter().filter_map(Value::as_str).any(is_ours)
            }
            _ => false,
        }
    }

    /// Adds the scopes that the granted ones include, directly or indirectly.
    fn with_implied(&self, mut scopes: Vec<String>) -> Vec<String> {
        let mut seen: HashSet<String> = HashSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        let mut at = 0;
        while let Some(scope) = scopes.get(at) {
            let implied = self.implied.get(scope).into_iter().flatten();
            let new: Vec<String> = implied.filter(|scope| seen.insert((*scope).clone())).cloned().collect();
            scopes.extend(new);
            at += 1;
        }
        scopes
    }
}

/// Returns a time. One that is not a number is an error, also `null`.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, &'static str> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => {
            value.as_f64().filter(|time| time.is_finite()).map(Some).ok_or("a time of the token is not a number")
        }
    }
}

fn text<'a>(claims: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, &'static str> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err("a claim of the token is not a text"),
    }
}

/// Returns the client: `client_id`, or its name at OpenID Connect, Okta, or Microsoft Entra.
fn client_id(claims: &Map<String, Value>) -> Result<Option<&str>, &'static str> {
    for name in ["client_id", "azp", "cid", "appid"] {
        if let Some(client_id) = text(claims, name)? {
            return Ok(Some(client_id));
        }
    }
    Ok(None)
}

/// Refuses ID tokens and refresh tokens: those that say so by `token_use` (Amazon Cognito, Ory Hydra) or `typ` (Keycloak), and those
/// with claims that only ID tokens have.
fn check_kind(claims: &Map<String, Value>) -> Result<(), &'static str> {
    let is_access = |name, allowed: [&str; 2]| match claims.get(name) {
        None => true,
        Some(value) => value.as_str().is_some_and(|value| allowed.contains(&value)),
    };
    let is_other_kind =
        claims.get("typ").and_then(Value::as_str).is_some_and(|typ| ["ID", "Refresh", "Offline"].contains(&typ));
    let has_id_claims = ["nonce", "at_hash", "c_hash"].iter().any(|name| claims.contains_key(*name));
    if is_other_kind || has_id_claims || !is_access("token_use", ["access", "access_token"]) {
        return Err("the token is not an access token");
    }
    Ok(())
}

/// Returns the thumbprint of the key that a token is bound to. Bindings of another kind cannot be checked, so they are refused.
fn binding(claims: &Map<String, Value>) -> Result<Option<String>, &'static str> {
    match claims.get("cnf") {
        None => Ok(None),
        Some(Value::Object(cnf)) if cnf.len() == 1 => match cnf.get("jkt") {
            Some(Value::String(jkt)) => Ok(Some(jkt.clone())),
            _ => Err("the token is bound to a key in a way that is not supported"),
        },
        Some(_) => Err("the token is bound to a key in a way that is not supported"),
    }
}

/// Returns the scopes of `scope`, or of `scp` (Microsoft Entra, Okta): a text with spaces, or a list.
fn scopes(claims: &Map<String, Value>) -> Result<Vec<String>, &'static str> {
    let own = |text: &str| text.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect();
    match claims.get("scope").or_else(|| claims.get("scp")) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(own(text)),
        Some(Value::Array(values)) if values.iter().all(Value::is_string) => {
            Ok(values.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        Some(_) => Err("the scopes of the token are not a text or a list of texts"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ISS: &str = "https://auth.example.com";
    const AUD: &str = "https://mcp.example.com/mcp";

    fn rules() -> ClaimRules {
        ClaimRules {
            audiences: vec![AUD.to_owned()],
            leeway: 60.0,
            required: vec!["notes:read".to_owned()],
            implied: [
                ("notes:admin".to_owned(), vec!["notes:write".to_owned()]),
                ("notes:write".to_owned(), vec!["notes:read".to_owned(), "notes:admin".to_owned()]),
            ]
            .into(),
        }
    }

    fn check(changes: Value) -> Result<VerifiedToken, &'static str> {
        let Value::Object(mut claims) = json!({ "iss": ISS, "aud": AUD, "sub": "ann", "exp": 2000 }) else { panic!() };
        let Value::Object(changes) = changes else { panic!() };
        for (name, value) in changes {
            match value {
                Value::String(text) if text == "(absent)" => drop(claims.remove(&name)),
                value => drop(claims.insert(name, value)),
            }
        }
        rules().check(claims, Some(ISS), 1000.0)
    }

    #[test]
    fn the_principal_has_what_the_token_says() {
        let token = check(json!({ "scope": "a  b a", "client_id": "app", "tenant": "t1", "exp": 1500.5 })).unwrap();
        let principal = token.principal;
        assert_eq!((principal.subject(), principal.issuer(), principal.client_id()), ("ann", Some(ISS), Some("app")));
        assert_eq!(principal.scopes(), ["a", "b"]);
        assert_eq!(principal.claim::<String>("tenant").as_deref(), Some("t1"));
        assert_eq!(principal.expires_at(), Some(system_time(1500.5)));
        assert!((token.until - 1560.5).abs() < 0.001);
        assert!(!token.has_required_scopes);
    }

    #[test]
    fn scopes_are_texts_or_lists_and_include_others() {
        let scopes = |changes| check(changes).map(|token| token.principal.scopes().to_vec());
        assert_eq!(scopes(json!({})).unwrap(), [""; 0]);
        assert_eq!(scopes(json!({ "scp": "a b" })).unwrap(), ["a", "b"]);
        assert_eq!(scopes(json!({ "scp": ["a", "b"] })).unwrap(), ["a", "b"]);
        assert_eq!(scopes(json!({ "scope": "a", "scp": ["b"] })).unwrap(), ["a"]);
        assert_eq!(
            scopes(json!({ "scope": "notes:admin x" })).unwrap(),
            ["notes:admin", "x", "notes:write", "notes:read"]
        );
        assert!(check(json!({ "scope": "notes:admin" })).unwrap().has_required_scopes);
        for wrong in [json!(null), json!(1), json!([1]), json!({}), json!(["a", null])] {
            assert!(scopes(json!({ "scope": wrong })).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_subject_is_the_client_if_there_is_no_other() {
        let subject = |changes| check(changes).map(|token| token.principal.subject().to_owned());
        assert_eq!(subject(json!({ "sub": "(absent)", "client_id": "robot" })).unwrap(), "robot");
        assert!(subject(json!({ "sub": "(absent)" })).is_err());
        assert!(subject(json!({ "sub": "(absent)", "azp": "robot" })).is_err());
        for wrong in [json!(null), json!(7), json!("")] {
            assert!(subject(json!({ "sub": wrong, "client_id": "robot" })).is_err(), "{wrong}");
        }
    }

    #[test]
    fn wrong_claims_are_refused() {
        let table = [
            json!({ "iss": "https://other.example.com" }),
            json!({ "iss": "https://auth.example.com/" }),
            json!({ "iss": null }),
            json!({ "iss": [ISS] }),
            json!({ "aud": "(absent)" }),
            json!({ "aud": "https://mcp.example.com/mcp/" }),
            json!({ "aud": "https://mcp.example.com/other" }),
            json!({ "aud": null }),
            json!({ "aud": [] }),
            json!({ "aud": [AUD, 1] }),
            json!({ "aud": [[AUD]] }),
            json!({ "aud": { "0": AUD } }),
            json!({ "exp": "(absent)" }),
            json!({ "exp": null }),
            json!({ "exp": "2000" }),
            json!({ "exp": true }),
            json!({ "exp": [2000] }),
            json!({ "exp": 940 }),
            json!({ "exp": -1 }),
            json!({ "nbf": 1061 }),
            json!({ "nbf": null }),
            json!({ "nbf": "1000" }),
            json!({ "iat": 1061 }),
            json!({ "iat": null }),
            json!({ "iat": "1000" }),
            json!({ "nonce": "n" }),
            json!({ "at_hash": "h" }),
            json!({ "c_hash": "h" }),
            json!({ "token_use": "id" }),
            json!({ "token_use": "refresh_token" }),
            json!({ "token_use": null }),
            json!({ "typ": "ID" }),
            json!({ "typ": "Refresh" }),
            json!({ "cnf": null }),
            json!({ "cnf": "jkt" }),
            json!({ "cnf": {} }),
            json!({ "cnf": { "jkt": 1 } }),
            json!({ "cnf": { "x5t#S256": "abc" } }),
            json!({ "cnf": { "jkt": "abc", "x5t#S256": "abc" } }),
            json!({ "client_id": 5 }),
        ];
        for changes in table {
            assert!(check(changes.clone()).is_err(), "{changes}");
        }
        let accepted = [
            json!({}),
            json!({ "iss": "(absent)" }),
            json!({ "aud": [AUD] }),
            json!({ "aud": ["https://other.example.com", AUD] }),
            json!({ "exp": 941 }),
            json!({ "exp": 1e300 }),
            json!({ "nbf": 1060, "iat": 1060 }),
            json!({ "token_use": "access" }),
            json!({ "typ": "Bearer" }),
        ];
        for changes in accepted {
            assert!(check(changes.clone()).is_ok(), "{changes}");
        }
        assert_eq!(check(json!({ "cnf": { "jkt": "abc" } })).unwrap().jkt.as_deref(), Some("abc"));
    }
}
