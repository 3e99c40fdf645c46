//! Forms that are generated from types have only fields that the specification allows.

use std::collections::BTreeSet;

use serde_json::Value;
use turms_schema::{Trust, Validator};
use turms_testkit::official_schema;

use super::wire::Wire;
use super::*;

#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Colour {
    Red,
    Green,
}

/// A size, which has documented variants.
#[derive(Deserialize, JsonSchema, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
enum Size {
    /// Fits in a pocket.
    Small,
    /// Fits in a room.
    Large,
}

#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Plan {
    #[schemars(title = "Free of charge")]
    Free,
    #[schemars(title = "Ten a month")]
    Paid,
}

fn two() -> u8 {
    2
}

/// A form with all fields that every revision with forms supports.
#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Everything")]
struct Flat {
    /// Your name.
    #[schemars(length(min = 1, max = 50))]
    name: String,
    #[schemars(email)]
    mail: Option<String>,
    #[schemars(extend("format" = "uuid"))]
    key: Option<String>,
    #[schemars(range(min = 1, max = 150))]
    age: Option<u8>,
    height: Option<f64>,
    balance: i64,
    agreed: bool,
    newsletter: Option<bool>,
    #[serde(default = "two")]
    copies: u8,
    initial: Option<char>,
    colour: Colour,
    other_colour: Option<Colour>,
    size: Size,
    other_size: Option<Size>,
    plan: Plan,
    /// The plan after this one.
    #[schemars(title = "Next plan")]
    next_plan: Option<Plan>,
}

/// A form with fields that 2025-06-18 does not support.
#[derive(Deserialize, JsonSchema, Debug, PartialEq)]
struct Several {
    sizes: Vec<Size>,
    #[schemars(length(min = 1, max = 2))]
    colours: Option<Vec<Colour>>,
    plans: Option<Vec<Plan>>,
    unique: BTreeSet<Size>,
}

fn asking<T: JsonSchema + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static>() -> Router {
    let ask = Tool::builder("ask").handler(|context: Context| async move {
        let answer = context.elicit::<T>("Please.").await?;
        Ok::<_, InputError>(format!("{:?}", answer.accepted()))
    });
    Server::new("s", "1").tool(ask).build().unwrap()
}

fn revisions() -> impl Iterator<Item = ProtocolVersion> {
    ProtocolVersion::ALL.into_iter().filter(|version| version.has(Ability::FormElicitation))
}

/// Returns the elicitation request of a tool, as it is sent on the wire.
async fn sent<T: JsonSchema + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static>(
    version: ProtocolVersion,
) -> Value {
    let mut wire = Wire::open(&asking::<T>(), version, json!({ "elicitation": {} })).await;
    let message = wire.request("tools/call", json!({ "name": "ask" })).await;
    match version.has(Ability::InputRequired) {
        true => message["result"]["inputRequests"]["elicit-1"]["params"].clone(),
        false => message["params"].clone(),
    }
}

/// Compiles the schema of forms in a revision, without additional members.
fn allowed(version: ProtocolVersion) -> Option<Validator> {
    let mut schema: Value = serde_json::from_str(&official_schema(version.as_str())?).unwrap();
    let definitions = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
    for (_, definition) in schema[definitions].as_object_mut().unwrap() {
        if definition.get("properties").is_some() {
            definition["additionalProperties"] = false.into();
        }
    }
    let form = match version.has(Ability::RichElicitation) {
        true => &schema[definitions]["ElicitRequestFormParams"],
        false => &schema[definitions]["ElicitRequest"]["properties"]["params"],
    };
    let mut form = form["properties"]["requestedSchema"].clone();
    form["additionalProperties"] = false.into();
    form[definitions] = schema[definitions].clone();
    Some(Validator::of_value(&form, Trust::Foreign).unwrap())
}

fn violations(validator: &Validator, form: &Value) -> Vec<String> {
    let checked = validator.check(&RawJson::from(form.clone()));
    checked.map_or_else(|error| error.messages("form"), |()| Vec::new())
}

#[tokio::test]
async fn forms_have_the_shapes_that_each_revision_allows() {
    for version in revisions() {
        let params = sent::<Flat>(version).await;
        let form = &params["requestedSchema"];
        assert_eq!(form["required"], json!(["name", "balance", "agreed", "colour", "size", "plan"]), "{version}");
        assert_eq!(form["properties"].as_object().unwrap().len(), 16, "{version}");
        assert_eq!(form["properties"]["age"], json!({ "type": "integer", "minimum": 1, "maximum": 150 }), "{version}");
        assert_eq!(form["properties"]["mail"], json!({ "type": "string", "format": "email" }), "{version}");
        assert_eq!(form["properties"]["other_colour"], json!({ "type": "string", "enum": ["red", "green"] }));
        assert_eq!(form["properties"]["other_size"]["enum"], json!(["small", "large"]), "{version}");
        assert_eq!(form["properties"]["next_plan"]["title"], "Next plan", "{version}");
        let Some(validator) = allowed(version) else { return };
        assert_eq!(violations(&validator, form), [] as [&str; 0], "{version}: {form:#}");
        if version.has(Ability::RichElicitation) {
            assert_eq!(form["properties"]["copies"]["default"], 2, "{version}");
            let several = sent::<Several>(version).await;
            let form = &several["requestedSchema"];
            assert_eq!(form["required"], json!(["sizes", "unique"]), "{version}");
            assert_eq!(violations(&validator, form), [] as [&str; 0], "{version}: {form:#}");
        }
        // Checks that the schema rejects what earlier versions sent.
        let nullable = json!({ "type": "object", "properties": { "age": { "type": ["integer", "null"] } } });
        assert!(!violations(&validator, &nullable).is_empty(), "{version}");
        let sized = json!({ "type": "object", "properties": { "age": { "type": "integer", "format": "uint8" } } });
        assert!(!violations(&validator, &sized).is_empty(), "{version}");
    }
}

#[tokio::test]
async fn an_optional_answer_may_be_left_out_or_null() {
    let answers = json!({
        "name": "Ann", "balance": -1, "agreed": true, "colour": "red", "size": "large", "plan": "paid",
        "mail": null, "age": null, "copies": null, "other_colour": null, "next_plan": "free"
    });
    let expected = Flat {
        name: "Ann".into(),
        mail: None,
        key: None,
        age: None,
        height: None,
        balance: -1,
        agreed: true,
        newsletter: None,
        copies: 2,
        initial: None,
        colour: Colour::Red,
        other_colour: None,
        size: Size::Large,
        other_size: None,
        plan: Plan::Paid,
        next_plan: Some(Plan::Free),
    };
    for version in revisions() {
        let answers = answers.clone();
        let person = Script::new().elicit(move |_| ElicitResult::accept(&answers).unwrap());
        let client = TestClient::connect_with(&asking::<Flat>(), version, person).await;
        let result = client.call_tool("ask", json!({})).await.unwrap();
        assert_eq!(result.text(), format!("{:?}", Some(&expected)), "{version}");
    }
}

#[tokio::test]
async fn multiple_choices_are_accepted() {
    for version in revisions() {
        let person = Script::new().elicit(|_| {
            let answer = json!({ "sizes": ["large"], "colours": ["red", "green"], "unique": [], "plans": null });
            ElicitResult::accept(&answer).unwrap()
        });
        let client = TestClient::connect_with(&asking::<Several>(), version, person).await;
        let result = client.call_tool("ask", json!({})).await.unwrap();
        let expected = Several {
            sizes: vec![Size::Large],
            colours: Some(vec![Colour::Red, Colour::Green]),
            plans: None,
            unique: BTreeSet::new(),
        };
        if version.has(Ability::RichElicitation) {
            assert_eq!(result.text(), format!("{:?}", Some(expected)), "{version}");
        } else {
            assert!(result.is_error(), "{version}");
            let complaint = "not supported by clients of 2025-06-18: multiple choice in the form field \"sizes\"";
            assert_eq!(result.text(), complaint);
        }
    }
}

/// Returns the text of a tool that requests `T`. Its form must not be sent.
async fn refused<T: JsonSchema + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static>() -> String {
    let mut texts = BTreeSet::new();
    for version in revisions() {
        let person = Script::new().elicit(|params| panic!("sent: {params:?}"));
        let client = TestClient::connect_with(&asking::<T>(), version, person).await;
        let result = client.call_tool("ask", json!({})).await.unwrap();
        assert!(result.is_error(), "{version}");
        texts.insert(result.text());
    }
    assert_eq!(texts.len(), 1, "{texts:?}");
    texts.pop_first().unwrap()
}

#[tokio::test]
async fn the_error_of_an_unsupported_form_type_names_the_field() {
    #[derive(Deserialize, JsonSchema, Debug)]
    struct Nested {
        _inner: Option<Several>,
    }
    #[derive(Deserialize, JsonSchema, Debug)]
    struct Tags {
        _name: String,
        _tags: Vec<String>,
    }
    #[derive(Deserialize, JsonSchema, Debug)]
    struct Anything {
        _value: Value,
    }
    #[derive(Deserialize, JsonSchema, Debug)]
    struct Pattern {
        #[schemars(regex(pattern = "^[a-z]+$"))]
        _word: Option<String>,
    }
    #[derive(Deserialize, JsonSchema, Debug)]
    enum Either {
        _One { _a: String },
        _Other { _b: String },
    }
    #[derive(Deserialize, JsonSchema, Debug)]
    struct Choice {
        _either: Either,
    }
    let flat = "a field is a string, a number, a boolean or a choice of strings";
    assert_eq!(
        refused::<Nested>().await,
        format!("`Nested` is not a valid elicitation form: field \"_inner\": nested objects are not allowed, {flat}")
    );
    assert_eq!(
        refused::<Tags>().await,
        "`Tags` is not a valid elicitation form: field \"_tags\": an array in a form is a choice of strings: its items \
         must be an enum"
    );
    assert_eq!(
        refused::<Anything>().await,
        format!("`Anything` is not a valid elicitation form: field \"_value\": {flat}")
    );
    assert_eq!(
        refused::<Pattern>().await,
        "`Pattern` is not a valid elicitation form: field \"_word\": a form cannot express \"pattern\""
    );
    assert_eq!(
        refused::<Choice>().await,
        format!("`Choice` is not a valid elicitation form: field \"_either\": {flat}")
    );
    assert_eq!(
        refused::<Either>().await,
        "`Either` is not a valid elicitation form: a form is a struct with named fields"
    );
}

#[tokio::test]
async fn a_form_built_by_hand_is_checked() {
    for (field, reason) in [
        (r#"{"type":["string","null"]}"#, "a field is a string, a number, a boolean or a choice of strings"),
        (r#"{"type":"string","format":"uuid"}"#, "the format \"uuid\" is not one of email, uri, date and date-time"),
    ] {
        let form = FormSchema::new().field("f", RawJson::parse(field).unwrap().decode::<Field>().unwrap());
        let ask = Tool::builder("ask").handler(move |context: Context| {
            let form = form.clone();
            async move {
                context.elicit_with(ElicitParams::form("m", form)).await?;
                Ok::<_, InputError>("asked")
            }
        });
        let router = Server::new("s", "1").tool(ask).build().unwrap();
        for version in revisions() {
            let client = TestClient::connect_with(&router, version, person()).await;
            let result = client.call_tool("ask", json!({})).await.unwrap();
            assert!(result.is_error());
            assert_eq!(result.text(), format!("not a valid elicitation form: field \"f\": {reason}"), "{version}");
        }
    }
}

#[tokio::test]
async fn the_error_of_the_client_reaches_the_tool() {
    let router = router();
    let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    for version in ProtocolVersion::ALL.into_iter().filter(|version| !version.has(Ability::InputRequired)) {
        let tools: &[_] = if version.has(Ability::FormElicitation) { &["greet", "think", "roots"] } else { &["think"] };
        for tool in tools {
            let mut wire = Wire::open(&router, version, capabilities.clone()).await;
            let question = wire.request("tools/call", json!({ "name": tool })).await;
            let id = &question["id"];
            let error = json!({ "code": -1, "message": "not today", "data": { "secret": 1 } });
            wire.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()).await;
            let answer = wire.receive().await;
            assert_eq!(answer["result"]["isError"], true, "{version} {tool}: {answer}");
            let text = "the client responded with an error: not today (-1 user rejected)";
            assert_eq!(answer["result"]["content"][0]["text"], text, "{version} {tool}");
        }
    }
}
