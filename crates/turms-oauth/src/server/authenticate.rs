//! Authentication of clients at the endpoints (RFC 6749, 2.3 and RFC 7523, 2.2).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use percent_encoding::percent_decode_str;

use super::Core;
use super::claims::{LEEWAY, date, is_current, text, texts, verified_claims};
use super::clients::{ClientCredential, ClientOrigin, ServerClient};
use super::http::HttpRequest;
use super::params::Params;
use super::refusal::Refusal;
use super::replays::AssertionUse;
use crate::jws::Jws;
use crate::secret::Secret;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Longest validity of an assertion, in seconds. Its id is remembered until then.
const MAX_ASSERTION_LIFETIME: u64 = 600;

/// The credentials of a request.
enum Presented {
    Nothing,
    Secret(&'static str, Secret),
    Assertion(String),
}

impl Core {
    /// Authenticates the client of a request. `None` if the request names none.
    pub(crate) async fn authenticate(
        &self,
        request: &HttpRequest,
        form: &Params,
        now: u64,
    ) -> Result<Option<Arc<ServerClient>>, Refusal> {
        let (id, presented) = credentials(request, form)?;
        let Some(id) = id else { return Ok(None) };
        let unknown = || Refusal::invalid_client("unknown client, or wrong credentials");
        let client = self.clients.find(&id, now).await?.ok_or_else(unknown)?;
        match (&client.credential, presented) {
            (ClientCredential::Public, Presented::Nothing) => {}
            (ClientCredential::Secret(own, only), Presented::Secret(method, secret)) => {
                if *own != secret || only.as_ref().is_some_and(|only| only != method) {
                    return Err(unknown());
                }
            }
            (ClientCredential::Keys(_) | ClientCredential::KeysAt(_), Presented::Assertion(assertion)) => {
                self.check_assertion(&client, &assertion, now).await?;
            }
            _ => return Err(unknown()),
        }
        Ok(Some(client))
    }

    async fn check_assertion(&self, client: &ServerClient, assertion: &str, now: u64) -> Result<(), Refusal> {
        let invalid = |reason: &str| Refusal::invalid_client(format!("client assertion: {reason}"));
        let jws = Jws::parse(assertion).map_err(|error| invalid(&error.to_string()))?;
        let keys = self.clients.keys_of(client, now).await?.unwrap_or_default();
        let claims = verified_claims(&jws, &keys).ok_or_else(|| invalid("the signature does not match"))?;
        if text(&claims, "iss") != Some(&client.id) || text(&claims, "sub") != Some(&client.id) {
            return Err(invalid("iss and sub are not the client id"));
        }
        // An assertion for several servers could be replayed by one of them.
        let audiences = texts(&claims, "aud");
        if audiences.is_empty() || !audiences.iter().all(|audience| self.is_own_audience(audience)) {
            return Err(invalid("aud is not the issuer"));
        }
        let expires_at = date(&claims, "exp").filter(|end| *end <= now + MAX_ASSERTION_LIFETIME);
        let (Some(expires_at), true) = (expires_at, is_current(&claims, now)) else {
            return Err(invalid("it is expired or valid for too long"));
        };
        let jti = text(&claims, "jti").ok_or_else(|| invalid("jti is missing"))?;
        let (until, mut replays) = (expires_at + LEEWAY + 1, self.replays.lock());
        let result = match client.origin {
            ClientOrigin::Configured => replays.record(&client.id, jti, until, now),
            ClientOrigin::Registered | ClientOrigin::Document => replays.record_registered(&client.id, jti, until, now),
        };
        match result {
            AssertionUse::First => Ok(()),
            AssertionUse::Replay => Err(invalid("jti was used before")),
            AssertionUse::Full => Err(too_many_assertions()),
        }
    }
}

pub(crate) fn too_many_assertions() -> Refusal {
    Refusal::unavailable("too many assertions were used in the last minutes; try again later")
}

/// Returns the id of the client, and its credentials. At most one method may be used.
fn credentials(request: &HttpRequest, form: &Params) -> Result<(Option<String>, Presented), Refusal> {
    let in_form = form.get("client_id").map(str::to_owned);
    let mut presented = Presented::Nothing;
    let mut count = 0;
    let mut id = in_form.clone();
    if request.headers.contains_key(AUTHORIZATION) {
        let (user, password) =
            basic(request).ok_or_else(|| Refusal::invalid_client("the Authorization header is not valid for Basic"))?;
        if in_form.is_some_and(|in_form| in_form != user) {
            return Err(Refusal::invalid_request("two different client ids"));
        }
        (id, presented, count) = (Some(user), Presented::Secret("client_secret_basic", password), count + 1);
    }
    if let Some(secret) = form.get("client_secret") {
        (presented, count) = (Presented::Secret("client_secret_post", Secret::new(secret)), count + 1);
    }
    if let Some(assertion) = form.get("client_assertion") {
        if form.get("client_assertion_type") != Some(ASSERTION_TYPE) {
            return Err(Refusal::invalid_request("the client_assertion_type is not supported"));
        }
        if id.is_none() {
            // The signature is checked with the keys of the client that it names.
            let claims = Jws::parse(assertion).ok().and_then(|jws| jws.claims::<super::claims::Claims>().ok());
            id = claims.and_then(|claims| text(&claims, "sub").map(str::to_owned));
        }
        (presented, count) = (Presented::Assertion(assertion.to_owned()), count + 1);
    }
    if count > 1 {
        return Err(Refusal::invalid_request("more than one method of client authentication"));
    }
    Ok((id, presented))
}

/// Decodes `Authorization: Basic`. The user and the password are form-encoded (RFC 6749, 2.3.1).
fn basic(request: &HttpRequest) -> Option<(String, Secret)> {
    let decoded = STANDARD.decode(request.authorization("Basic")?).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (user, password) = decoded.split_once(':')?;
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8().ok().map(|text| text.into_owned())
    };
    Some((decode(user)?, Secret::new(decode(password)?)))
}
