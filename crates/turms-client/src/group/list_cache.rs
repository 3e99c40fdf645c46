//! The cached lists of a server.

use indexmap::IndexSet;
use turms_proto::types::ServerCapabilities;
use turms_proto::uri_template::UriTemplate;

use super::collisions::CollisionKind;
use crate::call::error::CallError;

/// The kind of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub(super) const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// Returns `true` if the server declares the capability for this list.
    pub(super) fn is_offered(self, server: &ServerCapabilities) -> bool {
        match self {
            Self::Tools => server.tools.is_some(),
            Self::Prompts => server.prompts.is_some(),
            Self::Resources | Self::Templates => server.resources.is_some(),
        }
    }

    /// Returns `true` if the group adds a prefix to the names. URIs stay as they are.
    pub(super) fn is_prefixed(self) -> bool {
        matches!(self, Self::Tools | Self::Prompts)
    }
}

impl From<ListKind> for CollisionKind {
    fn from(kind: ListKind) -> Self {
        match kind {
            ListKind::Tools => Self::Tool,
            ListKind::Prompts => Self::Prompt,
            ListKind::Resources => Self::Resource,
            ListKind::Templates => Self::ResourceTemplate,
        }
    }
}

/// The names in the lists of a server, from the last time they were read.
#[derive(Debug, Clone, Default)]
pub(super) struct ListCache {
    lists: [Listed; 4],
    templates: Vec<UriTemplate>,
}

#[derive(Debug, Clone, Default)]
struct Listed {
    /// Names or URIs, without the prefix of the group; `None` until the first attempt to read the list.
    names: Option<IndexSet<String>>,
    failure: Option<CallError>,
}

impl ListCache {
    /// Stores the names of a list that was read.
    pub(super) fn store(&mut self, kind: ListKind, names: IndexSet<String>) {
        if kind == ListKind::Templates {
            // A template that cannot be parsed matches nothing.
            self.templates = names.iter().filter_map(|form| UriTemplate::parse(form.as_str()).ok()).collect();
        }
        self.lists[kind as usize] = Listed { names: Some(names), failure: None };
    }

    /// Records that a list could not be read. The names from before are kept.
    pub(super) fn fail(&mut self, kind: ListKind, failure: CallError) {
        let listed = &mut self.lists[kind as usize];
        listed.names.get_or_insert_default();
        listed.failure = Some(failure);
    }

    /// Returns `true` if reading the list was attempted.
    pub(super) fn is_listed(&self, kind: ListKind) -> bool {
        self.lists[kind as usize].names.is_some()
    }

    pub(super) fn has(&self, kind: ListKind, name: &str) -> bool {
        self.lists[kind as usize].names.as_ref().is_some_and(|names| names.contains(name))
    }

    pub(super) fn names(&self, kind: ListKind) -> impl Iterator<Item = &str> {
        self.lists[kind as usize].names.iter().flatten().map(String::as_str)
    }

    /// Returns `true` if one of the listed templates matches the URI.
    pub(super) fn matches_template(&self, uri: &str) -> bool {
        self.templates.iter().any(|template| template.matches(uri).is_some())
    }

    pub(super) fn failure(&self) -> Option<&CallError> {
        self.lists.iter().find_map(|listed| listed.failure.as_ref())
    }
}
