//! The benchmark server behind a token guard: `turms-bench-guarded http PORT` for `/mcp` on 127.0.0.1. `BENCH_KEYS` has the keys of the
//! issuer. `turms-bench-guarded token` prints new keys and a token, as lines for the environment: `BENCH_KEYS=..` and `BENCH_TOKEN=..`.
#![expect(clippy::print_stdout, reason = "the token is for the caller")]
#![expect(clippy::disallowed_methods, reason = "tokens expire at a time of day")]

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use turms::http::{Listener, ServeHttp as _};
use turms_oauth::{Algorithm, Issuer, JwkSet, SigningKey, TokenGuard};

const ISSUER: &str = "https://auth.example.com";
const RESOURCE: &str = "https://bench.example.com/mcp";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("token"), None) => print_token(),
        (Some("http"), Some(port)) => {
            let keys: JwkSet = serde_json::from_str(&std::env::var("BENCH_KEYS")?)?;
            let guard =
                TokenGuard::builder(RESOURCE).issuer(Issuer::keys(ISSUER, keys)).scopes(["bench:call"]).build()?;
            let service = turms_bench_server::from_environment().into_http_service()?.guard(guard);
            Ok(Listener::bind(format!("127.0.0.1:{port}")).await?.serve(service).await?)
        }
        _ => Err("usage: turms-bench-guarded token | http PORT".into()),
    }
}

/// Prints keys, and a token of the size that common providers issue.
fn print_token() -> Result<(), Box<dyn Error>> {
    let key = SigningKey::generate(Algorithm::Es256)?.key_id("bench");
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let claims = json!({
        "iss": ISSUER, "aud": RESOURCE, "sub": "7d1c7e0a-3f5a-4a55-9a53-5f1b1f0f6a11", "client_id": "bench-client",
        "scope": "openid profile email bench:call", "iat": now, "exp": now + 24 * 60 * 60, "jti": "b1b2b3b4-c5c6-d7d8-e9e0-f1f2f3f4f5f6",
        "name": "Ann Example", "email": "ann@example.com", "tenant": "4ff7e2a0-52ce-4b1a-a3f2-52cb9a36b2c0",
        "roles": ["reader", "writer", "administrator"],
    });
    println!("BENCH_KEYS={}", serde_json::to_string(&JwkSet::new([key.public_jwk()]))?);
    println!("BENCH_TOKEN={}", key.sign(&[("typ", json!("at+jwt"))], &claims));
    Ok(())
}
