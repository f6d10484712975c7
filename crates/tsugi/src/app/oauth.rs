//! The gateway's OAuth from the settings: issuers, what their tokens mean, and how their documents are fetched.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, CACHE_CONTROL};
use http::{HeaderMap, HeaderValue};
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::scope::{ScopeImplications, ScopeSet};
use tsugi_auth::secret::SecretText;
use tsugi_auth::token::TokenRules;
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::oauth::document_fetch::{DocumentFailure, DocumentFetch, DocumentKind, FetchedDocument};
use tsugi_gateway::guard::oauth::introspector::{IntrospectionMode, IntrospectionTerms, TokenIntrospector};
use tsugi_gateway::guard::oauth::issuer_keys::IssuerKeys;
use tsugi_gateway::guard::oauth::resource::ResourceDirectory;
use tsugi_gateway::guard::oauth::scope_rules::ScopeRules;
use tsugi_gateway::guard::oauth::verifier::{
    AdminNeeds, CallerLimit, ClaimPointers, OAuthVerifier, QuotaRule, TokenIssuer,
};
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::guard::quota::CallQuota;
use tsugi_outbound::{OutboundGuard, OutboundRules};
use tsugi_transport::guarded_fetch::{FetchError, FetchLimits, FetchedJson, GuardedFetch};

use super::gateway::is_everything;
use super::login;
use crate::config::settings::{
    CheckedSettings, IntrospectionSettings, IssuerSettings, OAuthSettings, QuotaRuleSettings,
};
use crate::failure::CommandFailure;

/// The guard, which accepts the tokens of the configured issuers too.
pub(crate) fn with_issuers(guard: AccessGuard, settings: &CheckedSettings) -> Result<AccessGuard, CommandFailure> {
    let (Some(public_url), Some((resources, verifier))) = (&settings.gateway.public_url, verifier(settings)?) else {
        return Ok(guard);
    };
    let verifier = Arc::new(verifier);
    let logins = login::service(settings, public_url, verifier.clone());
    let guard = guard.with_resources(resources).with_verifier(verifier);
    Ok(logins.into_iter().fold(guard, AccessGuard::with_logins))
}

/// What checks access tokens, and the addresses that they are for; `None` without issuers.
pub(crate) fn verifier(
    settings: &CheckedSettings,
) -> Result<Option<(Arc<ResourceDirectory>, OAuthVerifier)>, CommandFailure> {
    let oauth = &settings.gateway.auth.oauth;
    let Some(public_url) = settings.gateway.public_url.as_deref().filter(|_| !oauth.is_off()) else { return Ok(None) };
    let issuers = oauth.issuers.iter().map(|issuer| token_issuer(issuer, &settings.outbound));
    let issuers = issuers.collect::<Result<Vec<_>, _>>()?;
    let names = oauth.issuers.iter().map(|issuer| issuer.issuer.clone()).collect();
    let base = oauth.base_scopes.iter().map(String::as_str).collect();
    let resources = ResourceDirectory::new(public_url, names, base).with_rules(scope_rules(oauth)?);
    let resources = Arc::new(resources);
    let verifier = OAuthVerifier::new(issuers, resources.clone(), implications(oauth), admin_needs(oauth));
    Ok(Some((resources, verifier)))
}

/// Which scopes calls need besides the base ones.
pub(crate) fn scope_rules(oauth: &OAuthSettings) -> Result<ScopeRules, CommandFailure> {
    let rules = oauth.scope_rules.iter().flat_map(|rule| {
        let scopes: ScopeSet = rule.scopes.iter().map(String::as_str).collect();
        rule.patterns.iter().map(move |pattern| (pattern.as_str(), scopes.clone()))
    });
    ScopeRules::new(rules).map_err(|error| CommandFailure::usage(error.to_string()))
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
    let plain = plain_of(settings);
    // The operator names the issuer, but what is found through it is another party's word.
    let fetch: Arc<dyn DocumentFetch> = Arc::new(IssuerFetch::new(fetch_of(settings, outbound)));
    let introspector = settings
        .introspection
        .as_ref()
        .map(|asked| TokenIntrospector::new(introspection_terms(asked), token_rules(settings), plain, fetch.clone()));
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
        keys: Arc::new(IssuerKeys::new(settings.issuer.as_str(), plain, fetch)),
        claims: ClaimPointers {
            roles: settings.roles_claim.clone(),
            tenant: settings.tenant_claim.clone(),
            quota: settings.quota_claim.clone(),
        },
        roles: settings.roles.clone(),
        permit,
        limit: caller_limit(settings.per_minute, settings.max_in_flight),
        quotas: settings.quotas.iter().map(quota_rule).collect(),
        introspector,
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

fn quota_rule(rule: &QuotaRuleSettings) -> QuotaRule {
    QuotaRule { value: rule.value.clone(), limit: caller_limit(rule.per_minute, rule.max_in_flight) }
}

fn caller_limit(per_minute: Option<u32>, max_in_flight: Option<usize>) -> CallerLimit {
    CallerLimit { quota: per_minute.map(CallQuota::per_minute), max_in_flight }
}

fn introspection_terms(settings: &IntrospectionSettings) -> IntrospectionTerms {
    IntrospectionTerms {
        mode: if settings.asks_always { IntrospectionMode::Always } else { IntrospectionMode::Opaque },
        endpoint: settings.endpoint.clone(),
        client_id: settings.client_id.clone(),
        client_secret: SecretText::new(settings.client_secret.expose()),
        prefix: settings.prefix.clone(),
        fresh: settings.cache,
    }
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
        async move { document(self.0.get_json(address, limits).await) }.boxed()
    }

    fn introspect<'a>(
        &'a self,
        address: &'a str,
        token: &'a str,
        authorization: &'a HeaderValue,
    ) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        async move {
            let form = [("token", token), ("token_type_hint", "access_token")];
            let headers = HeaderMap::from_iter([(AUTHORIZATION, authorization.clone())]);
            document(self.0.post_form(address, &form, headers, FetchLimits::TOKEN).await)
        }
        .boxed()
    }
}

fn document(fetched: Result<FetchedJson, FetchError>) -> Result<FetchedDocument, DocumentFailure> {
    match fetched {
        Ok(fetched) => Ok(FetchedDocument {
            status: fetched.status.as_u16(),
            max_age: max_age(&fetched.headers),
            body: fetched.body,
        }),
        Err(error) => {
            Err(DocumentFailure { status: error.status().map(|status| status.as_u16()), reason: error.reason() })
        }
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
