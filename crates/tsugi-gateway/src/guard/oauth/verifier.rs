//! Turns an access token into an authority: which issuer, whose signature, for which address, and with which rights.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::StatusCode;
use http::header::AUTHORIZATION;
use http::request::Parts;
use parking_lot::Mutex;
use serde_json::Value;
use tsugi_auth::challenge::ChallengeError;
use tsugi_auth::key_cache::KeyDecision;
use tsugi_auth::scope::{ScopeImplications, ScopeSet};
use tsugi_auth::token::{MAX_SKEW, TokenClaims, TokenRefusal, TokenRules, UnverifiedToken, VerifiedToken};
use tsugi_protocol::answer::identity::{ClientId, TenantName};
use tsugi_protocol::answer::{FaultCode, Identity};

use super::issuer_keys::IssuerKeys;
use super::resource::{ChallengeReason, ResourceDirectory, ResourcePath};
use super::token_cache::{CachedToken, TokenCache};
use crate::guard::api_key::{KeyRole, SecretDigest};
use crate::guard::authority::Authority;
use crate::guard::credential::{CredentialCheck, CredentialVerifier};
use crate::guard::permit::AccessPermit;
use crate::guard::quota::CallQuota;
use crate::guard::rate_limit::KeyRateLimit;
use crate::guard::refusal::HttpRefusal;

/// Callers whose rate limits are remembered at most.
const MAX_LEDGERS: usize = 10_000;
const MAX_TENANT: usize = 255;

/// One issuer, and what its tokens mean here.
pub struct TokenIssuer {
    /// A part of the identity of its callers.
    pub name: String,
    pub rules: TokenRules,
    /// Audiences beside our own addresses, for providers that cannot issue tokens for a resource.
    pub audiences: Vec<String>,
    pub keys: Arc<IssuerKeys>,
    pub claims: ClaimPointers,
    /// What the values of the claim `roles` mean. Callers without one of them are users.
    pub roles: BTreeMap<String, KeyRole>,
    pub permit: Option<Arc<AccessPermit>>,
    pub quota: Option<CallQuota>,
    pub max_in_flight: Option<usize>,
}

/// Where an issuer writes what we need, as JSON pointers.
#[derive(Debug, Clone, Default)]
pub struct ClaimPointers {
    pub roles: Option<String>,
    pub tenant: Option<String>,
}

/// What a token must show beside its role before it makes an administrator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdminNeeds {
    /// One of these as `acr`.
    pub acr: Vec<String>,
    /// All of these in `amr`.
    pub amr: Vec<String>,
    /// `auth_time` no longer ago than this.
    pub max_age: Option<Duration>,
}

/// Verifies the tokens of all issuers.
pub struct OAuthVerifier {
    issuers: Vec<TokenIssuer>,
    resources: Arc<ResourceDirectory>,
    implies: ScopeImplications,
    admin_needs: AdminNeeds,
    cache: TokenCache,
    /// The rate limits of callers, shared by all their tokens.
    ledgers: Mutex<HashMap<Identity, Arc<KeyRateLimit>>>,
}

impl OAuthVerifier {
    pub fn new(
        issuers: Vec<TokenIssuer>,
        resources: Arc<ResourceDirectory>,
        implies: ScopeImplications,
        admin_needs: AdminNeeds,
    ) -> Self {
        let (cache, ledgers) = (TokenCache::default(), Mutex::default());
        Self { issuers, resources, implies, admin_needs, cache, ledgers }
    }

    /// A token that was verified before, unless it has expired or its issuer has other keys now.
    fn find_cached(&self, digest: SecretDigest) -> Option<Arc<CachedToken>> {
        let cached = self.cache.find(digest)?;
        let keys = &self.issuers[cached.issuer].keys;
        // Asked for its side effect: a set that is old is fetched in the background.
        drop(keys.decide(None));
        let is_current = cached.generation == keys.generation() && cached.authority.is_current();
        if !is_current {
            self.cache.remove(digest);
        }
        is_current.then_some(cached)
    }

    /// The audience and the scopes of a token depend on the request, so they are compared with each one.
    fn admit(&self, cached: &CachedToken, path: &str) -> Result<Arc<Authority>, HttpRefusal> {
        let (issuer, path) = (&self.issuers[cached.issuer], ResourcePath::of(path));
        let is_ours = |audience: &str| {
            self.resources.accepts(audience, path) || issuer.audiences.iter().any(|ours| ours == audience)
        };
        cached.token.for_audience(is_ours).map_err(|refusal| refuse(refusal, Some(&issuer.name)))?;
        let granted = cached.authority.scopes();
        let has = |scope: &str| granted.is_some_and(|granted| granted.contains(scope));
        match self.resources.base().iter().all(has) {
            true => Ok(cached.authority.clone()),
            false => Err(missing_scope(self.resources.base().clone(), &issuer.name)),
        }
    }

    /// Checks signature and claims, and keeps the token for the requests that follow.
    fn check(
        &self,
        token: UnverifiedToken<'_>,
        issuer: usize,
        (decision, generation): (KeyDecision, u64),
        digest: SecretDigest,
        path: &str,
    ) -> Result<Arc<Authority>, HttpRefusal> {
        let known = &self.issuers[issuer];
        let keys = match decision {
            KeyDecision::Use(keys) | KeyDecision::UseAndRefresh(keys) => keys,
            KeyDecision::Unknown | KeyDecision::Fetch => {
                return Err(refuse(TokenRefusal::UnknownKey, Some(&known.name)));
            }
            KeyDecision::Unavailable { retry_after } => return Err(unavailable(&known.name, retry_after)),
        };
        let verified = token.verify(&known.rules, &keys, seconds_now());
        let verified = verified.map_err(|refusal| refuse(refusal, Some(&known.name)))?;
        let authority = self.authority(known, &verified);
        let cached = Arc::new(CachedToken { token: verified, authority, issuer, generation });
        let admitted = self.admit(&cached, path);
        // A token for another address or with too few scopes is good, too, and need not be verified each time.
        self.cache.insert(digest, cached);
        admitted
    }

    fn authority(&self, issuer: &TokenIssuer, token: &VerifiedToken) -> Arc<Authority> {
        let claims = token.claims_for_rights();
        let identity = Identity::subject(issuer.name.as_str(), claims.subject.as_str());
        let ledger = self.ledger(issuer, &identity);
        let scopes = self.implies.expand(claims.scopes.clone());
        let end = UNIX_EPOCH + Duration::from_secs(claims.expires + issuer.rules.skew.min(MAX_SKEW));
        let authority = Authority::new(identity)
            .with_role(self.role(issuer, claims))
            .with_scopes(scopes.iter().map(str::to_owned))
            .with_attributes(claims.all.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
            .until(end);
        let authority = claims.client.iter().fold(authority, |a, client| a.for_client(ClientId::new(client.as_str())));
        let authority = tenant(issuer, claims).into_iter().fold(authority, Authority::of_tenant);
        let authority = issuer.permit.iter().fold(authority, |authority, permit| authority.with_permit(permit.clone()));
        Arc::new(ledger.into_iter().fold(authority, |authority, ledger| authority.with_quota(ledger)))
    }

    pub(super) fn issuer(&self, name: &str) -> Option<&TokenIssuer> {
        self.issuers.iter().find(|issuer| issuer.name == name)
    }

    /// What a person may do until `end` who has signed in at the dashboard; `None` without a role here.
    pub(super) fn person_authority(
        &self,
        issuer: &TokenIssuer,
        claims: &TokenClaims,
        default_role: Option<KeyRole>,
        end: SystemTime,
    ) -> Option<Authority> {
        let role = self.named_role(issuer, claims).or(default_role)?;
        let identity = Identity::subject(issuer.name.as_str(), claims.subject.as_str());
        let ledger = self.ledger(issuer, &identity);
        // A session has no scopes: they are for what a person has given a client, and here the person is present.
        let authority = Authority::new(identity)
            .with_role(role)
            .with_attributes(claims.all.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
            .until(end);
        let authority = claims.client.iter().fold(authority, |a, client| a.for_client(ClientId::new(client.as_str())));
        let authority = tenant(issuer, claims).into_iter().fold(authority, Authority::of_tenant);
        let authority = issuer.permit.iter().fold(authority, |authority, permit| authority.with_permit(permit.clone()));
        Some(ledger.into_iter().fold(authority, |authority, ledger| authority.with_quota(ledger)))
    }

    /// The role of a token's caller. There is no default administrator.
    fn role(&self, issuer: &TokenIssuer, claims: &TokenClaims) -> KeyRole {
        self.named_role(issuer, claims).unwrap_or(KeyRole::User)
    }

    /// The highest role that a value of the claim stands for.
    fn named_role(&self, issuer: &TokenIssuer, claims: &TokenClaims) -> Option<KeyRole> {
        let found = issuer.claims.roles.as_deref().and_then(|pointer| pointed(claims, pointer));
        let named = found.into_iter().flat_map(texts).filter_map(|value| issuer.roles.get(value).copied());
        let rank = |role: &KeyRole| match role {
            KeyRole::Reader => 0,
            KeyRole::User => 1,
            KeyRole::Admin => 2,
        };
        match named.max_by_key(rank) {
            Some(KeyRole::Admin) if !self.admin_needs.are_met(claims, seconds_now()) => {
                tracing::info!(target: "tsugi_access", issuer = issuer.name, rule = %"adminNeeds", "a token of an administrator makes a user");
                Some(KeyRole::User)
            }
            role => role,
        }
    }

    /// What the calls of this caller may take, over all of its tokens.
    fn ledger(&self, issuer: &TokenIssuer, identity: &Identity) -> Option<Arc<KeyRateLimit>> {
        (issuer.quota.is_some() || issuer.max_in_flight.is_some()).then(|| {
            let mut ledgers = self.ledgers.lock();
            if ledgers.len() >= MAX_LEDGERS && !ledgers.contains_key(identity) {
                // Those in use are held by an authority, too. The others begin again with a full bucket.
                ledgers.retain(|_, ledger| Arc::strong_count(ledger) > 1);
            }
            let fresh = || Arc::new(KeyRateLimit::new(&identity.to_string(), issuer.quota, issuer.max_in_flight));
            ledgers.entry(identity.clone()).or_insert_with(fresh).clone()
        })
    }
}

impl CredentialVerifier for OAuthVerifier {
    /// A signed token has three parts, and its header begins with `{"`.
    fn recognizes(&self, secret: &str) -> bool {
        secret.starts_with("ey") && secret.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    fn verify<'a>(&'a self, secret: &'a str, parts: &'a Parts) -> CredentialCheck<'a> {
        // OAuth 2.1 §5.1.1 knows one header. A proxy that strips it must not leave the token behind in another.
        if !parts.headers.contains_key(AUTHORIZATION) {
            return CredentialCheck::Ready(Err(refuse(TokenRefusal::NotThreeParts, None)));
        }
        let (digest, path) = (SecretDigest::of(secret), parts.uri.path());
        if let Some(cached) = self.find_cached(digest) {
            return CredentialCheck::Ready(self.admit(&cached, path));
        }
        let token = match UnverifiedToken::parse(secret) {
            Ok(token) => token,
            Err(refusal) => return CredentialCheck::Ready(Err(refuse(refusal, None))),
        };
        let picked = self.issuers.iter().position(|issuer| token.issuer() == Some(issuer.rules.issuer.as_str()));
        let Some(issuer) = picked else {
            return CredentialCheck::Ready(Err(refuse(TokenRefusal::UnknownIssuer, None)));
        };
        let keys = &self.issuers[issuer].keys;
        match keys.decide(token.key_id()) {
            (KeyDecision::Fetch, _) => {
                let waiting = async move {
                    let decided = keys.fetch_and_decide(token.key_id()).await;
                    self.check(token, issuer, decided, digest, path)
                };
                CredentialCheck::Pending(waiting.boxed())
            }
            (KeyDecision::Use(set), _) if token.may_need_newer_keys(&set) && keys.may_fetch_for_unnamed() => {
                let waiting = async move {
                    let decided = keys.fetch_for_unnamed().await;
                    self.check(token, issuer, decided, digest, path)
                };
                CredentialCheck::Pending(waiting.boxed())
            }
            decided => CredentialCheck::Ready(self.check(token, issuer, decided, digest, path)),
        }
    }

    /// Its end is known, and a set of keys that lacks its key makes it end early.
    fn still_holds<'a>(&'a self, secret: &'a str) -> BoxFuture<'a, bool> {
        let digest = SecretDigest::of(secret);
        if self.find_cached(digest).is_some() {
            return std::future::ready(true).boxed();
        }
        let Ok(token) = UnverifiedToken::parse(secret) else { return std::future::ready(false).boxed() };
        let known = self.issuers.iter().find(|issuer| token.issuer() == Some(issuer.rules.issuer.as_str()));
        let holds = known.is_some_and(|issuer| match issuer.keys.decide(token.key_id()).0 {
            KeyDecision::Use(keys) => token.verify(&issuer.rules, &keys, seconds_now()).is_ok(),
            // An issuer that is away takes nothing from tokens that were good. They end by themselves.
            KeyDecision::Unavailable { .. } => true,
            _ => false,
        });
        std::future::ready(holds).boxed()
    }

    fn closes_gateway(&self) -> bool {
        true
    }
}

impl AdminNeeds {
    fn are_met(&self, claims: &TokenClaims, now: u64) -> bool {
        let text = |name: &str| claims.all.get(name).and_then(Value::as_str);
        let methods: Vec<&str> = claims.all.get("amr").into_iter().flat_map(texts).collect();
        let is_recent = |age: Duration| {
            let signed_in = claims.all.get("auth_time").and_then(Value::as_u64);
            signed_in.is_some_and(|time| now.saturating_sub(time) <= age.as_secs())
        };
        (self.acr.is_empty() || text("acr").is_some_and(|acr| self.acr.iter().any(|wanted| wanted == acr)))
            && self.amr.iter().all(|wanted| methods.contains(&wanted.as_str()))
            && self.max_age.is_none_or(is_recent)
    }
}

fn pointed<'a>(claims: &'a TokenClaims, pointer: &str) -> Option<&'a Value> {
    // The claims are a map and not a value, so the first step is taken here.
    let (first, rest) = pointer.strip_prefix('/')?.split_once('/').map_or((&pointer[1..], None), |(a, b)| (a, Some(b)));
    let value = claims.all.get(&first.replace("~1", "/").replace("~0", "~"))?;
    rest.map_or(Some(value), |rest| value.pointer(&format!("/{rest}")))
}

/// One text, or the texts of a list.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn tenant(issuer: &TokenIssuer, claims: &TokenClaims) -> Option<TenantName> {
    let found = pointed(claims, issuer.claims.tenant.as_deref()?)?.as_str()?;
    let is_name = !found.is_empty() && found.len() <= MAX_TENANT && !found.chars().any(char::is_control);
    is_name.then(|| TenantName::new(found))
}

/// The refusal of a token. The caller gets one text for all but expiry; the log names the rule.
fn refuse(refusal: TokenRefusal, issuer: Option<&str>) -> HttpRefusal {
    tracing::info!(target: "tsugi_access", rule = %refusal.rule(), issuer, reason = %refusal, "refused a token");
    let (refused, description) = match refusal {
        TokenRefusal::Expired => (HttpRefusal::unauthorized("this token has expired"), "the token has expired"),
        _ => (HttpRefusal::wrong_credential("this token is not accepted"), "the token is not accepted"),
    };
    refused.with_challenge(ChallengeReason { error: ChallengeError::InvalidToken, description, scope: None })
}

fn missing_scope(needed: ScopeSet, issuer: &str) -> HttpRefusal {
    tracing::info!(target: "tsugi_access", rule = %"scope", issuer, needed = %needed, "refused a token");
    let description = "the token lacks a scope that this request needs";
    let reason = ChallengeReason { error: ChallengeError::InsufficientScope, description, scope: Some(needed) };
    HttpRefusal::forbidden("this token lacks a scope that this request needs").with_challenge(reason)
}

fn unavailable(issuer: &str, retry_after: u64) -> HttpRefusal {
    tracing::warn!(target: "tsugi_access", rule = %"keys", issuer, "refused a token, because the keys of its issuer could not be fetched");
    let message = "tokens cannot be checked at the moment, because the keys of their issuer could not be fetched";
    HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Overloaded, message)
        .retry_after(Duration::from_secs(retry_after.max(1)))
}

pub(super) fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
