//! Enterprise-managed authorization: an ID token is exchanged for an assertion (ID-JAG).

use super::credentials::with_scope;
use super::token::{TokenParameters, TokenRequest, invalid_token};
use crate::client_auth::ClientIdentity;
use crate::error::OAuthError;
use crate::fetch::{FetchStep, Fetcher};
use crate::metadata::AuthorizationServerMetadata;
use crate::secret::Secret;

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Parameters of [`exchange_id_token`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IdTokenExchange {
    /// The ID token of the person, issued by the identity provider.
    pub id_token: Secret,
    /// The issuer of the authorization server of the MCP server.
    pub audience: String,
}

impl IdTokenExchange {
    /// Creates the parameters to exchange an ID token for an assertion, which `audience` accepts.
    pub fn new(id_token: impl Into<Secret>, audience: impl Into<String>) -> Self {
        Self { id_token: id_token.into(), audience: audience.into() }
    }
}

/// Exchanges an ID token at the identity provider of an enterprise for an assertion (ID-JAG, RFC 8693), which
/// [`jwt_bearer`](super::jwt_bearer) sends to the authorization server of the MCP server.
///
/// `provider` is the metadata of the identity provider, and `client` the identity there. `parameters`
/// must have the resource, which the assertion then names.
///
/// ```no_run
/// use turms_oauth::{
///     AuthorizationServerMetadata, ClientIdentity, Fetcher, IdTokenExchange, OAuthError, Secret, TokenParameters,
///     exchange_id_token, jwt_bearer,
/// };
///
/// # async fn example(
/// #     fetcher: &Fetcher, metadata: &AuthorizationServerMetadata, id_token: Secret,
/// # ) -> Result<(), OAuthError> {
/// let provider = AuthorizationServerMetadata::new("https://idp.example.com", "https://idp.example.com/token");
/// let parameters = TokenParameters::new().resource("https://notes.example.com/mcp");
/// let exchange = IdTokenExchange::new(id_token.expose(), &metadata.issuer);
/// let employee = ClientIdentity::public("agent-at-idp");
/// let assertion = exchange_id_token(fetcher, &provider, &employee, &exchange, &parameters).await?;
///
/// let client = ClientIdentity::with_secret("agent", "s3cr3t");
/// let tokens = jwt_bearer(fetcher, metadata, Some(&client), &assertion, &parameters).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the request fails, the identity provider rejects it, or the result is not an ID-JAG.
pub async fn exchange_id_token(
    fetcher: &Fetcher,
    provider: &AuthorizationServerMetadata,
    client: &ClientIdentity,
    exchange: &IdTokenExchange,
    parameters: &TokenParameters<'_>,
) -> Result<Secret, OAuthError> {
    const STEP: FetchStep = FetchStep::IdentityProvider;
    let request = TokenRequest { fetcher, metadata: provider, client: Some(client), step: STEP, parameters };
    let grant = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", ID_JAG),
        ("subject_token", exchange.id_token.expose()),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", &exchange.audience),
    ];
    // Unchecked, because `token_type` is `N_A`: the result is not an access token.
    let (response, token) = request.send_unchecked(&with_scope(&grant, parameters)).await?;
    if token.issued_token_type.as_deref() != Some(ID_JAG) {
        return Err(invalid_token(&response, STEP, "its `issued_token_type` is not that of an ID-JAG"));
    }
    Ok(token.access_token)
}
