//! Input requests to clients, and the state that they carry between rounds.

use super::wire::Wire;
use super::*;

#[tokio::test]
async fn one_handler_requests_input_in_every_revision() {
    everywhere(|client, _, counters| async move {
        let version = client.version();
        if version.has(Ability::FormElicitation) {
            let result = client.call_tool("greet", json!({})).await.unwrap();
            assert_eq!(text_of(&result), "Paris, Ann! (1)");
            // Two input requests make three rounds, but the side effect happens once.
            let runs = if version.has(Ability::InputRequired) { 3 } else { 1 };
            assert_eq!((counters.count("runs"), counters.count("effects")), (runs, 1));
        } else {
            let result = client.call_tool("greet", json!({})).await.unwrap();
            assert!(result.is_error());
            let complaint = "the client did not declare the capability elicitation.form, which revision";
            assert_eq!(text_of(&result), format!("{complaint} {version} does not have"));
        }
        assert_eq!(text_of(&client.call_tool("think", json!({})).await.unwrap()), "Paris");
        assert_eq!(text_of(&client.call_tool("roots", json!({})).await.unwrap()), "file:///home");
        let result = client.call_tool("visit", json!({})).await.unwrap();
        assert_eq!(result.is_error(), !version.has(Ability::UrlElicitation));
    })
    .await;
}

#[tokio::test]
async fn several_input_requests_are_sent_together() {
    let router = router();
    for version in ProtocolVersion::ALL.into_iter().filter(|version| version.has(Ability::FormElicitation)) {
        let client = TestClient::connect_with(&router, version, person()).await;
        assert_eq!(client.call_tool("all_at_once", json!({})).await.unwrap().text(), "Paris Ann 1");
    }
    let client = TestClient::connect_with(&router, ProtocolVersion::LATEST, person()).await;
    let call = CallToolParams::new("all_at_once");
    let Outcome::InputRequired(round) = client.request::<CallTool>(&call).await.unwrap() else { panic!() };
    let questions = round.input_requests.unwrap();
    assert_eq!(questions.keys().collect::<Vec<_>>(), ["elicit-1", "sample-1", "places"]);
}

#[tokio::test]
async fn an_input_request_without_the_capability_is_an_error() {
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router(), version).await;
        let complaint = "the client did not declare the capability sampling";
        if version.has(Ability::Stateless) {
            let error = client.call_tool("think", json!({})).await.unwrap_err();
            assert_eq!((error.server_error().code.0, error.server_error().message.as_str()), (-32021, complaint));
            let data = error.server_error().data.clone().unwrap();
            assert_eq!(data.as_str(), r#"{"requiredCapabilities":{"sampling":{}}}"#);
        } else {
            let result = client.call_tool("think", json!({})).await.unwrap();
            assert_eq!((result.is_error(), text_of(&result)), (true, complaint.into()));
        }
    }
}

#[tokio::test]
async fn a_foreign_or_modified_state_is_refused() {
    let client = TestClient::connect_with(&router(), ProtocolVersion::LATEST, person()).await;
    let Outcome::InputRequired(round) = client.request::<CallTool>(&CallToolParams::new("greet")).await.unwrap() else {
        panic!()
    };
    let state = round.request_state.unwrap();
    let answers: Object = [("elicit-1", RawJson::encode(&ElicitResult::decline()).unwrap())].into_iter().collect();
    let retry = |state: String| CallToolParams::new("greet").request_state(state).input_responses(answers.clone());
    let declined = client.request::<CallTool>(&retry(state.clone())).await.unwrap().complete().unwrap();
    assert_eq!(text_of(&declined), "nobody");
    for bad in [format!("{state}x"), String::new(), "AAAA".into()] {
        assert_eq!(client.request::<CallTool>(&retry(bad)).await.unwrap_err().server_error().code.0, -32602);
    }
    let mut other = retry(state);
    other.name = "think".into();
    assert_eq!(client.request::<CallTool>(&other).await.unwrap_err().server_error().code.0, -32602);
}

#[tokio::test]
async fn a_state_is_valid_only_for_the_arguments_of_its_call() {
    #[derive(Deserialize, JsonSchema)]
    struct Salute {
        formally: bool,
    }
    let salute =
        Tool::builder("salute").handler(|Args(Salute { formally }): Args<Salute>, context: Context| async move {
            context.elicit::<Name>("What is your name?").await.map(|_| formally.to_string())
        });
    let router = Server::new("fixture", "1.0.0").tool(salute).build().unwrap();
    let client = TestClient::connect_with(&router, ProtocolVersion::LATEST, person()).await;
    let call = |formally: bool| {
        let arguments = Object::encode(&json!({ "formally": formally })).unwrap();
        CallToolParams::new("salute").arguments(arguments)
    };
    let Outcome::InputRequired(round) = client.request::<CallTool>(&call(true)).await.unwrap() else { panic!() };
    let answers: Object = [("elicit-1", RawJson::encode(&ElicitResult::decline()).unwrap())].into_iter().collect();
    let retry = |params: CallToolParams| {
        params.request_state(round.request_state.clone().unwrap()).input_responses(answers.clone())
    };
    let answered = client.request::<CallTool>(&retry(call(true))).await.unwrap().complete().unwrap();
    assert_eq!(text_of(&answered), "true");
    let error = client.request::<CallTool>(&retry(call(false))).await.unwrap_err();
    assert_eq!(error.server_error().code.0, -32602);
}

/// Arguments of which the handler reads only one.
#[derive(Deserialize, JsonSchema)]
struct Payment {
    #[serde(rename = "amount")]
    _amount: Option<u32>,
}

#[tokio::test]
async fn a_state_is_bound_to_arguments_that_no_type_can_hold() {
    let effects = Arc::new(AtomicUsize::new(0));
    let checks = effects.clone();
    let pay = Tool::builder("pay").handler(move |Args(_): Args<Payment>, context: Context| {
        let checks = checks.clone();
        async move {
            context.once("check", async { checks.fetch_add(1, Ordering::SeqCst) }).await?;
            context.elicit::<Name>("Sure?").await.map(|_| "paid")
        }
    });
    let router = Server::new("s", "1").tool(pay).build().unwrap();
    let mut wire = Wire::open(&router, ProtocolVersion::LATEST, json!({ "elicitation": {} })).await;
    for (checked, used) in [
        (r#"{"amount":1,"x":1e999}"#, r#"{"amount":1000000,"x":1e999}"#),
        (r#"{"x":1e999}"#, r#"{"x":1e998}"#),
        (r#"{"x":18446744073709551617}"#, r#"{"x":18446744073709551618}"#),
    ] {
        effects.store(0, Ordering::SeqCst);
        wire.start(1, "tools/call", &format!(r#"{{"name":"pay","arguments":{checked}}}"#)).await;
        let state = wire.receive().await["result"]["requestState"].clone();
        assert!(state.is_string(), "{checked}");
        let mut repeat = async |arguments: &str| {
            let answers = r#"{"elicit-1":{"action":"accept","content":{"name":"Ann"}}}"#;
            let params = format!(
                r#"{{"name":"pay","arguments":{arguments},"requestState":{state},"inputResponses":{answers}}}"#
            );
            wire.start(2, "tools/call", &params).await;
            wire.receive().await
        };
        assert_eq!(repeat(used).await["error"]["code"], -32602, "{used}");
        assert_eq!(repeat(checked).await["result"]["content"][0]["text"], "paid", "{checked}");
        assert_eq!(effects.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn arguments_that_cannot_be_bound_are_refused_when_input_is_requested() {
    let effects = Arc::new(AtomicUsize::new(0));
    let checks = effects.clone();
    let pay = Tool::builder("pay").handler(move |Args(_): Args<Payment>, context: Context| {
        let checks = checks.clone();
        async move {
            context.once("check", async { checks.fetch_add(1, Ordering::SeqCst) }).await?;
            context.elicit::<Name>("Sure?").await.map(|_| "paid")
        }
    });
    let silent = Tool::builder("silent").handler(|Args(_): Args<Payment>, _: Context| async { "fine" });
    let router = Server::new("s", "1").tool(pay).tool(silent).build().unwrap();
    let mut wire = Wire::open(&router, ProtocolVersion::LATEST, json!({ "elicitation": {} })).await;
    for (arguments, reason) in [
        (r#"{"amount":1,"x":"\ud800"}"#, "a string contains a lone surrogate"),
        (r#"{"amount":1,"x":1,"x":2}"#, "the member \"x\" occurs twice"),
    ] {
        wire.start(1, "tools/call", &format!(r#"{{"name":"pay","arguments":{arguments}}}"#)).await;
        let error = wire.receive().await["error"].clone();
        assert_eq!(error["code"], -32602, "{arguments}");
        let message =
            format!("arguments: a call that requests input cannot be repeated with these arguments: {reason}");
        assert_eq!(error["message"], message);
        assert_eq!(effects.load(Ordering::SeqCst), 0);
        // A tool without input requests accepts them.
        wire.start(2, "tools/call", &format!(r#"{{"name":"silent","arguments":{arguments}}}"#)).await;
        assert_eq!(wire.receive().await["result"]["content"][0]["text"], "fine", "{arguments}");
    }
}

#[tokio::test]
async fn an_extractor_with_the_context_can_request_input() {
    struct Asker(Context);

    impl turms_server::FromCall for Asker {
        fn from_call(call: &mut turms_server::CallParts) -> Result<Self, turms_server::Rejection> {
            Ok(Self(call.context().clone()))
        }
    }

    let name = Tool::builder("name").handler(|Asker(context): Asker| async move {
        context.elicit::<Name>("What is your name?").await.map(|_| "asked")
    });
    let router = Server::new("fixture", "1.0.0").tool(name).build().unwrap();
    let client = TestClient::connect_with(&router, ProtocolVersion::LATEST, person()).await;
    assert_eq!(text_of(&client.call_tool("name", json!({})).await.unwrap()), "asked");
    let forged = CallToolParams::new("name").request_state("AAAA");
    assert_eq!(client.request::<CallTool>(&forged).await.unwrap_err().server_error().code.0, -32602);
}
