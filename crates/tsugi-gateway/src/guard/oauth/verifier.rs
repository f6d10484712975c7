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
use tokio::time::Instant;
use tsugi_auth::challenge::ChallengeError;
use tsugi_auth::jose::key_set::KeySet;
use tsugi_auth::key_cache::KeyDecision;
use tsugi_auth::scope::{ScopeImplications, ScopeSet};
use tsugi_auth::token::{MAX_SKEW, TokenClaims, TokenRefusal, TokenRules, UnverifiedToken, VerifiedToken};
use tsugi_protocol::answer::identity::{ClientId, TenantName};
use tsugi_protocol::answer::{FaultCode, Identity};
use tsugi_protocol::mcp::{Era, ProtocolVersion};

use super::introspector::{IntrospectionAnswer, IntrospectionFailure, IntrospectionMode, TokenIntrospector, is_signed};
use super::issuer_keys::IssuerKeys;
use super::resource::{ChallengeReason, ResourceDirectory, ResourcePath};
use super::token_cache::{CachedToken, DigestCache};
use crate::guard::api_key::{KEY_PREFIX, KeyRole, SecretDigest};
use crate::guard::authority::Authority;
use crate::guard::credential::{CredentialCheck, CredentialVerifier};
use crate::guard::permit::AccessPermit;
use crate::guard::quota::CallQuota;
use crate::guard::rate_limit::KeyRateLimit;
use crate::guard::refusal::HttpRefusal;

/// Callers whose rate limits are remembered at most.
const MAX_LEDGERS: usize = 10_000;
const MAX_TENANT: usize = 255;
/// The longest opaque token that is shown to an issuer.
const MAX_OPAQUE: usize = 4 * 1024;
/// After how many seconds an issuer is worth asking again.
const ASK_AGAIN: u64 = 2;

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
    /// What each of its callers may take, unless a rule of `quotas` fits.
    pub limit: CallerLimit,
    pub quotas: Vec<QuotaRule>,
    /// Set where the issuer is asked about tokens.
    pub introspector: Option<Arc<TokenIntrospector>>,
}

/// Where an issuer writes what we need, as JSON pointers.
#[derive(Debug, Clone, Default)]
pub struct ClaimPointers {
    pub roles: Option<String>,
    pub tenant: Option<String>,
    pub quota: Option<String>,
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

/// How many calls the callers with one value of a claim may make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaRule {
    /// The value, or one of the values, of the claim `quota`.
    pub value: String,
    pub limit: CallerLimit,
}

/// How many calls one caller may make.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallerLimit {
    pub quota: Option<CallQuota>,
    pub max_in_flight: Option<usize>,
}

/// Why a token does not open an address. The caller gets less than this says; the log gets all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenDenial {
    /// The token breaks this rule. The issuer is known by its name here once it was found.
    Refused { refusal: TokenRefusal, issuer: Option<String> },
    /// The token is good, and lacks a scope that the request needs.
    MissingScope { needed: ScopeSet, granted: ScopeSet, issuer: String },
    /// The issuer could not be asked, or its keys could not be fetched.
    Unavailable { issuer: String, retry_after: u64 },
}

/// What each caller has used of its limit, by the rule that set it.
type CallerLedgers = HashMap<(Identity, Option<usize>), Arc<KeyRateLimit>>;

/// Verifies the tokens of all issuers.
pub struct OAuthVerifier {
    issuers: Vec<TokenIssuer>,
    resources: Arc<ResourceDirectory>,
    implies: ScopeImplications,
    admin_needs: AdminNeeds,
    cache: DigestCache<Arc<CachedToken>>,
    /// The rate limits of callers, shared by all their tokens. The number is that of the rule that set the limit.
    ledgers: Mutex<CallerLedgers>,
}

impl OAuthVerifier {
    pub fn new(
        issuers: Vec<TokenIssuer>,
        resources: Arc<ResourceDirectory>,
        implies: ScopeImplications,
        admin_needs: AdminNeeds,
    ) -> Self {
        let (cache, ledgers) = (DigestCache::default(), Mutex::default());
        Self { issuers, resources, implies, admin_needs, cache, ledgers }
    }

    /// Whether and why a token opens an address: what a request with it would get, without a request.
    pub async fn explain(&self, secret: &str, path: &str) -> Result<Arc<Authority>, TokenDenial> {
        let asked = TokenPresentation { secret, digest: SecretDigest::of(secret), path, era: None };
        match self.find_issuer(secret)? {
            TokenForm::Signed(token, issuer) => self.verify_signed(token, issuer, asked).await,
            TokenForm::Opaque(issuer) => self.verify_opaque(issuer, asked).await,
        }
    }

    /// A token that was verified before, unless it has expired, its issuer has other keys now, or must be asked again.
    fn find_cached(&self, digest: SecretDigest) -> Option<Arc<CachedToken>> {
        let cached = self.cache.find(digest)?;
        let keys = &self.issuers[cached.issuer].keys;
        // Asked for its side effect: a set that is old is fetched in the background.
        drop(keys.decide(None));
        let is_fresh = cached.fresh_until.is_none_or(|until| Instant::now() < until);
        let is_current = is_fresh && cached.generation == keys.generation() && cached.authority.is_current();
        if !is_current {
            self.cache.remove(digest);
        }
        is_current.then_some(cached)
    }

    /// The audience and the scopes of a token depend on the request, so they are compared with each one.
    fn admit(&self, cached: &CachedToken, asked: TokenPresentation<'_>) -> Result<Arc<Authority>, TokenDenial> {
        let (issuer, path) = (&self.issuers[cached.issuer], ResourcePath::of(asked.path));
        let is_ours = |audience: &str| {
            self.resources.accepts(audience, path) || issuer.audiences.iter().any(|ours| ours == audience)
        };
        cached.token.for_audience(is_ours).map_err(|refusal| issuer.refuse(refusal))?;
        let scopes = cached.authority.scopes();
        let has = |scope: &str| scopes.is_some_and(|scopes| scopes.contains(scope));
        if self.resources.base().iter().all(has) {
            return Ok(cached.authority.clone());
        }
        let own = &cached.token.claims_for_rights().scopes;
        // Older clients ask for the scopes of the challenge alone, and would lose those that they have.
        let needed = match asked.era {
            Some(Era::Legacy) => self.resources.base().union(own),
            _ => self.resources.base().clone(),
        };
        Err(TokenDenial::MissingScope { needed, granted: own.clone(), issuer: issuer.name.clone() })
    }

    /// Keeps a verified token for the requests that follow. One for another address or with too few scopes is good, too,
    /// and need not be verified each time.
    fn keep(&self, cached: CachedToken, asked: TokenPresentation<'_>) -> Result<Arc<Authority>, TokenDenial> {
        let cached = Arc::new(cached);
        self.cache.insert(asked.digest, cached.clone());
        self.admit(&cached, asked)
    }

    /// What kind of token this is, and which configured issuer it claims to be from.
    fn find_issuer<'a>(&self, secret: &'a str) -> Result<TokenForm<'a>, TokenDenial> {
        let refuse = |refusal| TokenDenial::Refused { refusal, issuer: None };
        if !is_signed(secret) {
            // Shown to one issuer only: another one must not learn a token that is not its own.
            return self.opaque_issuer(secret).map(TokenForm::Opaque).ok_or(refuse(TokenRefusal::NotThreeParts));
        }
        let token = UnverifiedToken::parse(secret).map_err(refuse)?;
        let issuer = self.issuers.iter().position(|issuer| token.issuer() == Some(issuer.rules.issuer.as_str()));
        let issuer = issuer.ok_or(refuse(TokenRefusal::UnknownIssuer))?;
        Ok(TokenForm::Signed(token, issuer))
    }

    /// The issuer that is asked about an opaque token: the one whose prefix it has, else the one without a prefix.
    fn opaque_issuer(&self, secret: &str) -> Option<usize> {
        let prefix = |issuer: &TokenIssuer| issuer.introspector.as_ref().map(|asked| asked.prefix().map(str::to_owned));
        let has_prefix =
            |issuer: &TokenIssuer| prefix(issuer).flatten().is_some_and(|prefix| secret.starts_with(&prefix));
        let by_prefix = self.issuers.iter().position(has_prefix);
        by_prefix.or_else(|| self.issuers.iter().position(|issuer| prefix(issuer) == Some(None)))
    }

    async fn verify_opaque(&self, issuer: usize, asked: TokenPresentation<'_>) -> Result<Arc<Authority>, TokenDenial> {
        let known = &self.issuers[issuer];
        let Some(introspector) = &known.introspector else { return Err(known.refuse(TokenRefusal::NotThreeParts)) };
        let answered = introspector.introspect(asked.secret, asked.digest).await;
        let verified = match answered.map_err(|failure| known.deny(failure))? {
            IntrospectionAnswer::Claims(verified) => verified,
            IntrospectionAnswer::Active => return Err(known.refuse(TokenRefusal::NotThreeParts)),
        };
        let authority = self.authority(known, &verified);
        let (generation, fresh_until) = (known.keys.generation(), Some(introspector.fresh_until()));
        self.keep(CachedToken { token: (*verified).clone(), authority, issuer, generation, fresh_until }, asked)
    }

    /// Verifies a signed token, and waits for keys and for the issuer's word where that is wanted.
    async fn verify_signed(
        &self,
        token: UnverifiedToken<'_>,
        issuer: usize,
        asked: TokenPresentation<'_>,
    ) -> Result<Arc<Authority>, TokenDenial> {
        let known = &self.issuers[issuer];
        let decided = match known.keys.decide(token.key_id()) {
            (KeyDecision::Fetch, _) => known.keys.fetch_and_decide(token.key_id()).await,
            (KeyDecision::Use(set), _) if known.needs_newer_keys(&token, &set) => known.keys.fetch_for_unnamed().await,
            decided => decided,
        };
        let mut cached = self.check(token, issuer, decided)?;
        // Asked last: an issuer hears of tokens that it has signed, and of no others.
        if let Some(introspector) = known.always_introspects() {
            let answered = introspector.introspect(asked.secret, asked.digest).await;
            answered.map_err(|failure| known.deny(failure))?;
            cached.fresh_until = Some(introspector.fresh_until());
        }
        self.keep(cached, asked)
    }

    /// Checks signature and claims.
    fn check(
        &self,
        token: UnverifiedToken<'_>,
        issuer: usize,
        (decision, generation): (KeyDecision, u64),
    ) -> Result<CachedToken, TokenDenial> {
        let known = &self.issuers[issuer];
        let keys = match decision {
            KeyDecision::Use(keys) | KeyDecision::UseAndRefresh(keys) => keys,
            KeyDecision::Unknown | KeyDecision::Fetch => return Err(known.refuse(TokenRefusal::UnknownKey)),
            KeyDecision::Unavailable { retry_after } => {
                return Err(TokenDenial::Unavailable { issuer: known.name.clone(), retry_after });
            }
        };
        let verified = token.verify(&known.rules, &keys, seconds_now()).map_err(|refusal| known.refuse(refusal))?;
        let authority = self.authority(known, &verified);
        Ok(CachedToken { token: verified, authority, issuer, generation, fresh_until: None })
    }

    fn authority(&self, issuer: &TokenIssuer, token: &VerifiedToken) -> Arc<Authority> {
        let claims = token.claims_for_rights();
        let identity = Identity::subject(issuer.name.as_str(), claims.subject.as_str());
        let ledger = self.ledger(issuer, claims, &identity);
        let scopes = self.implies.expand(claims.scopes.clone());
        let end = UNIX_EPOCH + Duration::from_secs(claims.expires + issuer.rules.skew.min(MAX_SKEW));
        let authority = Authority::new(identity)
            .with_role(self.role(issuer, claims))
            .with_scopes(scopes.iter().map(str::to_owned))
            .with_granted_scopes(claims.scopes.clone())
            .with_attributes(claims.all.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
            .with_groups(groups(issuer, claims))
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
        let ledger = self.ledger(issuer, claims, &identity);
        // A session has no scopes: they are for what a person has given a client, and here the person is present.
        let authority = Authority::new(identity)
            .with_role(role)
            .with_attributes(claims.all.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
            .with_groups(groups(issuer, claims))
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
    fn ledger(&self, issuer: &TokenIssuer, claims: &TokenClaims, identity: &Identity) -> Option<Arc<KeyRateLimit>> {
        let (rule, limit) = issuer.limit_of(claims);
        (limit != CallerLimit::default()).then(|| {
            let key = (identity.clone(), rule);
            let mut ledgers = self.ledgers.lock();
            if ledgers.len() >= MAX_LEDGERS && !ledgers.contains_key(&key) {
                // Those in use are held by an authority, too. The others begin again with a full bucket.
                ledgers.retain(|_, ledger| Arc::strong_count(ledger) > 1);
            }
            let fresh = || Arc::new(KeyRateLimit::new(&identity.to_string(), limit.quota, limit.max_in_flight));
            ledgers.entry(key).or_insert_with(fresh).clone()
        })
    }
}

impl TokenIssuer {
    fn refuse(&self, refusal: TokenRefusal) -> TokenDenial {
        TokenDenial::Refused { refusal, issuer: Some(self.name.clone()) }
    }

    fn deny(&self, failure: IntrospectionFailure) -> TokenDenial {
        match failure {
            IntrospectionFailure::Refused(refusal) => self.refuse(refusal),
            IntrospectionFailure::Unavailable => {
                TokenDenial::Unavailable { issuer: self.name.clone(), retry_after: ASK_AGAIN }
            }
        }
    }

    /// Whether a token that names no key waits for keys that the issuer may have published since.
    fn needs_newer_keys(&self, token: &UnverifiedToken<'_>, known: &KeySet) -> bool {
        token.may_need_newer_keys(known) && self.keys.may_fetch_for_unnamed()
    }

    fn always_introspects(&self) -> Option<&Arc<TokenIntrospector>> {
        self.introspector.as_ref().filter(|introspector| introspector.mode() == IntrospectionMode::Always)
    }

    /// The limit of the first rule that fits the claims, and its number; without one, the limit of the issuer.
    fn limit_of(&self, claims: &TokenClaims) -> (Option<usize>, CallerLimit) {
        let found = self.claims.quota.as_deref().and_then(|pointer| pointed(claims, pointer));
        let values: Vec<&str> = found.into_iter().flat_map(texts).collect();
        let rule = self.quotas.iter().position(|rule| values.contains(&rule.value.as_str()));
        (rule, rule.map_or(self.limit, |rule| self.quotas[rule].limit))
    }
}

/// What a request brings and asks for.
#[derive(Clone, Copy)]
struct TokenPresentation<'a> {
    secret: &'a str,
    digest: SecretDigest,
    path: &'a str,
    /// Of an MCP client, as far as the head of its request tells.
    era: Option<Era>,
}

enum TokenForm<'a> {
    Signed(UnverifiedToken<'a>, usize),
    Opaque(usize),
}

impl CredentialVerifier for OAuthVerifier {
    fn recognizes(&self, secret: &str) -> bool {
        let has_prefix = |introspector: &Arc<TokenIntrospector>| {
            introspector.prefix().is_some_and(|prefix| secret.starts_with(prefix))
        };
        is_signed(secret) || self.issuers.iter().filter_map(|issuer| issuer.introspector.as_ref()).any(has_prefix)
    }

    /// An opaque token of an issuer without a prefix looks like anything. A key of ours that is mistyped or revoked is
    /// recognized by how it begins, and not shown to the issuer.
    fn takes_unknown(&self, secret: &str) -> bool {
        let is_key = secret.starts_with(KEY_PREFIX);
        !is_key && secret.len() <= MAX_OPAQUE && is_bearer_token(secret) && self.opaque_issuer(secret).is_some()
    }

    fn verify<'a>(&'a self, secret: &'a str, parts: &'a Parts) -> CredentialCheck<'a> {
        // OAuth 2.1 §5.1.1 knows one header. A proxy that strips it must not leave the token behind in another.
        if !parts.headers.contains_key(AUTHORIZATION) {
            return CredentialCheck::Ready(Err(in_another_header().report()));
        }
        let asked =
            TokenPresentation { secret, digest: SecretDigest::of(secret), path: parts.uri.path(), era: era_of(parts) };
        if let Some(cached) = self.find_cached(asked.digest) {
            return CredentialCheck::Ready(self.admit(&cached, asked).map_err(TokenDenial::report));
        }
        let (token, issuer) = match self.find_issuer(secret) {
            Ok(TokenForm::Signed(token, issuer)) => (token, issuer),
            Ok(TokenForm::Opaque(issuer)) => {
                let waiting = async move { self.verify_opaque(issuer, asked).await.map_err(TokenDenial::report) };
                return CredentialCheck::Pending(waiting.boxed());
            }
            Err(denial) => return CredentialCheck::Ready(Err(denial.report())),
        };
        let known = &self.issuers[issuer];
        let must_wait = known.always_introspects().is_some();
        match known.keys.decide(token.key_id()) {
            (KeyDecision::Fetch, _) => {}
            (KeyDecision::Use(set), _) if known.needs_newer_keys(&token, &set) => {}
            decided if !must_wait => {
                let checked = self.check(token, issuer, decided).and_then(|cached| self.keep(cached, asked));
                return CredentialCheck::Ready(checked.map_err(TokenDenial::report));
            }
            _ => {}
        }
        let waiting = async move { self.verify_signed(token, issuer, asked).await.map_err(TokenDenial::report) };
        CredentialCheck::Pending(waiting.boxed())
    }

    /// Its end is known; a set of keys that lacks its key, or an issuer that says so, makes it end early.
    fn still_holds<'a>(&'a self, secret: &'a str) -> BoxFuture<'a, bool> {
        let digest = SecretDigest::of(secret);
        if self.find_cached(digest).is_some() {
            return std::future::ready(true).boxed();
        }
        async move {
            let (introspector, holds) = match self.find_issuer(secret) {
                Err(_) => return false,
                Ok(TokenForm::Opaque(issuer)) => (self.issuers[issuer].introspector.as_ref(), true),
                Ok(TokenForm::Signed(token, issuer)) => {
                    let issuer = &self.issuers[issuer];
                    let holds = match issuer.keys.decide(token.key_id()).0 {
                        KeyDecision::Use(keys) => token.verify(&issuer.rules, &keys, seconds_now()).is_ok(),
                        // An issuer that is away takes nothing from tokens that were good. They end by themselves.
                        KeyDecision::Unavailable { .. } => true,
                        _ => false,
                    };
                    (issuer.always_introspects(), holds)
                }
            };
            match introspector.filter(|_| holds) {
                None => holds,
                Some(introspector) => {
                    let answered = introspector.introspect(secret, digest).await;
                    !matches!(answered, Err(IntrospectionFailure::Refused(_)))
                }
            }
        }
        .boxed()
    }

    fn closes_gateway(&self) -> bool {
        true
    }
}

fn in_another_header() -> TokenDenial {
    TokenDenial::Refused { refusal: TokenRefusal::NotThreeParts, issuer: None }
}

/// The era of an MCP client, by the header that every request after the first has. The first request of the legacy era
/// has none.
fn era_of(parts: &Parts) -> Option<Era> {
    let path = ResourcePath::of(parts.uri.path());
    if matches!(path, ResourcePath::Root | ResourcePath::Face("/rpc")) {
        return None;
    }
    let version = parts.headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
    let era = version.and_then(ProtocolVersion::parse).map(ProtocolVersion::era);
    // A revision that we do not know is newer than ours.
    Some(era.unwrap_or(if version.is_some() { Era::Modern } else { Era::Legacy }))
}

/// Whether a text can be an access token at all (RFC 6750 §2.1).
fn is_bearer_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    !body.is_empty() && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte))
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

/// The values of the claim that roles come from. Policies see them as groups, whether or not they stand for a role.
fn groups(issuer: &TokenIssuer, claims: &TokenClaims) -> Vec<String> {
    let found = issuer.claims.roles.as_deref().and_then(|pointer| pointed(claims, pointer));
    found.into_iter().flat_map(texts).map(str::to_owned).collect()
}

fn tenant(issuer: &TokenIssuer, claims: &TokenClaims) -> Option<TenantName> {
    let found = pointed(claims, issuer.claims.tenant.as_deref()?)?.as_str()?;
    let is_name = !found.is_empty() && found.len() <= MAX_TENANT && !found.chars().any(char::is_control);
    is_name.then(|| TenantName::new(found))
}

impl TokenDenial {
    /// The rule that decided, as logs and `tsugi auth check` name it.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::Refused { refusal, .. } => refusal.rule(),
            Self::MissingScope { .. } => "scope",
            Self::Unavailable { .. } => "issuer",
        }
    }

    /// Logs the rule, and says to the caller what it may know: one text for all reasons but expiry.
    fn report(self) -> HttpRefusal {
        let rule = self.rule();
        match self {
            Self::Refused { refusal, issuer } => {
                tracing::info!(target: "tsugi_access", rule = %rule, issuer, reason = %refusal, "refused a token");
                let (refused, description) = match refusal {
                    TokenRefusal::Expired => {
                        (HttpRefusal::unauthorized("this token has expired"), "the token has expired")
                    }
                    _ => (HttpRefusal::wrong_credential("this token is not accepted"), "the token is not accepted"),
                };
                let error = ChallengeError::InvalidToken;
                refused.with_challenge(ChallengeReason { error, description, scope: None })
            }
            Self::MissingScope { needed, granted, issuer } => {
                tracing::info!(target: "tsugi_access", rule = %rule, issuer, needed = %needed, granted = %granted, "refused a token");
                let description = "the token lacks a scope that this request needs";
                let error = ChallengeError::InsufficientScope;
                let reason = ChallengeReason { error, description, scope: Some(needed) };
                HttpRefusal::forbidden("this token lacks a scope that this request needs").with_challenge(reason)
            }
            Self::Unavailable { issuer, retry_after } => {
                tracing::warn!(target: "tsugi_access", rule = %rule, issuer, "refused a token, because its issuer could not be asked");
                let message = "tokens cannot be checked at the moment, because their issuer could not be asked";
                HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Overloaded, message)
                    .retry_after(Duration::from_secs(retry_after.max(1)))
            }
        }
    }
}

pub(super) fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
