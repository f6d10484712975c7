//! A certificate chain and its private key, checked before they are used.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::InconsistentKeys;
use rustls::sign::CertifiedKey;

use crate::certificate::CertificateFacts;
use crate::error::TlsFileError;
use crate::{pem_file, provider};

/// Where a certificate chain and its key are. One file may hold both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPairFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A pair that may be used: the key fits, the chain parses, and the certificate is valid now.
#[derive(Debug, Clone)]
pub(crate) struct CheckedKeyPair {
    pub(crate) certified: Arc<CertifiedKey>,
    pub(crate) facts: CertificateFacts,
}

impl CheckedKeyPair {
    pub(crate) fn check(files: &KeyPairFiles, cert: &[u8], key: &[u8], now: SystemTime) -> Result<Self, TlsFileError> {
        let chain = pem_file::certificates(&files.cert, cert)?;
        let mut facts = Vec::with_capacity(chain.len());
        for certificate in &chain {
            facts.push(CertificateFacts::read(certificate).map_err(|error| malformed(&files.cert, error))?);
        }
        // The first one is the server's own; the file has at least one.
        let facts = facts.swap_remove(0);
        // Clients check the time of the others against the path that they build, which may leave some out.
        check_time(&files.cert, &facts, now)?;
        let key = pem_file::private_key(&files.key, key)?;
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| unfit(files, error))?;
        Ok(Self { certified: Arc::new(certified), facts })
    }
}

fn malformed(path: &Path, error: crate::certificate::CertificateReadError) -> TlsFileError {
    TlsFileError::Certificate { path: path.to_owned(), error }
}

fn check_time(path: &Path, facts: &CertificateFacts, now: SystemTime) -> Result<(), TlsFileError> {
    if (facts.not_before..=facts.not_after).contains(&now) {
        return Ok(());
    }
    Err(TlsFileError::OutOfTime { path: path.to_owned(), is_over: facts.is_expired(now) })
}

fn unfit(files: &KeyPairFiles, error: rustls::Error) -> TlsFileError {
    match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            TlsFileError::KeyMismatch { cert: files.cert.clone(), key: files.key.clone() }
        }
        error => TlsFileError::Key { path: files.key.clone(), error },
    }
}
