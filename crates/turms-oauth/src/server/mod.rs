//! The parts that the development server and the proxy have in common: clients, codes, tokens, and their endpoints.

pub(crate) mod authenticate;
pub(crate) mod authorize;
pub(crate) mod claims;
pub(crate) mod clients;
pub(crate) mod clock;
pub(crate) mod codes;
pub(crate) mod documents;
pub(crate) mod dpop;
pub(crate) mod expiring_map;
pub(crate) mod http;
pub(crate) mod page;
pub(crate) mod params;
pub(crate) mod redirect;
pub(crate) mod refusal;
pub(crate) mod replays;
pub(crate) mod token_endpoint;
pub(crate) mod tokens;

use std::fmt;
use std::time::Duration;

use ::http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use turms_core::__internal::random_bytes;
use url::Url;

use self::claims::{Claims, text};
use self::clients::{ClientOrigin, Clients, DEVICE_CODE};
use self::clock::Clock;
use self::codes::Codes;
use self::dpop::ProofCheck;
pub use self::http::AuthorizationService;
use self::http::{HttpRequest, HttpResponse, document, json_response, method_not_allowed, preflight, with_cors};
use self::page::BrowserSessions;
use self::refusal::Refusal;
use self::replays::Replays;
use self::tokens::Tokens;
use crate::jws::{Algorithm, SigningKey};
use crate::metadata::AuthorizationServerMetadata;

/// Settings that the development server and the proxy have in common.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// All scopes. `None` allows any.
    pub(crate) scopes: Option<Vec<String>>,
    /// Scopes of a request that asks for none. `None`: all scopes.
    pub(crate) default_scopes: Option<Vec<String>>,
    /// All resources. Empty allows any.
    pub(crate) resources: Vec<String>,
    /// Audience of tokens without a resource. `None`: the issuer.
    pub(crate) default_resource: Option<String>,
    pub(crate) access_token_lifetime: Duration,
    pub(crate) refresh_token_lifetime: Duration,
    pub(crate) code_lifetime: Duration,
    pub(crate) issues_refresh_tokens: bool,
    pub(crate) has_opaque_tokens: bool,
    pub(crate) needs_dpop_nonce: bool,
    pub(crate) grant_types: &'static [&'static str],
    pub(crate) has_user_info: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scopes: None,
            default_scopes: None,
            resources: Vec::new(),
            default_resource: None,
            access_token_lifetime: Duration::from_secs(5 * 60),
            refresh_token_lifetime: Duration::from_secs(8 * 60 * 60),
            code_lifetime: Duration::from_secs(60),
            issues_refresh_tokens: true,
            has_opaque_tokens: false,
            needs_dpop_nonce: false,
            grant_types: &["authorization_code", "refresh_token"],
            has_user_info: false,
        }
    }
}

/// An endpoint of an authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerEndpoint {
    Metadata,
    Keys,
    Authorize,
    Callback,
    Token,
    Register,
    Introspect,
    Revoke,
    DeviceAuthorization,
    Device,
    UserInfo,
}

/// The paths of the endpoints, below that of the issuer.
const ENDPOINTS: [(&str, ServerEndpoint); 10] = [
    ("/jwks", ServerEndpoint::Keys),
    ("/authorize", ServerEndpoint::Authorize),
    ("/callback", ServerEndpoint::Callback),
    ("/token", ServerEndpoint::Token),
    ("/register", ServerEndpoint::Register),
    ("/introspect", ServerEndpoint::Introspect),
    ("/revoke", ServerEndpoint::Revoke),
    ("/device_authorization", ServerEndpoint::DeviceAuthorization),
    ("/device", ServerEndpoint::Device),
    ("/userinfo", ServerEndpoint::UserInfo),
];

impl ServerEndpoint {
    /// Returns `true` if people use it with a browser. All others may be used by scripts of any origin.
    fn is_page(self) -> bool {
        matches!(self, Self::Authorize | Self::Callback | Self::Device)
    }
}

/// Error for an issuer that is not a valid URL.
#[derive(Debug, thiserror::Error)]
#[error("issuer {0:?}: not an http:// or https:// URL without query and fragment")]
pub(crate) struct InvalidIssuer(String);

/// An authorization server without its login.
pub(crate) struct Core {
    pub(crate) issuer: String,
    /// The path of the issuer, without a slash at the end.
    base: String,
    pub(crate) clock: Clock,
    pub(crate) clients: Clients,
    pub(crate) tokens: Tokens,
    pub(crate) codes: Codes,
    pub(crate) proofs: ProofCheck,
    pub(crate) replays: Mutex<Replays>,
    pub(crate) sessions: BrowserSessions,
    pub(crate) settings: Settings,
}

impl Core {
    pub(crate) fn new(
        issuer: String,
        clients: Clients,
        key: SigningKey,
        session_key: &[u8; 32],
        settings: Settings,
    ) -> Result<Self, InvalidIssuer> {
        let Some(url) = parse_issuer(&issuer) else { return Err(InvalidIssuer(issuer)) };
        Ok(Self {
            base: url.path().trim_end_matches('/').to_owned(),
            issuer,
            clock: Clock::default(),
            clients,
            tokens: Tokens::new(key),
            codes: Codes::new(),
            proofs: ProofCheck::new(settings.needs_dpop_nonce),
            replays: Mutex::new(Replays::new()),
            sessions: BrowserSessions::new(session_key, &url),
            settings,
        })
    }

    /// Returns the URL of a path below the issuer.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.issuer.trim_end_matches('/'))
    }

    /// Returns the URL of the metadata (RFC 8414): the well-known path comes before that of the issuer.
    pub(crate) fn metadata_url(&self) -> String {
        let origin = self.issuer.trim_end_matches('/').strip_suffix(&*self.base).unwrap_or(&self.issuer);
        format!("{origin}/.well-known/oauth-authorization-server{}", self.base)
    }

    /// Returns a path without that of the issuer.
    #[cfg(feature = "dev")]
    pub(crate) fn path_of<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(&*self.base).unwrap_or(path)
    }

    /// Returns the audiences for some resources.
    pub(crate) fn audiences(&self, resources: &[String]) -> Vec<String> {
        if resources.is_empty() {
            vec![self.settings.default_resource.clone().unwrap_or_else(|| self.issuer.clone())]
        } else {
            resources.to_vec()
        }
    }

    /// Returns `true` if an assertion with this audience is for this server.
    pub(crate) fn is_own_audience(&self, audience: &str) -> bool {
        audience.trim_end_matches('/') == self.issuer.trim_end_matches('/') || audience == self.url("/token")
    }

    /// Returns the endpoint for a path.
    pub(crate) fn endpoint(&self, path: &str) -> Option<ServerEndpoint> {
        let is_base = |rest: &str| rest.strip_suffix('/').unwrap_or(rest) == self.base;
        let is_metadata = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]
            .into_iter()
            .any(|prefix| path.strip_prefix(prefix).is_some_and(is_base));
        if is_metadata {
            return Some(ServerEndpoint::Metadata);
        }
        let below = path.strip_prefix(&*self.base)?;
        if below == "/.well-known/openid-configuration" {
            return Some(ServerEndpoint::Metadata);
        }
        ENDPOINTS.iter().find(|(own, _)| *own == below).map(|(_, endpoint)| *endpoint)
    }

    /// Responds to a request for an endpoint, with CORS headers where scripts may use it.
    pub(crate) async fn route<F>(
        &self,
        request: HttpRequest,
        handle: impl FnOnce(ServerEndpoint, HttpRequest) -> F,
    ) -> HttpResponse
    where
        F: Future<Output = HttpResponse>,
    {
        match self.endpoint(&request.path) {
            None => http::not_found(),
            Some(endpoint) if endpoint.is_page() => handle(endpoint, request).await,
            Some(_) if request.method == Method::OPTIONS => preflight(),
            Some(endpoint) => with_cors(handle(endpoint, request).await),
        }
    }

    /// Responds to requests for the endpoints that do not depend on the login.
    pub(crate) async fn respond(&self, endpoint: ServerEndpoint, request: &HttpRequest) -> HttpResponse {
        let is_get = matches!(request.method, Method::GET | Method::HEAD);
        let now = self.clock.now();
        let result = match endpoint {
            ServerEndpoint::Metadata if is_get => return document(&self.metadata()),
            ServerEndpoint::Keys if is_get => return document(&self.tokens.jwk_set()),
            ServerEndpoint::Metadata | ServerEndpoint::Keys => return method_not_allowed("GET"),
            ServerEndpoint::Register | ServerEndpoint::Introspect | ServerEndpoint::Revoke
                if request.method != Method::POST =>
            {
                return method_not_allowed("POST");
            }
            ServerEndpoint::Register => self.register(request, now),
            ServerEndpoint::Introspect => self.introspect(request, now).await,
            ServerEndpoint::Revoke => self.revoke(request, now).await,
            _ => return http::not_found(),
        };
        result.unwrap_or_else(Refusal::into_response)
    }

    fn register(&self, request: &HttpRequest, now: u64) -> Result<HttpResponse, Refusal> {
        if !self.clients.can_register() {
            return Ok(http::not_found());
        }
        if !request.has_media_type("application/json") {
            return Err(Refusal::new("invalid_client_metadata", "the content type is not application/json"));
        }
        let response = self.clients.register(&request.body, now)?;
        Ok(json_response(StatusCode::CREATED, &response))
    }

    /// Responds to an introspection (RFC 7662), which only confidential clients may use. Clients that have registered themselves see
    /// only their own tokens.
    async fn introspect(&self, request: &HttpRequest, now: u64) -> Result<HttpResponse, Refusal> {
        let form = request.form()?;
        let client = self.authenticate(request, &form, now).await?;
        let client = client.filter(|client| !client.is_public());
        let client =
            client.ok_or_else(|| Refusal::invalid_client("introspection needs a client with a secret or a key"))?;
        let is_visible = |claims: &Claims| {
            client.origin == ClientOrigin::Configured || text(claims, "client_id") == Some(&*client.id)
        };
        let body = match self.tokens.access_claims(form.required("token")?, now).filter(is_visible) {
            None => json!({ "active": false }),
            Some(mut claims) => {
                claims.insert("active".to_owned(), json!(true));
                let is_bound = claims.contains_key("cnf");
                claims.insert("token_type".to_owned(), json!(if is_bound { "DPoP" } else { "Bearer" }));
                Value::Object(claims)
            }
        };
        Ok(json_response(StatusCode::OK, &body))
    }

    /// Responds to a revocation (RFC 7009). Unknown tokens are no error.
    async fn revoke(&self, request: &HttpRequest, now: u64) -> Result<HttpResponse, Refusal> {
        let form = request.form()?;
        let client = self.authenticate(request, &form, now).await?;
        let client = client.ok_or_else(|| Refusal::invalid_client("the client_id is missing"))?;
        let token = form.required("token")?;
        if let Some((owner, family)) = self.tokens.owner(token, now) {
            if owner != client.id {
                return Err(Refusal::invalid_grant("the token was issued to another client"));
            }
            match family {
                Some(family) => self.tokens.revoke_family(&family, now),
                None => self.tokens.revoke_access(token, now),
            }
        }
        Ok(json_response(StatusCode::OK, &json!({})))
    }

    /// Returns the metadata: RFC 8414, with the members that OpenID Connect Discovery needs.
    fn metadata(&self) -> Value {
        let url = |path: &str| Some(self.url(path));
        let texts = |list: &[&str]| Some(list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        let algorithms = Some(Algorithm::ALL.iter().map(|algorithm| algorithm.as_str().to_owned()).collect::<Vec<_>>());
        let settings = &self.settings;
        let has = |grant: &str| settings.grant_types.contains(&grant);
        let metadata = AuthorizationServerMetadata {
            issuer: self.issuer.clone(),
            authorization_endpoint: url("/authorize"),
            token_endpoint: url("/token"),
            registration_endpoint: self.clients.can_register().then(|| self.url("/register")),
            jwks_uri: url("/jwks"),
            introspection_endpoint: url("/introspect"),
            revocation_endpoint: url("/revoke"),
            device_authorization_endpoint: has(DEVICE_CODE).then(|| self.url("/device_authorization")),
            userinfo_endpoint: settings.has_user_info.then(|| self.url("/userinfo")),
            scopes_supported: settings.scopes.clone().filter(|scopes| !scopes.is_empty()),
            response_types_supported: texts(&["code"]),
            grant_types_supported: texts(settings.grant_types),
            code_challenge_methods_supported: texts(&["S256"]),
            token_endpoint_auth_methods_supported: texts(&[
                "none",
                "client_secret_basic",
                "client_secret_post",
                "private_key_jwt",
            ]),
            token_endpoint_auth_signing_alg_values_supported: algorithms.clone(),
            authorization_response_iss_parameter_supported: Some(true),
            client_id_metadata_document_supported: Some(self.clients.accepts_documents()),
            dpop_signing_alg_values_supported: algorithms,
            authorization_grant_profiles_supported: has("urn:ietf:params:oauth:grant-type:jwt-bearer")
                .then(|| vec!["urn:ietf:params:oauth:grant-profile:id-jag".to_owned()]),
        };
        let mut metadata = serde_json::to_value(metadata).unwrap_or_default();
        metadata["subject_types_supported"] = json!(["public"]);
        metadata["id_token_signing_alg_values_supported"] = json!([self.tokens.key().algorithm()]);
        metadata["response_modes_supported"] = json!(["query"]);
        metadata
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

fn parse_issuer(issuer: &str) -> Option<Url> {
    let url = Url::parse(issuer).ok()?;
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.host().is_some();
    (is_plain && matches!(url.scheme(), "http" | "https")).then_some(url)
}

/// Creates the default key for tokens.
pub(crate) fn default_key() -> SigningKey {
    SigningKey::generate(Algorithm::Es256).expect("keys for ES256 can be created")
}

/// Creates a random key.
pub(crate) fn random_key() -> [u8; 32] {
    random_bytes()
}
