//! Property tests of URI templates: expansions match, and untrusted input is harmless.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use turms_proto::uri_template::{Captures, MAX_LEN, UriTemplate, Value};

type Values = BTreeMap<String, Value>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn what_expands_matches_and_expands_to_the_same_again((text, values) in template_and_values()) {
        let template = UriTemplate::parse(&text).unwrap();
        let uri = template.expand(&values);
        let captures = template.matches(&uri);
        prop_assert!(captures.is_some(), "{text:?} does not match its expansion {uri:?}");
        let captures = captures.unwrap();
        prop_assert_eq!(template.expand(&captures), uri, "{:?} gave {:?}", text, captures);
    }

    #[test]
    fn strings_come_back_as_they_were_when_delimiters_are_reserved(
        (text, values) in unambiguous_template_and_values()
    ) {
        let template = UriTemplate::parse(&text).unwrap();
        let uri = template.expand(&values);
        prop_assert_eq!(found(template.matches(&uri)), Some(values), "in {:?}", uri);
    }

    #[test]
    fn query_parameters_match_in_any_order(
        values in vec(option::of(value_text()), 4),
        order in Just([0_usize, 1, 2, 3]).prop_shuffle(),
    ) {
        let template = UriTemplate::parse("s://x{?v0,v1,v2,v3}").unwrap();
        let given: Values = (0..4)
            .filter_map(|i| Some((format!("v{i}"), Value::Text(values[i].clone()?))))
            .collect();
        let shuffled: Vec<String> = order.iter().map(|i| format!("v{i}")).collect();
        let other = UriTemplate::parse(format!("s://x{{?{}}}", shuffled.join(","))).unwrap();
        prop_assert_eq!(found(template.matches(&other.expand(&given))), Some(given));
    }

    #[test]
    fn no_template_and_uri_make_matching_panic(text in "\\PC{0,40}", uri in "\\PC{0,40}") {
        if let Ok(template) = UriTemplate::parse(text) {
            let _ = template.matches(&uri);
        }
    }

    #[test]
    fn no_valid_template_and_uri_make_matching_panic(
        (text, values) in template_and_values(),
        uri in vec(piece(), 0..12),
    ) {
        let template = UriTemplate::parse(&text).unwrap();
        let _ = template.matches(&uri.concat());
        let _ = template.matches(&format!("{}{}", template.expand(&values), uri.concat()));
    }

    #[test]
    fn a_template_is_shown_as_it_was_written((text, _) in template_and_values()) {
        prop_assert_eq!(UriTemplate::parse(&text).unwrap().to_string(), text);
    }
}

#[test]
fn a_mebibyte_of_uri_gets_an_answer() {
    let long = "a".repeat(1 << 20);
    let template = UriTemplate::parse("users://{id}/profile").unwrap();
    let captures = template.matches(&format!("users://{long}/profile")).unwrap();
    assert_eq!(captures.text("id"), Some(long.as_str()));
    assert_eq!(template.matches(&format!("users://{long}/profil")), None);
    assert_eq!(template.matches(&format!("users://{long}%/profile")), None);
}

#[test]
fn ambiguity_over_a_long_uri_gets_an_answer() {
    let same = "a".repeat(1 << 15);
    let mixed = "&v0=a,a;v1=/.".repeat(1 << 11);
    for text in [
        "users://{+a}{+b}{+c}{+d}",
        "users://{+a}aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{+b}b{c}",
        "users://{.a*,b}{/c*,d}{;e*}{+f}{?v0*,v1}{&g*}",
        "users://{a:5,b:9999}{?v0,v1}{#h}",
    ] {
        let template = UriTemplate::parse(text).unwrap();
        for tail in [&same, &mixed] {
            let uri = format!("users://{tail}");
            if let Some(captures) = template.matches(&uri) {
                assert_eq!(template.expand(&captures), uri);
            }
        }
    }
}

#[test]
fn thousands_of_braces_are_refused() {
    for text in ["{", "}", "{}", "{{", "{a", "{a,"] {
        assert!(UriTemplate::parse(text.repeat(2_000)).is_err(), "{text}");
    }
    assert!(UriTemplate::parse("{".repeat(1 << 20)).is_err());
    assert!(UriTemplate::parse("a".repeat(MAX_LEN + 1)).is_err());
    assert!(UriTemplate::parse("a".repeat(MAX_LEN)).is_ok());
}

#[test]
fn as_many_variables_as_allowed_match_a_long_uri() {
    let text: String = (0..64).map(|i| format!("{{+v{i}}}")).collect();
    let template = UriTemplate::parse(&text).unwrap();
    let uri = "a".repeat(1 << 14);
    assert_eq!(template.expand(&template.matches(&uri).unwrap()), uri);
    assert!(UriTemplate::parse(format!("{text}{{x}}")).is_err());
}

fn found(captures: Option<Captures>) -> Option<Values> {
    captures.map(|captures| captures.into_iter().collect())
}

/// Text made of the delimiters of templates and URIs, so that values look like structure.
fn piece() -> impl Strategy<Value = &'static str> {
    select(vec![
        "a", "b", "A", "1", "41", ".", "-", ",", "/", ";", "?", "&", "#", "=", ":", "+", "%", "%41", "%2F", "%2f",
        "%20", "%25", "%c3", "%C3", "%A9", "%E2", "%82", "%FF", "é", "€", "😀", " ", "v0", "v1", "v1=", ";v0", "&v1=",
        "{", "}",
    ])
}

fn value_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => vec(piece(), 0..5).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => value_text().prop_map(Value::Text),
        2 => vec(value_text(), 0..4).prop_map(Value::List),
    ]
}

fn literal() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "a", "b", "1", "41", "v0", "v1", "=", ".", ",", "/", ";", "?", "&", "#", ":", "%20", "%c3%a9", "é", "%41",
        "%25",
    ]);
    vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

/// An operator and the modifiers of the variables, between two literals.
fn expression() -> impl Strategy<Value = (&'static str, Vec<&'static str>, String)> {
    let operator = select(vec!["", "+", "#", ".", "/", ";", "?", "&"]);
    let modifiers = vec(select(vec!["", "", "*", ":1", ":2", ":3"]), 1..4);
    (operator, modifiers, prop_oneof![Just(String::new()), literal()])
}

fn template_and_values() -> impl Strategy<Value = (String, Values)> {
    (literal(), vec(expression(), 0..4), vec(option::weighted(0.8, value()), 12)).prop_map(
        |(mut text, expressions, values)| {
            let mut names = (0..).map(|i| format!("v{i}"));
            for (operator, modifiers, literal) in expressions {
                let variables: Vec<String> =
                    modifiers.iter().zip(&mut names).map(|(modifier, name)| name + modifier).collect();
                text += &format!("{{{operator}{}}}{literal}", variables.join(","));
            }
            let values = (0..).zip(values).filter_map(|(i, value)| Some((format!("v{i}"), value?)));
            (text, values.collect())
        },
    )
}

/// Every variable is a non-empty string that ends at a reserved character.
fn unambiguous_template_and_values() -> impl Strategy<Value = (String, Values)> {
    let part = select(vec!["/{_}", ":{_}", "={_};", "@{_}/here", "{/_,_}", "{;_,_}", "{/_}", "{;_}"]);
    let query = select(vec!["", "{?_,_}", "{?_}", "?fixed=yes{&_,_}"]);
    let text = prop_oneof![
        4 => vec(piece(), 1..5).prop_map(|pieces| pieces.concat()),
        1 => "\\PC{1,8}",
    ];
    (vec(part, 0..4), query, vec(text, 12)).prop_map(|(parts, query, texts)| {
        let mut template = String::from("s://x");
        let mut values = Values::new();
        let mut texts = texts.into_iter().enumerate();
        for c in (parts.concat() + query).chars() {
            if c == '_' {
                let (i, text) = texts.next().expect("there are at most ten variables");
                template += &format!("v{i}");
                values.insert(format!("v{i}"), Value::Text(text));
            } else {
                template.push(c);
            }
        }
        (template, values)
    })
}
