//! Vectors of the RFCs, and tokens that must be refused.

use serde_json::json;

use super::*;

fn jwk(value: Value) -> Jwk {
    serde_json::from_value(value).unwrap()
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
fn the_thumbprint_is_that_of_rfc_7638() {
    let key = jwk(json!({
        "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
        "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
    }));
    assert_eq!(key.thumbprint().unwrap(), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
}
