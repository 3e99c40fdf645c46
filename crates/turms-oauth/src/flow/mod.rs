//! The steps of each flow as functions.

mod code;
mod credentials;
mod device;
mod enterprise;
mod revocation;
mod token;

pub use self::code::{AuthorizationRequest, Callback, CodeExchange, authorization_url, check_callback, exchange_code};
pub use self::credentials::{client_credentials, jwt_bearer, refresh};
pub use self::device::{DevicePoll, device_authorization, device_token, wait_for_device_token};
pub use self::enterprise::{IdTokenExchange, exchange_id_token};
pub use self::revocation::{TokenKind, revoke};
pub use self::token::TokenParameters;
