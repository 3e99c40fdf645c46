//! The authorizer for the scenarios `auth/*`.

use std::error::Error;

use bytes::Bytes;
use http::header::LOCATION;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use turms::oauth::{
    Algorithm, ClientCredentials, ClientIdentity, Enterprise, Fetcher, Login, LoginPrompt, OAuth, SigningKey, Workload,
    discover,
};

/// The client id that the suite expects where client ID metadata documents are supported. The suite does not fetch it.
const CLIENT_METADATA: &str = "https://conformance-test.local/client-metadata.json";

/// Returns the authorizer for a scenario with the MCP server at this address.
pub(crate) async fn authorizer(scenario: &str, address: &str) -> Result<OAuth, Box<dyn Error>> {
    let oauth = OAuth::new("turms-conformance").login(Login::with(follow_redirect)).no_proxy();
    if scenario == "auth/basic-cimd" {
        return Ok(oauth.client_metadata(CLIENT_METADATA));
    }
    match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(context) => serde_json::from_str::<Context>(&context)?.configure(oauth, address).await,
        Err(_) => Ok(oauth),
    }
}

/// Opens the authorization URL and returns the URL that it redirects to, without user interaction.
async fn follow_redirect(prompt: LoginPrompt) -> Result<String, Box<dyn Error + Send + Sync>> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let response = client.get(prompt.url.as_str().parse()?).await?;
    let location = response.headers().get(LOCATION);
    let location = location.ok_or_else(|| format!("the authorization endpoint responds with {}", response.status()))?;
    Ok(location.to_str()?.to_owned())
}

/// The credentials that the suite provides for a scenario.
#[derive(Deserialize)]
#[serde(tag = "name")]
enum Context {
    #[serde(rename = "auth/pre-registration")]
    PreRegistration {
        client_id: String,
        client_secret: String,
        /// Only in newer versions of the suite.
        issuer: Option<String>,
    },
    #[serde(rename = "auth/client-credentials-basic")]
    ClientSecret { client_id: String, client_secret: String },
    #[serde(rename = "auth/client-credentials-jwt")]
    ClientKey { client_id: String, private_key_pem: String, signing_algorithm: String },
    #[serde(rename = "auth/enterprise-managed-authorization", alias = "auth/cross-app-access-complete-flow")]
    Enterprise {
        client_id: String,
        client_secret: String,
        idp_client_id: String,
        idp_id_token: String,
        idp_issuer: String,
        idp_token_endpoint: String,
    },
    #[serde(rename = "auth/wif-jwt-bearer")]
    Workload { client_id: String, valid_jwt: String },
}

impl Context {
    async fn configure(self, oauth: OAuth, address: &str) -> Result<OAuth, Box<dyn Error>> {
        Ok(match self {
            Self::PreRegistration { client_id, client_secret, issuer } => {
                let issuer = match issuer {
                    Some(issuer) => issuer,
                    None => issuer_of(address).await?,
                };
                oauth.client(issuer, ClientIdentity::with_secret(client_id, client_secret))
            }
            Self::ClientSecret { client_id, client_secret } => {
                oauth.grant(ClientCredentials::secret(client_id, client_secret))
            }
            Self::ClientKey { client_id, private_key_pem, signing_algorithm } => {
                let algorithm = Algorithm::from_name(&signing_algorithm);
                oauth.grant(ClientCredentials::key(client_id, SigningKey::from_pem(private_key_pem, algorithm)?))
            }
            Self::Enterprise {
                client_id,
                client_secret,
                idp_client_id,
                idp_id_token,
                idp_issuer,
                idp_token_endpoint,
            } => oauth.grant(
                Enterprise::new(idp_issuer, idp_id_token)
                    .token_endpoint(idp_token_endpoint)
                    .identity_provider_client(ClientIdentity::public(idp_client_id))
                    .client(client_id, client_secret),
            ),
            Self::Workload { client_id, valid_jwt } => oauth.grant(Workload::token(valid_jwt).client(client_id)),
        })
    }
}

/// Returns the issuer that the MCP server names.
async fn issuer_of(address: &str) -> Result<String, Box<dyn Error>> {
    let server = address.parse()?;
    Ok(discover(&Fetcher::for_server(&server).no_proxy(), &server, None, None).await?.server.issuer)
}
