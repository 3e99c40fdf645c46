//! The keys of issuers: fetched once, cached, rotated, and unavailable.

use std::time::Duration;

use serde_json::json;
use turms_oauth::__internal::GuardClock;
use turms_oauth::{Algorithm, Issuer, JwkSet, SigningKey, TokenGuard, TokenGuardBuilder};
use turms_testkit::messages::modern_call;
use turms_testkit::within;

use crate::fixture::{GuardedServer, Mount, RESOURCE, assert_refused, bearer, guard_for};
use crate::issuer::{Mode, TestIssuer};
use crate::tokens::{claims, key, now, sign};

const MINUTE: Duration = Duration::from_secs(60);

fn guard(issuer: &TestIssuer, clock: &GuardClock) -> TokenGuardBuilder {
    guard_for(issuer, Mount::Listener).clock(clock.clone())
}

/// Returns a new token, which is in no cache.
fn token(issuer: &TestIssuer, clock: &GuardClock) -> String {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let jti = NEXT.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let now = clock.now() as u64;
    issuer.token(RESOURCE, json!({ "iat": now, "exp": now + 600, "jti": jti.to_string() }))
}

async fn status(guard: &TokenGuard, token: &str) -> u16 {
    match within("a verdict", guard.verify(token)).await {
        Ok(_) => 200,
        Err(rejection) => rejection.status.as_u16(),
    }
}

#[tokio::test]
async fn keys_are_fetched_once_for_many_tokens() {
    let (issuer, clock) = (TestIssuer::start().await, GuardClock::standing_at(now()));
    let server = GuardedServer::start(Mount::Listener, guard(&issuer, &clock).build().unwrap()).await;
    assert_eq!(issuer.key_requests(), 0, "nothing is fetched before the first token");
    let mut connections = Vec::new();
    for _ in 0..50 {
        let request = bearer(modern_call(1, "whoami", json!({})), &token(&issuer, &clock));
        connections.push(server.open(request).await);
    }
    for mut connection in connections {
        assert_eq!(within("a response", connection.response()).await.status(), 200);
    }
    assert_eq!(
        (issuer.key_requests(), issuer.state.metadata_requests.load(std::sync::atomic::Ordering::SeqCst)),
        (1, 1)
    );
}

#[tokio::test]
async fn a_flood_of_unknown_keys_causes_one_request_a_minute() {
    let (issuer, clock) = (TestIssuer::start().await, GuardClock::standing_at(now()));
    let server = GuardedServer::start(Mount::Listener, guard(&issuer, &clock).build().unwrap()).await;
    let flood = async |minute: usize| {
        let mut connections = Vec::new();
        for index in 0..100 {
            let token = sign(&key(&format!("k{minute}-{index}")), &claims(&issuer.identifier, RESOURCE));
            connections.push(server.open(bearer(modern_call(1, "whoami", json!({})), &token)).await);
        }
        for mut connection in connections {
            let response = within("a response", connection.response()).await;
            assert_refused(&response, 401, "invalid_token", "an unknown key");
        }
    };
    // Also if no keys are known yet.
    for minute in 1..=4 {
        flood(minute).await;
        assert_eq!(issuer.key_requests(), minute);
        clock.advance(MINUTE / 2);
        flood(minute).await;
        assert_eq!(issuer.key_requests(), minute);
        clock.advance(MINUTE / 2);
    }
    assert_eq!(server.reached(), 0);
}

#[tokio::test]
async fn a_token_without_a_key_id_is_looked_for_among_all_keys_and_at_most_once_a_minute() {
    let (issuer, clock) = (TestIssuer::start().await, GuardClock::standing_at(now()));
    let guard = guard(&issuer, &clock).build().unwrap();
    let without_id = |issuer: &TestIssuer| {
        let signed =
            issuer.key().sign(&[("typ", json!("at+jwt")), ("kid", json!(""))], &claims(&issuer.identifier, RESOURCE));
        assert!(!signed.is_empty());
        let key = issuer.key();
        let mut header = crate::tokens::header(&key);
        header.remove("kid");
        crate::tokens::sign_bytes(&key, &json!(header).to_string(), &claims(&issuer.identifier, RESOURCE).to_string())
    };
    assert_eq!(status(&guard, &without_id(&issuer)).await, 200);
    issuer.rotate("k2");
    clock.advance(MINUTE);
    assert_eq!(status(&guard, &without_id(&issuer)).await, 200, "the new key is found");
    assert_eq!(issuer.key_requests(), 2);
    let stranger = TestIssuer::start().await;
    for _ in 0..5 {
        let mut header = crate::tokens::header(&stranger.key());
        header.remove("kid");
        let claims = claims(&issuer.identifier, RESOURCE).to_string();
        let forged = crate::tokens::sign_bytes(&stranger.key(), &json!(header).to_string(), &claims);
        assert_eq!(status(&guard, &forged).await, 401);
    }
    assert_eq!(issuer.key_requests(), 3);
}

#[tokio::test]
async fn a_rotated_key_is_found_under_load_and_no_request_fails() {
    let (issuer, clock) = (TestIssuer::start().await, GuardClock::standing_at(now()));
    let server = GuardedServer::start(Mount::Listener, guard(&issuer, &clock).build().unwrap()).await;
    for round in 0..5 {
        let mut connections = Vec::new();
        for index in 0..30 {
            if index == 10 {
                // The old key stays in the set, so that its tokens are valid until they expire.
                issuer.state.keys.lock().push(std::sync::Arc::new(key(&format!("rotated-{round}"))));
            }
            let request = bearer(modern_call(1, "whoami", json!({})), &token(&issuer, &clock));
            connections.push(server.open(request).await);
        }
        for mut connection in connections {
            let response = within("a response", connection.response()).await;
            assert_eq!(response.status(), 200, "round {round}: {response}");
        }
    }
    assert_eq!(issuer.key_requests(), 6, "one at first, and one for each rotation");
}

#[tokio::test]
async fn a_withdrawn_key_is_refused_when_the_keys_are_fetched_again() {
    let (issuer, clock) = (TestIssuer::start().await, GuardClock::standing_at(now()));
    *issuer.state.cache_control.lock() = Some("max-age=600".to_owned());
    let guard = guard(&issuer, &clock).build().unwrap();
    let old = issuer.key();
    assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200);
    issuer.rotate("k2");
    clock.advance(Duration::from_secs(601));
    let late = json!({ "iat": clock.now() as u64, "exp": clock.now() as u64 + 600 });
    let stolen = sign(&old, &crate::tokens::changed(claims(&issuer.identifier, RESOURCE), late));
    assert_eq!(status(&guard, &stolen).await, 401);
    assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200);
    assert_eq!(issuer.key_requests(), 2);
}

#[tokio::test]
async fn keys_are_cached_as_long_as_the_issuer_says_within_limits() {
    for (cache_control, seconds) in [
        (Some("max-age=1200"), 1200),
        (Some("no-store"), 300),
        (Some("max-age=1"), 300),
        (Some("max-age=99999999"), 24 * 3600),
        (None, 3600),
    ] {
        let (issuer, clock) = (TestIssuer::start().await, GuardClock::standing_at(now()));
        *issuer.state.cache_control.lock() = cache_control.map(str::to_owned);
        let guard = guard(&issuer, &clock).build().unwrap();
        assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200);
        clock.advance(Duration::from_secs(seconds - 1));
        assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200);
        assert_eq!(issuer.key_requests(), 1, "{cache_control:?}");
        clock.advance(Duration::from_secs(1));
        assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200);
        assert_eq!(issuer.key_requests(), 2, "{cache_control:?}");
    }
}

#[tokio::test]
async fn a_server_whose_issuer_is_down_is_unavailable_and_does_not_hang() {
    for mount in Mount::ALL {
        for mode in [Mode::Failing, Mode::Silent] {
            let issuer = TestIssuer::start().await;
            let clock = GuardClock::standing_at(now());
            let guard = guard_for(&issuer, mount).clock(clock.clone()).fetch_timeout(Duration::from_secs(1));
            let server = GuardedServer::start(mount, guard.build().unwrap()).await;
            let good = issuer.token(mount.resource(), json!({}));
            let (session, pair) = (server.session(&good).await, server.pair(&good).await);
            let reached = server.reached();
            // Neither the token nor the keys are known any more.
            clock.advance(Duration::from_secs(3 * 3600));
            issuer.set_mode(mode);
            let now = clock.now() as u64;
            let token = issuer.token(mount.resource(), json!({ "iat": now, "exp": now + 600 }));
            for entry in server.entries(&session, &pair) {
                let response = entry.send(|request| bearer(request, &token)).await;
                assert_eq!(response.status(), 503, "{mode:?}, {}: {response}", entry.name);
                let wait: u64 = response.header("retry-after").unwrap().parse().unwrap();
                assert!((1..=5).contains(&wait));
                assert_eq!(response.header("www-authenticate"), None, "clients must not log in again");
                assert_eq!(response.json()["error"]["code"], -32053);
            }
            assert_eq!(server.reached(), reached, "nothing has run");
            // It is asked again after some seconds, and not for each request.
            issuer.set_mode(Mode::Up);
            assert_eq!(server.entries(&session, &pair)[0].status(|request| bearer(request, &token)).await, 503);
            clock.advance(Duration::from_secs(5));
            server.entries(&session, &pair)[0].assert_accepted(&token).await;
        }
    }
}

#[tokio::test]
async fn old_keys_serve_for_an_hour_while_the_issuer_is_down() {
    for mode in [Mode::Failing, Mode::Silent] {
        let (issuer, clock) = (TestIssuer::start().await, GuardClock::standing_at(now()));
        *issuer.state.cache_control.lock() = Some("max-age=600".to_owned());
        let guard = guard(&issuer, &clock).fetch_timeout(Duration::from_secs(1)).build().unwrap();
        assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200);
        issuer.set_mode(mode);
        for _ in 0..6 {
            // 10 to 60 minutes.
            clock.advance(10 * MINUTE);
            assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200, "{mode:?}");
        }
        clock.advance(Duration::from_secs(599));
        assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200);
        // A token of a key that is not known cannot be checked: that is no fault of the token.
        let unknown = sign(
            &key("k9"),
            &crate::tokens::changed(
                claims(&issuer.identifier, RESOURCE),
                json!({ "iat": clock.now() as u64, "exp": clock.now() as u64 + 600 }),
            ),
        );
        assert_eq!(status(&guard, &unknown).await, 503);
        clock.advance(Duration::from_secs(1));
        assert_eq!(status(&guard, &token(&issuer, &clock)).await, 503, "{mode:?}");
        issuer.set_mode(Mode::Up);
        clock.advance(Duration::from_secs(5));
        assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200);
    }
}

#[tokio::test]
async fn an_issuer_that_is_back_is_asked_again_soon_also_for_an_unknown_key() {
    let (issuer, clock) = (TestIssuer::start().await, GuardClock::standing_at(now()));
    let guard = guard(&issuer, &clock).build().unwrap();
    assert_eq!(status(&guard, &token(&issuer, &clock)).await, 200);
    issuer.rotate("k2");
    issuer.set_mode(Mode::Failing);
    clock.advance(MINUTE);
    let fresh = token(&issuer, &clock);
    assert_eq!(status(&guard, &fresh).await, 503);
    issuer.set_mode(Mode::Up);
    assert_eq!(status(&guard, &fresh).await, 503, "not before some seconds have passed");
    clock.advance(Duration::from_secs(5));
    assert_eq!(status(&guard, &fresh).await, 200);
}

#[tokio::test]
async fn a_request_that_is_given_up_does_not_stop_the_fetch_for_others() {
    let (issuer, clock) = (TestIssuer::start().await, GuardClock::standing_at(now()));
    let guard = guard(&issuer, &clock).build().unwrap();
    let (one, two) = (token(&issuer, &clock), token(&issuer, &clock));
    {
        let mut given_up = std::pin::pin!(guard.verify(&one));
        assert!(futures_poll(given_up.as_mut()).await.is_none(), "it waits for the keys");
    }
    assert_eq!(status(&guard, &two).await, 200);
    assert_eq!(issuer.key_requests(), 1);
}

/// Polls a future once.
async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|task| {
        std::task::Poll::Ready(match future.as_mut().poll(task) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn hostile_documents_of_an_issuer_are_no_permission() {
    let json = "application/json";
    let key = key("k1");
    let public = serde_json::to_value(key.public_jwk()).unwrap();
    let with = |changes| json!({ "keys": [crate::tokens::changed(public.clone(), changes)] }).to_string();
    let secret = json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0", "kid": "k1", "alg": "HS256" }] }).to_string();
    let many = format!("{{\"keys\":[{}]}}", vec![public.to_string(); 3000].join(","));
    let other_issuer = json!({ "issuer": "http://127.0.0.1:1", "jwks_uri": "http://127.0.0.1:1/jwks" }).to_string();
    let table = [
        ("metadata of another issuer", "oauth-authorization-server", json, other_issuer),
        ("metadata without keys", "oauth-authorization-server", json, "{}".to_owned()),
        ("metadata that is a page", "oauth-authorization-server", "text/html", "<html>".to_owned()),
        ("keys that are a page", "jwks", "text/html", with(json!({}))),
        ("keys that are not JSON", "jwks", json, "keys".to_owned()),
        ("keys of another form", "jwks", json, "[]".to_owned()),
        ("no keys", "jwks", json, r#"{"keys":[]}"#.to_owned()),
        ("symmetric keys", "jwks", json, secret),
        ("a private key", "jwks", json, with(json!({ "d": "x" }))),
        ("a key for encryption", "jwks", json, with(json!({ "use": "enc" }))),
        ("more than 256 KiB", "jwks", json, many),
        ("nested too deeply", "jwks", json, "[".repeat(10_000)),
    ];
    for (what, document, media_type, body) in table {
        let issuer = TestIssuer::start().await;
        *issuer.state.keys.lock() = vec![std::sync::Arc::new(self::key("unused"))];
        issuer.state.documents.lock().insert(document, (media_type, body.into_bytes()));
        let guard = guard_for(&issuer, Mount::Listener).build().unwrap();
        let token = sign(&key, &claims(&issuer.identifier, RESOURCE));
        assert_eq!(status(&guard, &token).await, 503, "{what}");
    }
    // A key of an unknown type beside a usable one does no harm.
    let issuer = TestIssuer::start().await;
    let keys = json!({ "keys": [{ "kty": "AKP", "alg": "ML-DSA-44" }, { "kty": 1 }, public] }).to_string();
    issuer.state.documents.lock().insert("jwks", (json, keys.into_bytes()));
    let guard = guard_for(&issuer, Mount::Listener).build().unwrap();
    assert_eq!(status(&guard, &sign(&key, &claims(&issuer.identifier, RESOURCE))).await, 200);
}

#[tokio::test]
async fn metadata_of_another_issuer_does_not_give_its_keys() {
    let issuer = TestIssuer::start().await;
    let keys = format!("{}/jwks", issuer.identifier);
    let metadata = |identifier: &str| json!({ "issuer": identifier, "jwks_uri": keys }).to_string().into_bytes();
    let serve = |identifier: &str| {
        let document = ("application/json", metadata(identifier));
        issuer.state.documents.lock().insert("oauth-authorization-server", document);
    };
    let token = issuer.token(RESOURCE, json!({}));
    for other in ["http://127.0.0.1:1", &format!("{}/", issuer.identifier), &format!("{}/tenant", issuer.identifier)] {
        serve(other);
        let guard = guard_for(&issuer, Mount::Listener).build().unwrap();
        assert_eq!((status(&guard, &token).await, issuer.key_requests()), (503, 0), "{other}");
    }
    serve(&issuer.identifier);
    assert_eq!(status(&guard_for(&issuer, Mount::Listener).build().unwrap(), &token).await, 200);
}

#[tokio::test]
async fn the_number_of_keys_that_are_kept_and_tried_is_bounded() {
    let public = |kid: &str| serde_json::to_value(key(kid).public_jwk()).unwrap();
    for (others, expected) in [(99, 200), (100, 401)] {
        let issuer = TestIssuer::start().await;
        let mut keys: Vec<_> = (0..others).map(|number| public(&format!("other-{number}"))).collect();
        keys.push(serde_json::to_value(issuer.key().public_jwk()).unwrap());
        let document = ("application/json", json!({ "keys": keys }).to_string().into_bytes());
        issuer.state.documents.lock().insert("jwks", document);
        let guard = guard_for(&issuer, Mount::Listener).build().unwrap();
        assert_eq!(status(&guard, &issuer.token(RESOURCE, json!({}))).await, expected, "{others} other keys");
    }
    // A token without a key id must not cost a check for each key.
    let own = SigningKey::generate(Algorithm::Es256).unwrap();
    for (others, expected) in [(7, 200), (8, 401)] {
        let mut keys: Vec<_> = (0..others).map(|_| key("other").public_jwk()).collect();
        keys.push(own.public_jwk());
        let issuer = Issuer::keys("https://auth.example.com", JwkSet::new(keys));
        let guard = TokenGuard::builder(RESOURCE).issuer(issuer).build().unwrap();
        let token = sign(&own, &claims("https://auth.example.com", RESOURCE));
        assert_eq!(status(&guard, &token).await, expected, "{others} other keys");
    }
}
