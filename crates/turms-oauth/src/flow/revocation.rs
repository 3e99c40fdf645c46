//! Revocation of tokens (RFC 7009).

use super::token::{TokenParameters, TokenRequest};
use crate::client_auth::ClientIdentity;
use crate::error::OAuthError;
use crate::fetch::{FetchStep, Fetcher};
use crate::metadata::AuthorizationServerMetadata;
use crate::secret::Secret;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenKind {
    /// An access token.
    Access,
    /// A refresh token. Most servers then also revoke the access tokens of the login.
    Refresh,
}

/// Revokes a token. A token that the server does not know counts as revoked.
///
/// ```no_run
/// use turms_oauth::{AuthorizationServerMetadata, ClientIdentity, Fetcher, OAuthError, Secret, TokenKind, revoke};
///
/// # async fn example(
/// #     fetcher: &Fetcher, metadata: &AuthorizationServerMetadata, refresh_token: &Secret,
/// # ) -> Result<(), OAuthError> {
/// let client = ClientIdentity::public("notes-agent");
/// revoke(fetcher, metadata, &client, refresh_token, TokenKind::Refresh).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the server has no endpoint for it, or the request fails.
#[doc(alias = "revoke_token")]
pub async fn revoke(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    client: &ClientIdentity,
    token: &Secret,
    kind: TokenKind,
) -> Result<(), OAuthError> {
    let endpoint = metadata.revocation_endpoint.as_deref();
    let endpoint = endpoint.ok_or_else(|| metadata.lacks("revocation endpoint"))?;
    let parameters = &TokenParameters::new();
    let request = TokenRequest { fetcher, metadata, client: Some(client), step: FetchStep::Revocation, parameters };
    let hint = match kind {
        TokenKind::Access => "access_token",
        TokenKind::Refresh => "refresh_token",
    };
    let fields = [("token", token.expose()), ("token_type_hint", hint)];
    request.post(endpoint, &fields, None).await?;
    Ok(())
}
