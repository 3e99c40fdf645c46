//! Mutated tokens, the same for each seed.

use serde_json::{Map, Value, json};
use turms_oauth::SigningKey;

use super::{AUDIENCE, ISSUER};
use crate::tokens::{compact, decode, encode, hmac, now, sign_bytes};

/// A token and the name of its mutation.
pub(crate) struct Token {
    pub(crate) mutation: &'static str,
    pub(crate) text: String,
}

/// An endless iterator of tokens.
pub(crate) struct Mutations<'a> {
    keys: &'a [SigningKey],
    random: Random,
    now: u64,
}

/// A generator of pseudorandom numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number below a limit.
    fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) % limit as u64) as usize
    }

    fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

const BASE64URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Iterator for Mutations<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let (mutation, text) = match self.random.below(8) {
            0 => ("none", self.valid()),
            1 | 2 => self.mutate_text(),
            3 => self.mutate_header(),
            4 | 5 => self.mutate_claims(),
            6 => self.mutate_bytes(),
            _ => self.forge(),
        };
        Some(Token { mutation, text })
    }
}

impl<'a> Mutations<'a> {
    pub(crate) fn new(keys: &'a [SigningKey], seed: u64) -> Self {
        Self { keys, random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), now: now() }
    }

    fn key(&mut self) -> &'a SigningKey {
        self.random.pick(self.keys)
    }

    fn claims(&mut self) -> Value {
        let now = self.now;
        let mut claims = json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": format!("user-{}", self.random.below(1000)), "scope": "notes:read",
            "iat": now - 100, "exp": now + 7200,
        });
        if self.random.below(2) == 0 {
            claims["aud"] = json!(["https://other.example.com", AUDIENCE]);
        }
        if self.random.below(2) == 0 {
            claims["nbf"] = json!(now - 100);
        }
        if self.random.below(4) == 0 {
            claims["name"] = json!("Grüße \"\\\u{1F600}");
        }
        claims
    }

    fn sign(key: &SigningKey, header: Value, claims: &Value) -> String {
        let header: Vec<(&str, Value)> =
            header.as_object().unwrap().iter().map(|(name, value)| (&**name, value.clone())).collect();
        key.sign(&header, claims)
    }

    fn valid(&mut self) -> String {
        let (key, claims) = (self.key(), self.claims());
        Self::sign(key, json!({ "typ": "at+jwt" }), &claims)
    }

    /// Changes the text of a signed token.
    fn mutate_text(&mut self) -> (&'static str, String) {
        let text = self.valid();
        let parts: Vec<&str> = text.split('.').collect();
        let bytes = text.as_bytes();
        let at = self.random.below(bytes.len());
        let last = bytes.len() - 1;
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.to_vec();
            bytes[at] = byte;
            String::from_utf8_lossy(&bytes).into_owned()
        };
        match self.random.below(20) {
            // The unused bits of the last letter have a mutation of their own.
            0 | 1 if at == last => ("none", text),
            0 => ("a flipped bit", with(at, bytes[at] ^ 1 << self.random.below(7))),
            1 => {
                let picked = self.random.below(BASE64URL.len());
                let is_same = BASE64URL[picked] == bytes[at];
                let other = BASE64URL[(picked + usize::from(is_same)) % BASE64URL.len()];
                ("another letter", with(at, other))
            }
            2 => {
                // The last letter of a signature has unused bits: 64 bytes are 85.3 letters, 96 bytes have none.
                let at_end = BASE64URL.iter().position(|letter| *letter == bytes[last]).unwrap();
                let unused = match parts[2].len() % 4 {
                    2 => 16,
                    3 => 4,
                    _ => return ("none", text),
                };
                let other = at_end / unused * unused + (at_end + 1 + self.random.below(unused - 1)) % unused;
                ("other unused bits", with(last, BASE64URL[other]))
            }
            3 => ("a letter less", {
                let mut short = text.clone();
                short.remove(at);
                short
            }),
            4 => ("a letter more", {
                let mut long = text.clone();
                long.insert(at, char::from(*self.random.pick(BASE64URL)));
                long
            }),
            5 => ("a shortened token", text[..at].to_owned()),
            6 => ("a padded part", {
                let index = self.random.below(3);
                let padded: Vec<String> = (0..3)
                    .map(|part| {
                        if part == index {
                            format!("{}{}", parts[part], padding(parts[part]))
                        } else {
                            parts[part].to_owned()
                        }
                    })
                    .collect();
                let padded = padded.join(".");
                if padded == text {
                    return ("none", text);
                }
                padded
            }),
            7 => {
                // Without these two letters it is the same token.
                let standard = text.replace('-', "+").replace('_', "/");
                ("the standard alphabet", standard)
            }
            8 => ("a space inside", format!("{} {}", &text[..at], &text[at..])),
            9 => ("a line break inside", format!("{}\n{}", &text[..at], &text[at..])),
            10 => ("a space before", format!(" {text}")),
            11 => ("a line break after", format!("{text}\n")),
            _ => self.mutate_parts(&text),
        }
    }

    /// Changes the parts of a signed token.
    fn mutate_parts(&mut self, text: &str) -> (&'static str, String) {
        let parts: Vec<&str> = text.split('.').collect();
        let join = |parts: &[&str]| parts.join(".");
        match self.random.below(8) {
            0 => ("two parts", join(&parts[..2])),
            1 => ("four parts", format!("{text}.{}", parts[self.random.below(3)])),
            2 => ("five parts", format!("{text}.{}.{}", parts[0], parts[1])),
            3 => ("an empty part", {
                let mut parts = parts.clone();
                parts[self.random.below(3)] = "";
                join(&parts)
            }),
            4 => ("exchanged parts", join(&[parts[1], parts[0], parts[2]])),
            5 => ("the signature of another token", {
                let other = self.valid();
                join(&[parts[0], parts[1], other.rsplit('.').next().unwrap()])
            }),
            6 => ("a random signature", {
                let length = decode(parts[2]).len();
                let signature: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
                join(&[parts[0], parts[1], &encode(signature)])
            }),
            _ => ("a signature of another length", {
                let mut signature = decode(parts[2]);
                match self.random.below(3) {
                    0 => signature.push(0),
                    1 => signature.insert(0, 0),
                    _ => drop(signature.pop()),
                }
                join(&[parts[0], parts[1], &encode(signature)])
            }),
        }
    }

    /// Changes the header, and signs the token.
    fn mutate_header(&mut self) -> (&'static str, String) {
        let (key, claims) = (self.key(), self.claims());
        let kid = key.public_jwk().kid.unwrap();
        let other = self.key().public_jwk();
        let algorithms =
            ["ES256", "ES384", "ES512", "RS256", "RS384", "PS256", "PS512", "EdDSA", "HS256", "none", "es256", ""];
        let (mutation, changes) = match self.random.below(18) {
            0 => {
                let algorithm = *self.random.pick(&algorithms);
                let mutation = if algorithm == key.algorithm().as_str() { "none" } else { "another alg" };
                (mutation, json!({ "alg": algorithm }))
            }
            1 => (
                "alg of another type",
                json!({ "alg": self.random.pick(&[json!(null), json!(1), json!([]), json!({})]) }),
            ),
            2 => {
                let mutation = if other.kid.as_deref() == Some(&*kid) { "none" } else { "another kid" };
                (mutation, json!({ "kid": other.kid }))
            }
            3 => ("an unknown kid", json!({ "kid": self.random.pick(&["", "unknown", "../es256", "es256 "]) })),
            4 => ("kid of another type", json!({ "kid": self.random.pick(&[json!(null), json!(1), json!([kid])]) })),
            5 => ("typ JWT", json!({ "typ": self.random.pick(&["JWT", "jwt", "AT+JWT", "application/at+jwt"]) })),
            6 => (
                "typ of another token",
                json!({ "typ": self.random.pick(&["dpop+jwt", "logout+jwt", "id_token+jwt", "JOSE", ""]) }),
            ),
            7 => {
                ("typ of another type", json!({ "typ": self.random.pick(&[json!(null), json!(1), json!(["at+jwt"])]) }))
            }
            8 => ("an unknown critical parameter", json!({ "crit": ["x"], "x": true })),
            9 => ("crit that names no parameter of the header", json!({ "crit": ["x"] })),
            10 => ("critical b64 with its default", json!({ "crit": ["b64"], "b64": true })),
            11 => ("critical b64", json!({ "crit": ["b64"], "b64": false })),
            12 => ("an empty or invalid crit", {
                json!({ "crit": self.random.pick(&[json!([]), json!(null), json!("exp"), json!({}), json!([1]), json!(["alg"])]) })
            }),
            13 => ("a key in the header", json!({ "jwk": other })),
            14 => ("URLs in the header", json!({ "jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/" })),
            15 => ("an unknown parameter", json!({ "x": [1, { "y": null }], "cty": "json" })),
            16 => ("b64 that is not critical", json!({ "b64": false })),
            _ => ("zip", json!({ "zip": "DEF" })),
        };
        let mut header = json!({ "typ": "at+jwt" });
        header.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        (mutation, Self::sign(key, header, &claims))
    }

    /// Changes a claim, and signs the token.
    fn mutate_claims(&mut self) -> (&'static str, String) {
        let (key, mut claims) = (self.key(), self.claims());
        let now = self.now;
        let odd =
            self.random.pick(&[json!(null), json!(true), json!([]), json!({}), json!([1]), json!({ "a": 1 })]).clone();
        let far = self.random.below(100_000) as u64 + 2 * super::LEEWAY;
        let name = *self.random.pick(&["exp", "nbf", "iat", "iss", "aud", "sub"]);
        let (mutation, name, value) = match self.random.below(22) {
            0 => ("expired", "exp", json!(now - far)),
            1 => ("not yet valid", "nbf", json!(now + far)),
            2 => ("issued in the future", "iat", json!(now + far)),
            3 => ("within the leeway", "exp", json!(now - 20)),
            4 => ("not valid within the leeway", "nbf", json!(now + 20)),
            5 => ("a fraction", "exp", json!(now as f64 + 1000.5)),
            6 => (
                "a very large expiry",
                "exp",
                self.random
                    .pick(&[json!(1e15), json!(1e300), json!(u64::MAX), json!(9_007_199_254_740_993_u64)])
                    .clone(),
            ),
            7 => ("a negative time", *self.random.pick(&["exp", "nbf"]), json!(-1)),
            8 => (
                "a time that is a text",
                *self.random.pick(&["exp", "nbf"]),
                json!((now + if name == "exp" { 1000 } else { 0 }).to_string()),
            ),
            9 => ("iat that is a text", "iat", json!(now.to_string())),
            10 => ("exp of another type", "exp", odd),
            11 => ("nbf of another type", "nbf", odd),
            12 => ("iat of another type", "iat", odd),
            13 => ("iss of another type", "iss", self.random.pick(&[odd, json!([ISSUER]), json!(1)]).clone()),
            14 => ("aud of another type", "aud", self.random.pick(&[odd, json!([[AUDIENCE]]), json!(1)]).clone()),
            15 => ("aud with a member of another type", "aud", json!([AUDIENCE, 1])),
            16 => ("sub of another type", "sub", self.random.pick(&[odd, json!(1)]).clone()),
            17 => (
                "another issuer",
                "iss",
                json!(self.random.pick(&[
                    "https://auth.example.com/",
                    "https://AUTH.example.com",
                    "",
                    "https://other.example.com"
                ])),
            ),
            18 => (
                "another audience",
                "aud",
                self.random
                    .pick(&[json!("https://notes.example.com"), json!(""), json!(["https://notes.example.com/mcp/"])])
                    .clone(),
            ),
            19 => (
                "without a claim that is required",
                *self.random.pick(&["exp", "iss", "aud", "sub"]),
                json!("(absent)"),
            ),
            20 => ("an ID token", *self.random.pick(&["nonce", "at_hash"]), json!("n")),
            _ => ("an empty subject", "sub", json!("")),
        };
        let members: &mut Map<String, Value> = claims.as_object_mut().unwrap();
        if value == "(absent)" {
            drop(members.remove(name))
        } else {
            drop(members.insert(name.to_owned(), value))
        }
        (mutation, Self::sign(key, json!({ "typ": "at+jwt" }), &claims))
    }

    /// Signs a header and a payload in another writing of JSON, or that are not JSON.
    fn mutate_bytes(&mut self) -> (&'static str, String) {
        let key = &self.keys[0];
        let claims = self.claims().to_string();
        let header = r#"{"alg":"ES256","typ":"at+jwt","kid":"es256"}"#.to_owned();
        let (inner, head) = (&claims[1..claims.len() - 1], &header[1..header.len() - 1]);
        let (mutation, header, payload) = match self.random.below(16) {
            0 => ("spaces in JSON", header.replace(':', " : "), claims.replacen(',', "\n\t, ", 3)),
            1 => ("escapes in names", header.replace("alg", "\\u0061lg"), claims.replace("iss", "\\u0069ss")),
            2 => {
                ("a claim twice, the first forged", header, format!("{{\"iss\":\"https://evil.example.com\",{inner}}}"))
            }
            3 => {
                ("a claim twice, the last forged", header, format!("{{{inner},\"aud\":\"https://evil.example.com\"}}"))
            }
            4 => ("a claim twice in another writing", header, format!("{{\"\\u0061ud\":\"x\",{inner}}}")),
            5 => ("alg twice", format!("{{\"alg\":\"none\",{head}}}"), claims),
            6 => ("kid twice", format!("{{{head},\"kid\":\"es256\"}}"), claims),
            7 => ("text after the header", format!("{header}x"), claims),
            8 => ("text after the payload", header, format!("{claims}x")),
            9 => ("a comma after the last member", header, format!("{{{inner},}}")),
            10 => ("a byte order mark", header, format!("\u{feff}{claims}")),
            11 => (
                "a payload that is no object",
                header,
                self.random
                    .pick(&[
                        format!("[{claims}]"),
                        "null".to_owned(),
                        "1".to_owned(),
                        String::new(),
                        "\"x\"".to_owned(),
                    ])
                    .clone(),
            ),
            12 => (
                "a header that is no object",
                self.random.pick(&[format!("[{header}]"), "null".to_owned(), String::new()]).clone(),
                claims,
            ),
            13 => ("single quotes", header, claims.replace('"', "'")),
            14 => (
                "NaN and Infinity",
                header,
                format!("{{{inner},\"x\":{}}}", self.random.pick(&["NaN", "Infinity", "-Infinity"])),
            ),
            _ => ("deep nesting", header, format!("{{{inner},\"x\":{}{}}}", "[".repeat(100), "]".repeat(100))),
        };
        (mutation, sign_bytes(key, &header, &payload))
    }

    /// Signs with something that is not the key.
    fn forge(&mut self) -> (&'static str, String) {
        let (key, claims) = (self.key(), self.claims());
        let jwk = key.public_jwk();
        let (kid, payload) = (jwk.kid.clone(), claims.to_string());
        let header = |alg: &str| json!({ "alg": alg, "typ": "at+jwt", "kid": kid }).to_string();
        match self.random.below(6) {
            0 => ("alg none without a signature", {
                compact(header(self.random.pick::<&str>(&["none", "None", "NONE", "nOnE"])), payload, |_| Vec::new())
            }),
            1 => ("HMAC with the public key", {
                let secret = serde_json::to_string(&jwk).unwrap();
                let part = jwk.x.or(jwk.n).unwrap();
                let secrets = [secret.into_bytes(), part.clone().into_bytes(), decode(&part), Vec::new()];
                let secret = self.random.pick(&secrets).clone();
                compact(header(self.random.pick::<&str>(&["HS256", "HS384", "HS512"])), payload, |message| {
                    hmac(&secret, message)
                })
            }),
            2 => ("another key with a known id", {
                let other = SigningKey::generate(turms_oauth::Algorithm::Es256).unwrap().key_id("es256");
                Self::sign(&other, json!({ "typ": "at+jwt" }), &claims)
            }),
            3 => ("the key of another id", {
                let other = self.key();
                let theirs = other.public_jwk().kid;
                if theirs == kid {
                    return ("none", self.valid());
                }
                Self::sign(other, json!({ "typ": "at+jwt", "kid": kid }), &claims)
            }),
            4 => ("a key in its header", {
                let own = SigningKey::generate(turms_oauth::Algorithm::Es256).unwrap();
                Self::sign(&own, json!({ "typ": "at+jwt", "kid": "es256", "jwk": own.bare_jwk() }), &claims)
            }),
            _ => ("without a kid", {
                let header = r#"{"alg":"ES256","typ":"at+jwt"}"#;
                sign_bytes(&self.keys[0], header, &payload)
            }),
        }
    }
}

fn padding(part: &str) -> &'static str {
    match part.len() % 4 {
        2 => "==",
        3 => "=",
        _ => "",
    }
}
