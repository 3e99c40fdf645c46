use std::fmt;

use indexmap::IndexMap;

use super::list_cache::ListKind;
use super::members::GroupMembers;
use super::naming::Naming;

/// A name that several servers of a group use. Calls go to the first of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collision {
    /// The kind of the name.
    pub kind: CollisionKind,
    /// The name or URI, as the group lists it.
    pub name: String,
    /// The servers that use the name, in the order of the group. Calls go to the first.
    pub servers: Vec<String>,
}

/// The kind of a name that several servers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CollisionKind {
    /// The prefix of the servers: their tools and prompts have the same prefix. This is harmless unless a tool or
    /// prompt collides too.
    Prefix,
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource, by its URI.
    Resource,
    /// A resource template, by its URI template.
    ResourceTemplate,
}

impl fmt::Display for Collision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            CollisionKind::Prefix => "prefix",
            CollisionKind::Tool => "tool",
            CollisionKind::Prompt => "prompt",
            CollisionKind::Resource => "resource",
            CollisionKind::ResourceTemplate => "resource template",
        };
        let servers: Vec<_> = self.servers.iter().map(|server| format!("{server:?}")).collect();
        write!(f, "the {kind} {:?} is claimed by the servers {}", self.name, servers.join(", "))
    }
}

impl GroupMembers {
    pub(super) fn collisions(&self, naming: &Naming) -> Vec<Collision> {
        let mut claims: IndexMap<(Option<ListKind>, String), Vec<String>> = IndexMap::new();
        for entry in self.entries() {
            let mut claim = |kind, name: String| claims.entry((kind, name)).or_default().push(entry.name.to_string());
            if naming.is_prefixed() {
                claim(None, entry.prefix.to_string());
            }
            for kind in ListKind::ALL {
                let prefix = if kind.is_prefixed() { &*entry.prefix } else { "" };
                entry.lists.names(kind).for_each(|name| claim(Some(kind), format!("{prefix}{name}")));
            }
        }
        claims.sort_by(|(one, _), _, (other, _), _| one.cmp(other));
        let several = claims.into_iter().filter(|(_, servers)| servers.len() > 1);
        several
            .map(|((kind, name), servers)| {
                let kind = kind.map_or(CollisionKind::Prefix, CollisionKind::from);
                Collision { kind, name, servers }
            })
            .collect()
    }
}
