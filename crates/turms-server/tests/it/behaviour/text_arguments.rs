//! The constraints on prompt arguments and URI variables, which are strings on the wire.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use turms_proto::ProtocolVersion;
use turms_proto::types::{
    GetPrompt, GetPromptParams, GetPromptResult, ReadResource, ReadResourceParams, ReadResourceResult,
};
use turms_server::{Args, Prompt, Resource, Server};
use turms_testkit::test_client::TestClient;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Tone {
    Kind,
    Strict,
}

#[derive(Deserialize, JsonSchema)]
struct Percent(#[schemars(range(max = 100))] u32);

#[derive(Deserialize, JsonSchema)]
struct Review {
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
    #[schemars(length(min = 2, max = 4))]
    name: String,
    #[schemars(regex(pattern = "^[0-9]+$"))]
    code: Option<String>,
    tone: Option<Tone>,
    share: Option<Percent>,
    #[schemars(range(min = 0.5))]
    weight: Option<f64>,
    sure: Option<bool>,
}

impl Review {
    fn shown(&self) -> String {
        let tone = self.tone.as_ref().map(|tone| matches!(tone, Tone::Kind));
        let share = self.share.as_ref().map(|share| share.0);
        format!("{} {} {:?} {tone:?} {share:?} {:?} {:?}", self.stars, self.name, self.code, self.weight, self.sure)
    }
}

fn server() -> Server {
    Server::new("texts", "1")
        .prompt(Prompt::builder("review").handler_sync(|Args(review): Args<Review>| review.shown()))
        .resource(
            Resource::builder("review://{name}/{stars}{?code,tone,share,weight,sure}")
                .handler_sync(|Args(review): Args<Review>| review.shown()),
        )
}

/// Invalid values, each with the expected error. The other arguments are valid.
const CASES: [(&str, &str, Result<&str, &str>); 14] = [
    ("stars", "3", Ok("3 abc None None None None None")),
    ("stars", " 3", Ok("3 abc None None None None None")),
    ("stars", "9", Err("arguments.stars: 9 is greater than the maximum of 5")),
    ("stars", "many", Err("arguments.stars: \"many\" is not of type \"integer\"")),
    ("name", "12", Ok("1 12 None None None None None")),
    ("name", "a", Err("arguments.name: \"a\" is shorter than 2 characters")),
    ("code", "42", Ok("1 abc Some(\"42\") None None None None")),
    ("code", "x", Err("arguments.code: \"x\" does not match \"^[0-9]+$\"")),
    ("tone", "kind", Ok("1 abc None Some(true) None None None")),
    ("tone", "rude", Err("arguments.tone: \"rude\" is not one of \"kind\" or \"strict\"")),
    ("share", "100", Ok("1 abc None None Some(100) None None")),
    ("share", "101", Err("arguments.share: 101 is greater than the maximum of 100")),
    ("weight", "0.25", Err("arguments.weight: 0.25 is less than the minimum of 0.5")),
    ("sure", "true", Ok("1 abc None None None None Some(true)")),
];

fn arguments(name: &str, value: &str) -> BTreeMap<String, String> {
    let mut arguments = BTreeMap::from([("stars", "1"), ("name", "abc")]);
    arguments.insert(name, value);
    arguments.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn arguments_of_prompts_are_validated() {
    let router = server().build().unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        for (name, value, expected) in CASES {
            let params = GetPromptParams::new("review").arguments(arguments(name, value));
            let answer: Result<GetPromptResult, _> = client.request_rounds::<GetPrompt, _>(&params).await;
            match (answer, expected) {
                (Ok(result), Ok(shown)) => assert_eq!(result.messages[0].content.as_text(), Some(shown)),
                (Err(error), Err(words)) => {
                    let error = error.server_error();
                    assert_eq!((error.code.0, error.message.as_str()), (-32602, words));
                }
                (answer, _) => panic!("{name}={value}: {answer:?}"),
            }
        }
        let params = GetPromptParams::new("review").arguments(BTreeMap::from([("stars".to_owned(), "1".to_owned())]));
        let error = client.request_rounds::<GetPrompt, GetPromptResult>(&params).await.unwrap_err();
        assert_eq!(error.server_error().message, "arguments: missing field \"name\"");
    }
}

#[tokio::test]
async fn variables_of_uris_are_validated() {
    let router = server().build().unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        for (name, value, expected) in CASES {
            let mut arguments = arguments(name, &value.replace(' ', "%20"));
            let (who, stars) = (arguments.remove("name").unwrap(), arguments.remove("stars").unwrap());
            let query: Vec<String> = arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let mark = if query.is_empty() { "" } else { "?" };
            let params = ReadResourceParams::new(format!("review://{who}/{stars}{mark}{}", query.join("&")));
            let answer: Result<ReadResourceResult, _> = client.request_rounds::<ReadResource, _>(&params).await;
            match (answer, expected) {
                (Ok(result), Ok(shown)) => assert_eq!(result.contents[0].text.as_deref(), Some(shown)),
                (Err(error), Err(words)) => {
                    let error = error.server_error();
                    assert_eq!((error.code.0, error.message.as_str()), (-32602, words));
                }
                (answer, _) => panic!("{name}={value}: {answer:?}"),
            }
        }
    }
}

/// A constraint on one argument does not change which spellings of a number another one accepts.
#[tokio::test]
async fn a_constraint_on_one_argument_changes_nothing_for_the_others() {
    #[derive(Deserialize, JsonSchema)]
    struct Free {
        count: Option<i64>,
        share: Option<f64>,
        sure: Option<bool>,
    }
    #[derive(Deserialize, JsonSchema)]
    struct Beside {
        count: Option<i64>,
        share: Option<f64>,
        sure: Option<bool>,
        #[schemars(length(max = 4))]
        #[allow(dead_code, reason = "only its constraint matters")]
        name: Option<String>,
    }
    let free = |Args(free): Args<Free>| format!("{:?} {:?} {:?}", free.count, free.share, free.sure);
    let beside = |Args(beside): Args<Beside>| format!("{:?} {:?} {:?}", beside.count, beside.share, beside.sure);
    let server = Server::new("texts", "1")
        .prompt(Prompt::builder("free").handler_sync(free))
        .prompt(Prompt::builder("beside").handler_sync(beside));
    let client = TestClient::connect(&server.build().unwrap(), ProtocolVersion::LATEST).await;
    let get = async |prompt: &str, name: &str, value: &str| {
        let arguments = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let params = GetPromptParams::new(prompt).arguments(arguments);
        let answer: Result<GetPromptResult, _> = client.request_rounds::<GetPrompt, _>(&params).await;
        answer.ok().and_then(|result| result.messages[0].content.as_text().map(str::to_owned))
    };
    for (name, value, shown) in [
        ("count", "5", Some("Some(5) None None")),
        ("count", "+5", Some("Some(5) None None")),
        ("count", "05", Some("Some(5) None None")),
        ("count", "-05 ", Some("Some(-5) None None")),
        ("count", "5.0", None),
        ("count", "5x", None),
        ("share", "+.5", Some("None Some(0.5) None")),
        ("share", "05.", Some("None Some(5.0) None")),
        ("share", "1e3", Some("None Some(1000.0) None")),
        ("share", "inf", None),
        ("share", "NaN", None),
        ("share", "1e999", None),
        ("sure", " true", Some("None None Some(true)")),
        ("sure", "True", None),
        ("sure", "1", None),
    ] {
        for prompt in ["free", "beside"] {
            assert_eq!(get(prompt, name, value).await.as_deref(), shown, "{prompt}: {name}={value}");
        }
    }
}

#[test]
fn an_invalid_constraint_is_a_build_error() {
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "never decoded")]
    struct Broken {
        #[schemars(extend("pattern" = "("))]
        name: String,
    }
    let prompt = Prompt::builder("broken").handler_sync(|Args(_): Args<Broken>| "never");
    let error = Server::new("texts", "1").prompt(prompt).build().unwrap_err();
    assert!(
        error.to_string().contains("prompt \"broken\"") && error.to_string().contains("/properties/name/pattern"),
        "{error}"
    );
    let resource = Resource::builder("broken://{name}").handler_sync(|Args(_): Args<Broken>| "never");
    let error = Server::new("texts", "1").resource(resource).build().unwrap_err();
    assert!(error.to_string().contains("/properties/name/pattern"), "{error}");
}
