//! Constraints on prompt arguments and URI template variables, over HTTP.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use turms_server::{Args, Prompt, Resource};

use crate::dialog::modern;
use crate::fixture::Fixture;

#[derive(Deserialize, JsonSchema)]
struct Rating {
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
}

#[tokio::test]
async fn texts_that_break_a_constraint_are_refused() {
    let rated = |Args(rating): Args<Rating>| rating.stars.to_string();
    let add = |server: turms_server::Server| {
        server
            .prompt(Prompt::builder("rate").handler_sync(rated))
            .resource(Resource::builder("rating://{stars}").handler_sync(rated))
    };
    let fixture = Fixture::of(add, |service| service).await;
    let prompt = |stars: &str| modern("q", "prompts/get", json!({ "name": "rate", "arguments": { "stars": stars } }));
    let resource = |stars: &str| modern("q", "resources/read", json!({ "uri": format!("rating://{stars}") }));
    let result = fixture.send(prompt("5")).await.result();
    assert_eq!(result["messages"][0]["content"]["text"], "5");
    assert_eq!(fixture.send(resource("5")).await.result()["contents"][0]["text"], "5");
    for request in [prompt("6"), resource("6")] {
        let error = fixture.send(request).await.json()["error"].clone();
        assert_eq!(error["code"], -32602);
        assert_eq!(error["message"], "arguments.stars: 6 is greater than the maximum of 5");
    }
}
