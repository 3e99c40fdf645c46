use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use turms::core::Payload;

/// The results that a server gave last, by method, in its own words: before they are raised to the newest revision. Clones
/// record the same server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record(Arc<Mutex<HashMap<String, Vec<String>>>>);

impl Record {
    /// Writes a result down. A page that follows another is kept beside it.
    pub(super) fn take(&self, method: &str, result: &Payload, page: Page) {
        let mut json = Vec::new();
        let written = result.write(&mut json).ok().and_then(|()| String::from_utf8(json).ok());
        let mut results = self.0.lock();
        let pages = results.entry(method.to_owned()).or_default();
        if page == Page::First {
            pages.clear();
        }
        pages.extend(written);
    }

    /// The last result of a method.
    pub(crate) fn last(&self, method: &str) -> Option<String> {
        self.0.lock().get(method)?.last().cloned()
    }

    /// The last list of a method: the page as it came, or all pages as one.
    pub(crate) fn list(&self, method: &str, member: &str) -> Option<String> {
        let pages = self.0.lock().get(method)?.clone();
        match pages.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            pages => joined(pages, member),
        }
    }
}

/// Which page of a list it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    First,
    Further,
}

impl Page {
    /// Whoever asks with a cursor has seen another page.
    pub(super) fn of(params: &Payload) -> Self {
        let mut json = Vec::new();
        let written = params.write(&mut json);
        let params = serde_json::from_slice::<Map<String, Value>>(&json).unwrap_or_default();
        if written.is_ok() && params.contains_key("cursor") { Self::Further } else { Self::First }
    }
}

/// The first page, with the items of all, and without the cursor that led from one to the next.
fn joined(pages: &[String], member: &str) -> Option<String> {
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
    use turms::proto::RawJson;

    use super::*;

    fn payload(json: &str) -> Payload {
        Payload::json(RawJson::parse(json).unwrap())
    }

    #[test]
    fn pages_become_one_list_and_another_list_takes_its_place() {
        let record = Record::default();
        let hear = |params: &str, result: &str| {
            record.take("tools/list", &payload(result), Page::of(&payload(params)));
        };
        hear("{}", r#"{"tools":[1],"x":2,"nextCursor":"b"}"#);
        assert_eq!(record.list("tools/list", "tools").unwrap(), r#"{"tools":[1],"x":2,"nextCursor":"b"}"#);
        hear(r#"{"cursor":"b"}"#, r#"{"tools":[2,3]}"#);
        assert_eq!(record.list("tools/list", "tools").unwrap(), r#"{"tools":[1,2,3],"x":2}"#);
        hear("{}", r#"{"tools":[]}"#);
        assert_eq!(record.list("tools/list", "tools").unwrap(), r#"{"tools":[]}"#);
        assert_eq!(record.last("tools/call"), None);
    }
}
