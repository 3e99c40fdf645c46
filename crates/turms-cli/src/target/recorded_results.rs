use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use turms::layer::Payload;

/// The last results by method, exactly as the server sent them: before they are translated to the newest revision. Clones
/// share the records.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedResults(Arc<Mutex<HashMap<String, Vec<String>>>>);

impl RecordedResults {
    /// Records a result. Pages of a list are collected.
    pub(super) fn add(&self, method: &str, result: &Payload, page: PageKind) {
        let mut json = Vec::new();
        let text = result.write(&mut json).ok().and_then(|()| String::from_utf8(json).ok());
        let mut results = self.0.lock();
        let pages = results.entry(method.to_owned()).or_default();
        if page == PageKind::First {
            pages.clear();
        }
        pages.extend(text);
    }

    /// Returns the last result of a method.
    pub(crate) fn last(&self, method: &str) -> Option<String> {
        self.0.lock().get(method)?.last().cloned()
    }

    /// Returns the last list of a method: the only page as it is, or all pages joined.
    pub(crate) fn list(&self, method: &str, member: &str) -> Option<String> {
        let pages = self.0.lock().get(method)?.clone();
        match pages.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            pages => join_pages(pages, member),
        }
    }
}

/// Position of a page in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    First,
    Further,
}

impl PageKind {
    /// Returns the kind of page that a request is for. Only later pages have a cursor.
    pub(super) fn of(params: &Payload) -> Self {
        let mut json = Vec::new();
        let written = params.write(&mut json);
        let params = serde_json::from_slice::<Map<String, Value>>(&json).unwrap_or_default();
        if written.is_ok() && params.contains_key("cursor") { Self::Further } else { Self::First }
    }
}

/// Returns the first page with the items of all pages, without `nextCursor`.
fn join_pages(pages: &[String], member: &str) -> Option<String> {
    let mut pages = pages.iter().map(|page| serde_json::from_str::<Map<String, Value>>(page).ok());
    let mut whole = pages.next()??;
    whole.shift_remove("nextCursor");
    for page in pages {
        let Some(Value::Array(items)) = page?.shift_remove(member) else { continue };
        whole.get_mut(member)?.as_array_mut()?.extend(items);
    }
    serde_json::to_string(&whole).ok()
}

#[cfg(test)]
mod tests {
    use turms::types::RawJson;

    use super::*;

    fn payload(json: &str) -> Payload {
        Payload::json(RawJson::parse(json).unwrap())
    }

    #[test]
    fn pages_are_joined_and_a_new_list_replaces_the_old_one() {
        let results = RecordedResults::default();
        let record = |params: &str, result: &str| {
            results.add("tools/list", &payload(result), PageKind::of(&payload(params)));
        };
        record("{}", r#"{"tools":[1],"x":2,"nextCursor":"b"}"#);
        assert_eq!(results.list("tools/list", "tools").unwrap(), r#"{"tools":[1],"x":2,"nextCursor":"b"}"#);
        record(r#"{"cursor":"b"}"#, r#"{"tools":[2,3]}"#);
        assert_eq!(results.list("tools/list", "tools").unwrap(), r#"{"tools":[1,2,3],"x":2}"#);
        record("{}", r#"{"tools":[]}"#);
        assert_eq!(results.list("tools/list", "tools").unwrap(), r#"{"tools":[]}"#);
        assert_eq!(results.last("tools/call"), None);
    }
}
