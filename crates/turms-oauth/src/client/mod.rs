//! Logins of clients: the credentials for requests to each server, and how they are obtained and renewed.

mod ask_person;
mod authorizer;
mod current_token;
mod grant;
mod layer;
mod oauth;
mod obtain;
mod refresh;
mod server_login;

pub use self::grant::{ClientCredentials, Enterprise, Grant, Workload};
pub use self::layer::{OAuthLayer, OAuthService};
pub use self::oauth::{Dpop, LoginStatus, OAuth, ResourceParameter};
