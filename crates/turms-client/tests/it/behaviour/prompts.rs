//! Prompts, and completion of their arguments and of template variables.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;
use turms_client::{CallErrorKind, Delivery};
use turms_proto::types::{Content, PromptMessage, Reference, Role};
use turms_proto::{Ability, ErrorCode};

use crate::behaviour::reach::everywhere;

/// Arguments of `greeting` as a client sends them: all are strings.
#[derive(Serialize)]
struct Greeting {
    name: String,
    times: Option<String>,
}

#[tokio::test]
async fn a_prompt_takes_a_struct_or_a_map_or_nothing() {
    everywhere(async |client| {
        let greeting = Greeting { name: "Ann".into(), times: Some("2".into()) };
        let result = client.get_prompt("greeting", greeting).await.unwrap();
        assert_eq!(result.messages, [PromptMessage::user("Hello AnnHello Ann")]);
        let result = client.get_prompt("greeting", BTreeMap::from([("name", "Bob")])).await.unwrap();
        assert_eq!(result.messages, [PromptMessage::user("Hello Bob")]);
        let result = client.get_prompt("plain", ()).await.unwrap();
        assert_eq!(result.messages, [PromptMessage::user("plain")]);
    })
    .await;
}

#[tokio::test]
async fn a_field_of_a_struct_that_is_not_there_is_not_sent() {
    everywhere(async |client| {
        let greeting = Greeting { name: "Ann".into(), times: None };
        let result = client.get_prompt("greeting", greeting).await.unwrap();
        assert_eq!(result.messages, [PromptMessage::user("Hello Ann")]);
    })
    .await;
}

#[tokio::test]
async fn a_prompt_has_messages_of_both_roles() {
    everywhere(async |client| {
        let messages = client.get_prompt("conversation", ()).await.unwrap().messages;
        let roles: Vec<_> = messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::User, Role::Assistant]);
        assert!(matches!(&messages[1].content, Content::Image(image) if image.bytes().unwrap() == [1, 2]));
    })
    .await;
}

#[tokio::test]
async fn the_error_names_a_missing_prompt_argument() {
    everywhere(async |client| {
        let error = client.get_prompt("greeting", ()).await.unwrap_err();
        let told = error.error_response().unwrap();
        assert_eq!(
            (told.code, told.message.as_str()),
            (ErrorCode::INVALID_PARAMS, "arguments: missing field \"name\"")
        );
        assert_eq!(error.target(), "prompts/get \"greeting\"");
        let error = client.get_prompt("greeting", json!({ "name": "Ann", "times": "many" })).await.unwrap_err();
        assert_eq!(error.error_response().unwrap().code, ErrorCode::INVALID_PARAMS);
        let error = client.get_prompt("nothing", ()).await.unwrap_err();
        assert_eq!(error.error_response().unwrap().message, "unknown prompt: \"nothing\"");
    })
    .await;
}

#[tokio::test]
async fn arguments_of_prompts_are_strings() {
    everywhere(async |client| {
        let error = client.get_prompt("greeting", json!({ "name": "Ann", "times": 2 })).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Encode(_)), "{error}");
        assert_eq!(error.delivery(), Delivery::NotSent);
        assert_eq!(client.count("prompts/get").await, 0);
    })
    .await;
}

#[tokio::test]
async fn arguments_and_variables_are_completed() {
    everywhere(async |client| {
        let completion = client.complete(Reference::prompt("greeting"), "name", "A").await.unwrap();
        assert_eq!((completion.values, completion.has_more), (vec!["Ann".to_owned()], Some(false)));
        let template = Reference::resource("users://{id}/profile");
        assert_eq!(client.complete(template, "id", "7").await.unwrap().values, ["71"]);
        assert!(client.complete(Reference::prompt("plain"), "x", "").await.unwrap().values.is_empty());
        let error = client.complete(Reference::prompt("nothing"), "x", "").await.unwrap_err();
        assert_eq!(error.error_response().unwrap().code, ErrorCode::INVALID_PARAMS);
    })
    .await;
}

#[tokio::test]
async fn known_arguments_are_sent_with_a_completion_request() {
    everywhere(async |client| {
        let known = BTreeMap::from([("times".to_owned(), "2".to_owned())]);
        let completion = client.complete(Reference::prompt("greeting"), "name", "A").arguments(known).await.unwrap();
        let expected = if client.version.has(Ability::CompletionContext) { "Ann2" } else { "Ann" };
        assert_eq!(completion.values, [expected]);
    })
    .await;
}
