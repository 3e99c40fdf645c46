//! The items that the attributes make of functions and methods, called in process.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use turms::layer::{CallContext, Request, Service as _};
use turms::prelude::*;
use turms::types::{
    CallTool, CallToolParams, GetPrompt, GetPromptParams, ListPrompts, ListResourceTemplates, ListResources, ListTools,
    Meta, Method, Object, PaginatedParams, Prompt as PromptSpec, RawJson, ReadResource, ReadResourceParams,
    Tool as ToolSpec,
};
use turms::{CallParts, FromCall, Rejection, ResourceUri, Router};

async fn ask<M: Method>(router: &Router, params: M::Params) -> Result<Value, ErrorObject> {
    let payload = router.call(Request::new::<M>(params), CallContext::in_process()).await?;
    Ok(payload.into_raw().unwrap().decode().unwrap())
}

fn object(value: &Value) -> Object {
    Object::encode(value).unwrap()
}

async fn call(router: &Router, name: &str, arguments: Value) -> CallToolResult {
    let params = CallToolParams::new(name).arguments(object(&arguments));
    serde_json::from_value(ask::<CallTool>(router, params).await.unwrap()).unwrap()
}

async fn text(router: &Router, name: &str, arguments: Value) -> String {
    call(router, name, arguments).await.text()
}

async fn read(router: &Router, uri: &str) -> Result<String, ErrorObject> {
    let result = ask::<ReadResource>(router, ReadResourceParams::new(uri)).await?;
    Ok(result["contents"][0]["text"].as_str().unwrap().to_owned())
}

fn build(server: Server) -> Router {
    server.build().unwrap()
}

fn server() -> Server {
    Server::new("test", "1.0.0")
}

fn only_tool<M>(tool: impl turms::IntoTool<M>) -> (ToolSpec, Value) {
    let spec = tool.into_tool().definition().clone();
    let schema = spec.input_schema.decode().unwrap();
    (spec, schema)
}

mod tools {
    use super::*;

    /// Adds two numbers.
    ///
    /// Any two.
    #[tool(read_only, destructive = false, open_world = false, title = "Addition")]
    async fn add(
        /// the first number
        a: f64,
        /** the second number */
        b: f64,
    ) -> f64 {
        a + b
    }

    /// Blocks its thread.
    #[tool(blocking)]
    fn thread_name() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn a_function_that_blocks_has_a_thread_of_its_own() {
        let here = std::thread::current().name().unwrap_or_default().to_owned();
        let router = build(server().tool(thread_name));
        assert_ne!(text(&router, "thread_name", json!({})).await, here);
    }

    #[tokio::test]
    async fn a_function_becomes_a_tool() {
        let router = build(server().tool(add));
        assert_eq!(text(&router, "add", json!({ "a": 1.5, "b": 2 })).await, "3.5");
        let list = ask::<ListTools>(&router, PaginatedParams::new()).await.unwrap();
        let tool = &list["tools"][0];
        assert_eq!(tool["name"], "add");
        assert_eq!(tool["title"], "Addition");
        assert_eq!(tool["description"], "Adds two numbers.\n\nAny two.");
        let hints = json!({ "readOnlyHint": true, "destructiveHint": false, "openWorldHint": false });
        assert_eq!(tool["annotations"], hints);
        let number = |description: &str| json!({ "type": "number", "format": "double", "description": description });
        let schema = json!({
            "type": "object",
            "properties": { "a": number("the first number"), "b": number("the second number") },
            "required": ["a", "b"],
        });
        assert_eq!(tool["inputSchema"], schema);
    }

    #[tokio::test]
    async fn a_missing_argument_is_a_tool_error() {
        let result = call(&build(server().tool(add)), "add", json!({ "a": 1 })).await;
        assert!(result.is_error());
        assert!(result.text().contains("\"b\""), "{}", result.text());
    }

    /// A type without serde and schemars implementations.
    struct Letters(usize);

    fn count_letters<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Letters, D::Error> {
        String::deserialize(deserializer).map(|text| Letters(text.len()))
    }

    #[tool]
    fn letters(
        #[serde(deserialize_with = "count_letters")]
        #[schemars(with = "String")]
        word: Letters,
    ) -> usize {
        word.0
    }

    #[tokio::test]
    async fn an_argument_may_be_decoded_by_a_function() {
        assert_eq!(text(&build(server().tool(letters)), "letters", json!({ "word": "four" })).await, "4");
    }

    #[tool(name = "files.read-v2", description = "Reads.", idempotent, destructive)]
    fn renamed() {}

    #[test]
    fn the_attribute_sets_what_the_function_does_not() {
        let (spec, schema) = only_tool(renamed);
        assert_eq!(spec.name, "files.read-v2");
        assert_eq!(spec.description.as_deref(), Some("Reads."));
        let annotations = spec.annotations.unwrap();
        assert_eq!((annotations.idempotent_hint, annotations.destructive_hint), (Some(true), Some(true)));
        assert_eq!(annotations.read_only_hint, None);
        assert_eq!(schema, json!({ "type": "object", "additionalProperties": false }));
    }

    #[tool]
    fn r#match(r#type: String, limit: Option<u8>, mut words: Vec<String>) -> String {
        words.sort();
        format!("{type} {limit:?} {words:?}", r#type = r#type)
    }

    #[tokio::test]
    async fn an_option_may_be_left_out() {
        let router = build(server().tool(r#match));
        let some = json!({ "type": "a", "limit": 3, "words": ["z", "y"] });
        assert_eq!(text(&router, "match", some).await, r#"a Some(3) ["y", "z"]"#);
        assert_eq!(text(&router, "match", json!({ "type": "b", "words": [] })).await, "b None []");
        let (_, schema) = only_tool(r#match);
        assert_eq!(schema["required"], json!(["type", "words"]));
    }

    #[derive(Deserialize, schemars::JsonSchema)]
    struct ConfigFile {
        lat: f64,
        lon: f64,
    }

    #[tool]
    async fn locate(Args(place): Args<ConfigFile>, _: Context) -> String {
        format!("{}/{}", place.lat, place.lon)
    }

    #[tool]
    async fn travel(from: ConfigFile, to: ConfigFile) -> f64 {
        (from.lat - to.lat) + (from.lon - to.lon)
    }

    #[tokio::test]
    async fn structs_are_arguments_or_all_of_them() {
        let router = build(server().tool(locate).tool(travel));
        let here = json!({ "lat": 1, "lon": 2 });
        assert_eq!(text(&router, "locate", here.clone()).await, "1/2");
        assert_eq!(text(&router, "travel", json!({ "from": here, "to": here })).await, "0");
    }

    #[tool]
    pub(crate) async fn show<T: Display>(value: T, rest: Option<Vec<T>>) -> String {
        let rest: Vec<String> = rest.iter().flatten().map(ToString::to_string).collect();
        format!("{value} {}", rest.join(" "))
    }

    trait Unit {
        type Amount: Display + Send + 'static;
        const NAME: &'static str;
    }

    struct Metre;

    impl Unit for Metre {
        type Amount = u16;
        const NAME: &'static str = "m";
    }

    #[tool(name = "measure")]
    fn measure<U, const N: usize>(amount: U::Amount) -> String
    where
        U: Unit + 'static,
    {
        format!("{amount:>N$} {}", U::NAME)
    }

    #[tokio::test]
    async fn generic_functions_are_tools_of_a_type() {
        let router = build(server().tool(show::<u8>).tool(measure::<Metre, 4>));
        assert_eq!(text(&router, "show", json!({ "value": 1, "rest": [2, 3] })).await, "1 2 3");
        assert!(call(&router, "show", json!({ "value": "one" })).await.is_error());
        assert_eq!(text(&router, "measure", json!({ "amount": 7 })).await, "   7 m");
    }

    #[tool]
    fn greeting(greeting: String, arguments: u8) -> String {
        format!("{greeting} {arguments}")
    }

    #[tool]
    fn countdown(from: u8) -> String {
        if from == 0 { "0".to_owned() } else { format!("{from} {}", countdown(from - 1)) }
    }

    #[tokio::test]
    async fn names_do_not_collide() {
        let router = build(server().tool(greeting).tool(countdown));
        assert_eq!(text(&router, "greeting", json!({ "greeting": "hi", "arguments": 1 })).await, "hi 1");
        assert_eq!(text(&router, "countdown", json!({ "from": 2 })).await, "2 1 0");
    }

    struct Twice(String);

    impl FromCall for Twice {
        fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
            let State(text) = State::<String>::from_call(call)?;
            Ok(Self(format!("{text}{text}")))
        }
    }

    #[tool]
    async fn surroundings(
        suffix: String,
        State(text): State<String>,
        #[extract] twice: Twice,
        nobody: Option<Principal>,
        meta: Meta,
    ) -> String {
        format!("{text} {} {} {}{suffix}", twice.0, nobody.is_none(), meta.is_empty())
    }

    #[tokio::test]
    async fn extractors_are_taken_from_the_call() {
        let router = build(server().state("x".to_owned()).tool(surroundings));
        assert_eq!(text(&router, "surroundings", json!({ "suffix": "!" })).await, "x xx true true!");
        assert_eq!(only_tool(surroundings).1["required"], json!(["suffix"]));
    }

    #[tool]
    fn bounded(
        #[schemars(range(min = 1, max = 5))] stars: u8,
        #[serde(rename = "comment", default)] remark: String,
    ) -> String {
        format!("{stars}{remark}")
    }

    #[tokio::test]
    async fn attributes_of_parameters_are_those_of_fields() {
        let router = build(server().tool(bounded));
        assert_eq!(text(&router, "bounded", json!({ "stars": 5, "comment": "!" })).await, "5!");
        assert!(call(&router, "bounded", json!({ "stars": 6 })).await.is_error());
    }

    #[tool]
    fn regional(#[header("Region")] region: String, #[header("Zone")] zone: Option<u32>) -> String {
        format!("{region} {zone:?}")
    }

    #[tokio::test]
    async fn a_header_is_named_in_the_schema() {
        let (_, schema) = only_tool(regional);
        assert_eq!(schema["properties"]["region"], json!({ "type": "string", "x-mcp-header": "Region" }));
        assert_eq!(schema["properties"]["zone"]["x-mcp-header"], "Zone");
        assert_eq!(schema["properties"]["zone"]["type"], "integer");
        assert_eq!(schema["properties"]["zone"].get("default"), None);
        assert_eq!(schema["required"], json!(["region"]));
        let router = build(server().tool(regional));
        assert_eq!(text(&router, "regional", json!({ "region": "eu" })).await, "eu None");
    }

    #[derive(Serialize, schemars::JsonSchema)]
    struct Sum {
        sum: i64,
    }

    #[tool]
    async fn sum(numbers: Vec<i64>) -> Result<Json<Sum>, String> {
        if numbers.is_empty() { Err("nothing to add".to_owned()) } else { Ok(Json(Sum { sum: numbers.iter().sum() })) }
    }

    #[tokio::test]
    async fn return_values_are_converted() {
        let router = build(server().tool(sum));
        let result = call(&router, "sum", json!({ "numbers": [1, 2] })).await;
        assert_eq!(result.structured_content, Some(RawJson::parse(r#"{"sum":3}"#).unwrap()));
        assert_eq!(text(&router, "sum", json!({ "numbers": [] })).await, "nothing to add");
        assert!(only_tool(sum).0.output_schema.is_some());
    }

    macro_rules! tool_of {
        ($name:ident, $Type:ty) => {
            #[tool]
            fn $name(value: $Type, state: Option<State<$Type>>) -> String {
                format!("{value:?} {:?}", state.map(|state| state.0))
            }
        };
    }

    tool_of!(of_macro, u8);

    #[tokio::test]
    async fn other_macros_may_write_tools() {
        let router = build(server().tool(of_macro));
        assert_eq!(text(&router, "of_macro", json!({ "value": 1 })).await, "1 None");
    }

    struct Holder;

    impl Holder {
        /// An associated function is a function.
        #[tool]
        fn held(a: u8) -> u8 {
            a
        }
    }

    #[tokio::test]
    async fn associated_functions_are_tools_too() {
        let router = build(server().tool(Holder::held));
        assert_eq!(text(&router, "held", json!({ "a": 1 })).await, "1");
    }

    #[tool]
    #[cfg(any())]
    fn absent(a: Nowhere) {}

    #[tool]
    #[allow(unused_variables, reason = "kept where the function is")]
    fn absent(a: u8, #[allow(dead_code)] b: u8) {}

    #[tokio::test]
    async fn other_attributes_are_kept() {
        assert_eq!(text(&build(server().tool(absent)), "absent", json!({ "a": 1, "b": 2 })).await, "");
    }
}

mod prompts {
    use super::*;

    /// Greets a user.
    #[prompt(title = "Greeting")]
    async fn greet(
        /// name of the user
        name: String,
        /// how often
        times: Option<u8>,
    ) -> String {
        format!("Greet {name} {} times.", times.unwrap_or(1))
    }

    #[prompt(name = "plain", description = "Says it.")]
    fn unnamed(client: Option<ClientInfo>) -> Vec<PromptMessage> {
        vec![PromptMessage::user(format!("{}", client.is_none()))]
    }

    #[derive(Deserialize, schemars::JsonSchema)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    enum Shape {
        Square { side: u8 },
    }

    #[prompt]
    fn draw(title: String, words: Vec<String>, shape: Option<Shape>) -> String {
        let side = shape.map(|Shape::Square { side }| side);
        format!("{title} {words:?} {side:?}")
    }

    async fn get(router: &Router, params: GetPromptParams) -> Result<String, ErrorObject> {
        let result = ask::<GetPrompt>(router, params).await?;
        Ok(result["messages"][0]["content"]["text"].as_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn arguments_that_are_never_texts_are_read_from_json() {
        let router = build(server().prompt(draw));
        let given = |title: &str, words: &str, shape: Option<&str>| {
            let pairs = [("title", Some(title)), ("words", Some(words)), ("shape", shape)];
            let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
            GetPromptParams::new("draw").arguments(pairs.collect::<std::collections::BTreeMap<_, _>>())
        };
        let all = given("[1]", r#" ["a", "b \"c\""]"#, Some(r#"{"kind":"square","side":2}"#));
        let drawn = get(&router, all).await.unwrap();
        assert_eq!(drawn, r#"[1] ["a", "b \"c\""] Some(2)"#);
        assert_eq!(get(&router, given("", "[]", None)).await.unwrap(), " [] None");
        for (words, complaint) in [
            ("a, b", r#"arguments.words: "a, b" is not of type "array""#),
            ("[1]", r#"arguments.words[0]: 1 is not of type "string""#),
            ("[", r#"arguments.words: "[" is not of type "array""#),
        ] {
            let error = get(&router, given("", words, None)).await.unwrap_err();
            assert_eq!((error.code.0, error.message.as_str()), (-32602, complaint));
        }
    }

    #[tokio::test]
    async fn prompt_arguments_are_parsed_into_the_parameter_types() {
        let router = build(server().prompt(greet).prompt(unnamed));
        let arguments = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            GetPromptParams::new("greet").arguments(pairs.collect::<std::collections::BTreeMap<_, _>>())
        };
        let given = arguments(&[("name", "Ann"), ("times", "3")]);
        assert_eq!(get(&router, given).await.unwrap(), "Greet Ann 3 times.");
        assert_eq!(get(&router, arguments(&[("name", "Bob")])).await.unwrap(), "Greet Bob 1 times.");
        assert!(get(&router, arguments(&[("name", "Bob"), ("times", "x")])).await.is_err());
        assert_eq!(get(&router, GetPromptParams::new("plain")).await.unwrap(), "true");
    }

    #[tokio::test]
    async fn arguments_are_listed() {
        let router = build(server().prompt(greet).prompt(unnamed));
        let list = ask::<ListPrompts>(&router, PaginatedParams::new()).await.unwrap();
        let prompts: Vec<PromptSpec> = serde_json::from_value(list["prompts"].clone()).unwrap();
        let [greet, plain] = prompts.as_slice() else { panic!("{prompts:?}") };
        assert_eq!(greet.title.as_deref(), Some("Greeting"));
        assert_eq!(greet.description.as_deref(), Some("Greets a user."));
        let arguments: Vec<_> = greet.arguments.iter().flatten().collect();
        assert_eq!((arguments[0].name.as_str(), arguments[0].required), ("name", Some(true)));
        assert_eq!(arguments[1].description.as_deref(), Some("how often"));
        assert_eq!((plain.name.as_str(), plain.description.as_deref()), ("plain", Some("Says it.")));
    }
}

mod resources {
    use super::*;

    /// The settings.
    #[resource("config://app", mime_type = "text/plain", title = "Settings")]
    fn settings() -> &'static str {
        "debug = true"
    }

    #[resource("users://{id}{?fields}", name = "a user")]
    async fn user(fields: Option<String>, id: u32, ResourceUri(uri): ResourceUri) -> Option<String> {
        (id < 10).then(|| format!("{id} {fields:?} {uri}"))
    }

    #[derive(Deserialize, schemars::JsonSchema)]
    struct Path {
        path: String,
    }

    #[resource("file:///{+path}")]
    async fn file(Args(Path { path }): Args<Path>) -> String {
        path
    }

    #[tokio::test]
    async fn a_resource_is_read_at_its_uri() {
        let router = build(server().resource(settings));
        assert_eq!(read(&router, "config://app").await.unwrap(), "debug = true");
        let list = ask::<ListResources>(&router, PaginatedParams::new()).await.unwrap();
        let expected = json!([{
            "uri": "config://app",
            "name": "settings",
            "title": "Settings",
            "description": "The settings.",
            "mimeType": "text/plain",
        }]);
        assert_eq!(list["resources"], expected);
    }

    #[tokio::test]
    async fn uri_variables_are_parsed_into_the_parameter_types() {
        let router = build(server().resource(user).resource(file));
        assert_eq!(read(&router, "users://7").await.unwrap(), "7 None users://7");
        let uri = "users://7?fields=name";
        assert_eq!(read(&router, uri).await.unwrap(), format!("7 Some(\"name\") {uri}"));
        assert_eq!(read(&router, "file:///a/b").await.unwrap(), "a/b");
        assert!(read(&router, "users://seven").await.is_err());
        assert!(read(&router, "users://70").await.is_err());
    }

    #[tokio::test]
    async fn a_family_is_listed_as_a_template() {
        let router = build(server().resource(user));
        let list = ask::<ListResourceTemplates>(&router, PaginatedParams::new()).await.unwrap();
        assert_eq!(list["resourceTemplates"], json!([{ "uriTemplate": "users://{id}{?fields}", "name": "a user" }]));
    }
}

mod objects {
    use super::*;

    struct Counter {
        value: AtomicI64,
    }

    #[handlers]
    impl Counter {
        const START: i64 = 10;

        fn new() -> Self {
            Self { value: AtomicI64::new(Self::START) }
        }

        /// Adds to the counter.
        #[tool(title = "Add")]
        async fn add(
            &self,
            /** how much */
            amount: i64,
            _: Context,
        ) -> i64 {
            tokio::task::yield_now().await;
            self.value.fetch_add(amount, Ordering::Relaxed) + amount
        }

        #[tool]
        fn scaled(&self, #[schemars(range(max = 3))] factor: i64) -> i64 {
            self.value.load(Ordering::Relaxed) * factor
        }

        #[tool]
        async fn shared(self: Arc<Self>) -> bool {
            Arc::strong_count(&self) > 1
        }

        #[tool]
        fn version(digits: usize) -> String {
            "1".repeat(digits)
        }

        #[turms::prompt]
        async fn ask(&self, what: String) -> String {
            format!("{what} {}", self.value.load(Ordering::Relaxed))
        }

        #[resource("counter://value")]
        fn value(&self) -> String {
            self.value.load(Ordering::Relaxed).to_string()
        }

        #[resource("counter://times/{factor}")]
        async fn times(&self, factor: i64) -> String {
            self.scaled(factor).to_string()
        }

        #[tool]
        #[cfg(any())]
        fn absent(&self, a: Nowhere) {}
    }

    #[tokio::test]
    async fn methods_share_the_object() {
        let router = build(server().handlers(Counter::new()));
        assert_eq!(text(&router, "add", json!({ "amount": 5 })).await, "15");
        assert_eq!(text(&router, "scaled", json!({ "factor": 2 })).await, "30");
        assert!(call(&router, "scaled", json!({ "factor": 4 })).await.is_error());
        assert_eq!(text(&router, "shared", json!({})).await, "true");
        assert_eq!(text(&router, "version", json!({ "digits": 3 })).await, "111");
        assert_eq!(read(&router, "counter://value").await.unwrap(), "15");
        assert_eq!(read(&router, "counter://times/3").await.unwrap(), "45");
        let list = ask::<ListTools>(&router, PaginatedParams::new()).await.unwrap();
        let names: Vec<_> = list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, ["add", "scaled", "shared", "version"]);
        assert_eq!(list["tools"][0]["description"], "Adds to the counter.");
        assert_eq!(list["tools"][0]["inputSchema"]["properties"]["amount"]["description"], "how much");
    }

    #[tokio::test]
    async fn the_object_may_be_shared() {
        let counter = Arc::new(Counter::new());
        let router = build(server().handlers(counter.clone()));
        assert_eq!(text(&router, "add", json!({ "amount": 5 })).await, "15");
        assert_eq!(counter.value.load(Ordering::Relaxed), 15);
    }

    trait Store: Send + Sync + 'static {
        type Key: Send + 'static;
        fn find(&self, key: Self::Key) -> impl Future<Output = Option<String>> + Send;
    }

    struct Shelf;

    impl Store for Shelf {
        type Key = usize;

        async fn find(&self, key: usize) -> Option<String> {
            ["zero", "one"].get(key).map(|name| (*name).to_owned())
        }
    }

    struct Library<S> {
        store: S,
    }

    #[handlers]
    impl<S: Store> Library<S>
    where
        S::Key: DeserializeOwned,
    {
        #[tool]
        async fn find(&self, key: S::Key, or: Option<String>) -> Result<String, String> {
            self.store.find(key).await.or(or).ok_or_else(|| "not there".to_owned())
        }
    }

    #[tokio::test]
    async fn the_object_may_be_generic() {
        let router = build(server().handlers(Library { store: Shelf }));
        assert_eq!(text(&router, "find", json!({ "key": 1 })).await, "one");
        assert_eq!(text(&router, "find", json!({ "key": 2, "or": "two" })).await, "two");
        assert_eq!(text(&router, "find", json!({ "key": 2 })).await, "not there");
    }
}

mod completions {
    use turms::CompletionRequest;
    use turms::types::{
        Complete, CompleteParams, CompletionArgument, CompletionContext, PromptReference, Reference, ResourceReference,
    };

    use super::*;

    fn beginning_with(request: &CompletionRequest, names: &[&str]) -> Vec<String> {
        let fits = names.iter().filter(|name| name.starts_with(&request.value));
        fits.map(|name| (*name).to_owned()).collect()
    }

    async fn colours(request: CompletionRequest) -> Vec<String> {
        beginning_with(&request, &["red", "rose", "blue"])
    }

    #[prompt]
    fn paint(
        #[complete(colours)] colour: String,
        #[complete(colours)]
        #[serde(rename = "with")]
        and: String,
    ) -> String {
        format!("{colour} {and}")
    }

    #[resource("paint://{colour}")]
    async fn tube(#[complete(colours)] colour: String) -> String {
        colour
    }

    struct Notes {
        names: Vec<&'static str>,
    }

    #[handlers]
    impl Notes {
        #[resource("note://{name}")]
        async fn note(&self, #[complete(Self::names)] name: String) -> String {
            name
        }

        #[prompt]
        fn summary(
            &self,
            #[complete(Self::names)] name: String,
            #[complete(Self::shared)] other: String,
            #[complete(Self::lengths)] length: String,
            #[complete(colours)] colour: String,
        ) -> String {
            [name, other, length, colour].concat()
        }

        /// A prompt without `self` may be completed by a method.
        #[prompt]
        fn free(#[complete(Self::names)] name: String) -> String {
            name
        }

        async fn names(&self, request: CompletionRequest, _: Context) -> Vec<String> {
            tokio::task::yield_now().await;
            beginning_with(&request, &self.names)
        }

        #[expect(clippy::needless_pass_by_value, reason = "a completion handler takes extractors")]
        fn shared(self: Arc<Self>, request: CompletionRequest) -> Vec<String> {
            let name = request.arguments.get("name").cloned().unwrap_or_default();
            beginning_with(&request, &self.names).into_iter().filter(|other| *other != name).collect()
        }

        #[expect(clippy::needless_pass_by_value, reason = "a completion handler takes extractors")]
        fn lengths(request: CompletionRequest) -> Result<Vec<String>, String> {
            Ok(beginning_with(&request, &["short", "long"]))
        }
    }

    async fn values(router: &Router, reference: Reference, argument: &str, value: &str) -> Value {
        let known: std::collections::BTreeMap<_, _> = [("name".to_owned(), "ab".to_owned())].into();
        let params = CompleteParams::new(reference, CompletionArgument::new(argument, value))
            .context(CompletionContext::new().arguments(known));
        ask::<Complete>(router, params).await.unwrap()["completion"]["values"].take()
    }

    #[tokio::test]
    async fn arguments_of_functions_are_completed() {
        let router = build(server().prompt(paint).resource(tube));
        let prompt = || Reference::Prompt(PromptReference::new("paint"));
        let template = Reference::Resource(ResourceReference::new("paint://{colour}"));
        assert_eq!(values(&router, prompt(), "colour", "r").await, json!(["red", "rose"]));
        assert_eq!(values(&router, prompt(), "with", "b").await, json!(["blue"]));
        assert_eq!(values(&router, template, "colour", "ro").await, json!(["rose"]));
    }

    #[tokio::test]
    async fn arguments_of_methods_are_completed() {
        let router = build(server().handlers(Notes { names: vec!["aa", "ab", "b"] }));
        let prompt = |name: &str| Reference::Prompt(PromptReference::new(name));
        let template = Reference::Resource(ResourceReference::new("note://{name}"));
        assert_eq!(values(&router, template, "name", "a").await, json!(["aa", "ab"]));
        assert_eq!(values(&router, prompt("summary"), "name", "b").await, json!(["b"]));
        assert_eq!(values(&router, prompt("summary"), "other", "a").await, json!(["aa"]));
        assert_eq!(values(&router, prompt("summary"), "length", "s").await, json!(["short"]));
        assert_eq!(values(&router, prompt("summary"), "colour", "b").await, json!(["blue"]));
        assert_eq!(values(&router, prompt("free"), "name", "b").await, json!(["b"]));
    }
}

mod keys {
    use std::time::Duration;

    use turms::types::{CacheScope, Icon};

    use super::*;

    fn colour() -> Meta {
        object(&json!({ "com.example/colour": "red" })).into()
    }

    #[tool(icon = "https://example.com/small.png", icon = Icon::new("https://example.com/large.png"), meta = colour())]
    fn drawn() {}

    #[prompt(icon = "https://example.com/small.png", meta = colour())]
    fn asked() -> &'static str {
        ""
    }

    #[resource(
        "a://b",
        icon = "https://example.com/small.png",
        meta = colour(),
        cache = (Duration::from_secs(60), CacheScope::Public)
    )]
    fn read_often() -> &'static str {
        ""
    }

    #[tokio::test]
    async fn icons_and_metadata_are_listed() {
        let router = build(server().tool(drawn).prompt(asked).resource(read_often));
        let small = json!({ "src": "https://example.com/small.png" });
        let tool = &ask::<ListTools>(&router, PaginatedParams::new()).await.unwrap()["tools"][0];
        assert_eq!(tool["icons"], json!([small, { "src": "https://example.com/large.png" }]));
        let prompt = &ask::<ListPrompts>(&router, PaginatedParams::new()).await.unwrap()["prompts"][0];
        let resource = &ask::<ListResources>(&router, PaginatedParams::new()).await.unwrap()["resources"][0];
        assert_eq!((&prompt["icons"], &resource["icons"]), (&json!([small]), &json!([small])));
        for component in [tool, prompt, resource] {
            assert_eq!(component["_meta"]["com.example/colour"], "red");
        }
        let contents = ask::<ReadResource>(&router, ReadResourceParams::new("a://b")).await.unwrap();
        assert_eq!((&contents["ttlMs"], &contents["cacheScope"]), (&json!(60_000), &json!("public")));
    }

    #[tool(task = "required")]
    async fn required() {}

    #[tool(task = "deferred")]
    async fn deferred() {}

    #[test]
    fn the_mode_of_a_task_is_a_value() {
        let definitions = [required().definition().clone(), deferred().definition().clone()];
        let supports = definitions.map(|tool| tool.execution.unwrap().task_support.unwrap().as_str().to_owned());
        assert_eq!(supports, ["required", "optional"]);
    }
}

/// A crate that is imported under another name.
mod renamed {
    use super::{Router, Value, ask, build, json, server, text};
    use turms::types::{ListPrompts, PaginatedParams};

    mod toolkit {
        pub(super) use turms::*;
    }

    #[toolkit::tool(crate = toolkit)]
    fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    struct Api;

    #[toolkit::handlers(crate = "toolkit")]
    impl Api {
        #[tool]
        fn double(&self, n: i64) -> i64 {
            n * 2
        }

        #[prompt]
        fn ask(&self, what: String) -> String {
            what
        }
    }

    #[tokio::test]
    async fn the_path_of_the_crate_is_given() {
        let router: Router = build(server().tool(add).handlers(Api));
        assert_eq!(text(&router, "add", json!({ "a": 1, "b": 2 })).await, "3");
        assert_eq!(text(&router, "double", json!({ "n": 2 })).await, "4");
        let list: Value = ask::<ListPrompts>(&router, PaginatedParams::new()).await.unwrap();
        assert_eq!(list["prompts"][0]["name"], "ask");
    }
}

mod scopes_and_layers {
    use turms::layer::{CallResult, ErrorOrigin, Next, Remote, from_fn};

    use super::*;

    const NOTES: [&str; 2] = ["notes:read", "notes:write"];

    /// A layer that adds to the text of a tool.
    async fn exclaim(request: Request, cx: CallContext, next: Next) -> CallResult {
        let result: CallToolResult = next.run(request, cx).await?.take()?;
        Ok(turms::layer::Payload::new(CallToolResult::from_text(result.text() + "!")))
    }

    async fn ask(request: Request, cx: CallContext, next: Next) -> CallResult {
        let result: CallToolResult = next.run(request, cx).await?.take()?;
        Ok(turms::layer::Payload::new(CallToolResult::from_text(result.text() + "?")))
    }

    #[tool(scopes = ["notes:read", "notes:write"], layer = from_fn(exclaim), layer = from_fn(ask))]
    fn write() -> &'static str {
        "written"
    }

    #[prompt(scopes = NOTES)]
    fn review() -> &'static str {
        "?"
    }

    #[resource("notes://all", scopes = vec!["notes:read"])]
    fn notes() -> &'static str {
        "all"
    }

    struct Notes;

    #[handlers]
    impl Notes {
        #[tool(scopes = ["notes:admin"], layer = from_fn(exclaim))]
        fn clear(&self) -> &'static str {
            "cleared"
        }
    }

    #[tokio::test]
    async fn attributes_set_scopes_and_layers() {
        assert_eq!(
            (write().scopes(), review().scopes(), notes().scopes()),
            (&NOTES.map(str::to_owned)[..], &NOTES.map(str::to_owned)[..], &["notes:read".to_owned()][..])
        );
        let router = build(server().tool(write).handlers(Notes));
        assert_eq!(text(&router, "write", json!({})).await, "written!?");
        assert_eq!(text(&router, "clear", json!({})).await, "cleared!");
        let mut cx = CallContext::in_process();
        cx.insert_extension(Remote);
        let error = router.call(Request::new::<CallTool>(CallToolParams::new("clear")), cx).await.unwrap_err();
        assert_eq!(
            (error.origin(), error.required_scopes()),
            (ErrorOrigin::Forbidden, &["notes:admin".to_owned()][..])
        );
    }
}
