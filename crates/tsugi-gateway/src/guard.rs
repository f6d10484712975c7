//! Access control: every request passes here before any face sees it.
//!
//! Order: [`origin`] (is this address ours, may this web page call), then [`credential`], [`api_key`], [`sign_in`] and
//! [`certificate`] (who calls). The result is an [`authority`], which travels with the request. What a caller may see and call
//! is its [`permit`] and the [`policy`], asked by the hub, since only the hub knows which server a public name stands for.
//! How many calls a caller may make is asked where a call begins, since one request may bring many.

pub mod api_key;
pub mod authority;
pub mod caller_access;
pub mod certificate;
pub(crate) mod cors;
pub mod credential;
mod guess_limit;
pub mod oauth;
pub mod origin;
pub mod permit;
pub mod policy;
pub mod principal;
pub mod proxy_trust;
pub mod quota;
pub(crate) mod rate_limit;
pub mod refusal;
pub mod sign_in;

use std::future::Future;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::header::ORIGIN;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use tokio::sync::watch;
use tsugi_auth::challenge::ChallengeError;
use tsugi_protocol::answer::Caller;

use api_key::{EmptyKeyPolicy, KeyTable};
use authority::Authority;
use caller_access::{CallerAccess, ServerTenants};
use certificate::{CertificateGuard, CertificateRule, PeerCertificate};
use credential::{CredentialVerifier, CredentialVerifiers};
use guess_limit::GuessLimiter;
use oauth::login::{FinishedLogin, LoginService};
use oauth::resource::{ChallengeReason, ResourceDirectory, ResourcePath};
use origin::OriginGuard;
use policy::{PolicyGate, PolicyGuard};
use principal::Principal;
use proxy_trust::ProxyTrust;
use refusal::HttpRefusal;
use sign_in::cookie::CookiePolicy;
use sign_in::{HiddenAddress, PersonSignIn, SignInCredential, SignInGrant, SignInId, SignInTable};

use crate::config::GatewayConfig;
use crate::face::fault::RefusalChallenge;
use crate::telemetry::GatewayMetrics;

/// The checks that hold for every route.
pub struct AccessGuard {
    origin: OriginGuard,
    keys: ArcSwap<KeyTable>,
    /// What it means when the last key goes.
    empty: EmptyKeyPolicy,
    /// Notified when the keys were replaced or a sign-in ended, so that open connections can be checked again.
    replaced: watch::Sender<()>,
    verifiers: CredentialVerifiers,
    /// Set where callers are asked for a certificate.
    certificates: Option<CertificateGuard>,
    /// Set where tokens of an issuer are accepted.
    resources: Option<Arc<ResourceDirectory>>,
    /// Set where people sign in at the dashboard through a provider.
    logins: Option<Arc<LoginService>>,
    /// How often credentials are looked at again whose holders have a connection open.
    recheck: Duration,
    sessions: SignInTable,
    tenants: ArcSwap<ServerTenants>,
    /// Empty where no policy is configured.
    policy: ArcSwapOption<PolicyGuard>,
    /// Where denials of a policy in shadow mode are counted.
    metrics: OnceLock<Arc<GatewayMetrics>>,
    guesses: GuessLimiter,
    proxies: ProxyTrust,
}

impl AccessGuard {
    /// The guard that a configuration asks for.
    pub fn new(config: &GatewayConfig) -> Self {
        let empty = if config.needs_keys() { EmptyKeyPolicy::Shut } else { EmptyKeyPolicy::Open };
        Self {
            origin: OriginGuard::new(config),
            keys: ArcSwap::from_pointee(KeyTable::new(config.keys.clone(), empty)),
            empty,
            replaced: watch::Sender::new(()),
            verifiers: CredentialVerifiers::default(),
            certificates: config.tls.clone().filter(|_| config.knows_certificates()).map(CertificateGuard::new),
            resources: None,
            logins: None,
            recheck: config.limits.keep_alive,
            sessions: SignInTable::new(config.limits.session_idle, CookiePolicy::new(config)),
            tenants: ArcSwap::default(),
            policy: ArcSwapOption::empty(),
            metrics: OnceLock::new(),
            guesses: GuessLimiter::new(Instant::now()),
            proxies: ProxyTrust::new(config.trusted_proxies.clone()),
        }
    }

    /// The same guard, at the addresses that tokens are issued for. Its refusals say where to get one.
    pub fn with_resources(mut self, resources: Arc<ResourceDirectory>) -> Self {
        self.resources = Some(resources);
        self
    }

    /// The same guard, at whose dashboard people sign in through these providers, too.
    pub fn with_logins(mut self, logins: LoginService) -> Self {
        self.logins = Some(Arc::new(logins));
        self
    }

    /// The providers of the dashboard; `None` without any.
    pub(crate) fn logins(&self) -> Option<&LoginService> {
        self.logins.as_deref()
    }

    /// The same guard, which lets in the holders of certificates that a rule matches and no others.
    pub fn with_certificate_rules(mut self, rules: Vec<CertificateRule>) -> Self {
        if let Some(certificates) = &mut self.certificates {
            certificates.set_rules(rules);
        }
        self
    }

    /// True when a certificate can say who calls.
    pub fn knows_certificates(&self) -> bool {
        self.certificates.is_some()
    }

    /// True when access tokens of an issuer are accepted, so that no caller needs a key.
    pub fn accepts_tokens(&self) -> bool {
        self.resources.is_some()
    }

    /// The addresses that tokens are issued for; `None` without an issuer.
    pub(crate) fn resources(&self) -> Option<&ResourceDirectory> {
        self.resources.as_deref()
    }

    /// The addresses that tokens are issued for, if some calls need more than the base scopes.
    pub(crate) fn scoped_resources(&self) -> Option<&ResourceDirectory> {
        self.resources().filter(|resources| !resources.rules().is_empty())
    }

    /// The challenge that belongs to a refusal, where tokens are accepted.
    pub(crate) fn challenge(&self, refusal: &HttpRefusal, path: &str) -> Option<RefusalChallenge> {
        let resources = self.resources()?;
        // A 403 without a reason is about a permit: no other token would help.
        if refusal.challenge.is_none() && refusal.status != StatusCode::UNAUTHORIZED {
            return None;
        }
        let known = ChallengeReason {
            error: ChallengeError::InvalidToken,
            description: "the credential is not accepted",
            scope: None,
        };
        let reason = refusal.challenge.as_deref().or(refusal.is_guess.then_some(&known));
        let path = ResourcePath::of(path);
        let header = HeaderValue::try_from(resources.challenge(path, reason)).ok()?;
        Some(RefusalChallenge { header, data: resources.challenge_data(path, reason) })
    }

    /// The same guard, which accepts another kind of credential too.
    pub fn with_verifier(mut self, verifier: Arc<dyn CredentialVerifier>) -> Self {
        self.verifiers.add(verifier);
        self
    }

    /// Refuses a request for another name or from a foreign web page. Gives the page that it comes from when the
    /// configuration names that.
    pub(crate) fn check_origin(&self, parts: &Parts) -> Result<Option<HeaderValue>, HttpRefusal> {
        self.origin.check(parts)?;
        Ok(parts.headers.get(ORIGIN).filter(|_| self.origin.is_listed(parts)).cloned())
    }

    /// Finds out who sent a request: by a token, a key, a sign-in at the dashboard, or a certificate, in this order.
    /// Without any of them the caller is a guest on pages that are open to everyone, and refused elsewhere.
    pub(crate) async fn identify(&self, parts: &Parts, is_open: bool, peer: IpAddr) -> Result<Principal, HttpRefusal> {
        if self.resources.is_some() {
            oauth::resource::expect_one_credential(parts)?;
        }
        let refusal = match self.identify_secret(parts, peer).await {
            Ok(principal) => return Ok(principal),
            Err(refusal) => refusal,
        };
        match self.identify_cookie(parts) {
            Ok(Some(principal)) => return Ok(principal),
            Ok(None) => {}
            // A link on another page leads here. Its reader is a guest, as with a cookie that browsers do not send then.
            Err(_) if is_open && parts.method.is_safe() => return Ok(Principal::guest()),
            Err(refusal) => return Err(refusal),
        }
        match self.identify_certificate(parts) {
            Some(Ok(principal)) => Ok(principal),
            _ if is_open => Ok(Principal::guest()),
            Some(Err(refusal)) => Err(refusal),
            None => Err(refusal),
        }
    }

    /// Whom the certificate of the connection names; `None` without one. A browser shows it with requests of any page, so
    /// the page must be ours.
    fn identify_certificate(&self, parts: &Parts) -> Option<Result<Principal, HttpRefusal>> {
        let certificates = self.certificates.as_ref()?;
        let peer = parts.extensions.get::<Arc<PeerCertificate>>()?;
        // A wrong key or token must not fall back to the certificate.
        if api_key::has_secret(&parts.headers) {
            return None;
        }
        if origin::expect_own(parts).is_err() {
            let message = "a certificate does not speak for other web pages: send a key or a token";
            return Some(Err(HttpRefusal::forbidden(message).by("page")));
        }
        let holder = certificates.identify(peer);
        Some(holder.map(|(authority, caller)| Principal::of_certificate(authority, caller, peer.clone())))
    }

    /// Who signed in at the dashboard. A browser sends the cookie with requests of any page, so the page must be ours.
    fn identify_cookie(&self, parts: &Parts) -> Result<Option<Principal>, HttpRefusal> {
        // A wrong key must not fall back to a cookie that happens to be there.
        if api_key::has_secret(&parts.headers) {
            return Ok(None);
        }
        let Some(carried) = self.sessions.find(parts) else { return Ok(None) };
        let principal = match &carried.credential {
            SignInCredential::Key(digest) => {
                self.keys.load().holder(*digest).map(|principal| principal.signed_in(carried.id))
            }
            SignInCredential::Person(person) => {
                let authority = Some(&person.authority).filter(|authority| authority.is_current());
                authority.map(|authority| Principal::of_person(authority.clone(), carried.id))
            }
        };
        let Some(principal) = principal else {
            self.sessions.end(&carried.id);
            return Ok(None);
        };
        // The cookie alone proves nothing: any page can make the browser send it.
        origin::expect_own(parts)?;
        sign_in::expect_csrf(parts, &carried.csrf)?;
        Ok(Some(principal))
    }

    /// Whether there is a key that opens the gateway.
    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.load().is_empty()
    }

    /// Whether callers need a key.
    pub fn asks_for_keys(&self) -> bool {
        !self.admits_anybody()
    }

    /// True when callers need no credential at all.
    fn admits_anybody(&self) -> bool {
        self.keys.load().admits_anybody() && !self.verifiers.close_gateway() && self.certificates.is_none()
    }

    /// True when this gateway may never be without keys: others can reach it, and `--insecure` was not given.
    pub fn needs_keys(&self) -> bool {
        self.empty == EmptyKeyPolicy::Shut
    }

    /// True when every caller is refused: the last key is gone, and without it everyone could come in.
    pub fn refuses_everyone(&self) -> bool {
        self.keys.load().is_shut() && !self.accepts_tokens() && !self.knows_certificates()
    }

    /// Whether a caller that was let in would be let in now, as the same one. Asking counts as use of a sign-in.
    pub(crate) fn still_admits(&self, principal: &Principal) -> bool {
        if let (Some(peer), Some(certificates)) = (principal.certificate(), &self.certificates) {
            return principal.authority().is_current() && certificates.still_trusts(peer);
        }
        match principal.session() {
            // A sign-in ends by itself, and with its key or its person's rights.
            Some(session) => principal.authority().is_current() && self.sessions.is_alive(&session),
            None if principal.is_authenticated() => principal.authority().is_current(),
            None => self.admits_anybody(),
        }
    }

    /// Waits until a caller that was let in would not be let in any more: the keys were replaced, they
    /// signed out, their credential has ended or does not hold any more.
    pub(crate) fn dismissal(self: &Arc<Self>, principal: &Principal) -> impl Future<Output = ()> + Send + 'static {
        let (guard, principal, mut replaced) = (self.clone(), principal.clone(), self.replaced.subscribe());
        async move {
            while guard.still_admits(&principal) {
                tokio::select! {
                    // The guard that we hold has the other end.
                    _ = replaced.changed() => {}
                    () = end_of(principal.authority()) => {}
                    () = guard.verifiers.loss(&principal, guard.recheck) => return,
                }
            }
        }
    }

    /// Refuses an order that another web page makes a browser send, unless the configuration names that page.
    pub(crate) fn expect_own_page(&self, parts: &Parts) -> Result<(), HttpRefusal> {
        match self.origin.is_listed(parts) {
            true => Ok(()),
            false => origin::expect_own(parts),
        }
    }

    /// Signs the holder of a key in at the dashboard.
    pub(crate) fn sign_in(
        &self,
        secret: &str,
        parts: &Parts,
        peer: IpAddr,
    ) -> Result<(Principal, SignInGrant), HttpRefusal> {
        self.check_guesses(parts, peer)?;
        let keys = self.keys.load();
        let Some(digest) = keys.find(secret) else {
            self.guesses.count(self.proxies.client_of(peer, &parts.headers), Instant::now());
            return Err(HttpRefusal::wrong_credential("this key is not known").by("key"));
        };
        let principal =
            keys.holder(digest).ok_or(HttpRefusal::unauthorized("this key has expired").by("key.expired"))?;
        let (session, signed_in) = self.sessions.begin_with_key(digest, parts);
        Ok((principal.signed_in(session), signed_in))
    }

    /// Signs a person in at the dashboard whom a provider has named.
    pub(crate) fn sign_in_person(&self, login: FinishedLogin, parts: &Parts) -> (Principal, SignInGrant) {
        let authority = Arc::new(login.authority);
        if let Some(before) = &login.replaces {
            self.sign_out(before);
        }
        let logout = login.logout.map(|address| HiddenAddress(address.into()));
        let person = PersonSignIn { authority: authority.clone(), logout };
        let (session, grant) =
            self.sessions.begin(SignInCredential::Person(person), login.limits, parts, login.security);
        (Principal::of_person(authority, session), grant)
    }

    /// Counts a sign-in that failed at a provider like a wrong key: each costs us a request there.
    pub(crate) fn count_failed_login(&self, parts: &Parts, peer: IpAddr) {
        self.guesses.count(self.proxies.client_of(peer, &parts.headers), Instant::now());
    }

    /// Refuses an address that has sent too many wrong credentials, before any digest is computed.
    pub(crate) fn check_guesses(&self, parts: &Parts, peer: IpAddr) -> Result<(), HttpRefusal> {
        self.guesses.check(|| self.proxies.client_of(peer, &parts.headers), Instant::now)
    }

    /// Ends a sign-in. Gives the address where the browser can sign out at the provider, too, if there is one.
    pub(crate) fn sign_out(&self, session: &SignInId) -> Option<Arc<str>> {
        let ended = self.sessions.end(session);
        // Open streams of this sign-in end now.
        self.replaced.send_replace(());
        match ended {
            Some(SignInCredential::Person(person)) => person.logout.map(|HiddenAddress(address)| address),
            _ => None,
        }
    }

    /// The value of `Set-Cookie` that takes the session of a request away.
    pub(crate) fn clear_cookie(&self, parts: &Parts) -> String {
        let carried = self.sessions.cookies().session_of(parts).map(|(_, security)| security);
        carried.unwrap_or_else(|| self.sessions.cookies().security(parts)).clear_session()
    }

    /// The word that unsafe requests of this sign-in must bring; `None` when it has ended. Asking counts as use.
    pub(crate) fn csrf(&self, session: &SignInId) -> Option<Arc<str>> {
        self.sessions.csrf(session)
    }

    async fn identify_secret(&self, parts: &Parts, peer: IpAddr) -> Result<Principal, HttpRefusal> {
        let found = self.verifiers.find(parts);
        if found.is_none() && self.admits_anybody() {
            return Ok(Principal::anonymous());
        }
        // A request without a credential guesses nothing.
        if api_key::has_secret(&parts.headers) {
            self.check_guesses(parts, peer)?;
        }
        let identified = match found {
            Some((verifier, secret)) => credential::identify(verifier, secret, parts).await,
            None => {
                let identified = self.keys.load().identify(&parts.headers);
                match identified {
                    Err(refusal) if refusal.is_guess => self.identify_unknown(parts, refusal).await,
                    identified => identified,
                }
            }
        };
        identified.inspect_err(|refusal| {
            if refusal.is_guess {
                self.guesses.count(self.proxies.client_of(peer, &parts.headers), Instant::now());
            }
        })
    }

    /// The holder of a credential that looks like a key and is none. Only what was never a key is shown to an issuer.
    async fn identify_unknown(&self, parts: &Parts, refusal: HttpRefusal) -> Result<Principal, HttpRefusal> {
        match self.verifiers.find_unknown(parts) {
            Some((verifier, secret)) => credential::identify(verifier, secret, parts).await,
            None => Err(refusal),
        }
    }

    /// What a caller's request may see and use now.
    pub fn access(&self, caller: &Caller) -> CallerAccess {
        let access = CallerAccess::new(caller, &self.tenants.load(), self.resources.as_ref());
        match self.policy() {
            None => access,
            Some(gate) => access.under(gate, caller),
        }
    }

    /// The policy, where there is one.
    pub(crate) fn policy(&self) -> Option<PolicyGate> {
        let guard = self.policy.load_full()?;
        Some(PolicyGate { guard, metrics: self.metrics.get().cloned() })
    }

    /// Decides by these rules from now on, or by none. Calls under way are not affected.
    pub fn replace_policy(&self, policy: Option<PolicyGuard>) {
        self.policy.store(policy.map(Arc::new));
    }

    pub(crate) fn count_in(&self, metrics: &Arc<GatewayMetrics>) {
        let _ = self.metrics.set(metrics.clone());
    }

    /// The address that a request came from, where a policy looks at it.
    pub(crate) fn policy_address(&self, parts: &Parts, peer: IpAddr) -> Option<IpAddr> {
        let policy = self.policy.load();
        let reads_address = policy.as_ref().is_some_and(|policy| policy.set().reads().address);
        reads_address.then(|| self.proxies.client_of(peer, &parts.headers))
    }

    /// Shows the servers to these tenants alone from now on.
    pub(crate) fn replace_tenants(&self, tenants: ServerTenants) {
        self.tenants.store(Arc::new(tenants));
    }

    /// Replaces the keys. Calls under way are not affected. Connections end whose key is gone or has other rights now:
    /// their clients come back and get those.
    pub fn replace_keys(&self, keys: Vec<api_key::ApiKey>) {
        let before = self.keys.load_full();
        let table = Arc::new(KeyTable::following(keys, self.empty, &before));
        self.keys.store(table.clone());
        before.revoke_all_but(&table);
        self.replaced.send_replace(());
    }

    /// Makes open connections check whether their callers would still be let in.
    pub(crate) fn check_again(&self) {
        self.replaced.send_replace(());
    }
}

/// Waits until an authority has ended by itself. The system clock may be changed, so it is read once a minute.
async fn end_of(authority: &Authority) {
    const LOOK: Duration = Duration::from_secs(60);
    let Some(end) = authority.end() else { return std::future::pending().await };
    while let Ok(left) = end.duration_since(SystemTime::now())
        && !left.is_zero()
    {
        tokio::time::sleep(left.min(LOOK)).await;
    }
}
