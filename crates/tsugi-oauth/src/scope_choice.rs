//! Which scopes to ask for (MCP *Scope Selection Strategy* and *Step-Up Authorization Flow*).

use tsugi_auth::scope::ScopeSet;

/// Asks for a refresh token, where the authorization server knows it.
const OFFLINE_ACCESS: &str = "offline_access";

/// What is known when scopes are chosen.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScopeSources<'a> {
    /// `scope` of the challenge.
    pub challenge: Option<&'a ScopeSet>,
    /// `scopes_supported` of the protected resource.
    pub resource: &'a [String],
    /// `scopes_supported` of the authorization server.
    pub issuer: &'a [String],
    /// What was asked for before, and what the configuration adds.
    pub before: Option<&'a ScopeSet>,
    pub configured: Option<&'a ScopeSet>,
    /// Whether a refresh token is of use.
    pub wants_refresh: bool,
}

/// The scopes to ask for; empty means that the parameter is left out.
pub fn choose_scopes(sources: &ScopeSources<'_>) -> ScopeSet {
    let mut chosen = match sources.challenge.filter(|scope| !scope.is_empty()) {
        // The challenge says what this operation needs; what was asked before keeps the others working.
        Some(scope) => sources.before.map_or_else(|| scope.clone(), |before| before.union(scope)),
        None => match sources.before.filter(|scope| !scope.is_empty()) {
            Some(before) => before.clone(),
            None => sources.resource.iter().map(String::as_str).collect(),
        },
    };
    if let Some(configured) = sources.configured {
        chosen = chosen.union(configured);
    }
    // Alone it would narrow a request that otherwise gets the provider's default scopes.
    if sources.wants_refresh && !chosen.is_empty() && sources.issuer.iter().any(|scope| scope == OFFLINE_ACCESS) {
        chosen = chosen.union(&ScopeSet::parse(OFFLINE_ACCESS));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::{ScopeSources, choose_scopes};
    use tsugi_auth::scope::ScopeSet;

    fn list(scopes: &[&str]) -> Vec<String> {
        scopes.iter().map(|scope| (*scope).to_owned()).collect()
    }

    #[test]
    fn the_challenge_comes_before_what_the_resource_supports() {
        let challenge = ScopeSet::parse("files:read");
        let resource = list(&["a", "b"]);
        let sources = ScopeSources { challenge: Some(&challenge), resource: &resource, ..ScopeSources::default() };
        assert_eq!(choose_scopes(&sources).to_string(), "files:read");
        assert_eq!(choose_scopes(&ScopeSources { challenge: None, ..sources }).to_string(), "a b");
        assert!(choose_scopes(&ScopeSources::default()).is_empty());
    }

    #[test]
    fn a_step_up_keeps_what_was_asked_before() {
        let (before, challenge) = (ScopeSet::parse("read"), ScopeSet::parse("write"));
        let resource = list(&["profile"]);
        let sources = ScopeSources {
            challenge: Some(&challenge),
            before: Some(&before),
            resource: &resource,
            ..ScopeSources::default()
        };
        assert_eq!(choose_scopes(&sources).to_string(), "read write");
    }

    #[test]
    fn offline_access_is_asked_for_only_where_the_issuer_lists_it() {
        let (resource, issuer) = (list(&["a"]), list(&["a", "offline_access"]));
        let with =
            ScopeSources { resource: &resource, issuer: &issuer, wants_refresh: true, ..ScopeSources::default() };
        assert_eq!(choose_scopes(&with).to_string(), "a offline_access");
        assert_eq!(choose_scopes(&ScopeSources { issuer: &resource, ..with }).to_string(), "a");
        assert_eq!(choose_scopes(&ScopeSources { wants_refresh: false, ..with }).to_string(), "a");
        assert!(choose_scopes(&ScopeSources { resource: &[], ..with }).is_empty());
    }
}
