//! Logins while requests wait for them, and requests that do not wait until the end.

use std::time::Duration;

use futures_util::future::join_all;
use turms_oauth::{OAuth, TokenStore as _};
use turms_testkit::{eventually, within};

use crate::script::{Reply, Script, get, provider};
use crate::world::{Browser, World, call, dev};

async fn waiting_world() -> World {
    let world = World::with(dev().refresh_tokens(false)).await;
    World { browser: Browser::waiting(), ..world }
}

#[tokio::test]
async fn calls_that_wait_for_a_login_are_made_after_it() {
    let world = waiting_world().await;
    world.browser.release();
    let client = world.connect(&world.oauth()).await;
    // There is no refresh token: only a person can help.
    world.expire_at_server();
    let calls = tokio::spawn({
        let client = client.clone();
        async move { join_all((0..20).map(|_| call(&client, "whoami"))).await }
    });
    eventually("the browser", async || world.browser.windows() == 2).await;
    world.browser.release();
    for result in within("the calls", calls).await.unwrap() {
        assert_eq!(result.unwrap(), "alice");
    }
    assert_eq!((world.browser.windows(), world.dev.grants("authorization_code")), (2, 2));
}

#[tokio::test]
async fn the_timeout_of_a_call_does_not_run_while_a_person_logs_in() {
    let world = waiting_world().await;
    world.browser.release();
    let client = world.connect(&world.oauth()).await;
    world.expire_at_server();
    let timeout = Duration::from_millis(300);
    let pending = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("whoami", ()).timeout(timeout).await }
    });
    eventually("the browser", async || world.browser.windows() == 2).await;
    let begun = tokio::time::Instant::now();
    eventually("more than the timeout", async || begun.elapsed() > 2 * timeout).await;
    world.browser.release();
    assert_eq!(within("the call", pending).await.unwrap().unwrap().text(), "alice");
}

#[tokio::test]
async fn a_login_goes_on_if_its_request_is_given_up_and_serves_the_next() {
    let world = waiting_world().await;
    let auth = world.oauth();
    let request = tokio::spawn({
        let (auth, url) = (auth.clone(), world.server.url.clone());
        async move { auth.token(url).await }
    });
    eventually("the browser", async || world.browser.windows() == 1).await;
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    world.browser.release();
    within("the token", auth.token(&world.server.url)).await.unwrap();
    assert_eq!((world.browser.windows(), world.dev.grants("authorization_code")), (1, 1));
}

#[tokio::test]
async fn another_client_waits_for_the_login_of_the_first() {
    let world = waiting_world().await;
    // Two processes with one store.
    let clients: [OAuth; 2] = [world.oauth(), world.oauth()];
    let first = tokio::spawn({
        let (auth, url) = (clients[0].clone(), world.server.url.clone());
        async move { auth.token(url).await }
    });
    eventually("the browser", async || world.browser.windows() == 1).await;
    let second = tokio::spawn({
        let (auth, url) = (clients[1].clone(), world.server.url.clone());
        async move { auth.token(url).await }
    });
    assert!(world.store.list().await.unwrap().is_empty());
    world.browser.release();
    let [first, second] = [within("a token", first).await, within("a token", second).await];
    assert_eq!(first.unwrap().unwrap(), second.unwrap().unwrap());
    assert_eq!(world.browser.windows(), 1);
}

#[tokio::test]
async fn a_failed_login_is_the_error_of_all_calls_that_wait_for_it() {
    let world = World::with(dev().refresh_tokens(false).auto_deny()).await;
    let auth = world.oauth();
    let results = join_all((0..20).map(|_| auth.token(&world.server.url))).await;
    assert!(results.iter().all(|result| result.as_ref().is_err_and(|error| error.is_denied())), "{results:?}");
    assert_eq!(world.browser.windows(), 1);
}

#[tokio::test]
async fn a_login_whose_code_is_rejected_is_not_made_again_by_the_calls_that_wait() {
    let server = Script::start(|request| match &*request.path {
        "/token" => Reply::error(400, "invalid_grant"),
        _ => provider(&request),
    })
    .await;
    let browser = Browser::waiting();
    let auth = OAuth::new("agent").login(browser.login());
    let calls = tokio::spawn({
        let (auth, url) = (auth.clone(), server.url("/mcp"));
        async move { join_all((0..5).map(|_| auth.token(&url))).await }
    });
    eventually("the calls", async || server.at("/mcp").len() == 5 && browser.windows() == 1).await;
    // The calls have their responses when later requests have theirs.
    for _ in 0..10 {
        get(&server.url("/other")).await;
    }
    browser.release();
    for result in within("the calls", calls).await.unwrap() {
        assert!(result.unwrap_err().is_invalid_grant());
    }
    assert_eq!(browser.windows(), 1);
}
