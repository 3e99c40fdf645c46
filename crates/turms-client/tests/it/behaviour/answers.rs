//! Elicitation, sampling and roots requests of a server: the same handlers respond in every revision.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::sync::Notify;
use turms_client::{CallErrorKind, Client, ClientBuilder, HandlerError, InputCause};
use turms_proto::types::{CreateMessageResult, ElicitResult, PromptMessage, Root};
use turms_proto::{Ability, ErrorCode, ProtocolVersion};

use crate::behaviour::reach::{Way, along, everywhere, everywhere_as, nobody, person};

fn asking() -> ClientBuilder {
    Client::builder("suite", "1.0.0")
}

fn filled(content: &Value) -> Result<ElicitResult, HandlerError> {
    Ok(ElicitResult::accept(content)?)
}

fn with_forms() -> Vec<ProtocolVersion> {
    ProtocolVersion::ALL.into_iter().filter(|version| version.has(Ability::FormElicitation)).collect()
}

/// Returns the error message for a capability that the client did not declare.
fn undeclared(capability: &str, version: ProtocolVersion) -> String {
    let exists = match capability {
        "elicitation.form" => version.has(Ability::FormElicitation),
        "elicitation.url" => version.has(Ability::UrlElicitation),
        "sampling.tools" => version.has(Ability::SamplingTools),
        _ => true,
    };
    let reason = if exists { String::new() } else { format!(", which revision {version} does not have") };
    format!("the client did not declare the capability {capability}{reason}")
}

#[tokio::test]
async fn consecutive_input_requests_are_handled_and_effects_happen_once() {
    everywhere(async |client| {
        let result = client.call_tool("greet", ()).await.unwrap();
        if client.version.has(Ability::FormElicitation) {
            assert_eq!(result.text(), "Paris, Ann! (1)");
            // With two input requests the handler runs three times in revisions that repeat the call.
            let runs = if client.version.has(Ability::InputRequired) { 3 } else { 1 };
            assert_eq!((client.count("runs").await, client.count("effects").await), (runs, 1));
        } else {
            assert!(result.is_error());
            assert_eq!(result.text(), undeclared("elicitation.form", client.version));
        }
    })
    .await;
}

#[tokio::test]
async fn concurrent_input_requests_are_handled_together() {
    along(&Way::ALL, &with_forms(), person, async |client| {
        assert_eq!(client.text("all_at_once", ()).await, "Paris Ann 1");
        let calls = if client.version.has(Ability::InputRequired) { 2 } else { 1 };
        assert_eq!(client.count("tools/call").await, calls + 1);
    })
    .await;
}

#[tokio::test]
async fn a_form_takes_its_defaults() {
    along(&Way::ALL, &with_forms(), person, async |client| {
        let registered: Value = serde_json::from_str(&client.text("register", ()).await).unwrap();
        // 2025-06-18 has defaults for booleans only.
        let expected = match client.version.has(Ability::RichElicitation) {
            true => json!({ "name": "Ann", "colour": "red", "active": true }),
            false => json!({ "name": "Ann", "active": true }),
        };
        assert_eq!(registered, expected);
    })
    .await;
}

#[tokio::test]
async fn values_of_the_form_handler_take_precedence_over_defaults() {
    let builder = || {
        asking().on_form(|form, _| async move {
            assert_eq!(form.message, "Please register");
            filled(&json!({ "name": "Bob", "colour": "blue", "active": false }))
        })
    };
    along(&Way::ALL, &with_forms(), builder, async |client| {
        let registered: Value = serde_json::from_str(&client.text("register", ()).await).unwrap();
        assert_eq!(registered, json!({ "name": "Bob", "colour": "blue", "active": false }));
    })
    .await;
}

#[tokio::test]
async fn an_invalid_form_response_is_not_sent() {
    let builder = || asking().on_form(|_, _| async { filled(&json!({ "name": "x" })) });
    along(&Way::ALL, &with_forms(), builder, async |client| {
        let complaint = "invalid contents of the form: content.name: \"x\" is shorter than 2 characters";
        let answer = client.call_tool("register", ()).await;
        if client.version.has(Ability::InputRequired) {
            let error = answer.unwrap_err();
            let CallErrorKind::Input(InputCause::InvalidForm { method, reason }) = error.kind() else {
                panic!("{error}")
            };
            assert_eq!(method, "elicitation/create");
            assert!(reason.contains(complaint), "{reason}");
        } else {
            let result = answer.unwrap();
            assert!(result.is_error());
        }
    })
    .await;
}

#[tokio::test]
async fn declined_and_cancelled_elicitations_reach_the_tool() {
    for (answer, form, page) in
        [(ElicitResult::decline(), "nobody", "decline"), (ElicitResult::cancel(), "nobody", "cancel")]
    {
        let builder = || {
            let answer = answer.clone();
            asking().on_elicitation(move |_, _| std::future::ready(Ok(answer.clone())))
        };
        along(&Way::ALL, &with_forms(), builder, async |client| {
            assert_eq!(client.text("greet", ()).await, form);
            if client.version.has(Ability::UrlElicitation) {
                assert_eq!(client.text("visit", ()).await, page);
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_url_elicitation_reaches_its_handler() {
    let visits = Arc::new(AtomicUsize::new(0));
    let builder = || {
        let visits = visits.clone();
        asking().on_url(move |page, _| {
            assert_eq!((page.message.as_str(), page.url.as_str()), ("Please log in", "https://login.example"));
            visits.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok(ElicitResult::accept_url()))
        })
    };
    everywhere_as(builder, async |client| {
        let result = client.call_tool("visit", ()).await.unwrap();
        let visited = client.version.has(Ability::UrlElicitation);
        assert_eq!((result.is_error(), visits.swap(0, Ordering::SeqCst)), (!visited, usize::from(visited)));
        if visited {
            assert_eq!(result.text(), "accept");
        }
    })
    .await;
}

#[tokio::test]
async fn sampling_requests_reach_their_handler() {
    let builder = || {
        asking().on_sampling(|params, _| async move {
            assert_eq!(params.max_tokens, 50);
            let asked = params.messages[0].content.as_slice()[0].as_text().unwrap().to_owned();
            Ok(CreateMessageResult::assistant(format!("{asked} Paris!"), "test-model"))
        })
    };
    everywhere_as(builder, async |client| {
        assert_eq!(client.text("think", ()).await, "Capital of France? Paris!");
    })
    .await;
}

#[tokio::test]
async fn tools_are_offered_only_to_a_client_with_sampling_tools() {
    let answer = || CreateMessageResult::assistant("3", "test-model");
    let builder = || {
        asking().on_sampling_with_tools(move |params, _| async move {
            assert_eq!(params.tools.unwrap()[0].name, "add");
            Ok(answer())
        })
    };
    everywhere_as(builder, async |client| {
        let result = client.call_tool("think_with_tools", ()).await.unwrap();
        assert_eq!(result.is_error(), !client.version.has(Ability::SamplingTools));
        if !result.is_error() {
            assert_eq!(result.text(), "3");
        }
    })
    .await;
    everywhere(async |client| {
        let complaint = undeclared("sampling.tools", client.version);
        match client.call_tool("think_with_tools", ()).await {
            Ok(result) => assert_eq!((result.is_error(), result.text()), (true, complaint)),
            Err(error) => assert_eq!(error.error_response().unwrap().message, complaint),
        }
    })
    .await;
}

#[tokio::test]
async fn a_rejected_sampling_request_fails_the_call() {
    let builder = || asking().on_sampling(|_, _| async { Err(HandlerError::rejected("not today")) });
    everywhere_as(builder, async |client| {
        let answer = client.call_tool("think", ()).await;
        if client.version.has(Ability::InputRequired) {
            let error = answer.unwrap_err();
            let CallErrorKind::Input(InputCause::Refused { method, reason }) = error.kind() else { panic!("{error}") };
            assert_eq!((method.as_str(), reason.as_str()), ("sampling/createMessage", "rejected: not today"));
        } else {
            assert!(answer.unwrap().is_error());
        }
    })
    .await;
}

#[tokio::test]
async fn the_current_roots_are_sent() {
    everywhere(async |client| {
        assert_eq!(client.text("roots", ()).await, "file:///home");
        let roots = client.roots().unwrap();
        roots.add(Root::new("file:///tmp"));
        assert_eq!(client.text("roots", ()).await, "file:///home,file:///tmp");
        assert!(roots.remove("file:///home"));
        assert_eq!(client.text("roots", ()).await, "file:///tmp");
        roots.clear();
        assert_eq!(client.text("roots", ()).await, "");
    })
    .await;
}

#[tokio::test]
async fn the_server_is_notified_of_changed_roots() {
    everywhere(async |client| {
        let roots = client.roots().unwrap();
        if !client.version.has(Ability::RootsListChanged) {
            roots.add(Root::new("file:///tmp"));
            roots.clear();
            client.ping().await.unwrap();
            assert_eq!(client.count("roots changed").await, 0);
            return;
        }
        roots.add(Root::new("file:///tmp"));
        client.reaches("roots changed", 1).await;
        assert!(roots.remove("file:///tmp"));
        client.reaches("roots changed", 2).await;
        assert!(!roots.remove("file:///tmp"));
        roots.clear();
        client.reaches("roots changed", 3).await;
    })
    .await;
}

#[tokio::test]
async fn an_input_request_is_cancelled_with_its_call() {
    let (asked, stopped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let builder = || {
        let (asked, stopped) = (asked.clone(), stopped.clone());
        asking().on_form(move |_, _| {
            let (asked, stopped) = (asked.clone(), NotifyWhenDropped(stopped.clone()));
            async move {
                let _stopped = stopped;
                asked.notify_one();
                std::future::pending().await
            }
        })
    };
    along(&Way::ALL, &with_forms(), builder, async |client| {
        let call = tokio::spawn(client.call_tool("register", ()).into_future());
        asked.notified().await;
        assert_eq!(client.cancel_all(), 1);
        assert!(call.await.unwrap().unwrap_err().is_cancelled());
        stopped.notified().await;
        assert_eq!(client.text("list", ()).await, "[1,2,3]");
    })
    .await;
}

struct NotifyWhenDropped(Arc<Notify>);

impl Drop for NotifyWhenDropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn prompts_and_resources_can_request_input() {
    along(&Way::ALL, &with_forms(), person, async |client| {
        let prompt = client.get_prompt("personal", ()).await.unwrap();
        assert_eq!(prompt.messages, [PromptMessage::user("Ann")]);
        let contents = client.read_resource("asked://name").await.unwrap().contents;
        assert_eq!(contents[0].text.as_deref(), Some("Ann"));
    })
    .await;
}

#[tokio::test]
async fn a_client_without_handlers_gets_no_requests() {
    everywhere_as(nobody, async |client| {
        assert!(client.roots().is_none());
        for (tool, capability) in
            [("think", "sampling"), ("roots", "roots"), ("greet", "elicitation.form"), ("visit", "elicitation.url")]
        {
            let complaint = undeclared(capability, client.version);
            let answer = client.call_tool(tool, ()).await;
            if client.version.has(Ability::Stateless) {
                let error = answer.unwrap_err();
                let told = error.error_response().unwrap();
                assert_eq!((told.code, &told.message), (ErrorCode::MISSING_CLIENT_CAPABILITY, &complaint));
            } else {
                let result = answer.unwrap();
                assert_eq!((result.is_error(), result.text()), (true, complaint));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn input_rounds_are_limited_and_the_last_one_is_not_handled() {
    let asked = Arc::new(AtomicUsize::new(0));
    let builder = || {
        let asked = asked.clone();
        let person = asking().on_form(move |_, _| {
            asked.fetch_add(1, Ordering::SeqCst);
            std::future::ready(filled(&json!({ "name": "Ann" })))
        });
        person.max_input_rounds(2)
    };
    along(&Way::ALL, &[ProtocolVersion::LATEST], builder, async |client| {
        let error = client.call_tool("pester", ()).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Input(InputCause::TooManyRounds(2))), "{error}");
        assert_eq!(asked.swap(0, Ordering::SeqCst), 2);
        assert_eq!(client.count("tools/call").await, 4);
    })
    .await;
}
