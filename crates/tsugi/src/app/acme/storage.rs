//! What is kept between runs: the account, and the certificate with its key, readable by their owner only.

use std::io;
use std::path::PathBuf;

use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};
use tsugi_tls::certificate::{CertificateFacts, first_in_pem};

use crate::atomic_file;
use crate::config::settings::AcmeSettings;

pub(super) struct CertificateStorage {
    certificate: PathBuf,
    account: PathBuf,
    issued: PathBuf,
    directory: String,
    domains: Vec<String>,
}

/// An account belongs to the authority that made it.
#[derive(Serialize, Deserialize)]
struct StoredAccount<T> {
    directory: String,
    credentials: T,
}

/// Which certificate came from which authority, and for whom.
#[derive(PartialEq, Serialize, Deserialize)]
struct IssuedCertificate {
    directory: String,
    domains: Vec<String>,
    /// The SHA-256 of its public key.
    key: String,
}

impl CertificateStorage {
    pub(super) fn new(settings: &AcmeSettings) -> Self {
        Self {
            certificate: settings.certificate_file(),
            account: settings.storage.join("account.json"),
            issued: settings.storage.join("issued.json"),
            directory: settings.directory.clone(),
            domains: settings.domains.clone(),
        }
    }

    /// The certificate in use.
    pub(super) fn certificate(&self) -> Option<CertificateFacts> {
        let pem = std::fs::read(&self.certificate).ok()?;
        CertificateFacts::read(&first_in_pem(&pem)?).ok()
    }

    pub(super) fn write_certificate(&self, pem: &str) -> io::Result<()> {
        atomic_file::write_private(&self.certificate, pem.as_bytes())
    }

    /// Keeps a certificate that the authority issued.
    pub(super) fn write_issued(&self, pem: &str) -> io::Result<()> {
        let facts = first_in_pem(pem.as_bytes()).and_then(|first| CertificateFacts::read(&first).ok());
        let facts = facts.ok_or_else(|| io::Error::other("the authority sent something else than a certificate"))?;
        self.write_certificate(pem)?;
        atomic_file::write_private(&self.issued, &serde_json::to_vec(&self.note(&facts))?)
    }

    /// Whether this certificate came from the authority of the settings, for the names of the settings.
    pub(super) fn has_issued(&self, facts: &CertificateFacts) -> bool {
        let noted = std::fs::read(&self.issued).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        noted.is_some_and(|noted: IssuedCertificate| noted == self.note(facts))
    }

    fn note(&self, facts: &CertificateFacts) -> IssuedCertificate {
        let key = facts.key.to_string();
        IssuedCertificate { directory: self.directory.clone(), domains: self.domains.clone(), key }
    }

    /// The account at the authority of the settings.
    pub(super) fn account(&self) -> Option<AccountCredentials> {
        let bytes = std::fs::read(&self.account).ok()?;
        let stored: StoredAccount<AccountCredentials> = serde_json::from_slice(&bytes).ok()?;
        (stored.directory == self.directory).then_some(stored.credentials)
    }

    pub(super) fn write_account(&self, credentials: &AccountCredentials) -> io::Result<()> {
        let stored = StoredAccount { directory: self.directory.clone(), credentials };
        atomic_file::write_private(&self.account, &serde_json::to_vec(&stored)?)
    }
}
