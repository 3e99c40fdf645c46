//! Unexpected arguments of a tool.

use super::wire::Wire;
use super::*;

#[tokio::test]
async fn the_error_for_unexpected_arguments_is_bounded() {
    let router = router();
    let long = "x".repeat(1_000_000);
    let mut arguments: Vec<String> = (0..100_000).map(|number| format!("\"a{number}\":1")).collect();
    arguments.insert(0, format!("\"{long}\":1"));
    let params = format!(r#"{{"name":"list","arguments":{{{}}}}}"#, arguments.join(","));
    for version in ProtocolVersion::ALL {
        let mut wire = Wire::open(&router, version, json!({})).await;
        wire.start(1, "tools/call", &params).await;
        let answer = wire.receive().await;
        let result = &answer["result"]["content"][0]["text"];
        let text = answer["error"]["message"].as_str().or_else(|| result.as_str()).unwrap();
        assert!(text.starts_with("arguments: unexpected field \"xxx"), "{version}");
        assert_eq!(text.matches("unexpected field").count(), 8, "{version}");
        assert!(text.contains("unexpected field \"a6\", nothing is taken here"), "{version}: {text}");
        assert!(text.len() < 1_000, "{version}: {}", text.len());
    }
}

#[tokio::test]
async fn the_error_for_unknown_names_is_bounded() {
    let router = router();
    let long = "\u{7f}".repeat(100_000);
    for version in ProtocolVersion::ALL {
        let mut wire = Wire::open(&router, version, json!({})).await;
        let reference =
            json!({ "ref": { "type": "ref/prompt", "name": long }, "argument": { "name": "a", "value": "" } });
        for (id, method, params) in [
            (1, "tools/call", json!({ "name": long })),
            (2, "prompts/get", json!({ "name": long })),
            (3, "completion/complete", reference),
        ] {
            wire.start(id, method, &params.to_string()).await;
            let answer = wire.receive().await;
            let text = answer["error"]["message"].as_str().unwrap();
            assert!(text.starts_with("unknown "), "{version} {method}: {text:.100}");
            assert!(text.len() < 2_000, "{version} {method}: {}", text.len());
        }
    }
}
