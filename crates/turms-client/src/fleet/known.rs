//! What is known of a server's lists.

use indexmap::IndexSet;
use turms_proto::types::ServerCapabilities;
use turms_proto::uri_template::UriTemplate;

use super::collision::CollisionKind;
use crate::call::error::CallError;

/// A list that servers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    pub(super) fn is_offered(self, server: &ServerCapabilities) -> bool {
        match self {
            Self::Tools => server.tools.is_some(),
            Self::Prompts => server.prompts.is_some(),
            Self::Resources | Self::Templates => server.resources.is_some(),
        }
    }

    /// Whether what is listed has a name that the fleet makes longer. URIs stay as they are.
    pub(super) fn is_prefixed(self) -> bool {
        matches!(self, Self::Tools | Self::Prompts)
    }
}

impl From<Kind> for CollisionKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Tools => Self::Tool,
            Kind::Prompts => Self::Prompt,
            Kind::Resources => Self::Resource,
            Kind::Templates => Self::ResourceTemplate,
        }
    }
}

/// What a server's lists had when they were last read.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    lists: [Listed; 4],
    templates: Vec<UriTemplate>,
}

#[derive(Debug, Clone, Default)]
struct Listed {
    /// Names or URIs, as the server has them; `None` until the list has been read, or has failed to be.
    names: Option<IndexSet<String>>,
    failure: Option<CallError>,
}

impl Known {
    pub(super) fn learn(&mut self, kind: Kind, names: IndexSet<String>) {
        if kind == Kind::Templates {
            // A template that cannot be understood still is one; it only finds nothing.
            self.templates = names.iter().filter_map(|form| UriTemplate::parse(form.as_str()).ok()).collect();
        }
        self.lists[kind as usize] = Listed { names: Some(names), failure: None };
    }

    /// The list could not be read. What it had before is the best that is known.
    pub(super) fn fail(&mut self, kind: Kind, failure: CallError) {
        let listed = &mut self.lists[kind as usize];
        listed.names.get_or_insert_default();
        listed.failure = Some(failure);
    }

    pub(super) fn is_listed(&self, kind: Kind) -> bool {
        self.lists[kind as usize].names.is_some()
    }

    pub(super) fn has(&self, kind: Kind, name: &str) -> bool {
        self.lists[kind as usize].names.as_ref().is_some_and(|names| names.contains(name))
    }

    pub(super) fn names(&self, kind: Kind) -> impl Iterator<Item = &str> {
        self.lists[kind as usize].names.iter().flatten().map(String::as_str)
    }

    pub(super) fn describes(&self, uri: &str) -> bool {
        self.templates.iter().any(|template| template.matches(uri).is_some())
    }

    pub(super) fn failure(&self) -> Option<&CallError> {
        self.lists.iter().find_map(|listed| listed.failure.as_ref())
    }
}
