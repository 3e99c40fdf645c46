use turms_proto::uri_template::{UriTemplate, Value};

/// Fuzz target for a template and a URI: there is no panic, and an expansion matches and expands to the same text again.
pub fn uri_template(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (template, uri) = text.split_once('\n').unwrap_or((&text, ""));
    let Ok(template) = UriTemplate::parse(template) else {
        return;
    };
    assert_eq!(UriTemplate::parse(template.as_str()).as_ref(), Ok(&template));
    if let Some(captures) = template.matches(uri) {
        assert_round_trip(&template, &template.expand(&captures));
    }
    assert_round_trip(&template, &template.expand(values_of(&template, uri)));
}

/// Creates values for the variables, strings and lists in turn, so that every operator is tried with both.
fn values_of<'a>(template: &'a UriTemplate, uri: &str) -> Vec<(&'a str, Value)> {
    let pieces: Vec<&str> = uri.split(',').collect();
    let texts = pieces.iter().map(|piece| Value::from(*piece));
    let lists = pieces.chunks(2).map(|items| Value::from(items.to_vec()));
    let values = texts.zip(lists).flat_map(|(text, list)| [text, list]);
    template.variables().zip(values).collect()
}

fn assert_round_trip(template: &UriTemplate, expanded: &str) {
    let captures =
        template.matches(expanded).unwrap_or_else(|| panic!("{template} does not match its expansion {expanded}"));
    assert_eq!(template.expand(&captures), expanded, "{template}");
}
