//! API keys: kept as digests, found by digest, so that neither a disk nor a clock gives one away.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, StatusCode};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tsugi_protocol::answer::{Caller, FaultCode};

use super::origin::{Single, single};
use super::permit::Permit;
use super::principal::Principal;
use super::quota::{Bucket, Quota};
use super::refusal::Refusal;

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Looking at the dashboard, and nothing else.
    Reader,
    /// Calls.
    User,
    /// Calls and control.
    Admin,
}

/// A key, without the key itself.
#[derive(Clone)]
pub struct Key {
    /// Whose it is; calls carry this name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// What it may use; `None` means everything.
    pub permit: Option<Arc<Permit>>,
    digest: [u8; 32],
    quota: Option<(Quota, Arc<Mutex<Bucket>>)>,
}

impl Key {
    /// A new key that nobody can guess: the secret to hand out once, and what to keep.
    pub fn generate(name: impl Into<String>) -> (String, Self) {
        let random: [u8; 32] = rand::random();
        let secret = format!("tsugi_{}", BASE64_URL_SAFE_NO_PAD.encode(random));
        let key = Self::of_secret(name, &secret);
        (secret, key)
    }

    /// A key from its secret. A plain digest suffices because secrets are long and random.
    pub fn of_secret(name: impl Into<String>, secret: &str) -> Self {
        Self { name: name.into(), role: Role::User, permit: None, digest: sha256(secret), quota: None }
    }

    /// A key from its digest in hexadecimal, as it is stored; `None` when that is no SHA-256.
    pub fn of_digest(name: impl Into<String>, hex: &str) -> Option<Self> {
        let mut digest = [0; 32];
        if hex.len() != 64 || !hex.is_ascii() {
            return None;
        }
        for (index, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[index * 2..index * 2 + 2], 16).ok()?;
        }
        Some(Self { name: name.into(), role: Role::User, permit: None, digest, quota: None })
    }

    /// The digest in hexadecimal, for storing.
    pub fn digest_hex(&self) -> String {
        self.digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// For this purpose.
    pub fn with_role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// With access to this alone.
    pub fn with_permit(mut self, permit: Permit) -> Self {
        self.permit = Some(Arc::new(permit));
        self
    }

    /// No more often than this.
    pub fn with_quota(mut self, quota: Quota) -> Self {
        self.quota = Some((quota, Arc::new(Mutex::new(Bucket::full(quota, Instant::now())))));
        self
    }

    pub(super) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Who its holder is to servers.
    pub(super) fn caller(&self) -> Caller {
        match self.role {
            Role::Reader | Role::User => Caller::new(&self.name),
            Role::Admin => Caller::new(&self.name).as_operator(),
        }
    }

    pub(super) fn spend(&self) -> Result<(), Refusal> {
        let Some((quota, bucket)) = &self.quota else { return Ok(()) };
        bucket.lock().take(*quota, Instant::now()).map_err(|wait| {
            let message = format!("the key {:?} has used up its {} calls a minute", self.name, quota.per_minute);
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, FaultCode::RateLimitExceeded, message).retry_after(wait)
        })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

pub(super) fn sha256(secret: &str) -> [u8; 32] {
    digest(&SHA256, secret.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// All keys, found by digest.
#[derive(Debug)]
pub struct KeyTable {
    by_digest: HashMap<[u8; 32], (Arc<Key>, Caller)>,
    permits: HashMap<String, Arc<Permit>>,
}

static X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

impl KeyTable {
    /// A table of these keys. Without any, everybody is let in.
    pub fn new(keys: Vec<Key>) -> Self {
        let permits = keys.iter().filter_map(|key| Some((key.name.clone(), key.permit.clone()?))).collect();
        let with_caller = |key: Key| (key.digest, (Arc::new(key.clone()), key.caller()));
        Self { by_digest: keys.into_iter().map(with_caller).collect(), permits }
    }

    /// Who sends these headers.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Principal, Refusal> {
        if self.by_digest.is_empty() {
            return Ok(Principal::anonymous());
        }
        let secret = secret_of(headers)?;
        match self.by_digest.get(&sha256(secret)) {
            Some((key, caller)) => Ok(Principal::of_key(key.clone(), caller.clone())),
            None => Err(Refusal::unauthorized("this key is not known")),
        }
    }

    /// True when nobody has to say who they are.
    pub(super) fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    /// The digest by which a secret's key is found, when there is such a key.
    pub(super) fn find(&self, secret: &str) -> Option<[u8; 32]> {
        Some(sha256(secret)).filter(|digest| self.by_digest.contains_key(digest))
    }

    /// The holder of the key with this digest.
    pub(super) fn holder(&self, digest: &[u8; 32]) -> Option<Principal> {
        self.by_digest.get(digest).map(|(key, caller)| Principal::of_key(key.clone(), caller.clone()))
    }

    pub(super) fn permit(&self, principal: &str) -> Option<Arc<Permit>> {
        self.permits.get(principal).cloned()
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

fn secret_of(headers: &HeaderMap) -> Result<&str, Refusal> {
    match (single(headers, &AUTHORIZATION), single(headers, &X_API_KEY)) {
        (Single::One(value), Single::None) => {
            bearer(value).ok_or(Refusal::unauthorized("the Authorization header must be `Bearer <key>`"))
        }
        (Single::None, Single::One(key)) => Ok(key),
        (Single::None, Single::None) => Err(Refusal::unauthorized("a key is needed: `Authorization: Bearer <key>`")),
        _ => Err(Refusal::unauthorized("exactly one key is needed")),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_the_secret_itself_opens_the_door() {
        let (secret, key) = Key::generate("ann");
        let stored = Key::of_digest("ann", &key.digest_hex()).unwrap();
        let table = KeyTable::new(vec![stored]);
        let bearer = format!("bearer {secret}");
        for good in [("authorization", bearer.as_str()), ("x-api-key", secret.as_str())] {
            let principal = table.identify(&headers(&[good])).unwrap();
            assert_eq!(principal.caller().principal(), "ann");
            assert!(!principal.is_admin());
        }
        let digest = key.digest_hex();
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
    fn without_keys_everybody_is_anonymous() {
        let principal = KeyTable::new(Vec::new()).identify(&HeaderMap::new()).unwrap();
        assert!(!principal.is_authenticated() && principal.is_admin());
    }

    #[test]
    fn a_key_does_not_show_itself() {
        let (secret, key) = Key::generate("ann");
        assert!(!format!("{key:?}").contains(&secret[6..]) && !format!("{key:?}").contains(&key.digest_hex()));
    }
}
