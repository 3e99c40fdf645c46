//! The verdict about mutated tokens, beside those of three other implementations: `jsonwebtoken` on pure Rust cryptography, `jose` on that
//! of Node.js, and `PyJWT` on OpenSSL.
//!
//! Every difference is in the table [`STRICTER`] or [`LAXER`], with its reason.

mod mutation;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use turms_oauth::{Algorithm, Issuer, JwkSet, SigningKey, TokenGuard};

use self::mutation::{Mutations, Token};

const ISSUER: &str = "https://auth.example.com";
const AUDIENCE: &str = "https://notes.example.com/mcp";
/// Longer than the test takes, because the others read the clock themselves.
const LEEWAY: u64 = 1800;
const TOKENS: usize = 10_500;

/// Another implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Peer {
    Jsonwebtoken,
    Jose,
    Pyjwt,
}

use Peer::{Jose, Jsonwebtoken, Pyjwt};

/// Differences: the mutation, the implementations that accept tokens that the guard refuses, and the reason.
const STRICTER: &[(&str, &[Peer], &str)] = &[
    // The writing of a token. Only one is accepted, so that no two texts are the same token.
    ("other unused bits", &[Jose], "the decoder of Node.js ignores the unused bits of base64url"),
    ("a padded part", &[Jose, Pyjwt], "RFC 7515, 2: base64url without padding; their decoders take both"),
    ("a space inside", &[Jose], "the decoder of Node.js skips white space"),
    ("a line break inside", &[Jose], "the decoder of Node.js skips white space"),
    ("a line break after", &[Jose], "the decoder of Node.js skips white space"),
    ("a byte order mark", &[Jose, Pyjwt], "RFC 8259, 8.1: it must not be there; it may be ignored"),
    ("NaN and Infinity", &[Pyjwt], "not JSON; the parser of Python takes it"),
    // RFC 7519, 4: names are unique, or the last one counts. Who reads the first one is deceived.
    ("a claim twice, the first forged", &[Jose, Pyjwt], "their parsers take the last one"),
    ("a claim twice in another writing", &[Jose, Pyjwt], "their parsers take the last one"),
    ("alg twice", &[Jose, Pyjwt], "their parsers take the last one"),
    ("kid twice", &[Jose, Pyjwt], "their parsers take the last one"),
    // The header.
    ("an unknown critical parameter", &[Jsonwebtoken], "RFC 7515, 4.1.11: must be refused; it does not know `crit`"),
    ("crit that names no parameter of the header", &[Jsonwebtoken], "it does not know `crit`"),
    ("b64 that is not critical", &[Jsonwebtoken, Jose], "RFC 7797, 6: invalid without `crit`; they ignore it"),
    ("critical b64", &[Jsonwebtoken], "it does not know `crit`"),
    ("an empty or invalid crit", &[Jsonwebtoken], "it does not know `crit`"),
    (
        "critical b64 with its default",
        &[Jsonwebtoken, Jose, Pyjwt],
        "RFC 7797, 7: not for JWT; no critical parameter is known here",
    ),
    ("typ of another token", &[Jsonwebtoken, Jose, Pyjwt], "RFC 8725, 3.11: it is compared only on demand there"),
    ("typ of another type", &[Jsonwebtoken, Jose, Pyjwt], "it is compared only on demand there"),
    // The claims.
    ("an ID token", &[Jsonwebtoken, Jose, Pyjwt], "they do not know kinds of tokens"),
    ("issued in the future", &[Jsonwebtoken, Jose], "RFC 7519, 4.1.6 leaves it open; PyJWT refuses it, too"),
    ("iat of another type", &[Jsonwebtoken, Pyjwt], "a number by RFC 7519, 4.1.6; it is not read, or converted"),
    ("iat that is a text", &[Jsonwebtoken, Pyjwt], "a number by RFC 7519, 4.1.6; it is not read, or converted"),
    ("nbf of another type", &[Pyjwt], "a number by RFC 7519, 4.1.5; `true` is the number 1 in Python"),
    ("a time that is a text", &[Pyjwt], "a number by RFC 7519, 4.1.4; it is converted"),
    ("iss of another type", &[Jsonwebtoken], "a text by RFC 7519, 4.1.1; a list with the issuer is taken"),
    ("aud with a member of another type", &[Jose], "a list of texts by RFC 7519, 4.1.3; the others are ignored"),
    ("sub of another type", &[Jose], "a text by RFC 7519, 4.1.2; only its presence is checked"),
    ("an empty subject", &[Jsonwebtoken, Jose, Pyjwt], "RFC 7519 allows it; no principal is without a name here"),
];

/// Differences: the mutation, the implementations that refuse tokens that the guard accepts, and the reason.
const LAXER: &[(&str, &[Peer], &str)] = &[
    ("a negative time", &[Jsonwebtoken], "`nbf` before 1970 is a NumericDate; it takes unsigned numbers"),
    ("a very large expiry", &[Jsonwebtoken], "1e300 is a NumericDate; it takes those that fit 64 bits"),
    ("without a kid", &[Jsonwebtoken, Pyjwt], "RFC 7515, 4.1.4: optional; their programs here need it to find the key"),
];

fn keys() -> Vec<SigningKey> {
    let rsa = include_bytes!("../../data/rsa-2048.pem");
    vec![
        SigningKey::generate(Algorithm::Es256).unwrap().key_id("es256"),
        SigningKey::generate(Algorithm::Es384).unwrap().key_id("es384"),
        SigningKey::generate(Algorithm::EdDsa).unwrap().key_id("eddsa"),
        SigningKey::from_pem(rsa, Some(Algorithm::Rs256)).unwrap().key_id("rs256"),
        SigningKey::from_pem(rsa, Some(Algorithm::Ps256)).unwrap().key_id("ps256"),
    ]
}

/// Runs the program of another implementation, and returns its errors. An accepted token has the empty text.
async fn verify_by(peer: Peer, job: &str) -> Vec<String> {
    let mut command = match peer {
        Jsonwebtoken => Command::new(turms_testkit::peer_file("rust/debug/turms-peer-jwt")),
        Jose => {
            let mut command = Command::new(turms_testkit::node());
            command.arg(turms_testkit::peer_file("node/jwt.mjs"));
            command
        }
        Pyjwt => {
            let mut command = Command::new(turms_testkit::python("stateless"));
            command.arg(turms_testkit::peer_file("python/jwt_verify.py"));
            command
        }
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let job = job.to_owned();
    let written = tokio::spawn(async move {
        input.write_all(job.as_bytes()).await.unwrap();
    });
    let output = tokio::time::timeout(Duration::from_secs(600), child.wait_with_output()).await;
    let output = output.unwrap_or_else(|_| panic!("{peer:?} takes too long")).unwrap();
    written.await.unwrap();
    assert!(output.status.success(), "{peer:?}: {}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn verify_by_guard(guard: &TokenGuard, tokens: &[Token]) -> Vec<String> {
    let mut errors = Vec::new();
    for token in tokens {
        errors.push(guard.verify(&token.text).await.err().map(|rejection| rejection.message).unwrap_or_default());
    }
    errors
}

#[tokio::test]
#[ignore = "needs Node.js, Python and the peers: run `cargo xtask test`"]
async fn mutated_tokens_get_the_verdict_of_three_other_implementations() {
    let keys = keys();
    let tokens: Vec<Token> = Mutations::new(&keys, 1).take(TOKENS).collect();
    let set = JwkSet::new(keys.iter().map(SigningKey::public_jwk));
    let guard =
        TokenGuard::builder(AUDIENCE).issuer(Issuer::keys(ISSUER, set.clone())).leeway(Duration::from_secs(LEEWAY));
    let ours = verify_by_guard(&guard.build().unwrap(), &tokens).await;
    let job = json!({
        "issuer": ISSUER, "audience": AUDIENCE, "leeway": LEEWAY, "keys": set,
        "algorithms": keys.iter().map(|key| key.algorithm().as_str()).collect::<Vec<_>>(),
        "tokens": tokens.iter().map(|token| &token.text).collect::<Vec<_>>(),
    })
    .to_string();
    let (jsonwebtoken, jose, pyjwt) =
        tokio::join!(verify_by(Jsonwebtoken, &job), verify_by(Jose, &job), verify_by(Pyjwt, &job));
    let mut differences: BTreeMap<(&str, bool), (BTreeSet<Peer>, String)> = BTreeMap::new();
    for (peer, theirs) in [(Jsonwebtoken, &jsonwebtoken), (Jose, &jose), (Pyjwt, &pyjwt)] {
        assert_eq!(theirs.len(), tokens.len(), "{peer:?}");
        for ((token, ours), theirs) in tokens.iter().zip(&ours).zip(theirs) {
            if ours.is_empty() != theirs.is_empty() {
                let example = || format!("ours {ours:?}, theirs {theirs:?}, token {}", token.text);
                let entry = differences.entry((token.mutation, ours.is_empty()));
                entry.or_insert_with(|| (BTreeSet::new(), example())).0.insert(peer);
            }
        }
    }
    check_differences(&differences);
    let accepted = ours.iter().filter(|error| error.is_empty()).count();
    assert!(accepted > TOKENS / 20 && accepted < TOKENS / 2, "{accepted} of {TOKENS} tokens are accepted");
}

/// Compares the differences with the tables, in both directions.
fn check_differences(differences: &BTreeMap<(&str, bool), (BTreeSet<Peer>, String)>) {
    let mut unexplained = Vec::new();
    for ((mutation, is_accepted), (peers, example)) in differences {
        let table = if *is_accepted { LAXER } else { STRICTER };
        let explained = table.iter().find(|(explained, ..)| explained == mutation);
        if explained.is_none_or(|(_, explained, _)| !peers.iter().all(|peer| explained.contains(peer))) {
            let ours = if *is_accepted { "accepted" } else { "refused" };
            unexplained.push(format!("{mutation}: {ours} by us, not so by {peers:?}: {example}"));
        }
    }
    assert!(unexplained.is_empty(), "{} differences:\n{}", unexplained.len(), unexplained.join("\n"));
    for (table, is_accepted) in [(STRICTER, false), (LAXER, true)] {
        for (mutation, peers, _) in table {
            let seen =
                differences.get(&(*mutation, is_accepted)).map(|(peers, _)| peers.iter().copied().collect::<Vec<_>>());
            assert_eq!(seen.as_deref(), Some(*peers), "the table has a difference that is not there: {mutation}");
        }
    }
}

#[test]
fn mutations_are_the_same_each_time() {
    let keys = keys();
    // Signatures with ECDSA differ each time; what is signed does not.
    let mutations = |seed| Mutations::new(&keys, seed).take(500).map(|token| token.mutation).collect::<Vec<_>>();
    assert_eq!(mutations(1), mutations(1));
    assert_ne!(mutations(1), mutations(2));
    let kinds: BTreeSet<_> = mutations(1).into_iter().collect();
    assert!(kinds.len() > 40, "{kinds:?}");
}
