//! Access tokens: what is checked, in which order, and why one is refused.
//!
//! The first failure ends the checks, and nothing that a token says is believed before its signature was checked, except
//! the name of its issuer, which only picks one of the configured issuers.

mod refusal;

use serde_json::{Map, Value};

pub use refusal::TokenRefusal;

use crate::jose::algorithm::SigningAlgorithm;
use crate::jose::jws::CompactJws;
use crate::jose::key_set::KeySet;
use crate::scope::ScopeSet;
use crate::strict_json;

/// The largest difference between two clocks that a configuration may allow, in seconds.
pub const MAX_SKEW: u64 = 300;
const MAX_SUBJECT: usize = 255;
/// Up to here a JSON number is exact. A later date is a mistake or an attack.
const LAST_DATE: f64 = 9_007_199_254_740_992.0;
/// Media types of access tokens (RFC 9068 §2.1, RFC 7519 §5.1). Proofs, ID-JAGs and logout tokens have others.
const MEDIA_TYPES: [&str; 2] = ["at+jwt", "jwt"];
/// Where providers write the client: RFC 9068, OpenID Connect, Okta, Entra.
const CLIENT_CLAIMS: [&str; 4] = ["client_id", "azp", "cid", "appid"];

/// What the tokens of one issuer must satisfy.
#[derive(Debug, Clone)]
pub struct TokenRules {
    /// Compared byte for byte.
    pub issuer: String,
    pub algorithms: Vec<SigningAlgorithm>,
    /// How far the clocks of issuer and gateway may differ, in seconds.
    pub skew: u64,
}

/// A token whose form and header are right and whose signature was not checked yet.
#[derive(Debug)]
pub struct UnverifiedToken<'a> {
    jws: CompactJws<'a>,
    claims: Map<String, Value>,
}

/// A token whose signature and claims are right, except that its audience must still be compared with the address that
/// was asked.
#[derive(Debug, Clone)]
pub struct VerifiedToken {
    audiences: Vec<String>,
    claims: TokenClaims,
}

/// Who a token speaks for, and what it may be used for.
#[derive(Debug, Clone)]
pub struct TokenClaims {
    pub issuer: String,
    pub subject: String,
    /// The OAuth client that the token was issued to.
    pub client: Option<String>,
    pub scopes: ScopeSet,
    /// Seconds since 1970.
    pub expires: u64,
    /// Everything the issuer wrote, for roles and tenants, which configuration finds by pointers.
    pub all: Map<String, Value>,
}

impl<'a> UnverifiedToken<'a> {
    /// Splits a token and reads header and claims.
    pub fn parse(text: &'a str) -> Result<Self, TokenRefusal> {
        let jws = CompactJws::parse(text)?;
        if jws.header.media_type.as_deref().is_some_and(|name| !MEDIA_TYPES.contains(&name)) {
            return Err(TokenRefusal::TypeNotAllowed);
        }
        let claims = strict_json::parse_object(jws.unverified_payload()).ok_or(TokenRefusal::ClaimsNotStrict)?;
        Ok(Self { jws, claims })
    }

    /// The issuer that the token claims, only to pick one of the configured issuers.
    pub fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    pub fn key_id(&self) -> Option<&str> {
        self.jws.header.key_id.as_deref()
    }

    /// What the token says, true or not. Only for showing it to the person who brought it.
    pub fn unverified_claim(&self, name: &str) -> Option<&Value> {
        self.claims.get(name)
    }

    pub fn algorithm(&self) -> SigningAlgorithm {
        self.jws.header.algorithm
    }

    /// Whether the token names no key and none of these has signed it: a key that the issuer has published since may have.
    pub fn may_need_newer_keys(&self, keys: &KeySet) -> bool {
        self.key_id().is_none() && self.jws.verify(keys).is_err()
    }

    /// Checks signature and claims; `now` is in seconds since 1970.
    pub fn verify(self, rules: &TokenRules, keys: &KeySet, now: u64) -> Result<VerifiedToken, TokenRefusal> {
        if self.issuer() != Some(rules.issuer.as_str()) {
            return Err(TokenRefusal::UnknownIssuer);
        }
        if !rules.algorithms.contains(&self.algorithm()) {
            return Err(TokenRefusal::AlgorithmNotAllowed);
        }
        self.jws.verify(keys)?;
        rules.check_claims(self.claims, now)
    }
}

impl TokenRules {
    /// Checks the claims of a token whose origin is certain: its signature was right, or its issuer sent them itself.
    pub(crate) fn check_claims(&self, claims: Map<String, Value>, now: u64) -> Result<VerifiedToken, TokenRefusal> {
        let expires = self.check_dates(&claims, now)?;
        refuse_other_kinds(&claims)?;
        let subject = subject(&claims)?;
        let audiences = audiences(&claims)?;
        let client = CLIENT_CLAIMS.iter().find_map(|name| claims.get(*name).and_then(Value::as_str));
        let client = client.filter(|client| is_subject(client)).map(str::to_owned);
        // `scp` is what Entra and Okta call it.
        let scopes = ["scope", "scp"].iter().filter_map(|name| claims.get(*name)).map(ScopeSet::of_claim);
        let scopes = scopes.fold(ScopeSet::default(), |all, more| all.union(&more));
        let issuer = self.issuer.clone();
        Ok(VerifiedToken { audiences, claims: TokenClaims { issuer, subject, client, scopes, expires, all: claims } })
    }

    /// Checks the dates of a token, and gives the one at which it ends.
    pub(crate) fn check_dates(&self, claims: &Map<String, Value>, now: u64) -> Result<u64, TokenRefusal> {
        let skew = self.skew.min(MAX_SKEW);
        let expires = date(claims, "exp")?.ok_or(TokenRefusal::BadClaim("exp"))?;
        if now >= expires.saturating_add(skew) {
            return Err(TokenRefusal::Expired);
        }
        // `iat` in the future is as strange as `nbf`: the clocks differ by more than is allowed.
        for name in ["nbf", "iat"] {
            if date(claims, name)?.is_some_and(|begins| begins > now.saturating_add(skew)) {
                return Err(TokenRefusal::NotYetValid);
            }
        }
        Ok(expires)
    }
}

impl VerifiedToken {
    /// The claims, if the token was issued for a resource of ours (RFC 8707, RFC 9068 §4). Compare byte for byte.
    pub fn for_audience(&self, is_ours: impl Fn(&str) -> bool) -> Result<&TokenClaims, TokenRefusal> {
        match self.audiences.iter().any(|audience| is_ours(audience)) {
            true => Ok(&self.claims),
            false => Err(TokenRefusal::WrongAudience),
        }
    }

    /// The claims for working out the rights that the token gives. Whether it may be used at an address at all is for
    /// [`VerifiedToken::for_audience`] to say, with every request.
    pub fn claims_for_rights(&self) -> &TokenClaims {
        &self.claims
    }

    /// For whom the token was issued, for people: [`VerifiedToken::for_audience`] decides.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Whether the token has expired by now, for one that was verified earlier.
    pub fn has_expired(&self, now: u64, skew: u64) -> bool {
        now >= self.claims.expires.saturating_add(skew.min(MAX_SKEW))
    }

    pub fn expires(&self) -> u64 {
        self.claims.expires
    }
}

/// Refuses what an issuer signs besides plain access tokens.
fn refuse_other_kinds(claims: &Map<String, Value>) -> Result<(), TokenRefusal> {
    // A token that is bound to a key proves nothing without that key (RFC 9449 §7.1, RFC 8705 §3).
    if claims.contains_key("cnf") {
        return Err(TokenRefusal::SenderConstrained);
    }
    // Cognito and Keycloak write the kind into the claims, because the media type is `JWT` for all of theirs.
    let is_named =
        |name: &str, kinds: &[&str]| claims.get(name).and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind));
    // ID tokens have hashes of what was issued beside them, and the nonce of their sign-in; logout tokens have events
    // (OpenID Connect). Keycloak before 24 puts the nonce into access tokens too, and names their kind.
    let has = |name: &&str| claims.contains_key(*name);
    let is_id_token = ["at_hash", "c_hash"].iter().any(has) || has(&"nonce") && !is_named("typ", &["Bearer"]);
    let is_other =
        is_named("token_use", &["id", "refresh"]) || is_named("typ", &["ID", "Refresh", "Offline", "Logout"]);
    match is_id_token || is_other || claims.contains_key("events") {
        true => Err(TokenRefusal::NotAnAccessToken),
        false => Ok(()),
    }
}

/// A date in seconds (RFC 7519 §2). Text, negative and absurd numbers are refused and not repaired.
fn date(claims: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, TokenRefusal> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| (0.0..LAST_DATE).contains(seconds));
    // Parts of a second are dropped: a token does not live longer for them.
    seconds.map(|seconds| Some(seconds as u64)).ok_or(TokenRefusal::BadClaim(name))
}

/// Whom a token speaks for.
pub(crate) fn subject(claims: &Map<String, Value>) -> Result<String, TokenRefusal> {
    let subject = claims.get("sub").and_then(Value::as_str).filter(|sub| is_subject(sub));
    subject.map(str::to_owned).ok_or(TokenRefusal::BadClaim("sub"))
}

pub(crate) fn audiences(claims: &Map<String, Value>) -> Result<Vec<String>, TokenRefusal> {
    let text = |value: &Value| value.as_str().map(str::to_owned).ok_or(TokenRefusal::BadClaim("aud"));
    match claims.get("aud") {
        Some(Value::Array(items)) => items.iter().map(text).collect(),
        Some(one) => Ok(vec![text(one)?]),
        None => Err(TokenRefusal::BadClaim("aud")),
    }
}

fn is_subject(text: &str) -> bool {
    let length = text.chars().count();
    (1..=MAX_SUBJECT).contains(&length) && !text.chars().any(char::is_control)
}
