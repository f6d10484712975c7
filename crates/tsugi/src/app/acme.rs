//! Certificates from an ACME authority ([RFC 8555](https://www.rfc-editor.org/rfc/rfc8555)): ordered while the gateway
//! runs, and renewed before they end.
//!
//! What comes is written to one file, key and chain together, so that they always fit. The listener takes it over as it
//! takes over any certificate that changes on disk.

mod http_client;
mod storage;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use tsugi_outbound::{OutboundGuard, OutboundRules};
use tsugi_tls::acme_challenge::{ChallengeTable, OfferedProof};
use tsugi_tls::certificate::CertificateFacts;
use tsugi_tls::upstream::{UpstreamTls, UpstreamTlsSettings};
use tsugi_transport::guarded_fetch::GuardedFetch;

use crate::config::settings::{AcmeChallenge, AcmeSettings};
use crate::failure::CommandFailure;
use http_client::AuthorityClient;
use storage::CertificateStorage;

/// How long after a failure the next attempt follows, at first and at most. Authorities limit failed orders per hour.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 60 * 60);

/// Keeps the gateway's certificate fresh.
pub(crate) struct CertificateKeeper {
    settings: AcmeSettings,
    storage: CertificateStorage,
    fetch: GuardedFetch,
    challenges: Arc<ChallengeTable>,
}

/// Why there is no new certificate.
#[derive(Debug, thiserror::Error)]
enum OrderFailure {
    #[error(transparent)]
    Protocol(#[from] instant_acme::Error),
    #[error("the authority does not offer the challenge `{0}` for {1}")]
    NoChallenge(&'static str, String),
    #[error("the authority did not accept the proof for {0}")]
    NotProved(String),
    #[error("a certificate could not be made: {0}")]
    Made(#[from] rcgen::Error),
    #[error("a certificate could not be used: {0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Storage(#[from] std::io::Error),
}

impl CertificateKeeper {
    /// Makes the storage ready. A gateway that has no certificate yet begins with one of its own, which no client trusts:
    /// the authority must reach it before there is a better one.
    pub(crate) fn prepare(settings: &AcmeSettings, outbound: &OutboundRules) -> Result<Self, CommandFailure> {
        let unusable = |what: &str, error: &dyn std::fmt::Display| {
            CommandFailure::usage(format!("cannot use `gateway.tls.acme`: {what}: {error}"))
        };
        let tls = UpstreamTlsSettings { ca: settings.ca.clone(), ..UpstreamTlsSettings::default() };
        let tls = UpstreamTls::new(tls).config(SystemTime::now()).map_err(|error| unusable("`ca`", &error))?;
        let mut rules = outbound.clone();
        // The operator names the authority, so its host may be private. What it leads to is checked like anything else.
        if let Some(host) = url::Url::parse(&settings.directory).ok().and_then(|url| url.host_str().map(str::to_owned))
        {
            rules.allow.add(&host).map_err(|error| unusable("`directory`", &error))?;
        }
        let storage = CertificateStorage::new(settings);
        if storage.certificate().is_none_or(|facts| facts.is_expired(SystemTime::now())) {
            let placeholder =
                placeholder(&settings.domains).map_err(|error| unusable("a first certificate", &error))?;
            storage.write_certificate(&placeholder).map_err(|error| unusable("`storage`", &error))?;
        }
        Ok(Self {
            settings: settings.clone(),
            storage,
            fetch: GuardedFetch::with_tls(OutboundGuard::new(rules), tls.config),
            challenges: Arc::default(),
        })
    }

    pub(crate) fn challenges(&self) -> Arc<ChallengeTable> {
        self.challenges.clone()
    }

    /// Orders a certificate whenever one is due, until it is dropped.
    pub(crate) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let due = self.due();
            tokio::time::sleep(due.duration_since(SystemTime::now()).unwrap_or_default()).await;
            match self.order().await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    tracing::info!(domains = ?self.settings.domains, "a certificate was issued");
                }
                Err(error) => {
                    let wait = pause.mul_f64(1.0 + rand::random::<f64>() / 4.0);
                    tracing::warn!(%error, retry_in = ?wait, "no certificate could be ordered");
                    tokio::time::sleep(wait).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// When the next certificate is to be ordered: at once when the one in use is not of this authority.
    fn due(&self) -> SystemTime {
        match self.storage.certificate().filter(|facts| self.storage.has_issued(facts)) {
            Some(facts) => renewal_time(&facts, rand::random()),
            None => SystemTime::UNIX_EPOCH,
        }
    }

    async fn order(&self) -> Result<(), OrderFailure> {
        let account = self.account().await?;
        let names: Vec<Identifier> = self.settings.domains.iter().cloned().map(Identifier::Dns).collect();
        let mut order = account.new_order(&NewOrder::new(&names)).await?;
        let mut proofs = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            let host = authorization.identifier().to_string();
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                _ => return Err(OrderFailure::NotProved(host)),
            }
            let (kind, name) = match self.settings.challenge {
                AcmeChallenge::TlsAlpn => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
                AcmeChallenge::Http => (ChallengeType::Http01, "http-01"),
            };
            let missing = OrderFailure::NoChallenge(name, host.clone());
            let mut challenge = authorization.challenge(kind).ok_or(missing)?;
            let answer = challenge.key_authorization();
            proofs.push(match self.settings.challenge {
                AcmeChallenge::TlsAlpn => self.offer_certificate(&host, answer.digest().as_ref())?,
                AcmeChallenge::Http => self.challenges.offer_text(&challenge.token, answer.as_str()),
            });
            challenge.set_ready().await?;
        }
        if order.poll_ready(&RetryPolicy::default()).await? != OrderStatus::Ready {
            return Err(OrderFailure::NotProved(self.settings.domains.join(", ")));
        }
        drop(proofs);
        let key = order.finalize().await?;
        let chain = order.poll_certificate(&RetryPolicy::default()).await?;
        self.storage.write_issued(&(key + &chain))?;
        Ok(())
    }

    /// The certificate that proves a name: it holds the digest of the answer, and no authority has signed it.
    fn offer_certificate(&self, host: &str, digest: &[u8]) -> Result<OfferedProof, OrderFailure> {
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
        Ok(self.challenges.offer_certificate(host, certificate.der().clone(), key.into())?)
    }

    /// The account at this authority: the one that was made before, or a new one.
    async fn account(&self) -> Result<Account, OrderFailure> {
        let builder = Account::builder_with_http(Box::new(AuthorityClient(self.fetch.clone())));
        if let Some(credentials) = self.storage.account() {
            return Ok(builder.from_credentials(credentials).await?);
        }
        let contact = self.settings.email.as_ref().map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        // The configuration is refused unless it accepts the terms.
        let account = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let (account, credentials) = builder.create(&account, self.settings.directory.clone(), None).await?;
        self.storage.write_account(&credentials)?;
        Ok(account)
    }
}

/// Two thirds into the life of a certificate. `jitter`, from 0 to 1, takes it up to a twentieth of the life earlier, so
/// that gateways which began together do not renew together.
fn renewal_time(facts: &CertificateFacts, jitter: f64) -> SystemTime {
    let life = facts.not_after.duration_since(facts.not_before).unwrap_or_default();
    facts.not_before + (life * 2 / 3).saturating_sub(life.mul_f64(jitter / 20.0))
}

/// A certificate of our own for these names, with its key.
fn placeholder(domains: &[String]) -> Result<String, rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(domains)?.self_signed(&key)?;
    Ok(key.serialize_pem() + &certificate.pem())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_life_or_a_little_earlier() {
        let pem = placeholder(&["a.example".to_owned()]).unwrap();
        let first = tsugi_tls::certificate::first_in_pem(pem.as_bytes()).unwrap();
        let hour = Duration::from_secs(3600);
        let begin = SystemTime::UNIX_EPOCH + hour;
        let facts = CertificateFacts {
            not_before: begin,
            not_after: begin + 90 * hour,
            ..CertificateFacts::read(&first).unwrap()
        };
        assert_eq!(renewal_time(&facts, 0.0), begin + 60 * hour);
        assert_eq!(renewal_time(&facts, 1.0), begin + 60 * hour - hour * 9 / 2);
    }
}
