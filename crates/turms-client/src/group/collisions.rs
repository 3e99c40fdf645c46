use std::fmt;

use indexmap::IndexMap;

use super::list_cache::ListKind;
use super::members::GroupMembers;
use super::naming::Naming;

/// A name that several servers of a group have. The first of them owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collision {
    /// The kind of the thing.
    pub kind: CollisionKind,
    /// The name, or the URI, as the group shows it.
    pub name: String,
    /// The servers that have it, in the order of the group; the first owns it.
    pub servers: Vec<String>,
}

/// The kind of a name that several servers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CollisionKind {
    /// The servers themselves: their names begin all their tools and prompts with the same prefix. Nothing is lost by that
    /// as long as no tool or prompt collides.
    Prefix,
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource, by its URI.
    Resource,
    /// A template of resources, by its form.
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
