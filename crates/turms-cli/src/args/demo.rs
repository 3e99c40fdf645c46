use clap::Args;

/// Environment variable with the secret for introspection.
const AUTH_CLIENT_SECRET: &str = "TURMS_AUTH_CLIENT_SECRET";

/// `demo`
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) transport: DemoTransport,
    #[command(flatten)]
    pub(crate) auth: DemoAuthArgs,
}

/// The transport of the demo server.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct DemoTransport {
    /// Serve over standard input and output
    #[arg(long)]
    pub(crate) stdio: bool,
    /// Serve over Streamable HTTP on HOST:PORT, or on PORT of 127.0.0.1
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// Serve over WebSocket on HOST:PORT or PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ws: Option<String>,
    /// Serve over HTTP+SSE, the transport of 2024-11-05, on HOST:PORT or PORT
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) sse: Option<String>,
}

/// Authorization of the demo server.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Authorization")]
pub(crate) struct DemoAuthArgs {
    /// Require a login, and start an authorization server for development with the demo. Not for production
    #[arg(long)]
    pub(crate) auth: bool,
    /// With --auth: log this user in without a login page
    #[arg(long, value_name = "NAME")]
    pub(crate) auth_user: Option<String>,
    /// Accept the signed tokens of this issuer; its keys are found in its metadata. Can be repeated
    #[arg(long, value_name = "URL")]
    pub(crate) auth_issuer: Vec<String>,
    /// URL of the keys of the issuer, if it has no metadata. If repeated, the first one is for the first issuer, and so on
    #[arg(long, value_name = "URL")]
    pub(crate) auth_jwks: Vec<String>,
    /// Accept the tokens that this introspection endpoint knows
    #[arg(long, value_name = "URL")]
    pub(crate) auth_introspect: Option<String>,
    /// Client id for introspection
    #[arg(long, value_name = "ID")]
    pub(crate) auth_client: Option<String>,
    /// Client secret for introspection; `@FILE` reads it from a file
    #[arg(long, value_name = "SECRET", env = AUTH_CLIENT_SECRET, hide_env_values = true, allow_hyphen_values = true)]
    pub(crate) auth_client_secret: Option<String>,
    /// URL of the demo server for clients, which is the audience of tokens [default: the URL that it listens on]
    #[arg(long, value_name = "URL")]
    pub(crate) auth_resource: Option<String>,
    /// Another audience to accept, for issuers that cannot issue tokens for the URL
    #[arg(long, value_name = "AUDIENCE")]
    pub(crate) auth_audience: Vec<String>,
    /// Scope that every request needs [default: demo, with --auth]
    #[arg(long, value_name = "SCOPE")]
    pub(crate) auth_scope: Vec<String>,
    /// Scope that a tool needs [default: divide=demo:divide, with --auth]
    #[arg(long, value_name = "TOOL=SCOPE")]
    pub(crate) auth_tool_scope: Vec<String>,
}
