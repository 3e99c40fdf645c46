//! The grants of the development server. Those of authorization codes and refresh tokens are in `server`.

use serde_json::Value;

use super::application::DevState;
use crate::jws::JwkSet;
use crate::server::claims::Claims;
use crate::server::clients::DEVICE_CODE;
use crate::server::refusal::Refusal;
use crate::server::token_endpoint::{Issue, TokenRequest};
use crate::server::tokens::{Family, Grant};

const CLIENT_CREDENTIALS: &str = "client_credentials";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// All grant types of the development server.
pub(super) const GRANT_TYPES: [&str; 6] =
    ["authorization_code", "refresh_token", CLIENT_CREDENTIALS, DEVICE_CODE, TOKEN_EXCHANGE, JWT_BEARER];

/// An issuer of accepted assertions.
#[derive(Debug, Clone)]
pub(super) struct TrustedIssuer {
    pub(super) issuer: String,
    pub(super) keys: JwkSet,
}

impl DevState {
    /// Issues tokens for a grant.
    pub(super) fn grant(&self, grant_type: &str, request: &TokenRequest) -> Result<Value, Refusal> {
        match grant_type {
            "authorization_code" => self.core.redeem_code(request),
            "refresh_token" => {
                let (family, record) = self.core.find_refresh(request)?;
                self.core.refresh(request, &family, &record)
            }
            CLIENT_CREDENTIALS => self.client_credentials(request),
            DEVICE_CODE => self.redeem_device_code(request),
            TOKEN_EXCHANGE => self.token_exchange(request),
            JWT_BEARER => self.jwt_bearer(request),
            _ => Err(Refusal::new("unsupported_grant_type", "the grant type is not supported")),
        }
    }

    /// Issues a token for a client itself, which is the subject.
    fn client_credentials(&self, request: &TokenRequest) -> Result<Value, Refusal> {
        let client = request.client()?;
        if client.is_public() {
            return Err(Refusal::new("unauthorized_client", "the client has no credentials"));
        }
        let grant = Grant {
            client_id: client.id.clone(),
            subject: client.id.clone(),
            scopes: self.core.check_scopes(request.form.get("scope"), Some(client))?,
            audiences: self.core.audiences(&self.core.check_resources(&request.form)?),
            claims: Claims::new(),
            login_data: None,
            since: request.now,
        };
        Ok(self.issue_once(&grant, request))
    }

    /// Issues an access token without a refresh token.
    pub(super) fn issue_once(&self, grant: &Grant, request: &TokenRequest) -> Value {
        let family = Family::new();
        let jkt = request.jkt();
        let issue = Issue { grant, family: &family, jkt, refresh_token: None, nonce: None, is_login: false };
        self.core.issue(issue, request.now)
    }
}
