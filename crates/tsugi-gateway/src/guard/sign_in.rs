//! Sign-ins at the dashboard: a cookie that stands for a key or a person, and a word that no foreign page can know.

pub(crate) mod cookie;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::request::Parts;
use http::{HeaderName, Method};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::api_key::SecretDigest;
use super::authority::Authority;
use super::origin::{SingleHeader, single};
use super::refusal::HttpRefusal;
use cookie::{CookiePolicy, CookieSecurity};

/// How many sign-ins there can be; the one that was unused longest makes room.
const MOST: usize = 1024;
/// How long a sign-in with a key lasts, used or not.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

static X_TSUGI_CSRF: HeaderName = HeaderName::from_static("x-tsugi-csrf");

/// A sign-in, by the digest of its cookie: what is kept here opens no door.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SignInId(SecretDigest);

impl SignInId {
    pub(in crate::guard) fn of_cookie(cookie: &str) -> Self {
        Self(SecretDigest::of(cookie))
    }
}

impl fmt::Debug for SignInId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SessionId")
    }
}

/// What a page gets when a user signs in.
pub(crate) struct SignInGrant {
    cookie: String,
    security: CookieSecurity,
    /// What unsafe requests must bring in `X-Tsugi-Csrf`.
    pub(crate) csrf: Arc<str>,
}

impl SignInGrant {
    /// The value of `Set-Cookie`.
    pub(crate) fn set_cookie(&self) -> String {
        self.security.set_session(&self.cookie)
    }
}

/// How long a sign-in lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignInLimits {
    /// Without a request.
    pub idle: Duration,
    /// Used or not.
    pub longest: Duration,
}

/// What a sign-in stands for.
#[derive(Debug, Clone)]
pub(super) enum SignInCredential {
    /// The key with this digest. It ends the sign-in when it is taken away.
    Key(SecretDigest),
    /// A person whom a provider has named, with the rights of that moment.
    Person(PersonSignIn),
}

/// A person who signed in through a provider.
#[derive(Debug, Clone)]
pub(super) struct PersonSignIn {
    /// Of this sign-in alone, so that it can be taken away with it.
    pub(super) authority: Arc<Authority>,
    /// Where the browser can sign out at the provider, too. It may hold an ID token, so it is not printed.
    pub(super) logout: Option<HiddenAddress>,
}

/// An address that is not printed.
#[derive(Clone)]
pub(super) struct HiddenAddress(pub(super) Arc<str>);

impl fmt::Debug for HiddenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HiddenAddress")
    }
}

/// All sign-ins, in memory only.
pub(super) struct SignInTable {
    limits: SignInLimits,
    cookies: CookiePolicy,
    table: Mutex<HashMap<SignInId, SignInRow>>,
}

struct SignInRow {
    credential: SignInCredential,
    csrf: Arc<str>,
    limits: SignInLimits,
    began: Instant,
    used: Instant,
}

impl SignInRow {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.used) > self.limits.idle || now.duration_since(self.began) > self.limits.longest
    }
}

/// A sign-in that a request carries.
pub(super) struct CarriedSignIn {
    pub(super) id: SignInId,
    pub(super) csrf: Arc<str>,
    pub(super) credential: SignInCredential,
}

impl SignInTable {
    pub(super) fn new(idle: Duration, cookies: CookiePolicy) -> Self {
        Self { limits: SignInLimits { idle, longest: LONGEST }, cookies, table: Mutex::default() }
    }

    pub(super) fn cookies(&self) -> &CookiePolicy {
        &self.cookies
    }

    /// Signs the holder of a key in.
    pub(super) fn begin_with_key(&self, key: SecretDigest, parts: &Parts) -> (SignInId, SignInGrant) {
        self.begin(SignInCredential::Key(key), self.limits, parts, self.cookies.security(parts))
    }

    /// Signs in. The cookie is always a new one, and a sign-in that the browser had before ends: an attacker who planted a
    /// cookie knows neither.
    pub(super) fn begin(
        &self,
        credential: SignInCredential,
        limits: SignInLimits,
        parts: &Parts,
        security: CookieSecurity,
    ) -> (SignInId, SignInGrant) {
        let (cookie, csrf): (String, Arc<str>) = (unguessable(), unguessable().into());
        let (session, now) = (SignInId::of_cookie(&cookie), Instant::now());
        if let Some((before, _)) = self.cookies.session_of(parts) {
            self.end(&SignInId::of_cookie(before));
        }
        let mut table = self.table.lock();
        // Swept when someone signs in, which is rare, so that no timer is needed.
        table.retain(|_, session| !session.is_over(now));
        // The sign-in that was unused for longest makes room.
        if table.len() >= MOST
            && let Some(oldest) = table.iter().min_by_key(|(_, session)| session.used).map(|(id, _)| *id)
        {
            table.remove(&oldest);
        }
        table.insert(session, SignInRow { credential, csrf: csrf.clone(), limits, began: now, used: now });
        (session, SignInGrant { cookie, security, csrf })
    }

    /// The sign-in that a request carries.
    pub(super) fn find(&self, parts: &Parts) -> Option<CarriedSignIn> {
        // The table has digests only: reading memory or a dump does not give a cookie.
        let id = SignInId::of_cookie(self.cookies.session_of(parts)?.0);
        self.touch(&id, |row| CarriedSignIn { id, csrf: row.csrf.clone(), credential: row.credential.clone() })
    }

    pub(super) fn csrf(&self, session: &SignInId) -> Option<Arc<str>> {
        self.touch(session, |found| found.csrf.clone())
    }

    /// Whether a sign-in goes on. Asking counts as use.
    pub(super) fn is_alive(&self, session: &SignInId) -> bool {
        self.touch(session, |_| ()).is_some()
    }

    /// Ends a sign-in, and gives what it stood for. The calls of a person end with it.
    pub(super) fn end(&self, session: &SignInId) -> Option<SignInCredential> {
        let row = self.table.lock().remove(session)?;
        if let SignInCredential::Person(person) = &row.credential {
            person.authority.revoke();
        }
        Some(row.credential)
    }

    fn touch<T>(&self, session: &SignInId, read: impl FnOnce(&SignInRow) -> T) -> Option<T> {
        let (mut table, now) = (self.table.lock(), Instant::now());
        let found = table.get_mut(session)?;
        if found.is_over(now) {
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

/// A request that may change something must bring the word that only our own page was given.
pub(super) fn expect_csrf(parts: &Parts, csrf: &str) -> Result<(), HttpRefusal> {
    if matches!(parts.method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    match single(&parts.headers, &X_TSUGI_CSRF) {
        // Digests are compared, so that the time it takes says nothing.
        SingleHeader::One(given) if SecretDigest::of(given) == SecretDigest::of(csrf) => Ok(()),
        _ => {
            Err(HttpRefusal::forbidden("a request with the dashboard's cookie needs the header X-Tsugi-Csrf")
                .by("csrf"))
        }
    }
}

#[cfg(test)]
mod tests {
    use tsugi_protocol::answer::Identity;

    use super::*;
    use crate::config::GatewayConfig;

    fn table(idle: Duration) -> SignInTable {
        SignInTable::new(idle, CookiePolicy::new(&GatewayConfig::default()))
    }

    fn with_cookie(cookie: &str) -> Parts {
        http::Request::builder().uri("/").header("cookie", cookie).body(()).unwrap().into_parts().0
    }

    fn is_of_key(found: Option<CarriedSignIn>, key: &str) -> bool {
        found.is_some_and(|found| matches!(found.credential, SignInCredential::Key(of) if of == SecretDigest::of(key)))
    }

    fn pair(grant: &SignInGrant) -> String {
        grant.set_cookie().split(';').next().unwrap().to_owned()
    }

    fn person(name: &str) -> (SignInCredential, Arc<Authority>) {
        let authority = Arc::new(Authority::new(Identity::subject("corp", name)));
        (SignInCredential::Person(PersonSignIn { authority: authority.clone(), logout: None }), authority)
    }

    #[test]
    fn only_the_cookie_itself_stands_for_the_key() {
        let sessions = table(Duration::from_secs(60));
        let (id, signed_in) = sessions.begin_with_key(SecretDigest::of("7"), &with_cookie(""));
        let pair = pair(&signed_in);
        assert!(is_of_key(sessions.find(&with_cookie(&format!("a=b; {pair}; c=d"))), "7"));
        for bad in ["", "tsugi_session=", "tsugi_session=x", &format!("{pair}; {pair}"), &format!("x{pair}")] {
            assert!(sessions.find(&with_cookie(bad)).is_none(), "{bad}");
        }
        sessions.end(&id);
        assert!(sessions.find(&with_cookie(&pair)).is_none());
    }

    #[test]
    fn sign_ins_are_bounded_and_end_when_unused() {
        let sessions = table(Duration::ZERO);
        let (id, _) = sessions.begin_with_key(SecretDigest::of("1"), &with_cookie(""));
        // Longer than nothing has passed as soon as the clock moves.
        while sessions.csrf(&id).is_some() {}
        let sessions = table(Duration::from_secs(60));
        let first = sessions.begin_with_key(SecretDigest::of("1"), &with_cookie("")).0;
        for _ in 0..MOST {
            sessions.begin_with_key(SecretDigest::of("2"), &with_cookie(""));
        }
        assert_eq!(sessions.table.lock().len(), MOST);
        assert!(sessions.csrf(&first).is_none());
    }

    #[test]
    fn a_sign_in_ends_at_its_own_limit_however_often_it_is_used() {
        let sessions = table(Duration::from_secs(60));
        let limits = SignInLimits { idle: Duration::from_secs(60), longest: Duration::ZERO };
        let (id, _) = sessions.begin(person("ann").0, limits, &with_cookie(""), CookieSecurity::Plain);
        while sessions.is_alive(&id) {}
        assert!(sessions.table.lock().is_empty());
    }

    #[test]
    fn a_new_sign_in_never_takes_a_cookie_over_and_ends_the_one_before() {
        let sessions = table(Duration::from_secs(60));
        let limits = sessions.limits;
        let (attacker, authority) = person("mallory");
        let (_, planted) = sessions.begin(attacker, limits, &with_cookie(""), CookieSecurity::Plain);
        let planted = with_cookie(&pair(&planted));
        let (_, own) = sessions.begin(person("ann").0, limits, &planted, CookieSecurity::Plain);
        assert!(sessions.find(&planted).is_none() && !authority.is_current());
        assert!(sessions.find(&with_cookie(&pair(&own))).is_some());
    }

    #[test]
    fn signing_out_takes_the_rights_of_a_person_away() {
        let sessions = table(Duration::from_secs(60));
        let (credential, authority) = person("ann");
        let (id, _) = sessions.begin(credential, sessions.limits, &with_cookie(""), CookieSecurity::Plain);
        assert!(authority.is_current());
        sessions.end(&id);
        assert!(!authority.is_current());
    }
}
