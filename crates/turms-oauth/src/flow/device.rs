//! The device flow (RFC 8628): a person enters a code on another device.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::credentials::with_scope;
use super::token::{TokenParameters, TokenRequest};
use crate::client_auth::ClientIdentity;
use crate::error::{OAuthError, OAuthErrorKind};
use crate::fetch::{FetchStep, Fetcher};
use crate::metadata::{AuthorizationServerMetadata, DeviceAuthorization, OAuthErrorResponse, TokenResponse, is_hidden};
use crate::secret::Secret;

/// Interval between two requests, if the server does not name one; and its increase when the server asks to slow down.
const INTERVAL: Duration = Duration::from_secs(5);

/// Lifetime of codes, if the server does not name one.
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Obtains the codes of a device login. Show `verification_uri` and `user_code` to the person, then call
/// [`wait_for_device_token`].
///
/// ```no_run
/// use turms_oauth::{
///     AuthorizationServerMetadata, ClientIdentity, Fetcher, OAuthError, TokenParameters, device_authorization,
///     wait_for_device_token,
/// };
///
/// # async fn example(fetcher: &Fetcher, metadata: &AuthorizationServerMetadata) -> Result<(), OAuthError> {
/// let client = ClientIdentity::public("notes-agent");
/// let parameters = TokenParameters::new().scope("notes:read").resource("https://notes.example.com/mcp");
/// let device = device_authorization(fetcher, metadata, &client, &parameters).await?;
/// println!("open {} and enter {}", device.verification_uri, device.user_code);
/// let tokens = wait_for_device_token(fetcher, metadata, &client, &device, &parameters).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the server has no endpoint for it or rejects the request, or the URL for the person is not one that the fetcher may reach.
pub async fn device_authorization(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    client: &ClientIdentity,
    parameters: &TokenParameters<'_>,
) -> Result<DeviceAuthorization, OAuthError> {
    const STEP: FetchStep = FetchStep::DeviceAuthorization;
    let endpoint = metadata.device_authorization_endpoint.as_deref();
    let endpoint = endpoint.ok_or_else(|| metadata.lacks("device authorization endpoint"))?;
    let request = TokenRequest { fetcher, metadata, client: Some(client), step: STEP, parameters };
    let resource = parameters.resource.map(|resource| ("resource", resource));
    let fields: Vec<_> = with_scope(&[], parameters).into_iter().chain(resource).collect();
    let mut device: DeviceAuthorization = request.post(endpoint, &fields, None).await?.json()?;
    fetcher.check(STEP, &device.verification_uri)?;
    device.verification_uri_complete.take_if(|url| fetcher.check(STEP, url).is_err());
    if device.user_code.is_empty() || device.user_code.len() > 64 || device.user_code.contains(is_hidden) {
        return Err(OAuthError::metadata(STEP, "`user_code` cannot be shown"));
    }
    Ok(device)
}

/// The state of a device login.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DevicePoll {
    /// The login is complete.
    Complete(TokenResponse),
    /// The person has not finished.
    Pending,
    /// The person has not finished, and the interval must grow by 5 s.
    SlowDown,
}

/// Asks once for the token of a device login. [`wait_for_device_token`] asks until there is one.
///
/// ```no_run
/// use turms_oauth::{
///     AuthorizationServerMetadata, ClientIdentity, DevicePoll, Fetcher, OAuthError, Secret, TokenParameters, device_token,
/// };
///
/// # async fn example(
/// #     fetcher: &Fetcher, metadata: &AuthorizationServerMetadata, device_code: &Secret,
/// # ) -> Result<(), OAuthError> {
/// let client = ClientIdentity::public("notes-agent");
/// match device_token(fetcher, metadata, &client, device_code, &TokenParameters::new()).await? {
///     DevicePoll::Complete(tokens) => println!("logged in"),
///     _ => println!("ask again later"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the request fails, the person denies the login ([`is_denied`](OAuthError::is_denied)), or the codes have expired
/// ([`is_expired`](OAuthError::is_expired)).
pub async fn device_token(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    client: &ClientIdentity,
    device_code: &Secret,
    parameters: &TokenParameters<'_>,
) -> Result<DevicePoll, OAuthError> {
    let request = TokenRequest { fetcher, metadata, client: Some(client), step: FetchStep::Token, parameters };
    let grant = [("grant_type", "urn:ietf:params:oauth:grant-type:device_code"), ("device_code", device_code.expose())];
    match request.send(&grant).await {
        Ok(tokens) => Ok(DevicePoll::Complete(tokens)),
        Err(error) => match error.error_response().map(|response| &*response.error) {
            Some("authorization_pending") => Ok(DevicePoll::Pending),
            Some("slow_down") => Ok(DevicePoll::SlowDown),
            _ => Err(error),
        },
    }
}

/// Waits until a person has completed a device login. Asks in the interval of the server (5 s if it names none), more slowly if the
/// server says so or does not respond, and until the codes expire (15 min if the server names no lifetime).
///
/// # Errors
/// When the server rejects the request, the person denies the login ([`is_denied`](OAuthError::is_denied)), or the codes have expired
/// ([`is_expired`](OAuthError::is_expired)).
pub async fn wait_for_device_token(
    fetcher: &Fetcher,
    metadata: &AuthorizationServerMetadata,
    client: &ClientIdentity,
    device: &DeviceAuthorization,
    parameters: &TokenParameters<'_>,
) -> Result<TokenResponse, OAuthError> {
    let mut interval = device.interval.unwrap_or(INTERVAL).clamp(Duration::from_secs(1), LIFETIME);
    let end = Instant::now() + device.expires_in.unwrap_or(LIFETIME).min(LIFETIME * 4);
    while Instant::now() + interval <= end {
        sleep(interval).await;
        match device_token(fetcher, metadata, client, &device.device_code, parameters).await {
            Ok(DevicePoll::Complete(tokens)) => return Ok(tokens),
            Ok(DevicePoll::Pending) => {}
            Ok(DevicePoll::SlowDown) => interval += INTERVAL,
            // RFC 8628, 3.5: exponential backoff after a connection timeout.
            Err(error) if error.is_transient() => interval = (interval * 2).min(Duration::from_secs(60)).max(interval),
            Err(error) => return Err(error),
        }
    }
    let error = OAuthErrorResponse::new("expired_token", "the login was not completed in time");
    Err(OAuthError::new(OAuthErrorKind::Callback(error)))
}
