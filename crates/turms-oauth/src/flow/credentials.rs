//! Grants without a person: refresh tokens, client credentials, and signed assertions.

use super::token::{TokenParameters, TokenRequest};
use crate::client_auth::ClientIdentity;
use crate::error::OAuthError;
use crate::fetch::{FetchStep, Fetcher};
use crate::metadata::{AuthorizationServerMetadata, TokenResponse};
use crate::secret::Secret;

/// Obtains tokens with a refresh token. If the response has no new refresh token, the result has the old one.
///
/// The request has no scope: the tokens have those of the login.
///
/// ```no_run
/// use turms_oauth::{AuthorizationServerMetadata, ClientIdentity, Fetcher, OAuthError, Secret, TokenParameters, refresh};
///
/// # async fn example(
/// #     fetcher: &Fetcher, metadata: &AuthorizationServerMetadata, refresh_token: &Secret,
/// # ) -> Result<(), OAuthError> {
/// let client = ClientIdentity::public("notes-agent");
/// let parameters = TokenParameters::new().resource("https://notes.example.com/mcp");
/// let tokens = refresh(fetcher, metadata, &client, refresh_token, &parameters).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the request fails, or the server rejects the refresh token
/// ([`is_invalid_grant`](OAuthError::is_invalid_grant)).
#[doc(alias = "refresh_token")]
pub async fn refresh(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    client: &ClientIdentity,
    refresh_token: &Secret,
    parameters: &TokenParameters<'_>,
) -> Result<TokenResponse, OAuthError> {
    let request = TokenRequest { fetcher, metadata, client: Some(client), step: FetchStep::Token, parameters };
    let grant = [("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
    let mut tokens = request.send(&grant).await?;
    if tokens.refresh_token.as_ref().is_none_or(Secret::is_empty) {
        tokens.refresh_token = Some(refresh_token.clone());
    }
    Ok(tokens)
}

/// Obtains a token for the client itself.
///
/// ```no_run
/// use turms_oauth::{AuthorizationServerMetadata, ClientIdentity, Fetcher, OAuthError, TokenParameters, client_credentials};
///
/// # async fn example(fetcher: &Fetcher, metadata: &AuthorizationServerMetadata) -> Result<(), OAuthError> {
/// let client = ClientIdentity::with_secret("robot", "s3cr3t");
/// let parameters = TokenParameters::new().scope("notes:read").resource("https://notes.example.com/mcp");
/// let token = client_credentials(fetcher, metadata, &client, &parameters).await?.access_token;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the request fails, or the server rejects it.
#[doc(alias = "client_credentials_flow")]
pub async fn client_credentials(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    client: &ClientIdentity,
    parameters: &TokenParameters<'_>,
) -> Result<TokenResponse, OAuthError> {
    let request = TokenRequest { fetcher, metadata, client: Some(client), step: FetchStep::Token, parameters };
    request.send(&with_scope(&[("grant_type", "client_credentials")], parameters)).await
}

/// Obtains a token with a signed assertion (RFC 7523): the token of [`exchange_id_token`](super::exchange_id_token), or the token that
/// a platform gives to a workload. The assertion is sent once; after an error it is not tried again.
///
/// ```no_run
/// use turms_oauth::{AuthorizationServerMetadata, Fetcher, OAuthError, Secret, TokenParameters, jwt_bearer};
///
/// # async fn example(
/// #     fetcher: &Fetcher, metadata: &AuthorizationServerMetadata, workload_token: &Secret,
/// # ) -> Result<(), OAuthError> {
/// let parameters = TokenParameters::new().resource("https://notes.example.com/mcp");
/// let tokens = jwt_bearer(fetcher, metadata, None, workload_token, &parameters).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the request fails, or the server rejects the assertion.
pub async fn jwt_bearer(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    client: Option<&ClientIdentity>,
    assertion: &Secret,
    parameters: &TokenParameters<'_>,
) -> Result<TokenResponse, OAuthError> {
    let request = TokenRequest { fetcher, metadata, client, step: FetchStep::Token, parameters };
    let grant = [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", assertion.expose())];
    request.send(&with_scope(&grant, parameters)).await
}

/// Adds the scope to the fields of a grant.
pub(super) fn with_scope<'a>(
    grant: &[(&'a str, &'a str)],
    parameters: &TokenParameters<'a>,
) -> Vec<(&'a str, &'a str)> {
    let scope = parameters.scope.map(|scope| ("scope", scope));
    grant.iter().copied().chain(scope).collect()
}
