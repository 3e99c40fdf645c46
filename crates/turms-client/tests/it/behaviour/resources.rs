//! Reading resources.

use turms_proto::{Ability, ErrorCode};

use crate::behaviour::reach::everywhere;

#[tokio::test]
async fn text_is_read() {
    everywhere(async |client| {
        let contents = client.read_resource("config://app").await.unwrap().contents;
        assert_eq!((contents[0].uri.as_str(), contents[0].text.as_deref()), ("config://app", Some("debug = true")));
        assert_eq!(contents[0].mime_type.as_deref(), Some("text/plain"));
    })
    .await;
}

#[tokio::test]
async fn bytes_are_read() {
    everywhere(async |client| {
        let contents = client.read_resource("data://blob").await.unwrap().contents;
        assert_eq!((contents[0].text.as_ref(), contents[0].bytes().unwrap()), (None, vec![0, 255]));
    })
    .await;
}

#[tokio::test]
async fn a_resource_of_a_template_is_read_at_its_uri() {
    everywhere(async |client| {
        let contents = client.read_resource("users://7/profile").await.unwrap().contents;
        assert_eq!((contents[0].uri.as_str(), contents[0].text.as_deref()), ("users://7/profile", Some(r#"{"id":7}"#)));
    })
    .await;
}

#[tokio::test]
async fn a_missing_resource_has_the_error_code_of_the_revision() {
    everywhere(async |client| {
        let older = !client.version.has(Ability::ResourceErrorsAsInvalidParams);
        let code = if older { ErrorCode::RESOURCE_NOT_FOUND } else { ErrorCode::INVALID_PARAMS };
        for missing in ["users://8/profile", "config://other"] {
            let error = client.read_resource(missing).await.unwrap_err();
            assert!(error.error_response().unwrap().is_resource_not_found());
            assert_eq!(error.error_response().unwrap().code, code, "{missing}");
            assert_eq!(error.target(), format!("resources/read {missing:?}"));
        }
        let error = client.read_resource("users://x/profile").await.unwrap_err();
        assert_eq!(error.error_response().unwrap().code, ErrorCode::INVALID_PARAMS);
        assert!(!error.error_response().unwrap().is_resource_not_found());
    })
    .await;
}
