use std::fmt;

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
