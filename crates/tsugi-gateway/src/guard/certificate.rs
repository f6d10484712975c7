//! Callers that show a certificate: which of them are known, what they may do, and for how long.
//!
//! TLS has verified the certificate before any request arrives. What is decided here is whom it names in this gateway. A
//! key or token in a request comes first: a caller that sends one means it, while a certificate is shown unasked.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use globset::{GlobBuilder, GlobMatcher};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use tsugi_protocol::answer::identity::{CertificateName, TenantName};
use tsugi_protocol::answer::{Caller, Identity};
use tsugi_tls::client_auth::{CertificateIdentity, UntrustedCertificate};
use tsugi_tls::server::{ConnectionTls, ServerTls};

use super::api_key::KeyRole;
use super::authority::Authority;
use super::permit::AccessPermit;
use super::quota::CallQuota;
use super::rate_limit::KeyRateLimit;
use super::refusal::HttpRefusal;
use crate::gateway::StartError;

/// Callers whose rate limits are remembered at most.
const MAX_LEDGERS: usize = 10_000;
/// A certificate names its last second.
const LAST_SECOND: Duration = Duration::from_secs(1);

/// The names that a rule is about, with stars.
#[derive(Debug, Clone)]
pub struct NamePattern(GlobMatcher);

/// What the holders of certificates with some names may do.
#[derive(Debug, Clone)]
pub struct CertificateRule {
    pub pattern: NamePattern,
    pub role: KeyRole,
    pub tenant: Option<TenantName>,
    pub permit: Option<Arc<AccessPermit>>,
    pub quota: Option<CallQuota>,
    pub max_in_flight: Option<usize>,
}

impl CertificateRule {
    /// Users who may use everything and whose name matches: `spiffe://corp.example/agent/*`, `dns:*.example.com`,
    /// `cn:ann`. A star stands for anything but a slash, two stars for anything.
    pub fn new(pattern: &str) -> Result<Self, StartError> {
        let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
        let glob = glob
            .map_err(|error| StartError::Pattern { pattern: pattern.to_owned(), reason: error.kind().to_string() })?;
        let pattern = NamePattern(glob.compile_matcher());
        Ok(Self { pattern, role: KeyRole::User, tenant: None, permit: None, quota: None, max_in_flight: None })
    }
}

/// A caller's certificate, as it was verified when the connection began.
#[derive(Debug)]
pub(crate) struct PeerCertificate {
    identity: CertificateIdentity,
    chain: Vec<CertificateDer<'static>>,
    /// What was trusted when the chain was verified last.
    verified: Mutex<ConnectionTls>,
    /// Found with the first request, and the same for all of the connection.
    known: OnceLock<Option<KnownHolder>>,
}

#[derive(Debug)]
struct KnownHolder {
    authority: Arc<Authority>,
    caller: Caller,
}

impl PeerCertificate {
    /// Who shows this chain; `None` where no certificate is asked for or none was shown.
    pub(crate) fn identify(
        connection: ConnectionTls,
        chain: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Result<Option<Self>, UntrustedCertificate> {
        if !connection.asks_for_certificates() || chain.is_empty() {
            return Ok(None);
        }
        let identity = connection.identify(chain, now)?;
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Ok(Some(Self { identity, chain, verified: Mutex::new(connection), known: OnceLock::new() }))
    }

    /// Whether it would be accepted now: it may have expired or been revoked while the connection was open.
    fn is_trusted(&self, tls: &ServerTls, now: SystemTime) -> bool {
        if self.identity.facts.is_expired(now) {
            return false;
        }
        let mut verified = self.verified.lock();
        // Verified again only when the files have changed since: that costs as much as many calls.
        if tls.is_current(&verified) {
            return true;
        }
        let current = tls.begin();
        let is_same = current.identify(&self.chain, now).is_ok_and(|identity| identity.name == self.identity.name);
        if is_same {
            *verified = current;
        }
        is_same
    }
}

/// Decides about certificates.
pub(super) struct CertificateGuard {
    tls: Arc<ServerTls>,
    /// The first that matches counts. `None`: every trusted certificate makes a user who may use everything.
    rules: Option<Vec<CertificateRule>>,
    /// The rate limits of callers, shared by all their connections.
    ledgers: Mutex<HashMap<Identity, Arc<KeyRateLimit>>>,
}

impl CertificateGuard {
    pub(super) fn new(tls: Arc<ServerTls>) -> Self {
        Self { tls, rules: None, ledgers: Mutex::default() }
    }

    pub(super) fn set_rules(&mut self, rules: Vec<CertificateRule>) {
        self.rules = Some(rules);
    }

    /// The holder of a certificate.
    pub(super) fn identify(&self, peer: &PeerCertificate) -> Result<(Arc<Authority>, Caller), HttpRefusal> {
        if !self.still_trusts(peer) {
            tracing::info!(target: "tsugi_access", rule = "certificate", name = %peer.identity.name, "refused a certificate that is not trusted any more");
            return Err(HttpRefusal::unauthorized("this certificate is not accepted any more"));
        }
        match peer.known.get_or_init(|| self.holder(&peer.identity)) {
            Some(known) => Ok((known.authority.clone(), known.caller.clone())),
            None => {
                tracing::info!(target: "tsugi_access", rule = "auth.certificates", name = %peer.identity.name, "refused a certificate that no entry matches");
                Err(HttpRefusal::forbidden("the holder of this certificate may not use this gateway"))
            }
        }
    }

    /// Whether a certificate is still accepted. One that is not ends the calls of its connection, too.
    pub(super) fn still_trusts(&self, peer: &PeerCertificate) -> bool {
        let is_trusted = peer.is_trusted(&self.tls, SystemTime::now());
        if let (false, Some(Some(known))) = (is_trusted, peer.known.get()) {
            known.authority.revoke();
        }
        is_trusted
    }

    fn holder(&self, certificate: &CertificateIdentity) -> Option<KnownHolder> {
        let name = certificate.name.as_str();
        let rule = match &self.rules {
            None => None,
            Some(rules) => Some(rules.iter().find(|rule| rule.pattern.0.is_match(name))?),
        };
        let identity = Identity::Certificate(CertificateName::new(name));
        let ledger = rule.and_then(|rule| self.ledger(rule, &identity));
        let authority = Authority::new(identity).until(certificate.facts.not_after + LAST_SECOND);
        let authority = rule.into_iter().fold(authority, |authority, rule| {
            let authority = authority.with_role(rule.role);
            let authority = rule.tenant.iter().cloned().fold(authority, Authority::of_tenant);
            rule.permit.iter().fold(authority, |authority, permit| authority.with_permit(permit.clone()))
        });
        let authority = Arc::new(ledger.into_iter().fold(authority, |authority, ledger| authority.with_quota(ledger)));
        Some(KnownHolder { caller: authority.clone().into_caller(), authority })
    }

    /// What the calls of this caller may take, over all of its connections.
    fn ledger(&self, rule: &CertificateRule, identity: &Identity) -> Option<Arc<KeyRateLimit>> {
        (rule.quota.is_some() || rule.max_in_flight.is_some()).then(|| {
            let mut ledgers = self.ledgers.lock();
            if ledgers.len() >= MAX_LEDGERS && !ledgers.contains_key(identity) {
                // Those in use are held by an authority, too. The others begin again with a full bucket.
                ledgers.retain(|_, ledger| Arc::strong_count(ledger) > 1);
            }
            let fresh = || Arc::new(KeyRateLimit::new(&identity.to_string(), rule.quota, rule.max_in_flight));
            ledgers.entry(identity.clone()).or_insert_with(fresh).clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_of_a_rule_does_not_cross_a_slash() {
        let matches = |pattern: &str, name: &str| CertificateRule::new(pattern).unwrap().pattern.0.is_match(name);
        assert!(matches("spiffe://corp.example/agent/*", "spiffe://corp.example/agent/one"));
        assert!(!matches("spiffe://corp.example/agent/*", "spiffe://corp.example/agent/one/root"));
        assert!(matches("spiffe://corp.example/**", "spiffe://corp.example/agent/one/root"));
        assert!(!matches("spiffe://corp.example/*", "spiffe://corp.example.evil/x"));
        assert!(!matches("dns:*", "cn:dns:x"), "a pattern is about the whole name");
        assert!(matches("cn:Ann Example", "cn:Ann Example") && !matches("cn:Ann Example", "cn:ann example"));
        assert!(CertificateRule::new("[").is_err());
    }
}
