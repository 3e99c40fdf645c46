//! Device codes (RFC 8628): a person enters a code on another device.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use turms_core::__internal::random_bytes;

use super::application::{Approval, DevState};
use crate::jws::sha256;
use crate::pkce::random_token;
use crate::server::claims::Claims;
use crate::server::clients::{DEVICE_CODE, ServerClient};
use crate::server::clock::end_of;
use crate::server::expiring_map::ExpiringMap;
use crate::server::http::{HttpRequest, HttpResponse, json_response, method_not_allowed};
use crate::server::page::{describe_client, describe_rights, error_page, escape, page};
use crate::server::refusal::Refusal;
use crate::server::token_endpoint::{Issue, TokenRequest};
use crate::server::tokens::{Family, Grant};

/// Maximum number of logins that wait for a person. Further ones are refused.
const MAX_LOGINS: usize = 1000;

/// Lifetime of the codes.
const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Increase of the interval for a client that asks too often, in seconds (RFC 8628, 3.5).
const SLOW_DOWN: u64 = 5;

/// Letters of user codes (RFC 8628, 6.1): no vowels, so that there are no words, and none that look like digits.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

const CODE_LENGTH: usize = 8;

/// The device logins of the development server.
#[derive(Debug)]
pub(super) struct DeviceLogins {
    /// By the hash of the device code. Expired ones are kept for a while, so that clients learn the reason.
    logins: Mutex<ExpiringMap<[u8; 32], DeviceLogin>>,
    interval: u64,
}

#[derive(Debug, Clone)]
struct DeviceLogin {
    client: Arc<ServerClient>,
    scopes: Vec<String>,
    resources: Vec<String>,
    user_code: String,
    expires_at: u64,
    decision: Decision,
    asked_at: Option<u64>,
    /// Minimum time between two requests of the client, in seconds.
    interval: u64,
}

impl DeviceLogin {
    /// Returns a description for people.
    fn describe(&self) -> String {
        describe_client(&self.client) + &describe_rights(&self.scopes, &self.resources)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Decision {
    Pending,
    /// This user approved.
    Approved(String),
    Denied,
}

impl DeviceLogins {
    pub(super) fn new(interval: Duration) -> Self {
        Self { logins: Mutex::new(ExpiringMap::new(MAX_LOGINS)), interval: interval.as_secs() }
    }

    /// Returns the login that waits for this user code.
    fn find(&self, user_code: &str, now: u64) -> Option<([u8; 32], DeviceLogin)> {
        let user_code: String = user_code.chars().filter(char::is_ascii_alphabetic).collect();
        let user_code = user_code.to_ascii_uppercase();
        let mut logins = self.logins.lock();
        let is_wanted = |login: &DeviceLogin| {
            login.user_code == user_code && login.decision == Decision::Pending && now < login.expires_at
        };
        let key = *logins.keys_where(is_wanted).first()?;
        Some((key, logins.get(&key, now)?.clone()))
    }

    fn decide(&self, key: &[u8; 32], decision: Decision, now: u64) {
        if let Some(login) = self.logins.lock().get_mut(key, now) {
            login.decision = decision;
        }
    }

    /// Returns the login of a device code and its user, once, if a person has approved it.
    fn poll(&self, device_code: &str, client: &ServerClient, now: u64) -> Result<(DeviceLogin, String), Refusal> {
        let key = sha256(device_code);
        let mut logins = self.logins.lock();
        let unknown = || Refusal::invalid_grant("the device code is unknown or was used before");
        let login = logins.get_mut(&key, now).ok_or_else(unknown)?;
        if login.client.id != client.id {
            return Err(Refusal::invalid_grant("the device code was issued to another client"));
        }
        if now >= login.expires_at {
            return Err(Refusal::new("expired_token", "the device code has expired"));
        }
        match login.decision.clone() {
            Decision::Denied => Err(Refusal::new("access_denied", "the request was denied")),
            Decision::Approved(user) => {
                let login = logins.take(&key, now).ok_or_else(unknown)?;
                Ok((login, user))
            }
            Decision::Pending => {
                let last = login.asked_at.replace(now);
                if last.is_some_and(|last| now < last + login.interval) {
                    login.interval += SLOW_DOWN;
                    return Err(Refusal::new("slow_down", "the interval between two requests is too short"));
                }
                Err(Refusal::new("authorization_pending", "no person has approved the request yet"))
            }
        }
    }
}

impl DevState {
    /// Responds to a request for codes.
    pub(super) async fn device_authorization(&self, request: &HttpRequest) -> Result<HttpResponse, Refusal> {
        let core = &self.core;
        let now = core.clock.now();
        let form = request.form()?;
        let client = core.authenticate(request, &form, now).await?;
        let client = client.ok_or_else(|| Refusal::invalid_client("the client_id is missing"))?;
        client.check_grant(DEVICE_CODE)?;
        let (device_code, user_code) = (random_token(), random_user_code());
        let decision = match &self.approval {
            Approval::Ask => Decision::Pending,
            Approval::Approve(user) => Decision::Approved(user.clone()),
            Approval::Deny => Decision::Denied,
        };
        let login = DeviceLogin {
            scopes: core.check_scopes(form.get("scope"), Some(&client))?,
            resources: core.check_resources(&form)?,
            client,
            user_code: user_code.clone(),
            expires_at: end_of(now, LIFETIME),
            decision,
            asked_at: None,
            interval: self.devices.interval,
        };
        let kept_until = end_of(now, LIFETIME * 2);
        if !self.devices.logins.lock().insert_new(sha256(device_code.expose()), login, kept_until, now) {
            return Err(Refusal::unavailable("too many device logins wait for a person"));
        }
        let shown = format!("{}-{}", &user_code[..CODE_LENGTH / 2], &user_code[CODE_LENGTH / 2..]);
        let body = json!({
            "device_code": device_code.expose(),
            "user_code": shown,
            "verification_uri": core.url("/device"),
            "verification_uri_complete": format!("{}?user_code={shown}", core.url("/device")),
            "expires_in": LIFETIME.as_secs(),
            "interval": self.devices.interval,
        });
        Ok(json_response(StatusCode::OK, &body))
    }

    /// Shows the page for a user code, or processes its form.
    pub(super) fn device(&self, request: &HttpRequest) -> HttpResponse {
        let now = self.core.clock.now();
        let user_code = match request.query() {
            Ok(query) => query.get("user_code").map(str::to_owned),
            Err(refusal) => return error_page(&refusal),
        };
        let Some(user_code) = user_code else { return code_page(StatusCode::OK, "") };
        let Some((key, login)) = self.devices.find(&user_code, now) else {
            return code_page(StatusCode::NOT_FOUND, "The code is wrong or has expired.");
        };
        match request.method {
            Method::GET => self.device_page(request, &login, StatusCode::OK, ""),
            Method::POST => self.decide_device(request, &key, &login, now),
            _ => method_not_allowed("GET, POST"),
        }
    }

    fn decide_device(&self, request: &HttpRequest, key: &[u8; 32], login: &DeviceLogin, now: u64) -> HttpResponse {
        let form = match request.form() {
            Ok(form) => form,
            Err(refusal) => return error_page(&refusal),
        };
        if let Err(refusal) = self.core.sessions.check_form(request, &form, &login.describe()) {
            return error_page(&refusal.status(StatusCode::FORBIDDEN));
        }
        if form.get("decision") != Some("approve") {
            self.devices.decide(key, Decision::Denied, now);
            return page(StatusCode::OK, "The request was denied", "");
        }
        match self.check_login(&form) {
            Some(user) => {
                self.devices.decide(key, Decision::Approved(user.name.clone()), now);
                page(StatusCode::OK, "The request was approved", "<p>Return to your device.</p>")
            }
            None => self.device_page(request, login, StatusCode::FORBIDDEN, "The name or the password is wrong."),
        }
    }

    fn device_page(
        &self,
        request: &HttpRequest,
        login: &DeviceLogin,
        status: StatusCode,
        problem: &str,
    ) -> HttpResponse {
        self.core.sessions.form_page(request, status, "Log in on another device", &login.describe(), |csrf| {
            format!(
                "<p class=\"warning\">Approve only if you have just started the login yourself, and your device shows \
                 the code <code>{}</code>. Development server: not for production.</p><p>{}</p>\
                 <form method=\"post\">{csrf}{}<button name=\"decision\" value=\"approve\">Approve</button>\
                 <button name=\"decision\" value=\"deny\">Deny</button></form>",
                escape(&login.user_code),
                escape(problem),
                self.login_fields(),
            )
        })
    }

    /// Issues tokens for a device code.
    pub(super) fn redeem_device_code(&self, request: &TokenRequest) -> Result<Value, Refusal> {
        let core = &self.core;
        let client = request.client()?;
        let (login, user) = self.devices.poll(request.form.required("device_code")?, client, request.now)?;
        let grant = Grant {
            client_id: client.id.clone(),
            claims: self.user(&user).map_or_else(Claims::new, |user| user.claims.clone()),
            subject: user,
            scopes: login.scopes,
            audiences: core.audiences(&login.resources),
            login_data: None,
            since: request.now,
        };
        let narrow = core.narrow(&grant, &request.form)?;
        let family = Family::new();
        let refresh_token = core.first_refresh_token(client, &grant, &family, request);
        let jkt = request.jkt();
        let issue = Issue { grant: &narrow, family: &family, jkt, refresh_token, nonce: None, is_login: true };
        Ok(core.issue(issue, request.now))
    }
}

/// Creates the page that asks for the code of a device.
fn code_page(status: StatusCode, problem: &str) -> HttpResponse {
    let form = "<form method=\"get\"><label>Code on your device <input name=\"user_code\" autocomplete=\"off\"></label>\
                <button>Continue</button></form>";
    page(status, "Log in on another device", &format!("<p>{}</p>{form}", escape(problem)))
}

fn random_user_code() -> String {
    let mut code = String::with_capacity(CODE_LENGTH);
    while code.len() < CODE_LENGTH {
        // Bytes beyond the last multiple of 20 would make some letters more likely.
        let bytes = random_bytes::<CODE_LENGTH>().into_iter().filter(|byte| *byte < 240);
        let letters = bytes.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
        code.extend(letters.take(CODE_LENGTH - code.len()));
    }
    code
}
