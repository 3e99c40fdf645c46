//! The token endpoint: what all grants have in common, authorization codes, and refresh tokens.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};
use turms_core::__internal::random_bytes;

use super::Core;
use super::authorize::RequestDetails;
use super::claims::Claims;
use super::clients::ServerClient;
use super::clock::end_of;
use super::codes::Redeemed;
use super::dpop::{DPOP_NONCE, Proven};
use super::http::{HttpRequest, HttpResponse, json_response};
use super::params::{Params, split_scopes};
use super::refusal::Refusal;
use super::tokens::{Family, Grant, Refresh, RefreshRecord, audience_claim};
use crate::jws::encode;
use crate::pkce::pkce_challenge;
use crate::secret::Secret;

/// A request for tokens after its client was authenticated and its proof checked.
#[derive(Clone)]
pub(crate) struct TokenRequest {
    client: Option<Arc<ServerClient>>,
    pub(crate) form: Params,
    proof: Option<Proven>,
    pub(crate) now: u64,
}

impl TokenRequest {
    pub(crate) fn grant_type(&self) -> Result<&str, Refusal> {
        self.form.required("grant_type")
    }

    /// Returns the thumbprint of the key of the proof.
    pub(crate) fn jkt(&self) -> Option<&str> {
        self.proof.as_ref().map(|proof| &*proof.jkt)
    }

    /// Returns the client. It is an error if the request has none.
    pub(crate) fn client(&self) -> Result<&Arc<ServerClient>, Refusal> {
        self.client.as_ref().ok_or_else(|| Refusal::invalid_client("the client_id is missing"))
    }

    #[cfg(feature = "dev")]
    pub(crate) fn any_client(&self) -> Option<&Arc<ServerClient>> {
        self.client.as_ref()
    }
}

/// Tokens to be issued.
pub(crate) struct Issue<'a> {
    pub(crate) grant: &'a Grant,
    pub(crate) family: &'a Family,
    pub(crate) jkt: Option<&'a str>,
    pub(crate) refresh_token: Option<Secret>,
    /// `nonce` of the ID token.
    pub(crate) nonce: Option<&'a str>,
    /// `true` if a person has logged in, so that there can be an ID token.
    pub(crate) is_login: bool,
}

impl Core {
    /// Checks the parts of a request for tokens that all grants have.
    pub(crate) async fn token_request(&self, request: &HttpRequest) -> Result<TokenRequest, Refusal> {
        let now = self.clock.now();
        let form = request.form()?;
        let client = self.authenticate(request, &form, now).await?;
        let grant_type = form.required("grant_type")?;
        if !self.settings.grant_types.contains(&grant_type) {
            return Err(Refusal::new("unsupported_grant_type", "the grant type is not supported"));
        }
        if let Some(client) = &client {
            client.check_grant(grant_type)?;
        }
        let proof = self.proofs.check(request, &self.url("/token"), None, now)?;
        Ok(TokenRequest { client, form, proof, now })
    }

    /// Ends a request for tokens.
    pub(crate) fn end_request(&self, request: &TokenRequest, result: &Result<Value, Refusal>) {
        if let (Err(_), Some(proof)) = (result, &request.proof) {
            self.proofs.forget(proof, request.now);
        }
    }

    /// Creates the response of the token endpoint.
    pub(crate) fn token_response(&self, result: Result<Value, Refusal>) -> HttpResponse {
        let mut response = match result {
            Ok(body) => json_response(StatusCode::OK, &body),
            Err(refusal) => refusal.into_response(),
        };
        if let Some(nonce) = self.proofs.nonce(self.clock.now()) {
            response.headers_mut().insert(DPOP_NONCE, nonce);
        }
        response
    }

    /// Exchanges an authorization code.
    pub(crate) fn redeem_code(&self, request: &TokenRequest) -> Result<Value, Refusal> {
        let client = request.client()?;
        let code = request.form.required("code")?;
        let record = match self.codes.redeem(code, request.now) {
            Redeemed::Valid(record) => *record,
            Redeemed::Replayed(family) => {
                tracing::warn!(issuer = self.issuer, "an authorization code was used twice; its tokens are revoked");
                self.tokens.revoke_family(&family, request.now);
                return Err(Refusal::invalid_grant("the code was used before"));
            }
            Redeemed::Unknown => return Err(Refusal::invalid_grant("the code is unknown or expired")),
        };
        check_code(&record.request, client, request)?;
        let granted = Grant { client_id: client.id.clone(), ..record.grant };
        let grant = self.narrow(&granted, &request.form)?;
        let refresh_token = self.first_refresh_token(client, &granted, &record.family, request);
        let issue = Issue {
            grant: &grant,
            family: &record.family,
            jkt: request.jkt(),
            refresh_token,
            nonce: record.request.nonce.as_deref(),
            is_login: true,
        };
        let tokens = self.issue(issue, request.now);
        if self.codes.is_replayed(code, request.now) {
            self.tokens.revoke_family(&record.family, request.now);
            return Err(Refusal::invalid_grant("the code was used before"));
        }
        Ok(tokens)
    }

    /// Creates the first refresh token of a login, if the client may have one. For public clients it is bound to the key of their proof.
    pub(crate) fn first_refresh_token(
        &self,
        client: &ServerClient,
        grant: &Grant,
        family: &Family,
        request: &TokenRequest,
    ) -> Option<Secret> {
        let is_issued = self.settings.issues_refresh_tokens && client.allows_grant("refresh_token");
        is_issued.then(|| {
            let jkt = request.jkt().filter(|_| client.is_public()).map(str::to_owned);
            let lifetime = self.settings.refresh_token_lifetime;
            self.tokens.issue_refresh(family, grant.clone(), jkt, lifetime, request.now)
        })
    }

    /// Finds the login of a refresh token, without using it.
    pub(crate) fn find_refresh(&self, request: &TokenRequest) -> Result<(Family, Box<RefreshRecord>), Refusal> {
        let client = request.client()?;
        let token = request.form.required("refresh_token")?;
        let (family, record) = match self.tokens.find_refresh(token, request.now) {
            Refresh::Valid(family, record) => (family, record),
            Refresh::Reused => {
                tracing::warn!(issuer = self.issuer, "a refresh token was used twice; its login is revoked");
                return Err(Refusal::invalid_grant("the refresh token was used before"));
            }
            Refresh::Unknown => return Err(Refusal::invalid_grant("the refresh token is unknown or expired")),
        };
        if record.grant.client_id != client.id {
            return Err(Refusal::invalid_grant("the refresh token was issued to another client"));
        }
        if record.jkt.is_some() && record.jkt.as_deref() != request.jkt() {
            return Err(Refusal::invalid_grant("the refresh token is bound to another key"));
        }
        Ok((family, record))
    }

    /// Replaces a refresh token and issues an access token.
    pub(crate) fn refresh(
        &self,
        request: &TokenRequest,
        family: &Family,
        record: &RefreshRecord,
    ) -> Result<Value, Refusal> {
        let grant = self.narrow(&record.grant, &request.form)?;
        let token = self.tokens.rotate_refresh(family, record, request.now);
        let token = token.ok_or_else(|| Refusal::invalid_grant("the refresh token was used before"))?;
        let jkt = request.jkt();
        let issue = Issue { grant: &grant, family, jkt, refresh_token: Some(token), nonce: None, is_login: true };
        Ok(self.issue(issue, request.now))
    }

    /// Returns the rights that a request asks for, which are at most those that were granted.
    pub(crate) fn narrow(&self, granted: &Grant, form: &Params) -> Result<Grant, Refusal> {
        let mut grant = granted.clone();
        if let Some(scope) = form.get("scope") {
            grant.scopes = split_scopes(scope);
            if grant.scopes.iter().any(|scope| !granted.scopes.contains(scope)) {
                return Err(Refusal::new("invalid_scope", "a scope was not granted"));
            }
        }
        let resources = self.check_resources(form)?;
        if resources.iter().any(|resource| !granted.audiences.contains(resource)) {
            return Err(Refusal::new("invalid_target", "the resource was not granted"));
        }
        if !resources.is_empty() {
            grant.audiences = resources;
        }
        Ok(grant)
    }

    /// Issues tokens, and returns the body of the response.
    pub(crate) fn issue(&self, issue: Issue<'_>, now: u64) -> Value {
        let (grant, settings) = (issue.grant, &self.settings);
        let lifetime = settings.access_token_lifetime;
        let claims = self.access_claims(grant, issue.jkt, now);
        let data = grant.login_data.clone();
        let token = self.tokens.issue_access(issue.family, claims, data, settings.has_opaque_tokens, now);
        let mut body = json!({
            "access_token": token.expose(),
            "token_type": if issue.jkt.is_some() { "DPoP" } else { "Bearer" },
            "expires_in": lifetime.as_secs(),
        });
        // RFC 6749, A.4: a scope is not empty.
        if !grant.scopes.is_empty() {
            body["scope"] = json!(grant.scopes.join(" "));
        }
        if let Some(token) = issue.refresh_token {
            body["refresh_token"] = json!(token.expose());
        }
        if issue.is_login && grant.scopes.iter().any(|scope| scope == "openid") {
            body["id_token"] = json!(self.id_token(grant, issue.nonce, now));
        }
        body
    }

    /// Returns the claims of an access token (RFC 9068).
    pub(crate) fn access_claims(&self, grant: &Grant, jkt: Option<&str>, now: u64) -> Claims {
        let mut claims = grant.claims.clone();
        // Rights and the binding to a key are never those of a user.
        claims.retain(|name, _| !["scope", "scp", "cnf"].contains(&name.as_str()));
        let mut insert = |name: &str, value: Value| claims.insert(name.to_owned(), value);
        insert("iss", json!(self.issuer));
        insert("sub", json!(grant.subject));
        insert("aud", audience_claim(&grant.audiences));
        insert("exp", json!(end_of(now, self.settings.access_token_lifetime)));
        insert("iat", json!(now));
        insert("jti", json!(encode(random_bytes::<16>())));
        insert("client_id", json!(grant.client_id));
        if !grant.scopes.is_empty() {
            insert("scope", json!(grant.scopes.join(" ")));
        }
        if let Some(jkt) = jkt {
            insert("cnf", json!({ "jkt": jkt }));
        }
        claims
    }

    fn id_token(&self, grant: &Grant, nonce: Option<&str>, now: u64) -> String {
        let mut claims = grant.claims.clone();
        let mut insert = |name: &str, value: Value| claims.insert(name.to_owned(), value);
        insert("iss", json!(self.issuer));
        insert("sub", json!(grant.subject));
        insert("aud", json!(grant.client_id));
        insert("exp", json!(end_of(now, self.settings.access_token_lifetime)));
        insert("iat", json!(now));
        insert("auth_time", json!(grant.since));
        if let Some(nonce) = nonce {
            insert("nonce", json!(nonce));
        }
        self.tokens.sign("JWT", &claims)
    }
}

/// Checks that a code is used by its client, with its redirect URI, verifier and key.
fn check_code(asked: &RequestDetails, client: &ServerClient, request: &TokenRequest) -> Result<(), Refusal> {
    if !asked.is_of(client) {
        return Err(Refusal::invalid_grant("the code was issued to another client"));
    }
    if asked.is_redirect_uri_sent && Some(&*asked.redirect_uri) != request.form.get("redirect_uri") {
        return Err(Refusal::invalid_grant("the redirect_uri differs from that of the authorization request"));
    }
    let verifier = request.form.required("code_verifier")?;
    let is_valid =
        (43..=128).contains(&verifier.len()) && Secret::new(pkce_challenge(verifier)) == Secret::new(&*asked.challenge);
    if !is_valid {
        return Err(Refusal::invalid_grant("the code_verifier is wrong"));
    }
    if asked.jkt.is_some() && asked.jkt.as_deref() != request.jkt() {
        return Err(Refusal::invalid_grant("the code is bound to another key"));
    }
    Ok(())
}
