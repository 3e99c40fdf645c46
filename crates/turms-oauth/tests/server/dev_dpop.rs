//! Proofs of possession at the development server.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use turms_oauth::dev::{DevClient, DevServer, DevServerBuilder};
use turms_oauth::{Algorithm, DpopKey, SigningKey};
use url::Url;

use crate::agent::{Agent, Answer, Login, decode};

fn builder() -> DevServerBuilder {
    DevServer::builder()
        .client(DevClient::public("app").redirect_uri("http://127.0.0.1/callback"))
        .auto_approve("alice")
}

fn proof(key: &DpopKey, server: &DevServer, path: &str, method: &Method, token: Option<&str>) -> String {
    let url = Url::parse(&server.url(path)).unwrap();
    key.proof(method, &url, token, key.nonce(&url).as_deref())
}

async fn redeem(agent: &mut Agent, server: &DevServer, proof: Option<&str>, jkt: &str) -> Answer {
    let login = Login::new("app").with("dpop_jkt", jkt);
    let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    let headers: Vec<(&str, &str)> = proof.map(|proof| ("dpop", proof)).into_iter().collect();
    agent.post_with(server.url("/token"), &login.exchange(&code), &headers).await
}

#[tokio::test]
async fn tokens_are_bound_to_the_key_of_the_proof() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let (mut agent, key) = (Agent::new(), DpopKey::generate());
    let post = |key: &DpopKey| proof(key, &server, "/token", &Method::POST, None);
    let tokens = redeem(&mut agent, &server, Some(&post(&key)), "").await.ok();
    assert_eq!(tokens["token_type"], "DPoP");
    let access = tokens["access_token"].as_str().unwrap();
    assert_eq!(decode(access).1["cnf"]["jkt"], key.thumbprint());

    let info = async |scheme: &str, proof: Option<String>| {
        let authorization = format!("{scheme} {access}");
        let mut headers = vec![("authorization", &*authorization)];
        headers.extend(proof.as_deref().map(|proof| ("dpop", proof)));
        Agent::new().send(Method::GET, &server.url("/userinfo"), &headers, bytes::Bytes::new()).await.status
    };
    let get = |key: &DpopKey| Some(proof(key, &server, "/userinfo", &Method::GET, Some(access)));
    assert_eq!(info("DPoP", get(&key)).await, 200);
    assert_eq!(info("DPoP", get(&DpopKey::generate())).await, 401, "another key");
    assert_eq!(info("DPoP", None).await, 401);
    assert_eq!(info("Bearer", None).await, 401);
    assert_eq!(info("Bearer", get(&key)).await, 401);

    let refresh = tokens["refresh_token"].as_str().unwrap();
    let form = [("grant_type", "refresh_token"), ("client_id", "app"), ("refresh_token", refresh)];
    let url = server.url("/token");
    assert_eq!(agent.post(&url, &form).await.error().1, "invalid_grant", "no proof");
    let other = post(&DpopKey::generate());
    assert_eq!(agent.post_with(&url, &form, &[("dpop", &other)]).await.error().1, "invalid_grant", "another key");
    agent.post_with(&url, &form, &[("dpop", &post(&key))]).await.ok();
}

#[tokio::test]
async fn invalid_proofs_are_refused() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let (mut agent, key) = (Agent::new(), SigningKey::generate(Algorithm::Es256).unwrap());
    let now = decode(&server.mint(json!({}))).1["iat"].as_u64().unwrap();
    let make = |kind: &str, changes: Value| {
        let mut claims = json!({"jti": changes.to_string(), "htm": "POST", "htu": server.url("/token"), "iat": now});
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        key.sign(&[("typ", json!(kind)), ("jwk", json!(key.bare_jwk()))], &claims)
    };
    let good = make("dpop+jwt", json!({}));
    redeem(&mut agent, &server, Some(&good), "").await.ok();
    let unsigned_key = key.sign(
        &[("typ", json!("dpop+jwt"))],
        &json!({"jti": "9", "htm": "POST", "htu": server.url("/token"), "iat": now}),
    );
    let other = SigningKey::generate(Algorithm::Es256).unwrap();
    let swapped = other.sign(
        &[("typ", json!("dpop+jwt")), ("jwk", json!(key.bare_jwk()))],
        &json!({"jti": "10", "htm": "POST", "htu": server.url("/token"), "iat": now}),
    );
    for (proof, problem) in [
        (good, "used before"),
        (make("JWT", json!({"jti": "1"})), "type"),
        (make("dpop+jwt", json!({"htm": "GET"})), "method"),
        (make("dpop+jwt", json!({"htu": server.url("/revoke")})), "URL"),
        (make("dpop+jwt", json!({"iat": now - 400})), "too old"),
        (make("dpop+jwt", json!({"iat": now + 400})), "in the future"),
        (make("dpop+jwt", json!({"iat": null})), "without time"),
        (make("dpop+jwt", json!({"jti": null})), "without id"),
        (make("dpop+jwt", json!({"ath": "x"})), "for a token"),
        (unsigned_key, "without key"),
        (swapped, "signed by another key"),
        ("x".to_owned(), "not a token"),
    ] {
        let answer = redeem(&mut agent, &server, Some(&proof), "").await;
        assert_eq!(answer.error(), (400, "invalid_dpop_proof".to_owned()), "{problem}");
    }
}

#[tokio::test]
async fn a_code_can_be_bound_to_a_key() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let (mut agent, key) = (Agent::new(), DpopKey::generate());
    let post = |key: &DpopKey| proof(key, &server, "/token", &Method::POST, None);
    let jkt = key.thumbprint().to_owned();
    assert_eq!(redeem(&mut agent, &server, None, &jkt).await.error().1, "invalid_grant");
    let other = post(&DpopKey::generate());
    assert_eq!(redeem(&mut agent, &server, Some(&other), &jkt).await.error().1, "invalid_grant");
    redeem(&mut agent, &server, Some(&post(&key)), &jkt).await.ok();
}

#[tokio::test]
async fn nonces_are_required_if_configured() {
    let server = builder().dpop_nonces(true).bind("127.0.0.1:0").await.unwrap();
    let (mut agent, key) = (Agent::new(), DpopKey::generate());
    let url = Url::parse(&server.url("/token")).unwrap();
    let post = |nonce: Option<&str>| key.proof(&Method::POST, &url, None, nonce);
    let first = redeem(&mut agent, &server, Some(&post(None)), "").await;
    assert_eq!(first.error(), (400, "use_dpop_nonce".to_owned()));
    let nonce = first.header("dpop-nonce").to_owned();
    redeem(&mut agent, &server, Some(&post(Some(&nonce))), "").await.ok();
    let (time, code) = nonce.split_once('.').unwrap();
    let forged = format!("{}.{code}", time.parse::<u64>().unwrap() + 1);
    assert_eq!(redeem(&mut agent, &server, Some(&post(Some(&forged))), "").await.error().1, "use_dpop_nonce");
    // The time of the proof is that of this machine, so the server may be ahead by less than the window.
    server.advance(Duration::from_secs(290));
    let second = redeem(&mut agent, &server, Some(&post(Some(&nonce))), "").await;
    let fresh = second.header("dpop-nonce").to_owned();
    second.ok();
    assert_ne!(fresh, nonce, "each response has a current nonce");
}

#[tokio::test]
async fn a_proof_is_used_once_and_those_of_refused_requests_are_not_remembered() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let (mut agent, key) = (Agent::new(), DpopKey::generate());
    let proof = proof(&key, &server, "/token", &Method::POST, None);
    // Anyone can send such requests. If they were remembered, they would fill the memory for the proofs of others.
    let guess = [("grant_type", "authorization_code"), ("client_id", "app"), ("code", "x")];
    for _ in 0..3 {
        let refused = agent.post_with(server.url("/token"), &guess, &[("dpop", &proof)]).await;
        assert_eq!(refused.error().1, "invalid_grant");
    }
    redeem(&mut agent, &server, Some(&proof), "").await.ok();
    assert_eq!(redeem(&mut agent, &server, Some(&proof), "").await.error().1, "invalid_dpop_proof");
    let refused = agent.post_with(server.url("/token"), &guess, &[("dpop", &proof)]).await;
    assert_eq!(refused.error().1, "invalid_dpop_proof");
    assert_eq!(redeem(&mut agent, &server, Some(&proof), "").await.error().1, "invalid_dpop_proof", "it stays used");
}

#[tokio::test]
async fn a_nonce_is_accepted_for_five_minutes() {
    let server = builder().dpop_nonces(true).bind("127.0.0.1:0").await.unwrap();
    let (mut agent, url) = (Agent::new(), Url::parse("http://nonces.example/").unwrap());
    let nonces = DpopKey::generate();
    let first = redeem(&mut agent, &server, Some(&proof(&nonces, &server, "/token", &Method::POST, None)), "").await;
    assert_eq!(first.error().1, "use_dpop_nonce");
    assert!(nonces.observe(&url, &first.headers));
    let nonce = nonces.nonce(&url).unwrap();
    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let start = decode(&server.mint(json!({}))).1["iat"].as_u64().unwrap();
    let mut later = 0;
    for (age, is_accepted) in [(0, true), (290, true), (310, false)] {
        server.advance(Duration::from_secs(age - later));
        later = age;
        let claims = json!({
            "jti": age.to_string(), "htm": "POST", "htu": server.url("/token"), "iat": start + age, "nonce": nonce,
        });
        let proof = key.sign(&[("typ", json!("dpop+jwt")), ("jwk", json!(key.bare_jwk()))], &claims);
        let answer = redeem(&mut agent, &server, Some(&proof), "").await;
        match is_accepted {
            true => assert_eq!(answer.ok()["token_type"], "DPoP"),
            false => assert_eq!(answer.error().1, "use_dpop_nonce"),
        }
    }
}

#[tokio::test]
async fn a_proof_with_a_private_key_is_refused() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let now = decode(&server.mint(json!({}))).1["iat"].as_u64().unwrap();
    let claims = |jti: &str| json!({ "jti": jti, "htm": "POST", "htu": server.url("/token"), "iat": now });
    let mut jwk = json!(key.bare_jwk());
    let sign = |jwk: &Value, jti: &str| key.sign(&[("typ", json!("dpop+jwt")), ("jwk", jwk.clone())], &claims(jti));
    let public = sign(&jwk, "1");
    jwk["d"] = json!("AA");
    let private = sign(&jwk, "2");
    let answer = redeem(&mut Agent::new(), &server, Some(&private), "").await;
    assert_eq!(answer.error(), (400, "invalid_dpop_proof".to_owned()));
    redeem(&mut Agent::new(), &server, Some(&public), "").await.ok();
}
