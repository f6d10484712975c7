//! API keys: kept as digests, found by digest, so that neither a disk nor a clock gives one away.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use tsugi_protocol::answer::Caller;

use super::origin::{SingleHeader, single};
use super::permit::AccessPermit;
use super::principal::Principal;
use super::quota::CallQuota;
use super::rate_limit::KeyRateLimit;
use super::refusal::HttpRefusal;

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyRole {
    /// Looking at the dashboard, and nothing else.
    Reader,
    /// Calls.
    User,
    /// Calls and control.
    Admin,
}

/// The SHA-256 of a key or a cookie. It is compared and stored in a key's stead, and not printed by accident.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// Of this key. A plain digest suffices because keys are long and random.
    pub fn of(secret: &str) -> Self {
        Self(digest(&SHA256, secret.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// From 64 hexadecimal digits, as it is stored; `None` when this is something else.
    pub fn parse(hex: &str) -> Option<Self> {
        let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
        let mut digest = [0; 32];
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        if pairs.len() != digest.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Some(Self(digest))
    }

    /// In hexadecimal, for storing.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

/// A key, without the key itself.
#[derive(Clone)]
pub struct ApiKey {
    /// Whose it is; calls carry this name.
    pub name: String,
    /// What it is for.
    pub role: KeyRole,
    /// What it may use; `None` means everything.
    pub permit: Option<Arc<AccessPermit>>,
    digest: SecretDigest,
    quota: Option<CallQuota>,
    in_flight: Option<usize>,
}

impl ApiKey {
    /// A new key that cannot be guessed: the secret to hand out once, and the part to keep.
    pub fn generate(name: impl Into<String>) -> (String, Self) {
        // 256 bits: guessing is out of the question even without a limit on tries.
        let random: [u8; 32] = rand::random();
        let secret = format!("tsugi_{}", BASE64_URL_SAFE_NO_PAD.encode(random));
        let key = Self::of_secret(name, &secret);
        (secret, key)
    }

    /// A key from its secret.
    pub fn of_secret(name: impl Into<String>, secret: &str) -> Self {
        Self::of_digest(name, SecretDigest::of(secret))
    }

    /// A key from its digest.
    pub fn of_digest(name: impl Into<String>, digest: SecretDigest) -> Self {
        Self { name: name.into(), role: KeyRole::User, permit: None, digest, quota: None, in_flight: None }
    }

    /// For this purpose.
    pub fn with_role(mut self, role: KeyRole) -> Self {
        self.role = role;
        self
    }

    /// With access to this alone.
    pub fn with_permit(mut self, permit: AccessPermit) -> Self {
        self.permit = Some(Arc::new(permit));
        self
    }

    /// No more often than this.
    pub fn with_quota(mut self, quota: CallQuota) -> Self {
        self.quota = Some(quota);
        self
    }

    /// With no more calls at once than this.
    pub fn with_max_in_flight(mut self, calls: usize) -> Self {
        self.in_flight = Some(calls);
        self
    }

    /// What is stored of it.
    pub fn digest(&self) -> SecretDigest {
        self.digest
    }

    /// Who its holder is to servers.
    pub(super) fn caller(&self) -> Caller {
        match self.role {
            KeyRole::Reader | KeyRole::User => Caller::new(&self.name),
            KeyRole::Admin => Caller::new(&self.name).as_operator(),
        }
    }

    /// What its calls may take; nothing when they may take anything.
    fn allowance(&self) -> Option<KeyRateLimit> {
        (self.quota.is_some() || self.in_flight.is_some())
            .then(|| KeyRateLimit::new(&self.name, self.quota, self.in_flight))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// All keys, found by digest.
#[derive(Debug)]
pub struct KeyTable {
    by_digest: HashMap<SecretDigest, (Arc<ApiKey>, Caller)>,
    /// What the holders of keys may use, by name; everything where it says nothing.
    permits: HashMap<String, Option<Arc<AccessPermit>>>,
    /// What the calls of single holders may take, by name.
    allowances: HashMap<String, Arc<KeyRateLimit>>,
    /// What a caller may use who is not in the table.
    nothing: Arc<AccessPermit>,
    empty: EmptyKeyPolicy,
}

/// What a table without keys means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyKeyPolicy {
    /// No caller needs a key.
    Open,
    /// Every caller is refused: others can reach the address.
    Shut,
}

static X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

impl KeyTable {
    /// A table of these keys. `empty` says what it means that there are none.
    ///
    /// Names must differ: calls carry the name alone, so two keys of one name would have to share what one of them
    /// may use. Of several, the first holds and the others open nothing.
    pub fn new(mut keys: Vec<ApiKey>, empty: EmptyKeyPolicy) -> Self {
        let mut permits: HashMap<String, Option<Arc<AccessPermit>>> = HashMap::new();
        // The first key of a name holds; another one of that name would get its permits.
        keys.retain(|key| match permits.entry(key.name.clone()) {
            Entry::Vacant(place) => {
                place.insert(key.permit.clone());
                true
            }
            Entry::Occupied(_) => false,
        });
        let limited = |key: &ApiKey| Some((key.name.clone(), Arc::new(key.allowance()?)));
        let allowances = keys.iter().filter_map(limited).collect();
        let with_caller = |key: ApiKey| (key.digest, (Arc::new(key.clone()), key.caller()));
        let by_digest = keys.into_iter().map(with_caller).collect();
        Self { by_digest, permits, allowances, nothing: Arc::new(AccessPermit::nothing()), empty }
    }

    /// The same table, in which what was used up under the table before it stays used up.
    pub(super) fn after(mut self, before: &Self) -> Self {
        for (name, allowance) in &mut self.allowances {
            // A reload must not refill a quota.
            if let Some(same) = before.allowances.get(name).filter(|before| before.is_like(allowance)) {
                *allowance = same.clone();
            }
        }
        self
    }

    /// Who sends these headers.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Principal, HttpRefusal> {
        if self.admits_anybody() {
            return Ok(Principal::anonymous());
        }
        let secret = secret_of(headers)?;
        // Looked up by digest, so that the time it takes says nothing about a secret.
        match self.by_digest.get(&SecretDigest::of(secret)) {
            Some((key, caller)) => Ok(Principal::of_key(key.clone(), caller.clone())),
            None => Err(HttpRefusal::unauthorized("this key is not known")),
        }
    }

    /// True when callers need no key.
    pub(super) fn admits_anybody(&self) -> bool {
        self.by_digest.is_empty() && self.empty == EmptyKeyPolicy::Open
    }

    /// True when every caller is refused.
    pub(super) fn is_shut(&self) -> bool {
        self.by_digest.is_empty() && self.empty == EmptyKeyPolicy::Shut
    }

    /// The digest by which a secret's key is found, when there is such a key.
    pub(super) fn find(&self, secret: &str) -> Option<SecretDigest> {
        Some(SecretDigest::of(secret)).filter(|digest| self.by_digest.contains_key(digest))
    }

    /// The holder of the key with this digest.
    pub(super) fn holder(&self, digest: SecretDigest) -> Option<Principal> {
        self.by_digest.get(&digest).map(|(key, caller)| Principal::of_key(key.clone(), caller.clone()))
    }

    /// What the caller of this name may use; `None` when nothing restricts it. A caller whose key is gone may
    /// use nothing, although its connection may still be open.
    pub(super) fn permit(&self, principal: &str) -> Option<Arc<AccessPermit>> {
        if self.admits_anybody() {
            return None;
        }
        // Unknown names get the permit that allows nothing.
        self.permits.get(principal).map_or_else(|| Some(self.nothing.clone()), Clone::clone)
    }

    /// What the calls of this name may take; `None` when they may take anything.
    pub(super) fn allowance(&self, principal: &str) -> Option<&Arc<KeyRateLimit>> {
        // Most gateways have no limits, and every call comes by here.
        if self.allowances.is_empty() { None } else { self.allowances.get(principal) }
    }
}

/// The secret that a request carries, if it carries exactly one.
pub(super) fn secret_if_any(headers: &HeaderMap) -> Option<&str> {
    secret_of(headers).ok()
}

/// Whether a request carries a key at all, right or wrong.
pub(super) fn has_secret(headers: &HeaderMap) -> bool {
    headers.contains_key(AUTHORIZATION) || headers.contains_key(&X_API_KEY)
}

fn secret_of(headers: &HeaderMap) -> Result<&str, HttpRefusal> {
    match (single(headers, &AUTHORIZATION), single(headers, &X_API_KEY)) {
        (SingleHeader::One(value), SingleHeader::None) => {
            bearer(value).ok_or(HttpRefusal::unauthorized("the Authorization header must be `Bearer <key>`"))
        }
        (SingleHeader::None, SingleHeader::One(key)) => Ok(key),
        (SingleHeader::None, SingleHeader::None) => {
            Err(HttpRefusal::unauthorized("a key is needed: `Authorization: Bearer <key>`"))
        }
        // Two keys are refused: a proxy and we might choose different ones.
        _ => Err(HttpRefusal::unauthorized("exactly one key is needed")),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_digest_is_read_from_sixty_four_hexadecimal_digits_and_nothing_else() {
        let hex = "0aF9".repeat(16);
        assert_eq!(SecretDigest::parse(&hex).map(SecretDigest::to_hex), Some(hex.to_lowercase()));
        for other in ["", "0", &"0".repeat(63), &"0".repeat(65), &"+1".repeat(32), &"é".repeat(32)] {
            assert_eq!(SecretDigest::parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_secret_itself_opens_the_door() {
        let (secret, key) = ApiKey::generate("ann");
        let stored = ApiKey::of_digest("ann", SecretDigest::parse(&key.digest().to_hex()).unwrap());
        let table = KeyTable::new(vec![stored], EmptyKeyPolicy::Open);
        let bearer = format!("bearer {secret}");
        for good in [("authorization", bearer.as_str()), ("x-api-key", secret.as_str())] {
            let principal = table.identify(&headers(&[good])).unwrap();
            assert_eq!(principal.caller().principal(), "ann");
            assert!(!principal.is_admin());
        }
        let digest = key.digest().to_hex();
        let bad: [&[(&str, &str)]; 6] = [
            &[],
            &[("authorization", &secret)],
            &[("authorization", "Bearer wrong")],
            &[("x-api-key", &digest)],
            &[("authorization", &bearer), ("x-api-key", &secret)],
            &[("x-forwarded-user", "ann"), ("mcp-init-host", "localhost")],
        ];
        for pairs in bad {
            let refusal = table.identify(&headers(pairs)).unwrap_err();
            assert_eq!(refusal.status, StatusCode::UNAUTHORIZED, "{pairs:?}");
        }
    }

    #[test]
    fn without_keys_everybody_is_anonymous_unless_the_door_is_shut() {
        let principal = KeyTable::new(Vec::new(), EmptyKeyPolicy::Open).identify(&HeaderMap::new()).unwrap();
        assert!(!principal.is_authenticated() && principal.is_admin());
        let shut = KeyTable::new(Vec::new(), EmptyKeyPolicy::Shut);
        assert_eq!(shut.identify(&HeaderMap::new()).unwrap_err().status, StatusCode::UNAUTHORIZED);
        assert!(!shut.permit("anonymous").unwrap().allows("any", "thing"));
    }

    #[test]
    fn a_name_without_a_key_may_use_nothing() {
        let restricted = ApiKey::generate("ann").1.with_permit(AccessPermit::new(&["files"], &[]).unwrap());
        let before = KeyTable::new(vec![restricted, ApiKey::generate("bob").1], EmptyKeyPolicy::Open);
        assert!(before.permit("ann").unwrap().allows("files", "read") && before.permit("bob").is_none());
        let after = KeyTable::new(vec![ApiKey::generate("bob").1], EmptyKeyPolicy::Open);
        assert!(!after.permit("ann").unwrap().allows("files", "read"), "her key is gone");
        assert!(!after.permit("anonymous").unwrap().allows("files", "read"), "and nobody is anonymous here");
    }

    #[test]
    fn of_two_keys_with_one_name_the_second_opens_nothing_and_widens_nothing() {
        let (first_secret, first) = ApiKey::generate("ann");
        let (second_secret, second) = ApiKey::generate("ann");
        let first = first.with_permit(AccessPermit::new(&["files"], &[]).unwrap());
        let second = second.with_role(KeyRole::Admin).with_permit(AccessPermit::new(&["mail"], &[]).unwrap());
        let table = KeyTable::new(vec![first, second], EmptyKeyPolicy::Open);
        assert!(table.identify(&headers(&[("x-api-key", &first_secret)])).is_ok());
        assert!(table.identify(&headers(&[("x-api-key", &second_secret)])).is_err());
        let permit = table.permit("ann").unwrap();
        assert!(permit.allows("files", "read") && !permit.allows("mail", "send"));
    }

    #[test]
    fn what_was_used_up_stays_used_up_when_keys_are_read_again() {
        let key = ApiKey::generate("ann").1.with_quota(CallQuota::per_minute(1));
        let first = KeyTable::new(vec![key.clone()], EmptyKeyPolicy::Open);
        assert!(first.allowance("ann").unwrap().begin().is_ok());
        let again = KeyTable::new(vec![key.clone()], EmptyKeyPolicy::Open).after(&first);
        assert!(again.allowance("ann").unwrap().begin().is_err());
        let wider = KeyTable::new(vec![key.with_quota(CallQuota::per_minute(2))], EmptyKeyPolicy::Open).after(&again);
        assert!(wider.allowance("ann").unwrap().begin().is_ok(), "another quota begins anew");
    }

    #[test]
    fn a_key_does_not_show_itself() {
        let (secret, key) = ApiKey::generate("ann");
        assert!(!format!("{key:?}").contains(&secret[6..]) && !format!("{key:?}").contains(&key.digest().to_hex()));
    }
}
