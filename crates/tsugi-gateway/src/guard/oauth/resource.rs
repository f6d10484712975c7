//! What the gateway says about itself: the addresses that tokens are issued for, the metadata of each (RFC 9728), and the
//! challenge of a refusal (RFC 6750 §3).
//!
//! Every address here comes from `publicUrl`, never from `Host` or `X-Forwarded-*`: a client sends the token to the
//! address that it reads here.

use std::fmt;

use http::header::AUTHORIZATION;
use http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde_json::{Value, json};
use tsugi_auth::challenge::{BearerChallenge, ChallengeError};
use tsugi_auth::resource_metadata::{ResourceMetadata, WELL_KNOWN};
use tsugi_auth::scope::ScopeSet;

use super::scope_rules::{ScopeRules, ScopeSubject};
use crate::guard::authority::Authority;
use crate::guard::refusal::HttpRefusal;

/// What may stand in a segment of a path as it is (RFC 3986 §2.3).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The resources of one gateway.
#[derive(Debug, Clone)]
pub struct ResourceDirectory {
    /// Without a final slash.
    public_url: String,
    issuers: Vec<String>,
    /// What every request needs, and what clients ask for at first.
    base: ScopeSet,
    /// What some calls need besides.
    rules: ScopeRules,
}

/// One address that tokens are issued for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourcePath<'path> {
    /// REST, control, and everything that has no address here.
    Root,
    /// `/mcp`, `/sse`, `/ws` or `/rpc`.
    Face(&'static str),
    /// `/servers/{name}/mcp`, with the name as it was sent.
    Server(&'path str),
}

/// The part of a challenge that depends on what was wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChallengeReason {
    pub error: ChallengeError,
    pub description: &'static str,
    /// Scopes that the request needs, where more scope would help.
    pub scope: Option<ScopeSet>,
}

impl ResourceDirectory {
    /// The resources below `public_url`, whose tokens come from these issuers.
    pub fn new(public_url: &str, issuers: Vec<String>, base: ScopeSet) -> Self {
        let public_url = public_url.trim_end_matches('/').to_owned();
        Self { public_url, issuers, base, rules: ScopeRules::default() }
    }

    /// The same resources, where some calls need more than the base scopes.
    pub fn with_rules(mut self, rules: ScopeRules) -> Self {
        self.rules = rules;
        self
    }

    pub(crate) fn rules(&self) -> &ScopeRules {
        &self.rules
    }

    /// Everything that a call of a tool needs, if the caller's token lacks some of it. Keys have no scopes and lack none.
    pub fn missing_scopes_of_tool(&self, authority: &Authority, server: &str, tool: &str) -> Option<ScopeSet> {
        self.missing_scopes(authority, server, ScopeSubject::Name(tool))
    }

    /// Everything that a call needs, if the caller's token lacks some of it.
    pub(crate) fn missing_scopes(
        &self,
        authority: &Authority,
        server: &str,
        subject: ScopeSubject<'_>,
    ) -> Option<ScopeSet> {
        let granted = authority.scopes()?;
        let needed = self.rules.missing(server, subject, |scope| granted.contains(scope))?;
        Some(needed.union(&self.base))
    }

    pub(crate) fn issuers(&self) -> &[String] {
        &self.issuers
    }

    pub fn base(&self) -> &ScopeSet {
        &self.base
    }

    /// Whether a token with this audience may be used at this address: it was issued for the address itself, or for the
    /// gateway as a whole.
    pub(super) fn accepts(&self, audience: &str, path: ResourcePath<'_>) -> bool {
        let Some(rest) = audience.strip_prefix(&self.public_url) else { return false };
        // Clients that parse the address of the root send it with a slash.
        rest.is_empty() || rest == "/" || is_path(rest, path)
    }

    /// The metadata of one resource.
    pub(crate) fn metadata(&self, path: ResourcePath<'_>) -> String {
        let metadata = ResourceMetadata {
            resource: format!("{}{path}", self.public_url),
            authorization_servers: self.issuers.clone(),
            scopes_supported: self.base.iter().map(str::to_owned).collect(),
            bearer_methods_supported: vec!["header".to_owned()],
            resource_name: Some("tsugi".to_owned()),
        };
        serde_json::to_string(&metadata).unwrap_or_default()
    }

    /// Where the metadata of a resource is.
    pub(crate) fn metadata_address(&self, path: ResourcePath<'_>) -> String {
        format!("{}{WELL_KNOWN}{path}", self.public_url)
    }

    /// The challenge of a refusal at this address; without a reason the request had no credentials.
    pub(crate) fn challenge(&self, path: ResourcePath<'_>, reason: Option<&ChallengeReason>) -> String {
        let address = self.metadata_address(path);
        BearerChallenge {
            error: reason.map(|reason| reason.error),
            description: reason.map(|reason| reason.description),
            scope: Some(reason.and_then(|reason| reason.scope.as_ref()).unwrap_or(&self.base)),
            resource_metadata: &address,
        }
        .to_string()
    }

    /// What the body of a refusal repeats of the challenge, for clients that cannot see headers.
    pub(crate) fn challenge_data(&self, path: ResourcePath<'_>, reason: Option<&ChallengeReason>) -> Value {
        let scope = reason.and_then(|reason| reason.scope.as_ref()).unwrap_or(&self.base);
        let mut data = json!({"resource_metadata": self.metadata_address(path)});
        if !scope.is_empty() {
            data["scope"] = Value::from(scope.to_string());
        }
        if let Some(reason) = reason {
            data["error"] = Value::from(reason.error.code());
        }
        data
    }
}

impl<'path> ResourcePath<'path> {
    /// The resource that a request is for.
    pub fn of(path: &'path str) -> Self {
        match path {
            "/mcp" => Self::Face("/mcp"),
            // Messages belong to the stream that named their address.
            "/sse" | "/messages" => Self::Face("/sse"),
            "/ws" => Self::Face("/ws"),
            "/rpc" => Self::Face("/rpc"),
            _ => path
                .strip_prefix("/servers/")
                .and_then(|rest| rest.strip_suffix("/mcp"))
                .filter(|name| !name.is_empty() && !name.contains('/'))
                .map_or(Self::Root, Self::Server),
        }
    }
}

impl fmt::Display for ResourcePath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Face(path) => formatter.write_str(path),
            // However the name was sent, it is written in one way.
            Self::Server(name) => {
                let name = percent_decode_str(name).decode_utf8_lossy();
                write!(formatter, "/servers/{}/mcp", utf8_percent_encode(&name, SEGMENT))
            }
        }
    }
}

/// Refuses a request whose credential is in two places, or where logs and caches would see it (RFC 6750 §2, OAuth 2.1
/// §5.1): a proxy and we might choose different ones.
pub(in crate::guard) fn expect_one_credential(parts: &Parts) -> Result<(), HttpRefusal> {
    let in_headers: usize =
        [AUTHORIZATION.as_str(), "x-api-key"].map(|name| parts.headers.get_all(name).iter().count()).iter().sum();
    let is_token = |(name, _): (std::borrow::Cow<'_, str>, _)| name == "access_token";
    let in_query = parts.uri.query().is_some_and(|query| url::form_urlencoded::parse(query.as_bytes()).any(is_token));
    if in_headers <= 1 && !in_query {
        return Ok(());
    }
    tracing::info!(target: "tsugi_access", rule = %"credentials", in_headers, in_query, "refused a request with credentials in the wrong place");
    let description = "send one credential, in the Authorization header";
    let reason = ChallengeReason { error: ChallengeError::InvalidRequest, description, scope: None };
    Err(HttpRefusal::bad_request(description).with_challenge(reason))
}

/// Whether the text is the path of this resource.
fn is_path(text: &str, path: ResourcePath<'_>) -> bool {
    match path {
        ResourcePath::Root => false,
        ResourcePath::Face(face) => text == face,
        ResourcePath::Server(_) => text == path.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> ResourceDirectory {
        ResourceDirectory::new("https://mcp.example/", vec!["https://login.example".to_owned()], ScopeSet::parse("mcp"))
    }

    #[test]
    fn n03_a_token_is_for_its_own_address_or_for_the_gateway() {
        let accepts = |audience: &str, path: &str| directory().accepts(audience, ResourcePath::of(path));
        for path in ["/mcp", "/servers/a/mcp", "/rpc", "/mcp/tools", "/servers"] {
            assert!(accepts("https://mcp.example", path) && accepts("https://mcp.example/", path), "{path}");
        }
        assert!(accepts("https://mcp.example/mcp", "/mcp"));
        assert!(accepts("https://mcp.example/servers/a/mcp", "/servers/a/mcp"));
        assert!(accepts("https://mcp.example/servers/a%20b/mcp", "/servers/a%20b/mcp"));
        assert!(accepts("https://mcp.example/sse", "/messages"));
        for (audience, path) in [
            ("https://mcp.example/servers/a/mcp", "/mcp"),
            ("https://mcp.example/servers/a/mcp", "/servers/b/mcp"),
            ("https://mcp.example/mcp", "/servers/a/mcp"),
            ("https://mcp.example/mcp", "/mcp/tools"),
            ("https://mcp.example/mcp", "/rpc"),
            ("https://mcp.example.evil", "/mcp"),
            ("https://mcp.example/mc", "/mcp"),
            ("https://mcp.example/mcp/", "/mcp"),
            ("https://mcp.example//", "/mcp"),
            ("", "/mcp"),
        ] {
            assert!(!accepts(audience, path), "{audience} at {path}");
        }
    }

    #[test]
    fn metadata_names_the_resource_as_it_is_configured() {
        let metadata: Value = serde_json::from_str(&directory().metadata(ResourcePath::Server("a b"))).unwrap();
        assert_eq!(metadata["resource"], "https://mcp.example/servers/a%20b/mcp");
        assert_eq!(metadata["authorization_servers"], json!(["https://login.example"]));
        assert_eq!(metadata["scopes_supported"], json!(["mcp"]));
        assert_eq!(metadata["bearer_methods_supported"], json!(["header"]));
        let root: Value = serde_json::from_str(&directory().metadata(ResourcePath::Root)).unwrap();
        assert_eq!(root["resource"], "https://mcp.example");
    }

    #[test]
    fn a_challenge_says_where_the_metadata_is_and_what_is_wrong() {
        let challenge = directory().challenge(ResourcePath::of("/mcp"), None);
        let address = "resource_metadata=\"https://mcp.example/.well-known/oauth-protected-resource/mcp\"";
        assert_eq!(challenge, format!("Bearer scope=\"mcp\", {address}"));
        let reason = ChallengeReason { error: ChallengeError::InvalidToken, description: "no", scope: None };
        let challenge = directory().challenge(ResourcePath::of("/mcp"), Some(&reason));
        assert_eq!(
            challenge,
            format!("Bearer error=\"invalid_token\", error_description=\"no\", scope=\"mcp\", {address}")
        );
    }
}
