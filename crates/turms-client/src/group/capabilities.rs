//! The merged capabilities of the servers of a group.

use turms_proto::session::{Dialect, Negotiated};
use turms_proto::types::{
    DiscoverResult, ListCapability, ResourcesCapability, SKILLS_EXTENSION, ServerCapabilities, TASKS_EXTENSION,
};
use turms_proto::{Object, ProtocolVersion};

use super::backend::GroupShared;

impl GroupShared {
    /// The description of the group: the newest revision, and the capabilities of all its servers.
    pub(super) fn describe(&self) -> DiscoverResult {
        let clients = self.members.lock().clients();
        let mut capabilities = ServerCapabilities::new();
        let mut instructions = String::new();
        for (name, client) in clients {
            let Some(opened) = client.opened() else { continue };
            let Some(server) = &opened.server else { continue };
            unite(&mut capabilities, &server.capabilities);
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

/// Adds the capabilities of another server. Tasks and skills are left out: their methods belong to one server each, and nothing in
/// them says to which.
fn unite(all: &mut ServerCapabilities, one: &ServerCapabilities) {
    unite_objects(&mut all.experimental, one.experimental.as_ref());
    unite_objects(&mut all.extensions, one.extensions.as_ref());
    if let Some(extensions) = &mut all.extensions {
        extensions.retain(|id| ![TASKS_EXTENSION, SKILLS_EXTENSION].contains(&id));
    }
    unite_objects(&mut all.logging, one.logging.as_ref());
    unite_objects(&mut all.completions, one.completions.as_ref());
    unite_lists(&mut all.tools, one.tools.as_ref());
    unite_lists(&mut all.prompts, one.prompts.as_ref());
    if let Some(one) = &one.resources {
        let all = all.resources.get_or_insert_with(ResourcesCapability::new);
        unite_flags(&mut all.list_changed, one.list_changed);
        unite_flags(&mut all.subscribe, one.subscribe);
    }
}

fn unite_lists(all: &mut Option<ListCapability>, one: Option<&ListCapability>) {
    if let Some(one) = one {
        unite_flags(&mut all.get_or_insert_with(ListCapability::new).list_changed, one.list_changed);
    }
}

pub(super) fn unite_flags(all: &mut Option<bool>, one: Option<bool>) {
    if one == Some(true) {
        *all = one;
    }
}

/// Of a member that several have, the first counts.
fn unite_objects(all: &mut Option<Object>, one: Option<&Object>) {
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
    fn what_any_server_can_do_the_group_can_do() {
        let one = ServerCapabilities::new()
            .tools(ListCapability::new())
            .extensions(Object::parse(r#"{"a":{"by":1},"b":{}}"#).unwrap());
        let other = ServerCapabilities::new()
            .tools(ListCapability::new().list_changed(true))
            .resources(ResourcesCapability::new().subscribe(true))
            .extensions(Object::parse(r#"{"a":{"by":2},"c":{},"io.modelcontextprotocol/tasks":{}}"#).unwrap());
        let mut all = ServerCapabilities::new();
        unite(&mut all, &one);
        unite(&mut all, &other);
        let expected = ServerCapabilities::new()
            .tools(ListCapability::new().list_changed(true))
            .resources(ResourcesCapability::new().subscribe(true))
            .extensions(Object::parse(r#"{"a":{"by":1},"b":{},"c":{}}"#).unwrap());
        assert_eq!(all, expected);
    }
}
