//! Vectors of the RFCs, and tokens that must be refused.

use serde_json::json;

use super::*;

fn jwk(value: Value) -> Jwk {
    serde_json::from_value(value).unwrap()
}

/// The modulus of RFC 7515, A.2.
const RSA_N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";

/// The token of RFC 7515, A.2.
const RS256: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";

/// The token of RFC 7515, A.3.
const ES256: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";

fn rsa_key() -> Value {
    json!({ "kty": "RSA", "n": RSA_N, "e": "AQAB" })
}

fn ec_key() -> Value {
    json!({
        "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    })
}

fn ed_key() -> Value {
    json!({ "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" })
}

/// Adds members to a key.
fn with(mut key: Value, changes: Value) -> Jwk {
    let Value::Object(changes) = changes else { panic!("{changes}") };
    key.as_object_mut().unwrap().extend(changes);
    jwk(key)
}

#[test]
fn the_token_of_rfc_7515_a_2_is_verified() {
    let jws = Jws::parse(RS256).unwrap();
    assert_eq!(jws.algorithm(), Algorithm::Rs256);
    jws.verify(&jwk(rsa_key())).unwrap();
    let claims: Value = jws.claims().unwrap();
    assert_eq!(claims, json!({ "iss": "joe", "exp": 1_300_819_380, "http://example.com/is_root": true }));
}

#[test]
fn the_token_of_rfc_7515_a_3_is_verified() {
    let jws = Jws::parse(ES256).unwrap();
    assert_eq!(jws.algorithm(), Algorithm::Es256);
    jws.verify(&jwk(ec_key())).unwrap();
}

#[test]
fn the_token_of_rfc_8037_a_4_is_verified() {
    let token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let jws = Jws::parse(token).unwrap();
    assert_eq!(jws.algorithm(), Algorithm::EdDsa);
    jws.verify(&jwk(ed_key())).unwrap();
    assert_eq!(jws.claims::<Value>(), Err(JwsError::Claims), "its payload is not JSON");
}

#[test]
fn the_proofs_of_rfc_9449_are_verified() {
    let header = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19";
    let token = format!(
        "{header}.eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg"
    );
    let jws = Jws::parse(&token).unwrap();
    let key = jws.jwk().unwrap();
    jws.verify(&key).unwrap();
    assert_eq!(key.thumbprint().unwrap(), "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
    assert_eq!(jws.claims::<Value>().unwrap()["htu"], "https://server.example.com/token");
}

#[test]
fn the_thumbprint_is_that_of_rfc_7638() {
    let key = jwk(json!({
        "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
        "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
    }));
    assert_eq!(key.thumbprint().unwrap(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    assert_eq!(jwk(ed_key()).thumbprint().unwrap(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k", "RFC 8037, A.3");
}

#[test]
fn created_keys_sign_tokens_that_their_public_key_verifies() {
    for algorithm in [Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa] {
        let key = SigningKey::generate(algorithm).unwrap().key_id("k1");
        let token = key.sign(&[("typ", "at+jwt".into())], &json!({ "sub": "ann" }));
        let jws = Jws::parse(&token).unwrap();
        assert_eq!((jws.algorithm(), jws.header("kid"), jws.header("typ")), (algorithm, Some("k1"), Some("at+jwt")));
        jws.verify(&key.public_jwk()).unwrap();
        assert_eq!(jws.claims::<Value>().unwrap(), json!({ "sub": "ann" }));
        let other = SigningKey::generate(algorithm).unwrap();
        assert_eq!(jws.verify(&other.public_jwk()), Err(JwsError::Signature));
        let again = SigningKey::from_pkcs8(key.to_pkcs8().unwrap(), None).unwrap();
        assert_eq!(again.bare_jwk(), key.bare_jwk());
    }
}

#[test]
fn a_signature_fits_every_byte_of_the_token() {
    let key = jwk(ec_key());
    for at in 0..ES256.len() {
        let mut changed = ES256.as_bytes().to_vec();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        let verified = Jws::parse(&changed).and_then(|jws| jws.verify(&key));
        assert!(verified.is_err(), "{changed}");
    }
}

#[test]
fn a_key_is_used_only_as_it_allows() {
    let jws = Jws::parse(ES256).unwrap();
    let refused = |changes: Value| {
        let verified = jws.verify(&with(ec_key(), changes.clone()));
        assert!(matches!(verified, Err(JwsError::KeyMismatch { .. })), "{changes}: {verified:?}");
    };
    refused(json!({ "alg": "ES384" }));
    refused(json!({ "alg": "es256" }));
    refused(json!({ "use": "enc" }));
    refused(json!({ "key_ops": ["sign"] }));
    refused(json!({ "key_ops": [] }));
    refused(json!({ "crv": "P-384" }));
    refused(json!({ "kty": "RSA" }));
    refused(json!({ "kty": "oct" }));
    for changes in [json!({ "alg": "ES256", "use": "sig" }), json!({ "key_ops": ["verify"] }), json!({ "unknown": 1 })]
    {
        jws.verify(&with(ec_key(), changes)).unwrap();
    }
    // The algorithm of a token chooses among those of the key's type only.
    let rsa = Jws::parse(RS256).unwrap();
    assert!(matches!(rsa.verify(&jwk(ec_key())), Err(JwsError::KeyMismatch { .. })));
    assert!(matches!(jws.verify(&jwk(rsa_key())), Err(JwsError::KeyMismatch { .. })));
    assert!(matches!(jws.verify(&jwk(ed_key())), Err(JwsError::KeyMismatch { .. })));
}

#[test]
fn incomplete_keys_are_refused() {
    let jws = Jws::parse(ES256).unwrap();
    for changes in [json!({ "x": null }), json!({ "y": "AA" }), json!({ "x": "not base64url!" })] {
        let verified = jws.verify(&with(ec_key(), changes.clone()));
        assert!(matches!(verified, Err(JwsError::InvalidKey(_))), "{changes}: {verified:?}");
    }
    // A point that is not on the curve.
    let off = jws.verify(&with(ec_key(), json!({ "y": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU" })));
    assert_eq!(off, Err(JwsError::Signature));
    // An RSA key of 1024 bits.
    let short = with(rsa_key(), json!({ "n": &RSA_N[..172] }));
    assert_eq!(Jws::parse(RS256).unwrap().verify(&short), Err(JwsError::Signature));
}

fn token(header: &str, payload: &str) -> String {
    format!("{}.{}.{}", encode(header), encode(payload), encode([0; 64]))
}

#[test]
fn malformed_tokens_are_refused() {
    let good = token(r#"{"alg":"ES256"}"#, "{}");
    Jws::parse(&good).unwrap();
    let (header, rest) = good.split_once('.').unwrap();
    let table = [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        rest.to_owned(),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}.AA"),
        format!(" {good}"),
        format!("{good} "),
        format!("{good}\n"),
        // Padding, the other alphabet, bits that are not zero.
        format!("{header}=.{rest}"),
        format!("{good}=="),
        good.replacen('.', "+.", 1),
        format!("{header}.e31.AA"),
        format!("{header}.e30.AB"),
        token("", "{}"),
        token("null", "{}"),
        token("[]", "{}"),
        token("{}", "{}"),
        token(r#"{"alg":null}"#, "{}"),
        token(r#"{"alg":["ES256"]}"#, "{}"),
        token(r#"{"alg":"ES256","alg":"ES256"}"#, "{}"),
        token(r#"{"alg":"ES256","kid":1}"#, "{}"),
        token(r#"{"alg":"ES256","kid":null}"#, "{}"),
        token(r#"{"alg":"ES256","typ":["JWT"]}"#, "{}"),
        token(r#"{"alg":"ES256"}x"#, "{}"),
        token("{\"alg\":\"ES256\",\"a\":\"\u{1}\"}", "{}"),
        token(&format!(r#"{{"alg":"ES256","a":{}1{}}}"#, "[".repeat(200), "]".repeat(200)), "{}"),
        token(r#"{"alg":"ES256"}"#, &"a".repeat(Jws::MAX_LENGTH)),
    ];
    for token in table {
        let parsed = Jws::parse(&token);
        assert!(matches!(parsed, Err(JwsError::Malformed(_))), "{token}: {parsed:?}");
    }
}

#[test]
fn unsupported_algorithms_are_refused() {
    for name in ["none", "None", "NONE", "", "HS256", "HS512", "es256", "ES256 ", "ES512", "ES256K", "RS1", "dir"] {
        let parsed = Jws::parse(&token(&json!({ "alg": name }).to_string(), "{}")).map(|_| ());
        assert_eq!(parsed, Err(JwsError::UnsupportedAlgorithm(name.to_owned())));
    }
    let none = format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode("{}"));
    assert!(Jws::parse(&none).is_err());
}

#[test]
fn critical_extensions_are_refused() {
    for crit in [json!(["b64"]), json!(["exp"]), json!([]), json!(null)] {
        let header = json!({ "alg": "ES256", "crit": crit, "b64": false }).to_string();
        assert_eq!(Jws::parse(&token(&header, "{}")).map(|_| ()), Err(JwsError::Critical), "{header}");
    }
}

#[test]
fn claims_are_an_object_with_unique_members() {
    let claims = |payload: &str| Jws::parse(&token(r#"{"alg":"ES256"}"#, payload)).unwrap().claims::<Value>();
    assert_eq!(claims(r#"{"a":1,"b":{"a":1}}"#).unwrap(), json!({ "a": 1, "b": { "a": 1 } }));
    for wrong in [
        "",
        "null",
        "[]",
        "1",
        "\"a\"",
        "{",
        "{}{}",
        r#"{"aud":"a","aud":"b"}"#,
        r#"{"a":1,"\u0061":2}"#,
        "{\"a\":1e999}",
    ] {
        assert_eq!(claims(wrong), Err(JwsError::Claims), "{wrong}");
    }
    let bytes = Jws::parse("eyJhbGciOiJFUzI1NiJ9.eyJhIjoi_yJ9.AA").unwrap().claims::<Value>();
    assert_eq!(bytes, Err(JwsError::Claims), "not UTF-8");
}

#[test]
fn key_sets_skip_what_is_not_a_key() {
    let set: JwkSet = serde_json::from_value(json!({ "keys": [
        ec_key(), null, 1, {}, { "kty": 5 }, { "kty": "oct", "k": "AAAA" }, ed_key(),
    ] }))
    .unwrap();
    let types: Vec<_> = set.keys.iter().map(|key| &*key.kty).collect();
    assert_eq!(types, ["EC", "oct", "OKP"]);
    assert!(Algorithm::ALL.iter().all(|algorithm| !set.keys[1].supports(*algorithm)));
    assert!(serde_json::from_value::<JwkSet>(json!({})).is_err());
    assert!(serde_json::from_value::<JwkSet>(json!({ "keys": {} })).is_err());
}

#[test]
fn private_parts_are_noticed_and_not_kept() {
    let key = with(ec_key(), json!({ "d": "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI" }));
    assert!(key.is_private());
    assert!(!serde_json::to_string(&key).unwrap().contains("jpsQ"));
    assert!(!format!("{key:?}").contains("f83O"));
    assert!(!jwk(ec_key()).is_private());
}

#[test]
fn rsa_keys_in_pem_sign_with_each_algorithm() {
    let pem = include_str!("../../tests/data/rsa-2048.pem");
    for algorithm in
        [Algorithm::Rs256, Algorithm::Rs384, Algorithm::Rs512, Algorithm::Ps256, Algorithm::Ps384, Algorithm::Ps512]
    {
        let key = SigningKey::from_pem(pem, Some(algorithm)).unwrap();
        let token = key.sign(&[], &json!({}));
        let jws = Jws::parse(&token).unwrap();
        jws.verify(&key.public_jwk()).unwrap();
        jws.verify(&key.bare_jwk()).unwrap();
        let mut other = key.public_jwk();
        other.alg = Some("RS1".to_owned());
        assert!(matches!(jws.verify(&other), Err(JwsError::KeyMismatch { .. })));
    }
    assert!(matches!(SigningKey::from_pem(pem, Some(Algorithm::Es256)), Err(KeyError::Algorithm(_))));
    assert!(matches!(SigningKey::generate(Algorithm::Rs256), Err(KeyError::Create(_))));
    assert!(matches!(SigningKey::from_pem("", None), Err(KeyError::Pem)));
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert!(matches!(SigningKey::from_pem(encrypted, None), Err(KeyError::Encrypted)));
}

#[test]
fn defaults_are_as_documented() {
    use turms_defaults::{assert_documented, when};

    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let code = [("SigningKey::key_id", when(key.kid.is_none(), "none"))];
    assert_documented(include_str!("../jws.rs"), &code);
}
