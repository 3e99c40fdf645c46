//! Verifies signed tokens with `jsonwebtoken`: `turms-peer-jwt`. Reads a job from standard input: keys, issuer, audience, algorithms,
//! leeway and tokens. Prints a list of errors, one for each token; an accepted one has the empty text.

use std::error::Error;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Job {
    keys: JwkSet,
    issuer: String,
    audience: String,
    algorithms: Vec<Algorithm>,
    leeway: u64,
    tokens: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let job: Job = serde_json::from_reader(std::io::stdin().lock())?;
    let error = |token: &String| verify(&job, token).err().map(|error| error.to_string()).unwrap_or_default();
    let errors: Vec<String> = job.tokens.iter().map(error).collect();
    println!("{}", serde_json::to_string(&errors)?);
    Ok(())
}

fn verify(job: &Job, token: &str) -> Result<(), Box<dyn Error>> {
    let kid = decode_header(token)?.kid.ok_or("no key id")?;
    let jwk = job.keys.find(&kid).ok_or("unknown key")?;
    let algorithm = jwk.common.key_algorithm.ok_or("the key has no algorithm")?.to_string().parse()?;
    if !job.algorithms.contains(&algorithm) {
        return Err("the algorithm of the key is not accepted".into());
    }
    let mut validation = Validation::new(algorithm);
    validation.leeway = job.leeway;
    validation.validate_nbf = true;
    validation.set_issuer(&[&job.issuer]);
    validation.set_audience(&[&job.audience]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    decode::<Value>(token, &DecodingKey::from_jwk(jwk)?, &validation)?;
    Ok(())
}
