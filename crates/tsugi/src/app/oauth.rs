//! The gateway's OAuth from the settings: issuers, what their tokens mean, and how their documents are fetched.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use http::header::CACHE_CONTROL;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::scope::{ScopeImplications, ScopeSet};
use tsugi_auth::token::TokenRules;
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::oauth::document_fetch::{DocumentFailure, DocumentFetch, DocumentKind, FetchedDocument};
use tsugi_gateway::guard::oauth::issuer_keys::IssuerKeys;
use tsugi_gateway::guard::oauth::resource::ResourceDirectory;
use tsugi_gateway::guard::oauth::verifier::{AdminNeeds, ClaimPointers, OAuthVerifier, TokenIssuer};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::guard::quota::CallQuota;
use tsugi_outbound::{OutboundGuard, OutboundRules};
use tsugi_transport::guarded_fetch::{FetchLimits, GuardedFetch};

use super::gateway::is_everything;
use super::login;
use crate::config::settings::{CheckedSettings, IssuerSettings, OAuthSettings};
use crate::failure::CommandFailure;

/// The guard, which accepts the tokens of the configured issuers too.
pub(crate) fn with_issuers(guard: AccessGuard, settings: &CheckedSettings) -> Result<AccessGuard, CommandFailure> {
    let (gateway, oauth) = (&settings.gateway, &settings.gateway.auth.oauth);
    let Some(public_url) = gateway.public_url.as_deref().filter(|_| !oauth.is_off()) else { return Ok(guard) };
    let issuers =
        oauth.issuers.iter().map(|issuer| token_issuer(issuer, &settings.outbound)).collect::<Result<Vec<_>, _>>()?;
    let names = oauth.issuers.iter().map(|issuer| issuer.issuer.clone()).collect();
    let base = oauth.base_scopes.iter().map(String::as_str).collect();
    let resources = Arc::new(ResourceDirectory::new(public_url, names, base));
    let verifier = OAuthVerifier::new(issuers, resources.clone(), implications(oauth), admin_needs(oauth));
    let verifier = Arc::new(verifier);
    let logins = login::service(settings, public_url, verifier.clone());
    let guard = guard.with_resources(resources).with_verifier(verifier);
    Ok(logins.into_iter().fold(guard, AccessGuard::with_logins))
}

fn implications(oauth: &OAuthSettings) -> ScopeImplications {
    ScopeImplications::new(oauth.implied_scopes.iter().map(|(scope, list)| (scope.clone(), ScopeSet::parse(list))))
}

fn admin_needs(oauth: &OAuthSettings) -> AdminNeeds {
    let needs = oauth.admin_needs.clone();
    AdminNeeds { acr: needs.acr, amr: needs.amr, max_age: needs.max_age }
}

/// One issuer as the gateway wants it.
fn token_issuer(settings: &IssuerSettings, outbound: &OutboundRules) -> Result<TokenIssuer, CommandFailure> {
    let fetch = Arc::new(IssuerFetch::new(fetch_of(settings, outbound)));
    let permit = match is_everything(&settings.filter) {
        true => None,
        false => {
            let permit = AccessPermit::new(&settings.filter.allow, &settings.filter.deny);
            Some(Arc::new(permit.map_err(|error| CommandFailure::usage(error.to_string()))?))
        }
    };
    Ok(TokenIssuer {
        name: settings.name.clone(),
        rules: token_rules(settings),
        audiences: settings.audiences.clone(),
        keys: Arc::new(IssuerKeys::new(settings.issuer.as_str(), plain_of(settings), fetch)),
        claims: ClaimPointers { roles: settings.roles_claim.clone(), tenant: settings.tenant_claim.clone() },
        roles: settings.roles.clone(),
        permit,
        quota: settings.per_minute.map(CallQuota::per_minute),
        max_in_flight: settings.max_in_flight,
    })
}

/// How documents of an issuer, and answers of its endpoints, are fetched.
pub(super) fn fetch_of(settings: &IssuerSettings, outbound: &OutboundRules) -> GuardedFetch {
    let insecure_loopback = settings.insecure_loopback || outbound.insecure_loopback;
    GuardedFetch::new(OutboundGuard::new(OutboundRules { insecure_loopback, ..outbound.clone() }))
}

pub(super) fn plain_of(settings: &IssuerSettings) -> PlainHttp {
    if settings.insecure_loopback { PlainHttp::LoopbackOnly } else { PlainHttp::Refused }
}

/// What the tokens of an issuer must satisfy.
pub(crate) fn token_rules(settings: &IssuerSettings) -> TokenRules {
    TokenRules {
        issuer: settings.issuer.clone(),
        algorithms: settings.algorithms.iter().filter_map(|name| SigningAlgorithm::parse(name)).collect(),
        skew: settings.skew.as_secs(),
    }
}

/// Fetches an issuer's documents through the outbound guard.
pub(super) struct IssuerFetch(GuardedFetch);

impl IssuerFetch {
    pub(super) fn new(fetch: GuardedFetch) -> Self {
        Self(fetch)
    }
}

impl DocumentFetch for IssuerFetch {
    fn get<'a>(
        &'a self,
        address: &'a str,
        kind: DocumentKind,
    ) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        let limits = match kind {
            DocumentKind::Metadata => FetchLimits::METADATA,
            DocumentKind::KeySet => FetchLimits::KEY_SET,
        };
        async move {
            match self.0.get_json(address, limits).await {
                Ok(fetched) => Ok(FetchedDocument {
                    status: fetched.status.as_u16(),
                    max_age: max_age(&fetched.headers),
                    body: fetched.body,
                }),
                Err(error) => Err(DocumentFailure {
                    status: error.status().map(|status| status.as_u16()),
                    reason: error.reason(),
                }),
            }
        }
        .boxed()
    }
}

/// How many seconds an answer may be kept (RFC 9111 §5.2.2.1).
fn max_age(headers: &HeaderMap) -> Option<u64> {
    let directives = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let mut directives = directives.flat_map(|value| value.split(',')).map(str::trim);
    directives.find_map(|directive| directive.strip_prefix("max-age=")?.trim_matches('"').parse().ok())
}

#[cfg(test)]
mod tests {
    use super::max_age;

    #[test]
    fn the_age_of_an_answer_is_read_from_any_of_its_directives() {
        let of = |value: &str| max_age(&[(http::header::CACHE_CONTROL, value.parse().unwrap())].into_iter().collect());
        assert_eq!(of("public, max-age=600, must-revalidate"), Some(600));
        assert_eq!(of("max-age=\"60\""), Some(60));
        assert_eq!(of("no-store"), None);
        assert_eq!(of("max-age=soon"), None);
    }
}
