use super::*;

/// The variables of RFC 6570 §3.2.
fn rfc_values() -> Vec<(&'static str, Value)> {
    let mut values: Vec<(&str, Value)> = vec![
        ("count", ["one", "two", "three"].into()),
        ("dom", ["example", "com"].into()),
        ("list", ["red", "green", "blue"].into()),
        ("no_items", Value::List(Vec::new())),
    ];
    let texts = [
        ("dub", "me/too"),
        ("hello", "Hello World!"),
        ("half", "50%"),
        ("var", "value"),
        ("who", "fred"),
        ("base", "http://example.com/home/"),
        ("path", "/foo/bar"),
        ("v", "6"),
        ("x", "1024"),
        ("y", "768"),
        ("empty", ""),
    ];
    values.extend(texts.map(|(name, text)| (name, text.into())));
    values
}

/// Templates and expansions, by section of RFC 6570, without those with associative arrays and repeated variables.
const RFC_CASES: &[(&str, &str)] = &[
    // §3.2.1 and §2.4.2, lists
    ("{count}", "one,two,three"),
    ("{count*}", "one,two,three"),
    ("{/count}", "/one,two,three"),
    ("{/count*}", "/one/two/three"),
    ("{;count}", ";count=one,two,three"),
    ("{;count*}", ";count=one;count=two;count=three"),
    ("{?count}", "?count=one,two,three"),
    ("{?count*}", "?count=one&count=two&count=three"),
    ("{&count*}", "&count=one&count=two&count=three"),
    // §3.2.2, simple
    ("{var}", "value"),
    ("{hello}", "Hello%20World%21"),
    ("{half}", "50%25"),
    ("O{empty}X", "OX"),
    ("O{undef}X", "OX"),
    ("{x,y}", "1024,768"),
    ("{x,hello,y}", "1024,Hello%20World%21,768"),
    ("?{x,empty}", "?1024,"),
    ("?{x,undef}", "?1024"),
    ("?{undef,y}", "?768"),
    ("{var:3}", "val"),
    ("{var:30}", "value"),
    ("{list}", "red,green,blue"),
    ("{list*}", "red,green,blue"),
    // §3.2.3, reserved
    ("{+var}", "value"),
    ("{+hello}", "Hello%20World!"),
    ("{+half}", "50%25"),
    ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
    ("{+base}index", "http://example.com/home/index"),
    ("O{+empty}X", "OX"),
    ("O{+undef}X", "OX"),
    ("{+path}/here", "/foo/bar/here"),
    ("here?ref={+path}", "here?ref=/foo/bar"),
    ("up{+path}{var}/here", "up/foo/barvalue/here"),
    ("{+x,hello,y}", "1024,Hello%20World!,768"),
    ("{+path,x}/here", "/foo/bar,1024/here"),
    ("{+path:6}/here", "/foo/b/here"),
    ("{+list}", "red,green,blue"),
    ("{+list*}", "red,green,blue"),
    // §3.2.4, fragment
    ("{#var}", "#value"),
    ("{#hello}", "#Hello%20World!"),
    ("{#half}", "#50%25"),
    ("foo{#empty}", "foo#"),
    ("foo{#undef}", "foo"),
    ("{#x,hello,y}", "#1024,Hello%20World!,768"),
    ("{#path,x}/here", "#/foo/bar,1024/here"),
    ("{#path:6}/here", "#/foo/b/here"),
    ("{#list}", "#red,green,blue"),
    ("{#list*}", "#red,green,blue"),
    // §3.2.5, label
    ("{.who}", ".fred"),
    ("{.half,who}", ".50%25.fred"),
    ("www{.dom*}", "www.example.com"),
    ("X{.var}", "X.value"),
    ("X{.empty}", "X."),
    ("X{.undef}", "X"),
    ("X{.var:3}", "X.val"),
    ("X{.list}", "X.red,green,blue"),
    ("X{.list*}", "X.red.green.blue"),
    ("X{.no_items}", "X"),
    ("X{.no_items*}", "X"),
    // §3.2.6, path
    ("{/who}", "/fred"),
    ("{/half,who}", "/50%25/fred"),
    ("{/who,dub}", "/fred/me%2Ftoo"),
    ("{/var}", "/value"),
    ("{/var,empty}", "/value/"),
    ("{/var,undef}", "/value"),
    ("{/var,x}/here", "/value/1024/here"),
    ("{/list}", "/red,green,blue"),
    ("{/list*}", "/red/green/blue"),
    ("{/list*,path:4}", "/red/green/blue/%2Ffoo"),
    // §3.2.7, path parameter
    ("{;who}", ";who=fred"),
    ("{;half}", ";half=50%25"),
    ("{;empty}", ";empty"),
    ("{;v,empty,who}", ";v=6;empty;who=fred"),
    ("{;v,bar,who}", ";v=6;who=fred"),
    ("{;x,y}", ";x=1024;y=768"),
    ("{;x,y,empty}", ";x=1024;y=768;empty"),
    ("{;x,y,undef}", ";x=1024;y=768"),
    ("{;hello:5}", ";hello=Hello"),
    ("{;list}", ";list=red,green,blue"),
    ("{;list*}", ";list=red;list=green;list=blue"),
    // §3.2.8, query
    ("{?who}", "?who=fred"),
    ("{?half}", "?half=50%25"),
    ("{?x,y}", "?x=1024&y=768"),
    ("{?x,y,empty}", "?x=1024&y=768&empty="),
    ("{?x,y,undef}", "?x=1024&y=768"),
    ("{?var:3}", "?var=val"),
    ("{?list}", "?list=red,green,blue"),
    ("{?list*}", "?list=red&list=green&list=blue"),
    // §3.2.9, query continuation
    ("{&who}", "&who=fred"),
    ("{&half}", "&half=50%25"),
    ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
    ("{&x,y,empty}", "&x=1024&y=768&empty="),
    ("{&x,y,undef}", "&x=1024&y=768"),
    ("{&var:3}", "&var=val"),
    ("{&list}", "&list=red,green,blue"),
    ("{&list*}", "&list=red&list=green&list=blue"),
];

fn template(text: &str) -> UriTemplate {
    UriTemplate::parse(text).unwrap()
}

/// Returns the matched values, as `name=value` separated by spaces, with `|` after each item of a list.
fn found(text: &str, uri: &str) -> Option<String> {
    let captures = template(text).matches(uri)?;
    let shown = captures.iter().map(|(name, value)| match value {
        Value::Text(text) => format!("{name}={text}"),
        Value::List(items) => format!("{name}={}|", items.join("|")),
    });
    Some(shown.collect::<Vec<_>>().join(" "))
}

fn error(text: &str) -> String {
    UriTemplate::parse(text).unwrap_err().to_string()
}

#[test]
fn the_examples_of_the_rfc_expand() {
    for (text, uri) in RFC_CASES {
        assert_eq!(template(text).expand(rfc_values()), *uri, "{text}");
    }
}

#[test]
fn the_examples_of_the_rfc_match_what_they_expand_to() {
    for (text, uri) in RFC_CASES {
        let captures = template(text).matches(uri).unwrap_or_else(|| panic!("{text} on {uri}"));
        assert_eq!(template(text).expand(&captures), *uri, "{text} gave {captures:?}");
    }
}

#[test]
fn the_examples_of_the_rfc_give_back_their_values_where_they_can() {
    let given: std::collections::HashMap<_, _> = rfc_values().into_iter().collect();
    // A prefix, and variables that are undefined, empty, or next to each other.
    let ambiguous = |text: &str| text.contains([':', 'O']) || text.contains("undef") || text == "up{+path}{var}/here";
    // A list that looks like a string.
    let ambiguous = |text: &str| ambiguous(text) || matches!(text, "{+list}" | "{#list}");
    for (text, uri) in RFC_CASES.iter().filter(|(text, _)| !ambiguous(text)) {
        for (name, value) in &template(text).matches(uri).unwrap() {
            assert_eq!(Some(value), given.get(name), "{name} of {text}");
        }
    }
}

#[test]
fn templates_of_resources_match_their_uris() {
    let cases = [
        ("users://{id}/profile", "users://42/profile", Some("id=42")),
        ("users://{id}/profile", "users://a/b/profile", None),
        ("users://{id}/profile", "users://42/profile/", None),
        ("users://{id}/profile", "groups://42/profile", None),
        ("test://template/{id}/data", "test://template/123/data", Some("id=123")),
        ("file:///{+path}", "file:///etc/hosts", Some("path=etc/hosts")),
        ("file:///{+path}", "file:///my%20file.txt", Some("path=my file.txt")),
        ("file://{/path*}", "file:///etc/hosts", Some("path=etc|hosts|")),
        ("search://items{?q,limit}", "search://items?q=x&limit=5", Some("q=x limit=5")),
        ("search://items{?q,limit}", "search://items?limit=5&q=x", Some("q=x limit=5")),
        ("search://items{?q,limit}", "search://items?limit=5", Some("limit=5")),
        ("search://items{?q,limit}", "search://items?q=", Some("q=")),
        ("search://items{?q,limit}", "search://items", Some("")),
        ("search://items{?q,limit}", "search://items?other=1", None),
        ("search://items{?q,limit}", "search://items?q=1&q=2", None),
        ("search://items{?tags*,q}", "search://items?tags=a&q=x&tags=b", Some("tags=a|b| q=x")),
        ("plain://text", "plain://text", Some("")),
        ("plain://text", "plain://texts", None),
        ("", "", Some("")),
    ];
    for (text, uri, expected) in cases {
        assert_eq!(found(text, uri).as_deref(), expected, "{text} on {uri}");
    }
}

#[test]
fn a_variable_ends_where_the_next_expression_matches() {
    let cases = [
        ("{name}{.ext}", "report.pdf", "name=report ext=pdf"),
        ("{name}{.ext}", "report", "name=report"),
        ("{+path}{?q}", "/a/b?q=1", "path=/a/b q=1"),
        ("{+path}{?q}", "/a/b?x=1", "path=/a/b?x=1"),
        ("{+path}{?q}{#part}", "/a/b#c", "path=/a/b part=c"),
        ("{+path}.{ext}{?q}", "a.b?q=x.y", "path=a ext=b q=x.y"),
        ("{+dir}{/file}", "a/b/c", "dir=a/b file=c"),
        ("{x,y}", "1,2,3", "x=1 y=2|3|"),
        ("{+x,y}", "1,2,3", "x=1 y=2,3"),
        ("{a}{b}", "12", "a=12"),
        ("{a}-{b}", "1-2-3", "a=1-2 b=3"),
    ];
    for (text, uri, expected) in cases {
        assert_eq!(found(text, uri).as_deref(), Some(expected), "{text} on {uri}");
    }
}

#[test]
fn literals_compare_percent_encoding_without_case() {
    for uri in ["x://caf%C3%A9/1", "x://caf%c3%a9/1", "x://café/1"] {
        assert_eq!(found("x://caf%c3%A9/{id}", uri).as_deref(), Some("id=1"));
        assert_eq!(found("x://café/{id}", uri).as_deref(), Some("id=1"));
    }
    assert_eq!(template("x://café").expand(&Captures::default()), "x://caf%C3%A9");
}

#[test]
fn unencoded_characters_match_where_they_do_not_delimit() {
    assert_eq!(found("u://{id}/x", "u://bob@example.com/x").as_deref(), Some("id=bob@example.com"));
    assert_eq!(found("u://{id}/x", "u://it's (me)!/x").as_deref(), Some("id=it's (me)!"));
    assert_eq!(found("u://{id}/x", "u://%41/x").as_deref(), Some("id=A"));
    assert_eq!(found("u://x{?p,q}", "u://x?q=a/b?c==&p").as_deref(), Some("p= q=a/b?c=="));
    assert_eq!(found("u://{id}", "u://a?b"), None);
    assert_eq!(found("u://{id}", "u://a#b"), None);
}

#[test]
fn broken_percent_encoding_matches_nothing() {
    for uri in ["u://%", "u://%4", "u://%zz", "u://a%", "u://%e9%"] {
        assert_eq!(found("u://{id}", uri), None, "{uri}");
        assert_eq!(found("u://{+id}", uri), None, "{uri}");
    }
}

#[test]
fn bytes_that_are_not_utf8_do_not_become_a_value() {
    for uri in ["u://%FF", "u://%C3", "u://%C3%28", "u://%ED%A0%80", "u://%C0%80", "u://%F5%80%80%80"] {
        assert_eq!(found("u://{id}", uri), None, "{uri}");
    }
    assert_eq!(found("u://{+id}", "u://%C3%28").as_deref(), Some("id=%C3%28"));
}

#[test]
fn reserved_values_keep_what_would_not_be_encoded_again() {
    for (uri, value) in [
        ("%2F", "%2F"),
        ("%2f", "%2F"),
        ("%41", "%41"),
        ("%20", " "),
        ("%c3%a9", "é"),
        ("50%25", "50%"),
        ("%2541", "%2541"),
        ("%254", "%4"),
        ("%25%41", "%%41"),
    ] {
        let captures = template("{+x}").matches(uri).unwrap();
        assert_eq!(captures.text("x"), Some(value), "{uri}");
        assert_eq!(template("{+x}").expand(&captures), uri.to_uppercase());
    }
}

#[test]
fn prefixes_count_characters() {
    assert_eq!(template("{x:2}").expand([("x", "€éa")]), "%E2%82%AC%C3%A9");
    assert_eq!(template("{+x:2}").expand([("x", "%2Fab")]), "%2Fa");
    assert_eq!(found("{x:2}", "%E2%82%AC%C3%A9").as_deref(), Some("x=€é"));
    assert_eq!(found("{x:2}", "abc"), None);
    assert_eq!(found("{x:2,y}", "abc").as_deref(), Some("y=abc"));
}

#[test]
fn a_list_has_no_prefix() {
    assert_eq!(template("/{x:2}{?y}").expand([("x", Value::from(["ab"])), ("y", "1".into())]), "/?y=1");
}

#[test]
fn an_empty_path_parameter_is_distinct_from_the_next() {
    let text = template("{;a}{+b}");
    let uri = text.expand([("a", ""), ("b", "=")]);
    assert_eq!(uri, ";a=");
    assert_eq!(text.expand(&text.matches(&uri).unwrap()), uri);
}

#[test]
fn a_parameter_may_be_followed_by_text_that_looks_like_it() {
    let text = template("{;a,b};b=1;a=1{+c}");
    let uri = text.expand([("a", "5"), ("c", ";b=1;a=1")]);
    let captures = text.matches(&uri).unwrap();
    assert_eq!(text.expand(&captures), uri);
    assert_eq!(captures.text("a"), Some("5"));
}

#[test]
fn the_last_of_several_values_counts_and_unknown_names_do_not() {
    assert_eq!(template("{x}").expand([("x", "1"), ("y", "2"), ("x", "3")]), "3");
}

#[test]
fn names_may_be_dotted_or_percent_encoded() {
    let text = template("{?a.b_1,%c3%a9}");
    assert_eq!(text.variables().collect::<Vec<_>>(), ["a.b_1", "%c3%a9"]);
    assert_eq!(text.expand([("a.b_1", "1"), ("%c3%a9", "2")]), "?a.b_1=1&%C3%A9=2");
    assert_eq!(text.matches("?%c3%a9=2&a.b_1=1").unwrap().text("%c3%a9"), Some("2"));
}

#[test]
fn errors_name_the_place_and_the_problem() {
    let cases = [
        ("a{b", "at byte 1: \"{\" is never closed by \"}\""),
        ("a}b", "at byte 1: \"}\" closes nothing"),
        ("a b", "at byte 1: the character ' ' must be percent-encoded outside of an expression"),
        ("a%2", "at byte 1: \"%\" is not followed by two hexadecimal digits"),
        ("a%c3", "at byte 1: the percent-encoded bytes are not UTF-8"),
        ("{=a}", "at byte 1: the operator '=' is reserved for future use"),
        ("{}", "at byte 1: a variable name is missing"),
        ("{+}", "at byte 2: a variable name is missing"),
        ("{a,}", "at byte 3: a variable name is missing"),
        ("{a, b}", "at byte 3: the character ' ' cannot be part of a variable name"),
        ("{user-id}", "at byte 5: the character '-' cannot be part of a variable name"),
        ("{a..b}", "at byte 2: \".\" can only stand between two characters of a variable name"),
        ("{a:0}", "at byte 2: a prefix length is a number from 1 to 9999 and ends the variable"),
        ("{/a}{a}", "at byte 5: the variable \"a\" appears a second time"),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text), format!("invalid URI template {expected}"), "{text}");
    }
    assert_eq!(UriTemplate::parse("a{b").unwrap_err().position(), 1);
}

#[test]
fn what_the_rfc_does_not_allow_is_refused() {
    for text in [
        "{/id*",
        "/id*}",
        "{/?id}",
        "{var:prefix}",
        "{hello:2*}",
        "{hello*:2}",
        "{??hello}",
        "{!hello}",
        "{=path}",
        "{$var}",
        "{|var*}",
        "{*keys?}",
        "{?empty=default,var}",
        "{var}{-prefix|/-/|var}",
        "x{?empty|foo=none}",
        "/h{#hello+}",
        "/h#{hello+}",
        "{;keys:1*}",
        "/people/{~thing}",
        "{?x, y}",
        "{a:}",
        "{a:10000}",
        "{a:+1}",
        "{a:01}",
        "{.}",
        "{.a.}",
        "{é}",
        "{%c3}",
        "{{a}}",
        "a<b",
        "a\nb",
        "a|b",
    ] {
        assert!(UriTemplate::parse(text).is_err(), "{text}");
    }
}

#[test]
fn templates_and_captures_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<UriTemplate>();
    shared::<Captures>();
    shared::<TemplateError>();
}
