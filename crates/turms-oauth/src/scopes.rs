//! The choice of scopes for a login.

use std::collections::HashSet;

use crate::metadata::{AuthorizationServerMetadata, ProtectedResourceMetadata, is_hidden};

/// The scope for refresh tokens in OpenID Connect.
const OFFLINE_ACCESS: &str = "offline_access";

/// Chooses the scopes of a first login: those of the challenge, else those that the MCP server lists, else none; and the own ones.
///
/// `offline_access` is added if `wants_refresh` and the authorization server lists it. It is never taken from the challenge or the MCP
/// server, because it is not a permission of the MCP server.
///
/// ```
/// use turms_oauth::{AuthorizationServerMetadata, choose_scopes};
///
/// let metadata = AuthorizationServerMetadata::default();
/// let scopes = choose_scopes(Some("notes:read"), None, &metadata, &["profile".to_owned()], true);
/// assert_eq!(scopes, ["notes:read", "profile"]);
/// ```
#[must_use]
pub fn choose_scopes(
    challenge: Option<&str>,
    resource: Option<&ProtectedResourceMetadata>,
    server: &AuthorizationServerMetadata,
    own: &[String],
    wants_refresh: bool,
) -> Vec<String> {
    let listed = || resource.and_then(|resource| resource.scopes_supported.as_deref()).unwrap_or_default();
    let challenged: Vec<&str> = challenge.unwrap_or_default().split_ascii_whitespace().collect();
    let asked = if challenged.is_empty() { listed().iter().map(String::as_str).collect() } else { challenged };
    let lists_offline = AuthorizationServerMetadata::lists(server.scopes_supported.as_ref(), OFFLINE_ACCESS, false);
    let offline = (wants_refresh && lists_offline).then_some(OFFLINE_ACCESS);
    let asked = asked.into_iter().filter(|scope| *scope != OFFLINE_ACCESS);
    unique(asked.chain(own.iter().map(String::as_str)).chain(offline))
}

/// Returns the scopes of a step-up: those that were requested before, and those of the challenge.
///
/// ```
/// use turms_oauth::add_scopes;
///
/// let requested = ["notes:read".to_owned()];
/// assert_eq!(add_scopes(&requested, "notes:read notes:write"), ["notes:read", "notes:write"]);
/// ```
#[must_use]
pub fn add_scopes(requested: &[String], challenge: &str) -> Vec<String> {
    unique(requested.iter().map(String::as_str).chain(challenge.split_ascii_whitespace()))
}

/// Keeps the first of equal scopes. A server may list very many, and scopes that a terminal would obey, which no server needs.
fn unique<'a>(scopes: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut known = HashSet::new();
    let is_usable = |scope: &&str| !scope.is_empty() && !scope.contains(is_hidden);
    scopes.filter(is_usable).filter(|scope| known.insert(*scope)).map(str::to_owned).collect()
}

/// Returns the scopes of a text, separated by spaces.
#[cfg(feature = "client")]
pub(crate) fn split_scopes(text: &str) -> Vec<String> {
    unique(text.split_ascii_whitespace())
}

/// Returns `true` if a list has all of some scopes.
#[cfg(feature = "client")]
pub(crate) fn has_all(list: &[String], scopes: &[String]) -> bool {
    let list: HashSet<&String> = list.iter().collect();
    scopes.iter().all(|scope| list.contains(scope))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(scopes: &[&str]) -> Vec<String> {
        scopes.iter().map(|scope| (*scope).to_owned()).collect()
    }

    #[test]
    fn the_challenge_wins_over_the_list_of_the_server() {
        let resource = ProtectedResourceMetadata {
            scopes_supported: Some(owned(&["a", "b", "offline_access"])),
            ..ProtectedResourceMetadata::default()
        };
        let server = AuthorizationServerMetadata::default();
        let choose = |challenge, resource, own: &[&str]| choose_scopes(challenge, resource, &server, &owned(own), true);
        assert_eq!(choose(Some("x  y x"), Some(&resource), &[]), ["x", "y"]);
        assert_eq!(choose(None, Some(&resource), &["b", "c"]), ["a", "b", "c"]);
        assert_eq!(choose(Some(""), Some(&resource), &[]), ["a", "b"]);
        assert!(choose(None, None, &[]).is_empty());
        assert_eq!(choose(None, None, &["offline_access"]), ["offline_access"]);
    }

    #[test]
    fn offline_access_is_added_only_if_the_authorization_server_lists_it() {
        let server = AuthorizationServerMetadata {
            scopes_supported: Some(owned(&["openid", "offline_access"])),
            ..AuthorizationServerMetadata::default()
        };
        assert_eq!(choose_scopes(Some("a offline_access"), None, &server, &[], true), ["a", "offline_access"]);
        assert_eq!(choose_scopes(Some("a offline_access"), None, &server, &[], false), ["a"]);
    }

    #[test]
    fn a_step_up_keeps_what_was_requested() {
        assert_eq!(add_scopes(&owned(&["a", "b"]), "c a"), ["a", "b", "c"]);
    }
}
