//! Grants with signed assertions: token exchange (RFC 8693) for identity assertions (ID-JAG), and JWT bearer (RFC 7523).

use serde_json::{Value, json};
use turms_core::__internal::random_bytes;
use url::Url;

use super::application::DevState;
use super::grants::TrustedIssuer;
use crate::jws::{JwkSet, Jws, encode};
use crate::server::authenticate::too_many_assertions;
use crate::server::claims::{Claims, LEEWAY, date, is_current, text, texts, verified_claims};
use crate::server::params::split_scopes;
use crate::server::refusal::Refusal;
use crate::server::replays::AssertionUse;
use crate::server::token_endpoint::TokenRequest;
use crate::server::tokens::{Grant, audience_claim};

const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ID_JAG_TYPE: &str = "oauth-id-jag+jwt";

/// Lifetime of identity assertions, in seconds.
const ID_JAG_LIFETIME: u64 = 300;

/// Longest validity of an identity assertion of another server, in seconds. Its id is remembered until then.
const MAX_ID_JAG_LIFETIME: u64 = 60 * 60;

impl DevState {
    /// Exchanges an ID token of this server for an assertion for another authorization server.
    pub(super) fn token_exchange(&self, request: &TokenRequest) -> Result<Value, Refusal> {
        let (core, form, now) = (&self.core, &request.form, request.now);
        let client = request.client()?;
        for (name, expected) in [("requested_token_type", ID_JAG), ("subject_token_type", ID_TOKEN)] {
            if form.required(name)? != expected {
                return Err(Refusal::invalid_request(format!("the {name} is not supported")));
            }
        }
        let subject = self.id_token_claims(form.required("subject_token")?, &client.id, now)?;
        let mut audiences = form.all("audience");
        let (audience, None) = (form.required("audience")?, audiences.by_ref().nth(1)) else {
            return Err(Refusal::new("invalid_target", "there is more than one audience"));
        };
        if Url::parse(audience).is_err() {
            return Err(Refusal::new("invalid_target", "the audience is not an issuer"));
        }
        let resources = core.check_resources(form)?;
        let id = client.ids_elsewhere.iter().find(|(issuer, _)| issuer == audience).map_or(&client.id, |(_, id)| id);
        let mut claims = Claims::new();
        let mut insert = |name: &str, value: Value| claims.insert(name.to_owned(), value);
        insert("iss", json!(core.issuer));
        insert("sub", subject.get("sub").cloned().unwrap_or_default());
        insert("aud", json!(audience));
        insert("client_id", json!(id));
        insert("jti", json!(encode(random_bytes::<16>())));
        insert("iat", json!(now));
        insert("exp", json!(now + ID_JAG_LIFETIME));
        if !resources.is_empty() {
            insert("resource", audience_claim(&resources));
        }
        let scope = form.get("scope").map(split_scopes).unwrap_or_default().join(" ");
        let mut body = json!({
            "issued_token_type": ID_JAG,
            "token_type": "N_A",
            "expires_in": ID_JAG_LIFETIME,
        });
        if !scope.is_empty() {
            insert("scope", json!(scope));
            body["scope"] = json!(scope);
        }
        body["access_token"] = json!(core.tokens.sign(ID_JAG_TYPE, &claims));
        Ok(body)
    }

    /// Checks an ID token of this server for a client.
    fn id_token_claims(&self, token: &str, client_id: &str, now: u64) -> Result<Claims, Refusal> {
        let invalid = |reason: &str| Refusal::invalid_request(format!("subject_token: {reason}"));
        let jws = Jws::parse(token).map_err(|error| invalid(&error.to_string()))?;
        let claims = verified_claims(&jws, &self.core.tokens.jwk_set());
        let claims = claims.ok_or_else(|| invalid("it is not signed by this server"))?;
        if jws.header("typ") != Some("JWT") || text(&claims, "iss") != Some(&self.core.issuer) {
            return Err(invalid("it is not an ID token of this server"));
        }
        if texts(&claims, "aud") != [client_id] {
            return Err(invalid("it was issued to another client"));
        }
        if !is_current(&claims, now) {
            return Err(invalid("it is expired or not yet valid"));
        }
        Ok(claims)
    }

    /// Issues an access token for an assertion of an identity provider or of the platform of a workload.
    pub(super) fn jwt_bearer(&self, request: &TokenRequest) -> Result<Value, Refusal> {
        let invalid = |reason: &str| Refusal::invalid_grant(format!("assertion: {reason}"));
        let assertion = request.form.required("assertion")?;
        let jws = Jws::parse(assertion).map_err(|error| invalid(&error.to_string()))?;
        let is_identity = jws.header("typ") == Some(ID_JAG_TYPE);
        let trusted = if is_identity { &self.identity_providers } else { &self.workload_issuers };
        let claims = trusted_claims(&jws, trusted).ok_or_else(|| invalid("its issuer is not trusted"))?;
        if !is_current(&claims, request.now) {
            return Err(invalid("it is expired or not yet valid"));
        }
        let subject = text(&claims, "sub").filter(|subject| !subject.is_empty());
        let subject = subject.ok_or_else(|| invalid("sub is missing"))?;
        let grant = if is_identity {
            self.identity_grant(request, &claims, subject)?
        } else {
            self.workload_grant(request, &claims, subject)?
        };
        Ok(self.issue_once(&grant, request))
    }

    /// Returns the rights that an identity assertion gives. It is for one client, and can be used once.
    fn identity_grant(&self, request: &TokenRequest, claims: &Claims, subject: &str) -> Result<Grant, Refusal> {
        let (core, now) = (&self.core, request.now);
        let invalid = |reason: &str| Refusal::invalid_grant(format!("assertion: {reason}"));
        let client = request.client()?;
        if client.is_public() {
            return Err(Refusal::new("unauthorized_client", "the client has no credentials"));
        }
        if ![json!(core.issuer), json!([core.issuer])].iter().any(|own| claims.get("aud") == Some(own)) {
            return Err(invalid("aud is not the issuer"));
        }
        if text(claims, "client_id") != Some(&client.id) {
            return Err(invalid("it is for another client"));
        }
        let expires_at = date(claims, "exp").filter(|end| *end <= now + MAX_ID_JAG_LIFETIME);
        let expires_at = expires_at.ok_or_else(|| invalid("it is valid for too long"))?;
        let jti = text(claims, "jti").ok_or_else(|| invalid("jti is missing"))?;
        let (scopes, resources) = self.claimed_rights(request, claims)?;
        let issuer = text(claims, "iss").unwrap_or_default();
        match core.replays.lock().record(issuer, jti, expires_at + LEEWAY + 1, now) {
            AssertionUse::First => {}
            AssertionUse::Replay => return Err(invalid("jti was used before")),
            AssertionUse::Full => return Err(too_many_assertions()),
        }
        Ok(Grant {
            client_id: client.id.clone(),
            subject: subject.to_owned(),
            scopes,
            audiences: core.audiences(&resources),
            claims: self.user(subject).map(|user| user.claims.clone()).unwrap_or_default(),
            login_data: None,
            since: now,
        })
    }

    /// Returns the scopes and resources of a request, which are at most those of the assertion.
    fn claimed_rights(&self, request: &TokenRequest, claims: &Claims) -> Result<(Vec<String>, Vec<String>), Refusal> {
        let core = &self.core;
        let is_text = |name: &str| claims.get(name).is_none_or(Value::is_string);
        let is_list = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
        if !is_text("scope") || !(is_text("resource") || claims.get("resource").is_some_and(is_list)) {
            return Err(Refusal::invalid_grant("assertion: its rights have another form than expected"));
        }
        let claimed = text(claims, "scope");
        let scope = request.form.get("scope").or(claimed);
        let scopes = core.check_scopes(scope, request.any_client().map(|client| &**client))?;
        if claimed.is_some_and(|claimed| scopes.iter().any(|scope| !split_scopes(claimed).contains(scope))) {
            return Err(Refusal::new("invalid_scope", "a scope is not in the assertion"));
        }
        let target = |reason: &str| Refusal::new("invalid_target", reason);
        let claimed: Option<Vec<String>> =
            texts(claims, "resource").into_iter().map(|resource| core.find_resource(resource)).collect();
        let claimed = claimed.ok_or_else(|| target("the resource of the assertion is unknown"))?;
        let requested = core.check_resources(&request.form)?;
        if claimed.is_empty() || requested.is_empty() {
            return Ok((scopes, if claimed.is_empty() { requested } else { claimed }));
        }
        if requested.iter().any(|resource| !claimed.contains(resource)) {
            return Err(target("the resource is not in the assertion"));
        }
        Ok((scopes, requested))
    }

    /// Returns the rights of a workload. Its assertion may be used until it expires, because platforms renew it rarely.
    fn workload_grant(&self, request: &TokenRequest, claims: &Claims, subject: &str) -> Result<Grant, Refusal> {
        let core = &self.core;
        let audiences = texts(claims, "aud");
        if audiences.is_empty() || !audiences.iter().all(|audience| core.is_own_audience(audience)) {
            return Err(Refusal::invalid_grant("assertion: aud is not the issuer"));
        }
        let client = request.any_client().map(|client| &**client);
        let scopes = core.check_scopes(request.form.get("scope"), client)?;
        let resources = core.check_resources(&request.form)?;
        Ok(Grant {
            client_id: client.map_or_else(|| subject.to_owned(), |client| client.id.clone()),
            subject: subject.to_owned(),
            scopes,
            audiences: core.audiences(&resources),
            claims: Claims::new(),
            login_data: None,
            since: request.now,
        })
    }
}

/// Returns the claims of a token that is signed by the trusted issuer that it names.
fn trusted_claims(jws: &Jws<'_>, trusted: &[TrustedIssuer]) -> Option<Claims> {
    let claims: Claims = jws.claims().ok()?;
    let issuer = text(&claims, "iss")?;
    let keys: &JwkSet = &trusted.iter().find(|trusted| trusted.issuer == issuer)?.keys;
    verified_claims(jws, keys)
}
