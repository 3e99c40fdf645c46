//! The merged capabilities of the servers of a group.

use turms_proto::session::{Dialect, Negotiated};
use turms_proto::types::{
    DiscoverResult, ListCapability, ResourcesCapability, SKILLS_EXTENSION, ServerCapabilities, TASKS_EXTENSION,
};
use turms_proto::{Object, ProtocolVersion};

use super::backend::GroupShared;

impl GroupShared {
    /// Returns the description of the group as a server: the newest revision and the merged capabilities.
    pub(super) fn describe(&self) -> DiscoverResult {
        let clients = self.members.lock().clients();
        let mut capabilities = ServerCapabilities::new();
        let mut instructions = String::new();
        for (name, client) in clients {
            let Some(opened) = client.opened() else { continue };
            let Some(server) = &opened.server else { continue };
            merge(&mut capabilities, &server.capabilities);
            if let Some(own) = &server.instructions {
                let gap = if instructions.is_empty() { "" } else { "\n\n" };
                instructions.push_str(&format!("{gap}# {name}\n\n{}", own.trim_end()));
            }
        }
        let mut server = DiscoverResult::of(&[ProtocolVersion::LATEST], capabilities, &self.info);
        server.instructions = Some(instructions).filter(|text| !text.is_empty());
        server
    }

    pub(super) fn negotiated(&self) -> Negotiated {
        Negotiated::new(Dialect::Stateless(ProtocolVersion::LATEST), Some(self.describe()))
    }
}

/// Adds the capabilities of another server, without tasks and skills: a call of their methods does not say which server
/// it is for, so that the group cannot route it.
fn merge(all: &mut ServerCapabilities, one: &ServerCapabilities) {
    merge_objects(&mut all.experimental, one.experimental.as_ref());
    merge_objects(&mut all.extensions, one.extensions.as_ref());
    if let Some(extensions) = &mut all.extensions {
        extensions.retain(|id| ![TASKS_EXTENSION, SKILLS_EXTENSION].contains(&id));
    }
    merge_objects(&mut all.logging, one.logging.as_ref());
    merge_objects(&mut all.completions, one.completions.as_ref());
    merge_lists(&mut all.tools, one.tools.as_ref());
    merge_lists(&mut all.prompts, one.prompts.as_ref());
    if let Some(one) = &one.resources {
        let all = all.resources.get_or_insert_with(ResourcesCapability::new);
        merge_flags(&mut all.list_changed, one.list_changed);
        merge_flags(&mut all.subscribe, one.subscribe);
    }
}

fn merge_lists(all: &mut Option<ListCapability>, one: Option<&ListCapability>) {
    if let Some(one) = one {
        merge_flags(&mut all.get_or_insert_with(ListCapability::new).list_changed, one.list_changed);
    }
}

pub(super) fn merge_flags(all: &mut Option<bool>, one: Option<bool>) {
    if one == Some(true) {
        *all = one;
    }
}

/// Adds the members of an object. Members that exist already are kept.
fn merge_objects(all: &mut Option<Object>, one: Option<&Object>) {
    let Some(one) = one else { return };
    let all = all.get_or_insert_default();
    for (name, value) in one {
        if !all.contains(&name) {
            all.insert_raw(&name, &value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_has_the_capabilities_of_all_servers() {
        let one = ServerCapabilities::new()
            .tools(ListCapability::new())
            .extensions(Object::parse(r#"{"a":{"by":1},"b":{}}"#).unwrap());
        let other = ServerCapabilities::new()
            .tools(ListCapability::new().list_changed(true))
            .resources(ResourcesCapability::new().subscribe(true))
            .extensions(Object::parse(r#"{"a":{"by":2},"c":{},"io.modelcontextprotocol/tasks":{}}"#).unwrap());
        let mut all = ServerCapabilities::new();
        merge(&mut all, &one);
        merge(&mut all, &other);
        let expected = ServerCapabilities::new()
            .tools(ListCapability::new().list_changed(true))
            .resources(ResourcesCapability::new().subscribe(true))
            .extensions(Object::parse(r#"{"a":{"by":1},"b":{},"c":{}}"#).unwrap());
        assert_eq!(all, expected);
    }
}
