//! Finds the authorization server of an MCP server, in the order that the specification gives.
//!
//! 2025-06-18 and later: protected resource metadata, then the metadata of the issuer that it names. Where no such metadata
//! exists the way of 2025-03-26 is gone: metadata at the server's own origin, then fixed paths there.

use http::StatusCode;
use tsugi_auth::challenge::AuthChallenge;
use tsugi_auth::endpoint::{PlainHttp, parse_endpoint};
use tsugi_auth::issuer_metadata::{IssuerFeatures, IssuerMetadata, discovery_addresses};
use tsugi_auth::resource_metadata::{ResourceMetadata, metadata_addresses};
use tsugi_transport::guarded_fetch::{FetchErrorKind, FetchLimits, GuardedFetch};
use url::Url;

use crate::failure::OauthFailure;

/// How discovery is done for one server.
#[derive(Debug, Clone)]
pub struct DiscoveryRules {
    /// The MCP server.
    pub server: Url,
    /// The issuer to take where the server names several.
    pub issuer: Option<String>,
    /// Whether the way of 2025-03-26 is tried.
    pub legacy: bool,
    pub plain: PlainHttp,
}

/// Where tokens for a server come from.
#[derive(Debug, Clone)]
pub struct DiscoveredIssuer {
    pub issuer: IssuerMetadata,
    /// The `resource` parameter of every request for a token.
    pub resource: String,
    pub resource_scopes: Vec<String>,
}

/// A document, or the certainty that it is not there.
enum DiscoveryAnswer {
    Found(Vec<u8>),
    Absent,
    Unreachable,
}

/// Finds the authorization server. `challenge` is that of the server's 401 or 403.
pub async fn discover(
    fetch: &GuardedFetch,
    rules: &DiscoveryRules,
    challenge: Option<&AuthChallenge>,
) -> Result<DiscoveredIssuer, OauthFailure> {
    let named = challenge.and_then(|challenge| challenge.parameter("resource_metadata"));
    match resource_metadata(fetch, rules, named).await? {
        Some(resource) => {
            let name = chosen_issuer(rules, &resource)?;
            let issuer = issuer_metadata(fetch, name, rules.plain).await?;
            Ok(DiscoveredIssuer { issuer, resource: resource.resource, resource_scopes: resource.scopes_supported })
        }
        None if rules.legacy => {
            let issuer = legacy_issuer(fetch, rules).await?;
            Ok(DiscoveredIssuer { issuer, resource: canonical(&rules.server), resource_scopes: Vec::new() })
        }
        None => Err(OauthFailure::NoAuthorizationServer),
    }
}

/// The metadata of one issuer, from the first of its addresses that has some.
pub async fn issuer_metadata(
    fetch: &GuardedFetch,
    issuer: &str,
    plain: PlainHttp,
) -> Result<IssuerMetadata, OauthFailure> {
    for address in discovery_addresses(issuer, plain).ok_or(OauthFailure::NoIssuerMetadata)? {
        match get(fetch, address.as_str()).await {
            // A document of another issuer ends the search: the next address would be of the same host.
            DiscoveryAnswer::Found(body) => {
                return IssuerMetadata::parse(&body, issuer, plain).map_err(OauthFailure::Issuer);
            }
            DiscoveryAnswer::Absent => {}
            DiscoveryAnswer::Unreachable => return Err(OauthFailure::IssuerUnreachable),
        }
    }
    Err(OauthFailure::NoIssuerMetadata)
}

/// The metadata of the resource: at the address of the challenge, or else at the well-known ones.
async fn resource_metadata(
    fetch: &GuardedFetch,
    rules: &DiscoveryRules,
    named: Option<&str>,
) -> Result<Option<ResourceMetadata>, OauthFailure> {
    let parse = |body: &[u8]| {
        ResourceMetadata::parse(body, &rules.server, rules.plain).map(Some).map_err(OauthFailure::Resource)
    };
    if let Some(address) = named {
        // Looking elsewhere would let a server that fails choose another document than the one it names.
        return match get(fetch, address).await {
            DiscoveryAnswer::Found(body) => parse(&body),
            _ => Err(OauthFailure::ResourceUnreachable),
        };
    }
    for address in metadata_addresses(&rules.server) {
        match get(fetch, address.as_str()).await {
            DiscoveryAnswer::Found(body) => return parse(&body),
            DiscoveryAnswer::Absent => {}
            DiscoveryAnswer::Unreachable => return Err(OauthFailure::ResourceUnreachable),
        }
    }
    Ok(None)
}

fn chosen_issuer<'a>(rules: &DiscoveryRules, resource: &'a ResourceMetadata) -> Result<&'a str, OauthFailure> {
    let listed = &resource.authorization_servers;
    let chosen = match &rules.issuer {
        Some(wanted) => listed.iter().find(|issuer| *issuer == wanted).ok_or(OauthFailure::IssuerNotListed)?,
        None => listed.first().ok_or(OauthFailure::NoAuthorizationServer)?,
    };
    Ok(chosen)
}

/// The way of 2025-03-26: the server's origin is its own authorization server.
async fn legacy_issuer(fetch: &GuardedFetch, rules: &DiscoveryRules) -> Result<IssuerMetadata, OauthFailure> {
    let origin = rules.server.origin().ascii_serialization();
    match get(fetch, &format!("{origin}/.well-known/oauth-authorization-server")).await {
        DiscoveryAnswer::Found(body) => {
            IssuerMetadata::parse(&body, &origin, rules.plain).map_err(OauthFailure::Issuer)
        }
        DiscoveryAnswer::Absent => fixed_paths(&origin, rules.plain).ok_or(OauthFailure::NoAuthorizationServer),
        DiscoveryAnswer::Unreachable => Err(OauthFailure::IssuerUnreachable),
    }
}

fn fixed_paths(origin: &str, plain: PlainHttp) -> Option<IssuerMetadata> {
    let at = |path: &str| parse_endpoint(&format!("{origin}{path}"), plain);
    Some(IssuerMetadata {
        issuer: origin.to_owned(),
        key_set: None,
        authorization: Some(at("/authorize")?),
        token: Some(at("/token")?),
        registration: Some(at("/register")?),
        introspection: None,
        revocation: None,
        device_authorization: None,
        end_session: None,
        // That revision requires PKCE of every client, and a server without metadata cannot say so.
        features: IssuerFeatures {
            code_challenge_methods_supported: vec!["S256".to_owned()],
            ..IssuerFeatures::default()
        },
    })
}

/// The identifier of a server that does not say its own: its address without fragment and without a slash at the end.
fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    let text = url.to_string();
    if url.path() == "/" && url.query().is_none() { text.trim_end_matches('/').to_owned() } else { text }
}

/// Only a client error means that there is no document: a server in trouble must not change where we sign in.
async fn get(fetch: &GuardedFetch, address: &str) -> DiscoveryAnswer {
    let is_absent = |status: StatusCode| status.is_client_error();
    match fetch.get_json(address, FetchLimits::METADATA).await {
        Ok(got) if got.status == StatusCode::OK => DiscoveryAnswer::Found(got.body.to_vec()),
        Ok(got) if is_absent(got.status) => DiscoveryAnswer::Absent,
        Ok(_) => DiscoveryAnswer::Unreachable,
        Err(error) => match error.kind() {
            // Many sites answer every unknown path with their start page.
            FetchErrorKind::NotJson { status } if is_absent(*status) || status.is_success() => DiscoveryAnswer::Absent,
            _ => DiscoveryAnswer::Unreachable,
        },
    }
}
