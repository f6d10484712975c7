//! API keys: kept as digests, found by digest, so that neither a disk nor a clock gives one away.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use ring::digest::{SHA256, digest};
use serde::Serialize;
use tsugi_protocol::answer::identity::TenantName;
use tsugi_protocol::answer::{Caller, Identity};

use super::authority::Authority;
use super::origin::{SingleHeader, single};
use super::permit::AccessPermit;
use super::principal::Principal;
use super::quota::CallQuota;
use super::rate_limit::KeyRateLimit;
use super::refusal::HttpRefusal;

/// How keys of ours begin, so that scanners for secrets, and we, can tell them from other credentials.
pub(super) const KEY_PREFIX: &str = "tsugi_";

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
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
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
    tenant: Option<TenantName>,
    expires: Option<SystemTime>,
    previous: Option<(SecretDigest, SystemTime)>,
}

impl ApiKey {
    /// A new key that cannot be guessed: the secret to hand out once, and the part to keep.
    pub fn generate(name: impl Into<String>) -> (String, Self) {
        // 256 bits: guessing is out of the question even without a limit on tries.
        let random: [u8; 32] = rand::random();
        let secret = format!("{KEY_PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random));
        let key = Self::of_secret(name, &secret);
        (secret, key)
    }

    /// A key from its secret.
    pub fn of_secret(name: impl Into<String>, secret: &str) -> Self {
        Self::of_digest(name, SecretDigest::of(secret))
    }

    /// A key from its digest.
    pub fn of_digest(name: impl Into<String>, digest: SecretDigest) -> Self {
        Self {
            name: name.into(),
            role: KeyRole::User,
            permit: None,
            digest,
            quota: None,
            in_flight: None,
            tenant: None,
            expires: None,
            previous: None,
        }
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

    /// Of this tenant.
    pub fn of_tenant(mut self, tenant: TenantName) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// Until this time.
    pub fn until(mut self, end: SystemTime) -> Self {
        self.expires = Some(end);
        self
    }

    /// Accepts the secret before this one, too, until this time: clients change over one by one.
    pub fn after(mut self, previous: SecretDigest, until: SystemTime) -> Self {
        self.previous = Some((previous, until));
        self
    }

    /// What is stored of it.
    pub fn digest(&self) -> SecretDigest {
        self.digest
    }

    /// What its holder may do until this time.
    fn authority(&self, until: Option<SystemTime>, ledger: Option<&Arc<KeyRateLimit>>) -> Authority {
        let authority = Authority::new(Identity::key(self.name.as_str())).with_role(self.role);
        let authority = self.permit.iter().fold(authority, |authority, permit| authority.with_permit(permit.clone()));
        let authority = self.tenant.iter().fold(authority, |authority, tenant| authority.of_tenant(tenant.clone()));
        let authority = ledger.into_iter().fold(authority, |authority, ledger| authority.with_quota(ledger.clone()));
        until.into_iter().fold(authority, Authority::until)
    }

    /// True when the holders of both may do the same.
    fn is_like(&self, other: &Self) -> bool {
        let rights = |key: &Self| (key.name.clone(), key.role, key.tenant.clone(), key.quota, key.in_flight);
        rights(self) == rights(other) && self.permit == other.permit
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
    by_digest: HashMap<SecretDigest, KeyEntry>,
    /// What the calls of single holders may take, by the key's name.
    allowances: HashMap<String, Arc<KeyRateLimit>>,
    empty: EmptyKeyPolicy,
}

/// What one secret opens. A key that is being replaced has two.
#[derive(Debug)]
struct KeyEntry {
    key: Arc<ApiKey>,
    authority: Arc<Authority>,
    caller: Caller,
}

impl KeyEntry {
    fn new(key: &Arc<ApiKey>, until: Option<SystemTime>, ledger: Option<&Arc<KeyRateLimit>>) -> Self {
        let authority = Arc::new(key.authority(until, ledger));
        Self { key: key.clone(), caller: authority.clone().into_caller(), authority }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.key.is_like(&other.key) && self.authority.end() == other.authority.end()
    }

    fn principal(&self) -> Principal {
        Principal::of_key(self.authority.clone(), self.caller.clone())
    }
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
    /// Names must differ: a caller is known by the key's name, so two keys of one name would share sessions and quotas.
    /// Of several, the first holds and the others open nothing.
    pub fn new(keys: Vec<ApiKey>, empty: EmptyKeyPolicy) -> Self {
        Self::with_allowances(keys, empty, &HashMap::new())
    }

    fn with_allowances(
        mut keys: Vec<ApiKey>,
        empty: EmptyKeyPolicy,
        known: &HashMap<String, Arc<KeyRateLimit>>,
    ) -> Self {
        let mut names = HashSet::new();
        keys.retain(|key| names.insert(key.name.clone()));
        let mut table = Self { by_digest: HashMap::new(), allowances: HashMap::new(), empty };
        for key in keys {
            table.add(Arc::new(key), known);
        }
        table
    }

    fn add(&mut self, key: Arc<ApiKey>, known: &HashMap<String, Arc<KeyRateLimit>>) {
        let ledger = key.allowance().map(|fresh| match known.get(&key.name).filter(|known| known.is_like(&fresh)) {
            // A reload must not refill a quota.
            Some(used) => used.clone(),
            None => Arc::new(fresh),
        });
        if let Some((digest, until)) = key.previous {
            let until = key.expires.map_or(until, |expires| expires.min(until));
            self.by_digest.insert(digest, KeyEntry::new(&key, Some(until), ledger.as_ref()));
        }
        // Last, so that the secret of now wins over the same one as the previous.
        self.by_digest.insert(key.digest, KeyEntry::new(&key, key.expires, ledger.as_ref()));
        self.allowances.extend(ledger.map(|ledger| (key.name.clone(), ledger)));
    }

    /// A table of these keys that follows `before`: what was used up stays used up, and keys that mean the same as
    /// before keep their authority, so that connections that carry it stay open.
    pub(super) fn following(keys: Vec<ApiKey>, empty: EmptyKeyPolicy, before: &Self) -> Self {
        let mut table = Self::with_allowances(keys, empty, &before.allowances);
        for (digest, entry) in &mut table.by_digest {
            if let Some(same) = before.by_digest.get(digest).filter(|before| before.is_like(entry)) {
                (entry.authority, entry.caller) = (same.authority.clone(), same.caller.clone());
            }
        }
        table
    }

    /// Takes the authority of every key away that `after` does not have, or has with other rights.
    pub(super) fn revoke_all_but(&self, after: &Self) {
        for (digest, entry) in &self.by_digest {
            let kept = after.by_digest.get(digest).is_some_and(|now| Arc::ptr_eq(&now.authority, &entry.authority));
            if !kept {
                entry.authority.revoke();
            }
        }
    }

    /// Who sends these headers. The guard has decided before whether a key is needed.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Principal, HttpRefusal> {
        let secret = secret_of(headers)?;
        // Looked up by digest, so that the time it takes says nothing about a secret.
        match self.by_digest.get(&SecretDigest::of(secret)) {
            Some(entry) if entry.authority.is_current() => Ok(entry.principal()),
            Some(_) => Err(HttpRefusal::unauthorized("this key has expired").by("key.expired")),
            None => Err(HttpRefusal::wrong_credential("this key is not known").by("key")),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
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
        self.by_digest.get(&digest).filter(|entry| entry.authority.is_current()).map(KeyEntry::principal)
    }
}

/// The secret that a request carries, if it carries exactly one.
pub(super) fn secret_if_any(headers: &HeaderMap) -> Option<&str> {
    secret_of(headers).ok()
}

/// Whether a request carries a key at all, right or wrong.
pub(crate) fn has_secret(headers: &HeaderMap) -> bool {
    headers.contains_key(AUTHORIZATION) || headers.contains_key(&X_API_KEY)
}

fn secret_of(headers: &HeaderMap) -> Result<&str, HttpRefusal> {
    match (single(headers, &AUTHORIZATION), single(headers, &X_API_KEY)) {
        (SingleHeader::One(value), SingleHeader::None) => bearer(value)
            .ok_or(HttpRefusal::unauthorized("the Authorization header must be `Bearer <key>`").by("credentials")),
        (SingleHeader::None, SingleHeader::One(key)) => Ok(key),
        (SingleHeader::None, SingleHeader::None) => {
            Err(HttpRefusal::unauthorized("a key is needed: `Authorization: Bearer <key>`").by("credentials"))
        }
        // Two keys are refused: a proxy and we might choose different ones.
        _ => Err(HttpRefusal::unauthorized("exactly one key is needed").by("credentials")),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;

    use super::*;
    use crate::guard::authority::CallLedger;

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
            assert_eq!(*principal.identity(), Identity::key("ann"));
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
    fn an_empty_table_admits_everybody_unless_it_is_shut() {
        let open = KeyTable::new(Vec::new(), EmptyKeyPolicy::Open);
        assert!(open.admits_anybody() && !open.is_shut());
        let shut = KeyTable::new(Vec::new(), EmptyKeyPolicy::Shut);
        assert!(!shut.admits_anybody() && shut.is_shut());
        assert_eq!(shut.identify(&HeaderMap::new()).unwrap_err().status, StatusCode::UNAUTHORIZED);
    }

    #[test]
    fn a_key_that_goes_or_changes_takes_its_authority_along_and_others_keep_theirs() {
        let (ann, of_ann) = ApiKey::generate("ann");
        let (bob, of_bob) = ApiKey::generate("bob");
        let (cid, of_cid) = ApiKey::generate("cid");
        let who = |table: &KeyTable, secret: &str| table.identify(&headers(&[("x-api-key", secret)])).unwrap();
        let before = KeyTable::new(vec![of_ann.clone(), of_bob, of_cid.clone()], EmptyKeyPolicy::Open);
        let holders = [&ann, &bob, &cid].map(|secret| who(&before, secret));
        let narrow = of_ann.with_permit(AccessPermit::new(&["files"], &[]).unwrap());
        let after = KeyTable::following(vec![narrow, of_cid], EmptyKeyPolicy::Open, &before);
        before.revoke_all_but(&after);
        assert_eq!(holders.map(|holder| holder.authority().is_current()), [false, false, true]);
        assert!(!who(&after, &ann).authority().permit().unwrap().allows("mail", "send"));
    }

    #[test]
    fn a_key_ends_at_its_time_and_the_one_before_it_at_its_own() {
        let hour = |hours: i64| {
            let time = Duration::from_secs(hours.unsigned_abs() * 3600);
            if hours < 0 { SystemTime::now() - time } else { SystemTime::now() + time }
        };
        let secrets = ["now", "before"];
        let opens = |key: ApiKey| {
            let table = KeyTable::new(vec![key], EmptyKeyPolicy::Open);
            secrets.map(|secret| table.identify(&headers(&[("x-api-key", secret)])).is_ok())
        };
        let key = || ApiKey::of_secret("ann", "now");
        let before = SecretDigest::of("before");
        assert_eq!(opens(key()), [true, false]);
        assert_eq!(opens(key().until(hour(-1))), [false, false]);
        assert_eq!(opens(key().after(before, hour(1))), [true, true]);
        assert_eq!(opens(key().after(before, hour(-1))), [true, false]);
        assert_eq!(opens(key().until(hour(-1)).after(before, hour(1))), [false, false], "the key's own end holds");
        let table = KeyTable::new(vec![key().after(before, hour(1))], EmptyKeyPolicy::Open);
        let who = secrets.map(|secret| table.identify(&headers(&[("x-api-key", secret)])).unwrap());
        assert_eq!(who[0].caller(), who[1].caller(), "both secrets are one caller");
        let expired = KeyTable::new(vec![key().until(hour(-1))], EmptyKeyPolicy::Open);
        let refused = |secret: &str| expired.identify(&headers(&[("x-api-key", secret)])).unwrap_err();
        assert!(!refused("now").is_guess && refused("wrong").is_guess, "an expired key is not a guess");
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
        let ann = table.identify(&headers(&[("x-api-key", &first_secret)])).unwrap();
        let permit = ann.authority().permit().unwrap();
        assert!(permit.allows("files", "read") && !permit.allows("mail", "send"));
    }

    #[test]
    fn what_was_used_up_stays_used_up_when_keys_are_read_again() {
        let key = ApiKey::generate("ann").1.with_quota(CallQuota::per_minute(1));
        let first = KeyTable::new(vec![key.clone()], EmptyKeyPolicy::Open);
        let begin = |table: &KeyTable| table.allowances["ann"].begin();
        assert!(begin(&first).is_ok());
        let again = KeyTable::following(vec![key.clone()], EmptyKeyPolicy::Open, &first);
        assert!(begin(&again).is_err());
        let wider = vec![key.with_quota(CallQuota::per_minute(2))];
        assert!(begin(&KeyTable::following(wider, EmptyKeyPolicy::Open, &again)).is_ok(), "another quota begins again");
    }

    #[test]
    fn a_key_does_not_show_itself() {
        let (secret, key) = ApiKey::generate("ann");
        assert!(!format!("{key:?}").contains(&secret[6..]) && !format!("{key:?}").contains(&key.digest().to_hex()));
    }
}
