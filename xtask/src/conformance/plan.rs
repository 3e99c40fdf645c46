//! What is to be run: which scenarios, at which revisions, and which of them together.

use std::fmt;

use super::suite::{Catalog, Role, Scenario, Speaks};

/// What was asked for; everything unless something is said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) role: Option<Role>,
    pub(crate) revision: Option<String>,
    pub(crate) scenario: Option<String>,
}

/// Everything that is run.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<Job>,
}

/// What one process of a suite does.
#[derive(Debug)]
pub(crate) struct Job {
    /// Which of the suites.
    pub(crate) suite: usize,
    pub(crate) role: Role,
    pub(crate) revision: String,
    pub(crate) scope: Scope,
    /// The scenarios that have a result afterwards.
    pub(crate) scenarios: Vec<String>,
}

/// How much of a suite a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All scenarios of the revision in one process, one after another.
    Revision,
    /// One scenario.
    Scenario,
    /// One scenario of an extension, which belongs to no revision.
    Extension,
}

impl Filter {
    pub(crate) fn is_all(&self) -> bool {
        *self == Self::default()
    }

    fn admits(&self, scenario: &Scenario) -> bool {
        self.role.is_none_or(|role| role == scenario.role)
            && self.scenario.as_ref().is_none_or(|name| *name == scenario.name)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Some(role) => write!(f, "{role} scenarios")?,
            None => f.write_str("scenarios")?,
        }
        if let Some(name) = &self.scenario {
            write!(f, " named {name:?}")?;
        }
        if let Some(revision) = &self.revision {
            write!(f, " at revision {revision:?}")?;
        }
        Ok(())
    }
}

impl Plan {
    pub(crate) fn new(catalogs: &[Catalog], filter: &Filter) -> Self {
        let mut plan = Self::default();
        for (suite, catalog) in catalogs.iter().enumerate() {
            plan.add(suite, catalog, filter);
        }
        plan
    }

    fn add(&mut self, suite: usize, catalog: &Catalog, filter: &Filter) {
        let chosen: Vec<_> = catalog.scenarios.iter().filter(|scenario| filter.admits(scenario)).collect();
        for role in [Role::Server, Role::Client, Role::AuthorizationServer] {
            for revision in catalog.revisions() {
                if filter.revision.as_deref().is_some_and(|wanted| wanted != revision) {
                    continue;
                }
                let of_role = || chosen.iter().filter(|scenario| scenario.role == role);
                let names = of_role()
                    .filter(|scenario| catalog.is_at(scenario, revision))
                    .map(|scenario| scenario.name.clone());
                // In one process a suite judges servers the same way; of clients it would not see how they end. Of the
                // scenarios for authorization servers, the second needs the result of the first.
                let scope = match (role, &filter.scenario) {
                    (Role::Server, None) | (Role::AuthorizationServer, _) => Scope::Revision,
                    _ => Scope::Scenario,
                };
                self.push(suite, role, revision, scope, names.collect());
                let extensions = of_role().filter(|scenario| catalog.is_extension_at(scenario, revision));
                let names = extensions.map(|scenario| scenario.name.clone()).collect();
                self.push(suite, role, revision, Scope::Extension, names);
            }
        }
    }

    fn push(&mut self, suite: usize, role: Role, revision: &str, scope: Scope, names: Vec<String>) {
        let job = |scenarios| Job { suite, role, revision: revision.to_owned(), scope, scenarios };
        match scope {
            Scope::Revision if names.is_empty() => {}
            Scope::Revision => self.jobs.push(job(names)),
            Scope::Scenario | Scope::Extension => self.jobs.extend(names.into_iter().map(|name| job(vec![name]))),
        }
    }
}

impl Catalog {
    /// The revisions that can be spoken, oldest first.
    fn revisions(&self) -> Vec<&str> {
        let tags = self.scenarios.iter().flat_map(|scenario| &scenario.tags);
        let mut revisions: Vec<&str> = tags.map(String::as_str).filter(|tag| is_revision(tag)).collect();
        revisions.sort_unstable();
        revisions.dedup();
        match self.speaks {
            Speaks::Any => revisions,
            Speaks::Newest => revisions.split_off(revisions.len().saturating_sub(1)),
        }
    }

    /// Returns `true` if this is an extension that is run at this revision: the newest. Authorization is also run at the one before,
    /// because the newest has no sessions.
    fn is_extension_at(&self, scenario: &Scenario, revision: &str) -> bool {
        let count = if scenario.name.starts_with("auth/") { 2 } else { 1 };
        scenario.is_extension() && self.revisions().into_iter().rev().take(count).any(|newest| newest == revision)
    }

    fn is_at(&self, scenario: &Scenario, revision: &str) -> bool {
        match self.speaks {
            Speaks::Any => scenario.tags.iter().any(|tag| tag == revision),
            Speaks::Newest => !scenario.is_extension(),
        }
    }
}

impl Scenario {
    /// Whether it belongs to no revision. Whatever a suite calls such a scenario, it is run.
    fn is_extension(&self) -> bool {
        !self.tags.iter().any(|tag| is_revision(tag))
    }
}

/// Whether it is a date.
fn is_revision(tag: &str) -> bool {
    tag.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(speaks: Speaks) -> Catalog {
        let scenario = |role, name: &str, tags: &str| Scenario {
            role,
            name: name.to_owned(),
            tags: tags.split(',').map(str::to_owned).collect(),
        };
        let scenarios = vec![
            scenario(Role::Server, "ping", "2025-06-18,2025-11-25"),
            scenario(Role::Server, "tools", "2025-06-18,2025-11-25,2026-07-28"),
            scenario(Role::Server, "tasks", "extension"),
            scenario(Role::Client, "initialize", "2025-11-25"),
            scenario(Role::Client, "skills", "extension"),
            scenario(Role::Client, "auth/basic", "2025-11-25"),
            scenario(Role::Client, "auth/dpop", "draft"),
            scenario(Role::AuthorizationServer, "metadata", "2025-06-18,2025-11-25"),
            scenario(Role::AuthorizationServer, "grant", "2025-06-18,2025-11-25"),
        ];
        Catalog { version: "1".to_owned(), speaks, scenarios }
    }

    fn jobs(speaks: Speaks, filter: &Filter) -> Vec<String> {
        let plan = Plan::new(&[catalog(speaks)], filter);
        let line = |job: &Job| format!("{} {} {:?} {}", job.role, job.revision, job.scope, job.scenarios.join(" "));
        plan.jobs.iter().map(line).collect()
    }

    #[test]
    fn every_scenario_runs_at_each_of_its_revisions() {
        assert_eq!(
            jobs(Speaks::Any, &Filter::default()),
            [
                "server 2025-06-18 Revision ping tools",
                "server 2025-11-25 Revision ping tools",
                "server 2026-07-28 Revision tools",
                "server 2026-07-28 Extension tasks",
                "client 2025-11-25 Scenario initialize",
                "client 2025-11-25 Scenario auth/basic",
                "client 2025-11-25 Extension auth/dpop",
                "client 2026-07-28 Extension skills",
                "client 2026-07-28 Extension auth/dpop",
                "authorization server 2025-06-18 Revision metadata grant",
                "authorization server 2025-11-25 Revision metadata grant",
            ]
        );
    }

    #[test]
    fn a_suite_that_speaks_one_revision_runs_everything_once() {
        assert_eq!(
            jobs(Speaks::Newest, &Filter::default()),
            [
                "server 2026-07-28 Revision ping tools",
                "server 2026-07-28 Extension tasks",
                "client 2026-07-28 Scenario initialize",
                "client 2026-07-28 Scenario auth/basic",
                "client 2026-07-28 Extension skills",
                "client 2026-07-28 Extension auth/dpop",
                "authorization server 2026-07-28 Revision metadata grant",
            ]
        );
    }

    #[test]
    fn filters_narrow_what_is_run() {
        let server = Filter { role: Some(Role::Server), revision: Some("2025-06-18".to_owned()), scenario: None };
        assert_eq!(jobs(Speaks::Any, &server), ["server 2025-06-18 Revision ping tools"]);
        let one = |name: &str| Filter { scenario: Some(name.to_owned()), ..Filter::default() };
        assert_eq!(
            jobs(Speaks::Any, &one("ping")),
            ["server 2025-06-18 Scenario ping", "server 2025-11-25 Scenario ping"]
        );
        assert_eq!(jobs(Speaks::Any, &one("auth/basic")), ["client 2025-11-25 Scenario auth/basic"]);
        assert_eq!(
            jobs(Speaks::Any, &one("grant")),
            ["authorization server 2025-06-18 Revision grant", "authorization server 2025-11-25 Revision grant"]
        );
        assert!(jobs(Speaks::Any, &one("pnig")).is_empty());
        assert_eq!(one("pnig").to_string(), r#"scenarios named "pnig""#);
    }
}
