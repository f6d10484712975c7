//! Sign-ins at the dashboard: a cookie that stands for a key, and a word that no foreign page can know.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::COOKIE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};
use parking_lot::Mutex;

use super::api_key::SecretDigest;
use super::origin::{SingleHeader, single};
use super::refusal::HttpRefusal;

const NAME: &str = "tsugi_session";
/// How many sign-ins there can be; the one that was unused longest makes room.
const MOST: usize = 256;
/// How long a sign-in lasts, used or not.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

static X_TSUGI_CSRF: HeaderName = HeaderName::from_static("x-tsugi-csrf");

/// A sign-in, by the digest of its cookie: what is kept here opens no door.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignInId(SecretDigest);

impl fmt::Debug for SignInId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionId")
    }
}

/// What a page gets when a user signs in.
pub(crate) struct SignInGrant {
    cookie: String,
    /// What unsafe requests must bring in `X-Tsugi-Csrf`.
    pub(crate) csrf: Arc<str>,
}

impl SignInGrant {
    /// The value of `Set-Cookie`. The gateway speaks plain HTTP, so `Secure` would keep the cookie away from it.
    pub(crate) fn set_cookie(&self) -> String {
        format!("{NAME}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie)
    }
}

/// The value of `Set-Cookie` that takes the cookie away.
pub(crate) fn clear_cookie() -> String {
    format!("{NAME}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0")
}

/// All sign-ins, in memory only.
pub(super) struct SignInTable {
    idle: Duration,
    table: Mutex<HashMap<SignInId, SignInRow>>,
}

struct SignInRow {
    /// The digest of the key that was used.
    key: SecretDigest,
    csrf: Arc<str>,
    began: Instant,
    used: Instant,
}

impl SignInRow {
    fn is_over(&self, idle: Duration, now: Instant) -> bool {
        now.duration_since(self.used) > idle || now.duration_since(self.began) > LONGEST
    }
}

impl SignInTable {
    pub(super) fn new(idle: Duration) -> Self {
        Self { idle, table: Mutex::default() }
    }

    /// Signs the holder of a key in.
    pub(super) fn begin(&self, key: SecretDigest) -> (SignInId, SignInGrant) {
        let (cookie, csrf): (String, Arc<str>) = (unguessable(), unguessable().into());
        let (session, now) = (SignInId(SecretDigest::of(&cookie)), Instant::now());
        let mut table = self.table.lock();
        // Swept when someone signs in, which is rare, so that no timer is needed.
        table.retain(|_, session| !session.is_over(self.idle, now));
        // The sign-in that was unused for longest makes room.
        if table.len() >= MOST
            && let Some(oldest) = table.iter().min_by_key(|(_, session)| session.used).map(|(id, _)| *id)
        {
            table.remove(&oldest);
        }
        table.insert(session, SignInRow { key, csrf: csrf.clone(), began: now, used: now });
        (session, SignInGrant { cookie, csrf })
    }

    /// The sign-in that these headers carry, its word against forgery, and the digest of its key.
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<(SignInId, Arc<str>, SecretDigest)> {
        // The table has digests only: reading memory or a dump does not give a cookie.
        let session = SignInId(SecretDigest::of(cookie_of(headers)?));
        self.touch(&session, |found| (session, found.csrf.clone(), found.key))
    }

    pub(super) fn csrf(&self, session: &SignInId) -> Option<Arc<str>> {
        self.touch(session, |found| found.csrf.clone())
    }

    /// The digest of the key that was used.
    pub(super) fn key(&self, session: &SignInId) -> Option<SecretDigest> {
        self.touch(session, |found| found.key)
    }

    pub(super) fn end(&self, session: &SignInId) {
        self.table.lock().remove(session);
    }

    fn touch<T>(&self, session: &SignInId, read: impl FnOnce(&SignInRow) -> T) -> Option<T> {
        let (mut table, now) = (self.table.lock(), Instant::now());
        let found = table.get_mut(session)?;
        if found.is_over(self.idle, now) {
            table.remove(session);
            return None;
        }
        found.used = now;
        Some(read(found))
    }
}

fn unguessable() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// The value of our cookie. Two of them are an attack, and then neither counts.
fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut ours = pairs.filter(|(name, _)| *name == NAME).map(|(_, value)| value);
    match (ours.next(), ours.next()) {
        (Some(value), None) => Some(value),
        _ => None,
    }
}

/// A request that may change something must bring the word that only our own page was given.
pub(super) fn expect_csrf(parts: &Parts, csrf: &str) -> Result<(), HttpRefusal> {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    match single(&parts.headers, &X_TSUGI_CSRF) {
        // Digests are compared, so that the time it takes says nothing.
        SingleHeader::One(given) if SecretDigest::of(given) == SecretDigest::of(csrf) => Ok(()),
        _ => Err(HttpRefusal::forbidden("a request with the dashboard's cookie needs the header X-Tsugi-Csrf")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_cookie(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, cookie.parse().unwrap())])
    }

    #[test]
    fn only_the_cookie_itself_stands_for_the_key() {
        let sessions = SignInTable::new(Duration::from_secs(60));
        let (id, signed_in) = sessions.begin(SecretDigest::of("7"));
        let set = signed_in.set_cookie();
        let pair = set.split(';').next().unwrap();
        assert_eq!(sessions.find(&with_cookie(&format!("a=b; {pair}; c=d"))).unwrap().2, SecretDigest::of("7"));
        for bad in ["", "tsugi_session=", "tsugi_session=x", &format!("{pair}; {pair}"), &format!("x{pair}")] {
            assert!(sessions.find(&with_cookie(bad)).is_none(), "{bad}");
        }
        sessions.end(&id);
        assert!(sessions.find(&with_cookie(pair)).is_none());
    }

    #[test]
    fn sign_ins_are_bounded_and_end_when_unused() {
        let sessions = SignInTable::new(Duration::ZERO);
        let (id, _) = sessions.begin(SecretDigest::of("1"));
        // Longer than nothing has passed as soon as the clock moves.
        while sessions.csrf(&id).is_some() {}
        let sessions = SignInTable::new(Duration::from_secs(60));
        let first = sessions.begin(SecretDigest::of("1")).0;
        for _ in 0..MOST {
            sessions.begin(SecretDigest::of("2"));
        }
        assert_eq!(sessions.table.lock().len(), MOST);
        assert!(sessions.csrf(&first).is_none());
    }
}
